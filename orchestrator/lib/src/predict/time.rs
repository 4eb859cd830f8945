//! How long a checkpoint takes, and how often to take one.

use super::{
    compose::sum,
    forecast::{Budget, CandidateAnswer, Forecast, Outcome, Prediction, Scheduled},
    observation::{Observation, Quantity},
    predictor::{Answered, Predictor},
    question::Question,
};
use crate::{
    model::{Estimate, Fit, FitError, Interval, ModelInfo, Parameter, Tier, error_pct, least_squares, schedule},
    point::Compression,
};
use std::collections::BTreeSet;

/// Points from which on the leave-one-out error decides.
const ENOUGH: usize = 4;

const SOURCE: &str = "cvc: least squares through the observed times";

/// What is fitted through the times of checkpoints. p processes write V MiB in all on a node.
#[derive(Clone, Copy, Debug)]
struct Curve {
    info: ModelInfo,
    /// The known numbers of a point.
    row: fn(f64, f64) -> Vec<f64>,
    /// What is fitted: the time itself, or the rate.
    of_rate: bool,
}

const CURVES: [Curve; 3] = [
    Curve {
        info: ModelInfo {
            id: "latency-bandwidth",
            title: "bandwidth of so many writers",
            formula: "p·file/(a + b·p)",
            source: "thesis, Tables 5.3 and 5.5; fitted to the observed rates",
            tier: Tier::SmallRuns,
            parameters: 2,
        },
        row: |p, _| vec![1.0, p],
        of_rate: true,
    },
    Curve {
        info: ModelInfo {
            id: "latency-volume",
            title: "a start and a rate",
            formula: "a + b·p·file",
            source: SOURCE,
            tier: Tier::SmallRuns,
            parameters: 2,
        },
        row: |p, file| vec![1.0, p * file],
        of_rate: false,
    },
    Curve {
        info: ModelInfo {
            id: "latency-coordination",
            title: "a start, a part for each process, and a rate",
            formula: "a + b·p·file + c·p",
            source: SOURCE,
            tier: Tier::SmallRuns,
            parameters: 3,
        },
        row: |p, file| vec![1.0, p * file, p],
        of_rate: false,
    },
];

/// An observed checkpoint: processes on the node, MiB of a file, seconds.
struct Written<'a> {
    id: &'a str,
    p: f64,
    file: f64,
    seconds: f64,
}

