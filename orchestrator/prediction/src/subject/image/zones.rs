//! Zones of images: selects the observations for a zone, and predicts it by models fitted to them.

use crate::predict::{
    curves,
    fitting::short_of_runs,
    forecast::{Answered, Forecast, Prediction},
    observation::Observation,
    predictor::{Pool, Predictor},
    question::Question,
    setting::RunSetting,
};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, Model, Setting, Tier, dtapp, headers, library, shmem, size};
use std::collections::BTreeSet;

/// Minimum number of points of a class for which the class is modelled without other classes. With fewer points, all classes of the application are
/// combined if a model describes their differences.
const ENOUGH_OF_A_CLASS: usize = 4;

/// If a problem size was run itself, it is predicted from runs of all sizes only if there are at least this many sizes.
const SIZES_BESIDE_OWN_RUNS: usize = 3;

/// Returns the models of a zone.
pub(super) fn models(zone: Quantity) -> Vec<Box<dyn Model>> {
    match zone {
        Quantity::Dtapp => dtapp::models(),
        Quantity::Lb => library::models(),
        Quantity::Shmem => shmem::models(),
        // these lines are for programs whose written pages are unknown
        Quantity::Headers => headers::models().into_iter().chain(lines()).collect(),
        _ => lines(),
    }
}

/// Returns lines through the observed values, in variables such as the number of processes. One of the lines requires that the program's arrays are
/// known.
fn lines() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(curves::MEAN),
        Box::new(curves::LOG_PROCESSES),
        Box::new(curves::INVERSE_ROOT),
        Box::new(curves::LOG_ARRAYS),
    ]
}

