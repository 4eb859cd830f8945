//! Trials: predictions of a program by few of its runs, as a user has them, beside what was measured at the others.

use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate,
    conformal::{Trial, relative_error},
    shmem, split,
};
use cvc_prediction::holdout::judge;
use cvc_prediction::predict::{
    Calibration, Kind, Observation, PredictError, Predictor, Question, TrialError,
    WITH_KNOWN_COVERAGE, ZoneRules, error_offset,
};
use std::collections::BTreeSet;

/// Whether the intervals of a quantity come from the table: those of all others, such as the file of an image, are made of them.
fn is_tabulated(quantity: Quantity) -> bool {
    quantity != Quantity::File && WITH_KNOWN_COVERAGE.contains(&quantity)
}

/// A prediction that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The program, by its name in the observations.
    pub program: String,
    /// Its setting, and what was known of it: `npb-bt.A 1Nx16P openmpi from 1, 4`.
    pub label: String,
    /// What was predicted.
    pub quantity: Quantity,
    /// What the prediction rested on; `None` if no run told of the quantity.
    pub kind: Option<Kind>,
    /// How far beyond the runs it was: 1 within.
    pub reach: f64,
    /// Largest error of the program's own runs that were left out; `None` if none could be.
    pub own_error: Option<f64>,
    /// The prediction, if there was one.
    pub estimate: Option<Estimate>,
    /// What was measured.
    pub measured: f64,
}

/// A name that no program has whose arrays are known.
const NO_KNOWN_PROGRAM: &str = "left-out";

/// Tries predictions of every program of the observations, with intervals by a table.
///
/// Of each class, library and rule of zones, models are trained on few process counts, one to three, of this class alone and of all classes,
/// once as a program whose arrays are known and once as one of which nothing is known; and on no run of the program, but on those of all
/// others.
///
/// # Errors
/// Observations that cannot be trained on.
pub fn trials(
    observations: &[Observation],
    programs: &[&str],
    table: &Calibration,
) -> Result<Vec<Tried>, PredictError> {
    let mut all = Vec::new();
    // zones by two rules are two quantities
    let kinds: BTreeSet<_> = observations
        .iter()
        .map(|o| (o.setting.mpi_name.as_str(), rules(o)))
        .collect();
    for program in programs {
        for kind in &kinds {
            let of = |o: &&Observation| (o.setting.mpi_name.as_str(), rules(o)) == *kind;
            let own: Vec<&Observation> = observations
                .iter()
                .filter(of)
                .filter(|o| o.setting.app == *program)
                .collect();
            let others: Vec<&Observation> = observations
                .iter()
                .filter(of)
                .filter(|o| o.setting.app != *program)
                .collect();
            for scheme in schemes(&own) {
                let is_known = own.iter().any(|o| o.model_setting().nas.is_some());
                for name in [Some(NO_KNOWN_PROGRAM), is_known.then_some(*program)]
                    .into_iter()
                    .flatten()
                {
                    let own: Vec<Observation> = own.iter().map(|o| renamed(o, name)).collect();
                    try_scheme(program, &own, &[], &scheme, table, &mut all)?;
                }
            }
            let own: Vec<Observation> = own
                .into_iter()
                .map(|o| renamed(o, NO_KNOWN_PROGRAM))
                .collect();
            let others: Vec<Observation> = others.into_iter().cloned().collect();
            if !others.is_empty() {
                try_scheme(
                    program,
                    &own,
                    &others,
                    &Scheme {
                        class: None,
                        counts: BTreeSet::new(),
                    },
                    table,
                    &mut all,
                )?;
            }
        }
    }
    Ok(all)
}

/// The errors of trials whose quantities stand in the table.
pub fn errors_of(tried: &[Tried]) -> Vec<TrialError> {
    let error = |t: &Tried| {
        let (predicted, measured) = (t.estimate?.value, t.measured);
        relative_error(predicted, measured, error_offset(t.quantity))?;
        let trial = Trial {
            program: t.program.clone(),
            predicted,
            measured,
            reach: t.reach,
            own: t.own_error,
        };
        Some(TrialError {
            kind: t.kind?,
            trial,
        })
    };
    tried
        .iter()
        .filter(|t| is_tabulated(t.quantity))
        .filter_map(error)
        .collect()
}

