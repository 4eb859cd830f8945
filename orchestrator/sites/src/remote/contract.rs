//! Tests of the contract that every executor must satisfy: that on this machine, and that with an agent reached by ssh.

use super::{BySsh, Opening, Remote, StandingMachines};
use crate::error::CampaignError;
use cvc_agent::AwaitedAttempt;
use cvc_core::campaign::{Spec, load};
use cvc_core::hosts::HostKeys;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{PlannedPoint, Repeat};
use cvc_core::stop::StopRequest;
use cvc_core::store::{CampaignDir, OutcomeFile};
use cvc_engine::attempt::{
    AttemptEvent, AttemptReporter, AttemptResult, Executor, LocalExecutor, Nodes, PendingCleanup,
    Readiness, ReadySite, Shepherds, SiteContext, Steps, Task,
};
use cvc_journal::Lineage;
use cvc_testkit::{Lab, Tool, lab::Node, node_program, require, utf8};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};

/// Time limit for expected events, long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(90);

/// Programs of the test, scripts for one rank. Hydra may die of SIGPIPE if its rank ends before Hydra has sent it all data, hence the short sleep.
const PROGRAMS: [(&str, &str); 6] = [
    ("good", "sleep 0.1; echo SUCCESS"),
    ("exits", "sleep 0.1; echo so far; exit 3"),
    // exit code 97 normally means that the run's script could not set up the directory; here it is the program's own code
    ("exits-as-the-script", "sleep 0.1; echo so far; exit 97"),
    ("unverified", "sleep 0.1; echo done"),
    (
        "endless",
        "echo contract-endless; while :; do sleep 0.1; done",
    ),
    ("absent", "true"),
];

/// Placeholder in [`PROGRAMS`] for [`mark`].
const MARK: &str = "contract-endless";

/// Returns the output of the endless program. It is unique, because another test process may run such a program too.
fn mark() -> String {
    format!("{MARK}-{}-", std::process::id())
}

/// An executor with its task.
struct Member<'a> {
    name: &'static str,
    executor: Arc<dyn Executor<CampaignError>>,
    dir: CampaignDir,
    plan: &'a Plan,
    /// The node that keeps results for repeated requests; `None` for the executor on this machine.
    agent: Option<&'a Node>,
}

/// The result of an attempt, with its events.
struct AttemptReport {
    attempted: AttemptResult,
    /// For each reported process start, the number of stages reported before it.
    started: Vec<usize>,
    stages: Vec<String>,
}

