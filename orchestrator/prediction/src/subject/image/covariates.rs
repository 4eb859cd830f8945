//! Files in addition to the plain images: the surplus of aggregators, images of the launcher, saved shared memory.

use crate::predict::{
    curves,
    forecast::{Answered, Forecast, Prediction},
    observation::Observation,
    predictor::{Alike, Pool, Predictor},
    question::Question,
    setting::RunSetting,
};
use cvc_core::quantity::Quantity;
use cvc_core::units::MIB;
use cvc_model::{
    Estimate, Interval, Model, ModelInfo, MpiKind, Output, Setting, Tier,
    node_files::aux_cluster_mib, stored, surplus,
};
use std::collections::BTreeSet;

/// Minimum excess of a rank's file over the others, MiB, for which the rank is assumed to be an aggregator. Libraries cause smaller differences.
const VISIBLE_SURPLUS_MIB: f64 = 4.0;

const LAUNCHERS_AND_AUX: ModelInfo = ModelInfo {
    id: "aux-cluster",
    title: "process manager, proxies, ssh",
    formula: "18.69 + 19.0 + 0.01 + (n − 1)·(17.24 + 2.5 + 2.7)",
    source: "thesis, Table 3.1 (DMTCP 2, MPICH 3)",
    tier: Tier::Published,
    parameters: 0,
};

const MORE_NODES: ModelInfo = ModelInfo {
    id: "launchers-of-more-nodes",
    title: "observed on one node, and a part of it for each further one",
    formula: "a·(1 + 0.595·(n − 1))",
    source: "a: the observations; 0.595 = 22.44/37.70: thesis, Table 3.1 (DMTCP 2, MPICH 3)",
    tier: Tier::SmallRuns,
    parameters: 1,
};

/// Launchers on a further node relative to those on the first, as published: 22.44 of 37.70 MiB.
pub(crate) const LAUNCHERS_OF_FURTHER_NODE: f64 = 22.44 / 37.70;

const WITHIN: ModelInfo = ModelInfo {
    id: "within-launchers",
    title: "contained in the launchers' formula",
    formula: "0",
    source: "thesis, Table 3.1",
    tier: Tier::Published,
    parameters: 0,
};

