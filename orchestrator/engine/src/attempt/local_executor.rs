//! The executor that carries out attempts on this machine; on a cluster it runs in the agent.

use super::{
    execute::execute,
    executed::{Executed, failed, interrupted},
    executor::{AttemptResult, Executor, choose_free},
    keep,
    long_work::long_work,
    neighbours::Neighbours,
    prepare::{Prepared, prepare},
    recover::{self, recover_run},
    remains::{Remains, remove_with_parent},
    restarted::use_traced_bytes,
    site::ReadySite,
    slurm_steps::Steps,
    traces::{fetch_traces, read_traces},
};
use crate::{
    crew::{self, CrewError},
    run::{
        AttemptReporter, FLUSHED, LATER, Nodes, RunError, RunFailure, SOON, Shepherds, SiteContext,
        Task, begun_tmp_dir, marker, work_dir,
    },
    stage::KeptOnNodes,
    transport::Transport,
};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{LEVELS, StorageKind};
use cvc_core::ids::{RunId, below};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::point::PlannedPoint;
use cvc_core::stop::{StopRequest, StopSignal, stop_now};
use cvc_core::store::{
    CampaignDir, KEPT, KeptCheckpoint, KeptPlace, OutcomeFile, StoreError, remove_all, write_whole,
};
use cvc_journal::price::NodeRate;
use cvc_os::proc::ProcessId;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum time by which cvc receives a signal later than the run, if the signal is sent to both.
const STOP_LIMIT: Duration = Duration::from_secs(3);
/// Delay between checks whether other nodes see a new directory, and the maximum number of checks.
const VISIBLE_TICK: Duration = Duration::from_millis(250);
const VISIBLE_CHECKS: u32 = 40;

/// Returns the path of the file that lists the directories of a run that are kept for its next attempt.
fn kept_note(dir: &CampaignDir, run: &RunId) -> Utf8PathBuf {
    below(&dir.root().join("kept"), run.as_str())
}

/// Lists directories that are kept for a run's next attempt, so that they are removed at the end if no attempt follows.
fn note_kept(dir: &CampaignDir, run: &RunId, kept: &[&Utf8Path]) -> Result<(), StoreError> {
    let note = kept_note(dir, run);
    let parent = note.parent().unwrap_or(&note);
    fs::create_dir_all(parent).map_err(StoreError::io("make", parent))?;
    let lines: Vec<&str> = kept.iter().map(|dir| dir.as_str()).collect();
    write_whole(&note, lines.join("\n").as_bytes())
}

/// Removes, on this machine, the directories that were kept for a next attempt that never followed. Returns their paths, because the other nodes may
/// have directories with the same paths.
///
/// # Errors
/// A directory cannot be removed.
pub fn remove_kept(dir: &CampaignDir) -> Result<Vec<PathBuf>, StoreError> {
    let mut removed = Vec::new();
    let Ok(notes) = dir.root().join("kept").read_dir_utf8() else {
        return Ok(removed);
    };
    for note in notes.flatten() {
        let text = fs::read_to_string(note.path()).map_err(StoreError::io("read", note.path()))?;
        // the listed directories are removed: ignore damaged lines that do not end with the run's name
        let is_of_run = |dir: &&Utf8Path| {
            let name = dir.file_name().map(|name| name.trim_end_matches(FLUSHED));
            dir.is_absolute() && name == Some(note.file_name())
        };
        for kept in text.lines().map(Utf8Path::new).filter(is_of_run) {
            remove_with_parent(kept)?;
            removed.push(kept.into());
        }
        remove_all(note.path())?;
    }
    Ok(removed)
}

/// What remains of an attempt on its other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    Nothing,
    /// The results that the campaign keeps.
    Results,
    /// All files from which the run's next attempt may continue.
    Checkpoints,
}

impl Leave {
    fn after(executed: &Executed) -> Self {
        match executed.kept.as_ref().map(|kept| kept.place) {
            Some(KeptPlace::Nodes) => Self::Checkpoints,
            Some(KeptPlace::Site | KeptPlace::Campaign) | None => Self::Results,
        }
    }
}

/// Returns the directory where a controller puts the checkpoint from which the run's next attempt continues.
pub fn sent_checkpoint(dir: &CampaignDir, run: &RunId) -> Utf8PathBuf {
    below(&dir.root().join("resume"), run.as_str())
}

