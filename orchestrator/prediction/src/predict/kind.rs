//! Kinds of predictions, and the intervals that follow from trials of a kind.

use super::{
    calibration::{self, Basis, DataPlace, From, Kind},
    curves::{LAUNCHERS_BAND_MIB, at_least},
    forecast::{Answered, Forecast},
    observation::Observation,
    predictor::Predictor,
    question::Question,
};
use cvc_core::{quantity::Quantity, units::MIB};
use cvc_model::{Estimate, Setting, Tier, conformal, shmem};
use std::collections::{BTreeMap, BTreeSet};

/// The interval of a sum of parts is not replaced by the table's if it is wider than the table's by more than this factor. The parts are then unlike
/// those of any trial.
const FAR_LESS_CERTAIN: f64 = 5.0;

/// Minimum half-width of the table's interval, relative to the prediction, when applying [`FAR_LESS_CERTAIN`].
const MIN_RELATIVE_ERROR: f64 = 0.03;

/// Returns the minimum half-width in MiB, even if the trials were more precise. Equal runs differ by two pages in a zone, by 13 areas in the
/// headers, by [`LAUNCHERS_BAND_MIB`] in launchers, and by up to a thousandth in the files next to the images. Returns `None` for quantities that
/// are not a part of an image, or whose trials include differences between equal runs.
fn min_half_mib(quantity: Quantity, value: f64) -> Option<f64> {
    const PAGE_MIB: f64 = 4096.0 / MIB;
    match quantity {
        Quantity::Dtapp | Quantity::Lb | Quantity::Shmem => Some(2.0 * PAGE_MIB),
        Quantity::Headers => Some(13.0 * PAGE_MIB),
        Quantity::Launchers => Some(LAUNCHERS_BAND_MIB),
        Quantity::Aux => Some(value / 1000.0),
        _ => None,
    }
}

impl Predictor<'_> {
    /// Returns the kind of a prediction of a quantity on a node with `load` processes, and the factor by which it is beyond the runs. Returns
    /// `None` if no run has the quantity.
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
            Quantity::Coordination
                | Quantity::Storage
                | Quantity::Latency
                | Quantity::RestartLatency
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
        // the data zone of such programs is a few pages and has few areas: their errors do not apply to programs with data in this zone
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
            zones: self
                .training
                .items()
                .iter()
                .find_map(|o| Some(o.environment.as_ref()?.zones)),
            basis,
        };
        Some((kind, reach))
    }

    /// Widens the interval of an answer to the interval that follows from the same kind of predictions for other programs.
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
        // laws in the problem size are tried on other sizes of the program itself, which the table does not contain
        if prediction.model.tier == Tier::Published || prediction.is_of_sizes() {
            return answered;
        }
        if self.calibration.is_empty() {
            return answered;
        }
        let Some((kind, reach)) = self.kind_of_pool(quantity, question, load, answered.of_own_runs)
        else {
            return answered;
        };
        let doubt = self.doubt(quantity, question, reach, prediction);
        let value = prediction.estimate.value;
        if let Some(mut calibrated) = self.calibration.interval(kind, value, &doubt) {
            let own_error = conformal::own_error(&doubt.left_out, 0.0);
            if quantity == Quantity::Lb {
                // all trials have the same libraries, with zones by the structural rule; if the sizes of own runs differ, their error is used
                let half = own_error.unwrap_or(0.0) * value;
                calibrated.estimate = at_least(calibrated.estimate, half).not_negative();
            }
            let before = prediction.estimate;
            // trials contain the joint errors of the parts of a sum, and are on one node; their interval is used unless the parts are far less
            // certain than in trials
            let own_half = if quantity == Quantity::Image {
                prediction.own_half
            } else {
                before.half_width()
            };
            let calibrated_half = calibrated.estimate.half_width().unwrap_or(0.0);
            let sure_half = calibrated_half.max(MIN_RELATIVE_ERROR * value.abs());
            // the image of a rank has the same zones on any number of nodes; launchers and files next to the images do not
            let is_alike = quantity == Quantity::Image
                || quantity == Quantity::Stored && question.setting.mapping.nodes() == 1;
            let tried = is_alike
                && !prediction.spans_laws
                && own_half.unwrap_or(0.0) <= FAR_LESS_CERTAIN * sure_half
                // the trials contain the scatter of other programs
                || quantity == Quantity::Lb && kind.basis == Basis::OtherPrograms;
            let own = if tried || prediction.own_half.is_none() {
                Estimate::bare(before.value)
            } else {
                before
            };
            prediction.estimate = calibration::widened(own, calibrated.estimate);
            if let Some(least) = min_half_mib(quantity, value) {
                prediction.estimate = at_least(prediction.estimate, least).not_negative();
            }
            if prediction.estimate != before {
                let (half, trials) = (
                    100.0 * calibrated_half / value.abs().max(f64::MIN_POSITIVE),
                    calibrated.trials,
                );
                let programs = if calibrated.programs == 1 {
                    "program".to_owned()
                } else {
                    format!("{} programs", calibrated.programs)
                };
                let own = own_error.map(|own| {
                    format!(
                        " and errors of up to {:.2} % at left-out own runs",
                        100.0 * own
                    )
                });
                prediction.reason += &format!(
                    "; the mean half-width of its interval is {half:.2} %, from {trials} trials with {programs}{}",
                    own.unwrap_or_default()
                );
            }
        }
        answered
    }

    /// Returns whether the zone of shared memory contains the program's data, as for a program that allocates its arrays.
    pub(crate) fn holds_data(&self, question: &Question) -> bool {
        self.programs_with_data(question)
            .contains(&question.setting.app)
    }

    /// Returns the programs whose data are in the zone of shared memory.
    pub(crate) fn programs_with_data(&self, question: &Question) -> BTreeSet<String> {
        let library = self.library(question);
        let mut of_class: BTreeMap<(&str, &str), Vec<(Setting, f64)>> = BTreeMap::new();
        for o in self
            .training
            .items()
            .iter()
            .filter(|o| library(o) && o.load().is_some())
        {
            // the other programs have declared arrays
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
