//! Tests in which every write of a campaign on a cluster and a cloud fails once, with kept instances and a budget: no instance is forgotten, the
//! budget is not exceeded, and no run is lost or run twice.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    common::cluster::ssh_site,
};
use cvc_core::plan::Plan;
use cvc_testkit::{Cloud, Lab, Tool, campaign::utf8, require, wait_until};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    io::Write,
    sync::Mutex,
    time::{Duration, Instant},
};

/// Number of repeats on each site.
const REPEATS: usize = 1;
const RUNS: usize = 2 * REPEATS;
/// Enough for a second fleet at the included prices, even if instances live minutes longer on a busy machine.
const BUDGET_USD: f64 = 0.25;

/// Records each start in a file. It takes some time, because on a busy machine Hydra loses ranks that end before it has sent them all data.
const COUNTED: &str = "sleep 0.3; echo \"${CVC_RUN%%@*}\" >>/shared/starts.NAME\necho SUCCESS\n";

/// Kinds of writes of which every occurrence is tried, and how they fail.
const EACH: [(&str, &str); 3] = [
    ("journal.jsonl.append", "enospc"),
    ("journal.jsonl.append", "short:40"),
    ("journal.jsonl.sync", "eio"),
];

/// Kinds of writes of which only the first occurrence fails.
const ONCE: [&str; 9] = [
    "plan.json.write",
    "plan.json.rename",
    "campaign.toml.sync",
    "kept.json.write",
    "kept.json.sync",
    "kept.json.rename",
    "kept.json.sync-directory",
    "run.rename",
    "run.sync",
];

/// A write that fails.
#[derive(Clone, Debug)]
struct Case {
    point: &'static str,
    /// Number of the occurrence that fails, from 0.
    at: usize,
    how: &'static str,
}

impl Case {
    fn failpoints(&self) -> String {
        let Self { point, at, how } = self;
        let skipped = if *at == 0 {
            String::new()
        } else {
            format!("{at}*off->")
        };
        format!("{point}={skipped}1*return({how})->off")
    }
}

fn lab() -> OnCloud {
    let lab = Lab::builder().nodes(2).build();
    let cloud = Cloud::start(&lab);
    OnCloud::new(lab, cloud, "none", "")
}

fn campaign(cloud: &mut OnCloud, name: &str) {
    let matrix = format!(
        "[matrix]\nsite = [\"lab\", \"cloud\"]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich5\"\n\
         [run]\nrepeats = {REPEATS}\nretries = 0\ntimeout_s = 60\n[budget]\nusd = {BUDGET_USD}\n"
    );
    let of_cloud = ec2_site(
        &cloud.cloud,
        1,
        "",
        "install = false\nkeep = \"10m\"\nlifetime = \"10m\"\n",
    );
    cloud.restart_fresh(name, &format!("{}{of_cloud}{matrix}", ssh_site(1, "")));
    cloud.on.set_script(&COUNTED.replace("NAME", name));
    cloud.count_in(&format!("starts.{name}"));
}

/// Returns the planned runs of a site.
fn runs_on(cloud: &OnCloud, site: &str) -> BTreeSet<String> {
    let text = fs::read(cloud.on.campaign.root().join("plan.json")).expect("the plan");
    let plan: Plan = serde_json::from_slice(&text).expect("a plan");
    let points: BTreeSet<_> = plan
        .points
        .iter()
        .filter(|p| p.point.site == site)
        .map(|p| p.id.clone())
        .collect();
    plan.runs
        .iter()
        .filter(|run| points.contains(&run.point))
        .map(|run| run.id.to_string())
        .collect()
}

/// Returns the cost of all instances from their order to their release, or until now, by the journal, US dollars.
fn spent_usd(cloud: &OnCloud) -> f64 {
    let at = |event: &Value| {
        event["at"]
            .as_str()
            .expect("a time")
            .parse::<jiff::Timestamp>()
            .expect("a time")
    };
    let released = cloud.on.campaign.events("lease-released");
    let leases = cloud.on.campaign.events("lease-intended");
    leases
        .iter()
        .map(|lease| {
            let end = released
                .iter()
                .find(|r| r["lease"] == lease["lease"])
                .map_or_else(jiff::Timestamp::now, at);
            let seconds = end.duration_since(at(lease)).as_secs_f64().max(60.0);
            seconds * lease["order"]["usd_per_hour"].as_f64().expect("a price") / 3600.0
        })
        .sum()
}

