//! Compares forecasts with held-out observations.

use crate::predict::{Forecast, Forecasts, Observation, Prediction, Predictor, Question};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, HeldOut, error_pct};
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// The forecast of a quantity at a held-out observation, with the measurement.
#[derive(Clone, Debug)]
pub struct HeldOutForecast {
    /// Identifier of the observation.
    pub id: String,
    /// Label of the observation.
    pub label: String,
    /// The quantity.
    pub quantity: Quantity,
    /// The prediction and its basis, or the reason why there is none.
    pub forecast: Forecast,
    /// The measurement, in the unit of the quantity.
    pub measured: f64,
    /// 100·|predicted − measured|/measured; `None` without a prediction.
    pub error_pct: Option<f64>,
    /// Whether the interval contains the measurement; `None` without an interval.
    pub covered: Option<bool>,
}

/// Predicts every held-out observation of the split on which the predictor was trained, and returns the forecasts with their errors.
pub fn judge<'s>(
    predictor: &Predictor<'s>,
    held_out: &HeldOut<'s, Observation>,
) -> Vec<HeldOutForecast> {
    held_out
        .items()
        .iter()
        .flat_map(|observation| judge_one(predictor, observation))
        .collect()
}

fn judge_one(predictor: &Predictor<'_>, observation: &Observation) -> Vec<HeldOutForecast> {
    let forecasts = predictor.forecast(&Question::of(observation));
    let mut judged = Vec::new();
    for quantity in Quantity::judged() {
        let Some(measured) = observation.value(quantity) else {
            continue;
        };
        let forecast = comparable(&forecasts, quantity, observation);
        let estimate = forecast.prediction().map(|p| p.estimate);
        judged.push(HeldOutForecast {
            id: observation.id.clone(),
            label: observation.label.clone(),
            quantity,
            measured,
            error_pct: estimate.and_then(|e| error_pct(e.value, measured)),
            covered: estimate.and_then(|e| e.covers(measured)),
            forecast,
        });
    }
    judged
}

/// Returns the forecast of the measured quantity. For an image it is the mean over ranks, because these are on different nodes and may be
/// aggregators.
fn comparable(forecasts: &Forecasts, quantity: Quantity, observation: &Observation) -> Forecast {
    let first = |quantity| {
        let unpredicted = || Forecast::NoPrediction("it is not predicted".into());
        forecasts
            .of(quantity)
            .next()
            .map_or_else(unpredicted, |line| line.forecast.clone())
    };
    let several = forecasts.of(quantity).count() > 1;
    match quantity {
        Quantity::Shmem if several => mean_over_ranks(forecasts, observation),
        Quantity::File | Quantity::Image
            if several || forecasts.files.iter().any(|f| f.aggregator) =>
        {
            first(Quantity::Ranks).times(1.0 / f64::from(observation.setting.mapping.processes()))
        }
        _ => first(quantity),
    }
}

/// Returns the mean over ranks of a quantity that differs between nodes.
fn mean_over_ranks(forecasts: &Forecasts, observation: &Observation) -> Forecast {
    let mapping = &observation.setting.mapping;
    let mut total = Estimate::exact(0.0);
    let mut first: Option<Prediction> = None;
    for line in forecasts.of(Quantity::Shmem) {
        let ranks: u32 = mapping
            .node_loads()
            .filter(|l| Some(*l) == line.node_load)
            .sum();
        match &line.forecast {
            Forecast::Predicted(one) => {
                total = total.plus_together(
                    one.estimate
                        .times(f64::from(ranks) / f64::from(mapping.processes())),
                );
                first.get_or_insert_with(|| one.clone());
            }
            Forecast::NoPrediction(reason) => return Forecast::NoPrediction(reason.clone()),
        }
    }
    match first {
        Some(first) => Forecast::Predicted(Prediction {
            estimate: total,
            ..first
        }),
        None => Forecast::NoPrediction("it is not predicted".into()),
    }
}

/// Serialises as in `cvc predict --judge --json`: of the forecast only the number, the model and the training observations.
impl Serialize for HeldOutForecast {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let prediction = self.forecast.prediction();
        let mut fields = to.serialize_struct("HeldOutForecast", 11)?;
        fields.serialize_field("id", &self.id)?;
        fields.serialize_field("label", &self.label)?;
        fields.serialize_field("quantity", &self.quantity)?;
        fields.serialize_field("unit", &self.quantity.unit())?;
        fields.serialize_field("measured", &self.measured)?;
        fields.serialize_field("predicted", &prediction.map(|p| p.estimate))?;
        fields.serialize_field("not_predicted", &self.forecast.estimate().err())?;
        fields.serialize_field("error_pct", &self.error_pct)?;
        fields.serialize_field("covered", &self.covered)?;
        fields.serialize_field("model", &prediction.map(|p| p.model))?;
        fields.serialize_field(
            "training",
            prediction.map_or(&[][..], |p| p.training.as_slice()),
        )?;
        fields.end()
    }
}