/// Which runs of a program are trained on.
struct Scheme {
    /// Of this class, or of all.
    class: Option<String>,
    counts: BTreeSet<u32>,
}

/// Few process counts as a user would take them: the smallest first; and two with others between them.
fn schemes(own: &[&Observation]) -> Vec<Scheme> {
    let mut schemes = Vec::new();
    let classes: BTreeSet<&str> = own.iter().map(|o| o.setting.class.as_str()).collect();
    for class in classes
        .iter()
        .map(|c| Some((*c).to_owned()))
        .chain((classes.len() > 1).then_some(None))
    {
        let of = own
            .iter()
            .filter(|o| class.as_ref().is_none_or(|c| *c == o.setting.class));
        let counts: Vec<u32> = of
            .map(|o| o.setting.mapping.processes())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut taken: BTreeSet<BTreeSet<u32>> = BTreeSet::new();
        for from in 0..2 {
            for number in 1..=4 {
                taken.insert(counts.iter().skip(from).take(number).copied().collect());
            }
        }
        taken.insert(
            [counts.first(), counts.get(2), counts.get(3)]
                .into_iter()
                .flatten()
                .copied()
                .collect(),
        );
        taken.insert(
            [counts.get(1), counts.get(3)]
                .into_iter()
                .flatten()
                .copied()
                .collect(),
        );
        for counts in taken
            .into_iter()
            .filter(|t| !t.is_empty() && t.len() < counts.len())
        {
            schemes.push(Scheme {
                class: class.clone(),
                counts,
            });
        }
    }
    schemes
}

/// The rules of the zones of an observation.
fn rules(observation: &Observation) -> Option<ZoneRules> {
    observation.environment.as_ref().map(|of| of.zones)
}

fn renamed(observation: &Observation, name: &str) -> Observation {
    let mut observation = observation.clone();
    name.clone_into(&mut observation.setting.app);
    observation
}

fn try_scheme(
    program: &str,
    own: &[Observation],
    others: &[Observation],
    scheme: &Scheme,
    table: &Calibration,
    all: &mut Vec<Tried>,
) -> Result<(), PredictError> {
    let of_class = |o: &Observation| scheme.class.as_ref().is_none_or(|c| *c == o.setting.class);
    let is_own = |o: &Observation| own.iter().any(|own| own.id == o.id);
    let training = |o: &Observation| {
        !is_own(o) || (of_class(o) && scheme.counts.contains(&o.setting.mapping.processes()))
    };
    // what was left out of this class, or of another one without any run
    let asked = own
        .iter()
        .filter(|o| of_class(o) || scheme.counts.len() > 2);
    let observations: Vec<Observation> = asked.chain(others).cloned().collect();
    let samples = |o: &Observation| Some((o.model_setting(), o.value(Quantity::Shmem)?));
    let allocates = scheme.counts.is_empty()
        && shmem::holds_data(&own.iter().filter_map(samples).collect::<Vec<_>>());
    let from = scheme
        .counts
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    split(observations, training, |training, held_out| {
        let predictor = Predictor::train_with(&training, table.clone())?;
        for judged in judge(&predictor, &held_out) {
            let Some(observation) = held_out.items().iter().find(|o| o.id == judged.id) else {
                continue;
            };
            // from other programs the library's part is told, as its warning says, not what this program allocates
            if allocates && judged.quantity == Quantity::Shmem {
                continue;
            }
            let load = observation.load().unwrap_or(1);
            let by_owner = if rules(observation) == Some(ZoneRules::Owner) {
                " by owner"
            } else {
                ""
            };
            let kind = predictor.kind_of(judged.quantity, &Question::of(observation), load);
            let own_error = predictor.own_error(judged.quantity, &Question::of(observation));
            all.push(Tried {
                program: program.to_owned(),
                label: format!(
                    "{}{by_owner} from {}{from}",
                    judged.label,
                    scheme
                        .class
                        .as_deref()
                        .map(|c| format!("{c} "))
                        .unwrap_or_default()
                ),
                quantity: judged.quantity,
                kind: kind.map(|(kind, _)| kind),
                own_error,
                reach: kind.map_or(1.0, |(_, reach)| reach),
                estimate: judged.forecast.prediction().map(|p| p.estimate),
                measured: judged.measured,
            });
        }
        Ok(())
    })
}
