//! Coverage of the intervals of predictions, for programs that are not in the table of errors.

use super::trials::{Tried, errors_of, trials};
use cvc_core::quantity::Quantity;
use cvc_prediction::predict::{Calibration, Observation, PredictError, WITH_KNOWN_COVERAGE};
use serde::Serialize;
use std::collections::BTreeSet;

/// Number of predictions, and of those whose interval covered the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Subject of the count: a quantity, a program, or a distance.
    pub of: String,
    /// Number of predictions.
    pub cells: usize,
    /// Number of predictions without an interval.
    pub without_interval: usize,
    /// Number of predictions whose interval covered the measurement.
    pub inside: usize,
    /// Mean error, percent of the measurement.
    pub mean_error_pct: f64,
    /// Median half width of the intervals, percent of the prediction.
    pub half_width_pct: f64,
    /// Mean interval score ([`cvc_model::Estimate::score`]), percent of the measurement.
    pub score_pct: f64,
}

/// Coverage of a quantity's intervals, separately for each program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByProgram {
    /// Name of the quantity.
    pub of: String,
    /// Share of each program's intervals that covered the measurement, percent; `None` without predictions.
    pub inside_pct: Vec<Option<f64>>,
    /// Mean of these shares, with equal weight for every program.
    pub mean_pct: f64,
    /// Standard deviation of these shares.
    pub sd_pct: Option<f64>,
}

/// Coverage of predictions for each program, with a table of errors from the other programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionCoverage {
    /// The programs.
    pub programs: Vec<String>,
    /// Coverage over all predictions.
    pub all: Coverage,
    /// Number of measured values behind the predictions. Each value is predicted from many selections of runs.
    pub measured_values: usize,
    /// Coverage by quantity and left-out program.
    pub by_quantity_and_program: Vec<ByProgram>,
    /// Counts by left-out program.
    pub by_program: Vec<Coverage>,
    /// Counts by quantity.
    pub by_quantity: Vec<Coverage>,
    /// Counts by distance of the prediction beyond the training runs.
    pub by_reach: Vec<Coverage>,
}

/// Upper limits of the classes of distance, with their names.
const REACHES: [(f64, &str); 4] = [
    (1.0, "within the runs' process counts"),
    (2.0, "up to 2 times beyond"),
    (4.5, "up to 4.5 times beyond"),
    (f64::INFINITY, "further"),
];

/// Leaves each program out in turn: a table of errors is made from the others, and the resulting intervals are compared with the measurements of the
/// left-out program.
///
/// # Errors
/// The observations cannot be used for training, or are of fewer than two programs.
pub fn leave_one_program_out(
    observations: &[Observation],
    mut done: impl FnMut(&str),
) -> Result<(PredictionCoverage, Calibration), PredictError> {
    let programs: BTreeSet<&str> = observations
        .iter()
        .map(|o| o.setting.app.as_str())
        .collect();
    let programs: Vec<&str> = programs.into_iter().collect();
    if programs.len() < 2 {
        return Err(PredictError::Model {
            message: format!(
                "observations of {} program(s): one must be left out, and another remain",
                programs.len()
            ),
            hint: "give runs of two programs or more".into(),
        });
    }
    // without a table of errors; the time proportions come from all programs including the left-out one, which does not affect its sizes, and hardly
    // its times
    let shapes_without = |program: &str| {
        Calibration::shapes_of(
            observations
                .iter()
                .filter(move |o| o.setting.app != program),
        )
    };
    let mut bare: Vec<Tried> = Vec::new();
    for program in &programs {
        bare.extend(trials(observations, &[program], &shapes_without(program))?);
    }
    let mut judged: Vec<Tried> = Vec::new();
    for program in &programs {
        done(program);
        let others: Vec<Tried> = bare
            .iter()
            .filter(|t| t.program != *program)
            .cloned()
            .collect();
        let table = Calibration::of(&errors_of(&others)).with_shapes(&shapes_without(program));
        judged.extend(trials(observations, &[program], &table.rounded())?);
    }
    let table = Calibration::of(&errors_of(&bare))
        .with_shapes(&Calibration::shapes_of(observations.iter()));
    Ok((summary(&programs, &judged), table))
}

