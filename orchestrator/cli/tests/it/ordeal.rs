//! Runs campaigns on an ssh site, on Slurm and on the test cloud, from one laptop, while faults occur in random order: its host name changes,
//! campaigns are killed and moved, its disk is full for a while, the output of cvc is not read, its clock is set back. Meanwhile campaign files are
//! edited, and second controllers are started. No run may be lost or run twice, and nothing may be left.
//!
//! `CVC_ORDEAL_S` sets for how many seconds faults occur, `CVC_ORDEAL_SEED` sets the sequence of faults.

use crate::{
    cloud::on_cloud::{ec2_site, know},
    cluster_faults::steps::{controller_below, put_script, turn},
    common::cluster::{OnLab, slurm_site, ssh_site},
};
use cvc_testkit::{Campaign, Cloud, Lab, Tool, process, require, wait_until};
use nix::sys::signal::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead, BufReader},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Default duration of the faults, seconds; long enough for several.
const DEFAULT_S: u64 = 30;
/// Default seed for the sequence of faults.
const DEFAULT_SEED: u64 = 1;
/// Time limit for all campaigns to finish after the last fault.
const END_LIMIT: Duration = Duration::from_secs(900);
const TICK: Duration = Duration::from_millis(100);
/// Number of runs of a campaign. After a campaign has finished another one follows, until the time is over.
const RUNS: usize = 4;
/// Number of runs after the campaign's file was edited.
const MORE_RUNS: usize = 5;

/// Records that a run begins, and whether the same run is already running, which would mean that two controllers hold the lock.
const SCRIPT: &str = r#"
echo "$CVC_RUN" >>/shared/starts
exec 9>>"/shared/alive.${CVC_RUN%%@*}.$(printf %s "${CVC_RUN#*@}" | tr / _)"
flock --nonblock 9 || echo "$CVC_RUN" >>/shared/doubled
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1 9>&-; done
head -c 100000 /dev/zero | tr '\0' x
echo
echo SUCCESS
"#;

/// A fault on the laptop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mishap {
    HostRenamed,
    CampaignMoved,
    DiskFull,
    MessagesUnread,
    ClockSetBack,
    RepeatsEdited,
    SiteRenamed,
    SecondController,
}

const MISHAPS: [Mishap; 8] = [
    Mishap::HostRenamed,
    Mishap::CampaignMoved,
    Mishap::DiskFull,
    Mishap::MessagesUnread,
    Mishap::ClockSetBack,
    Mishap::RepeatsEdited,
    Mishap::SiteRenamed,
    Mishap::SecondController,
];

/// A `cvc run` whose messages are read until the test stops reading them.
struct Session {
    child: Child,
    /// How often the campaign's file had been edited when the session began.
    edits: usize,
    said: Arc<Mutex<String>>,
    is_unread: Arc<AtomicBool>,
}

impl Session {
    fn start(mut command: Command, edits: usize) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("cvc starts");
        let (said, is_unread) = (
            Arc::new(Mutex::new(String::new())),
            Arc::new(AtomicBool::new(false)),
        );
        let pipe = child.stderr.take().expect("a pipe");
        let (to, ends) = (Arc::clone(&said), Arc::clone(&is_unread));
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                to.lock().expect("no panic").push_str(&format!("{line}\n"));
                if ends.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        Self {
            child,
            edits,
            said,
            is_unread,
        }
    }

    fn kill(&mut self) {
        process::signal(
            controller_below(i32::try_from(self.child.id()).expect("a process id")),
            Signal::SIGKILL,
        );
        let _ = self.child.wait();
    }

    fn said(&self) -> String {
        self.said.lock().expect("no panic").clone()
    }
}

/// A kind of site, on which one campaign follows another.
struct Way {
    kind: &'static str,
    text: String,
    environment: Vec<(String, String)>,
    campaign: Campaign,
    /// Directory of all campaigns, on the small disk.
    place: PathBuf,
    rounds: usize,
    /// Number of repeats in the campaign's file.
    repeats: usize,
    /// Whether the file gives the site another name.
    is_renamed: bool,
    /// How often the file was edited, and how often the site's name was changed in it.
    edits: usize,
    renames: usize,
    session: Option<Session>,
    /// A second controller that was started while the first one runs.
    second: Option<Session>,
    /// Whether the campaign has finished successfully.
    is_done: bool,
    not_before: Instant,
    exits: BTreeMap<Option<i32>, usize>,
    /// Number of sessions of this campaign that have failed so far.
    failed: usize,
}

