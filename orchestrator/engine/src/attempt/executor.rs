//! The executor: where attempts are carried out. One on this machine serves local sites; on a cluster the agent has one.

use super::{
    error::RunError,
    execute::{Executed, execute, interrupted},
    nodes::{LATER, Nodes, SOON, Ways},
    prepare::{Prepared, marker, prepare, tmp_dir, work_dir},
    recover::{self, OUTCOME, OutcomeFile},
    site::ReadySite,
    slurm_steps::Steps,
};
use crate::attempt::{context::SiteContext, reporter::AttemptReporter};
use crate::crew::{self, CrewError};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::stop::{StopSignal, stop_now};
use cvc_core::{
    campaign::StorageKind,
    ids::RunId,
    outcome::{Cause, Outcome},
    plan::PlannedRun,
    point::Point,
    price::NodeRate,
    store::{CampaignDir, StoreError, copy_tree, remove_all},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// One attempt at a run, as it is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub planned: PlannedRun,
    pub point: Point,
    pub attempt: u32,
    /// Number of this try among all of the run, those that were cut off included: no other has it.
    pub dispatch: u32,
    /// Nodes to use, in the order of the mapping.
    pub nodes: Vec<String>,
    /// Bytes that it needs in its storage area at most, where that is known.
    pub disk_bytes: Option<u64>,
}

/// What came of an attempt.
#[derive(Debug)]
pub enum Attempted {
    /// It ended, and its directory has its final name.
    Ended(OutcomeFile),
    /// The user cut it off; nothing of it is left.
    Interrupted,
    /// It was lost with what carried it out; nothing of it is left, and it does not count.
    Lost {
        /// Why.
        reason: String,
        /// The job that it was in reached its time limit.
        time_limit: bool,
    },
    /// What carried it out has ended in a way that is the run's failure; there is no directory of it yet.
    Failed { cause: Cause, detail: String },
}

/// Where attempts are carried out.
pub struct LocalExecutor {
    pub site: Arc<ReadySite>,
    pub nodes: Arc<Nodes>,
    pub dir: CampaignDir,
    /// Program and arguments that start a shepherd; the job file follows.
    pub shepherd: Vec<String>,
    pub pending_cleanup: PendingCleanup,
    /// Whether Slurm starts steps in this job.
    pub steps: Steps,
}

/// Directories that could not be removed, because their node was lost.
#[derive(Debug, Default)]
pub struct PendingCleanup(Mutex<BTreeMap<String, BTreeSet<PathBuf>>>);

impl PendingCleanup {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<PathBuf>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalExecutor {
    /// One attempt, from its preparation to its directory's final name.
    #[tracing::instrument(name = "attempt", skip_all, fields(run = %task.planned.id, number = task.attempt))]
    pub async fn attempt(&self, task: &Task, mut stop_signal: StopSignal, reporter: &AttemptReporter) -> Result<Attempted, RunError> {
        let run = task.planned.id.clone();
        let prepared = match prepare(&self.site, &self.nodes, &self.dir, task) {
            Ok(prepared) => prepared,
            Err(error) => {
                let work = work_dir(&self.site.context, &self.dir, &task.point, &run);
                return self.finish(&run, &work, task.attempt, failed(cause_of(&error), error.to_string())).map(Attempted::Ended);
            }
        };
        let used = &prepared.used;
        let began = std::time::Instant::now();
        let ready = match self.get_ready(&prepared, task.disk_bytes).await {
            Ok(()) => tokio::select! {
                started = self.steps.wait(&prepared, |what| reporter.stage(what)) => started.map(|()| true).map_err(|said| (Cause::Launch, said)),
                () = stop_now(&mut stop_signal) => Ok(false),
            },
            Err(problem) => Err(problem),
        };
        let mut executed = match ready {
            Err((cause, detail)) => failed(cause, detail),
            Ok(false) => interrupted(),
            Ok(true) => match execute(&self.site.context, &prepared, &self.shepherd, &mut stop_signal, reporter).await {
                Ok(executed) => executed,
                Err(error) => {
                    used.end_others().await;
                    Executed { shepherd_lost: true, ..failed(cause_of(&error), error.to_string()) }
                }
            },
        };
        if executed.interrupted {
            recover::end_leftovers(&self.dir, &run, None, &prepared.work);
            self.clear_others(&prepared, false).await;
            remove_all(&prepared.work)?;
            remove_all(&prepared.dir)?;
            return Ok(Attempted::Interrupted);
        }
        if let Some(rate) = self.rate() {
            // it had its nodes all that time, whatever came of it
            executed.records.push(rate.record(&run, began.elapsed().as_secs_f64(), task.point.mapping.nodes()));
        }
        // its script removes it, unless it was killed; the name is the run's own
        let _ = fs::remove_dir_all(&prepared.request.tmp_dir);
        if executed.shepherd_lost {
            // nobody has ended what it watched over
            recover::end_leftovers(&self.dir, &run, None, &prepared.work);
        }
        self.clear_others(&prepared, true).await;
        self.finish(&run, &prepared.work, task.attempt, executed).map(Attempted::Ended)
    }

