//! What an agent needs of the machine that it works on, and of the nodes: a cluster has it, and a simulation can.

use super::{
    error::{AgentError, ReadyError},
    nodes,
    protocol::{Event, Orders},
    ready::get_ready,
    spool::{EventLog, Spool},
    spot_interruption::{NodeNotice, Watch},
    wake::{ARRIVALS, Arrivals},
};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_core::campaign::StorageKind;
use cvc_core::ids::below;
use cvc_core::stop::StopSignal;
use cvc_core::store::{OutcomeFile, StoreError};
use cvc_engine::attempt::{
    AttemptReporter, AttemptResult, LATER, LocalExecutor, RunError, Task, area_name, recover_run,
};
use cvc_os::proc::ProcessId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, watch},
};
use tracing::Instrument;

/// Nodes that do not answer, with the reason.
pub type LostNodes = BTreeMap<String, String>;

/// The machine that an agent works on.
#[async_trait]
pub trait Head: Send + Sync {
    /// Returns the agent's own process.
    ///
    /// # Errors
    /// When the system does not list it.
    fn process(&self) -> Result<ProcessId, AgentError>;

    /// Returns what is notified when the agent is to end.
    ///
    /// # Errors
    /// When signals cannot be waited for.
    fn terminated(&self) -> Result<Arc<Notify>, AgentError>;

    /// Watches for requests that arrive in a spool.
    fn arrivals(&self, spool: &Spool) -> Arrivals;

    /// Gathers the nodes. Returns them with the event that reports them. `takes_over` tells that another agent had them before.
    ///
    /// # Errors
    /// The reason why the agent cannot work.
    async fn get_ready(
        &self,
        spool: &Spool,
        orders: &Orders,
        takes_over: bool,
        log: &mut EventLog,
    ) -> Result<(Arc<dyn Workplace>, Event), ReadyError>;

    /// Ends what an agent that was killed left of an attempt on this machine, where no nodes can be gathered to do so. The nodes themselves
    /// end what nobody asks for any more.
    ///
    /// # Errors
    /// When its directory cannot be read or removed.
    fn end_leftovers(
        &self,
        spool: &Spool,
        orders: &Orders,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<(), StoreError>;
}

/// The nodes of an agent, and attempts on them.
#[async_trait]
pub trait Workplace: Send + Sync {
    /// Returns the names of all nodes, lost ones included.
    fn nodes(&self) -> Vec<String>;

    /// Returns the name of the node on which the agent works.
    fn head(&self) -> &str;

    /// Returns the lost nodes, as they change.
    fn lost(&self) -> watch::Receiver<LostNodes>;

    /// Returns the next thing that the cloud announced about a node, if it has.
    fn notice(&self) -> Option<NodeNotice>;

    /// Carries out an attempt: see [`Executor`](cvc_engine::attempt::Executor).
    ///
    /// # Errors
    /// When its directory cannot be written.
    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, RunError>;

    /// Ends what an earlier agent left of an attempt. Returns its outcome if it was complete; otherwise nothing of it stays.
    ///
    /// # Errors
    /// When its directory cannot be read or removed.
    async fn recover(
        &self,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<Option<OutcomeFile>, StoreError>;

    /// Tries to reach these lost nodes again, and removes what was left on those that are back.
    async fn bring_back(&self, wanted: BTreeSet<String>);

    /// Removes the campaign's directories on the other nodes. Returns what could not be removed.
    async fn clear(&self) -> Vec<String>;

    /// Lets all nodes go.
    async fn close(&self);
}

/// This machine, as the head of a cluster.
pub(super) struct ThisHead {
    /// `cvc-node`.
    pub program: Utf8PathBuf,
}

#[async_trait]
impl Head for ThisHead {
    fn process(&self) -> Result<ProcessId, AgentError> {
        ProcessId::own().map_err(|error| AgentError::Unable(error.to_string()))
    }

    fn terminated(&self) -> Result<Arc<Notify>, AgentError> {
        let mut terminate = signal(SignalKind::terminate())
            .map_err(|e| AgentError::Unable(format!("cannot wait for signals: {e}")))?;
        let terminated = Arc::new(Notify::new());
        let tell = Arc::clone(&terminated);
        tokio::spawn(async move {
            while terminate.recv().await.is_some() {
                tell.notify_one();
            }
        });
        Ok(terminated)
    }