struct Ordeal {
    // drop the cloud before the lab that it uses
    cloud: Cloud,
    lab: Lab,
    disk: PathBuf,
    clock: LaptopClock,
    ways: Vec<Way>,
    moves: usize,
    /// Number of second controllers that were refused.
    refused: usize,
}

/// A tmpfs for the campaigns; unmounted at the end, even if the test fails.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let disk = Self(tempfile::tempdir().expect("a directory"));
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=48m", "cvc-test"])
            .arg(disk.0.path())
            .status();
        assert!(mounted.is_ok_and(|s| s.success()), "mount");
        disk
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A clock for `cvc` only; other programs such as Ansible and ssh use the machine's clock.
struct LaptopClock {
    library: PathBuf,
    /// File with the offset from the machine's clock, seconds.
    offset: PathBuf,
    is_back: bool,
}

impl LaptopClock {
    fn build(dir: &Path) -> Self {
        let (source, library, offset) =
            (dir.join("clock.c"), dir.join("clock.so"), dir.join("clock"));
        fs::write(&source, include_str!("ordeal/clock.c")).expect("writes");
        fs::write(&offset, 0_i64.to_ne_bytes()).expect("writes");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status();
        assert!(built.is_ok_and(|s| s.success()), "cc");
        Self {
            library,
            offset,
            is_back: false,
        }
    }

    /// Sets the clock back by an hour, or to the right time again.
    fn turn(&mut self) {
        self.is_back = !self.is_back;
        let offset_s: i64 = if self.is_back { -3_600 } else { 0 };
        // overwrite the file in place, because processes have mapped it
        let file = fs::File::options()
            .write(true)
            .open(&self.offset)
            .expect("opens");
        file.write_all_at(&offset_s.to_ne_bytes(), 0)
            .expect("writes");
    }
}

impl Way {
    fn new(
        kind: &'static str,
        text: String,
        environment: Vec<(String, String)>,
        disk: &Path,
    ) -> Self {
        let (campaign, place) = Self::campaign(kind, 1, &text, &environment, disk);
        let not_before = Instant::now();
        Self {
            kind,
            text,
            environment,
            campaign,
            place,
            rounds: 1,
            repeats: RUNS,
            is_renamed: false,
            edits: 0,
            renames: 0,
            session: None,
            second: None,
            is_done: false,
            not_before,
            exits: BTreeMap::new(),
            failed: 0,
        }
    }

    /// Returns a campaign whose directory is on the small disk.
    fn campaign(
        kind: &str,
        round: usize,
        text: &str,
        environment: &[(String, String)],
        disk: &Path,
    ) -> (Campaign, PathBuf) {
        let name = format!("{kind}-{round}");
        let mut campaign = OnLab::campaign(&name, text);
        for (variable, value) in environment {
            campaign.env(variable, value);
        }
        put_script(&campaign, SCRIPT);
        let place = disk.join(&name);
        fs::create_dir(&place).expect("a directory");
        std::os::unix::fs::symlink(&place, campaign.dir().join("campaigns")).expect("a link");
        (campaign, place)
    }

    /// Starts the next campaign.
    fn begin_next(&mut self, disk: &Path) {
        fs::remove_dir_all(&self.place).expect("removes");
        self.rounds += 1;
        (self.is_done, self.failed) = (false, 0);
        (self.repeats, self.is_renamed, self.edits, self.renames) = (RUNS, false, 0, 0);
        (self.campaign, self.place) =
            Self::campaign(self.kind, self.rounds, &self.text, &self.environment, disk);
    }

    /// Edits the campaign's file. Sessions that are already running continue with the previous content.
    fn edit(&mut self) {
        self.edits += 1;
        let mut text = self.text.replace(
            &format!("repeats = {RUNS}\n"),
            &format!("repeats = {}\n", self.repeats),
        );
        if self.is_renamed {
            text = text.replace("[sites.", "[sites.other-");
        }
        self.campaign.rewrite(&text);
    }

    fn rename_site(&mut self) {
        (self.is_renamed, self.renames) = (!self.is_renamed, self.renames + 1);
        self.edit();
    }

    /// Returns whether a session that ended with code 0 has done everything that the current file requests. If the site's name was changed, restores
    /// it.
    fn is_at_its_end(&mut self, session: &Session) -> bool {
        let knows_all = session.edits == self.edits;
        if knows_all && self.is_renamed {
            self.rename_site();
            return false;
        }
        knows_all
    }

