//! A handle on one agent, which was started over ssh or runs in a Slurm job.

use super::{
    agent_state::{AgentEnd, AgentState, AttemptEnd, AttemptUpdate, DOUBTFUL, Ready, Reported},
    connection::Connection,
    head_node::{SHORT, get},
    job_monitor::JobWatch,
    setting::{RemoteSetting, SpoolState},
};
use crate::error::CampaignError;
use crate::slurm::JobStage;
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

/// Time limit from the start of an agent to its first report about the nodes.
const READY_LIMIT: Duration = Duration::from_secs(900);
/// Note about an agent that was started before the campaign file was changed.
pub(super) const OLD_FIRST: &str =
    "runs that the previous session started are finished and fetched first";
/// Number of panics after which the connection is not restored.
const MAX_PANICS: usize = 3;
/// Time limit for ending the agent and all processes that it started.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(150);

/// A handle on one agent.
pub(super) struct AgentHandle {
    setting: Arc<RemoteSetting>,
    pub root: Utf8PathBuf,
    pub agent_state: Arc<AgentState>,
    _connection: AbortOnDropHandle<()>,
    _watch: Option<JobWatch>,
    /// Name of the agent's job, if it runs in one.
    job: Option<String>,
    pub ready: Ready,
    /// Whether the agent was started before the campaign file was changed. The agent then finishes the runs requested before the change, and accepts
    /// no others.
    pub has_old_orders: bool,
    /// Number of attempts that use this agent.
    users: watch::Sender<usize>,
}

/// An agent in use by an attempt. The contents of its spool are not removed before this value is dropped.
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
        setting: &Arc<RemoteSetting>,
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
            // restore the connection even after a panic, because the agent must be closed
            for _ in 0..MAX_PANICS {
                reporter.guard(connection.work()).await;
            }
        })
    }

    pub(super) fn new(setting: &Arc<RemoteSetting>, root: &Utf8Path, job: Option<String>) -> Self {
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

    /// Waits until no attempt uses the agent.
    pub(super) async fn unused(&self) {
        let _ = self.users.subscribe().wait_for(|users| *users == 0).await;
    }

    /// Waits until no attempt uses the agent, for at most `limit`. Returns false if an attempt still uses the agent.
    pub(super) async fn wait_until_unused(&self, limit: Duration) -> bool {
        // an error of the channel means that this handle is dropped, and all users with it
        tokio::time::timeout(limit, self.users.subscribe().wait_for(|users| *users == 0))
            .await
            .is_ok()
    }

    /// Starts an agent over ssh, or finds the running one. If the campaign file was changed, the agent started before the change is returned with
    /// `wants_old`, because runs requested from it are still needed; otherwise it is replaced. Returns `None` if the user stops the campaign
    /// meanwhile; then nothing remains on the site.
    pub async fn by_ssh(
        setting: &Arc<RemoteSetting>,
        wants_old: bool,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<Self>, CampaignError> {
        let root = setting.root.clone();
        let mut has_old_orders = false;
        match setting.make(&root).await? {
            SpoolState::TheseOrders => {}
            SpoolState::OtherOrders if wants_old => {
                setting.reporter.note(format!(
                    "{}: the campaign was changed; {OLD_FIRST}",
                    setting.name
                ));
                has_old_orders = true;
            }
            SpoolState::OtherOrders => {
                setting.reporter.note(format!(
                    "{}: the campaign was changed; its old agent is closed",
                    setting.name
                ));
                let old = Self::new(setting, &root, None);
                old.close().await?;
                setting.clean(&root).await?;
                setting.make(&root).await?;
            }
            SpoolState::OtherProtocol => {
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

    /// Ends the runs that an earlier controller requested, and removes this controller's files on the site.
    pub async fn end_old(
        setting: &Arc<RemoteSetting>,
        leases: &[Lease],
    ) -> Result<(), CampaignError> {
        setting.reporter.note(format!(
            "{}: nothing is left to run; removing the remaining files",
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
    pub async fn end_job(
        setting: &RemoteSetting,
        job: &str,
        how: &str,
    ) -> Result<(), CampaignError> {
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

    /// Uses the nodes that the agent reported when it was ready, even if the agent has ended since.
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
        // keep results that an earlier controller did not fetch, for the next session, in which the agent may work again
        if problem.is_none() || !self.agent_state.has_finished() {
            self.setting.clean(&self.root).await?;
        }
        problem.map_or(Ok(None), |problem| Err(self.setting.error(problem)))
    }

    /// Returns the agent's current nodes: a requeued job may have been allocated others.
    pub fn nodes(&self) -> Vec<String> {
        self.agent_state
            .state()
            .ready
            .as_ref()
            .map_or_else(|| self.ready.nodes.clone(), |r| r.nodes.clone())
    }

    /// Returns whether the agent accepts runs.
    pub fn alive(&self) -> bool {
        self.agent_state.state().over.is_none()
    }

    /// Requests an attempt from the agent, and waits for its end.
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
            // a job that is being ended loses its nodes and ranks before its agent reports why
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

    /// Passes the agent's reports about an attempt on until the attempt ends, and returns the end.
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
                    reporter.emit(AttemptEvent::Started(shepherd));
                }
                AttemptUpdate::Stage(stage) => {
                    reporter.stage(&stage);
                    reported.stage = stage;
                }
                AttemptUpdate::Ended(ended) => return ended,
            }
        }
    }

    /// Interrupts an attempt.
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

    /// Interprets the loss of an attempt in a job: if the job is ending, the job's end explains the loss.
    async fn lost_with_job(&self, reason: String, time_limit: bool) -> AttemptEnd {
        // three cases: the agent continues, the requeued job starts another agent, or the job is ending
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
            // a run that had the whole time of the job needs more than a job has; any other run is repeated in the next job
            _ if time_limit => AttemptEnd::Failed(Cause::Timeout, reason),
            _ => AttemptEnd::Lost { reason, time_limit },
        }
    }

    /// Returns whether the job of this agent has ended or was requeued, or is about to.
    async fn job_is_ending(&self) -> bool {
        let (Some(client), Some(job)) = (&self.setting.slurm, &self.job) else {
            return false;
        };
        match client.find(job).await {
            Ok(Some(info)) => match info.stage() {
                JobStage::Running => false,
                JobStage::Waiting => self.agent_state.change(|s| {
                    s.requeued = true;
                    true
                }),
                JobStage::Ending | JobStage::Ended(_) => true,
            },
            // Slurm gives no information: only the agent's own report counts
            Ok(None) | Err(_) => false,
        }
    }

    /// Returns whether the end of an attempt was received already.
    pub fn knows_end(&self, id: &DispatchId) -> bool {
        self.agent_state.state().ended.contains_key(id)
    }

    /// Ends the agent and all processes that it started, and releases the nodes.
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

    /// Waits until no agent of this spool is alive. Never returns for an agent in a job, because `cvc-node alive` on the head node cannot see it.
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
            "cvc-node does not start there: it is built for another kind of processor ({message}); build it for that kind and name it in CVC_NODE_PROGRAM"
        );
    }
    format!("cannot start the agent: {message}")
}
