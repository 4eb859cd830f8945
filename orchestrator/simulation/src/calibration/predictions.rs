//! How many intervals of predictions held for programs that the table of errors had not seen.

use super::trials::{Tried, errors_of, trials};
use cvc_core::quantity::Quantity;
use cvc_prediction::predict::{Calibration, Observation, PredictError, WITH_KNOWN_COVERAGE};
use serde::Serialize;
use std::collections::BTreeSet;

/// Predictions, and how many of their intervals held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Of what: a quantity, or a distance.
    pub of: String,
    /// Predictions.
    pub cells: usize,
    /// Those without an interval.
    pub without_interval: usize,
    /// Those whose interval held what was measured.
    pub inside: usize,
    /// Mean error, percent of what was measured.
    pub mean_error_pct: f64,
    /// Median half width of the intervals, percent of the prediction.
    pub half_width_pct: f64,
    /// Mean interval score ([`cvc_model::Estimate::score`]), percent of what was measured.
    pub score_pct: f64,
}

/// How many intervals of a quantity held, program by program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByProgram {
    /// The quantity.
    pub of: String,
    /// The part that held of each program, in percent; `None` where nothing was predicted.
    pub inside_pct: Vec<Option<f64>>,
    /// Their mean, every program weighing the same.
    pub mean_pct: f64,
    /// Their standard deviation.
    pub sd_pct: Option<f64>,
}

/// How predictions did, each program with a table made of the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionCoverage {
    /// The programs.
    pub programs: Vec<String>,
    /// All predictions.
    pub all: Coverage,
    /// Measured numbers behind the predictions: each is predicted from many choices of runs.
    pub measured_values: usize,
    /// Lines of the table of errors, and those that rest on fewer than three programs.
    pub lines: (usize, usize),
    /// By quantity and program that was left out.
    pub by_quantity_and_program: Vec<ByProgram>,
    /// By program that was left out.
    pub by_program: Vec<Coverage>,
    /// By quantity.
    pub by_quantity: Vec<Coverage>,
    /// By how far the prediction reached beyond the runs.
    pub by_reach: Vec<Coverage>,
}

/// Ends of the classes by which reach is told, and their names.
const REACHES: [(f64, &str); 4] = [
    (1.0, "within the runs' process counts"),
    (2.0, "up to 2 times beyond"),
    (4.5, "up to 4.5 times beyond"),
    (f64::INFINITY, "further"),
];

/// Leaves each program out in turn: the table of errors is made of the others, and its intervals are held against what was measured of it.
///
/// # Errors
/// Observations that cannot be trained on, or of fewer than two programs.
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
    // without a table, for the errors
    // the proportions of the others' times are of all programs but that one, so the one that is left out is among them: for its sizes this is
    // of no matter, for its times of little
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
    Ok((
        PredictionCoverage {
            lines: table.lines_and_those_of_few_programs(),
            ..summary(&programs, &judged)
        },
        table,
    ))
}

/// Counts trials by program, quantity and reach. Where nothing was predicted, there is no cell.
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
        lines: (0, 0),
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

/// Counts the measured numbers: a file is its image again.
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
    let told: Vec<f64> = inside_pct.iter().copied().flatten().collect();
    let (mean_pct, sd_pct) = (
        cvc_model::stats::mean(&told).unwrap_or(0.0),
        cvc_model::stats::sample_sd(&told),
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