impl Predictor<'_> {
    /// Returns whether the zone was observed in a run with the library. Only then may its published size be added to observations.
    pub(super) fn has_runs_of(&self, zone: Quantity, question: &Question) -> bool {
        let library = self.library(question);
        self.count(|o| library(o) && o.fitted(zone).is_some()) > 0
    }

    /// Returns the prediction for a zone of an image on a node with `load` processes.
    pub(super) fn zone(&self, zone: Quantity, question: &Question, load: u32) -> Answered {
        let at = question.setting.on_node(load);
        let answered = if zone == Quantity::Dtapp {
            self.data(question, &at)
        } else {
            self.shared_zone(zone, question, &at)
        };
        self.calibrated(zone, question, load, answered)
    }

    /// Predicts the application's data: from runs of its own class, or of all classes if a model describes their differences.
    fn data(&self, question: &Question, at: &Setting) -> Answered {
        if let Some(of_sizes) = self.of_all_sizes(Quantity::Dtapp, size::data_models, question, at)
        {
            return of_sizes;
        }
        let library = self.library(question);
        let of_app = |o: &Observation| {
            o.value(Quantity::Dtapp).is_some()
                && o.setting.app == question.setting.app
                && library(o)
        };
        // a single process exchanges nothing: memory for received messages is never written, and not stored in the image
        let comparable = |o: &Observation| {
            of_app(o) && (o.setting.mapping.processes() == 1) == (at.processes() == 1)
        };
        // for a program with unknown arrays, there is no other model of the data: its run on one process is the best source
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
        let holds =
            |o: &Observation| seen(o) && (carries || o.setting.class == question.setting.class);
        let mut answered = self.ask(
            Quantity::Dtapp,
            models(Quantity::Dtapp),
            &holds,
            by_setting,
            at,
        );
        if let Forecast::Predicted(prediction) = &mut answered.forecast
            && prediction.model.id == dtapp::VOLUME_AND_SURFACE
        {
            // the data of a process in addition to its part of the volume are assumed to be a surface or a constant, which are the extremes among
            // programs
            let constant = prediction
                .candidates
                .iter()
                .find(|c| c.model.id == dtapp::VOLUME_AND_CONSTANT)
                .and_then(|c| c.estimate);
            prediction.laws = constant.map_or(0.0, |c| (c.value - prediction.estimate.value).abs());
        }
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

    /// Predicts one problem size from runs of all sizes of the program. Returns `None` if there are fewer than two sizes, or enough observations of
    /// the own class.
    fn of_all_sizes(
        &self,
        quantity: Quantity,
        models: fn() -> Vec<Box<dyn Model>>,
        question: &Question,
        at: &Setting,
    ) -> Option<Answered> {
        let library = self.library(question);
        let seen = |o: &Observation| {
            library(o)
                && o.setting.app == question.setting.app
                && o.setting.size.is_some()
                && o.value(quantity).is_some()
        };
        let own = self.count(|o| seen(o) && o.setting.class == question.setting.class);
        if at.size.is_none() || own >= ENOUGH_OF_A_CLASS {
            return None;
        }
        let items = self.training.items().iter().filter(|o| seen(o));
        let classes: BTreeSet<&str> = items.map(|o| o.setting.class.as_str()).collect();
        // in addition to runs of the own class, two sizes are too few
        if classes.len() < if own == 0 { 2 } else { SIZES_BESIDE_OWN_RUNS } {
            return None;
        }
        let answered = self.ask(quantity, models(), &seen, by_class, at);
        (own == 0 || answered.forecast.prediction().is_some()).then_some(answered)
    }

    /// Predicts the data of a benchmark that was not observed, from its source. Which pages of the arrays an image contains depends on the
    /// checkpointer, not on the program, so runs of other benchmarks show it.
    fn data_of_no_run(&self, question: &Question, at: &Setting) -> Answered {
        let is_usable =
            |o: &Observation| o.value(Quantity::Dtapp).is_some() && o.model_setting().nas.is_some();
        let (library, alone) = (self.library(question), |o: &Observation| {
            o.setting.mapping.processes() == 1
        });
        // try the runs most similar to the question first, and all available runs last
        let near =
            |o: &Observation| is_usable(o) && library(o) && alone(o) == (at.processes() == 1);
        let with_library = |o: &Observation| is_usable(o) && library(o);
        let pools: [Pool<'_>; 3] = [&near, &with_library, &is_usable];
        let sources = || {
            models(Quantity::Dtapp)
                .into_iter()
                .filter(|m| m.info().tier == Tier::NoRun)
                .collect::<Vec<_>>()
        };
        let unseen = format!(
            "application data: no run of {} on {} was observed",
            question.setting.app, question.setting.mpi_name
        );
        let Some(pool) = pools.into_iter().find(|pool| self.count(pool) > 0) else {
            let mut answered = self.ask(Quantity::Dtapp, sources(), &|_| false, by_setting, at);
            if let Forecast::Predicted(prediction) = &mut answered.forecast {
                prediction.estimate = spanning(prediction);
                prediction.reason += "; its interval covers all models that need no run, because no run shows which of them holds";
            }
            answered.warnings.push(format!(
                "{unseen}, and no run of another benchmark shows whether images contain pages that were never written: using its declared arrays"
            ));
            return answered;
        };
        let mut answered = self.ask(Quantity::Dtapp, sources(), pool, by_setting, at);
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

    /// Predicts a zone other than the application's data. No known law makes it depend on the class, so all classes of a program are combined unless
    /// runs contradict this.
    fn shared_zone(&self, zone: Quantity, question: &Question, at: &Setting) -> Answered {
        if zone == Quantity::Shmem && self.holds_data(question) {
            return self.shared_with_data(question, at);
        }
        let library = self.library(question);
        let RunSetting {
            app,
            class,
            mpi_name,
            ..
        } = &question.setting;
        // with one process on a node the library shares nothing; nothing follows from this regime for several processes
        let regime = |o: &Observation| {
            zone == Quantity::Headers || o.load().is_some_and(|l| (l == 1) == (at.per_node == 1))
        };
        // allocations of other programs do not predict those of this program
        let foreign = if zone == Quantity::Shmem {
            let mut foreign = self.programs_with_data(question);
            foreign.extend(self.deviating_programs(zone, |o| {
                library(o) && regime(o) && !foreign.contains(&o.setting.app)
            }));
            foreign
        } else {
            BTreeSet::new()
        };
        let own = |o: &Observation| library(o) && o.setting.app == *app;
        let any = |o: &Observation| {
            library(o) && o.fitted(zone).is_some() && (own(o) || !foreign.contains(&o.setting.app))
        };
        let own_class = |o: &Observation| own(o) && o.setting.class == *class && regime(o);
        let of_class = |o: &Observation| any(o) && own_class(o);
        let of_program = |o: &Observation| any(o) && own(o) && regime(o);
        let of_other_regime = |o: &Observation| any(o) && own(o) && o.load().is_some();
        let of_any = |o: &Observation| any(o) && regime(o);
        let (scope, warning) = self.zone_scope(zone, question, at);
        let mut pools: Vec<Pool<'_>> = vec![match scope {
            ZoneScope::Class => &of_class,
            ZoneScope::Program => &of_program,
            ZoneScope::OtherRegime => &of_other_regime,
            ZoneScope::AnyProgram => &of_any,
            ZoneScope::NoRuns => &|_| false,
        }];
        // the classes of a program share a law unless runs of the question's class contradict it
        if scope == ZoneScope::Program && zone != Quantity::Headers && self.count(own_class) > 0 {
            pools.push(&of_class);
        }
        // headers depend on class and program; memory of libraries depends on the number of processes on the node
        let alike = if zone == Quantity::Headers {
            by_setting
        } else {
            by_load
        };
        let ask = |pools: &[Pool<'_>]| {
            self.ask_widest(zone, || models(zone), pools, &own_class, alike, at)
        };
        let mut answered = ask(&pools);
        if let Forecast::Predicted(prediction) = &mut answered.forecast
            && prediction.estimate.interval.is_none()
        {
            // if there are only as many runs as parameters, the error is unknown; the error for runs of all programs is used instead
            let of_all = ask(&[&of_any]).forecast;
            if let Some(half) = of_all.estimate().ok().and_then(Estimate::half_width) {
                prediction.estimate = Estimate::plus_minus(prediction.estimate.value, half);
                prediction.reason += "; its interval is that of all programs with the library";
            }
        }
        if let Forecast::NoPrediction(reason) = &mut answered.forecast
            && self.count(any) == 0
        {
            *reason = format!(
                "{} with {mpi_name} was not observed: {reason}",
                zone.title()
            );
        }
        answered.warnings.extend(warning);
        answered
    }

    /// Predicts shared memory that includes the program's data, from runs of its own class on any number of processes.
    fn shared_with_data(&self, question: &Question, at: &Setting) -> Answered {
        let of_sizes = self.of_all_sizes(Quantity::Shmem, size::shared_models, question, at);
        if let Some(of_sizes) = of_sizes {
            return of_sizes;
        }
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
                "{app} has data of its own next to shared memory, and no run of {app}.{class} on {mpi_name} shows how much: run one"
            ));
        }
        let models = shmem::models_with_data();
        let mut answered = self.ask(Quantity::Shmem, models, &own, by_setting, at);
        let seen: Vec<&Observation> = self.training.items().iter().filter(|o| own(o)).collect();
        if let (Forecast::Predicted(prediction), None) = (
            &mut answered.forecast,
            seen.iter().find(|o| o.load() != seen[0].load()),
        ) && let (None, Some(mib)) =
            (prediction.estimate.interval, seen[0].value(Quantity::Shmem))
        {
            // runs on one number of processes do not show whether the processes divide the data
            let value = prediction.estimate.value;
            prediction.estimate = Estimate::between(value, value.min(mib), value.max(mib));
            prediction.own_half = prediction.estimate.half_width();
            answered.warnings.push(format!(
                "{app} has data of its own next to shared memory, and one process count does not show whether the processes divide them: the value \
                 is between both"
            ));
        }
        answered
    }

    /// Returns the scope of the observations for a zone: the nearest that are available, with a warning if they are not of the question's program,
    /// class or regime.
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
        let any = |o: &Observation| library(o) && o.fitted(zone).is_some();
        let own = |o: &Observation| any(o) && o.setting.app == *app;
        let regime = |o: &Observation| o.load().is_some_and(|l| (l == 1) == (at.per_node == 1));
        if zone == Quantity::Headers {
            if self.count(|o| own(o) && o.setting.class == *class) >= ENOUGH_OF_A_CLASS {
                return (ZoneScope::Class, None);
            }
            // for all programs, the number of memory areas in an image depends on the arrays
            if at.nas.is_some() && self.count(any) > 0 {
                return (ZoneScope::AnyProgram, None);
            }
            if self.count(own) > 0 {
                return (ZoneScope::Program, None);
            }
        }
        if self.count(|o| own(o) && regime(o)) > 0 {
            return (ZoneScope::Program, None);
        }
        if self.count(|o| own(o) && o.load().is_some()) > 0 {
            let how = if at.per_node == 1 {
                "more processes on a node"
            } else {
                "one process on a node"
            };
            return (
                ZoneScope::OtherRegime,
                Some(format!(
                    "{} of {app} was only observed with {how}",
                    zone.title()
                )),
            );
        }
        if self.count(|o| any(o) && (zone == Quantity::Headers || regime(o))) > 0 {
            let beyond = if zone == Quantity::Shmem && at.nas.is_none() {
                "; its own allocations are added"
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
}

fn by_setting(o: &Observation) -> String {
    o.setting.label()
}

fn by_class(o: &Observation) -> String {
    o.setting.class.clone()
}

fn by_load(o: &Observation) -> String {
    format!("{:?} processes on a node", o.load())
}

/// The observations to which the models of a zone are fitted. One process on a node, and several, are different regimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneScope {
    /// Observations of the question's program and class.
    Class,
    /// Observations of the question's program, in the question's regime.
    Program,
    /// Observations of the question's program in the other regime.
    OtherRegime,
    /// Observations of all programs, in the question's regime.
    AnyProgram,
    /// No observations.
    NoRuns,
}

/// Returns the estimate with an interval that contains the intervals of all candidates.
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