    /// What a node of the site costs, if anybody has said so.
    fn rate(&self) -> Option<NodeRate> {
        let context = &self.site.context;
        context.rate.clone().or_else(|| NodeRate::of_settings(&context.site.price, Some(self.site.cores)))
    }

    /// What must be there before anything is started: room on every node, and directories on those beside this one.
    async fn get_ready(&self, prepared: &Prepared, disk_bytes: Option<u64>) -> Result<(), (Cause, String)> {
        if let Some(detail) = self.no_room(prepared, disk_bytes).await? {
            return Err((Cause::DiskFull, detail));
        }
        let used = &prepared.used;
        let others = used.others();
        if others.is_empty() {
            return Ok(());
        }
        let crew = |error: CrewError| (cause_of_crew(&error), error.to_string());
        let made = used.crew.ask_all(&others, prepared.elsewhere.clone(), SOON).await;
        crew::whole(made).map_err(crew)?;
        let private = [prepared.request.tmp_dir.clone().into()];
        crew::whole(used.crew.guard(&others, &used.marker, &used.dirs, &private, SOON).await).map_err(crew)?;
        Ok(())
    }

    /// Removes what a run left on the other nodes, but what is to be kept.
    async fn clear_others(&self, prepared: &Prepared, may_keep: bool) {
        let used = &prepared.used;
        let others = used.others();
        if others.is_empty() {
            return;
        }
        let run = &self.site.context.run;
        let (images, outputs) = (may_keep && run.keep_images, may_keep && run.keep_outputs);
        let work = prepared.work.as_std_path();
        let mut dirs: Vec<PathBuf> = vec![prepared.request.tmp_dir.clone().into()];
        if used.storage == StorageKind::NodeLocal {
            match (images, outputs) {
                (false, false) => dirs.push(work.into()),
                (false, true) => dirs.extend([work.join("ckpt"), work.join("dmtcp")]),
                // what lies beside the images is small, and cannot be told from outputs without asking again
                (true, _) => {}
            }
        }
        self.remove_or_defer(&others, &dirs).await;
        let _ = used.crew.unguard(&others, &used.marker, SOON).await;
    }

    /// Removes directories on nodes; on one that is lost, when it is there again.
    async fn remove_or_defer(&self, nodes: &[&str], dirs: &[PathBuf]) {
        for (node, removed) in self.nodes.crew.remove(nodes, dirs, &[], LATER).await {
            if removed.is_err() {
                self.pending_cleanup.lock().entry(node).or_default().extend(dirs.iter().cloned());
            }
        }
    }

    /// Removes what was left on nodes that were lost.
    pub async fn settle_pending_cleanup(&self, nodes: &[String]) {
        for node in nodes {
            let owed = self.pending_cleanup.lock().remove(node);
            if let Some(dirs) = owed {
                self.remove_or_defer(&[node], &dirs.into_iter().collect::<Vec<_>>()).await;
            }
        }
    }

    /// Ends what a killed engine left of an attempt on all nodes, and removes it unless it was whole. Processes of this machine that were
    /// ended, and the outcome if the run was whole.
    pub async fn recover(&self, task: &Task, shepherd: Option<(u32, u64)>) -> Result<(Vec<u32>, Option<OutcomeFile>), StoreError> {
        let run = &task.planned.id;
        let work = work_dir(&self.site.context, &self.dir, &task.point, run);
        let tmp = tmp_dir(&self.dir, run);
        let others = self.nodes.others();
        let dirs: [PathBuf; 2] = [work.clone().into(), tmp.clone().into()];
        // a node that does not answer now is lost, and what it guarded is ended there
        let _ = self.nodes.crew.end(&others, &marker(&self.dir, run), &dirs, 0.0, SOON).await;
        let recovered = recover_run(&self.dir, |_| Some(&*self.site.context), run, task.attempt, shepherd)?;
        let shared = self.site.context.site.storage.get(&task.point.storage).is_some_and(|a| a.kind == StorageKind::Shared);
        let keep = shared || recovered.1.is_some();
        let gone = if keep { vec![tmp.into()] } else { dirs.to_vec() };
        self.remove_or_defer(&others, &gone).await;
        Ok(recovered)
    }

