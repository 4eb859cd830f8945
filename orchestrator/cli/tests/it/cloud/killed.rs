//! Tests with `kill -9` of the controller before and after every record of its journal: its cloud resources are found again by the next `cvc run`, by
//! `cvc down`, and by `cvc sweep`, which has no journal.

use crate::cloud::on_cloud::{OnCloud, ec2_site};
use cvc_testkit::{Cloud, Finished, Lab, Tool, cloud::Leftovers, require, wait_until};
use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::Write,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const RUNS: usize = 2;

/// Records each start in a file, whichever controller requested it.
const COUNTED: &str = "if [ \"${PMI_RANK:-0}\" = 0 ]; then echo \"${CVC_RUN%%@*}\" >>/shared/starts.NAME; fi\nsleep 0.2\necho SUCCESS\n";

/// The moment at which the controller dies.
#[derive(Clone, Copy, Debug)]
enum At {
    Before(usize),
    After(usize),
}

impl At {
    /// Returns the value for `CVC_KILL_AT`.
    fn written(self) -> String {
        match self {
            Self::Before(record) => format!("before:{record}"),
            Self::After(record) => format!("after:{record}"),
        }
    }

    /// Returns the number of records in the journal at that moment.
    fn records(self) -> usize {
        match self {
            Self::Before(record) => record - 1,
            Self::After(record) => record,
        }
    }
}

/// The command that follows the death of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// `cvc run`, to its end.
    Resume,
    /// `cvc run` that is killed as well, this many records later, and then `cvc run` to its end.
    KillAgain(usize),
    /// `cvc sweep`, which cannot see the campaign's directory.
    Sweep,
    /// `cvc down`.
    Down,
}

/// A case: a death of the controller, and the command that follows.
#[derive(Clone, Copy, Debug)]
struct Case {
    nodes: u32,
    at: At,
    then: Then,
}

/// Sums over all cases.
#[derive(Default)]
struct Sums {
    cases: AtomicUsize,
    kills: AtomicUsize,
    runs: AtomicUsize,
    left: Mutex<BTreeMap<&'static str, usize>>,
}

impl Sums {
    fn add(&self, left: &Leftovers) {
        let all = [
            ("instances", &left.instances),
            ("volumes", &left.volumes),
            ("security groups", &left.security_groups),
            ("key pairs", &left.key_pairs),
            ("placement groups", &left.placement_groups),
            ("spot requests", &left.spot_requests),
            ("others", &left.others),
        ];
        let mut sums = self.left.lock().expect("no panic");
        for (kind, some) in all {
            *sums.entry(kind).or_default() += some.len();
        }
    }
}

/// Sets up a campaign of short runs on `nodes` instances.
fn campaign(cloud: &mut OnCloud, name: &str, nodes: u32, keys: &str) {
    let matrix =
        format!("[matrix]\napp = \"script\"\nmapping = \"{nodes}Nx1P\"\nmpi = \"mpich5\"\n");
    let run = format!("[run]\nrepeats = {RUNS}\nretries = 0\ntimeout_s = 300\n");
    let site = ec2_site(&cloud.cloud, nodes, "", &format!("install = false\n{keys}"));
    cloud.restart_fresh(name, &format!("{site}{matrix}{run}"));
    cloud.on.set_script(&COUNTED.replace("NAME", name));
    cloud.count_in(&format!("starts.{name}"));
}

fn lab() -> OnCloud {
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    OnCloud::new(lab, cloud, "none", "")
}

/// Runs `cvc run`, which dies at that moment.
#[track_caller]
fn dies(cloud: &OnCloud, at: At) -> Finished {
    let output = cloud.cvc_with(&["run", "campaign.toml"], &[("CVC_KILL_AT", &at.written())]);
    // shells report 137 for it
    assert!(
        matches!(output.code, None | Some(137)),
        "{at:?}: {:?}\n{}\n{}",
        output.code,
        output.stdout,
        output.stderr
    );
    assert_eq!(cloud.on.campaign.journal().len(), at.records(), "{at:?}");
    output
}