    fn arrivals(&self, spool: &Spool) -> Arrivals {
        Arrivals::of(&spool.requests(), ARRIVALS)
    }

    async fn get_ready(
        &self,
        spool: &Spool,
        orders: &Orders,
        takes_over: bool,
        log: &mut EventLog,
    ) -> Result<(Arc<dyn Workplace>, Event), ReadyError> {
        let ready = get_ready(spool, orders, takes_over, &self.program, log).await?;
        let areas = nodes::areas(orders, spool.root());
        let on_nodes = OnNodes {
            executor: ready.executor,
            spool: spool.clone(),
            areas,
            spool_kind: ready.spool_kind,
            watch: Mutex::default(),
        };
        Ok((Arc::new(on_nodes), ready.ready))
    }

    fn end_leftovers(
        &self,
        spool: &Spool,
        orders: &Orders,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<(), StoreError> {
        let mut context = orders.context.clone();
        context.base = spool.root().to_owned();
        recover_run(
            &spool.campaign(),
            |_| Some(&context),
            &task.planned.id,
            task.attempt,
            shepherd,
        )
        .map(drop)
    }
}

/// Real nodes, each with a sentinel.
struct OnNodes {
    executor: LocalExecutor,
    spool: Spool,
    /// Directories of storage areas.
    areas: BTreeMap<String, Utf8PathBuf>,
    /// Whether the other nodes see the spool, as far as any was there to be asked.
    spool_kind: Option<StorageKind>,
    /// Watches for nodes that the cloud reclaims: from the first question on.
    watch: Mutex<Option<Watch>>,
}

#[async_trait]
impl Workplace for OnNodes {
    fn nodes(&self) -> Vec<String> {
        self.executor
            .nodes
            .all
            .iter()
            .map(|node| node.name.clone())
            .collect()
    }

    fn head(&self) -> &str {
        &self.executor.nodes.head.name
    }

    fn lost(&self) -> watch::Receiver<LostNodes> {
        self.executor.nodes.crew.lost()
    }

    fn notice(&self) -> Option<NodeNotice> {
        let ec2 = self.executor.site.context.site.ec2.as_ref()?;
        let mut watch = self.watch.lock();
        if watch.is_none() {
            *watch = Watch::begin(&self.executor.nodes, ec2.instances.market);
        }
        watch.as_mut()?.next()
    }

    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, RunError> {
        self.executor.attempt(task, stop_signal, reporter).await
    }

    async fn recover(
        &self,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<Option<OutcomeFile>, StoreError> {
        Ok(self.executor.recover(task, shepherd).await?.1)
    }

    async fn bring_back(&self, wanted: BTreeSet<String>) {
        self.executor
            .bring_back(|name| wanted.contains(name))
            .in_current_span()
            .await;
    }

    /// On this node the controller removes them, or they are the same.
    async fn clear(&self) -> Vec<String> {
        let nodes = &self.executor.nodes;
        let others = nodes.others();
        if others.is_empty() {
            return Vec::new();
        }
        let mut dirs: Vec<PathBuf> = Vec::new();
        let spool_kind = match self.spool_kind {
            Some(kind) => Some(kind),
            None => nodes::storage_kind(nodes, self.spool.root()).await.ok(),
        };
        if spool_kind == Some(StorageKind::NodeLocal) {
            dirs.push(self.spool.root().into());
        }
        let context = &self.executor.site.context;
        let kept = context.run.keep_images || context.run.keep_outputs;
        for (name, directory) in &self.areas {
            let area = context
                .site
                .storage
                .get(name)
                .filter(|a| a.path.is_some() && a.kind == StorageKind::NodeLocal);
            if area.is_some() && !kept {
                dirs.push(below(directory, &area_name(context, &self.executor.dir)).into());
            }
        }
        let removed = nodes.crew.remove(&others, &dirs, &[], LATER).await;
        removed
            .into_iter()
            .filter_map(|(_, removed)| removed.err())
            .map(|e| format!("not everything of the campaign is removed: {e}"))
            .collect()
    }

    async fn close(&self) {
        self.executor.nodes.crew.close().await;
    }
}