/// Counts trials by program, quantity and distance. Trials without a prediction are omitted.
fn summary(programs: &[&str], judged: &[Tried]) -> PredictionCoverage {
    let judged: Vec<&Tried> = judged.iter().filter(|t| t.estimate.is_some()).collect();
    let of = |name: &str, holds: &dyn Fn(&Tried) -> bool| {
        coverage(name, judged.iter().copied().filter(|t| holds(t)))
    };
    let mut least = 0.0;
    let by_reach = REACHES.map(|(most, name)| {
        let from = std::mem::replace(&mut least, most);
        of(name, &|t| t.reach > from + 1e-9 && t.reach <= most + 1e-9)
    });
    PredictionCoverage {
        programs: programs.iter().map(|p| (*p).to_owned()).collect(),
        all: of("all", &|_| true),
        measured_values: measured_values(&judged),
        by_quantity_and_program: WITH_KNOWN_COVERAGE
            .iter()
            .map(|q| by_program(*q, programs, &judged))
            .collect(),
        by_program: programs
            .iter()
            .map(|p| of(p, &|t| t.program == *p))
            .collect(),
        by_quantity: WITH_KNOWN_COVERAGE
            .iter()
            .map(|q| of(q.title(), &|t| t.quantity == *q))
            .collect(),
        by_reach: by_reach.into_iter().filter(|c| c.cells > 0).collect(),
    }
}

/// Counts the measured values. The length of a file is not counted, because it follows from its image.
fn measured_values(judged: &[&Tried]) -> usize {
    let setting = |t: &Tried| {
        t.label
            .split(" from ")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    judged
        .iter()
        .filter(|t| t.quantity != Quantity::File)
        .map(|t| (setting(t), t.quantity.name()))
        .collect::<BTreeSet<_>>()
        .len()
}

fn by_program(quantity: Quantity, programs: &[&str], judged: &[&Tried]) -> ByProgram {
    let inside = |program: &&str| {
        let held: Vec<bool> = judged
            .iter()
            .filter(|t| t.quantity == quantity && t.program == **program)
            .filter_map(|t| t.estimate?.covers(t.measured))
            .collect();
        (!held.is_empty())
            .then(|| 100.0 * held.iter().filter(|h| **h).count() as f64 / held.len() as f64)
    };
    let inside_pct: Vec<Option<f64>> = programs.iter().map(inside).collect();
    let shares: Vec<f64> = inside_pct.iter().copied().flatten().collect();
    let (mean_pct, sd_pct) = (
        cvc_model::stats::mean(&shares).unwrap_or(0.0),
        cvc_model::stats::sample_sd(&shares),
    );
    ByProgram {
        of: quantity.title().to_owned(),
        inside_pct,
        mean_pct,
        sd_pct,
    }
}

fn coverage<'t>(of: &str, tried: impl Iterator<Item = &'t Tried>) -> Coverage {
    let (mut errors, mut halves, mut scores): (Vec<f64>, Vec<f64>, Vec<f64>) =
        (Vec::new(), Vec::new(), Vec::new());
    let (mut cells, mut without_interval, mut inside) = (0, 0, 0);
    for t in tried {
        let Some(estimate) = t.estimate else { continue };
        cells += 1;
        match estimate.covers(t.measured) {
            None => without_interval += 1,
            Some(held) => inside += usize::from(held),
        }
        errors.extend(cvc_model::error_pct(estimate.value, t.measured));
        scores.extend(
            estimate
                .score(t.measured)
                .filter(|_| t.measured > 0.0)
                .map(|score| 100.0 * score / t.measured),
        );
        halves.extend(
            estimate
                .half_width()
                .filter(|_| estimate.value > 0.0)
                .map(|half| 100.0 * half / estimate.value),
        );
    }
    halves.sort_by(f64::total_cmp);
    Coverage {
        of: of.to_owned(),
        cells,
        without_interval,
        inside,
        mean_error_pct: cvc_model::stats::mean(&errors).unwrap_or(0.0),
        half_width_pct: cvc_model::stats::quantile(&halves, 0.5).unwrap_or(0.0),
        score_pct: cvc_model::stats::mean(&scores).unwrap_or(0.0),
    }
}
