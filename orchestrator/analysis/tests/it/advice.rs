//! What to take: the front, what is not told apart, constraints, failures, and what to measure next.

use crate::common::{MadeRepeat, campaign_measured, measured};
use camino::Utf8Path;
use cvc_analysis::{
    advice::{Advice, Candidate, Kept, Wishes, advice_report, advise},
    comparison::Side,
};
use cvc_core::{
    campaign::Format,
    point::{CheckpointerKind, Point},
    record::{Record, Source, Unit},
};
use cvc_index::Index;
use cvc_model::pareto::Standing;
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

/// A fast and dear site, a slow and cheap one, one that is both slow and dear, and one that may be as good as the cheap one.
fn sides() -> Vec<Side> {
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
    let index = Index::apart(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    vec![Side::of_campaign("all", &index).expect("a side")]
}

fn wishes() -> Wishes {
    Wishes {
        times: 1.0,
        ..Wishes::default()
    }
}

fn advised(wishes: &Wishes) -> Advice {
    let mut advice = advise(&sides(), wishes);
    assert_eq!(advice.len(), 1);
    advice.remove(0)
}

fn candidate<'a>(advice: &'a Advice, label: &str) -> &'a Candidate {
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
fn the_front_is_what_nothing_beats_and_what_intervals_do_not_show_is_not_told_apart() {
    let advice = advised(&wishes());
    assert_eq!(advice.objectives, ["time_s", "cost_usd"]);
    let standing = |label: &str| candidate(&advice, label).standing;
    assert_eq!(standing("fast, no checkpoint"), Some(Standing::Front));
    assert_eq!(standing("cheap, no checkpoint"), Some(Standing::Front));
    assert_eq!(
        standing("near, no checkpoint"),
        Some(Standing::NotToldApart)
    );
    assert_eq!(
        standing("poor, no checkpoint"),
        Some(Standing::Dominated),
        "the fast one is cheaper, too"
    );
    assert_eq!(standing("poor, dmtcp"), Some(Standing::Dominated));
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
    let limited = advised(&Wishes {
        deadline_s: Some(301.0),
        ..wishes()
    });
    let kept = |label: &str| candidate(&limited, label).kept;
    assert_eq!(kept("fast, no checkpoint"), Kept::Surely);
    assert_eq!(
        kept("cheap, no checkpoint"),
        Kept::Perhaps,
        "its interval goes beyond"
    );
    assert_eq!(kept("near, no checkpoint"), Kept::Broken);
    assert_eq!(candidate(&limited, "near, no checkpoint").standing, None);
    assert_eq!(limited.candidates.last().and_then(|c| c.standing), None);

    let notice = advised(&Wishes {
        notice_s: Some(3.0),
        ..wishes()
    });
    assert_eq!(candidate(&notice, "fast, dmtcp").kept, Kept::Surely);
    assert_eq!(
        candidate(&notice, "cheap, dmtcp").kept,
        Kept::Broken,
        "its checkpoint takes 6 s"
    );
    assert_eq!(candidate(&notice, "fast, no checkpoint").kept, Kept::Broken);

    let overhead = advised(&Wishes {
        overhead: Some(0.04),
        ..wishes()
    });
    assert_eq!(
        candidate(&overhead, "fast, dmtcp").kept,
        Kept::Broken,
        "checkpoints add 5 %"
    );
    assert_eq!(
        candidate(&overhead, "fast, no checkpoint").kept,
        Kept::Surely
    );

    let walltime = advised(&Wishes {
        walltime_s: Some(200.0),
        ..wishes()
    });
    assert_eq!(
        candidate(&walltime, "cheap, no checkpoint").kept,
        Kept::Broken
    );
    assert_eq!(candidate(&walltime, "cheap, dmtcp").kept, Kept::Surely);
    assert_eq!(
        candidate(&walltime, "cheap, dmtcp").remarks,
        ["2 jobs of the walltime"]
    );

    let nothing = advised(&Wishes {
        budget_usd: Some(0.01),
        ..wishes()
    });
    assert_eq!(
        nothing.sentence,
        "solver.S: none of 8 candidates keeps what is asked for."
    );
}

