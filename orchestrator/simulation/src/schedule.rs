//! One schedule: a campaign on one or two sites, its faults, and the controllers that run until it is done.

use crate::{
    campaigns::Campaigns,
    check::check,
    faults,
    head::Network,
    sessions::{SESSIONS, Sessions},
    world::World,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::runner::Options;
use cvc_core::clock;
use cvc_os::disk::record_syncs;
use fastrand::Rng;
use jiff::SignedDuration;
use std::{collections::HashMap, fs, sync::Arc, time::Duration};

/// Simulated time within which a campaign must be done.
const LIMIT: Duration = Duration::from_secs(72 * 3600);
/// Simulated time within which released processes and files must disappear.
const SETTLE: Duration = Duration::from_secs(300);
/// Constant with which the seed of a second generator is derived.
const OTHER: u64 = 0x5bd1_e995_9e37_79b9;

/// Record of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Events, with the simulated time in seconds.
    pub lines: Vec<String>,
    /// Violations.
    pub wrong: Vec<String>,
}

/// Carries out the schedule of a seed in an empty directory.
///
/// # Panics
/// The directory cannot be used.
pub fn simulate(seed: u64, dir: &Utf8Path) -> Story {
    record_syncs();
    clock::set_off(SignedDuration::ZERO);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(carry_out(seed, dir))
}

async fn carry_out(seed: u64, dir: &Utf8Path) -> Story {
    let (mut rng, mut chance) = (Rng::with_seed(seed), Rng::with_seed(seed ^ OTHER));
    let campaigns = Campaigns::draw(&mut rng, &mut chance, dir);
    let mut faults = faults::draw(&mut rng, &campaigns.sites);
    faults.extend(faults::draw_more(
        &mut chance,
        &campaigns.machines,
        campaigns.files.len() - 1,
    ));
    faults.sort_by_key(|(at, _)| *at);
    let world = World::new(rng, chance);
    let runs = campaigns.files[0].plan.runs.len();
    world.tell(format!(
        "{runs} runs on {:?}, {} faults",
        campaigns.sites,
        faults.len()
    ));
    let node_program = dir.join("cvc-node");
    fs::write(&node_program, "a program").expect("a program");
    let network = Network {
        world: world.clone(),
        dir: dir.to_owned(),
    };
    let options = Options {
        campaigns: dir.join("campaigns"),
        state: dir.join("state"),
        shepherd: Vec::new(),
        node_program,
        retry_failed: false,
        // failures are random, so several may be alike by chance
        keep_going: true,
        only: None,
        last_block: None,
        until: None,
        disk_bytes: HashMap::new(),
        clouds: None,
        reach: Arc::new(network),
        expected_s: HashMap::new(),
        update_lock: false,
    };
    let mut sessions = Sessions::new(&world, &campaigns.files, &options);
    let done = tokio::time::timeout(LIMIT, sessions.until_done(faults, dir)).await;
    match done {
        Ok(Some(summary)) => {
            tokio::time::sleep(SETTLE).await;
            check(&world, sessions.file(), &options.campaigns, summary, dir);
        }
        Ok(None) => world.is_wrong(format!(
            "{SESSIONS} sessions after the faults it is not done"
        )),
        Err(_) => world.is_wrong(format!(
            "it does not end within {} h",
            LIMIT.as_secs() / 3600
        )),
    }
    let (lines, wrong) = world.story();
    Story { lines, wrong }
}

/// Creates an empty directory for a schedule, in memory if possible.
///
/// # Panics
/// No directory can be created.
pub fn directory() -> (tempfile::TempDir, Utf8PathBuf) {
    let memory = Utf8Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let made = made.expect("a directory");
    let path =
        Utf8PathBuf::from_path_buf(made.path().canonicalize().expect("it exists")).expect("UTF-8");
    (made, path)
}