impl Curve {
    fn fit(&self, runs: &[&Written<'_>]) -> Result<Fit, FitError> {
        let rows: Vec<Vec<f64>> = runs.iter().map(|w| (self.row)(w.p, w.file)).collect();
        let values: Vec<f64> = runs.iter().map(|w| if self.of_rate { w.p * w.file / w.seconds } else { w.seconds }).collect();
        if rows.is_empty() {
            return Err(FitError::TooFewPoints { found: 0, needed: self.info.parameters });
        }
        let weights: Vec<f64> = runs.iter().zip(&values).map(|(w, value)| self.weight(w.p, *value)).collect();
        least_squares(&rows, &values, Some(&weights))
    }

    /// Rates of many writers vary more than those of few; times vary in proportion to themselves.
    fn weight(&self, p: f64, value: f64) -> f64 {
        if self.of_rate { 1.0 / p } else { 1.0 / (value * value) }
    }

    fn at(&self, fit: &Fit, p: f64, file: Estimate) -> Result<Estimate, FitError> {
        let of = |file: f64| -> Result<Estimate, FitError> {
            let row = (self.row)(p, file);
            let said = fit.predict(&row, self.weight(p, fit.value(&row)));
            let seconds = if self.of_rate {
                let time = |rate: f64| p * file / rate;
                let interval = said.interval.filter(|i| i.low > 0.0).map(|i| Interval { low: time(i.high), high: time(i.low) });
                Estimate { value: time(said.value), interval }
            } else {
                said
            };
            if seconds.value.is_finite() && seconds.value > 0.0 {
                Ok(seconds)
            } else {
                Err(FitError::OutOfDomain(format!("the fitted curve gives no time for {p} files of {file:.1} MiB")))
            }
        };
        let middle = of(file.value)?;
        // the uncertain size moves the time along the curve; that error has nothing to do with the curve's own
        let ends = file.interval.and_then(|i| Some((of(i.low.max(0.0)).ok()?.value, of(i.high).ok()?.value)));
        let moved = ends.map(|(low, high)| Estimate::between(0.0, low - middle.value, high - middle.value));
        Ok(middle.plus(moved.unwrap_or(Estimate::bare(0.0))).not_negative())
    }

    /// Mean error in percent over the runs that are left out in turn.
    fn leave_one_out_pct(&self, runs: &[Written<'_>]) -> Option<f64> {
        let error = |left: &Written<'_>| {
            let others: Vec<&Written<'_>> = runs.iter().filter(|w| w.id != left.id).collect();
            let said = self.at(&self.fit(&others).ok()?, left.p, Estimate::exact(left.file)).ok()?;
            error_pct(said.value, left.seconds)
        };
        let errors: Vec<f64> = runs.iter().map(error).collect::<Option<_>>()?;
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    }
}

impl Predictor<'_> {
    /// The time of one checkpoint: that of the node that takes longest.
    pub(super) fn latency(&self, question: &Question, forecast: &Forecast) -> Answered {
        if question.compression == Compression::Gzip {
            return Answered::none("no model of the time of compression is known");
        }
        let mut files: Vec<(f64, Prediction)> = Vec::new();
        for line in forecast.of(Quantity::File) {
            match &line.outcome {
                Outcome::Predicted(file) => {
                    let load = line.node_load.or(question.load()).unwrap_or(1);
                    files.push((f64::from(load), file.clone()));
                }
                Outcome::NoPrediction(_) => return Answered::none("the files are not known"),
            }
        }
        let library = self.library(question);
        let usable: Vec<&Observation> =
            self.training.items().iter().filter(|o| library(o) && o.compression == Compression::None && written(o).is_some()).collect();
        let runs: Vec<Written<'_>> = usable.iter().filter_map(|o| written(o)).collect();
        let loads: BTreeSet<u64> = runs.iter().map(|w| w.p as u64).collect();
        if loads.len() < 2 {
            let seen = match loads.first() {
                None => format!("no time of a checkpoint with {} was observed", question.mpi_name),
                Some(p) => format!("times were only observed with {p} processes on a node"),
            };
            return Answered::none(format!("{seen}; two loads of a node or more tell the bandwidth"));
        }
        let all: Vec<&Written<'_>> = runs.iter().collect();
        let slowest = |curve: &Curve, fit: &Fit| -> Result<Estimate, FitError> {
            let mut slowest: Option<Estimate> = None;
            for (p, file) in &files {
                let time = curve.at(fit, *p, file.estimate)?;
                if slowest.is_none_or(|s| time.value > s.value) {
                    slowest = Some(time);
                }
            }
            slowest.ok_or_else(|| FitError::OutOfDomain("there is no file".into()))
        };
        let mut candidates: Vec<CandidateAnswer> = Vec::new();
        for curve in &CURVES {
            let fit = curve.fit(&all);
            let said = fit.as_ref().map_err(Clone::clone).and_then(|fit| slowest(curve, fit));
            candidates.push(CandidateAnswer {
                model: curve.info,
                chosen: false,
                leave_one_out_pct: curve.leave_one_out_pct(&runs),
                estimate: said.as_ref().ok().copied(),
                refused: said.err().map(|e| e.to_string()),
                parameters: fit.map(|fit| parameters(&fit)).unwrap_or_default(),
            });
        }
        let error = |c: &CandidateAnswer| c.leave_one_out_pct.unwrap_or(f64::INFINITY);
        let decides = runs.len() >= ENOUGH;
        let answers = candidates.iter_mut().filter(|c| c.estimate.is_some());
        let best = if decides { answers.min_by(|a, b| error(a).total_cmp(&error(b))) } else { answers.into_iter().next() };
        let Some(best) = best else {
            return Answered::none(
                candidates.iter().filter_map(|c| Some(format!("{}: {}", c.model.id, c.refused.as_ref()?))).collect::<Vec<_>>().join("; "),
            );
        };
        best.chosen = true;
        let (info, estimate, parameters, error) = (best.model, best.estimate, best.parameters.clone(), best.leave_one_out_pct);
        let Some(estimate) = estimate else { return Answered::none("no model has an answer") };
        let parts: Vec<&Prediction> = files.iter().map(|(_, f)| f).collect();
        let mut prediction = sum(info, estimate, &parts);
        prediction.reason = match error {
            Some(error) if decides => format!("smallest mean leave-one-out error of {} models, {error:.2} %", CURVES.len()),
            _ => format!("first of the list that {} points allow", runs.len()),
        };
        prediction.training = usable.iter().map(|o| o.label.clone()).collect();
        (prediction.parameters, prediction.candidates) = (parameters, candidates);
        let mut warnings = Vec::new();
        if question.mapping.nodes() > 1 && usable.iter().all(|o| o.mapping.nodes() == 1) {
            warnings
                .push("times were only observed on one node: each node is taken to write to storage of its own, at the same time".into());
        }
        Answered::with(prediction, warnings)
    }