/// Carries out attempts on this machine, whose ranks may run on other nodes.
pub struct LocalExecutor {
    /// Resources of the site.
    pub site: Arc<ReadySite>,
    /// Nodes of the site.
    pub nodes: Arc<Nodes>,
    /// Directory of the campaign.
    pub dir: CampaignDir,
    /// Starts the shepherds, which supervise runs.
    pub shepherds: Shepherds,
    /// Directories to remove once lost nodes are back.
    pub pending_cleanup: PendingCleanup,
    /// Whether Slurm starts steps in this job.
    pub steps: Steps,
}

/// Directories by node that could not be removed because the node was lost.
#[derive(Debug, Default)]
pub struct PendingCleanup(Mutex<BTreeMap<String, BTreeSet<PathBuf>>>);

impl PendingCleanup {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<PathBuf>>> {
        self.0.lock()
    }
}

impl LocalExecutor {
    /// Carries out one attempt: from its preparation to the renaming of its complete directory.
    ///
    /// # Errors
    /// The attempt's directory cannot be written.
    #[tracing::instrument(name = "attempt", skip_all, fields(run = %task.planned.id, number = task.attempt))]
    pub async fn attempt(
        &self,
        task: &Task,
        mut stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, RunError> {
        let run = task.planned.id.clone();
        let task = &self.with_kept_checkpoint(task, reporter);
        // directories that an earlier attempt left now belong to this attempt
        let _ = remove_all(&kept_note(&self.dir, &run));
        let prepared = match prepare(&self.site, &self.nodes, &self.dir, task) {
            Ok(prepared) => prepared,
            Err(error) => {
                let work = work_dir(&self.site.context, &self.dir, &task.point, &run);
                let dirs = (work.as_path(), None);
                return self
                    .finish(&run, dirs, task.attempt, failed(failure_of(&error)))
                    .await
                    .map(AttemptResult::Ended);
            }
        };
        let used = &prepared.run.used;
        let everywhere = used.everywhere();
        let began = Instant::now();
        let neighbours = Neighbours::watch();
        let ready = match self.get_ready(&prepared, task.disk_bytes).await {
            Ok(()) => tokio::select! {
                started = self.steps.wait(&prepared, |what| reporter.stage(what)) => started.map(|()| true).map_err(|refused| RunFailure::new(Cause::Launch, refused.to_string())),
                (node, reason) = used.crew.wait_lost(&everywhere) => Err(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}"))),
                () = stop_now(&mut stop_signal) => Ok(false),
            },
            Err(problem) => Err(problem),
        };
        let mut executed = match ready {
            Err(failure) => failed(failure),
            Ok(false) => interrupted(),
            Ok(true) => match execute(
                &self.site.context,
                &prepared,
                &self.shepherds,
                &mut stop_signal,
                reporter,
            )
            .await
            {
                Ok(executed) => executed,
                Err(error) => {
                    used.end_others().await;
                    Executed {
                        shepherd_lost: true,
                        ..failed(failure_of(&error))
                    }
                }
            },
        };
        executed.interrupted |= is_doubtful(&executed.outcome)
            && was_stopped(executed.end_requested, &mut stop_signal).await;
        if executed.interrupted {
            self.end_leftovers(&run, &prepared.run.work).await?;
            self.clear_others(&prepared, Leave::Nothing).await;
            let flushed = prepared.run.flush_dir.clone();
            let gone: Vec<Utf8PathBuf> = [prepared.run.work.clone(), prepared.run.dir.clone()]
                .into_iter()
                .chain(flushed)
                .collect();
            long_work(move || gone.iter().try_for_each(|path| remove_all(path))).await??;
            return Ok(AttemptResult::Interrupted);
        }
        if let Some(kept) = &mut executed.kept {
            kept.attempt = task.attempt;
            kept.wall_s = executed.wall_s + task.resume.as_ref().map_or(0.0, |e| e.wall_s);
        }
        // of a failed run, fetch the traces that are available
        if let (Err(failure), Outcome::Succeeded) =
            (fetch_traces(&prepared).await, &executed.outcome)
        {
            executed.outcome = failure.into();
        }
        let (traced, unread) = read_traces(&prepared).await?;
        executed.records.extend(traced.records);
        if prepared.run.point.checkpointer.has_own_files() {
            use_traced_bytes(&mut executed.records);
        }
        for (name, fact) in traced.facts {
            executed.facts[name] = fact.into();
        }
        if !traced.notes.is_empty() {
            executed.facts["trace_gaps"] = traced.notes.join("\n").into();
        }
        if let Some(unread) = unread {
            executed.facts["trace_not_read"] = unread.into();
        }
        neighbours.note(&mut executed.facts);
        drop(neighbours);
        if let Some(rate) = self.rate() {
            // the run used its nodes for this time, even if it failed
            let used_s =
                executed.used_s(began) + task.resume.as_ref().map_or(0.0, |kept| kept.used_s);
            let nodes = task.point.mapping.nodes();
            executed.records.push(rate.record(&run, used_s, nodes));
        }
        if let Some(kept) = &mut executed.kept {
            // without a kept checkpoint this time counts for this attempt alone
            kept.used_s = Instant::now().duration_since(began).as_secs_f64()
                + task.resume.as_ref().map_or(0.0, |e| e.used_s);
        }
        // the run's script removes this directory unless the script was killed; no other run has its name
        let _ = remove_all(&prepared.request.tmp_dir);
        if executed.shepherd_lost {
            // the lost shepherd's processes are still running
            self.end_leftovers(&run, &prepared.run.work).await?;
        }
        self.clear_others(&prepared, Leave::after(&executed)).await;
        let flushed = prepared.run.flush_dir.clone();
        let dirs = (prepared.run.work.as_path(), flushed);
        self.finish(&run, dirs, task.attempt, executed)
            .await
            .map(AttemptResult::Ended)
    }

    /// Returns the task without its checkpoint if the checkpoint has disappeared; the run then starts from the beginning.
    fn with_kept_checkpoint(&self, task: &Task, reporter: &AttemptReporter) -> Task {
        let mut task = task.clone();
        let work = work_dir(&self.site.context, &self.dir, &task.point, &task.planned.id);
        let is_gone = |kept: &KeptCheckpoint| kept.place != KeptPlace::Campaign && !work.is_dir();
        if task.resume.as_deref().is_some_and(is_gone) {
            reporter.stage("its checkpoint no longer exists: the run starts from the beginning");
            task.resume = None;
        }
        task
    }

    /// Ends processes of a run that its shepherd may have left on this machine.
    async fn end_leftovers(&self, run: &RunId, work: &Utf8Path) -> Result<(), RunError> {
        let (dir, run, work) = (self.dir.clone(), run.clone(), work.to_owned());
        long_work(move || drop(recover::end_leftovers(&dir, &run, None, &work))).await
    }

    /// Returns the price of a node of the site, if known.
    fn rate(&self) -> Option<NodeRate> {
        let context = &self.site.context;
        context
            .rate
            .clone()
            .or_else(|| NodeRate::of_settings(&context.site.price, Some(self.site.cores)))
    }

    /// Checks the free space on every node, and creates the run's directories on the other nodes.
    async fn get_ready(
        &self,
        prepared: &Prepared,
        disk_bytes: Option<u64>,
    ) -> Result<(), RunFailure> {
        if let Some(detail) = self.no_room(prepared, disk_bytes).await? {
            return Err(RunFailure::new(Cause::DiskFull, detail));
        }
        self.get_others_ready(prepared).await?;
        self.put_back(prepared).await
    }

    /// Creates the run's directories on the other nodes.
    async fn get_others_ready(&self, prepared: &Prepared) -> Result<(), RunFailure> {
        let used = &prepared.run.used;
        let others = used.others();
        if others.is_empty() {
            return Ok(());
        }
        let crew = |error: CrewError| RunFailure::new(cause_of_crew(&error), error.to_string());
        let made = used
            .crew
            .ask_all(&others, prepared.elsewhere.clone(), SOON)
            .await;
        crew::whole(made).map_err(crew)?;
        if used.storage == StorageKind::Shared {
            until_visible(prepared, &others).await;
        }
        let private = [prepared.request.tmp_dir.clone().into()];
        crew::whole(
            used.crew
                .guard(&others, &used.marker, &used.dirs, &private, SOON)
                .await,
        )
        .map_err(crew)?;
        Ok(())
    }

    /// Restores the checkpoint from which the run continues, if its files were moved away from its nodes.
    async fn put_back(&self, prepared: &Prepared) -> Result<(), RunFailure> {
        let Some(kept) = prepared
            .resume
            .as_ref()
            .filter(|kept| kept.place == KeptPlace::Campaign)
        else {
            return Ok(());
        };
        let run = &prepared.run.id;
        let sent = sent_checkpoint(&self.dir, run);
        let from = match sent.is_dir() {
            true => sent.clone(),
            false => self.dir.failed(run, kept.attempt).join(KEPT),
        };
        let put = keep::put_back(prepared, &from).await;
        // the campaign's own copy stays
        let _ = remove_all(&sent);
        put
    }

    /// Removes a run's files on the other nodes, except the files to leave there.
    async fn clear_others(&self, prepared: &Prepared, leave: Leave) {
        if leave != Leave::Checkpoints {
            self.clear_earlier(prepared).await;
        }
        let used = &prepared.run.used;
        let others = used.others();
        if others.is_empty() {
            return;
        }
        let run = &self.site.context.run;
        let has_results = leave == Leave::Results;
        let (images, outputs) = (
            has_results && run.keep_images,
            has_results && run.keep_outputs,
        );
        let work = prepared.run.work.as_std_path();
        let mut dirs: Vec<PathBuf> = vec![prepared.request.tmp_dir.clone().into()];
        if leave == Leave::Checkpoints {
            self.remove_when_back(&others, work);
        } else if used.storage == StorageKind::NodeLocal {
            match (images, outputs) {
                (false, false) => dirs.push(work.into()),
                (false, true) => dirs.extend(
                    prepared
                        .checkpointer
                        .dirs()
                        .iter()
                        .map(|dir| work.join(dir)),
                ),
                // the other files next to the images are small, and only another query could distinguish them from outputs
                (true, _) => dirs.push(work.join(LEVELS)),
            }
        }
        self.remove_or_defer(&others, &dirs).await;
        let _ = used.crew.unguard(&others, &used.marker, SOON).await;
    }

    /// Removes this run's kept checkpoints from nodes that the run no longer uses, because it has continued on other nodes.
    async fn clear_earlier(&self, prepared: &Prepared) {
        let on_nodes = prepared
            .resume
            .as_ref()
            .and_then(|kept| kept.on_nodes.as_ref());
        let on_nodes = on_nodes.and_then(|kept| KeptOnNodes::deserialize(kept).ok());
        let used = prepared.run.used.everywhere();
        let kept = on_nodes.iter().flat_map(|kept| &kept.nodes);
        let kept = kept.map(|node| node.name.as_str());
        let left: Vec<&str> = kept.filter(|name| !used.contains(name)).collect();
        if !left.is_empty() {
            let work = prepared.run.work.clone().into();
            self.remove_or_defer(&left, &[work]).await;
        }
    }

    /// For each of these nodes that is lost, schedules the removal of a directory until the node is back.
    fn remove_when_back(&self, nodes: &[&str], dir: &Path) {
        let lost = self.nodes.crew.lost().borrow().clone();
        let mut pending = self.pending_cleanup.lock();
        for node in nodes.iter().filter(|node| lost.contains_key(**node)) {
            let dirs = pending.entry((*node).to_owned()).or_default();
            dirs.insert(dir.to_owned());
        }
    }

    /// Removes directories on nodes. On a lost node the removal is deferred until the node is back.
    async fn remove_or_defer(&self, nodes: &[&str], dirs: &[PathBuf]) {
        for (node, removed) in self.nodes.crew.remove(nodes, dirs, &[], LATER).await {
            if removed.is_err() {
                self.pending_cleanup
                    .lock()
                    .entry(node)
                    .or_default()
                    .extend(dirs.iter().cloned());
            }
        }
    }

    /// Tries once to reach the lost nodes that `wanted` selects, and removes the directories whose removal was deferred from the nodes that are back.
    pub async fn bring_back(&self, wanted: impl Fn(&str) -> bool) {
        let (back, _) = self.nodes.crew.revive_of(wanted).await;
        for node in back {
            let pending = self.pending_cleanup.lock().remove(&node);
            if let Some(dirs) = pending {
                self.remove_or_defer(&[&node], &dirs.into_iter().collect::<Vec<_>>())
                    .await;
            }
        }
    }

    /// Ends, on all nodes, the processes of an attempt that a killed engine left, and removes the attempt's files unless it was complete. Returns the
    /// number of processes ended on this machine, and the outcome of a complete attempt.
    pub async fn recover(
        &self,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<(Vec<u32>, Option<OutcomeFile>), StoreError> {
        let run = &task.planned.id;
        let work = work_dir(&self.site.context, &self.dir, &task.point, run);
        let tmp = begun_tmp_dir(&self.dir, run);
        let others = self.nodes.others();
        let dirs: [PathBuf; 2] = [work.clone().into(), tmp.clone().into()];
        // a node that does not answer now is lost; its sentinel ends the processes there
        let _ = self
            .nodes
            .crew
            .end(&others, &marker(&self.dir, run), &dirs, 0.0, SOON)
            .await;
        let recovered = recover_run(
            &self.dir,
            |_| Some(&*self.site.context),
            run,
            task.attempt,
            shepherd,
        )?;
        let shared = self
            .site
            .context
            .site
            .storage
            .get(&task.point.storage)
            .is_some_and(|a| a.kind == StorageKind::Shared);
        let keep = shared || recovered.1.is_some();
        let gone = if keep {
            vec![tmp.into()]
        } else {
            dirs.to_vec()
        };
        self.remove_or_defer(&others, &gone).await;
        Ok(recovered)
    }

    /// Checks the space that a run needs on every node where it writes. Returns a message if a node has too little.
    async fn no_room(
        &self,
        prepared: &Prepared,
        needed: Option<u64>,
    ) -> Result<Option<String>, RunFailure> {
        let Some(needed) = needed else {
            return Ok(None);
        };
        let used = &prepared.run.used;
        let processes = u64::from(prepared.run.point.processes().max(1));
        let found = used
            .crew
            .free(&used.places(), &[prepared.run.work.clone().into()], SOON)
            .await;
        let found =
            crew::whole(found).map_err(|e| RunFailure::new(Cause::NodeLost, e.to_string()))?;
        for (node, spaces) in found {
            // each node stores the files of its own ranks; on a shared file system one node may store all files
            let load: u64 = used
                .ranks
                .iter()
                .zip(prepared.run.point.mapping.node_loads())
                .filter(|(n, _)| n.name == node)
                .map(|(_, l)| u64::from(l))
                .sum();
            let share = if used.storage == StorageKind::Shared {
                needed
            } else {
                (needed * load).div_ceil(processes)
            };
            let Some(space) = spaces.first() else {
                continue;
            };
            let free = space.free_bytes;
            let mib = |bytes: u64| bytes >> 20;
            if free < share {
                let on = if used.transport == Transport::Local {
                    String::new()
                } else {
                    format!("{node}: ")
                };
                let where_ = if space.place.is_in_memory() {
                    format!(
                        " of memory, where its files are ({})",
                        space.place.file_system
                    )
                } else {
                    String::new()
                };
                return Ok(Some(format!(
                    "{on}{} needs about {} MiB and has {} MiB free{where_}: free some space, or choose another storage area",
                    prepared.run.work,
                    mib(share),
                    mib(free)
                )));
            }
        }
        Ok(None)
    }

    /// Moves a run's files to their final location.
    async fn finish(
        &self,
        run: &RunId,
        (work, flush_dir): (&Utf8Path, Option<Utf8PathBuf>),
        attempt: u32,
        executed: Executed,
    ) -> Result<OutcomeFile, RunError> {
        let run_settings = &self.site.context.run;
        let (images, outputs) = (run_settings.keep_images, run_settings.keep_outputs);
        let place = executed.kept.as_ref().map(|kept| kept.place);
        let is_on_nodes = place == Some(KeptPlace::Nodes);
        let flush_kept = flush_dir.clone().filter(|_| is_on_nodes);
        let remains = Remains {
            dir: self.dir.clone(),
            run: run.clone(),
            work: work.to_owned(),
            flush_dir: flush_dir.filter(|_| !is_on_nodes && !executed.files_lost),
            attempt,
            images,
            outputs,
            work_is_kept: executed.files_lost
                || matches!(place, Some(KeptPlace::Site | KeptPlace::Nodes)),
        };
        if remains.work_is_kept {
            let kept: Vec<&Utf8Path> = [work].into_iter().chain(flush_kept.as_deref()).collect();
            note_kept(&self.dir, run, &kept)?;
        }
        long_work(move || remains.finish(executed)).await?
    }
}

#[async_trait]
impl<E: From<RunError> + Send + 'static> Executor<E> for LocalExecutor {
    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, E> {
        Ok(LocalExecutor::attempt(self, task, stop_signal, reporter).await?)
    }

    fn cores(&self) -> u32 {
        self.site.cores
    }

    fn nodes(&self) -> Vec<String> {
        let lost = self.nodes.crew.lost().borrow().clone();
        self.nodes
            .all
            .iter()
            .map(|n| n.name.clone())
            .filter(|n| !lost.contains_key(n))
            .collect()
    }

    fn free_nodes(&self, wanted: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
        let nodes = Executor::<E>::nodes(self);
        if self.nodes.transport == Transport::Local {
            // this machine acts as all nodes of a mapping
            return Some(nodes);
        }
        choose_free(nodes, wanted, used)
    }

    fn side_by_side(&self) -> bool {
        self.site
            .context
            .site
            .cluster
            .as_ref()
            .is_some_and(|c| c.side_by_side)
    }

    fn obstacle(&self, planned: &PlannedPoint) -> Option<String> {
        self.site.obstacle(&planned.point)
    }

    fn local_context(&self) -> Option<&SiteContext> {
        Some(&self.site.context)
    }

    fn forget(&self, _: &Task) {
        // the outcome is in the campaign's own directory: nothing else is to be removed
    }
}

/// Returns whether a requested stop may have caused the failure.
fn is_doubtful(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Succeeded => false,
        // these failures belong to the run, whether or not a stop was requested
        Outcome::Failed { cause, .. } => !matches!(cause, Cause::Timeout | Cause::Output),
    }
}

