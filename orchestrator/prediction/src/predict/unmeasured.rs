//! Predictions for the checkpoints of a campaign's points that are not measured yet.

use super::{
    error::PredictError,
    index::{factors_outside_setting, from_index},
    observation::Observation,
    one_environment::keep_one_environment,
    predictor::Predictor,
    question::{Question, collective},
    setting::RunSetting,
};
use cvc_core::{ids::PointId, point::Point, quantity::Quantity};
use cvc_index::{Index, IndexedPoint};
use cvc_model::Estimate;
use std::collections::{HashMap, HashSet};

/// Prediction for a point that takes checkpoints and has no finished run.
#[derive(Clone, Debug)]
pub struct UnmeasuredPoint {
    /// The point.
    pub point: PointId,
    /// Seconds of one checkpoint.
    pub latency_s: Estimate,
    /// MiB that one checkpoint stores; `None` if it cannot be predicted.
    pub stored_mib: Option<Estimate>,
}

/// Predicts the checkpoints of the points without a finished run, from runs of the same site. Points whose time cannot be predicted are skipped.
///
/// # Errors
/// The index cannot be read.
pub fn unmeasured(index: &Index) -> Result<Vec<UnmeasuredPoint>, PredictError> {
    let points = index.points()?;
    let touched = touched(index)?;
    let is_open = |indexed: &&IndexedPoint| {
        indexed.point.checkpointer.takes_checkpoints() && !touched.contains(indexed.id.as_str())
    };
    if !points.iter().any(|indexed| is_open(&indexed)) {
        return Ok(Vec::new());
    }
    let by_id: HashMap<&str, &Point> = points
        .iter()
        .map(|indexed| (indexed.id.as_str(), &indexed.point))
        .collect();
    let observations: Vec<Observation> = from_index(index, "this campaign")?
        .into_iter()
        .filter(|o| !o.quantities.is_empty())
        .collect();
    let mut found = Vec::new();
    for indexed in points.iter().filter(is_open) {
        let own = factors_outside_setting(&indexed.point);
        let is_alike = |o: &Observation| {
            by_id.get(o.id.as_str()).is_some_and(|other| {
                let of_other = factors_outside_setting(other);
                own.iter().all(|factor| of_other.contains(factor))
            })
        };
        let alike: Vec<Observation> = observations
            .iter()
            .filter(|o| is_alike(o))
            .cloned()
            .collect();
        let Some(library) = alike
            .iter()
            .find(|o| o.setting.mpi_name == indexed.point.mpi)
            .map(|o| o.setting.mpi)
        else {
            continue;
        };
        let question = Question {
            collective: collective(&indexed.point.app),
            setting: RunSetting::of_point(&indexed.point, library),
            taken_as: None,
        };
        let (kept, _) = keep_one_environment(alike, |_| true);
        let said = cvc_model::split(
            kept,
            |_| true,
            |training, _| {
                let forecasts = Predictor::train(&training).ok()?.forecast(&question);
                let of = |quantity| forecasts.first(quantity).map(|p| p.estimate);
                Some(UnmeasuredPoint {
                    point: indexed.id.clone(),
                    latency_s: of(Quantity::Latency)?,
                    stored_mib: of(Quantity::Stored),
                })
            },
        );
        found.extend(said);
    }
    Ok(found)
}

/// Returns the points with a finished run, successful or not.
fn touched(index: &Index) -> Result<HashSet<String>, PredictError> {
    Ok(index
        .runs()?
        .into_iter()
        .filter(|run| run.state.is_over())
        .map(|run| run.point.as_str().to_owned())
        .collect())
}
