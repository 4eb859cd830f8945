//! Forecasts from observations that have only totals: the file of a rank, the size of a checkpoint, the time. The composition of the images is
//! unknown, so each total is fitted separately as a function of the number of processes.

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
    size,
};
use std::collections::BTreeSet;

/// Quantities that an observation may have without zones and images.
const TOTALS: [Quantity; 4] = [
    Quantity::File,
    Quantity::Ranks,
    Quantity::Stored,
    Quantity::Latency,
];

/// Minimum number of points beyond the parameters for which a line has an interval; with one, the interval would be too wide to be useful.
const MIN_FREEDOM: usize = 2;

/// Relative width of an interval below which the points are on a line except for rounding.
const EXACT: f64 = 1e-9;

/// A law of a total: its model, and the function of the number of processes that b multiplies.
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

/// Laws of the file of a rank, the most common first.
const FILE: [Law; 3] = [
    law(
        "totals-file",
        "a part that every rank has, and its share of the data",
        "a + b/P",
        |p| 1.0 / p,
    ),
    law(
        "totals-file-line",
        "a part that every rank has, and a part for each rank",
        "a + b·P",
        |p| p,
    ),
    law(
        "totals-file-square",
        "a part that every rank has, and a part for each pair of ranks",
        "a + b·P²",
        |p| p * p,
    ),
];

/// Laws of the sum of all files.
const SUM: [Law; 2] = [
    law(
        "totals-sum",
        "the data, and the part that every rank adds",
        "a + b·P",
        |p| p,
    ),
    law(
        "totals-sum-square",
        "the data, and the part that every pair of ranks adds",
        "a + b·P²",
        |p| p * p,
    ),
];

const TIME: [Law; 1] = [law(
    "totals-time",
    "a time, and the part that every rank adds",
    "a + b·P",
    |p| p,
)];

/// Relative errors up to this count as equal: the first law without a larger error at any total is used.
const MISS: f64 = 0.02;

const RANKS: ModelInfo = ModelInfo {
    id: "totals-files",
    title: "as many files as ranks",
    formula: "P · file",
    source: "DMTCP writes a file for each rank",
    tier: Tier::NoRun,
    parameters: 0,
};

/// Time and size of a checkpoint, from observations without zones and images.
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

/// Adds the lines of a question if no observation contains a checkpoint.
fn without_checkpoint(observations: usize, to: &mut Forecasts) {
    let reason = match observations {
        1 => "the observation has no checkpoint, so none can be predicted".to_owned(),
        n => format!("none of the {n} observations has a checkpoint, so none can be predicted"),
    };
    for quantity in [Quantity::File, Quantity::Stored, Quantity::Latency] {
        to.add(quantity, None, Answered::none(&reason));
    }
}

impl Predictor<'_> {
    /// Adds the lines of a question if the observations have only totals.
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
                "observed on {} nodes and requested for {asked}: totals do not show the effect of nodes",
                seen.join(", ")
            ));
        }
        to.add(Quantity::File, None, file);
        to.add(Quantity::Ranks, None, ranks);
        to.add(Quantity::Stored, None, stored);
        let latency = self.total(Quantity::Latency, &TIME, question);
        to.add(Quantity::Latency, None, latency);
    }

    /// Returns the observations whose setting equals that of the question, except for the mapping.
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

    /// Predicts size and time of a program's own checkpoint from runs of all problem sizes with the same library and I/O settings. Returns `None`
    /// if these runs do not determine them.
    fn total_by_size(&self, quantity: Quantity, question: &Question) -> Option<Answered> {
        let models = match quantity {
            Quantity::Stored => size::own_models(),
            Quantity::Latency => size::own_time_models(),
            _ => return None,
        };
        let library = self.library(question);
        let RunSetting {
            app,
            aggregators,
            cb_buffer,
            size,
            ..
        } = &question.setting;
        let seen = |o: &Observation| {
            library(o)
                && o.setting.app == *app
                && (o.setting.aggregators, o.setting.cb_buffer) == (*aggregators, *cb_buffer)
                && o.setting.size.is_some()
                && o.value(Quantity::Application).is_some()
        };
        size.as_ref()?;
        let at = question
            .setting
            .on_node(question.setting.mapping.node_loads().max()?);
        let by_class = |o: &Observation| o.setting.class.clone();
        let answered = self.ask(quantity, models, &seen, by_class, &at);
        answered.forecast.prediction().is_some().then_some(answered)
    }

    /// Predicts one total as a function of the number of processes.
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
        if counts.len() < 2
            && let Some(of_sizes) = self.total_by_size(quantity, question)
        {
            return of_sizes;
        }
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
        // the error of points that are exactly on a line is unknown
        let interval = estimate
            .interval
            .filter(|i| fit.degrees_of_freedom >= MIN_FREEDOM && i.high - i.low > EXACT * value)
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

/// Returns the first law with b ≥ 0 that fits all totals within [`MISS`] or, if there is none, the law with b ≥ 0 and the smallest error. Returns the
/// first law of the list if every law has a negative b.
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
