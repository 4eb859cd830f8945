//! A head whose nodes do what a test says.

use async_trait::async_trait;
use camino::Utf8Path;
use cvc_agent::{
    AgentError, Arrivals, Event, EventLog, Head, LostNodes, NodeNotice, Orders, PROTOCOL,
    ReadyError, Request, Spool, Workplace, serve_on,
};
use cvc_core::campaign;
use cvc_core::ids::{PointId, RunId};
use cvc_core::mapping::Mapping;
use cvc_core::outcome::Outcome;
use cvc_core::plan::PlannedRun;
use cvc_core::point::{Point, Repeat};
use cvc_core::stop::{StopSignal, stop_now};
use cvc_core::store::{
    CampaignDir, OUTCOME, OutcomeFile, StoreError, remove_all, sealed_outcome, write_manifest,
};
use cvc_engine::attempt::{
    AttemptEvent, AttemptReporter, AttemptResult, FoundComponents, RunError, SiteContext, Task,
    seal,
};
use cvc_engine::crew::Leaving;
use cvc_os::proc::ProcessId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs, io,
    sync::Arc,
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// How an attempt goes; one that is stopped first leaves nothing.
pub(crate) enum Course {
    /// It ends by itself after this many seconds.
    Ends(u64, Outcome),
    /// It fails without a directory.
    Fails(AttemptResult),
    /// Its directory cannot be written.
    Breaks,
}

/// What is seen and set from outside.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) courses: Mutex<VecDeque<Course>>,
    pub(crate) notices: Mutex<VecDeque<NodeNotice>>,
    pub(crate) begun: Mutex<Vec<(RunId, u32)>>,
    pub(crate) recovered: Mutex<Vec<(RunId, Option<ProcessId>)>>,
    pub(crate) ended_leftovers: Mutex<Vec<(RunId, Option<ProcessId>)>>,
    pub(crate) wanted_back: Mutex<Vec<BTreeSet<String>>>,
    pub(crate) calls: Mutex<Vec<&'static str>>,
    /// Whether what an earlier agent left cannot be ended.
    pub(crate) keeps_leftovers: bool,
    /// Why the nodes cannot be gathered.
    pub(crate) unready: Option<&'static str>,
    /// Whether the nodes never come.
    pub(crate) gathers_for_ever: bool,
    pub(crate) lost: watch::Sender<LostNodes>,
    pub(crate) terminated: Arc<Notify>,
    pub(crate) arrivals: Arc<Notify>,
    /// Nodes whose notice was given to attempts, and that were taken.
    pub(crate) announced: Mutex<Vec<String>>,
    pub(crate) taken: Mutex<Vec<String>>,
    /// Nodes that answer again.
    pub(crate) back: Mutex<BTreeSet<String>>,
}

/// A spool with a scripted head.
pub(crate) struct Bench {
    _dir: tempfile::TempDir,
    pub(crate) spool: Spool,
    pub(crate) script: Arc<Script>,
}

struct ScriptedHead(Arc<Script>, CampaignDir);

pub(crate) fn run(n: u8) -> RunId {
    RunId::from_written(&format!("{n:016x}"))
}

pub(crate) fn task(n: u8, dispatch: u32, nodes: &[&str]) -> Task {
    let point = Point {
        site: "s".into(),
        app: "cube".into(),
        mapping: Mapping::one_node(1),
        ..Point::default()
    };
    Task {
        planned: PlannedRun {
            id: run(n),
            point: PointId::from_written("p"),
            repeat: Repeat::Measured(1),
            block: None,
        },
        point,
        attempt: dispatch + 1,
        dispatch,
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        disk_bytes: None,
        resume: None,
    }
}

pub(crate) const SSH: &str = "kind = 'ssh'\nhosts = ['n1', 'n2']";
pub(crate) const SLURM: &str = "kind = 'slurm'\nslurm = { nodes = 2, time_limit_s = 60 }";

impl Bench {
    pub(crate) fn new(script: Script) -> Self {
        Self::on(SSH, script)
    }

