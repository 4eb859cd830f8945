//! Advice: the Pareto front, indistinguishable candidates, constraints, failures, and the next measurements.

use crate::common::{MadeRepeat, campaign_measured, measured};
use camino::Utf8Path;
use cvc_analysis::{
    advice::{
        Advice, AdviceCandidate, Constraints, Feasibility, NodePrice, StoragePrice, advice_report,
        advise,
    },
    comparison::Side,
};
use cvc_core::{
    campaign::Format,
    point::{CheckpointerKind, Point},
    record::{Record, Source, Unit},
};
use cvc_index::Index;
use cvc_model::pareto::ParetoRank;
use cvc_show::{Document, write_all};

fn point(site: &str, checkpointer: CheckpointerKind) -> Point {
    Point {
        site: site.to_owned(),
        app: "solver".to_owned(),
        class: "S".to_owned(),
        mapping: "2Nx2P".parse().expect("a mapping"),
        mpi: "mpich".to_owned(),
        checkpointer,
        storage: "run".to_owned(),
        ..Point::default()
    }
}

fn runs(walls_s: &[f64], usd: f64, checkpoint: Option<(f64, f64)>) -> Vec<MadeRepeat> {
    walls_s
        .iter()
        .map(|wall_s| {
            let mut values = vec![
                ("wall_s", *wall_s, Unit::Seconds),
                ("cost_usd", usd * wall_s / 100.0, Unit::Usd),
            ];
            if let Some((latency_s, mib)) = checkpoint {
                values.extend([
                    ("ckpt_latency_s", latency_s, Unit::Seconds),
                    ("ckpt_stored_bytes", mib * 1_048_576.0, Unit::Bytes),
                ]);
            }
            Ok(values)
        })
        .collect()
}

/// Returns four sites: a fast and expensive one, a slow and cheap one, one that is slow and expensive, and one that may be as good as the cheap one.
pub fn sides() -> Vec<Side> {
    let of = |site: &str| {
        let base = match site {
            "fast" => (100.0, 4.0),
            "cheap" => (300.0, 0.5),
            "poor" => (310.0, 3.0),
            _ => (302.0, 0.51),
        };
        let walls = [base.0, base.0 * 1.02, base.0 * 0.98];
        let with = walls.map(|wall| wall * 1.05);
        vec![
            (
                point(site, CheckpointerKind::None),
                runs(&walls, base.1, None),
            ),
            (
                point(site, CheckpointerKind::Dmtcp),
                runs(&with, base.1, Some((base.0 / 50.0, 800.0))),
            ),
        ]
    };
    let dir = tempfile::tempdir().expect("a directory");
    campaign_measured(
        dir.path(),
        ["fast", "cheap", "poor", "near"]
            .into_iter()
            .flat_map(of)
            .collect(),
    );
    let index = Index::in_temporary_file(Utf8Path::from_path(dir.path()).expect("UTF-8"))
        .expect("an index");
    vec![Side::of_campaign("all", &index).expect("a side")]
}

fn constraints() -> Constraints {
    Constraints {
        times: 1.0,
        ..Constraints::default()
    }
}

fn advised(constraints: &Constraints) -> Advice {
    let mut advice = advise(&sides(), constraints);
    assert_eq!(advice.len(), 1);
    advice.remove(0)
}

fn candidate<'a>(advice: &'a Advice, label: &str) -> &'a AdviceCandidate {
    advice
        .candidates
        .iter()
        .find(|c| c.label == label)
        .unwrap_or_else(|| {
            panic!(
                "no {label} among {:?}",
                advice
                    .candidates
                    .iter()
                    .map(|c| &c.label)
                    .collect::<Vec<_>>()
            )
        })
}