    /// Checks that the campaign finished successfully: each run succeeded once, and its directory exists.
    fn check(&self, said: &str, starts: &str) {
        let what = format!(
            "{} {}, {} edits, {} of them names of the site",
            self.kind, self.rounds, self.edits, self.renames
        );
        let succeeded: Vec<String> = self
            .campaign
            .events("run-finished")
            .iter()
            .filter(|e| e["outcome"]["result"] == "succeeded")
            .map(|e| e["run"].as_str().expect("a run").to_owned())
            .collect();
        let different: BTreeSet<&String> = succeeded.iter().collect();
        assert!(
            succeeded.len() == different.len(),
            "{what}: {succeeded:?}\n{said}"
        );
        let plan = cvc_testkit::campaign::read_json(&self.campaign.root().join("plan.json"));
        let planned: BTreeSet<String> = plan["runs"]
            .as_array()
            .expect("runs")
            .iter()
            .map(|run| run["id"].as_str().expect("a run").to_owned())
            .collect();
        assert_eq!(planned.len(), self.repeats, "{what}\n{said}");
        assert!(
            planned.iter().all(|run| different.contains(run)),
            "{what}: {succeeded:?} of {planned:?}\n{said}"
        );
        // runs of the site's other name are no longer planned
        assert!(
            self.renames > 0 || different.len() == self.repeats,
            "{what}: {succeeded:?}\n{said}"
        );
        for run in &succeeded {
            assert!(
                !self.campaign.records(run).is_empty(),
                "{what}: run {run} has records"
            );
        }
        self.campaign.assert_nothing_left();
        let of_campaign = format!("/{}-{}-", self.kind, self.rounds);
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        for line in starts.lines().filter(|line| line.contains(&of_campaign)) {
            *begun
                .entry(line.split('@').next().unwrap_or(line))
                .or_default() += 1;
        }
        assert!(
            different.iter().all(|run| begun.contains_key(run.as_str())),
            "{what}: {begun:?}"
        );
        // when a site is renamed, its runs in progress are abandoned, and a fleet that must be released loses the results on it
        let is_repeated = begun.iter().any(|(_, times)| *times > 1 + self.renames);
        assert!(
            !is_repeated || self.kind == "cloud",
            "{what}: {begun:?}\n{said}"
        );
    }
}

impl Ordeal {
    /// Starts `cvc run` for a campaign.
    fn start(&self, at: usize) -> Session {
        let way = &self.ways[at];
        let mut command = OnLab::command_of(
            &self.lab,
            &way.campaign,
            &["run", "campaign.toml", "--campaigns"],
        );
        command.arg(&way.place);
        command
            .env("LD_PRELOAD", &self.clock.library)
            .env("CVC_TEST_CLOCK", &self.clock.offset);
        Session::start(command, way.edits)
    }

    fn kill(&mut self, at: usize) {
        let place = self.ways[at].place.display().to_string();
        let way = &mut self.ways[at];
        let sessions: Vec<Session> = way
            .session
            .take()
            .into_iter()
            .chain(way.second.take())
            .collect();
        if !sessions.is_empty() {
            sessions.into_iter().for_each(|mut session| session.kill());
            wait_until("the end of cvc", Duration::from_secs(20), || {
                self.lab.processes(&place).is_empty()
            });
        }
    }

