//! Campaigns whose runs do what a test says.

use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_controller::observe::{Observer, SessionProgress};
use cvc_controller::runner::{Options, SiteExecutor, Summary, run_campaign_on};
use cvc_core::campaign::{self, Spec};
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::{self, Plan};
use cvc_core::point::PlannedPoint;
use cvc_core::stop::{StopRequests, StopSignal, stop_now};
use cvc_core::store::{
    CampaignDir, KeptCheckpoint, KeptPlace, OUTCOME, OutcomeFile, remove_all, write_manifest,
};
use cvc_engine::attempt::{
    AttemptEvent, AttemptReporter, AttemptResult, Executor, SiteContext, Task, seal,
};
use cvc_journal::{CampaignState, Event};
use cvc_os::proc::ProcessId;
use cvc_sites::error::CampaignError;
use cvc_sites::remote::BySsh;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
    sync::Arc,
    time::Duration,
};

/// How an attempt goes; one that is stopped first leaves nothing.
pub(crate) enum Course {
    /// It succeeds after this many seconds, with this figure.
    Succeeds(u64, f64),
    /// It fails after this many seconds, with this in its output.
    Fails(u64, Cause, &'static str),
    /// It loses a node after this many seconds, and leaves a checkpoint.
    LosesNode(u64),
    /// It ends without a directory.
    Returns(AttemptResult),
    /// Its site cannot be used.
    Breaks(&'static str),
}

/// Says how an attempt goes: by the number of its point in the plan, and by the task.
type Courses = Box<dyn Fn(usize, &Task) -> Course + Send + Sync>;

/// What was carried out.
#[derive(Default)]
pub(crate) struct Carried {
    pub(crate) begun: Vec<Task>,
    pub(crate) under_way: HashMap<RunId, Vec<String>>,
    /// The largest number of attempts at the same time.
    pub(crate) most: usize,
    pub(crate) forgotten: Vec<RunId>,
}

/// A campaign with its directory.
pub(crate) struct Bench {
    pub(crate) temporary: tempfile::TempDir,
    pub(crate) spec: Spec,
    pub(crate) plan: Plan,
    pub(crate) courses: Mutex<Arc<Courses>>,
    pub(crate) carried: Arc<Mutex<Carried>>,
    pub(crate) heard: Arc<Mutex<Vec<SessionProgress>>>,
    pub(crate) stops: Mutex<Arc<StopRequests>>,
    /// Points that cannot run.
    pub(crate) obstacles: HashMap<usize, &'static str>,
    pub(crate) side_by_side: bool,
}

/// The settings of one session.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) retry_failed: bool,
    pub(crate) keep_going: bool,
    pub(crate) only: Option<Vec<usize>>,
    pub(crate) lasts_s: Option<u64>,
    pub(crate) expected_s: Option<f64>,
    pub(crate) last_block: Option<u32>,
}

struct InMemory {
    dir: CampaignDir,
    plan: Plan,
    site: String,
    courses: Arc<Courses>,
    carried: Arc<Mutex<Carried>>,
    obstacles: HashMap<usize, &'static str>,
    side_by_side: bool,
}

struct Ear(Arc<Mutex<Vec<SessionProgress>>>);

impl Observer for Ear {
    fn on(&mut self, progress: &SessionProgress) {
        self.0.lock().push(progress.clone());
    }
}

pub(crate) const LOCAL: &str = "[sites.local]\nkind = 'local'\n";
pub(crate) const HOSTS: &str = "[sites.far]\nkind = 'ssh'\nhosts = ['n1', 'n2', 'n3']\n";

/// A campaign of one point.
pub(crate) fn one_point(run: &str) -> Bench {
    Bench::new(LOCAL, "mapping = '1Nx1P'", run)
}

impl Bench {
    pub(crate) fn new(sites: &str, matrix: &str, run: &str) -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        let spec = spec(sites, matrix, run);
        Self {
            plan: plan::build(&spec),
            spec,
            temporary,
            courses: Mutex::new(Arc::new(Box::new(|_, _| Course::Succeeds(1, 1.0)))),
            carried: Arc::default(),
            heard: Arc::default(),
            stops: Mutex::default(),
            obstacles: HashMap::new(),
            side_by_side: false,
        }
    }

    /// Changes the settings of the campaign file.
    pub(crate) fn change(&mut self, sites: &str, matrix: &str, run: &str) {
        self.spec = spec(sites, matrix, run);
        self.plan = plan::build(&self.spec);
    }

    pub(crate) fn set(&self, courses: impl Fn(usize, &Task) -> Course + Send + Sync + 'static) {
        *self.courses.lock() = Arc::new(Box::new(courses));
    }

