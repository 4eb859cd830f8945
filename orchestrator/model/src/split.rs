//! Training and held-out points as different types: a curve fitted to one half of a split can only be judged on the other half of the same split.
//!
//! Each call of [`split`] creates a lifetime that marks both halves and every fit. A curve therefore cannot be judged on its own training points,
//! and not on points of another split. This compiles:
//!
//! ```
//! use cvc_model::{FitError, Judged, Model, Sample, split};
//! fn right(samples: Vec<Sample>, model: &dyn Model) -> Result<Vec<Judged>, FitError> {
//!     split(samples, |s| s.at.processes() < 10, |training, held_out| Ok(training.fit(model)?.judge(&held_out)))
//! }
//! ```
//!
//! These do not:
//!
//! ```compile_fail
//! use cvc_model::{Model, Sample, split};
//! fn wrong(samples: Vec<Sample>, model: &dyn Model) {
//!     split(samples, |s| s.at.processes() < 10, |training, _| {
//!         let fitted = training.fit(model).unwrap();
//!         fitted.judge(&training); // training points are not held-out points
//!     });
//! }
//! ```
//!
//! ```compile_fail
//! use cvc_model::{Model, Sample, split};
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

/// Marks the halves of one split with its lifetime. The lifetime is invariant, so that two splits cannot be mixed up.
type Brand<'s> = PhantomData<fn(&'s ()) -> &'s ()>;

/// An item with a unique identifier.
pub trait Identified {
    /// Returns the identifier of a point or a run, or the name of a table's row.
    fn id(&self) -> &str;
}

impl Identified for Sample {
    fn id(&self) -> &str {
        &self.id
    }
}

/// The points that models are fitted to: samples of one quantity, or whole observations from which samples are extracted.
#[derive(Clone, Debug)]
pub struct Training<'s, T = Sample> {
    items: Vec<T>,
    brand: Brand<'s>,
}

/// The points on which models are judged.
#[derive(Clone, Debug)]
pub struct HeldOut<'s, T = Sample> {
    items: Vec<T>,
    brand: Brand<'s>,
}

/// A curve that was fitted to the training half of a split.
#[derive(Debug)]
pub struct Judgement<'s> {
    /// The model.
    pub info: ModelInfo,
    /// The curve.
    pub curve: Box<dyn Fitted>,
    brand: Brand<'s>,
}

/// One held-out point with its prediction.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The point.
    pub sample: Sample,
    /// The prediction, or the reason why there is none.
    pub predicted: Result<Estimate, FitError>,
    /// 100·|predicted − measured|/measured; `None` without a prediction.
    pub error_pct: Option<f64>,
}

/// Divides items and passes both halves to `body`. Items with the identifier of a training point never become held-out points, so that all repeats
/// of a point are in the same half.
pub fn split<T: Identified, R>(
    items: impl IntoIterator<Item = T>,
    trains: impl Fn(&T) -> bool,
    body: impl for<'s> FnOnce(Training<'s, T>, HeldOut<'s, T>) -> R,
) -> R {
    let (training, rest): (Vec<T>, Vec<T>) = items.into_iter().partition(trains);
    let used: HashSet<&str> = training.iter().map(Identified::id).collect();
    let held_out = rest
        .into_iter()
        .filter(|s| !used.contains(s.id()))
        .collect();
    body(
        Training {
            items: training,
            brand: PhantomData,
        },
        HeldOut {
            items: held_out,
            brand: PhantomData,
        },
    )
}

impl<'s, T> Training<'s, T> {
    /// Returns the points.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the samples of one quantity as training points of the same split.
    pub fn samples_of(&self, quantity: impl Fn(&T) -> Vec<Sample>) -> Training<'s> {
        Training {
            items: self.items.iter().flat_map(quantity).collect(),
            brand: PhantomData,
        }
    }
}

impl<'s, T: Clone> Training<'s, T> {
    /// Returns the points for which `holds` is true, as training points of the same split. Models fitted to them can be tried on the other points.
    pub fn only(&self, holds: impl Fn(&T) -> bool) -> Self {
        Training {
            items: self
                .items
                .iter()
                .filter(|item| holds(item))
                .cloned()
                .collect(),
            brand: PhantomData,
        }
    }
}

impl<'s, T> HeldOut<'s, T> {
    /// Returns the points.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the samples of one quantity as held-out points of the same split.
    pub fn samples_of(&self, quantity: impl Fn(&T) -> Vec<Sample>) -> HeldOut<'s> {
        HeldOut {
            items: self.items.iter().flat_map(quantity).collect(),
            brand: PhantomData,
        }
    }
}

impl<'s> Training<'s> {
    /// Fits a model to all points.
    ///
    /// # Errors
    /// The model cannot be fitted.
    pub fn fit(&self, model: &dyn Model) -> Result<Judgement<'s>, FitError> {
        let all: Vec<&Sample> = self.items.iter().collect();
        Ok(Judgement {
            info: model.info(),
            curve: model.fit(&all)?,
            brand: PhantomData,
        })
    }

    /// Leaves out each point in turn, fits the model to the others, and predicts the left-out point. Points with the same identifier are left out
    /// together. Callers give the same identifier to points that must not predict each other: if two classes of a program have the same value, any
    /// curve through one of them would predict the other perfectly, however badly it extrapolates.
    pub fn leave_one_out(&self, model: &dyn Model) -> Vec<Judged> {
        let without = |left: usize| -> Judged {
            let others: Vec<&Sample> = self
                .items
                .iter()
                .filter(|s| s.id != self.items[left].id)
                .collect();
            let sample = self.items[left].clone();
            judged(sample, |s| {
                model
                    .fit(&others)
                    .and_then(|curve| curve.predict(&s.at))
                    .map(|a| a.estimate)
            })
        };
        (0..self.items.len()).map(without).collect()
    }
}

impl<'s> Judgement<'s> {
    /// Predicts every held-out point of the same split.
    pub fn judge(&self, held_out: &HeldOut<'s>) -> Vec<Judged> {
        held_out
            .items
            .iter()
            .map(|s| judged(s.clone(), |s| self.curve.predict(&s.at).map(|a| a.estimate)))
            .collect()
    }
}

fn judged(sample: Sample, predict: impl FnOnce(&Sample) -> Result<Estimate, FitError>) -> Judged {
    let predicted = predict(&sample);
    let error_pct = predicted
        .as_ref()
        .ok()
        .and_then(|e| error_pct(e.value, sample.value));
    Judged {
        sample,
        predicted,
        error_pct,
    }
}