/// Lets a write fail, then runs the campaign to its end and releases everything. Returns whether the session noticed the failure.
fn check(cloud: &mut OnCloud, number: usize, case: &Case) -> bool {
    let name = format!("failing-{number}");
    campaign(cloud, &name);
    let failed = cloud.cvc_with(
        &["run", "campaign.toml"],
        &[("FAILPOINTS", &case.failpoints())],
    );
    assert!(
        matches!(failed.code, Some(0 | 7 | 9 | 10)),
        "{case:?}: {failed:?}"
    );
    assert!(
        !failed.stderr.contains("internal error"),
        "{case:?}: {failed:?}"
    );
    let shelf = cloud
        .on
        .campaign
        .root()
        .parent()
        .expect("campaigns")
        .join(".kept");
    let on_shelf = || fs::read_dir(&shelf).map_or(0, Iterator::count);
    let alive = cloud.cloud.alive().instances.len();
    assert!(
        alive <= on_shelf(),
        "{case:?}: {alive} instances, {} on the shelf: {failed:?}",
        on_shelf()
    );
    let before = cloud.on.campaign.events("run-finished");
    if failed.code == Some(10) {
        cloud
            .cvc(&["run", "--retry-failed", "campaign.toml"])
            .expect(0);
    } else {
        cloud.cvc(&["run", "campaign.toml"]).expect(0);
    }

    let finished = cloud.on.campaign.events("run-finished");
    assert_eq!(
        finished[..before.len()],
        before,
        "{case:?}: no record is lost"
    );
    let succeeded: Vec<&Value> = finished
        .iter()
        .filter(|e| e["outcome"]["result"] == "succeeded")
        .collect();
    let runs: BTreeSet<&str> = succeeded.iter().filter_map(|e| e["run"].as_str()).collect();
    assert_eq!(
        (runs.len(), succeeded.len()),
        (RUNS, RUNS),
        "{case:?}: each run succeeds once: {finished:?}"
    );
    for event in succeeded {
        let run = cloud
            .on
            .campaign
            .run_dir(event["run"].as_str().expect("a run"));
        let digest = event["manifest"].as_str().expect("a manifest");
        cvc_core::store::check_manifest(utf8(&run), digest)
            .unwrap_or_else(|e| panic!("{case:?}: {e}"));
    }
    let starts =
        fs::read_to_string(cloud.on.lab.shared().join(format!("starts.{name}"))).expect("starts");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    starts
        .lines()
        .for_each(|run| *counts.entry(run).or_default() += 1);
    // results stay on a cluster, but are lost with instances
    if failed.code != Some(10) {
        assert!(
            runs_on(cloud, "lab")
                .iter()
                .all(|run| counts[run.as_str()] == 1),
            "{case:?}: {counts:?}"
        );
    }
    assert!(counts.values().all(|n| *n <= 2), "{case:?}: {counts:?}");

    cloud.cvc(&["down", "campaign.toml"]).expect(0);
    let left = cloud.cloud.alive();
    assert!(left.instances.is_empty(), "{case:?}: {left:?}");
    cloud.assert_nothing_left();
    assert_eq!(on_shelf(), 0, "{case:?}: kept fleets");
    let spent_usd = spent_usd(cloud);
    assert!(spent_usd <= BUDGET_USD, "{case:?}: {spent_usd} USD");
    wait_until("the end of all processes", Duration::from_secs(30), || {
        cloud.on.campaign.processes().is_empty()
    });
    cloud.on.campaign.assert_nothing_left();
    failed.code != Some(0) || failed.stderr.contains("No space left")
}

/// Returns the next write that fails. The occurrences of each kind are tried until one is not noticed.
struct Queue {
    each: Vec<(Case, bool)>,
    once: VecDeque<Case>,
    taken: usize,
}

impl Queue {
    fn next(&mut self) -> Option<(usize, Case)> {
        let of_each = self
            .each
            .iter_mut()
            .find(|(_, goes_on)| *goes_on)
            .map(|(case, _)| {
                let now = case.clone();
                case.at += 1;
                now
            });
        let case = of_each.or_else(|| self.once.pop_front())?;
        self.taken += 1;
        Some((self.taken, case))
    }

    fn end(&mut self, case: &Case) {
        for (of, goes_on) in &mut self.each {
            *goes_on &= (of.point, of.how) != (case.point, case.how);
        }
    }
}

#[test]
fn whatever_cannot_be_written_no_instance_is_forgotten_and_no_run_is_lost_or_doubled() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let begin = Instant::now();
    let each = EACH
        .map(|(point, how)| (Case { point, at: 0, how }, true))
        .to_vec();
    let once = ONCE
        .map(|point| Case {
            point,
            at: 0,
            how: "enospc",
        })
        .into();
    let queue = Mutex::new(Queue {
        each,
        once,
        taken: 0,
    });
    let noticed: Mutex<BTreeMap<String, usize>> = Mutex::default();
    let work = || {
        let mut cloud = lab();
        loop {
            let next = queue.lock().expect("no panic").next();
            let Some((number, case)) = next else { break };
            if check(&mut cloud, number, &case) {
                *noticed
                    .lock()
                    .expect("no panic")
                    .entry(format!("{} {}", case.point, case.how))
                    .or_default() += 1;
            } else if case.at == 0 {
                panic!("{case:?} is a write of every such campaign");
            } else {
                queue.lock().expect("no panic").end(&case);
            }
        }
    };
    std::thread::scope(|scope| {
        // the cases mostly wait, so run them in parallel
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
    let noticed = noticed.into_inner().expect("no panic");
    assert!(noticed["journal.jsonl.append enospc"] >= 14, "{noticed:?}");
    #[expect(
        clippy::disallowed_methods,
        reason = "also where the test's own output is not shown"
    )]
    let _ = writeln!(
        std::io::stderr(),
        "writes that failed: {noticed:?}; {:.0} s",
        begin.elapsed().as_secs_f64()
    );
}