/// Checks that each run began once and finished once, on instances that were launched once.
#[track_caller]
fn assert_done_once(cloud: &OnCloud, name: &str, launched: usize, case: &Case) {
    cloud.on.campaign.assert_whole(RUNS);
    let starts =
        fs::read_to_string(cloud.on.lab.shared().join(format!("starts.{name}"))).expect("starts");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    starts
        .lines()
        .for_each(|run| *counts.entry(run).or_default() += 1);
    assert!(
        counts.len() == RUNS && counts.values().all(|n| *n == 1),
        "{case:?}: {counts:?}"
    );
    assert_eq!(
        launched, case.nodes as usize,
        "{case:?}: instances launched"
    );
    assert!(
        !cloud.on.campaign.root().join("cloud").exists(),
        "{case:?}: keys"
    );
}

/// A controller dies before and after each record about instances that are kept; instances that are recorded as released at that moment do not exist.
#[test]
fn while_instances_are_put_aside_for_the_next_campaign_and_none_is_forgotten() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let mut cloud = lab();
    let keep = "keep = \"30m\"";
    campaign(&mut cloud, "kept-whole", 1, keep);
    cloud.run().expect(0);
    let is_kept = |event: &serde_json::Value| event["event"] == "lease-kept";
    let record = cloud
        .on
        .campaign
        .journal()
        .iter()
        .position(is_kept)
        .expect("it is kept")
        + 1;
    cloud.cvc(&["down", "campaign.toml"]).expect(0);
    cloud.cloud.assert_nothing_left();
    for at in [
        At::Before(record - 1),
        At::Before(record),
        At::After(record),
    ] {
        campaign(
            &mut cloud,
            &format!("kept-{}", at.written().replace(':', "-")),
            1,
            keep,
        );
        dies(&cloud, at);
        assert_eq!(cloud.cloud.alive().instances.len(), 1, "{at:?}");
        // no run is left, and whether the instance is kept depends on the moment of the death
        cloud.run().expect(0);
        cloud.cvc(&["down", "campaign.toml"]).expect(0);
        cloud.cloud.assert_nothing_left();
        assert!(
            !cloud.on.campaign.root().join("cloud").exists(),
            "{at:?}: keys"
        );
    }
    // an instance whose record was damaged is not forgotten either
    campaign(&mut cloud, "kept-damaged", 1, keep);
    cloud.run().expect(0);
    let shelf = cloud
        .on
        .campaign
        .root()
        .parent()
        .expect("campaigns")
        .join(".kept");
    for fleet in fs::read_dir(shelf).expect("kept fleets").flatten() {
        fs::write(fleet.path().join("kept.json"), "").expect("writes");
    }
    cloud.cvc(&["down", "campaign.toml"]).expect(0);
    cloud.cloud.assert_nothing_left();
}

/// Runs one case.
fn check(cloud: &mut OnCloud, number: usize, case: Case, sums: &Sums) {
    let name = format!("killed-{number}");
    campaign(cloud, &name, case.nodes, "");
    let before = cloud.cloud.instances().len();
    dies(cloud, case.at);
    sums.kills.fetch_add(1, Ordering::Relaxed);
    match case.then {
        Then::Resume | Then::KillAgain(_) => {
            if let Then::KillAgain(later) = case.then {
                dies(cloud, At::Before(case.at.records() + later));
                sums.kills.fetch_add(1, Ordering::Relaxed);
            }
            cloud.run().expect(0);
            assert_done_once(cloud, &name, cloud.cloud.instances().len() - before, &case);
            sums.runs.fetch_add(RUNS, Ordering::Relaxed);
        }
        Then::Sweep => {
            let journal = cloud.on.campaign.journal();
            cloud.cvc(&["sweep", "--campaigns", "elsewhere"]).expect(0);
            assert_eq!(cloud.on.campaign.journal(), journal, "{case:?}");
        }
        Then::Down => {
            cloud.cvc(&["down", "campaign.toml"]).expect(0);
            assert!(
                !cloud.on.campaign.root().join("cloud").exists(),
                "{case:?}: keys"
            );
        }
    }
    sums.add(&cloud.cloud.alive());
    cloud.cloud.assert_nothing_left();
    // the agent's relay ends together with the connection
    wait_until("the end of all processes", Duration::from_secs(20), || {
        cloud.on.campaign.processes().is_empty()
    });
    sums.cases.fetch_add(1, Ordering::Relaxed);
}

