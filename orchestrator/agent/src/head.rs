//! What an agent requires of its machine and its nodes, as traits: a cluster implements them, and so can a simulation.

use super::{
    error::{AgentError, ReadyError},
    nodes,
    protocol::{Event, Orders},
    ready::get_ready,
    spool::{EventLog, Spool},
    spot_interruption::{NodeNotice, SpotWatch},
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
    remove_kept,
};
use cvc_engine::crew::Leaving;
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

/// Nodes that do not answer, each with the reason.
pub type LostNodes = BTreeMap<String, String>;

/// The machine on which an agent runs.
#[async_trait]
pub trait Head: Send + Sync {
    /// Returns the agent's own process.
    ///
    /// # Errors
    /// The system does not list the process.
    fn process(&self) -> Result<ProcessId, AgentError>;

    /// Returns a notification that is triggered when a signal asks the agent to end.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    fn terminated(&self) -> Result<Arc<Notify>, AgentError>;

    /// Returns a watch for requests that arrive in a spool.
    fn arrivals(&self, spool: &Spool) -> Arrivals;

    /// Sets up the nodes. Returns the nodes, and the event that reports them to the controller. `takes_over` means that an earlier agent used these
    /// nodes.
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

    /// Ends the processes that a killed agent's attempt left on this machine. Called if no nodes can be set up. The killed agent's sentinels on the
    /// other nodes end their processes themselves, because their connection is closed.
    ///
    /// # Errors
    /// The attempt's directory cannot be read or removed.
    fn end_leftovers(
        &self,
        spool: &Spool,
        orders: &Orders,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<(), StoreError>;
}

/// The nodes of an agent, on which it carries out attempts.
#[async_trait]
pub trait Workplace: Send + Sync {
    /// Returns the names of all nodes, including lost ones.
    fn nodes(&self) -> Vec<String>;

    /// Returns the name of the node on which the agent works.
    fn head(&self) -> &str;

    /// Returns a receiver of the currently lost nodes.
    fn lost(&self) -> watch::Receiver<LostNodes>;

    /// Returns the cloud's next notice about a node; `None` if there is none.
    fn notice(&self) -> Option<NodeNotice>;

    /// Notifies the running attempts that a node will be reclaimed.
    fn announce(&self, _node: &str, _leaving: Leaving) {}

    /// Removes the notice about a node.
    fn forget_notice(&self, _node: &str) {}

    /// Treats a node as lost, and ends its processes.
    fn take(&self, _node: &str) {}

    /// Carries out an attempt; see [`Executor`](cvc_engine::attempt::Executor).
    ///
    /// # Errors
    /// The attempt's directory cannot be written.
    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, RunError>;

    /// Ends what an earlier agent's attempt left running. Returns the outcome if the attempt was complete; otherwise removes its files.
    ///
    /// # Errors
    /// The attempt's directory cannot be read or removed.
    async fn recover(
        &self,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<Option<OutcomeFile>, StoreError>;

    /// Tries to reach these lost nodes again, and removes the directories whose removal was deferred from the nodes that are back.
    async fn bring_back(&self, wanted: BTreeSet<String>);

    /// Removes the campaign's directories on the other nodes. Returns a message for each that could not be removed.
    async fn clear(&self) -> Vec<String>;

    /// Releases all nodes.
    async fn close(&self);
}

/// This machine as the head node of a cluster.
pub(super) struct ThisHead {
    /// Path of `cvc-node`.
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
        let notify = Arc::clone(&terminated);
        tokio::spawn(async move {
            while terminate.recv().await.is_some() {
                notify.notify_one();
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

/// Real nodes, each with its sentinel.
struct OnNodes {
    executor: LocalExecutor,
    spool: Spool,
    /// Directories of the storage areas, by area.
    areas: BTreeMap<String, Utf8PathBuf>,
    /// Whether the other nodes share the spool; `None` if no node has answered.
    spool_kind: Option<StorageKind>,
    /// Watches for nodes that the cloud reclaims; created at the first query.
    watch: Mutex<Option<SpotWatch>>,
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
            *watch = SpotWatch::begin(&self.executor.nodes, ec2.instances.market);
        }
        watch.as_mut()?.next()
    }

    fn announce(&self, node: &str, leaving: Leaving) {
        self.executor.nodes.crew.note_leaving(node, leaving);
    }

    fn forget_notice(&self, node: &str) {
        self.executor.nodes.crew.forget_leaving(node);
    }

    fn take(&self, node: &str) {
        self.executor.nodes.crew.lose(node, "taken, as rehearsed");
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

    /// Only on the other nodes: the directories of this node are removed by the controller, or are shared with the other nodes.
    async fn clear(&self) -> Vec<String> {
        let (kept, of_kept) = match remove_kept(&self.executor.dir) {
            Ok(kept) => (kept, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let of_kept =
            of_kept.map(|error| format!("the campaign was not removed completely: {error}"));
        let nodes = &self.executor.nodes;
        let others = nodes.others();
        if others.is_empty() {
            return of_kept.into_iter().collect();
        }
        let mut dirs: Vec<PathBuf> = kept;
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
            .map(|e| format!("the campaign was not removed completely: {e}"))
            .chain(of_kept)
            .collect()
    }

    async fn close(&self) {
        self.executor.nodes.crew.close().await;
    }
}
