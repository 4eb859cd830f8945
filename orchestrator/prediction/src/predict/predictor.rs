//! Selects the observations that are relevant to a question, and fits models on them.

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

/// Programs from which on most of them tell which one is unlike the others.
const MAJORITY_OF: usize = 3;

/// Programs differ from the middle one by less than this many MiB, or this part of it: by partners of large messages, and by small areas.
const APART: (f64, f64) = (1.0, 0.05);

/// Which observations are taken.
pub(crate) type Pool<'a> = &'a dyn Fn(&Observation) -> bool;

/// What observations have in common that are left out together.
pub(crate) type Alike = fn(&Observation) -> String;

/// What models were fitted on: a quantity, the models by their identifiers, and the observations by their places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FittedOn {
    quantity: Quantity,
    models: Vec<&'static str>,
    observations: Vec<usize>,
}

/// Models fitted on observations. It answers questions; and it judges only observations held out of the same split.
#[derive(Debug)]
pub struct Predictor<'s> {
    pub(crate) training: Training<'s, Observation>,
    fittings: RefCell<BTreeMap<FittedOn, Rc<Result<Fitting<'s>, Refused>>>>,
    pub(crate) calibration: Calibration,
    pub(crate) backtests: RefCell<BTreeMap<(String, String), Rc<Backtest>>>,
}

impl<'s> Predictor<'s> {
    /// Learns from the training half of a split; an empty one leaves what needs no run.
    ///
    /// # Errors
    /// Observations without any quantity.
    pub fn train(training: &Training<'s, Observation>) -> Result<Self, PredictError> {
        Self::train_with(training, Calibration::embedded())
    }

    /// The same, with intervals of a table of one's own; an empty one leaves those that follow from the observations alone.
    ///
    /// # Errors
    /// Observations without any quantity.
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

    /// Whether an observation's library is that of the question: by its name if runs with that name are there, else by its kind.
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

    /// Samples of a pool and their labels: what is [fitted](Observation::fitted) of a quantity.
    ///
    /// What is the same of all classes and programs is grouped by `alike`: samples alike are left out together, or each would be
    /// predicted by its twin of another class, and every curve through both would look perfect.
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

    /// What models fitted on a pool say of a setting.
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

    /// The models fitted on a pool: once for the same models and observations.
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

    /// The same of the widest of several pools whose law does not miss the question's own runs by more than they scatter; else of the last one.
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
        let mut refused = Answered::none("no run tells of it");
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
        // of own runs that no law can be fitted to, the others' is all that there is
        wider.map_or(refused, |wider| answer(&wider, at))
    }

    /// The programs whose values lie apart from those of most others at some number of processes on a node: what they keep themselves says
    /// nothing of other programs.
    pub(crate) fn programs_apart(
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

    /// Number of observations in a pool.
    pub(crate) fn count(&self, holds: impl Fn(&Observation) -> bool) -> usize {
        self.training.items().iter().filter(|o| holds(o)).count()
    }

    /// What has to be said of software that no run tells of.
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

/// What a fitting says of a setting.
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

/// Of own runs on one number of processes, which the law of a wider pool misses: between what they show and what follows from them if they grow
/// as the others do, by the same amount or in the same proportion.
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
        "; other runs, which it contradicts, only show how it may change with the processes";
    answered.warnings.push(format!(
        "{}.{} was only observed with {} processes on a node, and differs from the other runs: a run with another number narrows the interval",
        at.app, at.class, first.at.per_node
    ));
}