    /// On a site with these settings.
    pub(crate) fn on(site: &str, script: Script) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let root = root.canonicalize_utf8().expect("exists");
        let spool = Spool::at(&root);
        for made in [root.join("in"), spool.campaign().runs()] {
            fs::create_dir_all(made).expect("makes");
        }
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/apps");
        let text = format!(
            "schema = 1\nname = 't'\n[sites.s]\n{site}\n[matrix]\napp = 'cube'\nprocesses = 1\n"
        );
        let spec = campaign::load_text(std::path::Path::new("t.toml"), &text, &[apps])
            .unwrap_or_else(|e| panic!("{e}"));
        let bench = Self {
            _dir: dir,
            spool,
            script: Arc::new(script),
        };
        bench.order(&Orders {
            protocol: PROTOCOL,
            context: SiteContext::of(&spec, "s").expect("the site"),
            points: Vec::new(),
            program: "cvc-node".into(),
            idle_s: 3600.0,
        });
        bench
    }

    pub(crate) fn orders(&self) -> Orders {
        let text = fs::read(self.spool.root().join("orders.json")).expect("orders");
        serde_json::from_slice(&text).expect("orders")
    }

    pub(crate) fn order(&self, orders: &Orders) {
        let text = serde_json::to_vec(orders).expect("JSON");
        fs::write(self.spool.root().join("orders.json"), text).expect("writes");
    }

    /// Writes the events of an agent before this one.
    pub(crate) fn before(&self, events: impl IntoIterator<Item = Event>) {
        let (mut log, _) = EventLog::open(&self.spool.events()).expect("opens");
        for event in events {
            log.write(event).expect("writes");
        }
    }

    /// Runs the agent until it ends.
    pub(crate) async fn serve(&self) -> Result<(), AgentError> {
        let head = ScriptedHead(Arc::clone(&self.script), self.spool.campaign());
        serve_on(&head, self.spool.root()).await
    }

    /// Runs the agent while a test does this.
    pub(crate) async fn serve_while(&self, test: impl Future<Output = ()>) {
        let (served, ()) = tokio::join!(self.serve(), test);
        served.expect("it ends as it should");
    }

    pub(crate) fn ask(&self, name: &str, request: &Request) {
        self.spool.ask(name, request).expect("asks");
        self.script.arrivals.notify_one();
    }

    pub(crate) fn run(&self, task: Task) {
        let name = format!("run-{}-{}", task.planned.id, task.dispatch);
        self.ask(&name, &Request::Run(Box::new(task)));
    }

    pub(crate) fn close(&self) {
        self.ask("close-1", &Request::Close);
    }

    pub(crate) fn has_request(&self, name: &str) -> bool {
        self.spool.root().join(format!("in/{name}.json")).exists()
    }

    /// The events of this agent and of those before it.
    pub(crate) fn events(&self) -> Vec<Event> {
        let (_, old) = EventLog::open(&self.spool.events()).expect("a log");
        old.events.into_iter().map(|e| e.event).collect()
    }

    /// The events in short.
    pub(crate) fn summaries(&self) -> Vec<String> {
        self.events().iter().map(short).collect()
    }

    /// Waits until an event in short contains this.
    pub(crate) async fn until(&self, what: &str) {
        self.until_holds(what, || self.summaries().iter().any(|e| e.contains(what)))
            .await;
    }

    /// Waits until something holds.
    pub(crate) async fn until_holds(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..100_000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{what} never came: {:#?}", self.summaries());
    }
}

/// An event in one line; numbers of runs are the last digit of their name.
fn short(event: &Event) -> String {
    let number = |run: &RunId| run.as_str().trim_start_matches('0').to_owned();
    match event {
        Event::Began { .. } => "began".into(),
        Event::Note { what } => format!("note: {what}"),
        Event::Ready { .. } => "ready".into(),
        Event::Unable { reason } => format!("unable: {reason}"),
        Event::Started { id, shepherd } => {
            format!(
                "started {}.{} {}",
                number(&id.run),
                id.dispatch,
                shepherd.pid
            )
        }
        Event::Stage { run, stage } => format!("stage {} {stage}", number(run)),
        Event::Finished { id, file } => match &file.outcome {
            Outcome::Succeeded => format!("succeeded {}.{}", number(&id.run), id.dispatch),
            Outcome::Failed { cause, detail } => format!(
                "failed {}.{} {cause:?}: {detail}",
                number(&id.run),
                id.dispatch
            ),
        },
        Event::Interrupted { id } => format!("interrupted {}.{}", number(&id.run), id.dispatch),
        Event::Lost {
            id,
            reason,
            time_limit,
        } => format!(
            "lost {}.{} {}{reason}",
            number(&id.run),
            id.dispatch,
            if *time_limit { "(time limit) " } else { "" }
        ),
        Event::NodeLost { node, reason } => format!("node lost {node}: {reason}"),
        Event::NodeLeaving { node, action, .. } => format!("node leaving {node}: {action}"),
        Event::NodeBack { node } => format!("node back {node}"),
        Event::Closing { reason } => format!("closing: {reason}"),
        Event::Closed { reason } => format!("closed: {reason}"),
    }
}

/// Writes the directory of an attempt as the engine does.
pub(crate) fn write_run(dir: &CampaignDir, task: &Task, outcome: Outcome) -> OutcomeFile {
    let run = &task.planned.id;
    let partial = dir.partial(run);
    fs::create_dir_all(&partial).expect("makes");
    let manifest = Some(write_manifest(&partial, &[OUTCOME]).expect("a manifest"));
    let file = OutcomeFile {
        attempt: task.attempt,
        outcome,
        records: None,
        wall_s: 1.5,
        manifest,
        kept: None,
    };
    let text = serde_json::to_vec(&file).expect("JSON");
    fs::write(partial.join(OUTCOME), text).expect("writes");
    seal(dir, run, &file).expect("seals");
    file
}

