//! Training and held-out points, kept apart by their types: what was fitted on one half of a split can only be judged on the other half of
//! the same split.
//!
//! Each call of [`split`] makes a lifetime of its own that marks both halves and every fit on them, so that a curve can neither be judged on
//! points of its own training nor on those of another split:
//!
//! ```compile_fail
//! use cvc_lib::model::{Model, Sample, split};
//! fn wrong(samples: Vec<Sample>, model: &dyn Model) {
//!     split(samples, |s| s.at.processes() < 10, |training, _| {
//!         let fitted = training.fit(model).unwrap();
//!         fitted.judge(&training); // training points are no held-out points
//!     });
//! }
//! ```
//!
//! ```compile_fail
//! use cvc_lib::model::{Model, Sample, split};
//! fn wrong(samples: Vec<Sample>, model: &dyn Model) {
//!     split(samples.clone(), |s| s.at.processes() < 10, |training, _| {
//!         split(samples, |s| s.at.processes() > 4, |_, held_out| {
//!             let fitted = training.fit(model).unwrap();
//!             fitted.judge(&held_out); // held out of another split
//!         })
//!     });
//! }
//! ```

use super::{
    curve::{Fitted, Model, ModelInfo, Sample},
    estimate::{Estimate, error_pct},
    fit::FitError,
};
use std::{collections::HashSet, marker::PhantomData};

/// Marks the halves of one split; invariant, so that no two splits can be taken for each other.
type Brand<'s> = PhantomData<fn(&'s ()) -> &'s ()>;

/// Points that models are fitted on.
#[derive(Clone, Debug)]
pub struct Training<'s> {
    samples: Vec<Sample>,
    brand: Brand<'s>,
}

/// Points that models are judged on.
#[derive(Clone, Debug)]
pub struct HeldOut<'s> {
    samples: Vec<Sample>,
    brand: Brand<'s>,
}

/// A curve that was fitted on the training half of a split.
#[derive(Debug)]
pub struct Judgement<'s> {
    /// The model.
    pub info: ModelInfo,
    /// The curve.
    pub curve: Box<dyn Fitted>,
    brand: Brand<'s>,
}

/// One held-out point with what was predicted for it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The point.
    pub sample: Sample,
    /// The prediction, or why there is none.
    pub predicted: Result<Estimate, FitError>,
    /// 100·|predicted − measured|/measured.
    pub error_pct: Option<f64>,
}

/// Divides samples and hands both halves to `body`. Samples with the identifier of a training point never become held-out ones: repeats of a
/// point stay on one side.
pub fn split<R>(
    samples: impl IntoIterator<Item = Sample>,
    trains: impl Fn(&Sample) -> bool,
    body: impl for<'s> FnOnce(Training<'s>, HeldOut<'s>) -> R,
) -> R {
    let (training, rest): (Vec<Sample>, Vec<Sample>) = samples.into_iter().partition(trains);
    let used: HashSet<&str> = training.iter().map(|s| s.id.as_str()).collect();
    let held_out = rest.into_iter().filter(|s| !used.contains(s.id.as_str())).collect();
    body(Training { samples: training, brand: PhantomData }, HeldOut { samples: held_out, brand: PhantomData })
}

impl<'s> Training<'s> {
    /// The points.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Fits a model on all points.
    ///
    /// # Errors
    /// What the model says.
    pub fn fit(&self, model: &dyn Model) -> Result<Judgement<'s>, FitError> {
        let all: Vec<&Sample> = self.samples.iter().collect();
        Ok(Judgement { info: model.info(), curve: model.fit(&all)?, brand: PhantomData })
    }

    /// Fits a model without each of the points in turn and predicts that one.
    pub fn leave_one_out(&self, model: &dyn Model) -> Vec<Judged> {
        let without = |left: usize| -> Judged {
            let others: Vec<&Sample> = self.samples.iter().filter(|s| s.id != self.samples[left].id).collect();
            let sample = self.samples[left].clone();
            judged(sample, |s| model.fit(&others).and_then(|curve| curve.predict(&s.at)).map(|a| a.estimate))
        };
        (0..self.samples.len()).map(without).collect()
    }
}

impl HeldOut<'_> {
    /// The points.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

impl<'s> Judgement<'s> {
    /// Predicts every held-out point of the same split.
    pub fn judge(&self, held_out: &HeldOut<'s>) -> Vec<Judged> {
        held_out.samples.iter().map(|s| judged(s.clone(), |s| self.curve.predict(&s.at).map(|a| a.estimate))).collect()
    }
}

fn judged(sample: Sample, predict: impl FnOnce(&Sample) -> Result<Estimate, FitError>) -> Judged {
    let predicted = predict(&sample);
    let error_pct = predicted.as_ref().ok().and_then(|e| error_pct(e.value, sample.value));
    Judged { sample, predicted, error_pct }
}