    /// Handles sessions that have ended. Returns whether all campaigns have finished, which requires that no other campaign follows.
    fn tend(&mut self, others_follow: bool) -> bool {
        let mut done = true;
        for at in 0..self.ways.len() {
            let starts = fs::read_to_string(self.lab.shared().join("starts")).unwrap_or_default();
            let disk = self.disk.clone();
            let way = &mut self.ways[at];
            if way.is_done && others_follow {
                way.begin_next(&disk);
            }
            if way.is_done {
                continue;
            }
            let Some(session) = &mut way.session else {
                if way.not_before < Instant::now() {
                    self.ways[at].session = Some(self.start(at));
                }
                done = false;
                continue;
            };
            let Some(status) = session.child.try_wait().expect("a child") else {
                done = false;
                self.tend_second(at);
                continue;
            };
            let session = way.session.take().expect("it has ended");
            *way.exits.entry(status.code()).or_default() += 1;
            let said = session.said();
            assert!(
                !matches!(status.code(), Some(1 | 101)) && !said.contains("internal error"),
                "{}: {status}\n{said}",
                way.kind
            );
            if env::var_os("CVC_TEST_SAID").is_some() {
                eprintln!("{} {}: {status}\n{said}", way.kind, way.rounds);
            }
            // the second controller has waited for the lock, and holds it now
            let is_followed = way.second.is_some();
            way.session = way.second.take();
            if status.code() == Some(0) {
                way.is_done = !is_followed && way.is_at_its_end(&session);
                if way.is_done {
                    way.check(&said, &starts);
                }
            } else {
                way.failed += 1;
                assert!(
                    status.code() != Some(10) && way.failed < 60,
                    "{}: {status}\n{said}",
                    way.kind
                );
                way.not_before = Instant::now() + Duration::from_secs(1);
            }
            done &= way.is_done;
        }
        done
    }

    /// Handles the second controller of a campaign while the first one runs.
    fn tend_second(&mut self, at: usize) {
        let way = &mut self.ways[at];
        let Some(second) = &mut way.second else {
            return;
        };
        let Some(status) = second.child.try_wait().expect("a child") else {
            return;
        };
        let said = second.said();
        // the first controller releases the lock before it writes its report, and the disk may be full, so that the message may be another one
        let first = way.session.as_ref().map(Session::said).unwrap_or_default();
        let is_refused = status.code() == Some(7) || first.contains(" succeeded, ");
        assert!(
            is_refused,
            "{}: a second controller was not refused: {status}\n{said}\nthe first:\n{first}",
            way.kind
        );
        self.refused += usize::from(said.contains("another cvc is working on this campaign"));
        way.second = None;
    }

    /// Applies a fault.
    fn happen(&mut self, mishap: Mishap, random: &mut fastrand::Rng) {
        let at = random.usize(..self.ways.len());
        match mishap {
            Mishap::HostRenamed => {
                self.lab
                    .exec(&["hostname", &format!("laptop-{}", random.u16(..))]);
            }
            Mishap::CampaignMoved => {
                // kill all processes, as in a loss of power
                self.kill(at);
                self.moves += 1;
                let way = &mut self.ways[at];
                let to = self.disk.join(format!("moved-{}", self.moves));
                fs::rename(&way.place, &to).expect("moves");
                let link = way.campaign.dir().join("campaigns");
                fs::remove_file(&link).expect("removes");
                std::os::unix::fs::symlink(&to, &link).expect("a link");
                way.place = to;
            }
            Mishap::DiskFull => {
                let filler = self.disk.join("filler");
                let mut file = fs::File::create(&filler).expect("a file");
                // write until the disk is full
                let _ = std::io::copy(&mut std::io::repeat(0), &mut file);
                let end = Instant::now() + Duration::from_millis(random.u64(200..8_000));
                while Instant::now() < end {
                    self.tend(false);
                    thread::sleep(TICK);
                }
                fs::remove_file(&filler).expect("removes");
            }
            Mishap::MessagesUnread => {
                if let Some(session) = &self.ways[at].session {
                    session.is_unread.store(true, Ordering::Relaxed);
                }
            }
            Mishap::ClockSetBack => {
                self.clock.turn();
            }
            Mishap::RepeatsEdited | Mishap::SiteRenamed => {
                // edit the file between two sessions, or during one
                if random.bool() {
                    self.kill(at);
                }
                let way = &mut self.ways[at];
                match mishap {
                    _ if way.is_done => {}
                    Mishap::RepeatsEdited if way.repeats == RUNS => {
                        way.repeats = MORE_RUNS;
                        way.edit();
                    }
                    Mishap::RepeatsEdited => {}
                    _ => way.rename_site(),
                }
            }
            Mishap::SecondController => {
                let way = &self.ways[at];
                if way.session.as_ref().is_some_and(|first| {
                    first.said().contains(" to do") || first.said().contains("resuming")
                }) && way.second.is_none()
                {
                    // remove the lock, as a user might who takes it for a remainder
                    if random.bool() {
                        let _ = fs::remove_file(way.campaign.root().join("lock"));
                    }
                    self.ways[at].second = Some(self.start(at));
                }
            }
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text}"))
    })
}

