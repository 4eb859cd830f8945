//! Walks through a plan: resumes, runs, retries, sets points aside, stops when asked.

use super::{
    Wish, Wishes,
    error::EngineError,
    execute::{Executed, execute},
    observe::{Observer, Progress},
    prepare::{Prepared, prepare, work_dir},
    recover::{self, OUTCOME, OutcomeFile},
    site::ReadySite,
};
use crate::{
    ids::{PointId, RunId},
    journal::{CampaignState, Cause, Event, Journal, Outcome, RunState},
    plan::{Plan, PlannedRun},
    point::Point,
    spec::Spec,
    store::{CampaignDir, CampaignLock, StoreError, copy_tree, write_whole},
};
use camino::{Utf8Path, Utf8PathBuf};
use indexmap::IndexMap;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
};

/// How a campaign is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of all campaigns.
    pub campaigns: Utf8PathBuf,
    /// Program and arguments that start a shepherd; the job file follows.
    pub shepherd: Vec<String>,
    /// Try runs again that failed for good, and points that were set aside.
    pub retry_failed: bool,
    /// Bytes that a run of a point needs in its storage area at most, where that is known.
    pub disk_bytes: HashMap<PointId, u64>,
}

/// Where the campaign stands after this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs that succeeded, earlier ones included.
    pub succeeded: u64,
    /// Runs that failed for good.
    pub failed: u64,
    /// Runs that are not tried: set aside, or something is not installed.
    pub skipped: u64,
    /// Runs that are still to be done: the user stopped.
    pub left: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
}

/// One campaign under way.
struct Coordinator<'a> {
    spec: &'a Spec,
    sites: &'a IndexMap<String, ReadySite>,
    options: &'a Options,
    dir: CampaignDir,
    journal: Journal,
    state: CampaignState,
    points: HashMap<PointId, Point>,
    wishes: Wishes,
    observer: &'a mut dyn Observer,
    /// Points that cannot run here.
    obstacles: BTreeMap<PointId, String>,
    /// Attempts that do not count, because the user has asked for further ones.
    forgiven: HashMap<RunId, u32>,
}

/// Runs what of a plan is still to be done.
pub async fn run_campaign(
    spec: &Spec,
    plan: &Plan,
    sites: &IndexMap<String, ReadySite>,
    options: &Options,
    wishes: Wishes,
    observer: &mut dyn Observer,
) -> Result<Summary, EngineError> {
    let dir = CampaignDir::new(&options.campaigns, &plan.campaign);
    fs::create_dir_all(dir.runs()).map_err(StoreError::io("make", dir.runs()))?;
    let root = dir.root().canonicalize_utf8().map_err(StoreError::io("resolve", dir.root()))?;
    let dir = CampaignDir::at(&root);
    let _lock = CampaignLock::take(&dir.lock())?;
    write_whole(&dir.campaign_file(), spec.text.as_bytes())?;
    let plan_json = serde_json::to_vec_pretty(plan).map_err(|e| StoreError::damaged(dir.plan(), 0, e.to_string()))?;
    write_whole(&dir.plan(), &plan_json)?;
    let (journal, entries) = Journal::open(&dir.journal(), &plan.campaign)?;
    let mut coordinator = Coordinator {
        spec,
        sites,
        options,
        dir,
        journal,
        state: CampaignState::of(&entries),
        points: plan.points.iter().map(|p| (p.id.clone(), p.point.clone())).collect(),
        wishes,
        observer,
        obstacles: BTreeMap::new(),
        forgiven: HashMap::new(),
    };
    coordinator.recover()?;
    if options.retry_failed {
        coordinator.forget_failures()?;
    }
    let digest = blake3::hash(&plan_json).to_hex()[..16].to_owned();
    coordinator.write(Event::Started { plan: digest, runs: plan.runs.len() as u64, pid: std::process::id() })?;
    coordinator.look_for_obstacles(plan)?;
    coordinator.walk(plan).await
}

