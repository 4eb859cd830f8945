//! What observations say that have only totals: the file of a rank, what is stored in all, the time. Nothing is known of what images are
//! made of, so each total is fitted by itself against the processes.

use super::{
    compose::sum,
    forecast::{ForecastLine, Prediction},
    observation::Observation,
    predictor::{Answered, Predictor},
    question::Question,
};
use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate, Fit, FitError, Interval, ModelInfo, Parameter, Tier, least_squares, relative_weights,
};
use std::collections::BTreeSet;

/// What images are made of: with one of them, zones are predicted and summed up.
const PARTS: [Quantity; 4] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Shmem,
    Quantity::Image,
];

/// Sizes that may be there without them.
const SIZES: [Quantity; 3] = [Quantity::File, Quantity::Ranks, Quantity::Stored];

/// Points beyond the parameters from which on a line has an interval: with one, it is so wide that it says nothing.
const LEAST_FREEDOM: usize = 2;

/// An interval that is narrower than this share of its value is one of points that lie on a line, but for rounding.
const EXACT: f64 = 1e-9;

/// What the identifiers of these models begin with.
const TOTALS: &str = "totals-";

/// A law of a total: its model, and the function of the processes that goes with b.
#[derive(Clone, Copy)]
struct Law {
    model: ModelInfo,
    of_processes: fn(f64) -> f64,
}

const fn law(
    id: &'static str,
    title: &'static str,
    formula: &'static str,
    of_processes: fn(f64) -> f64,
) -> Law {
    Law {
        model: ModelInfo {
            id,
            title,
            formula,
            source: "least squares of relative errors on the totals alone",
            tier: Tier::SmallRuns,
            parameters: 2,
        },
        of_processes,
    }
}

/// Laws of the file of a rank, the most usual first.
const FILE: [Law; 3] = [
    law(
        "totals-file",
        "what every rank has, and its share of the data",
        "a + b/P",
        |p| 1.0 / p,
    ),
    law(
        "totals-file-line",
        "what every rank has, and a part for each rank",
        "a + b·P",
        |p| p,
    ),
    law(
        "totals-file-square",
        "what every rank has, and a part for each pair of ranks",
        "a + b·P²",
        |p| p * p,
    ),
];

/// Laws of all files.
const SUM: [Law; 2] = [
    law(
        "totals-sum",
        "the data, and what every rank adds",
        "a + b·P",
        |p| p,
    ),
    law(
        "totals-sum-square",
        "the data, and what every pair of ranks adds",
        "a + b·P²",
        |p| p * p,
    ),
];

const TIME: [Law; 1] = [law(
    "totals-time",
    "a time, and what every rank adds",
    "a + b·P",
    |p| p,
)];

/// A law that misses a total by more than this part of it is left for one that does not.
const MISS: f64 = 0.02;

const RANKS: ModelInfo = ModelInfo {
    id: "totals-files",
    title: "as many files as ranks",
    formula: "P · file",
    source: "DMTCP writes a file for each rank",
    tier: Tier::NoRun,
    parameters: 0,
};

impl Prediction {
    /// Whether it was fitted to totals alone: its interval is that of the fit, and not calibrated.
    pub fn is_of_totals(&self) -> bool {
        self.model.id.starts_with(TOTALS)
    }
}

/// What the observations have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Zones or images; or there are no observations.
    Parts,
    /// Only sizes of files.
    Totals,
    /// Nothing of a checkpoint.
    NoCheckpoint,
}

