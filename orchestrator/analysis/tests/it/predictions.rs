//! Tests of a campaign's predictions: made from its training points, stored as separate records, reported, compared with bounds.

use crate::common::measured;
use cvc_prediction::holdout::rebuild_index;

use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_core::plan::Plan;
use cvc_core::point::Point;
use cvc_core::quantity::Quantity;
use cvc_index::Index;
use cvc_prediction::holdout::{Gate, HoldoutResult, PredictionLine};
use cvc_show::{Block, Cell, Document, Section, Table, write_all};
use cvc_testkit::utf8;
use std::{collections::HashSet, fs};

const SPLIT: &str =
    "[predict]\ntrain = [{ processes = [1, 4, 9] }]\nheld_out = [{ processes = [16, 25] }]\n";

struct Made {
    dir: tempfile::TempDir,
    plan: Plan,
    index: Index,
    report: Document,
}

fn made(predict: &str, fails: impl Fn(&Point) -> bool) -> Made {
    let dir = tempfile::tempdir().expect("a directory");
    let plan = measured::campaign(
        dir.path(),
        &format!("{}{predict}", measured::CAMPAIGN),
        fails,
    );
    let index = rebuild_index(utf8(dir.path())).expect("an index");
    let report = build(&index).expect("a report");
    Made {
        dir,
        plan,
        index,
        report,
    }
}

impl Made {
    fn lines(&self) -> Vec<PredictionLine> {
        let text =
            fs::read_to_string(self.dir.path().join("predictions.jsonl")).expect("predictions");
        text.lines()
            .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
            .collect()
    }

    fn outcome(&self) -> HoldoutResult {
        HoldoutResult::read(&self.index)
            .expect("an index")
            .expect("predictions")
    }

    fn section(&self) -> &Section {
        self.report
            .sections
            .iter()
            .find(|s| s.id == "predicted")
            .expect("the section")
    }

    fn table(&self, id: &str) -> &Table {
        self.report
            .tables()
            .find(|t| t.id == id)
            .unwrap_or_else(|| panic!("no table {id}"))
    }

