//! The time of a checkpoint: the time of the slowest node.

use super::{
    node::{OfNode, at, of_nodes},
    published::published,
};
use crate::predict::{
    forecast::{Answered, Forecast, Forecasts, Prediction},
    observation::Observation,
    predictor::{Pool, Predictor},
    question::Question,
};
use cvc_core::{point::Compression, quantity::Quantity};
use cvc_model::{
    Estimate, Model, ModelInfo, Tier, latency,
    stats::Interval,
    time_shape::{self, TimePart, TimeShape},
};
use std::collections::BTreeSet;

/// The parts of a checkpoint's time.
const PARTS: [Quantity; 2] = [Quantity::Coordination, Quantity::Storage];

const IN_PARTS: ModelInfo = ModelInfo {
    id: "coordination-and-storage",
    title: "sum of coordination and storage",
    formula: "coordination + storage",
    source: "DMTCP's coordinator; errors taken as independent",
    tier: Tier::NoRun,
    parameters: 0,
};

/// Returns the models of a time: the model with the shape of other programs' times, if there is one, and models of the observed times alone.
pub(super) fn models(quantity: Quantity, shape: Option<TimeShape>) -> Vec<Box<dyn Model>> {
    let (part, alone) = match quantity {
        // restart times are only observed in restarts, and have no shape
        Quantity::RestartLatency => return latency::restart(),
        Quantity::Coordination => (TimePart::Coordination, latency::coordination()),
        Quantity::Storage => (TimePart::Storage, latency::storage()),
        _ => (TimePart::Whole, latency::models()),
    };
    shape
        .map(|shape| time_shape::shaped(part, shape))
        .into_iter()
        .chain(alone)
        .collect()
}

