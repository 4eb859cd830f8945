//! The executor with an agent: requests attempts, waits for their ends, and fetches their results.

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
    CampaignDir, KEPT, KeptPlace, ManifestProblem, OutcomeFile, StoreError, check_manifest,
    remove_all, sealed_outcome,
};
use cvc_engine::{
    attempt::{AttemptReporter, AttemptResult, Executor, SiteContext, Task, seal, sent_checkpoint},
    host::{Host, HostError, LocalHost, THIS_MACHINE},
};
use cvc_journal::Event;
use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

/// Maximum number of retries to fetch a directory, and the delays between them.
const FETCH_REPEATS: usize = 4;
const FETCH_PAUSE: Duration = Duration::from_secs(1);
const MAX_FETCH_PAUSE: Duration = Duration::from_secs(4);

/// Delay between checks of the free space on this machine.
const ROOM_TICK: Duration = Duration::from_secs(1);
/// First delay before a retry if cvc cannot detect that space was freed, as with quotas and inodes. Each further delay is twice as long, because
/// failed transfers from a cloud cost money.
const BLIND_PAUSE: Duration = Duration::from_secs(10);
/// Increase of free space after which a retry begins at once, bytes.
const NOTABLE_ROOM_BYTES: u64 = 16 << 20;

/// Size above which a directory is hashed in the background, bytes: hashing takes a tenth of a second or more.
const MUCH_TO_HASH_BYTES: u64 = 64 << 20;

/// Time limit for packing and for unpacking a checkpoint.
const PACK_LIMIT: Duration = Duration::from_secs(1800);

/// Name of the directory, next to the spools, for results that could not be fetched.
const UNFETCHED: &str = "unfetched";

/// Minimum value of [`fetch_limit`], bytes: programs may write many files that are not in the plan.
const FETCH_FLOOR_BYTES: u64 = 16 << 30;
/// Maximum size of a run's directory that is fetched, as a multiple of the run's planned storage.
const FETCH_FACTOR: u64 = 4;

/// Returns the maximum size of a run's directory that is fetched, bytes.
fn fetch_limit(planned_bytes: Option<u64>) -> u64 {
    planned_bytes
        .unwrap_or(0)
        .saturating_mul(FETCH_FACTOR)
        .max(FETCH_FLOOR_BYTES)
}

/// Returns the free space at a directory, bytes; 0 if it is unknown.
fn free_bytes(dir: &Utf8Path) -> u64 {
    cvc_os::space::free_bytes(dir.as_std_path()).unwrap_or(0)
}

/// Waits until the free space exceeds `before` by [`NOTABLE_ROOM_BYTES`].
async fn room_grows(dir: &Utf8Path, before: u64) {
    while free_bytes(dir) < before.saturating_add(NOTABLE_ROOM_BYTES) {
        tokio::time::sleep(ROOM_TICK).await;
    }
}

/// Reason why a directory was not fetched.
enum FetchError {
    /// The directory arrived incomplete, or was refused.
    Incomplete { from: Utf8PathBuf, why: Incomplete },
    /// The directory cannot be written on this machine.
    Here(CampaignError),
}