/// Returns whether a requested stop may have ended a failed run. A shutdown signals all processes, and the signal may reach cvc later than the run.
async fn was_stopped(end_requested: bool, stop_signal: &mut StopSignal) -> bool {
    if end_requested {
        // if cvc gets no signal within the limit, the signal was for the run alone
        let _ = tokio::time::timeout(
            STOP_LIMIT,
            stop_signal.wait_for(|now| *now >= StopRequest::Finish),
        )
        .await;
    }
    *stop_signal.borrow() >= StopRequest::Finish
}

/// Converts an error to a failure of the run: a problem with a run's own directory does not fail the campaign.
fn failure_of(error: &RunError) -> RunFailure {
    let cause = match error {
        RunError::Store(error) if error.is_full_disk() => Cause::DiskFull,
        RunError::Input(error) if error.is_full_disk() => Cause::DiskFull,
        RunError::Store(_) => Cause::Store,
        RunError::Host(_)
        | RunError::Input(_)
        | RunError::Render(_)
        | RunError::Descriptor { .. }
        | RunError::Shepherd { .. }
        | RunError::Area(_)
        | RunError::Broken(_) => Cause::Launch,
        RunError::Crew(error) => cause_of_crew(error),
    };
    RunFailure::new(cause, error.to_string())
}