impl Predictor<'_> {
    /// Adds the predicted time of one checkpoint, and of its parts if runs recorded them: the time of the slowest node.
    pub(super) fn latency(&self, question: &Question, to: &mut Forecasts) {
        if question.setting.compression != Compression::None {
            let answered = self.compressed_time(question, to);
            to.add(Quantity::Latency, None, answered);
            return;
        }
        let nodes = of_nodes(question, to);
        let files: Vec<Prediction> = to
            .of(Quantity::File)
            .filter_map(|line| line.forecast.prediction().cloned())
            .collect();
        let parts: Vec<&Prediction> = files.iter().collect();
        let library = self.library(question);
        let usable = |o: &Observation| {
            let size = o.node_mib().is_some();
            size && o.setting.compression == Compression::None
                && o.value(Quantity::Latency).is_some_and(|s| s > 0.0)
        };
        let ours = |o: &Observation| usable(o) && library(o);
        let in_parts = |o: &Observation| {
            ours(o)
                && PARTS
                    .iter()
                    .all(|part| o.value(*part).is_some_and(|s| s > 0.0))
        };
        let whole = if nodes.is_empty() || parts.is_empty() {
            Answered::none("the files are unknown")
        } else if self.count(usable) == 0 {
            published(question, to, &nodes, &parts)
        } else if self.count(ours) == 0 {
            let name = &question.setting.mpi_name;
            Answered::none(format!(
                "no time of a checkpoint with {name} was observed; run one with it"
            ))
        } else {
            let most = nodes.iter().map(|n| n.load).max().unwrap_or(1);
            let whole = if self.count(in_parts) == 0 {
                self.time_of(Quantity::Latency, question, &nodes, &parts, &ours)
            } else {
                self.sum_of_times(question, &nodes, &parts, &in_parts, to)
            };
            self.calibrated(Quantity::Latency, question, most, whole)
        };
        to.add(Quantity::Latency, None, whole);
    }

    /// Adds the predicted time of a restart, if runs were restarted: the time of the slowest node.
    pub(super) fn restart(&self, question: &Question, to: &mut Forecasts) {
        let is_plain = |o: &Observation| o.setting.compression == Compression::None;
        let usable = |o: &Observation| {
            let restart_s = o.value(Quantity::RestartLatency);
            is_plain(o) && o.node_mib().is_some() && restart_s.is_some_and(|s| s > 0.0)
        };
        if self.count(usable) == 0 {
            return;
        }
        let library = self.library(question);
        let ours = |o: &Observation| usable(o) && library(o);
        let nodes = of_nodes(question, to);
        let files: Vec<Prediction> = to
            .of(Quantity::File)
            .filter_map(|line| line.forecast.prediction().cloned())
            .collect();
        let answered = if question.setting.compression != Compression::None {
            Answered::none("restarts are predicted of images that are not compressed")
        } else if nodes.is_empty() || files.is_empty() {
            Answered::none("the files are unknown")
        } else if self.count(ours) == 0 {
            let name = &question.setting.mpi_name;
            Answered::none(format!(
                "no restart with {name} was observed; run one with it and restart_check = true"
            ))
        } else {
            let parts: Vec<&Prediction> = files.iter().collect();
            self.time_of(Quantity::RestartLatency, question, &nodes, &parts, &ours)
        };
        to.add(Quantity::RestartLatency, None, answered);
    }

    /// Returns the time as the sum of its parts, coordination and storage, which are added as separate lines.
    fn sum_of_times(
        &self,
        question: &Question,
        nodes: &[OfNode],
        files: &[&Prediction],
        pool: Pool<'_>,
        to: &mut Forecasts,
    ) -> Answered {
        let most = nodes.iter().map(|n| n.load).max().unwrap_or(1);
        let times = PARTS.map(|part| self.time_of(part, question, nodes, files, pool));
        let mut parts: Vec<&Prediction> = Vec::new();
        for time in &times {
            match &time.forecast {
                Forecast::Predicted(time) => parts.push(time),
                Forecast::NoPrediction(reason) => return Answered::none(reason),
            }
        }
        let total = parts
            .iter()
            .map(|part| part.estimate)
            .fold(Estimate::exact(0.0), Estimate::plus);
        let whole = Prediction::made_of(IN_PARTS, total, &parts);
        for (part, time) in PARTS.into_iter().zip(times) {
            to.add(part, None, self.calibrated(part, question, most, time));
        }
        Answered::of(whole)
    }

    /// Predicts the time of a checkpoint or of one of its parts by models fitted to a pool: the time of the slowest node.
    fn time_of(
        &self,
        quantity: Quantity,
        question: &Question,
        nodes: &[OfNode],
        parts: &[&Prediction],
        pool: Pool<'_>,
    ) -> Answered {
        // the storage and the number of cores are assumed to be those of the runs
        let items = self.training.items().iter();
        let cores: BTreeSet<Option<u32>> = items.filter(|o| pool(o)).map(|o| o.cores).collect();
        let cores = cores
            .first()
            .copied()
            .flatten()
            .filter(|_| cores.len() == 1);
        let shape = self.calibration.shape(quantity, question.setting.mpi);
        let ask = |node: &OfNode, mib: f64| {
            // an uncertain size of the files is attributed to the program's data
            let own_mib = node
                .own_mib
                .map(|own| (own + mib - node.mib.value).max(0.0));
            let at = at(question, node.load, mib, own_mib, cores);
            let alike = |o: &Observation| o.id.clone();
            self.ask(quantity, models(quantity, shape), pool, alike, &at)
        };
        let mut slowest: Option<(Prediction, Vec<String>, &OfNode)> = None;
        for node in nodes {
            let answered = ask(node, node.mib.value);
            match answered.forecast {
                Forecast::Predicted(one)
                    if slowest
                        .as_ref()
                        .is_none_or(|(s, ..)| one.estimate.value > s.estimate.value) =>
                {
                    slowest = Some((one, answered.warnings, node));
                }
                Forecast::Predicted(_) => {}
                Forecast::NoPrediction(reason) => return Answered::none(reason),
            }
        }
        let Some((answer, mut warnings, node)) = slowest else {
            return Answered::none("the files are unknown");
        };
        // the uncertain size gives an additional error, which is independent of the curve's own error
        let at_size = |mib: f64| {
            ask(node, mib.max(0.0))
                .forecast
                .prediction()
                .map(|p| p.estimate.value - answer.estimate.value)
        };
        let moved = node.mib.interval.and_then(|i| {
            Some(Estimate::between(
                0.0,
                at_size(i.low)?.min(0.0),
                at_size(i.high)?.max(0.0),
            ))
        });
        // the scatter of own times is contained in the errors of left-out runs, which the table of errors uses
        let own = if self.calibration.is_empty() || quantity == Quantity::RestartLatency {
            answer.estimate
        } else {
            Estimate::exact(answer.estimate.value)
        };
        let mut estimate = own
            .plus(moved.unwrap_or(Estimate::bare(0.0)))
            .not_negative();
        let many = question.setting.mapping.nodes();
        if many > 1
            && quantity != Quantity::Coordination
            && self.count(|o| pool(o) && o.setting.mapping.nodes() > 1) == 0
        {
            // no run shows whether the nodes share storage: the interval extends to the case that all share it
            let shared =
                at_size(node.mib.value * f64::from(many)).map_or(0.0, |more| more.max(0.0));
            let interval = estimate.interval.unwrap_or(Interval {
                low: estimate.value,
                high: estimate.value,
            });
            estimate = Estimate::between(estimate.value, interval.low, interval.high + shared);
            warnings.push(format!(
                "times were only observed on one node: the time assumes separate storage for each node, and its interval reaches up to one storage \
                 for all {many}; a run over two nodes decides"
            ));
        }
        let model = Prediction::made_of(answer.model, estimate, parts).model;
        let prediction = Prediction {
            estimate,
            model,
            ..answer
        };
        Answered::with(prediction, warnings)
    }
}
