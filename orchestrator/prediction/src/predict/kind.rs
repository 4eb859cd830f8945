//! Kinds of predictions, and the intervals that trials of a kind need.

use super::{
    calibration::{self, DataPlace, From, Kind},
    curves::at_least,
    forecast::{Answered, Forecast},
    observation::Observation,
    predictor::Predictor,
    question::Question,
};
use cvc_core::{quantity::Quantity, units::MIB};
use cvc_model::{Estimate, Setting, Tier, shmem};
use std::collections::{BTreeMap, BTreeSet};

/// How many times wider than the table's an interval of a sum of parts is that is not replaced by it: these parts are like no trial's.
const FAR_LESS_CERTAIN: f64 = 5.0;

/// Zones differ by some pages from run to run and from count to count, MiB: no interval of one is narrower, however exact its trials were.
const FEW_PAGES_MIB: f64 = 5.0 * 4096.0 / MIB;

impl Predictor<'_> {
    /// What kind of prediction one of a quantity is, on a node with `load` processes, and how far it reaches beyond the runs; `None` if no run
    /// tells of the quantity.
    pub fn kind_of(
        &self,
        quantity: Quantity,
        question: &Question,
        load: u32,
    ) -> Option<(Kind, f64)> {
        self.kind_of_pool(quantity, question, load, false)
    }

    fn kind_of_pool(
        &self,
        quantity: Quantity,
        question: &Question,
        load: u32,
        of_own_runs: bool,
    ) -> Option<(Kind, f64)> {
        let library = self.library(question);
        let is_usable = |o: &&Observation| library(o) && o.fitted(quantity).is_some();
        let usable: Vec<&Observation> = self.training.items().iter().filter(is_usable).collect();
        let of_program = |o: &&Observation| o.setting.app == question.setting.app;
        let own: Vec<&Observation> = usable.iter().copied().filter(of_program).collect();
        let of_class = |o: &&Observation| o.setting.class == question.setting.class;
        let own_class: Vec<&Observation> = own.iter().copied().filter(of_class).collect();
        let holds_data = self.holds_data(question);
        let is_sum = matches!(quantity, Quantity::Image | Quantity::Stored)
            || quantity == Quantity::Shmem && holds_data;
        let is_zone_of_data = matches!(quantity, Quantity::Dtapp | Quantity::Headers);
        let is_time = matches!(
            quantity,
            Quantity::Coordination | Quantity::Storage | Quantity::Latency
        );
        let is_of_every_program =
            is_time || matches!(quantity, Quantity::Launchers | Quantity::Aux);
        let differs_by_class = is_sum || quantity == Quantity::Dtapp;
        let (from, runs) = if is_of_every_program && !of_own_runs {
            (From::Own, usable)
        } else if own.is_empty() {
            (From::OtherPrograms, usable)
        } else if !differs_by_class {
            (From::Own, own)
        } else if own_class.is_empty() {
            (From::OtherClass, own)
        } else {
            (From::Own, own_class)
        };
        let per_node = !is_zone_of_data && !is_sum;
        let counts = calibration::counts(runs.into_iter(), per_node);
        if counts.is_empty() {
            return None;
        }
        let asked = if per_node {
            load
        } else {
            question.setting.mapping.processes()
        };
        let is_of_all_counts = is_time || is_sum && holds_data;
        let (basis, reach) = calibration::basis_of(&counts, asked, from, !is_of_all_counts);
        // of such programs the data zone is a few pages and has few areas: their errors tell nothing of programs with data there
        let data = if holds_data && (is_zone_of_data || is_sum) {
            DataPlace::Shared
        } else if !per_node && question.setting.on_node(load).nas.is_some() {
            DataPlace::Known
        } else {
            DataPlace::Unknown
        };
        let kind = Kind {
            quantity,
            mpi: question.setting.mpi,
            data,
            basis,
        };
        Some((kind, reach))
    }

    /// An answer with an interval that is at least as wide as such predictions need for programs that they have not seen.
    pub(crate) fn calibrated(
        &self,
        quantity: Quantity,
        question: &Question,
        load: u32,
        mut answered: Answered,
    ) -> Answered {
        let Forecast::Predicted(prediction) = &mut answered.forecast else {
            return answered;
        };
        if prediction.model.tier == Tier::Published {
            return answered;
        }
        if self.calibration.is_empty() {
            return answered;
        }
        let Some((kind, reach)) = self.kind_of_pool(quantity, question, load, answered.of_own_runs)
        else {
            return answered;
        };
        // which of several laws holds is in the interval already; without one of two counts there is none of them left to be tried
        let is_zone = !matches!(quantity, Quantity::Image | Quantity::Stored);
        let own_error = self
            .own_error(quantity, question)
            .filter(|_| !(is_zone && prediction.spans_laws));
        if let Some(mut calibrated) = self.calibration.interval(kind, reach, own_error) {
            if quantity == Quantity::Lb {
                // libraries were the same in all trials, whose zones are by the structural rule; where those of own runs differ, that counts
                calibrated.half = calibrated.half.max(own_error.unwrap_or(0.0));
            }
            let before = prediction.estimate;
            // how the parts of a sum err together is in the trials, which are of one node, so these say more than the parts
            // unless the parts are far less certain than those of the trials
            let own_half = if quantity == Quantity::Image {
                prediction.own_half
            } else {
                before.half_width()
            };
            let half =
                own_half.map_or(0.0, |half| half / before.value.abs().max(f64::MIN_POSITIVE));
            // the image of a rank has the same zones on however many nodes; launchers and files beside the images have not
            let is_alike = quantity == Quantity::Image
                || quantity == Quantity::Stored && question.setting.mapping.nodes() == 1;
            let tried =
                is_alike && !prediction.spans_laws && half <= FAR_LESS_CERTAIN * calibrated.half;
            let own = if tried || prediction.own_half.is_none() {
                Estimate::bare(before.value)
            } else {
                before
            };
            prediction.estimate = calibration::widened(quantity, own, calibrated);
            if matches!(
                quantity,
                Quantity::Dtapp | Quantity::Lb | Quantity::Shmem | Quantity::Headers
            ) {
                prediction.estimate = at_least(prediction.estimate, FEW_PAGES_MIB).not_negative();
            }
            if prediction.estimate != before {
                let (half, trials) = (100.0 * calibrated.half, calibrated.trials);
                let programs = if calibrated.programs == 1 {
                    "program".to_owned()
                } else {
                    format!("{} programs", calibrated.programs)
                };
                let own = own_error.map(|own| {
                    format!(
                        " and own runs that are left out, missed by up to {:.2} %,",
                        100.0 * own
                    )
                });
                prediction.reason += &format!(
                    "; its interval allows for {half:.2} % in either direction, as {trials} trials with {programs}{} need it",
                    own.unwrap_or_default()
                );
            }
        }
        answered
    }

    /// Whether images of the program hold its data beside shared memory, as those of a program that allocates its arrays do.
    pub(crate) fn holds_data(&self, question: &Question) -> bool {
        self.programs_with_data(question)
            .contains(&question.setting.app)
    }

    /// The programs of which this is so.
    pub(crate) fn programs_with_data(&self, question: &Question) -> BTreeSet<String> {
        let library = self.library(question);
        let mut of_class: BTreeMap<(&str, &str), Vec<(Setting, f64)>> = BTreeMap::new();
        for o in self
            .training
            .items()
            .iter()
            .filter(|o| library(o) && o.load().is_some())
        {
            // the arrays of the others are declared
            if let (Some(mib), None) = (o.value(Quantity::Shmem), o.model_setting().nas) {
                of_class
                    .entry((&o.setting.app, &o.setting.class))
                    .or_default()
                    .push((o.model_setting(), mib));
            }
        }
        of_class
            .into_iter()
            .filter(|(_, samples)| shmem::holds_data(samples))
            .map(|((app, _), _)| app.to_owned())
            .collect()
    }
}