    pub(crate) fn root(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.temporary.path().to_owned()).expect("UTF-8")
    }

    pub(crate) fn dir(&self) -> CampaignDir {
        CampaignDir::new(&self.root(), "c")
    }

    /// Runs one session.
    pub(crate) async fn try_run(&self, session: Settings) -> Result<Summary, CampaignError> {
        let ids = |numbers: Vec<usize>| -> HashSet<_> {
            numbers
                .into_iter()
                .map(|n| self.plan.points[n].id.clone())
                .collect()
        };
        let expected = session
            .expected_s
            .into_iter()
            .flat_map(|s| self.plan.points.iter().map(move |p| (p.id.clone(), s)));
        let options = Options {
            campaigns: self.root(),
            state: self.root().join("state"),
            shepherd: Vec::new(),
            node_program: "cvc-node".into(),
            retry_failed: session.retry_failed,
            keep_going: session.keep_going,
            only: session.only.map(ids),
            last_block: session.last_block,
            until: session
                .lasts_s
                .map(|s| tokio::time::Instant::now() + Duration::from_secs(s)),
            disk_bytes: HashMap::new(),
            clouds: None,
            reach: Arc::new(BySsh),
            expected_s: expected.collect(),
            update_lock: false,
        };
        let executors = |dir: &CampaignDir, _: &_| -> HashMap<String, SiteExecutor> {
            let executor = |site: &String| InMemory {
                dir: dir.clone(),
                plan: self.plan.clone(),
                site: site.clone(),
                courses: Arc::clone(&self.courses.lock()),
                carried: Arc::clone(&self.carried),
                obstacles: self.obstacles.clone(),
                side_by_side: self.side_by_side,
            };
            let all = self.spec.sites.keys();
            all.map(|site| (site.clone(), Arc::new(executor(site)) as SiteExecutor))
                .collect()
        };
        let stops = Arc::clone(&self.stops.lock());
        let mut ear = Ear(Arc::clone(&self.heard));
        let signal = stops.subscribe();
        run_campaign_on(
            &self.spec, &self.plan, executors, &options, signal, &mut ear,
        )
        .await
    }

    pub(crate) async fn run_with(&self, session: Settings) -> Summary {
        self.try_run(session)
            .await
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// Runs a session without special settings.
    pub(crate) async fn run(&self) -> Summary {
        self.run_with(Settings::default()).await
    }

    /// Runs a session until this many seconds have passed, as if it was killed then.
    pub(crate) async fn run_and_kill(&self, after_s: f64) {
        let killed = tokio::time::timeout(
            Duration::from_secs_f64(after_s),
            self.try_run(Settings::default()),
        );
        killed.await.expect_err("it would have gone on");
        self.carried.lock().under_way.clear();
    }

    pub(crate) fn state(&self) -> CampaignState {
        CampaignState::read(&self.dir().journal()).expect("a journal")
    }

    /// The events of the journal.
    pub(crate) fn events(&self) -> Vec<Event> {
        let entries = cvc_journal::read(&self.dir().journal()).expect("a journal");
        entries.into_iter().map(|entry| entry.event).collect()
    }

    /// The number of events of a kind.
    pub(crate) fn count(&self, kind: &str) -> usize {
        let is_kind = |event: &&Event| serde_json::to_value(event).expect("JSON")["event"] == kind;
        self.events().iter().filter(is_kind).count()
    }

    /// Runs whose directory is whole.
    pub(crate) fn whole(&self) -> usize {
        let runs = self.plan.runs.iter();
        runs.filter(|r| self.dir().run(&r.id).join(OUTCOME).is_file())
            .count()
    }

    /// Attempts that began, by point.
    pub(crate) fn attempts(&self) -> Vec<usize> {
        let carried = self.carried.lock();
        let of_point = |p: &PlannedPoint| {
            carried
                .begun
                .iter()
                .filter(|t| t.planned.point == p.id)
                .count()
        };
        self.plan.points.iter().map(of_point).collect()
    }

    /// Whether no run was begun as a second attempt: what was cut off or lost with its node costs none.
    pub(crate) fn cost_no_attempt(&self) -> bool {
        let carried = self.carried.lock();
        carried.begun.iter().all(|task| task.attempt == 1)
    }

    /// Whether something was reported.
    pub(crate) fn has_heard(&self, is_it: impl Fn(&SessionProgress) -> bool) -> bool {
        self.heard.lock().iter().any(is_it)
    }
}

fn spec(sites: &str, matrix: &str, run: &str) -> Spec {
    let text = format!(
        "schema = 1\nname = 'c'\n{sites}[matrix]\napp = 'demo'\nclass = 'S'\n{matrix}\n[run]\n{run}\n"
    );
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/apps");
    campaign::load_text(Path::new("c.toml"), &text, &[apps]).unwrap_or_else(|e| panic!("{e}"))
}