    /// What is missing to the room that a run needs, on every node where it writes.
    async fn no_room(&self, prepared: &Prepared, needed: Option<u64>) -> Result<Option<String>, (Cause, String)> {
        let Some(needed) = needed else { return Ok(None) };
        let used = &prepared.used;
        let processes = u64::from(prepared.point.processes().max(1));
        let found = used.crew.free(&used.places(), &[prepared.work.clone().into()], SOON).await;
        let found = crew::whole(found).map_err(|e| (Cause::NodeLost, e.to_string()))?;
        for (node, spaces) in found {
            // each node has its part of the ranks, and one may hold everything where all see the same
            let load: u64 =
                used.ranks.iter().zip(prepared.point.mapping.node_loads()).filter(|(n, _)| n.name == node).map(|(_, l)| u64::from(l)).sum();
            let share = if used.storage == StorageKind::Shared { needed } else { (needed * load).div_ceil(processes) };
            let Some(free) = spaces.first().map(|s| s.free_bytes) else { continue };
            let mib = |bytes: u64| bytes >> 20;
            if free < share {
                let on = if used.ways == Ways::Local { String::new() } else { format!("{node}: ") };
                return Ok(Some(format!(
                    "{on}{} needs about {} MiB and has {} MiB free: make room, or choose another storage area",
                    prepared.work,
                    mib(share),
                    mib(free)
                )));
            }
        }
        Ok(None)
    }

    /// Writes down how the run ended and gives its directory its final name; only after that may a journal say so.
    fn finish(&self, run: &RunId, work: &Utf8Path, attempt: u32, executed: Executed) -> Result<OutcomeFile, RunError> {
        let file = conclude(&self.dir, run, attempt, &executed)?;
        self.clear_work(&self.dir.partial(run), work)?;
        seal(&self.dir, run, &file)?;
        Ok(file)
    }