fn campaign(dir: &Path, lab: &Lab) -> Spec {
    let apps = dir.join("apps");
    fs::create_dir_all(&apps).expect("apps/");
    for (name, script) in PROGRAMS {
        let script = script.replace(MARK, &mark());
        let program = if name == "absent" {
            "a-program-that-does-not-exist"
        } else {
            "sh"
        };
        let text = format!(
            "schema = 1\nname = \"{name}\"\ntitle = \"a script of a test\"\n[program]\nnames = [\"{program}\"]\ninstall = \"ask somebody\"\n\
             [command]\nargs = [\"-c\", \"{script}\"]\n[workloads.any]\n[success]\npattern = '^SUCCESS'\n"
        );
        fs::write(apps.join(format!("{name}.toml")), text).expect("a descriptor");
    }
    let ssh = lab.home().join(".ssh");
    let config = format!(
        "Host n1\n    HostName {}\n    User root\n    IdentityFile {ssh}/id_ed25519\n    IdentitiesOnly yes\n",
        lab.node("n1").address(),
        ssh = ssh.display()
    );
    fs::write(ssh.join("of-the-test"), config).expect("the ssh configuration");
    let mpich = Tool::Mpich5
        .find()
        .and_then(|p| Some(p.parent()?.parent()?.to_owned()))
        .expect("the test requires it");
    let mpi = |site: &str| {
        format!(
            "[sites.{site}.mpi.mpich5]\nfamily = \"mpich\"\nprefix = \"{}\"\n",
            mpich.display()
        )
    };
    let names: Vec<&str> = PROGRAMS.iter().map(|(name, _)| *name).collect();
    let text = format!(
        "schema = 1\nname = \"contract\"\n[sites.here]\nkind = \"local\"\n{}[sites.lab]\nkind = \"ssh\"\nhosts = [\"n1\"]\ninterface = \"eth0\"\n\
         cores = 4\nlost_after_s = 30\nssh.config = \"{}\"\n{}[matrix]\napp = {names:?}\nprocesses = 1\n\
         [run]\nrepeats = 2\nwarmups = 0\nretries = 0\ntimeout_s = 80\n",
        mpi("here"),
        ssh.join("of-the-test").display(),
        mpi("lab")
    );
    let path = dir.join("campaign.toml");
    fs::write(&path, text).expect("the campaign");
    load(&path, &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the part of a plan on one site.
fn of_site(plan: &Plan, site: &str) -> Plan {
    let mut plan = plan.clone();
    plan.points.retain(|p| p.point.site == site);
    let ids: BTreeSet<_> = plan.points.iter().map(|p| p.id.clone()).collect();
    plan.runs.retain(|r| ids.contains(&r.point));
    plan
}

impl Member<'_> {
    fn point(&self, app: &str) -> &PlannedPoint {
        self.plan
            .points
            .iter()
            .find(|p| p.point.app == app)
            .expect("a point of each program")
    }

    /// Returns the first attempt at a repeat of a program.
    fn task(&self, app: &str, repeat: u32) -> Task {
        let planned = self.point(app);
        let run: &PlannedRun = self
            .plan
            .runs
            .iter()
            .find(|r| r.point == planned.id && r.repeat == Repeat::Measured(repeat))
            .expect("a repeat");
        let nodes = self
            .executor
            .free_nodes(1, &BTreeSet::new())
            .expect("a free node");
        Task {
            planned: run.clone(),
            point: planned.point.clone(),
            attempt: 1,
            dispatch: 0,
            nodes,
            disk_bytes: None,
            resume: None,
        }
    }

    /// Carries out an attempt with the stop request `at_first` from its beginning, and sends `then` once its program runs.
    async fn attempt(
        &self,
        task: &Task,
        at_first: StopRequest,
        then: Option<StopRequest>,
    ) -> AttemptReport {
        let (stop, stop_signal) = watch::channel(at_first);
        let (to, mut events) = mpsc::unbounded_channel();
        let reporter = AttemptReporter {
            run: task.planned.id.clone(),
            to,
        };
        let attempt = async {
            let attempted = self.executor.attempt(task, stop_signal, &reporter).await;
            drop(reporter);
            attempted.unwrap_or_else(|e| panic!("{}: {}: {e}", self.name, task.point.app))
        };
        let listen = async {
            let (mut started, mut stages) = (Vec::new(), Vec::new());
            while let Some((run, event)) = events.recv().await {
                assert_eq!(
                    run, task.planned.id,
                    "{}: an event of another run",
                    self.name
                );
                match event {
                    AttemptEvent::Started(shepherd) => {
                        assert!(
                            shepherd.pid > 0 && shepherd.start_ticks > 0,
                            "{}: {shepherd:?}",
                            self.name
                        );
                        started.push(stages.len());
                    }
                    AttemptEvent::Stage(stage) => stages.push(stage),
                }
                if let Some(request) = then.filter(|_| !started.is_empty()) {
                    until("the program", || !endless_programs().is_empty()).await;
                    stop.send_replace(request);
                }
            }
            (started, stages)
        };
        let both = async { tokio::join!(attempt, listen) };
        let (attempted, (started, stages)) = tokio::time::timeout(LIMIT, both)
            .await
            .unwrap_or_else(|_| panic!("{}: {} did not end", self.name, task.point.app));
        AttemptReport {
            attempted,
            started,
            stages,
        }
    }

    /// Checks how the executor describes its site and points.
    fn describes_its_site(&self) {
        let name = self.name;
        assert!(self.executor.cores() >= 1, "{name}");
        assert_eq!(
            self.executor.nodes().len(),
            1,
            "{name}: {:?}",
            self.executor.nodes()
        );
        assert_eq!(
            self.executor.free_nodes(1, &BTreeSet::new()),
            Some(self.executor.nodes()),
            "{name}"
        );
        assert!(!self.executor.side_by_side(), "{name}");
        assert_eq!(self.executor.obstacle(self.point("good")), None, "{name}");
        let obstacle = self
            .executor
            .obstacle(self.point("absent"))
            .unwrap_or_default();
        assert!(
            obstacle.contains("absent is not installed") && obstacle.contains("ask somebody"),
            "{name}: {obstacle}"
        );
        assert_eq!(
            self.executor.local_context().is_none(),
            self.agent.is_some(),
            "{name}: who cleans up after a killed caller"
        );
        if let Some(context) = self.executor.local_context() {
            assert_eq!(context.campaign, self.plan.campaign, "{name}");
        }
    }

    /// Checks that a finished attempt has an outcome, and that its directory has the final name for it. Returns the names of its records.
    async fn ends(
        &self,
        app: &str,
        repeat: u32,
        stop: StopRequest,
        wanted: Result<(), (Cause, &str)>,
    ) -> BTreeSet<String> {
        let task = self.task(app, repeat);
        let heard = self.attempt(&task, stop, None).await;
        let place = format!("{}: {app} {repeat}", self.name);
        let AttemptResult::Ended(file) = heard.attempted else {
            panic!("{place}: {:?}", heard.attempted)
        };
        match (&file.outcome, wanted) {
            (Outcome::Succeeded, Ok(())) => {}
            (Outcome::Failed { cause, detail }, Err((wanted, message))) => {
                assert_eq!(*cause, wanted, "{place}: {detail}");
                assert!(
                    detail.contains(message),
                    "{place}: no `{message}` in {detail}"
                );
            }
            (outcome, wanted) => panic!("{place}: {outcome:?}, not {wanted:?}"),
        }
        assert_eq!(file.attempt, task.attempt, "{place}");
        let run = &task.planned.id;
        let (dir, other) = match file.outcome {
            Outcome::Succeeded => (self.dir.run(run), self.dir.failed(run, file.attempt)),
            Outcome::Failed { .. } => (self.dir.failed(run, file.attempt), self.dir.run(run)),
        };
        assert!(
            !other.exists() && !self.dir.partial(run).exists(),
            "{place}: one directory only"
        );
        let text =
            fs::read(dir.join("outcome.json")).unwrap_or_else(|e| panic!("{place}: {dir}: {e}"));
        assert_eq!(
            serde_json::from_slice::<OutcomeFile>(&text).expect("an outcome"),
            file,
            "{place}"
        );
        if heard.started.is_empty() {
            assert!(
                matches!(
                    file.outcome,
                    Outcome::Failed {
                        cause: Cause::Launch,
                        ..
                    }
                ),
                "{place}: ended without a start: {file:?}"
            );
            return BTreeSet::new();
        }
        assert_eq!(
            heard.started,
            [0],
            "{place}: it starts once, and before it does anything: {:?}",
            heard.stages
        );
        // an agent may have passed a stage before its controller receives the report
        assert!(
            heard.stages.iter().all(|s| s == "collecting") && heard.stages.len() <= 1,
            "{place}: {:?}",
            heard.stages
        );
        assert!(
            file.wall_s > 0.0 && file.wall_s < LIMIT.as_secs_f64(),
            "{place}: {}",
            file.wall_s
        );
        for name in [
            "launch.sh",
            "run.json",
            "stdout",
            "stderr",
            "exit.json",
            "facts.json",
        ] {
            assert!(dir.join(name).is_file(), "{place}: no {name} in {dir}");
        }
        let records =
            fs::read(dir.join("records.jsonl")).unwrap_or_else(|e| panic!("{place}: {dir}: {e}"));
        let digest = blake3::hash(&records).to_hex();
        let announced = (file.outcome == Outcome::Succeeded).then(|| digest[..16].to_owned());
        assert_eq!(
            file.records, announced,
            "{place}: the records are those that it announced"
        );
        self.is_forgotten(&task).await;
        assert!(
            dir.join("outcome.json").is_file(),
            "{place}: what the campaign has stays"
        );
        let records = String::from_utf8(records).expect("JSON");
        let record =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("a record");
        records
            .lines()
            .map(|line| record(line)["name"].as_str().expect("its name").to_owned())
            .collect()
    }

    /// Checks that results kept for a repeated request are removed when the caller requests it.
    async fn is_forgotten(&self, task: &Task) {
        let kept = |run: &RunId| {
            let found = self.agent.map(|node| {
                node.shell(&format!(
                    "find /root/.cvc/spool -path '*/runs/{run}*' -name outcome.json"
                ))
            });
            found.is_some_and(|found| !found.trim().is_empty())
        };
        let run = &task.planned.id;
        assert_eq!(
            kept(run),
            self.agent.is_some(),
            "{}: until its end is written down, it could be asked for again",
            self.name
        );
        self.executor.forget(task);
        until("an attempt to be forgotten", || !kept(run)).await;
    }

    /// Checks that an attempt which the user interrupts leaves no files.
    async fn is_interrupted(&self, repeat: u32, at_first: StopRequest, then: Option<StopRequest>) {
        let task = self.task("endless", repeat);
        let heard = self.attempt(&task, at_first, then).await;
        let place = format!("{}: interrupted, {at_first:?} then {then:?}", self.name);
        assert!(
            matches!(heard.attempted, AttemptResult::Interrupted),
            "{place}: {:?}",
            heard.attempted
        );
        assert!(
            heard.started.len() <= 1 && !heard.stages.contains(&"collecting".to_owned()),
            "{place}: {:?}",
            heard.stages
        );
        assert_eq!(
            endless_programs(),
            Vec::<i32>::new(),
            "{place}: processes are left"
        );
        let run = &task.planned.id;
        for dir in [
            self.dir.run(run),
            self.dir.partial(run),
            self.dir.failed(run, 1),
        ] {
            assert!(!dir.exists(), "{place}: {dir} is left");
        }
    }
}

/// Returns the process numbers of the endless program, on this machine and on nodes of labs.
fn endless_programs() -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let said = format!("-c\0echo {}", mark());
    // match the shell itself, not a launcher that has it as an argument; a process that has just ended has no command line
    let is_it = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split_once('\0')
            .is_some_and(|(program, rest)| program.ends_with("sh") && rest.starts_with(&said))
    };
    pids.filter(is_it).collect()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the executor of this machine.
