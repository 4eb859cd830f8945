//! The published time of a checkpoint.

use super::node::{OfNode, at};
use crate::predict::{
    forecast::{Answered, CandidateAnswer, ForecastLine, Forecasts, Prediction},
    question::Question,
};
use cvc_core::{quantity::Quantity, units::MIB};
use cvc_model::{Answer, Estimate, ModelInfo, latency, zone_time};

/// Returns the published time if no time was observed. It includes the published times of the zones.
pub(super) fn published(
    question: &Question,
    forecasts: &Forecasts,
    nodes: &[OfNode],
    parts: &[&Prediction],
) -> Answered {
    let model = latency::published();
    let mut slowest: Option<(Answer, &OfNode)> = None;
    for node in nodes {
        match model
            .fit(&[])
            .and_then(|curve| curve.predict(&at(question, node.load, node.mib.value, None, None)))
        {
            Ok(answer)
                if slowest
                    .as_ref()
                    .is_none_or(|(s, _)| answer.estimate.value > s.estimate.value) =>
            {
                slowest = Some((answer, node))
            }
            Ok(_) => {}
            Err(why) => {
                return Answered::none(format!("no time of a checkpoint was observed; {why}"));
            }
        }
    }
    let Some((answer, node)) = slowest else {
        return Answered::none("the files are unknown");
    };
    // the time is proportional to the size
    let moved = node.mib.interval.filter(|_| node.mib.value > 0.0).map(|i| {
        let time = |mib: f64| answer.estimate.value * (mib / node.mib.value - 1.0);
        Estimate::between(0.0, time(i.low), time(i.high))
    });
    let estimate = answer
        .estimate
        .plus(moved.unwrap_or(Estimate::bare(0.0)))
        .not_negative();
    let zone = |zone: Quantity| {
        let of_load = |l: &&ForecastLine| l.node_load.is_none_or(|load| load == node.load);
        let estimate = forecasts.of(zone).find(of_load)?.forecast.estimate();
        Some(estimate.ok()?.value.max(0.0) * MIB)
    };
    let zones = [Quantity::Dtapp, Quantity::Lb, Quantity::Shmem];
    let by_zones = match zones.map(zone) {
        [Some(data), Some(libraries), Some(shared)] => {
            zone_time::checkpoint_s(data, libraries, shared).map_err(|e| e.to_string())
        }
        found => {
            let unknown = zones.iter().zip(found).filter(|(_, found)| found.is_none());
            let unknown = unknown.map(|(zone, _)| format!("{} is not known", zone.title()));
            Err(unknown.collect::<Vec<_>>().join("; "))
        }
    };
    let (by_zones, refused) = (by_zones.as_ref().ok().copied(), by_zones.err());
    let candidate = |model: ModelInfo, chosen: bool, estimate: Option<Estimate>| CandidateAnswer {
        model,
        chosen,
        leave_one_out_pct: None,
        estimate,
        refused: None,
        parameters: Vec::new(),
    };
    let mut prediction = Prediction::made_of(model.info(), estimate, parts);
    prediction.reason = format!(
        "no time was observed: that of {}",
        latency::PUBLISHED_STORAGE
    );
    prediction.training = Vec::new();
    prediction.candidates = vec![
        candidate(model.info(), true, Some(answer.estimate)),
        CandidateAnswer {
            refused,
            ..candidate(zone_time::INFO, false, by_zones.map(Estimate::bare))
        },
    ];
    let mut warnings = vec![format!(
        "no time of a checkpoint was observed: the time is published for {}, and holds only for its storage",
        latency::PUBLISHED_STORAGE
    )];
    warnings.extend(answer.warnings);
    if question.setting.mapping.nodes() > 1 {
        warnings.push("the published time is of one node: each node is assumed to write to separate storage, at the same time".into());
    }
    Answered::with(prediction, warnings)
}