#[test]
fn candidates_on_the_front_are_undominated_and_those_within_intervals_indistinguishable() {
    let advice = advised(&constraints());
    assert_eq!(advice.objectives, ["time_s", "cost_usd"]);
    let standing = |label: &str| candidate(&advice, label).standing;
    assert_eq!(standing("fast, no checkpoint"), Some(ParetoRank::Front));
    assert_eq!(standing("cheap, no checkpoint"), Some(ParetoRank::Front));
    assert_eq!(
        standing("near, no checkpoint"),
        Some(ParetoRank::Indistinguishable)
    );
    assert_eq!(
        standing("poor, no checkpoint"),
        Some(ParetoRank::Dominated),
        "the fast one is cheaper, too"
    );
    assert_eq!(standing("poor, dmtcp"), Some(ParetoRank::Dominated));
    assert!(
        advice.sentence.starts_with(
            "solver.S: fastest is fast, no checkpoint (1 min 40 s, $4.00); cheapest is cheap, no checkpoint (5 min 00 s, $1.50)"
        ),
        "{}",
        advice.sentence
    );
    // cheapest first
    assert!(!advice.next.is_empty());
    assert!(
        advice
            .next
            .windows(2)
            .all(|w| w[0].cost_usd <= w[1].cost_usd)
    );
    assert!(advice.next[0].repeats > 0 && advice.next[0].time_s > 0.0);
}

#[test]
fn limits_are_kept_surely_perhaps_or_not() {
    let limited = advised(&Constraints {
        deadline_s: Some(301.0),
        ..constraints()
    });
    let kept = |label: &str| candidate(&limited, label).kept;
    assert_eq!(kept("fast, no checkpoint"), Feasibility::Surely);
    assert_eq!(
        kept("cheap, no checkpoint"),
        Feasibility::Perhaps,
        "its interval goes beyond"
    );
    assert_eq!(kept("near, no checkpoint"), Feasibility::Broken);
    assert_eq!(candidate(&limited, "near, no checkpoint").standing, None);
    assert_eq!(limited.candidates.last().and_then(|c| c.standing), None);

    let notice = advised(&Constraints {
        notice_s: Some(3.0),
        ..constraints()
    });
    assert_eq!(candidate(&notice, "fast, dmtcp").kept, Feasibility::Surely);
    assert_eq!(
        candidate(&notice, "cheap, dmtcp").kept,
        Feasibility::Broken,
        "its checkpoint takes 6 s"
    );
    assert_eq!(
        candidate(&notice, "fast, no checkpoint").kept,
        Feasibility::Broken
    );

    let overhead = advised(&Constraints {
        overhead: Some(0.04),
        ..constraints()
    });
    assert_eq!(
        candidate(&overhead, "fast, dmtcp").kept,
        Feasibility::Broken,
        "checkpoints add 5 %"
    );
    assert_eq!(
        candidate(&overhead, "fast, no checkpoint").kept,
        Feasibility::Surely
    );

    let walltime = advised(&Constraints {
        walltime_s: Some(200.0),
        ..constraints()
    });
    assert_eq!(
        candidate(&walltime, "cheap, no checkpoint").kept,
        Feasibility::Broken
    );
    assert_eq!(
        candidate(&walltime, "cheap, dmtcp").kept,
        Feasibility::Surely
    );
    assert_eq!(
        candidate(&walltime, "cheap, dmtcp").remarks,
        ["2 jobs of the walltime"]
    );

    let nothing = advised(&Constraints {
        budget_usd: Some(0.01),
        ..constraints()
    });
    assert_eq!(
        nothing.sentence,
        "solver.S: none of 8 candidates satisfies the constraints."
    );
}

#[test]
fn with_failures_times_are_those_that_daly_expects() {
    let failing = advised(&Constraints {
        mtbf_s: Some(3600.0),
        times: 100.0,
        ..constraints()
    });
    // 100 times 100 s of computing, a checkpoint of 2 s
    let (app, ckpt, mtbf) = (10_000.0f64, 2.0f64, 3600.0f64);
    let part = ckpt / (2.0 * mtbf);
    let interval = (2.0 * ckpt * mtbf).sqrt() * (1.0 + part.sqrt() / 3.0 + part / 9.0) - ckpt;
    // the last interval has no checkpoint, and a restart takes as long as a checkpoint
    let count = (app / interval).ceil() - 1.0;
    let last = app - count * interval;
    let stretches = count * ((interval + ckpt) / mtbf).exp_m1() + (last / mtbf).exp_m1();
    let expected = mtbf * (ckpt / mtbf).exp() * stretches;
    let with = candidate(&failing, "fast, dmtcp");
    assert!(
        (with.time_s.value / expected - 1.0).abs() < 1e-9,
        "{with:?} {expected}"
    );
    assert!((with.interval_s.expect("an interval") / interval - 1.0).abs() < 1e-9);
    let without = candidate(&failing, "fast, no checkpoint");
    assert!((without.time_s.value / (mtbf * (app / mtbf).exp_m1()) - 1.0).abs() < 1e-9);
    assert!(with.time_s.low < with.time_s.value && with.time_s.value < with.time_s.high);
    assert_eq!(
        without.standing,
        Some(ParetoRank::Dominated),
        "it starts anew after each failure"
    );
}