impl Predictor<'_> {
    /// Returns the excess of an aggregator's image over other images; `None` if the program has no aggregators.
    pub(super) fn surplus(&self, question: &Question) -> Option<Answered> {
        if !question.collective {
            return None;
        }
        let library = self.library(question);
        let own = |o: &Observation| {
            o.setting.app == question.setting.app
                && library(o)
                && o.value(Quantity::Surplus).is_some()
        };
        let visible = |o: &Observation| {
            own(o)
                && o.value(Quantity::Surplus)
                    .is_some_and(|s| s >= VISIBLE_SURPLUS_MIB)
        };
        let comparable = |o: &Observation| {
            visible(o)
                && o.setting.aggregators == question.setting.aggregators
                && o.setting.cb_buffer == question.setting.cb_buffer
        };
        if self.count(own) > 0
            && self.count(visible) == 0
            && question.setting.aggregators.is_none()
            && question.setting.cb_buffer.is_none()
        {
            let seen = self.count(own);
            return Some(Answered::none(format!(
                "not predicted: in none of the {seen} observed checkpoints of {} was the image of a rank larger than the others (taken before its first write?). Add aggregators=N to use the published value",
                question.setting.app
            )));
        }
        let load = question.setting.mapping.node_loads().max().unwrap_or(1);
        let output = Output {
            aggregators: question.setting.aggregators,
            buffer_mib: question.setting.cb_buffer.map(|b| b.0 as f64 / MIB),
            ..Output::default()
        };
        let at = Setting {
            output,
            ..question.setting.on_node(load)
        };
        let alike = |o: &Observation| o.setting.label();
        Some(self.ask(
            Quantity::Surplus,
            surplus::models(),
            &comparable,
            alike,
            &at,
        ))
    }

    /// Returns the MiB of the images of the launcher's processes.
    pub(super) fn launchers(&self, question: &Question) -> Answered {
        let library = self.library(question);
        let seen = |o: &Observation| {
            library(o)
                && o.setting.compression == question.setting.compression
                && o.value(Quantity::Launchers).is_some()
        };
        let nodes = question.setting.mapping.nodes();
        if self.count(seen) == 0 {
            return match aux_cluster_mib(nodes) {
                Ok(mib)
                    if self.training.items().is_empty()
                        && question.setting.mpi == MpiKind::Nemesis =>
                {
                    Answered::of(Prediction::new(
                        LAUNCHERS_AND_AUX,
                        Estimate::bare(mib),
                        "no run was observed",
                    ))
                }
                _ => Answered::none(format!(
                    "no run with {} shows its launchers",
                    question.label_of_library()
                )),
            };
        }
        let at = question
            .setting
            .on_node(question.setting.mapping.node_loads().max().unwrap_or(1));
        let several = self.count(|o| seen(o) && o.setting.mapping.nodes() > 1) > 0;
        let models = || -> Vec<Box<dyn Model>> {
            let lines = if several {
                [curves::NODES, curves::MEAN]
            } else {
                [curves::SAME_ON_NODES, curves::PER_NODE]
            };
            lines
                .map(|line| -> Box<dyn Model> {
                    Box::new(line.with_band(curves::LAUNCHERS_BAND_MIB))
                })
                .into()
        };
        let by_mapping = |o: &Observation| o.setting.mapping.to_string();
        let mut answered = self.ask_programs(
            Quantity::Launchers,
            question,
            &seen,
            models,
            by_mapping,
            &at,
        );
        answered = self.calibrated(Quantity::Launchers, question, at.per_node, answered);
        if let (Forecast::Predicted(prediction), false, true) =
            (&mut answered.forecast, several, nodes > 1)
        {
            // the launcher itself runs once; on a further node it starts processes, which take no more than the launcher and its processes on the
            // first node
            let (one, further) = (prediction.estimate, f64::from(nodes - 1));
            let ends = one.interval.unwrap_or(Interval {
                low: one.value,
                high: one.value,
            });
            let value = one.value * (1.0 + further * LAUNCHERS_OF_FURTHER_NODE);
            prediction.estimate = Estimate::between(value, ends.low, ends.high * (1.0 + further));
            prediction.model = MORE_NODES;
            prediction.candidates.clear();
            answered.warnings.push(
                "launchers were only observed on one node: the interval reaches from no addition for a further node to the same amount again; a run \
                 over two nodes decides"
                    .into(),
            );
        }
        answered
    }

    /// Predicts by models fitted to runs of all programs with a library, except for deviating programs. If their law contradicts the runs of the
    /// question's class (or, if there are none, of its program), the models are fitted to the runs of the program. If that law contradicts them, too,
    /// the models are fitted to the runs of the class.
    fn ask_programs(
        &self,
        quantity: Quantity,
        question: &Question,
        pool: Pool<'_>,
        models: impl Fn() -> Vec<Box<dyn Model>>,
        alike: Alike,
        at: &Setting,
    ) -> Answered {
        let RunSetting { app, class, .. } = &question.setting;
        let apart = self.deviating_programs(quantity, pool);
        let own = |o: &Observation| pool(o) && o.setting.app == *app;
        let own_class = |o: &Observation| own(o) && o.setting.class == *class;
        let of_others = |o: &Observation| pool(o) && !apart.contains(&o.setting.app);
        let mut pools: Vec<Pool<'_>> = vec![&of_others];
        if self.count(own) > 0 {
            pools.push(&own);
        }
        let has_class = self.count(own_class) > 0;
        if has_class {
            pools.push(&own_class);
        }
        let judged: Pool<'_> = if has_class { &own_class } else { &own };
        self.ask_widest(quantity, models, &pools, judged, alike, at)
    }

    /// Predicts the files next to the images: the sum over nodes, by the number of processes on each.
    pub(super) fn auxiliary(
        &self,
        question: &Question,
        launchers: Option<&Prediction>,
    ) -> Answered {
        if launchers.is_some_and(|l| l.model.id == LAUNCHERS_AND_AUX.id) {
            return Answered::of(Prediction::new(
                WITHIN,
                Estimate::exact(0.0),
                "one formula for both",
            ));
        }
        let mut total: Option<Prediction> = None;
        let mut warnings: Vec<String> = Vec::new();
        for group in question.setting.mapping.groups() {
            let answered = self.auxiliary_of_node(question, group.processes_per_node);
            warnings.extend(answered.warnings);
            let one = match answered.forecast {
                Forecast::NoPrediction(reason) => return Answered::none(reason),
                Forecast::Predicted(one) => one,
            };
            let estimate = one.estimate.times(f64::from(group.nodes));
            total = Some(match total {
                None => Prediction { estimate, ..one },
                Some(sum) => Prediction {
                    estimate: sum.estimate.plus_together(estimate),
                    ..sum
                },
            });
        }
        match total {
            Some(total) => Answered::with(
                Prediction {
                    estimate: total.estimate.not_negative(),
                    ..total
                },
                warnings,
            ),
            None => Answered::none("the mapping has no node"),
        }
    }

    /// Returns the files next to the images of a node with `load` processes.
    fn auxiliary_of_node(&self, question: &Question, load: u32) -> Answered {
        let library = self.library(question);
        let seen =
            |o: &Observation| library(o) && o.value(Quantity::Aux).is_some() && o.load().is_some();
        // with one process on a node nothing is shared
        let regime = |o: &Observation| seen(o) && (o.load() == Some(1)) == (load == 1);
        let comparable = self.count(regime) > 0;
        let models = || -> Vec<Box<dyn Model>> {
            let [open_mpi, growth] = stored::aux_models();
            let (same, line) = (Box::new(curves::SAME_ON_NODES), Box::new(curves::PER_NODE));
            // a line fitted to several processes does not apply to one process, which has no segment
            if comparable {
                vec![open_mpi, same, growth, line]
            } else {
                vec![open_mpi, same, growth]
            }
        };
        let pool = |o: &Observation| if comparable { regime(o) } else { seen(o) };
        let by_load = |o: &Observation| format!("{:?} processes on a node", o.load());
        let at = question.setting.on_node(load);
        let mut answered = self.ask_programs(Quantity::Aux, question, &pool, models, by_load, &at);
        let of_own_runs = answered.of_own_runs;
        let one = match &mut answered.forecast {
            Forecast::NoPrediction(reason) => {
                if self.count(seen) == 0 {
                    *reason = format!("no run with {} shows them", question.label_of_library());
                }
                return answered;
            }
            Forecast::Predicted(one) => one,
        };
        if !comparable {
            let how = if load == 1 {
                "more processes on a node"
            } else {
                "one process on a node"
            };
            answered.warnings.push(format!(
                "auxiliary files were only observed with {how}: their error is unknown"
            ));
            one.estimate = Estimate::bare(one.estimate.value);
        }
        let is_own = |o: &&Observation| !of_own_runs || o.setting.app == question.setting.app;
        let items = self.training.items().iter();
        let loads: BTreeSet<u32> = items
            .filter(|o| regime(o))
            .filter(is_own)
            .filter_map(|o| o.load())
            .collect();
        // with ch3:nemesis there is one small file for every program; other libraries save the shared memory, whose size is known for Open MPI
        let own_mib = match one.parameters.first() {
            Some(c) if one.model.id == stored::OPEN_MPI_AUX => c.value,
            Some(_) | None => one.estimate.value,
        };
        let grows = question.setting.mpi != MpiKind::Nemesis
            && loads.len() == 1
            && !loads.contains(&load)
            && !one.spans_laws
            && own_mib > stored::OPEN_MPI_AUX_BAND_MIB;
        if let (true, Some(only)) = (grows, loads.first()) {
            let library = one.estimate.value - own_mib;
            let half = one.estimate.half_width().unwrap_or(0.0);
            one.estimate = up_to_proportion(
                Estimate::plus_minus(own_mib, half),
                f64::from(load) / f64::from(*only),
            )
            .plus_together(Estimate::exact(library));
            one.own_half = one.estimate.half_width();
            answered.warnings.push(format!(
                "auxiliary files were only observed with {only} processes on a node: assumed to be between the same size and a proportional one"
            ));
        }
        self.calibrated(Quantity::Aux, question, load, answered)
    }
}

