//! Trials: a program is predicted from few of its runs, as a user would do, and compared with the measurements of its other runs.

use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate,
    conformal::{Doubt, Trial},
    shmem, split,
};
use cvc_prediction::holdout::judge;
use cvc_prediction::predict::{
    Calibration, Kind, Observation, PredictError, Predictor, Question, TrialError,
    WITH_KNOWN_COVERAGE, ZoneRules,
};
use std::collections::BTreeSet;

/// Returns whether the intervals of a quantity come from the table of errors. The intervals of other quantities, such as the length of an image's
/// file, are derived from tabulated ones.
fn is_tabulated(quantity: Quantity) -> bool {
    quantity != Quantity::File && WITH_KNOWN_COVERAGE.contains(&quantity)
}

/// A prediction, with the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Name of the program in the observations.
    pub program: String,
    /// The predicted setting, and the numbers of processes of the training runs: `npb-bt.A 1Nx16P openmpi from 1, 4`.
    pub label: String,
    /// The predicted quantity.
    pub quantity: Quantity,
    /// The basis of the prediction; `None` if no run has the quantity.
    pub kind: Option<Kind>,
    /// Distance of the prediction beyond the training runs; 1 within their range.
    pub reach: f64,
    /// The known errors of the models.
    pub doubt: Doubt,
    /// The prediction, if there is one.
    pub estimate: Option<Estimate>,
    /// The measurement.
    pub measured: f64,
}

/// A name under which no program has declared arrays.
const NO_KNOWN_PROGRAM: &str = "left-out";

/// Predicts every program of the observations, with intervals from a table of errors.
///
/// For each class, library and rule of zones, models are trained on one to three process counts, of this class alone and of all classes. On each
/// selection, the models are trained as if the program were unknown and, if its arrays are declared, also with the declared arrays. They are also
/// trained on the other programs only, without any run of the predicted program.
///
/// # Errors
/// The observations cannot be used for training.
pub fn trials(
    observations: &[Observation],
    programs: &[&str],
    table: &Calibration,
) -> Result<Vec<Tried>, PredictError> {
    let mut all = Vec::new();
    // zones by two rules are different quantities
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

/// Returns the errors of the trials of quantities that are in the table.
pub fn errors_of(tried: &[Tried]) -> Vec<TrialError> {
    let error = |t: &Tried| {
        let trial = Trial {
            program: t.program.clone(),
            predicted: t.estimate?.value,
            measured: t.measured,
            doubt: t.doubt.clone(),
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

/// Selects the training runs of a program.
struct Scheme {
    /// The class of the runs; `None` for all classes.
    class: Option<String>,
    counts: BTreeSet<u32>,
}

/// Returns selections of few process counts that a user might measure: the smallest ones, and two selections with gaps.
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

/// Returns the rule by which an observation distinguishes zones.
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
    // predict the held-out runs of this class, or of another class of which no run is known
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
            // other programs predict the MPI library's part only, as the warning says, not the memory that this program allocates
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
            let prediction = judged.forecast.prediction();
            let reach = kind.map_or(1.0, |(_, reach)| reach);
            let doubt = prediction.map(|prediction| {
                predictor.doubt(
                    judged.quantity,
                    &Question::of(observation),
                    reach,
                    prediction,
                )
            });
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
                doubt: doubt.unwrap_or_default(),
                reach,
                estimate: prediction.map(|p| p.estimate),
                measured: judged.measured,
            });
        }
        Ok(())
    })
}
