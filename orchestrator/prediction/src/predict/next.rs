//! Finds the additional run that would narrow the intervals of an answer most.
//!
//! Each candidate is tried: the models are fitted again with an additional observation that has the predicted values, and the question is answered
//! again. The actual values are unknown beforehand, but the width of the intervals can be computed.

use super::{
    error::PredictError, forecast::Forecasts, observation::Observation, predictor::Predictor,
    question::Question,
};
use cvc_core::mapping::Mapping;
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_model::split;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The quantities whose intervals are to be narrowed.
const ANSWERS: [Quantity; 3] = [Quantity::File, Quantity::Stored, Quantity::Latency];

/// Quantities of an observed run.
const OBSERVED: [Quantity; 14] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Shmem,
    Quantity::Headers,
    Quantity::Image,
    Quantity::File,
    Quantity::Ranks,
    Quantity::Launchers,
    Quantity::Aux,
    Quantity::Stored,
    Quantity::Coordination,
    Quantity::Storage,
    Quantity::Latency,
    Quantity::App,
];

/// Relative half-width assumed for a missing prediction or interval: ten times the prediction.
const UNKNOWN: f64 = 10.0;

/// A candidate for the next run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextRun {
    /// Setting of the run, such as `npb-bt.A 1Nx9P openmpi`.
    pub label: String,
    /// Number of processes.
    pub processes: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// Reduction of the width of the answer's intervals, percent: the mean over file, stored and time.
    pub narrower_pct: f64,
    /// Half-widths of the answer with this run, percent of the prediction, by quantity; unknown ones are omitted.
    pub half_width_pct: BTreeMap<Quantity, f64>,
    /// Predicted size of one checkpoint of this run, MiB.
    pub stored_mib: Option<f64>,
    /// Predicted seconds for one checkpoint of this run.
    pub latency_s: Option<f64>,
}

/// Returns the additional runs that would narrow the intervals of the answer, the most effective first. Candidates are runs of the question's
/// program with its library on the given numbers of processes, and on two nodes if the question has several nodes. The setting of the question
/// itself is not a candidate. Among equally effective runs, the one with the fewest processes is first.
///
/// # Errors
/// The predictor cannot be trained on the observations.
pub fn next_runs(
    observations: &[Observation],
    question: &Question,
    counts: &[u32],
) -> Result<Vec<NextRun>, PredictError> {
    let ask = |more: Option<Observation>, questions: &[&Question]| {
        split(
            observations.iter().cloned().chain(more),
            |_| true,
            |training, _| {
                let predictor = Predictor::train(&training)?;
                Ok::<Vec<Forecasts>, PredictError>(
                    questions.iter().map(|q| predictor.forecast(q)).collect(),
                )
            },
        )
    };
    let candidates: Vec<Question> = mappings(question, counts)
        .into_iter()
        .map(|mapping| {
            let mut candidate = question.clone();
            candidate.setting.mapping = mapping;
            candidate
        })
        .filter(|c| c.setting.mapping != question.setting.mapping)
        .filter(|c| {
            !observations
                .iter()
                .any(|o| c.is_of(o) && o.value(Quantity::Image).is_some())
        })
        .collect();
    let asked: Vec<&Question> = std::iter::once(question).chain(&candidates).collect();
    let forecasts = ask(None, &asked)?;
    let Some((now, of_candidates)) = forecasts.split_first() else {
        return Ok(Vec::new());
    };
    let before = widths(now);
    let mut runs = Vec::new();
    for (candidate, forecast) in candidates.iter().zip(of_candidates) {
        let Some(hypothetical) = hypothetical(observations, candidate, forecast) else {
            continue;
        };
        let after = ask(Some(hypothetical), &[question])?
            .first()
            .map(widths)
            .unwrap_or_default();
        let width = |of: &BTreeMap<Quantity, f64>, q: Quantity| {
            of.get(&q).map_or(UNKNOWN, |pct| (pct / 100.0).min(UNKNOWN))
        };
        let narrower = |q: Quantity| {
            if width(&before, q) > 0.0 {
                1.0 - width(&after, q) / width(&before, q)
            } else {
                0.0
            }
        };
        let narrower_pct =
            100.0 * ANSWERS.into_iter().map(narrower).sum::<f64>() / ANSWERS.len() as f64;
        let value = |q: Quantity| forecast.first(q).map(|p| p.estimate.value);
        runs.push(NextRun {
            label: candidate.label(),
            processes: candidate.setting.mapping.processes(),
            nodes: candidate.setting.mapping.nodes(),
            narrower_pct,
            half_width_pct: after,
            stored_mib: value(Quantity::Stored),
            latency_s: value(Quantity::Latency),
        });
    }
    runs.retain(|r| r.narrower_pct > 0.5);
    // if effects differ by less than one percent, the cheaper run is first
    runs.sort_by(|a, b| {
        b.narrower_pct
            .round()
            .total_cmp(&a.narrower_pct.round())
            .then(a.processes.cmp(&b.processes))
    });
    Ok(runs)
}

/// Returns one mapping on one node for each count, and one on two nodes for each even count if the question has several nodes.
fn mappings(question: &Question, counts: &[u32]) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = counts.iter().map(|p| Mapping::one_node(*p)).collect();
    if question.setting.mapping.nodes() > 1 {
        let two = counts
            .iter()
            .filter(|p| *p % 2 == 0)
            .filter_map(|p| format!("2Nx{}P", p / 2).parse().ok());
        all.extend(two.collect::<Vec<Mapping>>());
    }
    all
}

/// Returns the half-widths of the answers, percent of the prediction.
fn widths(forecasts: &Forecasts) -> BTreeMap<Quantity, f64> {
    let width = |q: Quantity| {
        let estimate = forecasts
            .of(q)
            .filter_map(|l| l.forecast.prediction())
            .last()?
            .estimate;
        let half = estimate.half_width()?;
        (estimate.value > 0.0).then_some((q, 100.0 * half / estimate.value))
    };
    ANSWERS.into_iter().filter_map(width).collect()
}

/// Returns an observation of a candidate run with its predicted values; other properties are those of the nearest setting of the program.
fn hypothetical(
    observations: &[Observation],
    candidate: &Question,
    forecast: &Forecasts,
) -> Option<Observation> {
    let own = |o: &&Observation| {
        o.setting.app == candidate.setting.app && o.setting.compression == Compression::None
    };
    let asked = f64::from(candidate.setting.mapping.processes());
    let distance = |o: &Observation| {
        (f64::from(o.setting.mapping.processes()) / asked)
            .ln()
            .abs()
    };
    let nearest = observations
        .iter()
        .filter(own)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let observed: BTreeSet<Quantity> = observations
        .iter()
        .flat_map(|o| o.quantities.keys().copied())
        .collect();
    let mut quantities = BTreeMap::new();
    for quantity in OBSERVED.into_iter().filter(|q| observed.contains(q)) {
        let predicted = forecast.first(quantity).map(|p| p.estimate.value);
        if let Some(value) = predicted.or_else(|| nearest?.value(quantity)) {
            quantities.insert(quantity, value);
        }
    }
    let setting = candidate.setting.clone();
    let template = nearest.or(observations.first())?;
    (!quantities.is_empty()).then(|| Observation {
        id: format!("next {}", setting.label()),
        label: setting.label(),
        origin: "next".into(),
        setting,
        environment: template.environment.clone(),
        cores: template.cores,
        quantities,
        zone_ratios: BTreeMap::new(),
    })
}