/// Predicts a value that was observed at one number of processes, for `ratio` times this number. The interval is from an unchanged to a
/// proportional value, and the prediction is its middle.
fn up_to_proportion(same: Estimate, ratio: f64) -> Estimate {
    let scaled = same.times(ratio);
    let ends = |of: Estimate| of.interval.map_or([of.value; 2], |i| [i.low, i.high]);
    let [low, high] = ends(same);
    let [scaled_low, scaled_high] = ends(scaled);
    Estimate::between(
        (same.value + scaled.value) / 2.0,
        low.min(scaled_low),
        high.max(scaled_high),
    )
}

#[cfg(test)]
mod tests {
    use super::{Estimate, up_to_proportion};

    /// NAS SP, class W, Open MPI 4.1.4, DMTCP 4.2: measured were 24.04 MiB with 4 processes, 44.04 with 9 and 72.04 with 16; the line through them
    /// gives 8.04 with none.
    #[test]
    fn files_that_grow_with_the_processes_lie_between_the_same_and_in_proportion() {
        let seen = Estimate::plus_minus(24.04, 0.01);
        for (processes, measured) in [(9.0, 44.04), (16.0, 72.04), (2.0, 16.04)] {
            let estimate = up_to_proportion(seen, processes / 4.0);
            assert_eq!(
                estimate.covers(measured),
                Some(true),
                "{processes}: {estimate:?}"
            );
            assert!(
                (estimate.value / measured - 1.0).abs() < 0.2,
                "{processes}: {estimate:?}"
            );
        }
        assert_eq!(
            up_to_proportion(Estimate::bare(10.0), 2.0).covers(15.0),
            Some(true)
        );
    }
}