impl Predictor<'_> {
    /// What the observations have.
    pub(super) fn told(&self) -> Told {
        let items = self.training.items();
        let any = |quantities: &[Quantity]| {
            items
                .iter()
                .any(|o| quantities.iter().any(|q| o.value(*q).is_some()))
        };
        if items.is_empty() || any(&PARTS) {
            Told::Parts
        } else if any(&SIZES) || any(&[Quantity::Latency]) {
            Told::Totals
        } else {
            Told::NoCheckpoint
        }
    }

    /// The lines of a question where no observation has a checkpoint.
    pub(super) fn without_checkpoint(&self) -> Vec<ForecastLine> {
        let reason = match self.training.items().len() {
            1 => "the observation has no checkpoint, so there is nothing to predict one from"
                .to_owned(),
            n => format!(
                "none of the {n} observations has a checkpoint, so there is nothing to predict one from"
            ),
        };
        [Quantity::File, Quantity::Stored, Quantity::Latency]
            .map(|quantity| line(quantity, Answered::none(&reason)))
            .into()
    }

    /// The lines of a question where the observations have only totals, with warnings.
    pub(super) fn lines_of_totals(&self, question: &Question) -> (Vec<ForecastLine>, Vec<String>) {
        let mut warnings: Vec<String> = question.taken_as.iter().cloned().collect();
        let file = self.total(Quantity::File, &FILE, question);
        let mut ranks = self.total(Quantity::Ranks, &SUM, question);
        if let (None, Some(file)) = (prediction(&ranks), prediction(&file)) {
            let processes = f64::from(question.setting.mapping.processes());
            let files = sum(RANKS, file.estimate.times(processes), &[file]);
            ranks = Answered::of(files);
        }
        let mut stored = self.total(Quantity::Stored, &SUM, question);
        if prediction(&stored).is_none() && prediction(&ranks).is_some() {
            stored = Answered::none(
                "only files of ranks were observed; `stored_mib` of a table has launchers and auxiliary files as well",
            );
        }
        let latency = self.total(Quantity::Latency, &TIME, question);
        let nodes: BTreeSet<u32> = self
            .alike(question)
            .map(|o| o.setting.mapping.nodes())
            .collect();
        let asked = question.setting.mapping.nodes();
        if !nodes.is_empty() && !nodes.contains(&asked) {
            let seen: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            warnings.push(format!(
                "observed on {} nodes and asked for {asked}: the totals do not tell what nodes change",
                seen.join(", ")
            ));
        }
        let lines = [
            (Quantity::File, file),
            (Quantity::Ranks, ranks),
            (Quantity::Stored, stored),
            (Quantity::Latency, latency),
        ];
        (
            lines
                .map(|(quantity, answered)| line(quantity, answered))
                .into(),
            warnings,
        )
    }

    /// Observations at the setting of a question, but for its mapping.
    fn alike<'a>(&'a self, question: &'a Question) -> impl Iterator<Item = &'a Observation> {
        let items = self.training.items().iter();
        items.filter(|o| {
            let at = super::setting::RunSetting {
                mapping: question.setting.mapping.clone(),
                ..o.setting.clone()
            };
            at.is_same_as(&question.setting)
        })
    }

    /// One total against a function of the processes.
    fn total(&self, quantity: Quantity, laws: &[Law], question: &Question) -> Answered {
        let seen: Vec<(&Observation, f64)> = self
            .alike(question)
            .filter_map(|o| Some((o, o.value(quantity).filter(|v| *v > 0.0)?)))
            .collect();
        let setting = &question.setting;
        let counts: BTreeSet<u32> = seen
            .iter()
            .map(|(o, _)| o.setting.mapping.processes())
            .collect();
        match (counts.first(), counts.len()) {
            (None, _) => {
                return Answered::none(format!(
                    "not observed for {}.{} with {}",
                    setting.app, setting.class, setting.mpi_name
                ));
            }
            (Some(only), 1) => {
                return Answered::none(format!(
                    "observed only on {only} processes: two numbers of processes are needed"
                ));
            }
            (Some(_), _) => {}
        }
        let values: Vec<f64> = seen.iter().map(|(_, value)| *value).collect();
        let (law, fit) = match fitted(laws, &seen, &values) {
            Ok(best) => best,
            Err(why) => return Answered::none(why.to_string()),
        };
        let at = law.row(setting.mapping.processes());
        let value = fit.value(&at);
        if value <= 0.0 {
            return Answered::none(
                "the line through the observed totals falls below 0 there".to_owned(),
            );
        }
        let estimate = fit.predict(&at, 1.0 / (value * value));
        // of points that lie exactly on a line nobody knows the error
        let interval = estimate
            .interval
            .filter(|i| fit.degrees_of_freedom >= LEAST_FREEDOM && i.high - i.low > EXACT * value)
            .map(|i| Interval {
                low: i.low.max(0.0),
                high: i.high,
            });
        let errors = fit.standard_errors.clone();
        let parameters = ["a", "b"]
            .into_iter()
            .enumerate()
            .map(|(place, name)| Parameter {
                name,
                value: fit.coefficients[place],
                standard_error: errors.as_ref().map(|errors| errors[place]),
            })
            .collect();
        let mut training: Vec<String> = Vec::new();
        for (observation, _) in &seen {
            if !training.contains(&observation.label) {
                training.push(observation.label.clone());
            }
        }
        Answered::of(Prediction {
            estimate: Estimate { value, interval },
            model: law.model,
            reason: "the observations have no zones of images".into(),
            parameters,
            training,
            candidates: Vec::new(),
            own_half: None,
            spans_laws: false,
        })
    }
}

impl Law {
    fn row(self, processes: u32) -> Vec<f64> {
        vec![1.0, (self.of_processes)(f64::from(processes))]
    }
}

/// The first law without a negative b that misses no total, or the one that misses least; the first of the list if none has such a b.
fn fitted(
    laws: &[Law],
    seen: &[(&Observation, f64)],
    values: &[f64],
) -> Result<(Law, Fit), FitError> {
    let fit = |law: Law| {
        let rows: Vec<Vec<f64>> = seen
            .iter()
            .map(|(o, _)| law.row(o.setting.mapping.processes()))
            .collect();
        least_squares(&rows, values, Some(&relative_weights(values)))
    };
    let mut best: Option<(f64, Law, Fit)> = None;
    for law in laws {
        let fit = fit(*law)?;
        let misses = fit.residuals.iter().zip(values).map(|(r, v)| (r / v).abs());
        let miss = misses.fold(0.0, f64::max).max(MISS);
        let is_first = best.as_ref().is_none_or(|(least, ..)| miss < *least);
        if fit.coefficients[1] >= 0.0 && is_first {
            best = Some((miss, *law, fit));
        }
    }
    match best {
        Some((_, law, of)) => Ok((law, of)),
        None => fit(laws[0]).map(|of| (laws[0], of)),
    }
}

fn prediction(answered: &Answered) -> Option<&Prediction> {
    answered.forecast.prediction()
}

fn line(quantity: Quantity, answered: Answered) -> ForecastLine {
    ForecastLine {
        quantity,
        unit: quantity.unit(),
        node_load: None,
        forecast: answered.forecast,
        refused: answered.refused,
        observed: None,
    }
}