impl FetchError {
    /// Returns whether a retry may succeed.
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
    /// The connection or the other machine failed.
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
    /// Returns whether the problem is caused by this directory only, so that other directories can still be fetched.
    fn is_of_run(&self) -> bool {
        match self {
            // files that the other machine cannot read, or that this kind of machine cannot store
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
        if !agent.knows_end(&DispatchId::of_task(task)) {
            self.send_checkpoint(task, &agent.root).await?;
        }
        let attempted = match self
            .await_end(task, &agent, &mut stop_signal, reporter)
            .await
        {
            // an earlier controller may also have interrupted the run, and been killed before it recorded that
            AttemptEnd::Interrupted if *stop_signal.borrow() < StopRequest::StopNow => {
                AttemptResult::Lost {
                    reason: "an earlier controller interrupted it".into(),
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
            // a directory that cannot be fetched stays on the site, with its job's lease, for the next `cvc run`
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
    /// Returns the agent for an attempt. With `own_job`, the agent runs in a separate job for this attempt. If there is no agent, returns the result
    /// of the attempt.
    async fn agent_for(
        &self,
        task: &Task,
        own_job: bool,
        stop_signal: &mut StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<Result<AgentUse, AttemptResult>, CampaignError> {
        if !own_job {
            // the agent's job may have ended, but results must still be fetched
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
            // obstacles recorded when the site was opened may come from an agent with other orders
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

    /// Returns the name of an attempt's job, for sites where each attempt has its own job.
    fn job_of(&self, run: &RunId, dispatch: u32) -> String {
        // attempts of an earlier version have a shorter name
        let short = run.as_str().get(..8).unwrap_or(run.as_str());
        let earlier = format!("cvc-{}-{short}-{dispatch}", self.lineage);
        if self.old_jobs.lock().contains(&earlier) {
            earlier
        } else {
            format!("cvc-{}-{run}-{dispatch}", self.lineage)
        }
    }

    /// Requests an attempt and waits for its end. The loss of a node that the cloud reclaimed does not count as a failure of the run.
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

    /// Returns the end that replaces `ended`, if the cloud reclaimed one of the attempt's nodes.
    async fn taken_by_cloud(&self, task: &Task, ended: &AttemptEnd) -> Option<AttemptEnd> {
        let machines = &self.setting.machines;
        // the run's files are fetched, for the next attempt
        let has_checkpoint = matches!(ended, AttemptEnd::Finished(file) if file.kept.is_some());
        if !machines.are_temporary() || !ended.is_doubtful() || has_checkpoint {
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
        // the cloud has announced the reclaim, even if its API does not show it yet
        let (node, why) = self.taken_back(task).filter(|_| ended.is_loss_of_node())?;
        Some(AttemptEnd::Failed(
            Cause::Reclaimed,
            format!("node {node}: {why}"),
        ))
    }

    /// Fetches the directory of an attempt. If the head node of a cloud site is lost, the directory is lost too.
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

    /// Fetches a directory. While this machine has no space for the directory, waits until there is space or the user requests an immediate stop.
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
            // remove the partial directory, because other runs need its space
            let partial = self.dir.partial(run);
            remove_all(&partial).map_err(|error| FetchError::Here(error.into()))?;
            if turn.is_none() {
                let limit_min = ROOM_LIMIT.as_secs() / 60;
                self.setting.reporter.note(format!(
                    "{run}: no space for its results, waiting {limit_min} min at most: {error}"
                ));
                // take turns: two directories that do not fit together would otherwise remove their partial copies for each other for ever
                turn = tokio::select! {
                    biased;
                    () = stop_now(stop_signal) => return fetched,
                    () = tokio::time::sleep_until(end) => return fetched,
                    turn = self.room.lock() => Some(turn),
                };
            }
            // count space that was freed since the attempt began, and ignore space that others used meanwhile
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

    /// Moves a directory that cannot be fetched to [`UNFETCHED`], because the campaign's files on the site will be removed. Returns the message for
    /// the user.
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
        // a session that could not record the move may have moved the directory already
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

    /// Sends the task's checkpoint to the site, so that the attempt can continue from it. Does nothing unless the checkpoint was fetched to this
    /// machine earlier.
    async fn send_checkpoint(&self, task: &Task, root: &Utf8Path) -> Result<(), CampaignError> {
        let run = &task.planned.id;
        let Some(kept) = task
            .resume
            .as_ref()
            .filter(|kept| kept.place == KeptPlace::Campaign)
        else {
            return Ok(());
        };
        let there = sent_checkpoint(&CampaignDir::at(root), run);
        let packed = self.dir.runs().join(format!("{run}.{KEPT}.tar"));
        let from = self.dir.failed(run, kept.attempt).join(KEPT);
        let argv = ["tar", "-C", from.as_str(), "-cf", packed.as_str(), "."];
        let argv: Vec<String> = argv.map(str::to_owned).into();
        let made = LocalHost.run(&argv, &BTreeMap::new(), PACK_LIMIT).await?;
        let problem = |what: &str, why: &str| {
            self.setting.error(format!(
                "cannot {what} the checkpoint of {run}: {}",
                why.trim()
            ))
        };
        if made.code != Some(0) {
            return Err(problem("pack", &made.stderr));
        }
        let head_node = &self.setting.head_node;
        let archive = Utf8PathBuf::from(format!("{there}.tar"));
        let make = ["sh", "-c", "mkdir -p \"$1\"", "sh", there.as_str()];
        head_node.run(&make, SHORT).await?;
        let mut report = |what: String| self.setting.reporter.note(format!("{run}: {what}"));
        let sent = head_node.upload(&packed, &archive, &mut report).await;
        let _ = remove_all(&packed);
        sent?;
        let script = "tar -C \"$1\" -xf \"$2\" && rm -f \"$2\"";
        let unpack = ["sh", "-c", script, "sh", there.as_str(), archive.as_str()];
        let unpacked = head_node.run(&unpack, PACK_LIMIT).await?;
        if unpacked.code != Some(0) {
            return Err(problem("unpack", &unpacked.stderr));
        }
        Ok(())
    }

    /// Returns a node that the cloud is about to reclaim, with the notice: a node of the task, or the head node, without which no run can continue.
    fn taken_back(&self, task: &Task) -> Option<(String, String)> {
        let leaving = self.leaving();
        let head = self.setting.cluster.hosts.first().map(|h| &h.name);
        task.nodes
            .iter()
            .chain(head)
            .find_map(|node| leaving.get_key_value(node))
            .map(|(node, why)| (node.clone(), why.clone()))
    }

    /// Returns the reason why the head node of a cloud site is lost, and the cause of failure for a run.
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

    /// Returns the task with the node names of this agent. The names stay unchanged if the agent was started before the campaign file was changed.
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

    /// Fetches the directory of an attempt, verifies it, and renames it to its final name.
    async fn fetch(
        &self,
        root: &Utf8Path,
        task: &Task,
        file: &OutcomeFile,
    ) -> Result<(), FetchError> {
        let (run, max_bytes) = (&task.planned.id, fetch_limit(task.disk_bytes));
        // another controller may have fetched the directory and be recording it, or have been unable to record it: do not replace it
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
        let mut report = |what: String| self.setting.reporter.note(format!("{run}: {what}"));
        let mut bytes = 0;
        let brought = self
            .setting
            .head_node
            .download(from, &partial, max_bytes, &mut report, &mut bytes)
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
            // the controller's only thread must also handle connections, signals and deadlines, so hash in the background
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

/// Checks that a directory is complete and agrees with the agent's report.
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