#[test]
fn campaigns_survive_what_goes_wrong_on_a_laptop() {
    require!(
        Tool::Lab,
        Tool::Slurm,
        Tool::Moto,
        Tool::Mpich5,
        Tool::Ansible,
        Tool::Tmpfs
    );
    let _turn = turn();
    let length = Duration::from_secs(number_of("CVC_ORDEAL_S").unwrap_or(DEFAULT_S));
    let seed = number_of("CVC_ORDEAL_SEED").unwrap_or(DEFAULT_SEED);
    let mut random = fastrand::Rng::with_seed(seed);
    // mount the disk before the lab is created, because the lab sees only earlier mounts
    let disk = SmallDisk::mount();
    let lab = Lab::builder().nodes(4).login(true).build();
    lab.slurm().wait_idle(4);
    let cloud = Cloud::start(&lab);
    let shared = lab.shared();
    for file in ["starts", "doubled"] {
        fs::write(shared.join(file), "").expect("writes");
        fs::set_permissions(
            shared.join(file),
            std::os::unix::fs::PermissionsExt::from_mode(0o666),
        )
        .expect("for all users");
    }
    fs::set_permissions(
        &shared,
        std::os::unix::fs::PermissionsExt::from_mode(0o1777),
    )
    .expect("for all users");
    let matrix = format!(
        "[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich5\"\n[run]\nrepeats = {RUNS}\nretries = 3\ntimeout_s = 300\n"
    );
    let of_cloud = {
        let mut known = Campaign::new("cvc", "known", "");
        know(&mut known, &cloud);
        known
            .command(&[])
            .get_envs()
            .filter_map(|(name, value)| {
                Some((name.to_str()?.to_owned(), value?.to_str()?.to_owned()))
            })
            .collect()
    };
    let ways = vec![
        Way::new(
            "ssh",
            format!("{}{matrix}", ssh_site(2, "")),
            Vec::new(),
            disk.0.path(),
        ),
        Way::new(
            "slurm",
            format!("{}{matrix}", slurm_site("", "")),
            Vec::new(),
            disk.0.path(),
        ),
        Way::new(
            "cloud",
            format!("{}{matrix}", ec2_site(&cloud, 1, "", "")),
            of_cloud,
            disk.0.path(),
        ),
    ];
    let clock = LaptopClock::build(lab.directory());
    let mut ordeal = Ordeal {
        cloud,
        lab,
        disk: disk.0.path().to_owned(),
        clock,
        ways,
        moves: 0,
        refused: 0,
    };

    let mut happened: BTreeMap<Mishap, usize> = BTreeMap::new();
    // take the kinds of fault in turn, so that even a short test has most of them
    let mut ahead: Vec<Mishap> = Vec::new();
    let end = Instant::now() + length;
    let mut next = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        ordeal.tend(true);
        if Instant::now() > next {
            if ahead.is_empty() {
                ahead = MISHAPS.to_vec();
                random.shuffle(&mut ahead);
            }
            let mishap = ahead.pop().expect("one of all");
            *happened.entry(mishap).or_default() += 1;
            ordeal.happen(mishap, &mut random);
            next = Instant::now() + Duration::from_millis(random.u64(500..6_000));
        }
        thread::sleep(TICK);
    }
    wait_until("the end of all campaigns", END_LIMIT, || ordeal.tend(false));

    let exits: Vec<_> = ordeal
        .ways
        .iter()
        .map(|way| (way.kind, way.rounds, &way.exits))
        .collect();
    let refused = ordeal.refused;
    eprintln!(
        "seed {seed}, {} s: {happened:?}; second controllers that were refused: {refused}; campaigns and exit codes: {exits:?}",
        length.as_secs()
    );
    assert_eq!(
        fs::read_to_string(shared.join("doubled")).expect("reads"),
        "",
        "runs that were alive twice"
    );
    ordeal.cloud.assert_nothing_left();
    for node in ["login", "n1", "n2", "n3", "n4"] {
        let node = ordeal.lab.node(node);
        wait_until("the end of relays", Duration::from_secs(60), || {
            node.processes("cvc-node").is_empty()
        });
        assert_eq!(node.processes("steps.sh"), Vec::new(), "{}", node.name());
        assert_eq!(
            node.shell("ls -d /root/.cvc/spool/*/* /shared/cvc/spool/*/* 2>/dev/null || :"),
            "",
            "{}",
            node.name()
        );
    }
    assert_eq!(ordeal.lab.login().shell("squeue -h | wc -l").trim(), "0");
}
