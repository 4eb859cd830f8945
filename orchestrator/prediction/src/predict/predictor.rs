//! Selects the observations that are relevant to a question, and fits models to them.

use super::{
    calibration::{Backtest, Calibration},
    error::PredictError,
    fitting::{Fitting, Refused},
    forecast::{Answered, Forecast},
    observation::Observation,
    question::Question,
};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, Model, Sample, Setting, Training};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Minimum number of programs from which a deviating program can be recognised by majority.
const MAJORITY_OF: usize = 3;

/// Maximum difference of a program from the median one, in MiB and as a fraction of it; the larger of the two applies. Partners of large messages
/// and small areas cause smaller differences.
const APART: (f64, f64) = (1.0, 0.05);

/// A pool: returns whether an observation is selected.
pub(crate) type Pool<'a> = &'a dyn Fn(&Observation) -> bool;

/// Returns a key; observations with equal keys are left out together.
pub(crate) type Alike = fn(&Observation) -> String;

/// Key of a fit: a quantity, the identifiers of the models, and the indices of the observations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FittedOn {
    quantity: Quantity,
    models: Vec<&'static str>,
    observations: Vec<usize>,
}

/// Models fitted to observations. It answers questions, and can only be judged on observations held out of the same split.
#[derive(Debug)]
pub struct Predictor<'s> {
    pub(crate) training: Training<'s, Observation>,
    fittings: RefCell<BTreeMap<FittedOn, Rc<Result<Fitting<'s>, Refused>>>>,
    pub(crate) calibration: Calibration,
    pub(crate) backtests: RefCell<BTreeMap<(String, String), Rc<Backtest>>>,
}

impl<'s> Predictor<'s> {
    /// Trains on the training half of a split; with no observations, only predictions that need no run remain.
    ///
    /// # Errors
    /// The observations have no quantities.
    pub fn train(training: &Training<'s, Observation>) -> Result<Self, PredictError> {
        Self::train_with(training, Calibration::embedded())
    }

    /// Trains like [`Self::train`], but with another table of intervals. With an empty table, intervals follow from the observations alone.
    ///
    /// # Errors
    /// The observations have no quantities.
    pub fn train_with(
        training: &Training<'s, Observation>,
        calibration: Calibration,
    ) -> Result<Self, PredictError> {
        if let Some(bare) = training.items().iter().find(|o| o.quantities.is_empty()) {
            return Err(PredictError::Model {
                message: format!("no quantity was observed at {} ({})", bare.label, bare.id),
                hint: "leave it out, or give at least one quantity".into(),
            });
        }
        Ok(Self {
            training: training.clone(),
            fittings: RefCell::default(),
            calibration,
            backtests: RefCell::default(),
        })
    }