/// Returns the cause of failure of a run for which a node could not carry out a request.
fn cause_of_crew(error: &CrewError) -> Cause {
    match error {
        _ if error.is_disk_full() => Cause::DiskFull,
        CrewError::Lost { .. } | CrewError::Timeout { .. } => Cause::NodeLost,
        _ => Cause::Launch,
    }
}

/// Returns the number of bytes that a user may still write to the file system of this directory.
pub fn free_bytes(directory: &Utf8Path) -> Option<u64> {
    let absolute =
        Utf8PathBuf::from_path_buf(std::path::absolute(directory.as_std_path()).ok()?).ok()?;
    let existing = absolute.ancestors().find(|d| d.exists())?;
    cvc_os::space::free_bytes(existing.as_std_path()).ok()
}

/// Waits until these nodes list the run's working directory, for ten seconds at most: a mount may show a directory of another node late, and a launcher
/// cannot start a rank in a directory that is missing.
async fn until_visible(prepared: &Prepared, nodes: &[&str]) {
    let work = prepared.run.work.as_std_path();
    for _ in 0..VISIBLE_CHECKS {
        let listings = prepared.run.used.crew.listing(nodes, work, &[], SOON).await;
        let is_missing = listings
            .iter()
            .any(|(_, listing)| listing.as_ref().is_ok_and(|found| !found.exists));
        if !is_missing {
            return;
        }
        tokio::time::sleep(VISIBLE_TICK).await;
    }
}