/// A realistic case: a run of 39.63 s whose single checkpoint adds 20.3 %, and a job a thousand times as long.
#[test]
fn overhead_is_that_of_the_interval_in_time_cost_and_limit() {
    let dir = tempfile::tempdir().expect("a directory");
    // the added time is a little shorter than the time from request to end
    let (alone, added, ckpt) = (39.63, 0.203 * 39.63, 8.068);
    let walls = |wall: f64| [wall, wall * 1.001, wall * 0.999];
    let made = vec![
        (
            point("c7a.4xlarge", CheckpointerKind::None),
            runs(&walls(alone), 0.023, None),
        ),
        (
            point("c7a.4xlarge", CheckpointerKind::Dmtcp),
            runs(&walls(alone + added), 0.023, Some((ckpt, 3375.0))),
        ),
    ];
    campaign_measured(dir.path(), made);
    let index = Index::in_temporary_file(Utf8Path::from_path(dir.path()).expect("UTF-8"))
        .expect("an index");
    let sides = [Side::of_campaign("all", &index).expect("a side")];
    let of = |mtbf_s: Option<f64>, times: f64| {
        let constraints = Constraints {
            times,
            mtbf_s,
            overhead: Some(0.02),
            ..Constraints::default()
        };
        advise(&sides, &constraints).remove(0)
    };
    let advice = of(Some(200.0 * 3600.0), 1000.0);
    let with = candidate(&advice, "dmtcp");
    let without = candidate(&advice, "no checkpoint");
    assert_eq!(
        (with.kept, with.standing),
        (Feasibility::Surely, Some(ParetoRank::Front))
    );
    assert!(
        (with.time_s.value / 39_822.0 - 1.0).abs() < 1e-3,
        "{with:?}"
    );
    assert!(
        (without.time_s.value / 40_741.0 - 1.0).abs() < 1e-3,
        "{without:?}"
    );
    assert!(with.cost_usd.expect("dollars").value < without.cost_usd.expect("dollars").value);
    let (interval_s, overhead) = (with.interval_s.expect("one"), with.overhead.expect("one"));
    assert!((interval_s - 3403.0).abs() < 2.0, "{interval_s}");
    assert!(
        (overhead.value - 11.0 * ckpt / (1000.0 * alone)).abs() < 1e-9,
        "{overhead:?}"
    );
    assert_eq!(with.checkpoints_taken, Some(11.0));
    assert_eq!(with.remarks, ["a checkpoint every 56 min 43 s adds 0.22 %"]);
    assert!(
        advice.sentence.contains("take dmtcp (11 h 04 min"),
        "{}",
        advice.sentence
    );

    // without failures there is no interval: the job has the single checkpoint of a run, not a thousand
    let advice = of(None, 1000.0);
    let with = candidate(&advice, "dmtcp");
    assert!(
        (with.time_s.value - (1000.0 * alone + added)).abs() < 1e-6,
        "{with:?}"
    );
    let overhead = with.overhead.expect("an overhead").value;
    assert!((overhead - 0.203 / 1000.0).abs() < 1e-6, "{overhead}");
    assert_eq!(with.kept, Feasibility::Surely);

    // for a job of one run, the overhead is that of the run
    let advice = of(None, 1.0);
    let with = candidate(&advice, "dmtcp");
    assert_eq!(with.kept, Feasibility::Broken);
    assert_eq!(
        with.remarks,
        ["checkpoints add 20.3 %: exceeds the overhead limit"]
    );
}

