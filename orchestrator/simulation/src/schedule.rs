//! One schedule: a campaign on one or two sites, its faults, and the controllers that carry it out, until it is done.

use crate::{
    check::check,
    faults::{self, ToController},
    head::Network,
    world::World,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::{
    observe::{Observer, Progress},
    runner::{Options, Summary, run_campaign_on},
};
use cvc_core::{
    campaign::{Spec, load_text},
    plan::{self, Plan},
    stop::StopRequest,
};
use fastrand::Rng;
use std::{collections::HashMap, fmt::Write, fs, sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

/// Simulated time in which a campaign must be done.
const LIMIT: Duration = Duration::from_secs(72 * 3600);
/// Number of sessions after the faults in which it must be done.
const SESSIONS: u32 = 6;
/// Delay before a user starts `cvc run` again after an error.
const AGAIN: Duration = Duration::from_secs(60);
/// Time in which what was let go is gone.
const SETTLE: Duration = Duration::from_secs(300);

/// What happened in a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// What happened, with the simulated time in seconds.
    pub lines: Vec<String>,
    /// What must never be.
    pub wrong: Vec<String>,
}

/// Tells what the controller says.
struct Telling(World);

impl Observer for Telling {
    fn on(&mut self, progress: &Progress) {
        match progress {
            Progress::Site { what } => self.0.tell(format!("cvc: {what}")),
            Progress::RunLost { run, reason } => self.0.tell(format!("cvc: run {run} is lost: {reason}")),
            Progress::RunStarted { run, attempt, .. } => self.0.tell(format!("cvc: run {run} attempt {attempt} starts")),
            Progress::RunFinished { run, outcome, wall_s, .. } => self.0.tell(format!("cvc: run {run} ended: {outcome:?}, {wall_s}")),
            Progress::Skipped { reason, runs, .. } => self.0.tell(format!("cvc: {runs} runs are skipped: {reason}")),
            _ => {}
        }
    }
}

/// A campaign of random shape, with the names of its sites and their nodes.
fn campaign(rng: &mut Rng, dir: &Utf8Path) -> (Spec, Vec<(String, Vec<String>)>) {
    let apps = dir.join("apps");
    let descriptor = "schema = 1\nname = \"app\"\ntitle = \"an application of the simulation\"\n[program]\nnames = [\"app\"]\ninstall = \"-\"\n\
                      [command]\nargs = []\n[workloads.any]\n[success]\npattern = '^SUCCESS'\n";
    fs::create_dir_all(&apps).and_then(|()| fs::write(apps.join("app.toml"), descriptor)).expect("a descriptor");
    let mut text = "schema = 1\nname = \"simulated\"\n".to_owned();
    let mut sites = Vec::new();
    for site in ["alpha", "beta"].into_iter().take(rng.usize(1..3)) {
        let nodes: Vec<String> = (1..=rng.u32(1..4)).map(|n| format!("{site}{n}")).collect();
        let side_by_side = nodes.len() > 1 && rng.bool();
        write!(
            text,
            "[sites.{site}]\nkind = \"ssh\"\nhosts = {nodes:?}\ncores = 4\nlost_after_s = 30\nside_by_side = {side_by_side}\n\
             [sites.{site}.mpi.mpich]\nfamily = \"mpich\"\n"
        )
        .expect("text");
        sites.push((site.to_owned(), nodes));
    }
    let most = sites.iter().map(|(_, nodes)| nodes.len()).min().unwrap_or(1);
    let mappings: Vec<String> = (1..=most).map(|nodes| format!("{nodes}Nx2P")).collect();
    let (repeats, retries) = (rng.u32(1..4), rng.u32(0..3));
    write!(
        text,
        "[matrix]\napp = \"app\"\nmapping = {mappings:?}\nmpi = \"mpich\"\n[run]\nrepeats = {repeats}\nwarmups = 0\nretries = {retries}\ntimeout_s = 80\n"
    )
    .expect("text");
    let spec =
        load_text(dir.join("campaign.toml").as_std_path(), &text, &[apps.into_std_path_buf()]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    (spec, sites)
}

/// Carries out the schedule of a seed in a directory, which is empty.
///
/// # Panics
/// When the directory cannot be used.
pub fn simulate(seed: u64, dir: &Utf8Path) -> Story {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(carry_out(seed, dir))
}

async fn carry_out(seed: u64, dir: &Utf8Path) -> Story {
    let mut rng = Rng::with_seed(seed);
    let (spec, sites) = campaign(&mut rng, dir);
    let plan = plan::build(&spec);
    let faults = faults::draw(&mut rng, &sites);
    let world = World::new(rng);
    for (site, nodes) in &sites {
        world.machine(site, |machine| machine.nodes.clone_from(nodes));
    }
    world.tell(format!("{} runs on {sites:?}, {} faults", plan.runs.len(), faults.len()));
    let node_program = dir.join("cvc-node");
    fs::write(&node_program, "a program").expect("a program");
    let network = Network { world: world.clone(), dir: dir.to_owned() };
    let options = Options {
        campaigns: dir.join("campaigns"),
        state: dir.join("state"),
        shepherd: Vec::new(),
        node_program,
        retry_failed: false,
        only: None,
        until: None,
        disk_bytes: HashMap::new(),
        clouds: None,
        reach: Arc::new(network),
        expected_s: HashMap::new(),
        update_lock: false,
    };
    let done = tokio::time::timeout(LIMIT, sessions(&world, &spec, &plan, &options, faults)).await;
    match done {
        Ok(Some(summary)) => {
            tokio::time::sleep(SETTLE).await;
            check(&world, &plan, &options.campaigns, summary, dir);
        }
        Ok(None) => world.is_wrong(format!("{SESSIONS} sessions after the faults it is not done")),
        Err(_) => world.is_wrong(format!("it does not end within {} h", LIMIT.as_secs() / 3600)),
    }
    let (lines, wrong) = world.story();
    Story { lines, wrong }
}

/// Calls `cvc run` again and again until the campaign is done.
async fn sessions(world: &World, spec: &Spec, plan: &Plan, options: &Options, faults: Vec<(Duration, faults::Fault)>) -> Option<Summary> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (over, is_over) = watch::channel(false);
    let _faults = AbortOnDropHandle::new(tokio::spawn(faults::happen(world.clone(), faults, tell, over)));
    let mut left = SESSIONS;
    while left > 0 {
        let (stop, stop_signal) = watch::channel(StopRequest::GoOn);
        world.tell("cvc run");
        // of the time in which no controller was there
        while told.try_recv().is_ok() {}
        let mut observer = Telling(world.clone());
        let run = run_campaign_on(spec, plan, |_, _| HashMap::new(), options, stop_signal, &mut observer);
        let mut away = AGAIN;
        let ran = {
            tokio::pin!(run);
            loop {
                tokio::select! {
                    biased;
                    Some(to_controller) = told.recv() => match to_controller {
                        ToController::Kill(until) => {
                            away = until;
                            break None;
                        }
                        ToController::Stop(request, until) => {
                            away = until;
                            stop.send_modify(|now| *now = (*now).max(request));
                        }
                    },
                    ran = &mut run => break Some(ran),
                }
            }
        };
        match ran {
            None => world.tell("the controller is killed"),
            Some(Err(error)) => world.tell(format!("cvc run ends: {error}")),
            Some(Ok(summary)) => {
                world.tell(format!("cvc run ends: {summary:?}"));
                // what was skipped is tried again, unless it failed too often
                if summary.left == 0 && (summary.skipped == 0 || left == 1) {
                    return Some(summary);
                }
            }
        }
        left -= u32::from(*is_over.borrow());
        tokio::time::sleep(away).await;
    }
    None
}

/// An empty directory for a schedule, in memory where there is such a place.
///
/// # Panics
/// When no directory can be made.
pub fn directory() -> (tempfile::TempDir, Utf8PathBuf) {
    let memory = Utf8Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let made = made.expect("a directory");
    let path = Utf8PathBuf::from_path_buf(made.path().canonicalize().expect("it exists")).expect("UTF-8");
    (made, path)
}
