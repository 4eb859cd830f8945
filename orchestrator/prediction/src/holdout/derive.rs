//! Predictions of the held-out points, derived from the measured points of an index.

use super::judge::{HeldOutForecast, judge};
use crate::predict::{self, Observation, Predictor, Question};
use cvc_core::ids::PointId;
use cvc_core::plan::Split;
use cvc_index::{CandidateRow, Index, ModelName, NoForecast, PredictionLine, PredictionRow};
use cvc_model::{HeldOut, ModelInfo};
use std::collections::{HashMap, HashSet};

/// Fits to the training points, and judges on the held-out points. A quantity that cannot be predicted is a line with its reason, not an error, so
/// that a report can always be made.
pub fn derive(index: &Index, split: &Split) -> Vec<PredictionLine> {
    let side = |ids: &[PointId]| -> HashSet<String> {
        ids.iter().map(|id| id.as_str().to_owned()).collect()
    };
    let (train, held_out) = (side(&split.train), side(&split.held_out));
    let mut observations = match predict::from_index(index, "this campaign") {
        Ok(observations) => observations,
        Err(e) => return vec![problem(&e)],
    };
    // points in neither half, and points without any quantity, are skipped
    observations.retain(|o| {
        (train.contains(&o.id) || held_out.contains(&o.id)) && !o.quantities.is_empty()
    });
    let (observations, notes) =
        predict::keep_one_environment(observations, |o| train.contains(&o.id));
    let mut by_label: HashMap<String, Vec<PointId>> = HashMap::new();
    for o in observations.iter().filter(|o| train.contains(&o.id)) {
        by_label
            .entry(o.label.clone())
            .or_default()
            .push(PointId::from_written(&o.id));
    }
    cvc_model::split(
        observations,
        |o| train.contains(&o.id),
        |training, held_out| match Predictor::train(&training) {
            Ok(predictor) => {
                let mut lines: Vec<PredictionLine> = judge(&predictor, &held_out)
                    .into_iter()
                    .map(|judged| PredictionLine::Prediction(prediction(&judged, &by_label)))
                    .collect();
                let anything = !lines.is_empty();
                lines.extend(
                    candidates(&predictor, &held_out)
                        .into_iter()
                        .map(PredictionLine::Candidate),
                );
                lines.extend(notes.into_iter().map(|note| PredictionLine::Problem {
                    text: format!("Of the training points, {note}."),
                }));
                // without any prediction, warnings about single points would be useless
                if anything {
                    lines.extend(single_runs(training.items(), held_out.items()));
                }
                lines
            }
            Err(e) => vec![problem(&e)],
        },
    )
}

/// Returns warnings about programs with a single training point: no curve can be fitted to it, and no error estimated.
fn single_runs(training: &[Observation], held_out: &[Observation]) -> Vec<PredictionLine> {
    let mut single: Vec<String> = Vec::new();
    for o in held_out {
        let mut own = training
            .iter()
            .filter(|t| t.setting.app == o.setting.app && t.setting.mpi_name == o.setting.mpi_name);
        if let (Some(only), None) = (own.next(), own.next())
            && !single.contains(&only.label)
        {
            single.push(only.label.clone());
        }
    }
    let text = |label| {
        format!(
            "{label} is the only training point of its program and library: only models that need at most one run apply there, and their error is unknown."
        )
    };
    single
        .iter()
        .map(|label| PredictionLine::Problem { text: text(label) })
        .collect()
}

fn problem(error: &predict::PredictError) -> PredictionLine {
    let hint = error
        .hint()
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    PredictionLine::Problem {
        text: format!("Nothing could be predicted: {error}{hint}."),
    }
}

fn prediction(judged: &HeldOutForecast, by_label: &HashMap<String, Vec<PointId>>) -> PredictionRow {
    let basis = judged.forecast.prediction();
    let mut training: Vec<PointId> = Vec::new();
    for id in basis
        .iter()
        .flat_map(|p| &p.training)
        .filter_map(|label| by_label.get(label))
        .flatten()
    {
        if !training.contains(id) {
            training.push(id.clone());
        }
    }
    PredictionRow {
        point: PointId::from_written(&judged.id),
        quantity: judged.quantity,
        answer: judged.forecast.estimate().map_err(|why| NoForecast {
            why: why.to_owned(),
        }),
        measured: judged.measured,
        // smaller errors are rounding of sums
        error_pct: judged.error_pct.map(|e| if e < 1e-9 { 0.0 } else { e }),
        covered: judged.covered,
        model: basis.map(|p| name(&p.model)),
        training,
    }
}

fn name(info: &ModelInfo) -> ModelName {
    let tier = serde_json::to_value(info.tier)
        .ok()
        .and_then(|t| t.as_str().map(str::to_owned))
        .unwrap_or_default();
    ModelName {
        id: info.id.to_owned(),
        title: info.title.to_owned(),
        tier,
    }
}

/// Returns the models considered for held-out points, without duplicates for the same program, class, library and quantity.
fn candidates(predictor: &Predictor<'_>, held_out: &HeldOut<'_, Observation>) -> Vec<CandidateRow> {
    let mut all: Vec<CandidateRow> = Vec::new();
    let mut seen = HashSet::new();
    for o in held_out.items() {
        let of = format!(
            "{}.{} {}",
            o.setting.app, o.setting.class, o.setting.mpi_name
        );
        for line in predictor.forecast(&Question::of(o)).lines {
            let Some(prediction) = line.forecast.prediction() else {
                continue;
            };
            for c in &prediction.candidates {
                // a model may be able to predict one point but not another
                if seen.insert((
                    of.clone(),
                    line.quantity,
                    c.model.id,
                    c.chosen,
                    c.refused.clone(),
                )) {
                    all.push(CandidateRow {
                        of: of.clone(),
                        quantity: line.quantity,
                        model: name(&c.model),
                        chosen: c.chosen,
                        leave_one_out_pct: c.leave_one_out_pct,
                        refused: c.refused.clone(),
                    });
                }
            }
        }
    }
    all
}