#[test]
fn with_failures_times_are_those_that_daly_expects() {
    let failing = advised(&Wishes {
        mtbf_s: Some(3600.0),
        times: 100.0,
        ..wishes()
    });
    // 100 times 100 s of computing, a checkpoint of 2 s
    let (app, ckpt, mtbf) = (10_000.0f64, 2.0f64, 3600.0f64);
    let part = ckpt / (2.0 * mtbf);
    let interval = (2.0 * ckpt * mtbf).sqrt() * (1.0 + part.sqrt() / 3.0 + part / 9.0) - ckpt;
    let expected = mtbf * ((interval + ckpt) / mtbf).exp_m1() * app / interval;
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
        Some(Standing::Dominated),
        "it starts anew after each failure"
    );
}

/// The buyer's case: a run of 39.63 s to which its one checkpoint adds 20.3 %, of a job that is a thousand times as long.
#[test]
fn overhead_is_that_of_the_interval_in_time_cost_and_limit() {
    let dir = tempfile::tempdir().expect("a directory");
    // what it adds is a little less than the time from request to end
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
    let index = Index::apart(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let sides = [Side::of_campaign("all", &index).expect("a side")];
    let of = |mtbf_s: Option<f64>, times: f64| {
        let wishes = Wishes {
            times,
            mtbf_s,
            overhead: Some(0.02),
            ..Wishes::default()
        };
        advise(&sides, &wishes).remove(0)
    };
    let advice = of(Some(200.0 * 3600.0), 1000.0);
    let with = candidate(&advice, "dmtcp");
    let without = candidate(&advice, "no checkpoint");
    assert_eq!(
        (with.kept, with.standing),
        (Kept::Surely, Some(Standing::Front))
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
        (overhead.value - ckpt / interval_s).abs() < 1e-9,
        "{overhead:?}"
    );
    assert_eq!(with.remarks, ["a checkpoint every 56 min 43 s adds 0.24 %"]);
    assert!(
        advice.sentence.contains("take dmtcp (11 h 04 min"),
        "{}",
        advice.sentence
    );

    // without failures there is no interval: the job has the one checkpoint of a run, not a thousand
    let advice = of(None, 1000.0);
    let with = candidate(&advice, "dmtcp");
    assert!(
        (with.time_s.value - (1000.0 * alone + added)).abs() < 1e-6,
        "{with:?}"
    );
    let overhead = with.overhead.expect("an overhead").value;
    assert!((overhead - 0.203 / 1000.0).abs() < 1e-6, "{overhead}");
    assert_eq!(with.kept, Kept::Surely);

    // of a job of one run it is that of the run
    let advice = of(None, 1.0);
    let with = candidate(&advice, "dmtcp");
    assert_eq!(with.kept, Kept::Broken);
    assert_eq!(
        with.remarks,
        ["checkpoints add 20.3 %: more than the overhead"]
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
    let index = Index::apart(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let sides = [Side::of_campaign("all", &index).expect("a side")];
    let advice = advise(&sides, &wishes()).remove(0);
    assert_eq!(advice.objectives, ["time_s"]);
    assert_eq!(
        candidate(&advice, "b").standing,
        Some(Standing::NotToldApart),
        "of one run nobody knows the scatter"
    );
    assert_eq!(advice.next[0].repeats, 1);
    let priced = advise(
        &sides,
        &Wishes {
            prices: [("a".to_owned(), 3.6), ("b".to_owned(), 0.36)].into(),
            ..wishes()
        },
    )
    .remove(0);
    // two nodes for 10 s at 3.6 dollars an hour
    let cost = candidate(&priced, "a").cost_usd.expect("a cost").value;
    assert!((cost - 0.02).abs() < 1e-12);
    assert_eq!(
        candidate(&priced, "b").standing,
        Some(Standing::Front),
        "it is cheaper"
    );
}

/// A report for other tests.
/// Nobody has taken a checkpoint on 16 processes: what it takes and stores is predicted beside what the program alone was measured to take,
/// and it is told so.
#[test]
fn checkpoints_that_nobody_has_measured_are_candidates_by_prediction() {
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
    let index = Index::apart(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let side = Side::of_campaign("all", &index).expect("a side");
    let advice = advise(&[side], &wishes()).remove(0);
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

pub fn made() -> Document {
    advice_report("What to take", &advise(&sides(), &wishes())).expect("a report")
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
