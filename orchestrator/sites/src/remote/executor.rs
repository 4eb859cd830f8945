//! The executor by an agent: hands attempts over, waits for their ends, and fetches their results.

use super::{
    agent_handle::{AgentHandle, AgentUse},
    agent_state::AttemptEnd,
    head_node::SHORT,
    machines::TransferCost,
    site::{ROOM_LIMIT, Remote},
    submission::by_job,
};
use crate::error::CampaignError;
use async_trait::async_trait;
use backon::{ExponentialBuilder, Retryable};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::{AwaitedAttempt, DispatchId};
use cvc_core::campaign::Allocation;
use cvc_core::ids::{RunId, below};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::point::PlannedPoint;
use cvc_core::stop::{StopRequest, StopSignal, stop_now};
use cvc_core::store::{
    CampaignDir, ManifestProblem, OutcomeFile, StoreError, check_manifest, remove_all,
    sealed_outcome,
};
use cvc_engine::{
    attempt::{AttemptReporter, AttemptResult, Executor, SiteContext, Task, seal},
    host::{HostError, THIS_MACHINE},
};
use cvc_journal::Event;
use std::{io, sync::Arc, time::Duration};

/// Maximum number of further attempts to fetch a directory, and the delays between them.
const FETCH_REPEATS: usize = 4;
const FETCH_PAUSE: Duration = Duration::from_secs(1);
const MAX_FETCH_PAUSE: Duration = Duration::from_secs(4);

/// Delay between looks at the room on this machine.
const ROOM_TICK: Duration = Duration::from_secs(1);
/// First delay before another attempt where no room is seen to be made, as with quotas and inodes; each further one is twice as long, because what
/// comes from a cloud in vain costs, too.
const BLIND_PAUSE: Duration = Duration::from_secs(10);
/// More room than before that makes another attempt worthwhile at once, bytes.
const NOTABLE_ROOM_BYTES: u64 = 16 << 20;

/// Size from which a directory is hashed beside everything else: it takes a tenth of a second or more.
const MUCH_TO_HASH_BYTES: u64 = 64 << 20;

/// Directory, beside the spools, of what could not be fetched.
const UNFETCHED: &str = "unfetched";

/// Size up to which a run's directory is fetched whatever the plan says, in bytes: programs may write much that is not planned.
const FETCH_FLOOR_BYTES: u64 = 16 << 30;
/// Beyond that, as a multiple of what the run needs on the storage by the plan.
const FETCH_FACTOR: u64 = 4;

/// The size up to which a run's directory is fetched, in bytes.
fn fetch_limit(planned_bytes: Option<u64>) -> u64 {
    planned_bytes
        .unwrap_or(0)
        .saturating_mul(FETCH_FACTOR)
        .max(FETCH_FLOOR_BYTES)
}

/// Bytes that are free where a directory is; none if that cannot be said.
fn free_bytes(dir: &Utf8Path) -> u64 {
    cvc_os::space::free_bytes(dir.as_std_path()).unwrap_or(0)
}

/// Waits until notably more than this is free.
async fn room_grows(dir: &Utf8Path, before: u64) {
    while free_bytes(dir) < before.saturating_add(NOTABLE_ROOM_BYTES) {
        tokio::time::sleep(ROOM_TICK).await;
    }
}

/// Reason why a directory was not fetched.
enum FetchError {
    /// It arrived incomplete, or was refused.
    Incomplete { from: Utf8PathBuf, why: Incomplete },
    /// It cannot be written here.
    Here(CampaignError),
}

impl FetchError {
    /// Whether another attempt may succeed.
    fn is_transient(&self) -> bool {
        match self {
            Self::Incomplete {
                why: Incomplete::Download(HostError::Refused { .. }),
                ..
            }
            | Self::Here(_) => false,
            Self::Incomplete { .. } => true,
        }
    }
}

/// The problem of a fetched directory.
#[derive(Debug, thiserror::Error)]
enum Incomplete {
    /// The connection, or the other machine.
    #[error(transparent)]
    Download(HostError),
    #[error("{file}: {source}")]
    Missing {
        file: &'static str,
        source: io::Error,
    },
    #[error("outcome.json: {0}")]
    NoOutcome(serde_json::Error),
    #[error("its outcome differs from the agent's report")]
    OtherOutcome,
    #[error("the digest of records.jsonl differs from the agent's report")]
    OtherRecords,
    #[error(transparent)]
    Changed(ManifestProblem),
}

