//! What the controller costs for many runs on many nodes: a plan of 10^3, 10^4 and 10^5 runs on a site of 10^3 nodes whose executor
//! returns at once. Printed for each: CPU time of the controller for each run, the peak of its memory, and the size of the journal; then
//! the same for reading journals of up to 10^6 entries, as at the beginning of a session and by `cvc status`.
//!
//! Each measurement is a process of its own, so that peaks are not mixed. The journal lies in /dev/shm if that exists: syncing is not what
//! is measured. Without `--bench` (cargo test) only small plans are run, to see that it works.
#![allow(
    missing_docs,
    clippy::allow_attributes,
    reason = "a benchmark is not a library"
)]
#![expect(clippy::print_stdout, reason = "a benchmark tells what it measured")]

use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::observe::{Observer, SessionProgress};
use cvc_controller::runner::{Options, SiteExecutor, run_campaign_on};
use cvc_core::campaign::{self, Spec};
use cvc_core::outcome::Outcome;
use cvc_core::plan;
use cvc_core::point::PlannedPoint;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::{CampaignDir, OutcomeFile};
use cvc_engine::attempt::{
    AttemptEvent, AttemptReporter, AttemptResult, Executor, SiteContext, Task,
};
use cvc_journal::{CampaignState, Event, Journal, Lineage};
use cvc_os::proc::ProcessId;
use cvc_sites::error::CampaignError;
use cvc_sites::remote::BySsh;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

/// Nodes of the site.
const NODES: usize = 1000;
/// Repeats of each point.
const REPEATS: usize = 100;
/// Says to this program which measurement it is to make.
const PART: &str = "CVC_BENCH_PART";

/// How runs are on the nodes.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    nodes: usize,
    side_by_side: bool,
    budget: bool,
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "all nodes, one at a time",
        nodes: NODES,
        side_by_side: false,
        budget: false,
    },
    Shape {
        name: "10 nodes, side by side",
        nodes: 10,
        side_by_side: true,
        budget: false,
    },
    Shape {
        name: "the same with a budget",
        nodes: 10,
        side_by_side: true,
        budget: true,
    },
];

/// Carries nothing out.
struct AtOnce {
    nodes: Vec<String>,
    side_by_side: bool,
}

#[async_trait]
impl Executor<CampaignError> for AtOnce {
    async fn attempt(
        &self,
        task: &Task,
        _: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, CampaignError> {
        reporter.emit(AttemptEvent::Started(ProcessId {
            pid: 1,
            start_ticks: 1,
        }));
        reporter.stage("computing");
        tokio::task::yield_now().await;
        let records = Some("0123456789abcdef".to_owned());
        Ok(AttemptResult::Ended(OutcomeFile {
            attempt: task.attempt,
            outcome: Outcome::Succeeded,
            records,
            wall_s: 1.0,
            manifest: None,
            kept: None,
        }))
    }

    fn cores(&self) -> u32 {
        4
    }

    fn nodes(&self) -> Vec<String> {
        self.nodes.clone()
    }

    fn side_by_side(&self) -> bool {
        self.side_by_side
    }

    fn obstacle(&self, _: &PlannedPoint) -> Option<String> {
        None
    }

    fn local_context(&self) -> Option<&SiteContext> {
        None
    }

    fn forget(&self, _: &Task) {}
}

struct Silent;

impl Observer for Silent {
    fn on(&mut self, _: &SessionProgress) {}
}

fn spec(runs: usize, shape: Shape) -> Spec {
    let points = (0..runs.div_ceil(REPEATS))
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let repeats = runs.min(REPEATS);
    let budget = if shape.budget {
        "[budget]\nusd = 1e9\n"
    } else {
        ""
    };
    let price = if shape.budget {
        "price.per_node_hour_usd = 0.1\n"
    } else {
        ""
    };
    let hosts = (1..=NODES)
        .map(|n| format!("\"n{n}\""))
        .collect::<Vec<_>>()
        .join(", ");
    let text = format!(
        "schema = 1\nname = 'scale'\n{budget}[sites.many]\nkind = 'ssh'\nhosts = [{hosts}]\nside_by_side = {}\n{price}mpi.mpich = {{ family = 'mpich' }}\n\
         [matrix]\napp = 'kernel-stencil'\nclass = 'S'\nmapping = '{}Nx1P'\nmpi = 'mpich'\n[matrix.user]\nn = [{points}]\n[run]\nrepeats = {repeats}\n",
        shape.side_by_side, shape.nodes
    );
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
    campaign::load_text(Path::new("scale.toml"), &text, &[apps]).unwrap_or_else(|e| panic!("{e}"))
}

fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
    .expect("a directory")
}

fn utf8(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.to_owned()).expect("UTF-8")
}

/// CPU time of this process so far, of the program and of the system on its behalf.
fn cpu() -> (Duration, Duration) {
    let used =
        nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).expect("known");
    let time =
        |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1000);
    (time(used.user_time()), time(used.system_time()))
}

/// The largest memory that this process has had, MiB.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .expect("a peak");
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<f64>()
        .expect("a number")
        / 1024.0
}

fn mib(file: &Utf8Path) -> f64 {
    std::fs::metadata(file).expect("it exists").len() as f64 / f64::from(1 << 20)
}