impl InMemory {
    /// Writes the directory of an attempt as the engine does.
    fn write(
        &self,
        task: &Task,
        outcome: Outcome,
        wall_s: f64,
        figure: f64,
        kept: Option<Box<KeptCheckpoint>>,
    ) -> OutcomeFile {
        let run = &task.planned.id;
        let partial = self.dir.partial(run);
        fs::create_dir_all(&partial).expect("makes");
        let record = format!(
            "{{\"run\":\"{run}\",\"name\":\"rate\",\"value\":{figure},\"unit\":\"Mop/s\",\"source\":\"application-output\"}}\n"
        );
        fs::write(partial.join("records.jsonl"), &record).expect("writes");
        let succeeded = outcome == Outcome::Succeeded;
        let file = OutcomeFile {
            attempt: task.attempt,
            outcome,
            records: succeeded.then(|| cvc_core::ids::short_digest(record.as_bytes())),
            wall_s,
            manifest: Some(write_manifest(&partial, &[OUTCOME]).expect("a manifest")),
            kept,
        };
        fs::write(
            partial.join(OUTCOME),
            serde_json::to_vec(&file).expect("JSON"),
        )
        .expect("writes");
        seal(&self.dir, run, &file).expect("seals");
        file
    }
}

#[async_trait]
impl Executor<CampaignError> for InMemory {
    async fn attempt(
        &self,
        task: &Task,
        mut stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, CampaignError> {
        let run = &task.planned.id;
        let point = self
            .plan
            .points
            .iter()
            .position(|p| p.id == task.planned.point);
        let course = (self.courses)(point.expect("a point"), task);
        {
            let mut carried = self.carried.lock();
            carried.begun.push(task.clone());
            carried.under_way.insert(run.clone(), task.nodes.clone());
            carried.most = carried.most.max(carried.under_way.len());
        }
        reporter.emit(AttemptEvent::Started(ProcessId {
            pid: u32::MAX - 1,
            start_ticks: 1,
        }));
        let seconds = match &course {
            Course::Succeeds(s, _) | Course::Fails(s, _, _) | Course::LosesNode(s) => *s,
            Course::Returns(_) | Course::Breaks(_) => 1,
        };
        let is_stopped = tokio::select! {
            biased;
            () = stop_now(&mut stop_signal) => true,
            () = tokio::time::sleep(Duration::from_secs(seconds)) => false,
        };
        self.carried.lock().under_way.remove(run);
        if is_stopped {
            remove_all(&self.dir.partial(run))?;
            return Ok(AttemptResult::Interrupted);
        }
        Ok(match course {
            Course::Succeeds(_, figure) => AttemptResult::Ended(self.write(
                task,
                Outcome::Succeeded,
                seconds as f64,
                figure,
                None,
            )),
            Course::Fails(_, cause, detail) => {
                let detail = detail.to_owned();
                AttemptResult::Ended(self.write(
                    task,
                    Outcome::Failed { cause, detail },
                    seconds as f64,
                    0.0,
                    None,
                ))
            }
            Course::LosesNode(_) => {
                let kept = KeptCheckpoint {
                    attempt: task.attempt,
                    place: KeptPlace::Site,
                    bytes: 7,
                    wall_s: seconds as f64,
                    used_s: seconds as f64,
                    notice: None,
                    details: serde_json::Value::Null,
                    on_nodes: None,
                };
                let outcome = Outcome::Failed {
                    cause: Cause::NodeLost,
                    detail: "n2: silent".into(),
                };
                let kept = Some(Box::new(kept));
                AttemptResult::Ended(self.write(task, outcome, seconds as f64, 0.0, kept))
            }
            Course::Returns(result) => result,
            Course::Breaks(problem) => {
                return Err(CampaignError::Site {
                    site: self.site.clone(),
                    problem: problem.into(),
                });
            }
        })
    }

    fn cores(&self) -> u32 {
        4
    }

    fn nodes(&self) -> Vec<String> {
        ["n1", "n2", "n3"].map(str::to_owned).into()
    }

    fn side_by_side(&self) -> bool {
        self.side_by_side
    }

    fn obstacle(&self, planned: &PlannedPoint) -> Option<String> {
        let number = self.plan.points.iter().position(|p| p.id == planned.id)?;
        self.obstacles.get(&number).map(|why| (*why).to_owned())
    }

    fn local_context(&self) -> Option<&SiteContext> {
        None
    }

    fn forget(&self, task: &Task) {
        self.carried.lock().forgotten.push(task.planned.id.clone());
    }
}