    /// Returns a function that checks whether an observation has the question's library: by name if there are runs with that name, otherwise by
    /// kind.
    pub(crate) fn library<'q>(
        &self,
        question: &'q Question,
    ) -> impl Fn(&Observation) -> bool + Copy + use<'q, 's> {
        let named = self
            .training
            .items()
            .iter()
            .any(|o| o.setting.mpi_name == question.setting.mpi_name);
        move |o: &Observation| {
            if named {
                o.setting.mpi_name == question.setting.mpi_name
            } else {
                o.setting.mpi == question.setting.mpi
            }
        }
    }

    /// Returns the samples of a pool and their labels: the [fitted](Observation::fitted) values of a quantity.
    ///
    /// Observations with the same key `alike` are left out together when errors are estimated. Some values are equal for all classes and programs: if
    /// only one of them were left out, the others would predict it exactly, and the estimated error would be too small.
    fn samples(
        &self,
        quantity: Quantity,
        pool: Pool<'_>,
        alike: Alike,
    ) -> (Training<'s>, Vec<String>) {
        let value = |o: &Observation| o.fitted(quantity).filter(|_| pool(o));
        let items = self.training.items().iter();
        let labels = items
            .filter(|o| value(o).is_some())
            .map(|o| o.label.clone());
        let sample = |o: &Observation| {
            let sample = value(o).map(|value| Sample {
                id: alike(o),
                at: o.model_setting(),
                value,
            });
            sample.into_iter().collect()
        };
        (self.training.samples_of(sample), labels.collect())
    }

    /// Predicts a quantity at a setting by models fitted to a pool.
    pub(crate) fn ask(
        &self,
        quantity: Quantity,
        models: Vec<Box<dyn Model>>,
        pool: Pool<'_>,
        alike: Alike,
        at: &Setting,
    ) -> Answered {
        answer(&self.fitting(quantity, models, pool, alike), at)
    }

    /// Returns the models fitted to a pool. The result is cached for the same models and observations.
    fn fitting(
        &self,
        quantity: Quantity,
        models: Vec<Box<dyn Model>>,
        pool: Pool<'_>,
        alike: Alike,
    ) -> Rc<Result<Fitting<'s>, Refused>> {
        let items = self.training.items().iter().enumerate();
        let key = FittedOn {
            quantity,
            models: models.iter().map(|model| model.info().id).collect(),
            observations: items
                .filter(|(_, o)| pool(o) && o.fitted(quantity).is_some())
                .map(|(place, _)| place)
                .collect(),
        };
        let known = self.fittings.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let (training, labels) = self.samples(quantity, pool, alike);
            let fitting = Rc::new(Fitting::new(models, &training, labels));
            self.fittings.borrow_mut().insert(key, Rc::clone(&fitting));
            fitting
        })
    }

    /// Predicts like [`Self::ask`], from the first of several pools whose law does not contradict the runs in `own`. Pools are ordered from the
    /// widest to the narrowest; the last one is used even if its law contradicts these runs.
    pub(crate) fn ask_widest(
        &self,
        quantity: Quantity,
        models: impl Fn() -> Vec<Box<dyn Model>>,
        pools: &[Pool<'_>],
        own: Pool<'_>,
        alike: Alike,
        at: &Setting,
    ) -> Answered {
        let own = self.samples(quantity, own, alike).0;
        let own: Vec<&Sample> = own.items().iter().collect();
        let mut wider: Option<Rc<Result<Fitting<'s>, Refused>>> = None;
        let mut refused = Answered::none("no run shows it");
        for (place, pool) in pools.iter().enumerate() {
            let fitting = self.fitting(quantity, models(), *pool, alike);
            let is_last = place + 1 == pools.len();
            match fitting.as_ref() {
                Ok(fitted) if !is_last && fitted.misses(&own) => {
                    wider.get_or_insert(fitting);
                }
                Ok(_) => {
                    let mut answered = answer(&fitting, at);
                    if let Some(wider) = wider {
                        answered.of_own_runs = true;
                        between_own_and_others(&mut answered, &own, |at| answer(&wider, at), at);
                    }
                    return answered;
                }
                Err(_) => refused = answer(&fitting, at),
            }
        }
        // if no law can be fitted to own runs, that of the wider pool is used
        wider.map_or(refused, |wider| answer(&wider, at))
    }

    /// Returns the programs whose values deviate from those of most others at some number of processes on a node. These programs are not used to
    /// predict other programs.
    pub(crate) fn deviating_programs(
        &self,
        quantity: Quantity,
        holds: impl Fn(&Observation) -> bool,
    ) -> BTreeSet<String> {
        let mut of_load: BTreeMap<Option<u32>, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for o in self.training.items().iter().filter(|o| holds(o)) {
            if let Some(value) = o.fitted(quantity) {
                let programs = of_load.entry(o.load()).or_default();
                programs.entry(&o.setting.app).or_default().push(value);
            }
        }
        let mut apart = BTreeSet::new();
        for programs in of_load.into_values().filter(|p| p.len() >= MAJORITY_OF) {
            let means: Vec<(&str, f64)> = programs
                .into_iter()
                .map(|(app, of)| (app, of.iter().sum::<f64>() / of.len() as f64))
                .collect();
            let mut sorted: Vec<f64> = means.iter().map(|(_, mean)| *mean).collect();
            sorted.sort_by(f64::total_cmp);
            let middle = sorted[sorted.len() / 2];
            let is_apart = |mean: f64| (mean - middle).abs() > APART.0.max(APART.1 * middle);
            let of_load = means.into_iter().filter(|(_, mean)| is_apart(*mean));
            apart.extend(of_load.map(|(app, _)| app.to_owned()));
        }
        apart
    }

    /// Returns the number of observations in a pool.
    pub(crate) fn count(&self, holds: impl Fn(&Observation) -> bool) -> usize {
        self.training.items().iter().filter(|o| holds(o)).count()
    }

    /// Returns warnings about software without any run.
    pub(crate) fn about_software(&self, question: &Question) -> Vec<String> {
        let observed: BTreeSet<&str> = self
            .training
            .items()
            .iter()
            .map(|o| o.setting.mpi_name.as_str())
            .collect();
        if observed.is_empty() {
            let message = "no run was observed: sizes are those of DMTCP 2, which stores declared arrays completely, and of the MPI libraries of its time; today's images leave out pages that were never written, and have more libraries and headers";
            return vec![message.to_owned()];
        }
        if self.count(self.library(question)) > 0 {
            return Vec::new();
        }
        let names: Vec<&str> = observed.into_iter().collect();
        vec![format!(
            "no run with {} was observed; there are runs with {}",
            question.setting.mpi_name,
            names.join(", ")
        )]
    }
}

/// Returns the prediction of fitted models at a setting.
fn answer(fitting: &Rc<Result<Fitting<'_>, Refused>>, at: &Setting) -> Answered {
    match fitting
        .as_ref()
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|f| f.answer(at))
    {
        Ok((prediction, warnings)) => Answered::with(prediction, warnings),
        Err(Refused {
            reason,
            models,
            too_few,
        }) => Answered {
            refused: models,
            too_few,
            ..Answered::none(reason)
        },
    }
}

/// Widens the interval of a prediction from own runs on one number of processes, if the law of a wider pool contradicts them. The interval contains
/// the observed value. It also contains two values for a growth like that of the wider pool: by the same amount, and in the same proportion.
fn between_own_and_others(
    answered: &mut Answered,
    own: &[&Sample],
    others: impl Fn(&Setting) -> Answered,
    at: &Setting,
) {
    let Some(first) = own.first() else { return };
    if first.at.per_node == at.per_node || own.iter().any(|s| s.at.per_node != first.at.per_node) {
        return;
    }
    let value = |at: &Setting| others(at).forecast.estimate().ok().map(|e| e.value);
    let (Forecast::Predicted(prediction), Some(there), Some(here)) =
        (&mut answered.forecast, value(at), value(&first.at))
    else {
        return;
    };
    let seen = own.iter().map(|s| s.value).sum::<f64>() / own.len() as f64;
    let in_proportion = if here > 0.0 {
        seen * there / here
    } else {
        seen
    };
    let ends = [seen, (seen + there - here).max(0.0), in_proportion];
    let (low, high) = ends
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), v| {
            (low.min(*v), high.max(*v))
        });
    prediction.estimate = Estimate::between(in_proportion, low, high);
    prediction.own_half = prediction.estimate.half_width();
    prediction.spans_laws = true;
    prediction.reason +=
        "; it contradicts the other runs, which only show how it may change with the processes";
    answered.warnings.push(format!(
        "{}.{} was only observed with {} processes on a node, and differs from the other runs: a run with another number narrows the interval",
        at.app, at.class, first.at.per_node
    ));
}
