//! Runs, attempts, facts, figures, the campaign as a whole.

use crate::made::{Made, facts, runs};
use cvc_core::app::descriptor::Better;
use cvc_core::campaign::{Block, BlockKind};
use cvc_core::ids::PointId;
use cvc_index::{IndexedResult, RecordsState, RunOutcome};
use cvc_journal::Event;
use serde_json::json;

#[test]
fn runs_have_their_outcomes_attempts_and_directories() {
    let mut made = Made::new(3, 4);
    made.succeed("p0-w1", &[]);
    made.fail("p0-1", 1, "no image");
    made.intend("p0-1", 2);
    made.succeed_at("p0-1", 2, &[]);
    made.fail("p0-2", 1, "no image");
    made.fail("p0-2", 2, "no image either");
    made.abandon("p0-3", 1);
    made.intend("p0-4", 1);
    made.abandon("p1-1", 1);
    made.push(Event::PointQuarantined {
        point: PointId::from_written("p1"),
        failures: 2,
    });
    let index = made.index();
    let runs = runs(&index);
    let of = |run: &str| {
        let run = &runs[run];
        (run.state, run.attempts, run.dir.as_deref())
    };
    assert_eq!(of("p0-w1"), (RunOutcome::Succeeded, 1, Some("runs/p0-w1")));
    assert_eq!(of("p0-1"), (RunOutcome::Succeeded, 2, Some("runs/p0-1")));
    assert_eq!(
        of("p0-2"),
        (RunOutcome::Failed, 2, Some("runs/p0-2.failed-2"))
    );
    // abandoned attempts do not count
    assert_eq!(of("p0-3"), (RunOutcome::Pending, 0, None));
    assert_eq!(
        of("p0-4"),
        (RunOutcome::Running, 0, Some("runs/p0-4.partial"))
    );
    assert_eq!(of("p1-1"), (RunOutcome::Quarantined, 0, None));
    assert_eq!(of("p1-2"), (RunOutcome::Quarantined, 0, None));
    assert_eq!(of("p2-1"), (RunOutcome::Pending, 0, None));

    assert!(runs["p0-w1"].warmup && !runs["p0-1"].warmup);
    assert_eq!((runs["p0-2"].repeat, runs["p0-w1"].repeat), (2, 1));
    let why = |run: &str| (runs[run].cause.as_deref(), runs[run].detail.as_deref());
    assert_eq!(why("p0-2"), (Some("checkpoint"), Some("no image either")));
    assert_eq!(why("p0-1"), (None, None), "it succeeded in the end");
    assert_eq!(runs["p0-2"].records, RecordsState::None);
    assert_eq!(runs["p0-1"].records, RecordsState::Ok);

    let attempts = index.attempts().expect("attempts");
    let of = |run: &str| -> Vec<IndexedResult> {
        let of_run = attempts.iter().filter(|attempt| attempt.run == run);
        of_run.map(|attempt| attempt.result).collect()
    };
    use IndexedResult::{Abandoned, Failed, Running, Succeeded};
    assert_eq!(of("p0-1"), [Failed, Succeeded]);
    assert_eq!(of("p0-2"), [Failed, Failed]);
    assert_eq!(of("p0-3"), [Abandoned]);
    assert_eq!(of("p0-4"), [Running]);
    assert_eq!(of("p2-1"), []);
}

#[test]
fn a_run_has_the_times_of_its_last_attempt_that_ended() {
    let mut made = Made::new(1, 2);
    made.fail("p0-1", 1, "once");
    made.intend("p0-1", 2);
    made.succeed_at("p0-1", 2, &[]);
    made.fail("p0-2", 1, "once");
    made.intend("p0-2", 2);
    let runs = runs(&made.index());
    let times = |run: &str| (runs[run].started.as_deref(), runs[run].ended.as_deref());
    // the journal begins with two entries; consecutive entries are ten seconds apart
    assert_eq!(
        times("p0-1"),
        (Some("2030-01-01T00:00:50Z"), Some("2030-01-01T00:01:00Z"))
    );
    assert_eq!(
        times("p0-2"),
        (Some("2030-01-01T00:01:10Z"), Some("2030-01-01T00:01:20Z"))
    );
    assert_eq!(times("p0-w1"), (None, None));
}

#[test]
fn runs_stay_in_the_order_of_the_plan_with_their_blocks() {
    // more runs than are read at once, and more than are computed at once
    let mut made = Made::new(1, 300);
    made.plan.runs.reverse();
    let of = BlockKind::Days;
    for (n, run) in (0..).zip(&mut made.plan.runs) {
        let number = n / 100 + 1;
        run.block = Some(Block { of, number });
    }
    for run in made.plan.runs.clone() {
        let value = run.id.as_str().len() as f64;
        let unit = cvc_core::record::Unit::Seconds;
        made.succeed(run.id.as_str(), &[("wall_s", value, unit, &[])]);
    }
    let index = made.index();
    let runs = index.runs().expect("runs");
    assert_eq!(
        (runs[0].id.as_str(), runs[300].id.as_str()),
        ("p0-300", "p0-w1")
    );
    assert_eq!(
        [0, 99, 100, 300].map(|n: usize| runs[n].block),
        [1, 1, 2, 4].map(Some)
    );
    let mut order = Vec::new();
    index
        .each_run_value(|value| {
            assert_eq!(value.value, value.run.len() as f64);
            order.push(value.run);
        })
        .expect("values");
    let planned: Vec<&str> = made.plan.runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(order, planned, "each run has its own value, once");
    assert_eq!(index.meta().expect("meta")["blocks"], of.many());
}

