//! Selects the observations that are relevant to a question, and fits models on them.

use super::{
    calibration::{self, Backtest, Calibration, DataPlace, From, Kind},
    curves::at_least,
    error::PredictError,
    fitting::{Fitting, Refused, short_of_runs},
    forecast::{Forecast, Prediction},
    observation::Observation,
    question::Question,
    registry,
    setting::RunSetting,
};
use cvc_core::quantity::Quantity;
use cvc_core::units::MIB;
use cvc_model::{Estimate, Model, Sample, Setting, Tier, Training, shmem};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Points of its own class from which on an application is modelled by them alone; below, classes are taken together where a model knows
/// how they differ.
const ENOUGH_OF_A_CLASS: usize = 4;

/// How many times wider than the table's an interval of a sum of parts is that is not replaced by it: these parts are like no trial's.
const FAR_LESS_CERTAIN: f64 = 5.0;

/// Zones differ by some pages from run to run and from count to count, MiB: no interval of one is narrower, however exact its trials were.
const FEW_PAGES_MIB: f64 = 5.0 * 4096.0 / MIB;

/// Programs from which on most of them tell which one is unlike the others.
const MAJORITY_OF: usize = 3;

/// Programs differ from the middle one by less than this many MiB, or this part of it: by partners of large messages, and by small areas.
const APART: (f64, f64) = (1.0, 0.05);

/// Which observations are taken.
pub(super) type Pool<'a> = &'a dyn Fn(&Observation) -> bool;

/// Models fitted on observations. It answers questions; and it judges only observations held out of the same split.
#[derive(Debug)]
pub struct Predictor<'s> {
    pub(super) training: Training<'s, Observation>,
    fittings: RefCell<BTreeMap<String, Rc<Result<Fitting<'s>, Refused>>>>,
    pub(super) calibration: Calibration,
    pub(super) backtests: RefCell<BTreeMap<(String, String), Rc<Backtest>>>,
}

/// An answer with its warnings.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub forecast: Forecast,
    pub warnings: Vec<String>,
    /// The reasons of each model, if the outcome only summarises them.
    pub refused: Vec<String>,
    /// Runs that there are and that are needed, if that is why.
    pub too_few: Option<(usize, usize)>,
    /// Whether it follows from runs of the program alone because they contradict those of others.
    pub of_own_runs: bool,
}

