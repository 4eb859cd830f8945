//! What observations say that have only totals: the file of a rank, what is stored in all, the time. Nothing is known of what images are
//! made of, so each total is fitted by itself against the processes.

use crate::predict::{
    forecast::{Answered, Forecasts, Prediction},
    observation::Observation,
    predictor::Predictor,
    question::Question,
    setting::RunSetting,
};
use crate::subject::contract::Subject;
use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate, Fit, FitError, Interval, ModelInfo, Parameter, Tier, least_squares, relative_weights,
};
use std::collections::BTreeSet;

/// What observations may have without zones and images.
const TOTALS: [Quantity; 4] = [
    Quantity::File,
    Quantity::Ranks,
    Quantity::Stored,
    Quantity::Latency,
];

/// Points beyond the parameters from which on a line has an interval: with one, it is so wide that it says nothing.
const LEAST_FREEDOM: usize = 2;

/// An interval that is narrower than this share of its value is one of points that lie on a line, but for rounding.
const EXACT: f64 = 1e-9;

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

/// What a checkpoint takes and stores, of observations without zones and images.
pub(super) struct Totals;

impl Subject for Totals {
    fn is_observed(&self, observations: &[Observation]) -> bool {
        !observations.is_empty() && !super::image::has_parts(observations)
    }

    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts) {
        let observations = predictor.training.items();
        let any = TOTALS
            .iter()
            .any(|of| observations.iter().any(|o| o.value(*of).is_some()));
        if any {
            predictor.totals(question, to);
        } else {
            without_checkpoint(observations.len(), to);
        }
    }
}

/// Adds the lines of a question where no observation has a checkpoint.
fn without_checkpoint(observations: usize, to: &mut Forecasts) {
    let reason = match observations {
        1 => {
            "the observation has no checkpoint, so there is nothing to predict one from".to_owned()
        }
        n => format!(
            "none of the {n} observations has a checkpoint, so there is nothing to predict one from"
        ),
    };
    for quantity in [Quantity::File, Quantity::Stored, Quantity::Latency] {
        to.add(quantity, None, Answered::none(&reason));
    }
}

impl Predictor<'_> {
    /// Adds the lines of a question where the observations have only totals.
    fn totals(&self, question: &Question, to: &mut Forecasts) {
        to.warnings.extend(question.taken_as.clone());
        let file = self.total(Quantity::File, &FILE, question);
        let mut ranks = self.total(Quantity::Ranks, &SUM, question);
        if let (None, Some(file)) = (ranks.forecast.prediction(), file.forecast.prediction()) {
            let processes = f64::from(question.setting.mapping.processes());
            let size = file.estimate.times(processes);
            ranks = Answered::of(Prediction::made_of(RANKS, size, &[file]));
        }
        let mut stored = self.total(Quantity::Stored, &SUM, question);
        if stored.forecast.prediction().is_none() && ranks.forecast.prediction().is_some() {
            stored = Answered::none(
                "only files of ranks were observed; `stored_mib` of a table has launchers and auxiliary files as well",
            );
        }
        let nodes: BTreeSet<u32> = self
            .alike(question)
            .map(|o| o.setting.mapping.nodes())
            .collect();
        let asked = question.setting.mapping.nodes();
        if !nodes.is_empty() && !nodes.contains(&asked) {
            let seen: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            to.warnings.push(format!(
                "observed on {} nodes and asked for {asked}: the totals do not tell what nodes change",
                seen.join(", ")
            ));
        }
        to.add(Quantity::File, None, file);
        to.add(Quantity::Ranks, None, ranks);
        to.add(Quantity::Stored, None, stored);
        let latency = self.total(Quantity::Latency, &TIME, question);
        to.add(Quantity::Latency, None, latency);
    }

    /// Observations at the setting of a question, but for its mapping.
    fn alike<'a>(&'a self, question: &'a Question) -> impl Iterator<Item = &'a Observation> {
        let items = self.training.items().iter();
        items.filter(|o| {
            let at = RunSetting {
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
            parameters,
            training,
            ..Prediction::new(
                law.model,
                Estimate { value, interval },
                "the observations have no zones of images",
            )
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
