//! A handle on one agent: started over ssh, or in a Slurm job of its own.

use super::{
    agent_state::{AgentEnd, AgentState, AttemptEnd, AttemptUpdate, DOUBTFUL, Ready, Reported},
    connection::Connection,
    head_node::{SHORT, get},
    job_monitor::Watch,
    setting::{Found, Setting},
};
use crate::error::CampaignError;
use crate::slurm::Stage;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::{AwaitedAttempt, DispatchId, Request};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::stop::{StopSignal, stop_now};
use cvc_core::store::OutcomeFile;
use cvc_core::units::counted;
use cvc_engine::attempt::{AttemptEvent, AttemptReporter, Task};
use cvc_journal::{Event, Lease};
use parking_lot::Mutex;
use std::{ops::Deref, sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Time limit from an agent's start to its first report of the nodes.
const READY_LIMIT: Duration = Duration::from_secs(900);
/// What is said of an agent with old orders.
pub(super) const OLD_FIRST: &str = "what was handed over before is ended and fetched first";
/// Number of panics after which a connection is not made again.
const MAX_PANICS: usize = 3;
/// Time limit for ending everything.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(150);

/// A handle on one agent.
pub(super) struct AgentHandle {
    setting: Arc<Setting>,
    pub root: Utf8PathBuf,
    pub agent_state: Arc<AgentState>,
    _connection: AbortOnDropHandle<()>,
    _watch: Option<Watch>,
    /// Name of its job.
    job: Option<String>,
    pub ready: Ready,
    /// Whether its orders are those of the campaign before it was changed: it ends what was handed over, and takes nothing new.
    pub has_old_orders: bool,
    /// Number of attempts that use it.
    users: watch::Sender<usize>,
}

/// An agent that an attempt works with: until this is dropped, what lies in its spool is not removed.
pub(super) struct AgentUse(Arc<AgentHandle>);

impl AgentUse {
    pub(super) fn begin(agent: Arc<AgentHandle>) -> Self {
        agent.users.send_modify(|users| *users += 1);
        Self(agent)
    }
}

impl Drop for AgentUse {
    fn drop(&mut self) {
        self.0.users.send_modify(|users| *users -= 1);
    }
}

impl Deref for AgentUse {
    type Target = AgentHandle;

    fn deref(&self) -> &AgentHandle {
        &self.0
    }
}

impl AgentHandle {
    fn connection(
        setting: &Arc<Setting>,
        root: &Utf8Path,
        agent_state: &Arc<AgentState>,
    ) -> AbortOnDropHandle<()> {
        let connection = Connection {
            head_node: Arc::clone(&setting.head_node),
            program: setting.program.clone(),
            root: root.to_owned(),
            agent_is_here: setting.slurm.is_none(),
            agent_state: Arc::clone(agent_state),
            reporter: setting.reporter.clone(),
            starts: Mutex::default(),
        };
        let reporter = setting.reporter.clone();
        setting.reporter.spawn(async move {
            // even after a panic the agent is to be closed
            for _ in 0..MAX_PANICS {
                reporter.guard(connection.work()).await;
            }
        })
    }

    pub(super) fn new(setting: &Arc<Setting>, root: &Utf8Path, job: Option<String>) -> Self {
        let agent_state = Arc::new(AgentState::new());
        let watch = setting
            .job_monitor
            .as_ref()
            .zip(job.as_deref())
            .map(|(monitor, job)| monitor.watch(job, &agent_state));
        Self {
            _connection: Self::connection(setting, root, &agent_state),
            _watch: watch,
            setting: Arc::clone(setting),
            root: root.to_owned(),
            agent_state,
            job,
            ready: Ready::default(),
            has_old_orders: false,
            users: watch::Sender::new(0),
        }
    }

    /// Waits until no attempt works with it.
    pub(super) async fn unused(&self) {
        let _ = self.users.subscribe().wait_for(|users| *users == 0).await;
    }

    /// Waits until no attempt works with it any more, at most this long.
    pub(super) async fn wait_until_unused(&self, limit: Duration) -> bool {
        // an error of the channel would mean that this handle is gone, and with it the last user
        tokio::time::timeout(limit, self.users.subscribe().wait_for(|users| *users == 0))
            .await
            .is_ok()
    }

    /// Starts an agent over ssh, or finds the running one. If the campaign was changed and runs of it that are still wanted were handed over, it
    /// is the one with the old orders. `None` if the user wanted to stop: then nothing is left there.
    pub async fn by_ssh(
        setting: &Arc<Setting>,
        wants_old: bool,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<Self>, CampaignError> {
        let root = setting.root.clone();
        let mut has_old_orders = false;
        match setting.make(&root).await? {
            Found::TheseOrders => {}
            Found::OtherOrders if wants_old => {
                setting.reporter.note(format!(
                    "{}: the campaign was changed; {OLD_FIRST}",
                    setting.name
                ));
                has_old_orders = true;
            }
            Found::OtherOrders => {
                setting.reporter.note(format!(
                    "{}: the campaign was changed; its old agent is closed",
                    setting.name
                ));
                let old = Self::new(setting, &root, None);
                old.close().await?;
                setting.clean(&root).await?;
                setting.make(&root).await?;
            }
            Found::OtherProtocol => {
                setting.put_aside(&root).await?;
                setting.make(&root).await?;
            }
        }
        let started = setting
            .head_node
            .run(&[setting.program.as_str(), "start", root.as_str()], SHORT)
            .await?;
        if started.code != Some(0) {
            return Err(setting.error(cannot_start(&started.stderr)));
        }
        let agent = Self {
            has_old_orders,
            ..Self::new(setting, &root, None)
        };
        agent.get_ready(stop_signal).await
    }

    /// Ends what an earlier controller left there, and removes everything.
    pub async fn end_old(setting: &Arc<Setting>, leases: &[Lease]) -> Result<(), CampaignError> {
        setting.reporter.note(format!(
            "{}: nothing is left to run; removing what is still there",
            setting.name
        ));
        if setting.slurm.is_some() {
            for lease in leases.iter().filter(|l| !l.released) {
                Self::end_job(setting, lease.name.as_str(), "nothing was left to run").await?;
            }
        } else if get(&*setting.head_node, &setting.root.join("orders.json"))
            .await?
            .is_some()
        {
            Self::new(setting, &setting.root.clone(), None)
                .close()
                .await?;
        }
        setting.clean_all().await
    }

    /// Cancels a job that is no longer needed.
    pub async fn end_job(setting: &Setting, job: &str, how: &str) -> Result<(), CampaignError> {
        if let Some(client) = &setting.slurm {
            client.cancel(job, CLOSE_LIMIT).await?;
            setting
                .reporter
                .write(Event::LeaseReleased {
                    lease: job.into(),
                    how: how.to_owned(),
                })
                .await;
        }
        Ok(())
    }

    /// The nodes that the agent reported when it was ready, even if it has ended since.
    pub(super) fn with_what_was_ready(mut self) -> Self {
        self.ready = self
            .agent_state
            .state()
            .was_ready
            .clone()
            .unwrap_or_default();
        self
    }

    /// Waits until the agent has its nodes.
    pub(super) async fn get_ready(
        mut self,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<Self>, CampaignError> {
        let waiting = self.agent_state.wait(|s| {
            if !s.replayed {
                return None;
            }
            let unable = s
                .unable
                .clone()
                .or_else(|| s.over.as_ref().map(|o| o.detail.clone()));
            unable.map(Err).or_else(|| s.ready.clone().map(Ok))
        });
        let waited = tokio::select! {
            biased;
            waited = tokio::time::timeout(READY_LIMIT, waiting) => Some(waited),
            () = stop_now(stop_signal) => None,
        };
        let problem = match waited {
            Some(Ok(Ok(ready))) => {
                self.setting.reporter.note(format!(
                    "{}: {} ready, {} each: {}",
                    self.setting.name,
                    counted(ready.nodes.len(), "node"),
                    counted(ready.cores, "core"),
                    ready.nodes.join(", ")
                ));
                self.ready = ready;
                return Ok(Some(self));
            }
            Some(Ok(Err(reason))) => Some(reason),
            Some(Err(_)) => Some(format!(
                "its nodes were not ready within {} s",
                READY_LIMIT.as_secs()
            )),
            None => None,
        };
        self.close().await?;
        // what an earlier controller did not fetch any more stays for the next session, in which the agent may be able to work
        if problem.is_none() || !self.agent_state.has_finished() {
            self.setting.clean(&self.root).await?;
        }
        problem.map_or(Ok(None), |problem| Err(self.setting.error(problem)))
    }

    /// Its present nodes: a requeued job may have got others.
    pub fn nodes(&self) -> Vec<String> {
        self.agent_state
            .state()
            .ready
            .as_ref()
            .map_or_else(|| self.ready.nodes.clone(), |r| r.nodes.clone())
    }

    /// Whether it takes runs.
    pub fn alive(&self) -> bool {
        self.agent_state.state().over.is_none()
    }

    /// Carries out one attempt there, until its end is known.
    pub async fn attempt(
        &self,
        task: &Task,
        stop_signal: &mut StopSignal,
        reporter: &AttemptReporter,
    ) -> AttemptEnd {
        let id = DispatchId::of_task(task);
        if !self.knows_end(&id) {
            self.agent_state.run(task);
        }
        let ended = tokio::select! {
            biased;
            ended = self.follow(&id, reporter) => ended,
            () = stop_now(stop_signal) => self.stop(&id).await,
        };
        match ended {
            // a job that is being ended loses its nodes and ranks before its agent knows why
            AttemptEnd::Finished(OutcomeFile {
                attempt,
                outcome: Outcome::Failed { cause, .. },
                ..
            }) if DOUBTFUL.contains(&cause) && self.job_is_ending().await => {
                self.agent_state.forget(AwaitedAttempt { id, attempt });
                self.agent_state.change(|s| s.going |= !s.requeued);
                self.lost_with_job("its job was being ended".into(), false)
                    .await
            }
            AttemptEnd::Lost { time_limit, reason } if self.job.is_some() => {
                self.lost_with_job(reason, time_limit).await
            }
            other => other,
        }
    }

    /// Tells what an attempt does, until its end.
    async fn follow(&self, id: &DispatchId, reporter: &AttemptReporter) -> AttemptEnd {
        let mut reported = Reported::default();
        loop {
            match self
                .agent_state
                .wait(|state| state.next_update(id, &reported))
                .await
            {
                AttemptUpdate::Started(shepherd) => {
                    reported.start = true;
                    reporter.tell(AttemptEvent::Started(shepherd));
                }
                AttemptUpdate::Stage(stage) => {
                    reporter.stage(&stage);
                    reported.stage = stage;
                }
                AttemptUpdate::Ended(ended) => return ended,
            }
        }
    }

    /// Cuts an attempt off.
    async fn stop(&self, id: &DispatchId) -> AttemptEnd {
        let DispatchId { run, dispatch } = id;
        self.agent_state.ask(
            format!("stop-{run}-{dispatch}"),
            Request::Stop { run: run.clone() },
        );
        let over = self.agent_state.wait(|s| {
            s.ended
                .get(id)
                .cloned()
                .or_else(|| s.over.as_ref().map(AttemptEnd::over))
        });
        let over = tokio::time::timeout(CLOSE_LIMIT, over).await;
        over.unwrap_or_else(|_| AttemptEnd::lost("it did not answer the request to stop"))
    }

    /// Interprets the loss of an attempt in a job: if the job is ending, its end tells.
    async fn lost_with_job(&self, reason: String, time_limit: bool) -> AttemptEnd {
        // the agent goes on, or the requeued job starts another, or the job is ending
        let over = self.agent_state.wait(|s| {
            let goes_on = !s.going || s.requeued;
            s.over.clone().map(Some).or(goes_on.then_some(None))
        });
        let over = tokio::time::timeout(CLOSE_LIMIT, over).await.ok().flatten();
        match over {
            Some(AgentEnd {
                cause: Some(cause),
                detail,
            }) => AttemptEnd::Failed(cause, detail),
            // a run that had the whole job needs more time than a job has; any other run is repeated in the next job
            _ if time_limit => AttemptEnd::Failed(Cause::Timeout, reason),
            _ => AttemptEnd::Lost { reason, time_limit },
        }
    }

    /// Whether the job of this agent has ended or was requeued, or is about to.
    async fn job_is_ending(&self) -> bool {
        let (Some(client), Some(job)) = (&self.setting.slurm, &self.job) else {
            return false;
        };
        match client.find(job).await {
            Ok(Some(info)) => match info.stage() {
                Stage::Running => false,
                Stage::Waiting => self.agent_state.change(|s| {
                    s.requeued = true;
                    true
                }),
                Stage::Ending | Stage::Ended(_) => true,
            },
            // then only the agent's own report is known
            Ok(None) | Err(_) => false,
        }
    }

    /// Whether an attempt's end is known already.
    pub fn knows_end(&self, id: &DispatchId) -> bool {
        self.agent_state.state().ended.contains_key(id)
    }

    /// Ends the agent and everything that it started, and gives the nodes back.
    pub async fn close(&self) -> Result<(), CampaignError> {
        let setting = &self.setting;
        if self.alive() {
            self.agent_state.change(|s| s.closing = true);
            self.agent_state.ask(
                format!(
                    "close-{}-{}",
                    std::process::id(),
                    cvc_core::clock::wall().as_microsecond()
                ),
                Request::Close,
            );
            let closed = self.agent_state.wait(|s| {
                s.closed
                    .clone()
                    .or_else(|| s.over.as_ref().map(|o| o.detail.clone()))
            });
            let closed = async {
                tokio::select! {
                    biased;
                    _ = closed => {}
                    () = self.gone() => {}
                }
            };
            let ended = tokio::time::timeout(CLOSE_LIMIT, closed).await.is_ok();
            self.agent_state.change(|s| {
                s.over
                    .get_or_insert(AgentEnd {
                        cause: None,
                        detail: "the campaign closed it".into(),
                    })
                    .cause
            });
            if !ended && self.job.is_none() {
                return Err(CampaignError::Leftover {
                    site: setting.name.clone(),
                    what: format!(
                        "the agent in {} on {} did not end within {} s",
                        self.root,
                        setting.head_node.name(),
                        CLOSE_LIMIT.as_secs()
                    ),
                });
            }
        }
        if let (Some(client), Some(job)) = (&setting.slurm, &self.job) {
            client.cancel(job, CLOSE_LIMIT).await?;
            let how = self
                .agent_state
                .state()
                .over
                .as_ref()
                .map(|o| o.detail.clone())
                .unwrap_or_default();
            setting
                .reporter
                .write(Event::LeaseReleased {
                    lease: job.into(),
                    how,
                })
                .await;
        }
        Ok(())
    }

    /// Waits until no agent is alive, if that can be known.
    async fn gone(&self) {
        if self.job.is_some() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let argv = [self.setting.program.as_str(), "alive", self.root.as_str()];
            if self
                .setting
                .head_node
                .run(&argv, SHORT)
                .await
                .is_ok_and(|o| o.code == Some(1))
            {
                return;
            }
        }
    }
}

fn cannot_start(stderr: &str) -> String {
    let message = stderr.trim();
    if message.contains("GLIBC_") {
        return format!(
            "cvc-node does not start there: it was linked to this machine's C library, which is newer ({message}); `cargo xtask node --release` \
             builds a static one"
        );
    }
    if message.contains("Exec format error") {
        return format!(
            "cvc-node does not start there: it is for another kind of processor ({message}); build it for that one and name it in CVC_NODE_PROGRAM"
        );
    }
    format!("cannot start the agent: {message}")
}