impl Answered {
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            forecast: Forecast::NoPrediction(reason.into()),
            warnings: Vec::new(),
            refused: Vec::new(),
            too_few: None,
            of_own_runs: false,
        }
    }

    pub fn of(prediction: Prediction) -> Self {
        Self::with(prediction, Vec::new())
    }

    pub fn with(prediction: Prediction, warnings: Vec<String>) -> Self {
        Self {
            forecast: Forecast::Predicted(prediction),
            warnings,
            refused: Vec::new(),
            too_few: None,
            of_own_runs: false,
        }
    }
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
    pub(super) fn library<'q>(
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

    /// Samples of a pool and their labels; `value` may leave out an observation.
    ///
    /// What is the same of all classes and programs is told apart by `comparable`: samples alike are left out together, or each would be
    /// predicted by its twin of another class, and every curve through both would look perfect.
    pub(super) fn samples(
        &self,
        holds: impl Fn(&Observation) -> bool,
        value: impl Fn(&Observation) -> Option<f64>,
        comparable: impl Fn(&Observation) -> String,
    ) -> (Training<'s>, Vec<String>) {
        let of = |o: &Observation| value(o).filter(|_| holds(o));
        let labels = self
            .training
            .items()
            .iter()
            .filter(|o| of(o).is_some())
            .map(|o| o.label.clone())
            .collect();
        let sample = |o: &Observation| {
            of(o)
                .map(|value| Sample {
                    id: comparable(o),
                    at: o.model_setting(),
                    value,
                })
                .into_iter()
                .collect()
        };
        (self.training.samples_of(sample), labels)
    }

    /// What models fitted on a pool say of a setting. Fits once for each key.
    pub(super) fn ask(
        &self,
        key: String,
        models: impl FnOnce() -> Vec<Box<dyn Model>>,
        samples: impl FnOnce() -> (Training<'s>, Vec<String>),
        at: &Setting,
    ) -> Answered {
        answer(&self.fitting(key, models, samples), at)
    }

    fn fitting(
        &self,
        key: String,
        models: impl FnOnce() -> Vec<Box<dyn Model>>,
        samples: impl FnOnce() -> (Training<'s>, Vec<String>),
    ) -> Rc<Result<Fitting<'s>, Refused>> {
        let known = self.fittings.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let (training, labels) = samples();
            let fitting = Rc::new(Fitting::new(models(), &training, labels));
            self.fittings.borrow_mut().insert(key, Rc::clone(&fitting));
            fitting
        })
    }

    /// The same of the widest of several pools, named by their keys, whose law does not miss the question's own runs by more than they scatter;
    /// else of the last one.
    pub(super) fn ask_widest(
        &self,
        pools: &[(String, Pool<'_>)],
        own: Pool<'_>,
        models: impl Fn() -> Vec<Box<dyn Model>>,
        value: impl Fn(&Observation) -> Option<f64> + Copy,
        comparable: impl Fn(&Observation) -> String + Copy,
        at: &Setting,
    ) -> Answered {
        let own = self.samples(own, value, comparable).0;
        let own: Vec<&Sample> = own.items().iter().collect();
        let mut wider: Option<Rc<Result<Fitting<'s>, Refused>>> = None;
        let mut refused = Answered::none("no run tells of it");
        for (place, (key, pool)) in pools.iter().enumerate() {
            let fitting = self.fitting(key.clone(), &models, || {
                self.samples(pool, value, comparable)
            });
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
    pub(super) fn programs_apart(
        &self,
        holds: impl Fn(&Observation) -> bool,
        value: impl Fn(&Observation) -> Option<f64>,
    ) -> BTreeSet<String> {
        let mut of_load: BTreeMap<Option<u32>, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for o in self.training.items().iter().filter(|o| holds(o)) {
            if let Some(value) = value(o) {
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
    pub(super) fn count(&self, holds: impl Fn(&Observation) -> bool) -> usize {
        self.training.items().iter().filter(|o| holds(o)).count()
    }

    /// What has to be said of software that no run tells of.
    pub(super) fn about_software(&self, question: &Question) -> Vec<String> {
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

    /// Whether any run with the library tells of a zone: only then may a published size of it stand beside what was observed.
    pub(super) fn tells_of(&self, zone: Quantity, question: &Question) -> bool {
        let library = self.library(question);
        self.count(|o| library(o) && zone_value(o, zone).is_some()) > 0
    }

    /// A zone of an image on a node with `load` processes.
    pub(super) fn zone(&self, zone: Quantity, question: &Question, load: u32) -> Answered {
        let at = question.setting.on_node(load);
        let answered = if zone == Quantity::Dtapp {
            self.data(question, &at)
        } else {
            self.shared_zone(zone, question, &at)
        };
        self.calibrated(zone, question, load, answered)
    }

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
        let usable = || {
            self.training
                .items()
                .iter()
                .filter(|o| library(o) && zone_value(o, quantity).is_some())
        };
        let own = || usable().filter(|o| o.setting.app == question.setting.app);
        let own_class = || own().filter(|o| o.setting.class == question.setting.class);
        let sum = matches!(quantity, Quantity::Image | Quantity::Stored)
            || quantity == Quantity::Shmem && self.holds_data(question);
        let per_node = !matches!(quantity, Quantity::Dtapp | Quantity::Headers) && !sum;
        let asked = if per_node {
            load
        } else {
            question.setting.mapping.processes()
        };
        let is_time = matches!(
            quantity,
            Quantity::Coordination | Quantity::Storage | Quantity::Latency
        );
        let every_program = is_time || matches!(quantity, Quantity::Launchers | Quantity::Aux);
        let (from, counts) = match quantity {
            _ if every_program && !of_own_runs => {
                (From::Own, calibration::counts(usable(), per_node))
            }
            _ if (sum || quantity == Quantity::Dtapp) && own_class().next().is_some() => {
                (From::Own, calibration::counts(own_class(), per_node))
            }
            _ if (sum || quantity == Quantity::Dtapp) && own().next().is_some() => {
                (From::OtherClass, calibration::counts(own(), per_node))
            }
            _ if own().next().is_some() => (From::Own, calibration::counts(own(), per_node)),
            _ => (From::OtherPrograms, calibration::counts(usable(), per_node)),
        };
        if counts.is_empty() {
            return None;
        }
        let is_of_all_counts = is_time || sum && self.holds_data(question);
        let (basis, reach) = calibration::basis_of(&counts, asked, from, !is_of_all_counts);
        let data = match () {
            // of such programs the data zone is a few pages and has few areas: their errors tell nothing of programs with data there
            () if matches!(
                quantity,
                Quantity::Dtapp
                    | Quantity::Headers
                    | Quantity::Shmem
                    | Quantity::Image
                    | Quantity::Stored
            ) && self.holds_data(question) =>
            {
                DataPlace::Shared
            }
            () if !per_node && question.setting.on_node(load).nas.is_some() => DataPlace::Known,
            () => DataPlace::Unknown,
        };
        Some((
            Kind {
                quantity,
                mpi: question.setting.mpi,
                data,
                basis,
            },
            reach,
        ))
    }

    /// An answer with an interval that is at least as wide as such predictions need for programs that they have not seen.
    pub(super) fn calibrated(
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

    /// The application's data: of its own class, or of all classes where a model knows how they differ.
    fn data(&self, question: &Question, at: &Setting) -> Answered {
        let library = self.library(question);
        let of_app = |o: &Observation| {
            o.value(Quantity::Dtapp).is_some()
                && o.setting.app == question.setting.app
                && library(o)
        };
        // a process alone exchanges nothing: it leaves untouched, and out of its image, what others write to
        let comparable = |o: &Observation| {
            of_app(o) && (o.setting.mapping.processes() == 1) == (at.processes() == 1)
        };
        // a program whose arrays are not known has no other model of them: its run on one process tells most
        let apart = at.nas.is_some() && self.count(comparable) >= ENOUGH_OF_A_CLASS;
        let seen = |o: &Observation| if apart { comparable(o) } else { of_app(o) };
        let (of_class, of_all) = (
            self.count(|o| seen(o) && o.setting.class == question.setting.class),
            self.count(seen),
        );
        if of_all == 0 && at.nas.is_some() && !self.training.items().is_empty() {
            return self.data_of_no_run(question, at);
        }
        let carries = at.nas.is_some() && of_class < ENOUGH_OF_A_CLASS;
        let class = if carries {
            "*"
        } else {
            question.setting.class.as_str()
        };
        let alone = apart && at.processes() == 1;
        let key = format!(
            "{} {}.{class} {} {apart} {alone}",
            Quantity::Dtapp,
            question.setting.app,
            question.setting.mpi_name
        );
        let holds =
            |o: &Observation| seen(o) && (carries || o.setting.class == question.setting.class);
        let mut answered = self.ask(
            key,
            || registry::models(Quantity::Dtapp),
            || {
                self.samples(
                    holds,
                    |o| o.value(Quantity::Dtapp),
                    |o: &Observation| o.setting.label(),
                )
            },
            at,
        );
        match &mut answered.forecast {
            Forecast::NoPrediction(reason) if of_class == 0 => {
                let (others, runs) = (of_all > 0, if of_all == 1 { "run" } else { "runs" });
                let others = if others {
                    format!(", only of other classes ({of_all} {runs})")
                } else {
                    String::new()
                };
                *reason = format!(
                    "no run of {}.{} on {} was observed{others}: {reason}",
                    question.setting.app, question.setting.class, question.setting.mpi_name
                );
            }
            Forecast::NoPrediction(reason) => {
                if let Some((found, needed)) = answered.too_few {
                    *reason = short_of_runs(
                        found,
                        &format!(
                            " of {}.{class} on {}",
                            question.setting.app, question.setting.mpi_name
                        ),
                        needed,
                    );
                }
            }
            Forecast::Predicted(_) if of_class == 0 && of_all > 0 => {
                answered.warnings.push(format!(
                    "class {} of {} was not observed: its data are derived from other classes, and the interval does not cover differences between classes",
                    question.setting.class, question.setting.app
                ));
            }
            Forecast::Predicted(_) => {}
        }
        answered
    }

    /// The data of a benchmark that was not observed, by what its source tells. Which pages of its arrays an image holds is the
    /// checkpointer's way, not the program's: runs of other benchmarks tell it.
    fn data_of_no_run(&self, question: &Question, at: &Setting) -> Answered {
        let told =
            |o: &Observation| o.value(Quantity::Dtapp).is_some() && o.model_setting().nas.is_some();
        let (library, alone) = (self.library(question), |o: &Observation| {
            o.setting.mapping.processes() == 1
        });
        // from the runs that are most like the question to all that there are
        let near = |o: &Observation| told(o) && library(o) && alone(o) == (at.processes() == 1);
        let with_library = |o: &Observation| told(o) && library(o);
        let pools: [(&str, Pool<'_>); 3] =
            [("near", &near), ("library", &with_library), ("all", &told)];
        let sources = || {
            registry::models(Quantity::Dtapp)
                .into_iter()
                .filter(|m| m.info().tier == Tier::NoRun)
                .collect::<Vec<_>>()
        };
        let unseen = format!(
            "application data: no run of {} on {} was observed",
            question.setting.app, question.setting.mpi_name
        );
        let Some((scope, pool)) = pools.into_iter().find(|(_, pool)| self.count(pool) > 0) else {
            let mut answered = self.ask(
                "data of no run".into(),
                sources,
                || self.samples(|_| false, |_| None, |o: &Observation| o.setting.label()),
                at,
            );
            if let Forecast::Predicted(prediction) = &mut answered.forecast {
                prediction.estimate = spanning(prediction);
                prediction.reason += "; its interval covers all models that need no run, because no run shows which of them holds";
            }
            answered.warnings.push(format!(
                "{unseen}, and no run of another benchmark shows whether images contain pages that were never written: using its declared arrays"
            ));
            return answered;
        };
        let key = format!(
            "data of no run {} {scope} {}",
            question.setting.mpi_name,
            at.processes() == 1
        );
        let mut answered = self.ask(
            key,
            sources,
            || {
                self.samples(
                    pool,
                    |o| o.value(Quantity::Dtapp),
                    |o: &Observation| o.setting.label(),
                )
            },
            at,
        );
        match &mut answered.forecast {
            Forecast::NoPrediction(reason) => {
                *reason = format!(
                    "no run of {} on {} was observed: {reason}",
                    question.setting.app, question.setting.mpi_name
                )
            }
            Forecast::Predicted(_) => {
                let runs = self.count(pool);
                let runs = if runs == 1 {
                    "one run".to_owned()
                } else {
                    format!("{runs} runs")
                };
                answered.warnings.push(format!(
                    "{unseen}: its data are derived from its source, by the model that agrees with {runs} of other benchmarks"
                ));
            }
        }
        answered
    }

    /// A zone that does not depend on the class by any known law: all classes are taken together.
    fn shared_zone(&self, zone: Quantity, question: &Question, at: &Setting) -> Answered {
        let library = self.library(question);
        let name = &question.setting.mpi_name;
        if zone == Quantity::Shmem && self.holds_data(question) {
            return self.shared_with_data(question, at);
        }
        // with one process on a node the libraries share nothing: that is another regime, from which nothing follows for more processes
        let regime = |o: &Observation| {
            zone == Quantity::Headers || o.load().is_some_and(|l| (l == 1) == (at.per_node == 1))
        };
        let value = |o: &Observation| zone_value(o, zone);
        // what other programs allocate says nothing of this one
        let foreign = if zone == Quantity::Shmem {
            let mut foreign = self.programs_with_data(question);
            foreign.extend(self.programs_apart(
                |o| library(o) && regime(o) && !foreign.contains(&o.setting.app),
                value,
            ));
            foreign
        } else {
            BTreeSet::new()
        };
        let own = |o: &Observation| library(o) && o.setting.app == question.setting.app;
        let any = |o: &Observation| {
            library(o)
                && zone_value(o, zone).is_some()
                && (own(o) || !foreign.contains(&o.setting.app))
        };
        let own_class =
            |o: &Observation| own(o) && o.setting.class == question.setting.class && regime(o);
        let (scope, warning) = self.zone_scope(zone, question, at);
        let mut scopes = vec![scope];
        // classes of a program share a law unless their own runs contradict it
        if matches!(scopes[0], ZoneScope::Program(_))
            && zone != Quantity::Headers
            && self.count(own_class) > 0
        {
            let RunSetting { app, class, .. } = &question.setting;
            scopes.push(ZoneScope::Class(format!("{app}.{class}")));
        }
        let holds = |scope: &ZoneScope| {
            let scope = scope.clone();
            move |o: &Observation| {
                any(o)
                    && match &scope {
                        ZoneScope::Class(_) => own_class(o),
                        ZoneScope::Program(_) => own(o) && regime(o),
                        ZoneScope::OtherRegime(_) => own(o) && o.load().is_some(),
                        ZoneScope::AnyProgram => regime(o),
                        ZoneScope::NoRuns => false,
                    }
            }
        };
        let mut answered = self.ask_zone(zone, name, &scopes, &own_class, at, holds);
        if let Forecast::Predicted(prediction) = &mut answered.forecast
            && prediction.estimate.interval.is_none()
        {
            // as many runs as parameters tell nothing of the error; how far runs of all programs lie from the same curve does
            let of_all = self
                .ask_zone(zone, name, &[ZoneScope::AnyProgram], &own_class, at, holds)
                .forecast
                .estimate();
            if let Some(half) = of_all.ok().and_then(Estimate::half_width) {
                prediction.estimate = Estimate::plus_minus(prediction.estimate.value, half);
                prediction.reason += "; its interval is that of all programs with the library";
            }
        }
        if let Forecast::NoPrediction(reason) = &mut answered.forecast
            && self.count(any) == 0
        {
            *reason = format!("{} with {name} was not observed: {reason}", zone.title());
        }
        answered.warnings.extend(warning);
        answered
    }

    /// Whether images of the program hold its data beside shared memory, as those of a program that allocates its arrays do.
    fn holds_data(&self, question: &Question) -> bool {
        self.programs_with_data(question)
            .contains(&question.setting.app)
    }

    /// The programs of which this is so.
    fn programs_with_data(&self, question: &Question) -> BTreeSet<String> {
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

    /// Shared memory with the program's data: of its own class alone, on any number of processes.
    fn shared_with_data(&self, question: &Question, at: &Setting) -> Answered {
        let library = self.library(question);
        let RunSetting {
            app,
            class,
            mpi_name,
            ..
        } = &question.setting;
        let own = |o: &Observation| {
            library(o)
                && o.setting.app == *app
                && o.setting.class == *class
                && o.load().is_some()
                && o.value(Quantity::Shmem).is_some()
        };
        if self.count(own) == 0 {
            return Answered::none(format!(
                "{app} has data of its own beside shared memory, and no run of {app}.{class} on {mpi_name} tells how much: run one"
            ));
        }
        let key = format!("shmem with data {app}.{class} {mpi_name}");
        let samples = || {
            self.samples(
                own,
                |o| o.value(Quantity::Shmem),
                |o: &Observation| o.setting.label(),
            )
        };
        let mut answered = self.ask(key, shmem::models_with_data, samples, at);
        let seen: Vec<&Observation> = self.training.items().iter().filter(|o| own(o)).collect();
        if let (Forecast::Predicted(prediction), None) = (
            &mut answered.forecast,
            seen.iter().find(|o| o.load() != seen[0].load()),
        ) && let (None, Some(mib)) =
            (prediction.estimate.interval, seen[0].value(Quantity::Shmem))
        {
            // one count does not tell whether the processes divide their data
            let value = prediction.estimate.value;
            prediction.estimate = Estimate::between(value, value.min(mib), value.max(mib));
            prediction.own_half = prediction.estimate.half_width();
            answered.warnings.push(format!(
                "{app} has data of its own beside shared memory, and one process count does not tell whether the processes divide them: between both"
            ));
        }
        answered
    }

    /// Which observations speak for a zone, with a warning where they are not those of the question: the nearest that there are.
    fn zone_scope(
        &self,
        zone: Quantity,
        question: &Question,
        at: &Setting,
    ) -> (ZoneScope, Option<String>) {
        let RunSetting {
            app,
            class,
            mpi_name,
            ..
        } = &question.setting;
        let library = self.library(question);
        let any = |o: &Observation| library(o) && zone_value(o, zone).is_some();
        let own = |o: &Observation| any(o) && o.setting.app == *app;
        let regime = |o: &Observation| o.load().is_some_and(|l| (l == 1) == (at.per_node == 1));
        if zone == Quantity::Headers {
            if self.count(|o| own(o) && o.setting.class == *class) >= ENOUGH_OF_A_CLASS {
                return (ZoneScope::Class(format!("{app}.{class}")), None);
            }
            // how many areas an image has goes with the arrays, whatever the program
            if at.nas.is_some() && self.count(any) > 0 {
                return (ZoneScope::AnyProgram, None);
            }
            if self.count(own) > 0 {
                return (ZoneScope::Program(app.clone()), None);
            }
        }
        if self.count(|o| own(o) && regime(o)) > 0 {
            return (ZoneScope::Program(app.clone()), None);
        }
        if self.count(|o| own(o) && o.load().is_some()) > 0 {
            let how = if at.per_node == 1 {
                "more processes on a node"
            } else {
                "one process on a node"
            };
            return (
                ZoneScope::OtherRegime(app.clone()),
                Some(format!(
                    "{} of {app} was only observed with {how}",
                    zone.title()
                )),
            );
        }
        if self.count(|o| any(o) && (zone == Quantity::Headers || regime(o))) > 0 {
            let beyond = if zone == Quantity::Shmem && at.nas.is_none() {
                "; what it allocates itself comes on top"
            } else {
                ""
            };
            let text = format!(
                "{}: no run of {app} with {mpi_name} was observed; using runs of other programs{beyond}",
                zone.title()
            );
            return (ZoneScope::AnyProgram, Some(text));
        }
        (ZoneScope::NoRuns, None)
    }

    /// Asks the models of a zone, fitted on the observations of the widest scope that the runs of the question's class do not contradict.
    fn ask_zone<H: Fn(&Observation) -> bool>(
        &self,
        zone: Quantity,
        library: &str,
        scopes: &[ZoneScope],
        own: Pool<'_>,
        at: &Setting,
        holds: impl Fn(&ZoneScope) -> H,
    ) -> Answered {
        // headers differ by class and program; what libraries hold goes with the processes on the node
        let comparable = |o: &Observation| match zone {
            Quantity::Headers => o.setting.label(),
            _ => format!("{:?} processes on a node", o.load()),
        };
        let regime = if at.per_node == 1 { "alone" } else { "shared" };
        let key = |scope: &ZoneScope| format!("{zone} {scope:?} {library} {regime}");
        let holding: Vec<H> = scopes.iter().map(holds).collect();
        let pools: Vec<(String, Pool<'_>)> = scopes
            .iter()
            .zip(&holding)
            .map(|(scope, holds)| (key(scope), holds as Pool<'_>))
            .collect();
        self.ask_widest(
            &pools,
            own,
            || registry::models(zone),
            |o| zone_value(o, zone),
            comparable,
            at,
        )
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

/// The observations on which the models of a zone are fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ZoneScope {
    /// Those of the question's program and class.
    Class(String),
    /// Those of its program, in the regime of the question.
    Program(String),
    /// Those of its program in the other regime.
    OtherRegime(String),
    /// Those of all programs, in the regime of the question.
    AnyProgram,
    /// None.
    NoRuns,
}

/// The number of a prediction with an interval over those of all that was tried.
fn spanning(prediction: &Prediction) -> Estimate {
    let all = || {
        prediction
            .candidates
            .iter()
            .filter_map(|c| c.estimate?.interval)
    };
    let low = all().map(|i| i.low).reduce(f64::min);
    let high = all().map(|i| i.high).reduce(f64::max);
    let value = prediction.estimate.value;
    low.zip(high).map_or(prediction.estimate, |(low, high)| {
        Estimate::between(value, low, high)
    })
}

/// The value of a zone. Where a table tells of no headers, they are what an image has beyond its zones.
pub(super) fn zone_value(o: &Observation, zone: Quantity) -> Option<f64> {
    o.value(zone).or_else(|| match zone {
        Quantity::Headers => {
            let zones = [Quantity::Dtapp, Quantity::Lb, Quantity::Shmem]
                .iter()
                .map(|z| o.value(*z))
                .sum::<Option<f64>>()?;
            Some(o.value(Quantity::Image)? - zones)
        }
        _ => None,
    })
}