fn full(path: &Utf8Path) -> StoreError {
    StoreError::Io {
        verb: "write",
        path: path.into(),
        source: io::ErrorKind::StorageFull.into(),
    }
}

#[async_trait]
impl Head for ScriptedHead {
    fn process(&self) -> Result<ProcessId, AgentError> {
        Ok(ProcessId::of(std::process::id()).expect("this process"))
    }

    fn terminated(&self) -> Result<Arc<Notify>, AgentError> {
        Ok(Arc::clone(&self.0.terminated))
    }

    fn arrivals(&self, _: &Spool) -> Arrivals {
        Arrivals::notified_by(Arc::clone(&self.0.arrivals))
    }

    async fn get_ready(
        &self,
        _: &Spool,
        _: &Orders,
        takes_over: bool,
        _: &mut EventLog,
    ) -> Result<(Arc<dyn Workplace>, Event), ReadyError> {
        self.0
            .calls
            .lock()
            .push(if takes_over { "take over" } else { "gather" });
        if self.0.gathers_for_ever {
            std::future::pending::<()>().await;
        }
        if let Some(why) = self.0.unready {
            return Err(ReadyError::Site(why.into()));
        }
        let ready = Event::Ready {
            nodes: vec!["n1".into(), "n2".into()],
            cores: 1,
            obstacles: BTreeMap::new(),
            found: FoundComponents::default(),
        };
        Ok((Arc::new(Self(Arc::clone(&self.0), self.1.clone())), ready))
    }

    fn end_leftovers(
        &self,
        _: &Spool,
        _: &Orders,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<(), StoreError> {
        let ended = (task.planned.id.clone(), shepherd);
        self.0.ended_leftovers.lock().push(ended);
        if self.0.keeps_leftovers {
            return Err(full(&self.1.partial(&task.planned.id)));
        }
        Ok(())
    }
}

#[async_trait]
impl Workplace for ScriptedHead {
    fn nodes(&self) -> Vec<String> {
        vec!["n1".into(), "n2".into()]
    }

    fn head(&self) -> &str {
        "n1"
    }

    fn lost(&self) -> watch::Receiver<LostNodes> {
        self.0.lost.subscribe()
    }

    fn notice(&self) -> Option<NodeNotice> {
        self.0.notices.lock().pop_front()
    }

    fn announce(&self, node: &str, _: Leaving) {
        self.0.announced.lock().push(node.to_owned());
    }

    fn take(&self, node: &str) {
        self.0.taken.lock().push(node.to_owned());
    }

    async fn attempt(
        &self,
        task: &Task,
        mut stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, RunError> {
        let run = task.planned.id.clone();
        self.0.begun.lock().push((run.clone(), task.dispatch));
        reporter.emit(AttemptEvent::Started(ProcessId {
            pid: 7,
            start_ticks: 9,
        }));
        reporter.stage("running");
        let course = self.0.courses.lock().pop_front();
        match course.unwrap_or(Course::Ends(1, Outcome::Succeeded)) {
            Course::Ends(after_s, outcome) => tokio::select! {
                biased;
                () = stop_now(&mut stop_signal) => {
                    // ending processes takes a moment
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    remove_all(&self.1.partial(&run))?;
                    Ok(AttemptResult::Interrupted)
                }
                () = tokio::time::sleep(Duration::from_secs(after_s)) => {
                    reporter.stage("collecting");
                    Ok(AttemptResult::Ended(write_run(&self.1, task, outcome)))
                }
            },
            Course::Fails(result) => Ok(result),
            Course::Breaks => Err(full(&self.1.partial(&run)).into()),
        }
    }

    async fn recover(
        &self,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<Option<OutcomeFile>, StoreError> {
        let run = &task.planned.id;
        self.0.recovered.lock().push((run.clone(), shepherd));
        if self.0.keeps_leftovers {
            return Err(full(&self.1.partial(run)));
        }
        Ok(sealed_outcome(&self.1, run, task.attempt))
    }

    async fn bring_back(&self, wanted: BTreeSet<String>) {
        self.0.wanted_back.lock().push(wanted.clone());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let up = self.0.back.lock().clone();
        self.0.lost.send_modify(|lost| {
            lost.retain(|node, _| !(wanted.contains(node) && up.contains(node)))
        });
        // what was left there is removed after the node answers
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn clear(&self) -> Vec<String> {
        self.0.calls.lock().push("clear");
        vec!["not everything is removed".into()]
    }

    async fn close(&self) {
        self.0.calls.lock().push("close");
    }
}