    /// The time of the program without checkpoints: as given, or as observed with as many processes.
    pub(super) fn app_time(&self, question: &Question, budget: &Budget) -> Result<(f64, Vec<String>), String> {
        if let Some(given) = budget.app_s {
            return Ok((given, Vec::new()));
        }
        let library = self.library(question);
        let runs: Vec<&Observation> = self
            .training
            .items()
            .iter()
            .filter(|o| o.app == question.app && o.class == question.class && library(o) && o.value(Quantity::App).is_some())
            .collect();
        let alike: Vec<&&Observation> = runs.iter().filter(|o| o.mapping.processes() == question.mapping.processes()).collect();
        if alike.is_empty() {
            let what = format!("{}.{} with {}", question.app, question.class, question.mpi_name);
            let seen: BTreeSet<u32> = runs.iter().map(|o| o.mapping.processes()).collect();
            let seen = seen.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let elsewhere = if seen.is_empty() { String::new() } else { format!(", only on {seen}") };
            return Err(format!(
                "no run of {what} without checkpoint was observed on {} processes{elsewhere}; give the time of the program",
                question.mapping.processes()
            ));
        }
        let times: Vec<f64> = alike.iter().filter_map(|o| o.value(Quantity::App)).collect();
        Ok((times.iter().sum::<f64>() / times.len() as f64, alike.iter().map(|o| o.label.clone()).collect()))
    }
}

fn written(o: &Observation) -> Option<Written<'_>> {
    let (p, file, seconds) = (o.load()?, o.value(Quantity::File).or(o.value(Quantity::Image))?, o.value(Quantity::Latency)?);
    (file > 0.0 && seconds > 0.0).then(|| Written { id: &o.id, p: f64::from(p), file, seconds })
}

fn parameters(fit: &Fit) -> Vec<Parameter> {
    let errors = fit.standard_errors.as_ref();
    let named = ["a", "b", "c"].into_iter().zip(&fit.coefficients).enumerate();
    named.map(|(i, (name, value))| Parameter { name, value: *value, standard_error: errors.map(|e| e[i]) }).collect()
}

/// Checkpoints for a budget and for a mean time between failures.
///
/// # Errors
/// Why there is no schedule.
pub(super) fn schedules(app_s: f64, ckpt_s: f64, budget: &Budget) -> Result<Vec<Scheduled>, String> {
    let mut all = Vec::new();
    let said = |e: FitError| e.to_string();
    if let Some(overhead) = budget.overhead {
        let published = schedule::published(app_s, ckpt_s, overhead).map_err(said)?;
        let whole = schedule::whole_budget(app_s, ckpt_s, overhead).map_err(said)?;
        for (rule, source, s) in [
            ("published rule", "thesis, section 5.3: leaves part of the budget unused", published),
            ("whole budget", "as many as the budget pays for, evenly spread", whole),
        ] {
            all.push(Scheduled { rule, source, checkpoints: s.count, interval_s: s.interval_s, total_s: s.total_s });
        }
    }
    if let Some(mtbf_s) = budget.mtbf_s {
        let young = schedule::young_s(ckpt_s, mtbf_s).map_err(said)?;
        let daly = schedule::daly_s(ckpt_s, mtbf_s).map_err(said)?;
        for (rule, source, interval) in [
            ("Young", "J. W. Young 1974: least expected loss, first order", young),
            ("Daly", "J. T. Daly 2006: least expected loss, higher order", daly),
        ] {
            // a checkpoint at the very end would save nothing
            let checkpoints = ((app_s / interval).ceil() - 1.0).max(0.0);
            let interval_s = (checkpoints > 0.0).then_some(interval);
            all.push(Scheduled { rule, source, checkpoints: checkpoints as u64, interval_s, total_s: app_s + checkpoints * ckpt_s });
        }
    }
    Ok(all)
}