#[test]
fn an_interval_that_is_asked_for_is_kept_by_candidates_with_checkpoints_alone() {
    let asked = Constraints {
        work_s: Some(36_000.0),
        every_s: Some(3600.0),
        budget_usd: Some(1500.0),
        ..constraints()
    };
    let advice = advised(&asked);
    assert!(
        (advice.times - 360.0).abs() < 1e-9,
        "the fastest computes 100 s in a run"
    );
    let with = candidate(&advice, "fast, dmtcp");
    assert_eq!(
        (with.interval_s, with.checkpoints_taken),
        (Some(3600.0), Some(9.0))
    );
    assert!(
        (with.time_s.value - (36_000.0 + 9.0 * 2.0)).abs() < 1e-6,
        "{with:?}"
    );
    assert!(
        with.remarks
            .contains(&"a checkpoint every 1 h 00 min adds 0.05 %".to_owned())
    );
    let without = candidate(&advice, "fast, no checkpoint");
    assert_eq!(
        (without.kept, without.standing),
        (Feasibility::Broken, None)
    );
    assert_eq!(
        without.remarks,
        ["takes no checkpoint", "costs $1440: may exceed the budget"]
    );

    let only = advised(&Constraints {
        checkpointed: true,
        ..asked.clone()
    });
    assert!(only.candidates.iter().all(|c| c.checkpoints), "{only:?}");
    assert_eq!(only.candidates.len(), 4);
    let fact = |name: &str| {
        let found = only.assumptions.iter().find(|a| a.name == name);
        found
            .unwrap_or_else(|| panic!("no {name}: {:?}", only.assumptions))
            .value
            .clone()
    };
    assert_eq!(
        fact("interval"),
        "1 h 00 min of computing between two checkpoints (--every)"
    );
    assert_eq!(fact("budget"), "$1500 (--budget)");
    assert_eq!(fact("failures"), "none (--mtbf)");
    assert_eq!(
        fact("price of cheap"),
        "$9.00 a node-hour (recorded with its runs)"
    );
    assert!(
        fact("job").starts_with("computes 10 h 00 min on fast, "),
        "{}",
        fact("job")
    );

    // a job of ten minutes ends before its first checkpoint
    let short = advised(&Constraints {
        work_s: Some(600.0),
        ..asked
    });
    let with = candidate(&short, "fast, dmtcp");
    assert_eq!(with.checkpoints_taken, Some(0.0));
    assert!((with.time_s.value - 600.0).abs() < 1e-9, "{with:?}");
    assert_eq!(with.remarks, ["ends before its first checkpoint"]);
}

#[test]
fn storage_of_two_checkpoints_is_paid_until_the_job_ends() {
    let price = StoragePrice {
        usd_per_gib_month: 0.08,
        source: "--dollars-per-gib-month".to_owned(),
    };
    let plain = advised(&constraints());
    let paid = advised(&Constraints {
        storage_price: Some(price),
        ..constraints()
    });
    let usd =
        |advice: &Advice, label: &str| candidate(advice, label).cost_usd.expect("a cost").value;
    let more = usd(&paid, "fast, dmtcp") - usd(&plain, "fast, dmtcp");
    // 105 s of 730 h, 1600 MiB
    let expected = 105.0 / (730.0 * 3600.0) * 1600.0 / 1024.0 * 0.08;
    assert!((more / expected - 1.0).abs() < 1e-6, "{more} {expected}");
    assert_eq!(
        usd(&paid, "fast, no checkpoint"),
        usd(&plain, "fast, no checkpoint")
    );
}

#[test]
fn prices_are_taken_where_no_run_has_a_cost_and_single_runs_decide_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = [("a", 10.0), ("b", 12.0)].map(|(site, wall_s)| {
        let runs: Vec<MadeRepeat> = vec![Ok(vec![("wall_s", wall_s, Unit::Seconds)])];
        (point(site, CheckpointerKind::None), runs)
    });
    campaign_measured(dir.path(), made.into());
    let index = Index::in_temporary_file(Utf8Path::from_path(dir.path()).expect("UTF-8"))
        .expect("an index");
    let sides = [Side::of_campaign("all", &index).expect("a side")];
    let advice = advise(&sides, &constraints()).remove(0);
    assert_eq!(advice.objectives, ["time_s"]);
    assert_eq!(
        candidate(&advice, "b").standing,
        Some(ParetoRank::Indistinguishable),
        "of one run nobody knows the scatter"
    );
    assert_eq!(advice.next[0].repeats, 1);
    let priced = advise(
        &sides,
        &Constraints {
            prices: [("a", 3.6), ("b", 0.36)]
                .map(|(site, usd)| (site.to_owned(), NodePrice::given(usd)))
                .into(),
            ..constraints()
        },
    )
    .remove(0);
    // two nodes for 10 s at 3.6 dollars an hour
    let cost = candidate(&priced, "a").cost_usd.expect("a cost").value;
    assert!((cost - 0.02).abs() < 1e-12);
    assert_eq!(
        candidate(&priced, "b").standing,
        Some(ParetoRank::Front),
        "it is cheaper"
    );
}