    fn warnings(&self) -> String {
        let texts = self.section().blocks.iter().filter_map(|b| {
            if let Block::Warning { text } = b {
                Some(text.as_str())
            } else {
                None
            }
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn held_out_points_are_predicted_from_training_points_alone() {
    let made = made(SPLIT, |_| false);
    let split = made.plan.predict.as_ref().expect("a split");
    assert_eq!((split.train.len(), split.held_out.len()), (12, 8));
    let train: HashSet<_> = split.train.iter().collect();
    let predictions: Vec<_> = made
        .lines()
        .into_iter()
        .filter_map(|l| {
            if let PredictionLine::Prediction(p) = l {
                Some(p)
            } else {
                None
            }
        })
        .collect();
    for quantity in [
        Quantity::Dtapp,
        Quantity::Shmem,
        Quantity::Image,
        Quantity::Stored,
    ] {
        let of: Vec<_> = predictions
            .iter()
            .filter(|p| p.quantity == quantity)
            .collect();
        assert_eq!(of.len(), 8, "{quantity}");
        for p in of {
            assert!(
                split.held_out.contains(&p.point),
                "only held-out points are predicted"
            );
            assert!(
                p.training.iter().all(|t| train.contains(t)),
                "and only from training points"
            );
            let predicted = p
                .answer
                .as_ref()
                .unwrap_or_else(|why| panic!("{quantity}: {why}"))
                .value;
            let error = 100.0 * (predicted - p.measured).abs() / p.measured;
            assert!((error - p.error_pct.expect("an error")).abs() < 1e-9);
        }
    }
    // Changing a measurement at a held-out point changes the error of that point only, and no prediction.
    let changed = tempfile::tempdir().expect("a directory");
    measured::campaign(
        changed.path(),
        &format!("{}{SPLIT}", measured::CAMPAIGN),
        |_| false,
    );
    for run in made
        .plan
        .runs
        .iter()
        .filter(|r| split.held_out.contains(&r.point))
    {
        let path = changed
            .path()
            .join(format!("runs/{}/records.jsonl", run.id));
        let text = fs::read_to_string(&path).expect("records");
        fs::write(
            &path,
            text.replace(
                "\"name\":\"image_bytes\",\"value\":",
                "\"name\":\"image_bytes\",\"value\":9",
            ),
        )
        .expect("records");
    }
    let index = rebuild_index(utf8(changed.path())).expect("an index");
    let (before, after) = (
        made.outcome(),
        HoldoutResult::read(&index)
            .expect("an index")
            .expect("predictions"),
    );
    assert_eq!(before.judged.len(), after.judged.len());
    let mut moved = 0;
    for (a, b) in before.judged.iter().zip(&after.judged) {
        assert_eq!(a.answer, b.answer);
        moved += usize::from(a.error_pct != b.error_pct);
    }
    assert_eq!(moved, 8, "the errors of eight images");
}

#[test]
fn predictions_are_never_among_the_measured_records() {
    let with = made(SPLIT, |_| false);
    let without = made("", |_| false);
    let count = |index: &Index, sql: &str| -> i64 {
        index
            .connection()
            .query_row(sql, [], |r| r.get(0))
            .expect(sql)
    };
    for table in ["records", "summaries", "v_run_values"] {
        let sql = format!("SELECT count(*) FROM {table}");
        assert_eq!(
            count(&with.index, &sql),
            count(&without.index, &sql),
            "{table}"
        );
    }
    assert!(
        count(
            &with.index,
            "SELECT count(*) FROM v_predictions WHERE processes IN (16, 25) AND predicted NOT NULL"
        ) > 30
    );
    assert_eq!(
        count(
            &with.index,
            "SELECT count(*) FROM v_predictions WHERE processes < 16"
        ),
        0
    );
    // Without the section in the campaign file the report has no predictions, and an earlier file is removed.
    assert!(without.report.sections.iter().all(|s| s.id != "predicted"));
    assert!(!without.dir.path().join("predictions.jsonl").exists());
    fs::write(without.dir.path().join("predictions.jsonl"), "from before").expect("a file");
    rebuild_index(utf8(without.dir.path())).expect("an index");
    assert!(!without.dir.path().join("predictions.jsonl").exists());
    // Predictions made again are identical.
    let first = fs::read(with.dir.path().join("predictions.jsonl")).expect("predictions");
    let again = build(&rebuild_index(utf8(with.dir.path())).expect("an index")).expect("a report");
    assert_eq!(
        first,
        fs::read(with.dir.path().join("predictions.jsonl")).expect("predictions")
    );
    assert_eq!(
        serde_json::to_string(&with.report).expect("json"),
        serde_json::to_string(&again).expect("json")
    );
}

#[test]
fn the_section_distinguishes_predictions_from_measurements_in_every_format() {
    let made = made(&format!("{SPLIT}max_error = {{ image = 50 }}\n"), |_| false);
    let all = made.table("predictions");
    let at = |id: &str| {
        all.columns
            .iter()
            .position(|c| c.id == id)
            .unwrap_or_else(|| panic!("no column {id}"))
    };
    let (measured, predicted, error) = (at("measured"), at("predicted"), at("error_pct"));
    for row in &all.rows {
        assert!(
            !matches!(row[measured], Cell::Predicted { .. })
                && !matches!(row[predicted], Cell::Measured { .. } | Cell::Number { .. })
        );
        if let (Cell::Measured { summary }, Cell::Predicted { estimate }, Cell::Number { value }) =
            (&row[measured], &row[predicted], &row[error])
        {
            assert!(
                (100.0 * (estimate.value - summary.mean).abs() / summary.mean - value).abs() < 1e-9
            );
        }
    }
    let images = |row: &&Vec<Cell>| matches!(&row[at("quantity")], Cell::Text { text } if text == "image of a rank");
    assert_eq!(
        all.rows
            .iter()
            .filter(images)
            .filter(|r| matches!(r[measured], Cell::Measured { .. }))
            .count(),
        8
    );
    let groups: Vec<&str> = made
        .report
        .tables()
        .filter(|t| t.id.starts_with("predicted_"))
        .map(|t| t.title.as_str())
        .collect();
    assert_eq!(groups.len(), 4, "{groups:?}");
    assert!(groups.contains(&"npb-bt, openmpi, class A"));

    let files = write_all(
        &made.report,
        &utf8(made.dir.path()).join("report"),
        &Format::ALL,
    )
    .expect("files");
    let read =
        |name: &str| fs::read_to_string(made.dir.path().join("report").join(name)).expect(name);
    let csv = read("csv/predictions.csv");
    let header = csv.lines().next().expect("a header");
    assert!(
        header.contains(",measured_mean,")
            && header.contains(",predicted,predicted_low,predicted_high,error_pct,"),
        "{header}"
    );
    assert_eq!(csv.lines().count(), all.rows.len() + 1);
    assert!(
        files
            .iter()
            .any(|f| f.ends_with("csv/prediction_summary.csv"))
            && files
                .iter()
                .any(|f| f.ends_with("csv/prediction_candidates.csv"))
    );
    assert!(
        files.iter().all(|f| !f.as_str().contains("csv/predicted_")),
        "the same numbers once"
    );
    assert!(read("report.json").contains("\"cell\": \"predicted\""));
    let markdown = read("report.md");
    assert!(
        markdown.contains("## Predicted against measured") && markdown.contains("| \u{2248} "),
        "{markdown}"
    );
    let html = read("report.html");
    assert!(html.contains("class=\"num predicted\"") && html.contains("95 % prediction interval"));
    assert!(
        html.contains("measured, held out")
            && html.contains("Predicted and measured, image of a rank: npb-bt")
    );
    assert!(
        markdown.contains("predictions of held-out points: image of a rank"),
        "what was found says it"
    );
}

#[test]
fn a_bound_is_kept_or_missed_by_so_much() {
    let kept = Gate::of(
        &made(
            &format!("{SPLIT}max_error = {{ dtapp = 90, image = 90 }}\nmin_coverage = 0.001\n"),
            |_| false,
        )
        .outcome(),
    );
    assert!(kept.has_bounds());
    assert_eq!(kept.misses(), Vec::<String>::new());
    let made = made(
        &format!("{SPLIT}max_error = {{ image = 0.0001 }}\nmin_coverage = 100\n"),
        |_| false,
    );
    let gate = Gate::of(&made.outcome());
    let misses = gate.misses();
    // Each program and library has its own bound, compared with the mean over its held-out points.
    let group = gate
        .groups
        .iter()
        .find(|g| g.app == "npb-sp" && g.mpi == "openmpi" && g.quantity == Quantity::Image)
        .expect("a group");
    let outcome = made.outcome();
    let is_sp_openmpi = |point| {
        outcome
            .held_out
            .get(point)
            .is_some_and(|f| f.app == "npb-sp" && f.mpi == "openmpi")
    };
    let errors: Vec<f64> = outcome
        .judged
        .iter()
        .filter(|j| j.quantity == Quantity::Image && is_sp_openmpi(&j.point))
        .filter_map(|j| j.error_pct)
        .collect();
    assert_eq!(errors.len(), 2);
    assert!((group.mean_error_pct.expect("a mean") - (errors[0] + errors[1]) / 2.0).abs() < 1e-12);
    assert!(
        misses
            .iter()
            .any(|m| m.starts_with("image of npb-sp on openmpi: mean error ")
                && m.contains("above the bound of 0.0001 %")),
        "{misses:?}"
    );
    // Many points are reported in one warning and listed in a table; a few have a warning each.
    assert!(
        made.warnings().starts_with(&format!(
            "{} bounds are missed, first: image of npb-bt",
            misses.len()
        )),
        "{}",
        made.warnings()
    );
    let bounds = made.table("prediction_bounds");
    let missed = |row: &&Vec<Cell>| {
        row.iter()
            .any(|c| matches!(c, Cell::Text { text } if text == "missed"))
    };
    assert_eq!(
        (bounds.rows.len(), bounds.rows.iter().filter(missed).count()),
        (4, 4)
    );
    let one = self::made(
        &format!(
            "{SPLIT}max_error = {{ latency = 0.001 }}
"
        ),
        |p| p.app == "npb-sp",
    );
    assert!(
        one.warnings()
            .contains("A bound is missed: latency of npb-bt on openmpi"),
        "{}",
        one.warnings()
    );
    // A bound without a prediction counts as exceeded.
    let nothing = made_without_training();
    let misses = Gate::of(&nothing.outcome()).misses();
    assert!(!misses.is_empty(), "no prediction cannot keep a bound");
}

fn made_without_training() -> Made {
    made(&format!("{SPLIT}max_error = {{ latency = 50 }}\n"), |p| {
        p.processes() < 16
    })
}

#[test]
fn missing_predictions_are_reported_without_failing_the_report() {
    let some = made(SPLIT, |p| {
        p.processes() == 4 && p.app == "npb-bt" && p.mpi == "openmpi"
    });
    assert!(
        some.warnings()
            .contains("1 training point without a successful run: npb-bt.A 1Nx4P openmpi"),
        "{}",
        some.warnings()
    );
    assert!(some.outcome().judged.len() > 30);
    let held_out = made(SPLIT, |p| p.processes() == 25);
    assert!(
        held_out
            .warnings()
            .contains("4 held-out points without a successful run"),
        "{}",
        held_out.warnings()
    );
    let untrained = made_without_training();
    assert!(
        untrained
            .warnings()
            .contains("12 training points without a successful run"),
        "{}",
        untrained.warnings()
    );
    let nothing = made(SPLIT, |_| true);
    assert!(
        nothing
            .warnings()
            .contains("8 held-out points without a successful run"),
        "{}",
        nothing.warnings()
    );
    assert_eq!(nothing.outcome().judged, []);
}

#[test]
fn the_short_form_of_the_section_is_as_before() {
    let made = made(
        &format!("{SPLIT}max_error = {{ image = 50 }}\nmin_coverage = 1\n"),
        |_| false,
    );
    let shape: Vec<String> = made
        .section()
        .blocks
        .iter()
        .map(|b| match b {
            Block::Table(t) => format!(
                "table {}{}: {}",
                t.id,
                if t.folded { ", folded" } else { "" },
                t.columns
                    .iter()
                    .map(|c| c.id.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
            Block::Plot(p) => format!("plot {}: {}", p.id, p.title),
            Block::Text { text } | Block::Item { text, .. } | Block::Line { text } => {
                format!("text {text}")
            }
            Block::Warning { text } => format!("warning {text}"),
            Block::Pairs { .. } | Block::Command { .. } => "other".to_owned(),
        })
        .collect();
    insta::assert_snapshot!(shape.join("\n"));
}