impl Incomplete {
    /// Whether the directory itself is the reason, so that others may be fetched.
    fn is_of_run(&self) -> bool {
        match self {
            // what the other machine cannot read, or no machine like this one can hold
            Self::Download(HostError::Refused { .. } | HostError::File { .. })
            | Self::Missing { .. }
            | Self::NoOutcome(_)
            | Self::OtherOutcome
            | Self::OtherRecords
            | Self::Changed(_) => true,
            Self::Download(_) => false,
        }
    }
}

#[async_trait]
impl Executor<CampaignError> for Remote {
    #[tracing::instrument(name = "attempt", skip_all, fields(run = %task.planned.id, number = task.attempt))]
    async fn attempt(
        &self,
        task: &Task,
        mut stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, CampaignError> {
        let own_job = self.allocation() == Some(Allocation::Run);
        let agent = match self
            .agent_for(task, own_job, &mut stop_signal, reporter)
            .await?
        {
            Ok(agent) => agent,
            Err(attempted) => return Ok(attempted),
        };
        let task = &self.placed(task, &agent, own_job);
        let attempted = match self
            .await_end(task, &agent, &mut stop_signal, reporter)
            .await
        {
            // or an earlier controller cut it off, and was killed before it recorded that
            AttemptEnd::Interrupted if *stop_signal.borrow() < StopRequest::StopNow => {
                AttemptResult::Lost {
                    reason: "an earlier controller had it cut off".into(),
                    time_limit: false,
                }
            }
            AttemptEnd::Interrupted => AttemptResult::Interrupted,
            AttemptEnd::Unable(problem) => {
                if own_job {
                    self.put_away(&agent).await?;
                }
                return Err(self.setting.error(problem));
            }
            AttemptEnd::Lost { reason, time_limit } => AttemptResult::Lost { reason, time_limit },
            AttemptEnd::Failed(cause, detail) => AttemptResult::Failed { cause, detail },
            // what cannot be fetched stays there, with its job's lease, for the next `cvc run`
            AttemptEnd::Finished(file) => {
                self.fetch_verified(&agent.root, task, file, &mut stop_signal)
                    .await?
            }
        };
        if own_job {
            self.put_away(&agent).await?;
        }
        Ok(attempted)
    }

    fn cores(&self) -> u32 {
        self.ready.cores
    }

    fn nodes(&self) -> Vec<String> {
        Remote::nodes(self)
    }

    fn side_by_side(&self) -> bool {
        self.setting.cluster.side_by_side
    }

    fn obstacle(&self, planned: &PlannedPoint) -> Option<String> {
        self.ready.obstacles.get(&planned.id).cloned()
    }

    fn local_context(&self) -> Option<&SiteContext> {
        None
    }

    fn forget(&self, task: &Task) {
        if let Some(agent) = self.current().filter(|l| l.alive()) {
            agent.agent_state.forget(AwaitedAttempt::of_task(task));
        }
    }
}

impl Remote {
    /// The agent for an attempt, in a job of its own if the site has one for each run; or the result of the attempt if there is none.
    async fn agent_for(
        &self,
        task: &Task,
        own_job: bool,
        stop_signal: &mut StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<Result<AgentUse, AttemptResult>, CampaignError> {
        if !own_job {
            // its job may have ended, and its results must be fetched
            let agent = match self.agent_that_knows(&DispatchId::of_task(task)) {
                Some(agent) => {
                    self.handed_over.lock().remove(&task.planned.id);
                    Some(agent)
                }
                None => {
                    let takes_old = self.handed_over.lock().contains(&task.planned.id);
                    let agent = self.connect_agent(None, takes_old, stop_signal).await?;
                    self.handed_over.lock().remove(&task.planned.id);
                    agent
                }
            };
            let Some(agent) = agent else {
                return Ok(Err(AttemptResult::Interrupted));
            };
            // what was known when the site was opened may have been known by an agent with other orders
            let is_new = !self.ready.obstacles.contains_key(&task.planned.point);
            if let Some(detail) = agent
                .ready
                .obstacles
                .get(&task.planned.point)
                .filter(|_| is_new)
                .cloned()
            {
                return Ok(Err(AttemptResult::Failed {
                    cause: Cause::Launch,
                    detail,
                }));
            }
            return Ok(Ok(agent));
        }
        reporter.stage("waiting for nodes");
        let job = self.job_of(&task.planned.id, task.dispatch);
        let root = self.setting.root.join(&job);
        let resumed = self.old_jobs.lock().remove(&job);
        let agent = match by_job(
            &self.setting,
            &root,
            &job,
            task.point.mapping.nodes(),
            resumed,
            true,
            stop_signal,
        )
        .await
        {
            Ok(Some(agent)) => AgentUse::begin(Arc::new(agent)),
            Ok(None) => return Ok(Err(AttemptResult::Interrupted)),
            Err(CampaignError::Slurm(error)) => {
                return Ok(Err(AttemptResult::Failed {
                    cause: error.run_cause(),
                    detail: error.to_string(),
                }));
            }
            Err(error) => return Err(error),
        };
        if let Some(detail) = agent.ready.obstacles.get(&task.planned.point).cloned() {
            self.put_away(&agent).await?;
            return Ok(Err(AttemptResult::Failed {
                cause: Cause::Launch,
                detail,
            }));
        }
        Ok(Ok(agent))
    }

    /// Name of the job of an attempt, where each has its own.
    fn job_of(&self, run: &RunId, dispatch: u32) -> String {
        // what an earlier version submitted has a shorter name
        let short = run.as_str().get(..8).unwrap_or(run.as_str());
        let earlier = format!("cvc-{}-{short}-{dispatch}", self.lineage);
        if self.old_jobs.lock().contains(&earlier) {
            earlier
        } else {
            format!("cvc-{}-{run}-{dispatch}", self.lineage)
        }
    }

    /// Hands an attempt over and waits for its end. A node that the cloud reclaimed is not a failure of the run.
    async fn await_end(
        &self,
        task: &Task,
        agent: &AgentHandle,
        stop_signal: &mut StopSignal,
        reporter: &AttemptReporter,
    ) -> AttemptEnd {
        let ended = agent.attempt(task, stop_signal, reporter).await;
        let Some(failure) = self.taken_by_cloud(task, &ended).await else {
            return ended;
        };
        if let AttemptEnd::Finished(file) = &ended {
            agent.agent_state.forget(AwaitedAttempt {
                id: DispatchId::of_task(task),
                attempt: file.attempt,
            });
        }
        failure
    }

    /// Interprets the end of an attempt, in case the cloud reclaimed one of its nodes.
    async fn taken_by_cloud(&self, task: &Task, ended: &AttemptEnd) -> Option<AttemptEnd> {
        let machines = &self.setting.machines;
        if !machines.are_temporary() || !ended.is_doubtful() {
            return None;
        }
        let gone = machines
            .look_for_gone()
            .await
            .unwrap_or_else(|_| machines.gone());
        if let Some((node, why)) = gone.into_iter().find(|(node, _)| task.nodes.contains(node)) {
            return Some(AttemptEnd::Failed(
                why.cause(),
                format!("node {node}: {why}"),
            ));
        }
        // the cloud announced it, even if it does not show it yet
        let (node, why) = self.taken_back(task).filter(|_| ended.is_loss_of_node())?;
        Some(AttemptEnd::Failed(
            Cause::Reclaimed,
            format!("node {node}: {why}"),
        ))
    }

    /// Fetches the directory of an attempt, which is lost if the head node of a cloud's site is gone.
    async fn fetch_verified(
        &self,
        root: &Utf8Path,
        task: &Task,
        file: OutcomeFile,
        stop_signal: &mut StopSignal,
    ) -> Result<AttemptResult, CampaignError> {
        match self
            .fetch_when_there_is_room(root, task, &file, stop_signal)
            .await
        {
            Ok(()) => Ok(AttemptResult::Ended(file)),
            Err(failed) => {
                if let Some((cause, detail)) = self.head_gone() {
                    return Ok(AttemptResult::Failed { cause, detail });
                }
                match failed {
                    FetchError::Incomplete { from, why } if why.is_of_run() => {
                        Ok(AttemptResult::Failed {
                            cause: Cause::Store,
                            detail: self.leave_behind(&from, task, &why).await,
                        })
                    }
                    FetchError::Incomplete { from, why } => {
                        Err(self.setting.error(format!("cannot fetch {from}: {why}")))
                    }
                    FetchError::Here(error) => {
                        let (site, run) = (self.setting.name.clone(), task.planned.id.to_string());
                        Err(CampaignError::NotWritten {
                            site,
                            run,
                            error: Box::new(error),
                        })
                    }
                }
            }
        }
    }

    /// Fetches a directory; while this machine has no room for it, waits for that, unless the user stops now.
    async fn fetch_when_there_is_room(
        &self,
        root: &Utf8Path,
        task: &Task,
        file: &OutcomeFile,
        stop_signal: &mut StopSignal,
    ) -> Result<(), FetchError> {
        let run = &task.planned.id;
        let end = tokio::time::Instant::now() + ROOM_LIMIT;
        let mut turn = None;
        let mut pause = BLIND_PAUSE;
        loop {
            let runs = self.dir.runs();
            let before = free_bytes(&runs);
            let fetched = self.fetch(root, task, file).await;
            let Err(FetchError::Here(error)) = &fetched else {
                return fetched;
            };
            if !error.is_full_disk() {
                return fetched;
            }
            // others need what a part of it takes
            let partial = self.dir.partial(run);
            remove_all(&partial).map_err(|error| FetchError::Here(error.into()))?;
            if turn.is_none() {
                let limit_min = ROOM_LIMIT.as_secs() / 60;
                self.setting.reporter.note(format!(
                    "{run}: no room for its results, waiting {limit_min} min at most: {error}"
                ));
                // two that do not fit together would make room for each other for ever
                turn = tokio::select! {
                    biased;
                    () = stop_now(stop_signal) => return fetched,
                    () = tokio::time::sleep_until(end) => return fetched,
                    turn = self.room.lock() => Some(turn),
                };
            }
            // room that was made meanwhile counts, and what others still take of it does not
            let before = before.min(free_bytes(&runs));
            tokio::select! {
                biased;
                () = stop_now(stop_signal) => return fetched,
                () = tokio::time::sleep_until(end) => return fetched,
                () = room_grows(&runs, before) => {}
                () = tokio::time::sleep(pause) => {}
            }
            pause *= 2;
        }
    }

    /// Puts a directory that cannot be fetched where it outlives the campaign's files. Returns what to say about it.
    async fn leave_behind(&self, from: &Utf8Path, task: &Task, why: &Incomplete) -> String {
        let head_node = &self.setting.head_node;
        let base = self
            .setting
            .root
            .ancestors()
            .find(|dir| dir.file_name() == Some("spool"))
            .and_then(Utf8Path::parent);
        let to = below(
            &base.unwrap_or(&self.setting.root).join(UNFETCHED),
            &format!("{}-{}-{}", self.lineage, task.planned.id, task.dispatch),
        );
        // it may have been moved by a session that could not write that down
        let script = "mkdir -p \"$(dirname \"$2\")\" && { [ -e \"$2\" ] || mv \"$1\" \"$2\"; }";
        let moved = head_node
            .run(
                &["sh", "-c", script, "sh", from.as_str(), to.as_str()],
                SHORT,
            )
            .await;
        let left = match moved {
            Ok(output) if output.code == Some(0) => {
                let until = if self.setting.machines.are_temporary() {
                    " until that instance ends"
                } else {
                    ""
                };
                format!("it is left in {to} on {}{until}", head_node.name())
            }
            Ok(output) => format!("it cannot be kept there: {}", output.stderr.trim()),
            Err(error) => format!("it cannot be kept there: {error}"),
        };
        format!("its directory cannot be fetched: {why}; {left}")
    }

    /// The node of a task that the cloud announced to reclaim, or the head node, without which nothing goes on.
    fn taken_back(&self, task: &Task) -> Option<(String, String)> {
        let leaving = self.leaving();
        let head = self.setting.cluster.hosts.first().map(|h| &h.name);
        task.nodes
            .iter()
            .chain(head)
            .find_map(|node| leaving.get_key_value(node))
            .map(|(node, why)| (node.clone(), why.clone()))
    }

    /// The reason why the head node of a cloud's site is gone, and what that means for a run.
    fn head_gone(&self) -> Option<(Cause, String)> {
        let head = self.setting.cluster.hosts.first()?;
        let why = self.setting.machines.gone().remove(&head.name)?;
        let cause = if self.leaving().contains_key(&head.name) {
            Cause::Reclaimed
        } else {
            why.cause()
        };
        Some((cause, format!("node {}: {why}", head.name)))
    }

    /// The nodes of a task by the names that they have in this agent. One with old orders knows them already.
    fn placed(&self, task: &Task, agent: &AgentHandle, own_job: bool) -> Task {
        let mut task = task.clone();
        if own_job {
            task.nodes = agent.nodes();
        } else if !agent.has_old_orders {
            let nodes = agent.nodes();
            let now = |name: &String| {
                self.ready
                    .nodes
                    .iter()
                    .position(|n| n == name)
                    .and_then(|at| nodes.get(at))
                    .cloned()
            };
            task.nodes = task
                .nodes
                .iter()
                .map(|name| now(name).unwrap_or_else(|| name.clone()))
                .collect();
        }
        task
    }

    async fn put_away(&self, agent: &AgentHandle) -> Result<(), CampaignError> {
        agent.close().await?;
        self.setting.clean(&agent.root).await
    }

    /// Fetches the directory of an attempt, verifies it, and gives it its final name.
    async fn fetch(
        &self,
        root: &Utf8Path,
        task: &Task,
        file: &OutcomeFile,
    ) -> Result<(), FetchError> {
        let (run, max_bytes) = (&task.planned.id, fetch_limit(task.disk_bytes));
        // by another controller, which could not record it any more, or does that now: it is not replaced by itself
        let is_here = || sealed_outcome(&self.dir, run, file.attempt).as_ref() == Some(file);
        if is_here() {
            return Ok(());
        }
        let there = CampaignDir::at(root);
        let from = match &file.outcome {
            Outcome::Succeeded => there.run(run),
            Outcome::Failed { .. } => there.failed(run, file.attempt),
        };
        let again = ExponentialBuilder::new()
            .with_min_delay(FETCH_PAUSE)
            .with_max_delay(MAX_FETCH_PAUSE)
            .with_max_times(FETCH_REPEATS);
        let fetched = (|| self.fetch_once(&from, run, max_bytes, file))
            .retry(again)
            .when(FetchError::is_transient)
            .await;
        fetched?;
        if is_here() {
            return remove_all(&self.dir.partial(run))
                .map_err(|error| FetchError::Here(error.into()));
        }
        seal(&self.dir, run, file).map_err(|error| FetchError::Here(error.into()))
    }

    async fn fetch_once(
        &self,
        from: &Utf8Path,
        run: &RunId,
        max_bytes: u64,
        file: &OutcomeFile,
    ) -> Result<(), FetchError> {
        let partial = self.dir.partial(run);
        let here = |error: StoreError| FetchError::Here(error.into());
        let incomplete = |why| FetchError::Incomplete {
            from: from.to_owned(),
            why,
        };
        remove_all(&partial).map_err(here)?;
        std::fs::create_dir_all(&partial)
            .map_err(StoreError::io("make", &partial))
            .map_err(here)?;
        let mut tell = |what: String| self.setting.reporter.note(format!("{run}: {what}"));
        let mut bytes = 0;
        let brought = self
            .setting
            .head_node
            .download(from, &partial, max_bytes, &mut tell, &mut bytes)
            .await;
        if bytes > 0
            && let TransferCost::Charged(usd) = self.setting.machines.transfer_cost(bytes)
        {
            let (site, run) = (self.setting.name.clone().into(), run.clone());
            self.setting
                .reporter
                .write(Event::ResultsFetched {
                    site,
                    run,
                    bytes,
                    usd,
                })
                .await;
        }
        match brought {
            // the one thread of the controller has other things to see to meanwhile: connections, signals, deadlines
            Ok(()) if bytes > MUCH_TO_HASH_BYTES => {
                let file = file.clone();
                let verified = tokio::task::spawn_blocking(move || verify(&partial, &file)).await;
                verified
                    .map_err(|error| FetchError::Here(CampaignError::of_task(error)))?
                    .map_err(incomplete)
            }
            Ok(()) => verify(&partial, file).map_err(incomplete),
            Err(error) if matches!(&error, HostError::File { host, .. } if host == THIS_MACHINE) => {
                Err(FetchError::Here(error.into()))
            }
            Err(error) => Err(incomplete(Incomplete::Download(error))),
        }
    }
}

/// Checks that a directory is complete and matches the agent's report.
fn verify(dir: &Utf8Path, file: &OutcomeFile) -> Result<(), Incomplete> {
    let read = |file: &'static str| {
        std::fs::read(dir.join(file)).map_err(|source| Incomplete::Missing { file, source })
    };
    let here: OutcomeFile =
        serde_json::from_slice(&read("outcome.json")?).map_err(Incomplete::NoOutcome)?;
    if here != *file {
        return Err(Incomplete::OtherOutcome);
    }
    if let Some(digest) = &file.records
        && blake3::hash(&read("records.jsonl")?).to_hex()[..16] != **digest
    {
        return Err(Incomplete::OtherRecords);
    }
    file.manifest.as_ref().map_or(Ok(()), |digest| {
        check_manifest(dir, digest).map_err(Incomplete::Changed)
    })
}