/// No checkpoint was taken on 16 processes. Models predict its time and size, the program's time without checkpoints is measured, and the advice
/// marks the candidate as predicted.
#[test]
fn checkpoints_not_measured_are_candidates_by_prediction() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = measured::CAMPAIGN
        .replace("app = [\"npb-bt\", \"npb-sp\"]", "app = \"npb-bt\"")
        .replace("mpi = [\"mpich-ch3\", \"openmpi\"]", "mpi = \"mpich-ch3\"")
        .replace("\"dmtcp\"", "[\"none\", \"dmtcp\"]");
    let plan = measured::campaign(dir.path(), &text, |_| false);
    for run in &plan.runs {
        let planned = plan.points.iter().find(|p| p.id == run.point);
        let point = &planned.expect("a point").point;
        let records = dir.path().join(format!("runs/{}/records.jsonl", run.id));
        let old = std::fs::read_to_string(&records).expect("records");
        let takes = point.checkpointer.takes_checkpoints();
        let wall_s = 800.0 / f64::from(point.processes()) + if takes { 2.0 } else { 0.0 };
        let mut new = if takes { old } else { String::new() };
        for (name, value, unit) in [
            ("wall_s", wall_s, Unit::Seconds),
            ("cost_usd", wall_s / 100.0, Unit::Usd),
        ] {
            let record = Record {
                run: run.id.clone(),
                name: name.to_owned(),
                value,
                unit,
                source: Source::Clock,
                artefact: None,
                labels: Default::default(),
            };
            new += &format!("{}\n", serde_json::to_string(&record).expect("json"));
        }
        std::fs::write(&records, new).expect("records");
    }
    measured::forget(dir.path(), &plan, |point| {
        point.processes() == 16 && point.checkpointer.takes_checkpoints()
    });
    let index = Index::in_temporary_file(Utf8Path::from_path(dir.path()).expect("UTF-8"))
        .expect("an index");
    let side = Side::of_campaign("all", &index).expect("a side");
    let advice = advise(&[side], &constraints()).remove(0);
    let predicted = candidate(&advice, "1Nx16P, dmtcp");
    assert!(predicted.predicted && predicted.runs == 0, "{predicted:?}");
    assert!(
        predicted.time_s.low >= 50.0 && (50.5..55.0).contains(&predicted.time_s.value),
        "50 s and a checkpoint of one to two seconds: {:?}",
        predicted.time_s
    );
    let stored = predicted.storage_bytes.expect("it is predicted");
    assert!(
        stored.low < stored.value && stored.value > 1e9,
        "{stored:?}"
    );
    assert!(
        predicted.remarks.iter().any(|r| r.starts_with("predicted")),
        "{:?}",
        predicted.remarks
    );
    let usd = predicted.cost_usd.expect("the site's runs have a cost");
    assert!(
        (usd.value / predicted.time_s.value - 0.01).abs() < 1e-6,
        "a node costs as much for a second as in the runs: {usd:?}"
    );
    assert!(!candidate(&advice, "1Nx9P, dmtcp").predicted);
}

/// Returns a report for other tests.
pub fn made() -> Document {
    advice_report("What to take", &advise(&sides(), &constraints())).expect("a report")
}

#[test]
fn advice_is_written_in_every_format() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = Utf8Path::from_path(dir.path()).expect("UTF-8");
    let report = made();
    write_all(&report, to, &Format::ALL).expect("files");
    let page = std::fs::read_to_string(to.join("report.html")).expect("a page");
    assert!(
        page.contains("fastest is fast") && page.contains("<svg"),
        "no drawing"
    );
}