fn walk(runs: usize, shape: Shape) {
    let spec = spec(runs, shape);
    let plan = plan::build(&spec);
    let dir = directory();
    let options = Options {
        campaigns: utf8(dir.path()),
        state: utf8(dir.path()).join("state"),
        shepherd: Vec::new(),
        node_program: "cvc-node".into(),
        retry_failed: false,
        keep_going: true,
        only: None,
        last_block: None,
        until: None,
        disk_bytes: HashMap::new(),
        clouds: None,
        reach: Arc::new(BySsh),
        expected_s: HashMap::new(),
        update_lock: false,
    };
    let nodes: Vec<String> = (1..=NODES).map(|n| format!("n{n}")).collect();
    let executors = |_: &CampaignDir, _: &Lineage| -> HashMap<String, SiteExecutor> {
        let executor = AtOnce {
            nodes,
            side_by_side: shape.side_by_side,
        };
        [("many".to_owned(), Arc::new(executor) as SiteExecutor)].into()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (_ask, stop_signal) = tokio::sync::watch::channel(StopRequest::GoOn);
    let (before, began) = (cpu(), Instant::now());
    let ran = runtime
        .block_on(run_campaign_on(
            &spec,
            &plan,
            executors,
            &options,
            stop_signal,
            &mut Silent,
        ))
        .unwrap_or_else(|e| panic!("{e}"));
    let (after, wall) = (cpu(), began.elapsed());
    assert_eq!(ran.succeeded as usize, plan.runs.len());
    let n = plan.runs.len();
    let each = |d: Duration| d.as_secs_f64() * 1e3 / n as f64;
    let journal = CampaignDir::new(&options.campaigns, "scale").journal();
    println!(
        "{n:>7} runs, {:<26} {:.3} ms CPU each and {:.3} in the system, {:>5.0} MiB at most, journal {:.1} MiB, {:.1} s",
        shape.name,
        each(after.0 - before.0),
        each(after.1 - before.1),
        peak_mib(),
        mib(&journal),
        wall.as_secs_f64()
    );
}

/// Reads a journal of so many entries: three for each run, each on all nodes.
fn read(entries: usize) {
    let dir = directory();
    let path = utf8(&dir.path().join("journal.jsonl"));
    // by another process, whose memory does not count
    let written = Command::new(std::env::current_exe().expect("this program"))
        .env(PART, format!("write {entries} {path}"))
        .status();
    assert!(written.expect("starts").success());
    let (before, began) = (cpu(), Instant::now());
    let state = CampaignState::read(&path).unwrap_or_else(|e| panic!("{e}"));
    let (of_status, wall) = (cpu().0 - before.0, began.elapsed());
    println!(
        "{entries:>7} entries read for {} runs: {:.2} s CPU, {:.2} s, {:>5.0} MiB at most, journal {:.1} MiB",
        state.runs.len(),
        of_status.as_secs_f64(),
        wall.as_secs_f64(),
        peak_mib(),
        mib(&path)
    );
}

fn write(entries: usize, path: &Utf8Path) {
    let mut journal = Journal::open(path, "scale", |_| Ok(())).unwrap_or_else(|e| panic!("{e}"));
    let mut state = CampaignState::default();
    let nodes: Vec<_> = (1..=NODES).map(|n| format!("n{n}").into()).collect();
    for number in 0..entries / 3 {
        let (run, attempt) = (cvc_core::ids::RunId::of(&number.to_le_bytes()), 1);
        let records = Some("0123456789abcdef".to_owned());
        for event in [
            Event::RunIntended {
                run: run.clone(),
                attempt,
                nodes: state.node_sets.write(&nodes),
            },
            Event::RunStarted {
                run: run.clone(),
                attempt,
                pid: 1,
                start_ticks: 1,
            },
            Event::RunFinished {
                run,
                attempt,
                outcome: Outcome::Succeeded,
                records,
                manifest: Some("0123456789abcdef".to_owned()),
                not_again: None,
            },
        ] {
            let entry = journal.append(event).unwrap_or_else(|e| panic!("{e}"));
            state.apply(&entry).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

fn main() {
    if let Ok(part) = std::env::var(PART) {
        let words: Vec<&str> = part.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().expect("a number");
        return match words[0] {
            "walk" => walk(number(1), SHAPES[number(2)]),
            "read" => read(number(1)),
            "write" => write(number(1), Utf8Path::new(words[2])),
            other => panic!("{other}"),
        };
    }
    let bench = std::env::args().any(|a| a == "--bench");
    let runs: &[usize] = if bench {
        &[1_000, 10_000, 100_000]
    } else {
        &[20]
    };
    let entries: &[usize] = if bench {
        &[10_000, 100_000, 1_000_000]
    } else {
        &[30]
    };
    let mut parts: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for shape in 0..SHAPES.len() {
        parts.extend(
            runs.iter()
                .map(|n| ((shape, *n), format!("walk {n} {shape}"))),
        );
    }
    parts.extend(
        entries
            .iter()
            .map(|n| ((SHAPES.len(), *n), format!("read {n}"))),
    );
    for part in parts.values() {
        let status = Command::new(std::env::current_exe().expect("this program"))
            .env(PART, part)
            .status()
            .expect("starts");
        assert!(status.success(), "{part}");
    }
}
