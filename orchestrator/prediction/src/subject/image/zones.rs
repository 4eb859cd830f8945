//! Zones of images: which observations speak for a zone, and what models fitted on them say.

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
use cvc_model::{Estimate, Model, Setting, Tier, dtapp, headers, library, shmem};
use std::collections::BTreeSet;

/// Points of its own class from which on an application is modelled by them alone; below, classes are taken together where a model knows
/// how they differ.
const ENOUGH_OF_A_CLASS: usize = 4;

/// The models of a zone.
pub(super) fn models(zone: Quantity) -> Vec<Box<dyn Model>> {
    match zone {
        Quantity::Dtapp => dtapp::models(),
        Quantity::Lb => library::models(),
        Quantity::Shmem => shmem::models(),
        // the lines stand for programs of which it is not known which pages they write
        Quantity::Headers => headers::models().into_iter().chain(lines()).collect(),
        _ => lines(),
    }
}

/// Lines in something that is always known.
fn lines() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(curves::MEAN),
        Box::new(curves::LOG_PROCESSES),
        Box::new(curves::INVERSE_ROOT),
        Box::new(curves::LOG_ARRAYS),
    ]
}

impl Predictor<'_> {
    /// Whether any run with the library tells of a zone: only then may a published size of it stand beside what was observed.
    pub(super) fn tells_of(&self, zone: Quantity, question: &Question) -> bool {
        let library = self.library(question);
        self.count(|o| library(o) && o.fitted(zone).is_some()) > 0
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
        let holds =
            |o: &Observation| seen(o) && (carries || o.setting.class == question.setting.class);
        let mut answered = self.ask(
            Quantity::Dtapp,
            models(Quantity::Dtapp),
            &holds,
            by_setting,
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
        let pools: [Pool<'_>; 3] = [&near, &with_library, &told];
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

    /// A zone that does not depend on the class by any known law: all classes are taken together.
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
        // with one process on a node the libraries share nothing: that is another regime, from which nothing follows for more processes
        let regime = |o: &Observation| {
            zone == Quantity::Headers || o.load().is_some_and(|l| (l == 1) == (at.per_node == 1))
        };
        // what other programs allocate says nothing of this one
        let foreign = if zone == Quantity::Shmem {
            let mut foreign = self.programs_with_data(question);
            foreign.extend(self.programs_apart(zone, |o| {
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
        // classes of a program share a law unless their own runs contradict it
        if scope == ZoneScope::Program && zone != Quantity::Headers && self.count(own_class) > 0 {
            pools.push(&of_class);
        }
        // headers differ by class and program; what libraries hold goes with the processes on the node
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
            // as many runs as parameters tell nothing of the error; how far runs of all programs lie from the same curve does
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
        let models = shmem::models_with_data();
        let mut answered = self.ask(Quantity::Shmem, models, &own, by_setting, at);
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
        let any = |o: &Observation| library(o) && o.fitted(zone).is_some();
        let own = |o: &Observation| any(o) && o.setting.app == *app;
        let regime = |o: &Observation| o.load().is_some_and(|l| (l == 1) == (at.per_node == 1));
        if zone == Quantity::Headers {
            if self.count(|o| own(o) && o.setting.class == *class) >= ENOUGH_OF_A_CLASS {
                return (ZoneScope::Class, None);
            }
            // how many areas an image has goes with the arrays, whatever the program
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
}

fn by_setting(o: &Observation) -> String {
    o.setting.label()
}

fn by_load(o: &Observation) -> String {
    format!("{:?} processes on a node", o.load())
}

/// The observations on which the models of a zone are fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneScope {
    /// Those of the question's program and class.
    Class,
    /// Those of its program, in the regime of the question.
    Program,
    /// Those of its program in the other regime.
    OtherRegime,
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
