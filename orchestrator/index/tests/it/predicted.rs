//! Writes predictions of held-out points and reads them back.

use crate::made::Made;
use cvc_core::ids::PointId;
use cvc_core::plan::Split;
use cvc_core::quantity::Quantity;
use cvc_index::{CandidateRow, Index, ModelName, NoForecast, PredictionLine, PredictionRow};
use cvc_model::{Estimate, Interval};

fn lines() -> Vec<PredictionLine> {
    let quantity = Quantity::named("file_mib").expect("a quantity");
    let model = ModelName {
        id: "m".into(),
        title: "a model".into(),
        tier: "small-runs".into(),
    };
    let predicted = PredictionRow {
        point: PointId::from_written("p1"),
        quantity,
        answer: Ok(Estimate {
            value: 2.0,
            interval: Some(Interval {
                low: 1.0,
                high: 3.0,
            }),
        }),
        measured: 2.5,
        error_pct: Some(20.0),
        covered: Some(true),
        model: Some(model.clone()),
        training: vec![PointId::from_written("p0")],
    };
    let refused = PredictionRow {
        answer: Err(NoForecast {
            why: "no data".into(),
        }),
        error_pct: None,
        covered: None,
        model: None,
        training: Vec::new(),
        ..predicted.clone()
    };
    vec![
        PredictionLine::Prediction(predicted),
        PredictionLine::Prediction(refused),
        PredictionLine::Candidate(CandidateRow {
            of: "heat S".into(),
            quantity,
            model,
            chosen: true,
            leave_one_out_pct: Some(4.5),
            refused: None,
        }),
        PredictionLine::Problem {
            text: "too few points".into(),
        },
    ]
}

#[test]
fn predictions_come_back_as_they_were_added() {
    let made = Made::new(3, 1);
    let split = Split {
        train: vec![PointId::from_written("p2"), PointId::from_written("p0")],
        held_out: vec![PointId::from_written("p1"), PointId::from_written("gone")],
        max_error_pct: [(Quantity::named("file_mib").expect("a quantity"), 10.0)].into(),
        min_coverage_pct: Some(90.0),
    };
    let add = |index: Index, _: &cvc_core::plan::Plan| index.add_predictions(&split, &lines());
    let index = Index::rebuild(&made.save(), add).expect("an index");
    let sides: Vec<(String, bool)> = index
        .split_points()
        .expect("points")
        .into_iter()
        .map(|of| (of.id.to_string(), of.trains))
        .collect();
    let expected = [("p0", true), ("p1", false), ("p2", true)];
    assert_eq!(sides, expected.map(|(id, trains)| (id.to_owned(), trains)));
    let bounds = index.prediction_bounds().expect("bounds");
    let of: Vec<(&str, f64)> = bounds
        .iter()
        .map(|b| (b.what.as_str(), b.percent))
        .collect();
    assert_eq!(of, [("file_mib", 10.0), ("coverage", 90.0)]);
    let predictions = index.predictions().expect("predictions").into_iter();
    let candidates = index
        .prediction_candidates()
        .expect("candidates")
        .into_iter();
    let problems = index.prediction_problems().expect("problems").into_iter();
    let back: Vec<PredictionLine> = predictions
        .map(PredictionLine::Prediction)
        .chain(candidates.map(PredictionLine::Candidate))
        .chain(problems.map(|text| PredictionLine::Problem { text }))
        .collect();
    assert_eq!(back, lines());
}

#[test]
fn an_index_without_predictions_has_none() {
    let index = Made::new(1, 1).index();
    assert!(index.split_points().expect("points").is_empty());
    assert!(index.predictions().expect("predictions").is_empty());
    assert!(index.prediction_problems().expect("problems").is_empty());
}

#[test]
fn a_quantity_that_this_version_does_not_know_is_passed_over() {
    let made = Made::new(2, 1);
    let split = Split {
        train: Vec::new(),
        held_out: Vec::new(),
        max_error_pct: Default::default(),
        min_coverage_pct: None,
    };
    let add = |index: Index, _: &cvc_core::plan::Plan| {
        let path = index.path().to_owned();
        index.add_predictions(&split, &lines())?;
        let connection = rusqlite::Connection::open(path).expect("opens");
        let renamed = "UPDATE predictions SET quantity = 'of-the-future' WHERE refused IS NULL";
        connection.execute(renamed, []).expect("renames");
        Ok(())
    };
    let index = Index::rebuild(&made.save(), add).expect("an index");
    assert_eq!(index.predictions().expect("predictions").len(), 1);
}