async fn local(spec: &Spec, dir: &CampaignDir) -> LocalExecutor {
    let context = SiteContext::of(spec, "here").expect("the site");
    let readiness = Readiness::Build(context.site.mpi.keys().cloned().collect());
    LocalExecutor {
        site: Arc::new(ReadySite::ask(Arc::new(context), readiness, |_| {}).await),
        nodes: Arc::new(Nodes::here()),
        dir: dir.clone(),
        shepherds: Shepherds::new(vec![utf8(&node_program()).to_string(), "shepherd".into()]),
        pending_cleanup: PendingCleanup::default(),
        steps: Steps::default(),
    }
}

/// Returns the executor by an agent on a node of the lab.
async fn by_agent(spec: &Spec, plan: &Plan, dir: &CampaignDir) -> Remote {
    let (site_events, _heard) = mpsc::unbounded_channel();
    let mut context = SiteContext::of(spec, "lab").expect("the site");
    context.lineage = Some(Lineage::random().expect("random"));
    let ssh = &mut context.site.cluster.as_mut().expect("it has nodes").ssh;
    // do not use the keys that the user who runs the test has pinned
    ssh.pinned = Some(dir.root().join("pinned").into_string());
    ssh.host_keys = HostKeys::AcceptNew;
    let opening = Opening {
        context,
        handed_over: Default::default(),
        points: plan.points.clone(),
        dir: dir.clone(),
        program: utf8(&node_program()).to_owned(),
        only_close: false,
        site_events,
        leases: Vec::new(),
        machines: Arc::new(StandingMachines),
        reach: Arc::new(BySsh),
    };
    let opened = Remote::open(opening, watch::channel(StopRequest::GoOn).1).await;
    opened
        .unwrap_or_else(|e| panic!("{e}"))
        .expect("not stopped")
}