/// Returns the cases: every record, both moments, each followed by `cvc run`; and some cases with the other commands.
fn cases(nodes: u32, records: usize) -> Vec<Case> {
    let mut all = Vec::new();
    for record in 1..=records {
        all.push(Case {
            nodes,
            at: At::Before(record),
            then: Then::Resume,
        });
        // in some of these the resumed controller dies, too
        let then = if record % 3 == 1 && record + 4 <= records {
            Then::KillAgain(4)
        } else {
            Then::Resume
        };
        all.push(Case {
            nodes,
            at: At::After(record),
            then,
        });
        all.push(Case {
            nodes,
            at: At::After(record),
            then: Then::Sweep,
        });
        if record % 3 == 2 {
            all.push(Case {
                nodes,
                at: At::After(record),
                then: Then::Down,
            });
        }
    }
    all
}

#[test]
fn at_every_record_of_the_journal_and_nothing_leaks_and_no_run_is_doubled() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let begin = std::time::Instant::now();
    // an undisturbed run gives the number of records
    let mut first = lab();
    let mut records = BTreeMap::new();
    for nodes in [1, 2] {
        let name = format!("whole-{nodes}");
        campaign(&mut first, &name, nodes, "");
        let before = first.cloud.instances().len();
        first.run().expect(0);
        let case = Case {
            nodes,
            at: At::After(0),
            then: Then::Resume,
        };
        assert_done_once(&first, &name, first.cloud.instances().len() - before, &case);
        first.cloud.assert_nothing_left();
        records.insert(nodes, first.on.campaign.journal());
    }
    let told: Vec<&str> = records[&1]
        .iter()
        .filter_map(|e| e["event"].as_str())
        .collect();
    for kind in [
        "lease-intended",
        "lease-acquired",
        "run-intended",
        "run-finished",
        "lease-released",
        "site-closed",
        "completed",
    ] {
        assert!(told.contains(&kind), "{told:?}");
    }
    let mut all = cases(1, records[&1].len());
    // with two instances: the records in which a lease is ordered and released
    let of_two = &records[&2];
    for (index, event) in of_two.iter().enumerate() {
        if matches!(
            event["event"].as_str(),
            Some("lease-intended" | "lease-acquired" | "lease-released")
        ) {
            all.push(Case {
                nodes: 2,
                at: At::Before(index + 1),
                then: Then::Resume,
            });
        }
    }
    if let Ok(only) = std::env::var("CVC_TEST_CASES") {
        all.retain(|case| format!("{case:?}").contains(&only));
    }
    let queue: Mutex<VecDeque<(usize, Case)>> = Mutex::new(all.into_iter().enumerate().collect());
    let sums = Sums::default();
    let work = |mut cloud: OnCloud| {
        loop {
            let next = queue.lock().expect("no panic").pop_front();
            let Some((number, case)) = next else { break };
            check(&mut cloud, number, case, &sums);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(first));
        // the cases mostly wait, so run them in parallel
        scope.spawn(|| work(lab()));
        scope.spawn(|| work(lab()));
    });
    let left = sums.left.into_inner().expect("no panic");
    assert!(left.values().all(|n| *n == 0), "{left:?}");
    let left: Vec<String> = left.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    #[expect(
        clippy::disallowed_methods,
        reason = "also where the test's own output is not shown"
    )]
    let _ = writeln!(
        std::io::stderr(),
        "controllers killed: {} in {} campaigns ({} records, {told:?}); {} runs, none doubled; left: {}; {:.0} s",
        sums.kills.into_inner(),
        sums.cases.into_inner(),
        told.len(),
        sums.runs.into_inner(),
        left.join(", "),
        begin.elapsed().as_secs_f64()
    );
}