#[test]
fn facts_are_flat_and_damaged_ones_say_so() {
    let mut made = Made::new(1, 4);
    for run in ["p0-1", "p0-2", "p0-3", "p0-4"] {
        made.succeed(run, &[]);
    }
    let nested = json!({
        "kernel": "6.1", "mpi": { "name": "mpich", "version": { "major": 4 } },
        "flags": ["a", "b"], "mixed": [1, "b"], "none": null, "smt": true,
    });
    made.write("runs/p0-1/facts.json", &nested.to_string());
    made.write("runs/p0-2/facts.json", "[1]");
    made.write("runs/p0-3/facts.json", "{\"kernel\":");
    let index = made.index();
    let expected = [
        ("flags", "a; b"),
        ("kernel", "6.1"),
        ("mixed", "[1,\"b\"]"),
        ("mpi.name", "mpich"),
        ("mpi.version.major", "4"),
        ("smt", "true"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(facts(&index, "p0-1"), expected.into());
    assert_eq!(
        facts(&index, "p0-2")["facts.json"],
        "damaged: not a JSON object"
    );
    assert!(facts(&index, "p0-3")["facts.json"].starts_with("damaged: EOF"));
    assert!(facts(&index, "p0-4").is_empty());
    let kernels = index.fact("kernel").expect("a fact");
    assert_eq!(kernels.len(), 1);
    assert_eq!(
        (kernels[0].run.as_str(), kernels[0].point.as_str()),
        ("p0-1", "p0")
    );
}

#[test]
fn figures_are_those_of_the_last_descriptor() {
    let mut made = Made::new(1, 3);
    let figure =
        |name: &str, better: &str| json!({ "name": name, "unit": "Mop/s", "better": better });
    let figures = [
        json!([figure("rate", "higher"), figure("residual", "neither")]),
        json!([figure("rate", "lower")]),
    ];
    for (run, figures) in ["p0-1", "p0-2"].into_iter().zip(figures) {
        made.succeed(run, &[]);
        let run_file = json!({ "descriptor": { "figures": figures } });
        made.write(&format!("runs/{run}/run.json"), &run_file.to_string());
    }
    // the numbers are still in the index
    made.succeed("p0-3", &[]);
    made.write("runs/p0-3/run.json", "{");
    let figures = made.index().figures().expect("figures");
    let of: Vec<(&str, Option<Better>)> = figures
        .iter()
        .map(|figure| (figure.name.as_str(), figure.better))
        .collect();
    assert_eq!(of, [("rate", Some(Better::Lower)), ("residual", None)]);
}

#[test]
fn the_campaign_as_a_whole_is_described() {
    let mut made = Made::new(1, 1);
    made.push(Event::Interrupted { now: false });
    made.push(Event::Started {
        plan: "fedcba9876543210".into(),
        runs: 2,
        pid: 1,
        cvc: "0.2.0".into(),
    });
    made.succeed("of-an-earlier-plan", &[]);
    made.push(Event::Completed {
        succeeded: 1,
        failed: 0,
    });
    let meta = made.index().meta().expect("meta");
    let of = |key: &str| meta[key].as_str();
    assert_eq!(of("cvc"), "0.1.0, 0.2.0");
    assert_eq!(of("sessions"), "2");
    assert_eq!(of("interruptions"), "1");
    assert_eq!(of("completed"), "true");
    assert_eq!(of("runs_not_in_plan"), "1");
    assert_eq!(of("plan"), "fedcba9876543210");
    assert_eq!((of("seed"), of("blocks")), ("7", ""));
    assert_eq!(of("first_entry"), "2030-01-01T00:00:10Z");
    assert_eq!(of("last_entry"), "2030-01-01T00:01:10Z");
    assert_eq!(of("title"), "made", "without one it is the name");
}

#[test]
fn a_title_is_that_of_the_variant_or_the_file() {
    let made = Made::new(1, 1);
    let title = |text: &str| {
        made.write("campaign.toml", text);
        made.index().meta().expect("meta")["title"].clone()
    };
    let report = "[report]\ntitle = ' Heat '\n[variants.b.report]\ntitle = 'Heat, b'\n";
    assert_eq!(title(report), "Heat");
    assert_eq!(title(&format!("variant = 'b'\n{report}")), "Heat, b");
    assert_eq!(title(&format!("variant = 'c'\n{report}")), "Heat");
    assert_eq!(title("[report]\ntitle = '  '\n"), "made");
    assert_eq!(title("not TOML"), "made");
}