/// Checks that no request remains on either side after all attempts. This also holds for a request that is repeated after its attempt has ended,
/// which is not carried out again, and for a request made before the connection is restored.
async fn keeps_no_request(remote: &Remote, node: &Node, ended: &Task) {
    let agent = remote.current().expect("an agent");
    let left = || node.shell("find /root/.cvc/spool -path '*/in/*'");
    let is_gone = || agent.agent_state.state().outbox.is_empty() && left().trim().is_empty();
    until("all requests to go", is_gone).await;
    let starts =
        || node.shell("cat /root/.cvc/spool/*/*/events.jsonl | grep -c '\"event\":\"started\"'");
    let before = starts();
    agent.agent_state.run(ended);
    until("the repeated request to go", is_gone).await;
    let relay = "for p in /proc/[0-9]*; do if tr '\\0' ' ' <$p/cmdline | grep -q '^[^ ]*cvc-node[^ ]* attach '; then kill ${p#/proc/}; echo killed; fi; done";
    assert!(node.shell(relay).contains("killed"));
    agent.agent_state.forget(AwaitedAttempt::of_task(ended));
    until("a request over the next connection to go", is_gone).await;
    // the end is only reported again
    assert_eq!(starts(), before, "nothing was carried out");
}

#[test]
fn every_executor_keeps_the_contract() {
    require!(Tool::Lab, Tool::Mpich5);
    let lab = Lab::builder().nodes(1).build();
    let temporary = tempfile::tempdir().expect("a directory");
    let spec = campaign(temporary.path(), &lab);
    let plan = cvc_core::plan::build(&spec);
    let dir = |name: &str| {
        let dir = CampaignDir::new(utf8(temporary.path()), name);
        fs::create_dir_all(dir.runs()).expect("runs/");
        dir
    };
    let asked = async {
        let (here, lab_plan) = (of_site(&plan, "here"), of_site(&plan, "lab"));
        let remote = Arc::new(by_agent(&spec, &lab_plan, &dir("by-agent")).await);
        let local = Arc::new(local(&spec, &dir("local")).await);
        let members = [
            Member {
                name: "this machine",
                executor: local,
                dir: dir("local"),
                plan: &here,
                agent: None,
            },
            Member {
                name: "by an agent",
                executor: Arc::clone(&remote) as Arc<dyn Executor<CampaignError>>,
                dir: dir("by-agent"),
                plan: &lab_plan,
                agent: Some(lab.node("n1")),
            },
        ];
        let mut measured = Vec::new();
        for member in &members {
            member.describes_its_site();
            let of_good = member.ends("good", 1, StopRequest::GoOn, Ok(())).await;
            assert_eq!(
                of_good,
                member.ends("good", 2, StopRequest::Finish, Ok(())).await,
                "{}: to finish is to go on",
                member.name
            );
            let of_exits = member
                .ends(
                    "exits",
                    1,
                    StopRequest::GoOn,
                    Err((Cause::Application, "exit code 3")),
                )
                .await;
            member
                .ends(
                    "exits-as-the-script",
                    1,
                    StopRequest::GoOn,
                    Err((Cause::Application, "exit code 97")),
                )
                .await;
            let of_unverified = member
                .ends(
                    "unverified",
                    1,
                    StopRequest::GoOn,
                    Err((Cause::Application, "lacks `^SUCCESS`")),
                )
                .await;
            member
                .ends(
                    "absent",
                    1,
                    StopRequest::GoOn,
                    Err((Cause::Launch, "absent is not installed")),
                )
                .await;
            member
                .is_interrupted(1, StopRequest::GoOn, Some(StopRequest::StopNow))
                .await;
            member.is_interrupted(2, StopRequest::StopNow, None).await;
            measured.push([of_good, of_exits, of_unverified]);
        }
        assert!(
            measured[0].iter().all(|names| names.contains("wall_s")),
            "{measured:?}"
        );
        assert_eq!(
            measured[0], measured[1],
            "what is measured does not depend on who carries it out"
        );
        keeps_no_request(&remote, lab.node("n1"), &members[1].task("good", 1)).await;
        remote.close().await.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            lab.node("n1").shell("ls /root/.cvc/spool 2>/dev/null || :"),
            "",
            "nothing is left on the node"
        );
    };
    lab.on_network(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(asked)
    });
}