impl Coordinator<'_> {
    fn write(&mut self, event: Event) -> Result<(), EngineError> {
        let entry = self.journal.append(event)?;
        self.state.apply(&entry);
        Ok(())
    }

    /// Ends what a killed controller left, keeps what was whole, and marks the rest to be done again.
    fn recover(&mut self) -> Result<(), EngineError> {
        let open: Vec<(RunId, u32, _)> = self
            .state
            .runs
            .iter()
            .filter_map(|(run, history)| match &history.state {
                RunState::Open { attempt, shepherd } => Some((run.clone(), *attempt, *shepherd)),
                RunState::Abandoned { .. } | RunState::Finished { .. } => None,
            })
            .collect();
        for (run, attempt, shepherd) in open {
            let partial = self.dir.partial(&run);
            // the point may have left the plan; what its run was started with says where it worked
            let work = recorded_point(&partial)
                .map(|point| work_dir(self.spec, &self.dir, &point, &run))
                .unwrap_or_else(|| self.dir.root().join("work").join(run.as_str()));
            let ended = recover::end_leftovers(&self.dir, &run, shepherd, &work);
            let whole = recover::whole(&self.dir, &run, attempt);
            if whole.is_none() {
                // where the run was whole, what is left of its work is what the campaign keeps
                remove(&work)?;
            }
            self.observer.on(&Progress::Recovered { run: run.clone(), ended: ended.len() as u64, kept: whole.is_some() });
            match whole {
                Some(file) => self.write(Event::RunFinished { run, attempt, outcome: file.outcome, records: file.records })?,
                None => {
                    remove(&partial)?;
                    self.write(Event::RunAbandoned { run, attempt, ended })?;
                }
            }
        }
        Ok(())
    }

    /// Failed runs get their attempts again. They go on counting where they were: directories of earlier attempts keep their names.
    fn forget_failures(&mut self) -> Result<(), EngineError> {
        for (run, history) in &mut self.state.runs {
            if let RunState::Finished { attempt, outcome: Outcome::Failed { .. }, .. } = history.state {
                self.forgiven.insert(run.clone(), attempt);
                history.state = RunState::Abandoned { attempts: attempt };
            }
        }
        // in the journal, or a controller that is killed now would find the points still set aside
        for point in self.state.quarantined.clone() {
            self.write(Event::PointReleased { point })?;
        }
        Ok(())
    }

    /// Whether a failed run has no attempt left.
    fn used_up(&self, run: &RunId, attempt: u32) -> bool {
        attempt.saturating_sub(self.forgiven.get(run).copied().unwrap_or(0)) > self.spec.run.retries
    }

    fn look_for_obstacles(&mut self, plan: &Plan) -> Result<(), EngineError> {
        let runs: HashMap<&PointId, u64> = plan.runs.iter().fold(HashMap::new(), |mut runs, r| {
            *runs.entry(&r.point).or_default() += 1;
            runs
        });
        let mut reasons: IndexMap<String, (Vec<PointId>, Vec<Point>, u64)> = IndexMap::new();
        for planned in &plan.points {
            let obstacle = match self.sites.get(&planned.point.site) {
                Some(site) => site.obstacle(self.spec, &planned.point),
                None => Some(format!("site {} was not asked", planned.point.site)),
            };
            if let Some(reason) = obstacle {
                let (ids, points, of_reason) = reasons.entry(reason.clone()).or_default();
                ids.push(planned.id.clone());
                points.push(planned.point.clone());
                *of_reason += runs.get(&planned.id).copied().unwrap_or(0);
                self.obstacles.insert(planned.id.clone(), reason);
            }
        }
        for (reason, (ids, points, runs)) in reasons {
            self.write(Event::PointsSkipped { points: ids, reason: reason.clone() })?;
            self.observer.on(&Progress::Skipped { reason, points, runs });
        }
        Ok(())
    }

    /// Attempts that a run has behind it, or `None` if it needs none any more.
    fn attempts_before(&self, run: &RunId) -> Option<u32> {
        match self.state.run(run) {
            None => Some(0),
            Some(RunState::Abandoned { attempts }) => Some(*attempts),
            Some(RunState::Finished { outcome: Outcome::Succeeded, .. }) => None,
            Some(RunState::Finished { attempt, outcome: Outcome::Failed { .. }, .. }) => (!self.used_up(run, *attempt)).then_some(*attempt),
            // recovery has closed all that were open
            Some(RunState::Open { attempt, .. }) => Some(attempt.saturating_sub(1)),
        }
    }

    async fn walk(&mut self, plan: &Plan) -> Result<Summary, EngineError> {
        let can_run: u64 = plan.runs.iter().filter(|r| !self.obstacles.contains_key(&r.point)).count() as u64;
        let done = plan.runs.iter().filter(|r| self.attempts_before(&r.id).is_none()).count() as u64;
        self.observer.on(&Progress::Started { runs: can_run, done });
        let of_points = plan.runs.iter().fold(HashMap::<&PointId, Vec<&RunId>>::new(), |mut of, run| {
            of.entry(&run.point).or_default().push(&run.id);
            of
        });
        let mut interrupted = false;
        for (number, planned) in (1u64..).zip(&plan.runs) {
            if self.obstacles.contains_key(&planned.point) || self.state.quarantined.contains(&planned.point) {
                continue;
            }
            while let Some(before) = self.attempts_before(&planned.id) {
                if *self.wishes.borrow() > Wish::GoOn {
                    interrupted = true;
                    break;
                }
                if !self.one(planned, number, before + 1).await? {
                    interrupted = true;
                    break;
                }
            }
            if interrupted {
                break;
            }
            self.set_aside(&planned.point, of_points.get(&planned.point).map_or(&[], Vec::as_slice))?;
        }
        let summary = self.summary(plan, interrupted);
        if interrupted {
            let now = *self.wishes.borrow() == Wish::StopNow;
            self.write(Event::Interrupted { now })?;
        } else {
            self.write(Event::Completed { succeeded: summary.succeeded, failed: summary.failed })?;
        }
        self.observer.on(&Progress::Ended {
            succeeded: summary.succeeded,
            failed: summary.failed,
            skipped: summary.skipped,
            left: summary.left,
        });
        Ok(summary)
    }

    fn summary(&self, plan: &Plan, interrupted: bool) -> Summary {
        let mut summary = Summary { interrupted, ..Summary::default() };
        for planned in &plan.runs {
            match self.state.run(&planned.id) {
                Some(RunState::Finished { outcome: Outcome::Succeeded, .. }) => summary.succeeded += 1,
                Some(RunState::Finished { .. }) if self.attempts_before(&planned.id).is_none() => summary.failed += 1,
                _ if self.obstacles.contains_key(&planned.point) || self.state.quarantined.contains(&planned.point) => summary.skipped += 1,
                _ => summary.left += 1,
            }
        }
        summary
    }

    /// Sets a point aside when too many of its runs have failed for good.
    fn set_aside(&mut self, point: &PointId, of_point: &[&RunId]) -> Result<(), EngineError> {
        let failed = of_point
            .iter()
            .filter(|r| matches!(self.state.run(r), Some(RunState::Finished { outcome: Outcome::Failed { .. }, .. })))
            .count();
        let failures = u32::try_from(failed).unwrap_or(u32::MAX);
        if failures < self.spec.run.quarantine_after || self.state.quarantined.contains(point) {
            return Ok(());
        }
        let skipped = of_point.iter().filter(|r| self.attempts_before(r).is_some()).count() as u64;
        if skipped == 0 {
            return Ok(());
        }
        self.write(Event::PointQuarantined { point: point.clone(), failures })?;
        self.observer.on(&Progress::Quarantined { point: point.clone(), skipped });
        Ok(())
    }

    /// One attempt. `false` when the user has cut it off.
    async fn one(&mut self, planned: &PlannedRun, number: u64, attempt: u32) -> Result<bool, EngineError> {
        let run = planned.id.clone();
        let Some(point) = self.points.get(&planned.point).cloned() else {
            return Err(StoreError::damaged(self.dir.plan(), 0, format!("run {run} names a point that is not in the plan")).into());
        };
        let Some(site) = self.sites.get(&point.site) else { return Ok(false) };
        self.observer.on(&Progress::RunStarted {
            run: run.clone(),
            point: Box::new(point.clone()),
            repeat: planned.repeat,
            attempt,
            number,
        });
        self.write(Event::RunIntended { run: run.clone(), attempt })?;
        let prepared = match prepare(self.spec, site, &self.dir, planned, &point) {
            Ok(prepared) => prepared,
            Err(error) => {
                let work = work_dir(self.spec, &self.dir, &point, &run);
                self.finish(&run, &work, attempt, failed(cause_of(&error), error.to_string()))?;
                return Ok(true);
            }
        };
        let executed = match self.no_room(&prepared, &planned.point) {
            Some(detail) => failed(Cause::DiskFull, detail),
            None => {
                let (journal, state) = (&mut self.journal, &mut self.state);
                let (id, mut wishes) = (run.clone(), self.wishes.clone());
                let started = |shepherd: cvc_probe::proc::ProcessId| -> Result<(), EngineError> {
                    let event = Event::RunStarted { run: id, attempt, pid: shepherd.pid, start_ticks: shepherd.start_ticks };
                    let entry = journal.append(event)?;
                    state.apply(&entry);
                    Ok(())
                };
                let journal_file = self.dir.journal();
                match execute(self.spec, &prepared, &self.options.shepherd, &mut wishes, self.observer, started).await {
                    Ok(executed) => executed,
                    // without a journal nothing may go on
                    Err(EngineError::Store(error)) if error.path() == Some(journal_file.as_std_path()) => return Err(error.into()),
                    Err(error) => Executed { shepherd_lost: true, ..failed(cause_of(&error), error.to_string()) },
                }
            }
        };
        if executed.interrupted {
            recover::end_leftovers(&self.dir, &run, None, &prepared.work);
            remove(&prepared.work)?;
            remove(&prepared.dir)?;
            self.write(Event::RunAbandoned { run, attempt, ended: Vec::new() })?;
            return Ok(false);
        }
        // its script removes it, unless it was killed; the name is the run's own
        let _ = fs::remove_dir_all(&prepared.request.tmp_dir);
        if executed.shepherd_lost {
            // nobody has ended what it watched over
            recover::end_leftovers(&self.dir, &run, None, &prepared.work);
        }
        self.finish(&run, &prepared.work, attempt, executed)?;
        Ok(true)
    }

    /// What is missing to the room that a run needs.
    fn no_room(&self, prepared: &Prepared, point: &PointId) -> Option<String> {
        let needed = *self.options.disk_bytes.get(point)?;
        let free = free_bytes(&prepared.work)?;
        let mib = |bytes: u64| bytes >> 20;
        (free < needed).then(|| {
            format!(
                "{} needs about {} MiB and has {} MiB free: make room, or choose another storage area",
                prepared.work,
                mib(needed),
                mib(free)
            )
        })
    }

    /// Writes down how the run ended, gives its directory its final name, and only then says so in the journal.
    fn finish(&mut self, run: &RunId, work: &Utf8Path, attempt: u32, executed: Executed) -> Result<(), EngineError> {
        let (run, partial) = (run.clone(), self.dir.partial(run));
        fs::create_dir_all(&partial).map_err(StoreError::io("make", &partial))?;
        let mut text = Vec::new();
        for record in &executed.records {
            serde_json::to_writer(&mut text, record).map_err(|e| StoreError::damaged(&partial, 0, e.to_string()))?;
            text.push(b'\n');
        }
        let digest = blake3::hash(&text).to_hex()[..16].to_owned();
        let succeeded = executed.outcome == Outcome::Succeeded;
        let put = |name: &str, bytes: &[u8]| {
            let path = partial.join(name);
            fs::write(&path, bytes).map_err(StoreError::io("write", &path))
        };
        put("records.jsonl", &text)?;
        put("facts.json", &serde_json::to_vec_pretty(&executed.facts).unwrap_or_default())?;
        let records = succeeded.then(|| digest.clone());
        let file = OutcomeFile { attempt, outcome: executed.outcome.clone(), records: records.clone(), wall_s: executed.wall_s };
        put(OUTCOME, &serde_json::to_vec_pretty(&file).unwrap_or_default())?;
        self.clear_work(&partial, work)?;
        sync_directory(&partial)?;
        let last = if succeeded { self.dir.run(&run) } else { self.dir.failed(&run, attempt) };
        remove(&last)?;
        fs::rename(&partial, &last).map_err(StoreError::io("rename to", &last))?;
        sync_directory(&self.dir.runs())?;
        self.write(Event::RunFinished { run: run.clone(), attempt, outcome: executed.outcome.clone(), records })?;
        let retry = !succeeded && !self.used_up(&run, attempt);
        self.observer.on(&Progress::RunFinished { run, outcome: executed.outcome, wall_s: executed.wall_s, retry });
        Ok(())
    }

    /// Keeps traces beside the run, and of the rest what the campaign wants to keep.
    fn clear_work(&self, partial: &Utf8Path, work: &Utf8Path) -> Result<(), StoreError> {
        for trace in ["trace", "run.darshan"] {
            let from = work.join(trace);
            if from.exists() {
                copy_tree(&from, &partial.join(trace))?;
                remove(&from)?;
            }
        }
        let (images, outputs) = (self.spec.run.keep_images, self.spec.run.keep_outputs);
        if !work.exists() || (!images && !outputs) {
            return remove_with_parent(work);
        }
        let entries = work.read_dir_utf8().map_err(StoreError::io("list", work))?;
        for entry in entries.flatten() {
            let of_dmtcp = matches!(entry.file_name(), "ckpt" | "dmtcp");
            if !(if of_dmtcp { images } else { outputs }) {
                remove(entry.path())?;
            }
        }
        Ok(())
    }
}

/// A run that failed before there was anything to measure.
fn failed(cause: Cause, detail: String) -> Executed {
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
fn cause_of(error: &EngineError) -> Cause {
    match error {
        EngineError::Store(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::StorageFull => Cause::DiskFull,
        EngineError::Store(_) => Cause::Store,
        EngineError::Crew(error) if error.is_lost() => Cause::NodeLost,
        EngineError::Crew(error) if error.is_disk_full() => Cause::DiskFull,
        EngineError::Crew(_)
        | EngineError::Host(_)
        | EngineError::Render(_)
        | EngineError::Descriptor { .. }
        | EngineError::Shepherd { .. } => Cause::Launch,
    }
}

/// Removes a run's working directory, and the campaign's in the storage area when it was the last in it.
fn remove_with_parent(work: &Utf8Path) -> Result<(), StoreError> {
    remove(work)?;
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

fn remove(path: &Utf8Path) -> Result<(), StoreError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let removed = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(StoreError::io("remove", path))
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