    /// Keeps traces beside the run, and of the rest what the campaign wants to keep.
    fn clear_work(&self, partial: &Utf8Path, work: &Utf8Path) -> Result<(), StoreError> {
        for trace in ["trace", "run.darshan"] {
            let from = work.join(trace);
            if from.exists() {
                copy_tree(&from, &partial.join(trace))?;
                remove_all(&from)?;
            }
        }
        let (images, outputs) = (self.site.context.run.keep_images, self.site.context.run.keep_outputs);
        if !work.exists() || (!images && !outputs) {
            return remove_with_parent(work);
        }
        let entries = work.read_dir_utf8().map_err(StoreError::io("list", work))?;
        for entry in entries.flatten() {
            let of_dmtcp = matches!(entry.file_name(), "ckpt" | "dmtcp");
            if !(if of_dmtcp { images } else { outputs }) {
                remove_all(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Ends what is left of a run that was open when its engine was killed, and removes it unless it was whole.
pub fn recover_run<'b>(
    dir: &CampaignDir,
    context_of: impl Fn(&str) -> Option<&'b SiteContext>,
    run: &RunId,
    attempt: u32,
    shepherd: Option<(u32, u64)>,
) -> Result<(Vec<u32>, Option<OutcomeFile>), StoreError> {
    let partial = dir.partial(run);
    // the point may have left the plan; what its run was started with says where it worked
    let work = recorded_point(&partial)
        .and_then(|point| Some(work_dir(context_of(&point.site)?, dir, &point, run)))
        .unwrap_or_else(|| dir.root().join("work").join(run.as_str()));
    let ended = recover::end_leftovers(dir, run, shepherd, &work);
    let whole = recover::sealed_outcome(dir, run, attempt);
    if whole.is_none() {
        // where the run was whole, what is left of its work is what the campaign keeps
        remove_all(&work)?;
        remove_all(&partial)?;
    }
    Ok((ended, whole))
}

/// Writes down how a run ended.
fn conclude(dir: &CampaignDir, run: &RunId, attempt: u32, executed: &Executed) -> Result<OutcomeFile, StoreError> {
    let partial = dir.partial(run);
    fs::create_dir_all(&partial).map_err(StoreError::io("make", &partial))?;
    let mut text = Vec::new();
    for record in &executed.records {
        serde_json::to_writer(&mut text, record).map_err(|e| StoreError::damaged(&partial, 0, e.to_string()))?;
        text.push(b'\n');
    }
    let digest = blake3::hash(&text).to_hex()[..16].to_owned();
    let put = |name: &str, bytes: &[u8]| {
        let path = partial.join(name);
        fs::write(&path, bytes).map_err(StoreError::io("write", &path))
    };
    put("records.jsonl", &text)?;
    put("facts.json", &serde_json::to_vec_pretty(&executed.facts).unwrap_or_default())?;
    let records = (executed.outcome == Outcome::Succeeded).then_some(digest);
    let file = OutcomeFile { attempt, outcome: executed.outcome.clone(), records, wall_s: executed.wall_s };
    put(OUTCOME, &serde_json::to_vec_pretty(&file).unwrap_or_default())?;
    Ok(file)
}

/// The directory of an attempt that failed before anything of it could be brought here.
pub fn conclude_failed(dir: &CampaignDir, run: &RunId, attempt: u32, cause: Cause, detail: String) -> Result<OutcomeFile, StoreError> {
    remove_all(&dir.partial(run))?;
    let file = conclude(dir, run, attempt, &failed(cause, detail))?;
    seal(dir, run, &file)?;
    Ok(file)
}

/// Gives a whole directory its final name.
pub fn seal(dir: &CampaignDir, run: &RunId, file: &OutcomeFile) -> Result<(), StoreError> {
    let partial = dir.partial(run);
    sync_directory(&partial)?;
    let last = if file.outcome == Outcome::Succeeded { dir.run(run) } else { dir.failed(run, file.attempt) };
    remove_all(&last)?;
    fs::rename(&partial, &last).map_err(StoreError::io("rename to", &last))?;
    sync_directory(&dir.runs())
}

/// A run that failed before there was anything to measure.
pub(super) fn failed(cause: Cause, detail: String) -> Executed {
    Executed {
        outcome: Outcome::Failed { cause, detail },
        records: Vec::new(),
        facts: serde_json::Value::Null,
        wall_s: 0.0,
        interrupted: false,
        shepherd_lost: false,
    }
}

/// What of a run's own directory could not be used is that run's failure, not the campaign's.
fn cause_of(error: &RunError) -> Cause {
    match error {
        RunError::Store(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::StorageFull => Cause::DiskFull,
        RunError::Store(_) => Cause::Store,
        RunError::Host(_) | RunError::Render(_) | RunError::Descriptor { .. } | RunError::Shepherd { .. } | RunError::Broken(_) => {
            Cause::Launch
        }
        RunError::Crew(error) => cause_of_crew(error),
    }
}

/// What it is for a run that a node could not do what it was asked.
fn cause_of_crew(error: &CrewError) -> Cause {
    match error {
        _ if error.is_disk_full() => Cause::DiskFull,
        CrewError::Lost { .. } | CrewError::Timeout { .. } => Cause::NodeLost,
        _ => Cause::Launch,
    }
}

/// Removes a run's working directory, and the campaign's in the storage area when it was the last in it.
fn remove_with_parent(work: &Utf8Path) -> Result<(), StoreError> {
    remove_all(work)?;
    if let Some(parent) = work.parent() {
        // others are in it: then it stays
        let _ = fs::remove_dir(parent);
    }
    Ok(())
}

fn recorded_point(partial: &Utf8Path) -> Option<Point> {
    let text = fs::read(partial.join("run.json")).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
    serde_json::from_value(value.get("point")?.clone()).ok()
}

/// Bytes that a user may still write where this directory lies.
pub fn free_bytes(directory: &Utf8Path) -> Option<u64> {
    let absolute = Utf8PathBuf::from_path_buf(std::path::absolute(directory.as_std_path()).ok()?).ok()?;
    let existing = absolute.ancestors().find(|d| d.exists())?;
    let stat = nix::sys::statvfs::statvfs(existing.as_std_path()).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}

/// Makes sure that the files of a directory, and their names, survive a loss of power.
fn sync_directory(directory: &Utf8Path) -> Result<(), StoreError> {
    let fail = |e| StoreError::io("sync", directory)(e);
    let mut seen = HashSet::new();
    for name in ["records.jsonl", "facts.json", OUTCOME] {
        let path = directory.join(name);
        if path.is_file() && seen.insert(path.clone()) {
            fs::File::open(&path).and_then(|f| f.sync_all()).map_err(fail)?;
        }
    }
    fs::File::open(directory).and_then(|d| d.sync_all()).map_err(fail)
}
