//! Intervals from the errors of trials with other programs (split conformal prediction, normalised): an error is taken in parts of what the
//! program's own runs say of it, and of the reach beyond them.
//!
//! ```text
//! half = q·(b + d)·reach^g
//! ```
//!
//! b is the largest error of the program's own runs that were left out, d what is added to it because a few runs may be hit by chance. Without
//! own runs that can be left out, half = q·reach^g. q is the error, so scaled, that 97 % of the trials stayed below, every program weighing
//! the same, because few programs show too little of the tail for 95 % of those of another one; d and g give the least mean interval score.
//! Sources: J. Lei and others, Distribution-free predictive inference for regression, J. Am. Stat. Assoc. 113, 2018 (normalised scores);
//! R. L. Winkler, A decision-theoretic approach to interval estimation, J. Am. Stat. Assoc. 67, 1972.

use super::estimate::Estimate;
use serde::Serialize;
use std::collections::BTreeMap;

/// The part of the trials whose errors q is not below. With 0.96, and twelve programs to learn from, fewer than nine in ten of the thirteenth's
/// headers and times of coordination were inside; with 0.98 half of all intervals were wider by a fifth to two fifths.
const OF_TRIALS: f64 = 0.97;

/// What may be added to the error of own runs.
const FLOORS: [f64; 9] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// Powers of the reach.
const GROWTHS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Larger errors of own runs are taken for this: the model is wrong for the program.
const LARGEST_OWN: f64 = 1e3;

/// A prediction of a program that its model had not seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The program.
    pub program: String,
    /// The prediction.
    pub predicted: f64,
    /// What was measured.
    pub measured: f64,
    /// How far beyond the runs: 1 within.
    pub reach: f64,
    /// Largest error of the program's own runs that were left out ([`relative_error`]); `None` if none could be.
    pub own: Option<f64>,
}

/// The numbers of a kind of prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Error that 97 % of the trials stayed below, in parts of its scale.
    pub q: f64,
    /// What is added to the error of own runs.
    pub d: f64,
    /// Power of the reach.
    pub g: f64,
}

/// Returns the larger of measured/predicted and predicted/measured, less 1, after `offset` is added to both: what is measured may be far more
/// than was predicted, but never less than nothing. `None` if that is no number.
pub fn relative_error(predicted: f64, measured: f64, offset: f64) -> Option<f64> {
    if predicted == measured {
        return Some(0.0);
    }
    let ratio = (measured + offset) / (predicted + offset);
    Some(ratio.max(1.0 / ratio) - 1.0).filter(|e| e.is_finite() && ratio > 0.0)
}

/// Returns the interval of these errors: from 1/(1 + half) to 1 + half times the value, after `offset` is added to it.
pub fn interval(value: f64, half: f64, offset: f64) -> Estimate {
    let (whole, factor) = (value + offset, 1.0 + half);
    Estimate::between(
        value,
        (whole / factor - offset).min(value),
        (whole * factor - offset).max(value),
    )
    .not_negative()
}

impl Shape {
    /// Returns the half width, as a part of the prediction.
    pub fn half(self, own: Option<f64>, reach: f64) -> f64 {
        self.q * scale(own, self.d, self.g, reach)
    }

    /// Makes the numbers of trials, which must all have own errors, or none. `None` without trials.
    pub fn of(trials: &[Trial], offset: f64) -> Option<Self> {
        if trials.is_empty() {
            return None;
        }
        let mut of_program: BTreeMap<&str, usize> = BTreeMap::new();
        for trial in trials {
            *of_program.entry(&trial.program).or_default() += 1;
        }
        let weights: Vec<f64> = trials
            .iter()
            .map(|t| 1.0 / of_program[t.program.as_str()] as f64)
            .collect();
        let errors: Vec<f64> = trials
            .iter()
            .map(|t| relative_error(t.predicted, t.measured, offset).unwrap_or(0.0))
            .collect();
        let has_own = trials.iter().any(|t| t.own.is_some());
        let mut best: Option<(f64, Self)> = None;
        for g in GROWTHS {
            for d in FLOORS
                .into_iter()
                .take(if has_own { FLOORS.len() } else { 1 })
            {
                let scales: Vec<f64> = trials.iter().map(|t| scale(t.own, d, g, t.reach)).collect();
                let scaled: Vec<f64> = errors
                    .iter()
                    .zip(&scales)
                    .map(|(error, scale)| error / scale)
                    .collect();
                let q = weighted_quantile(&scaled, &weights);
                let score: f64 = trials
                    .iter()
                    .zip(&scales)
                    .zip(&weights)
                    .map(|((t, s), w)| w * score(t, q * s, offset))
                    .sum();
                if best
                    .as_ref()
                    .is_none_or(|(least, _)| score < *least * (1.0 - 1e-12))
                {
                    best = Some((
                        score,
                        Self {
                            q,
                            d: if has_own { d } else { 0.0 },
                            g,
                        },
                    ));
                }
            }
        }
        best.map(|(_, shape)| shape)
    }
}

/// What an error is measured by.
fn scale(own: Option<f64>, d: f64, g: f64, reach: f64) -> f64 {
    own.map_or(1.0, |own| own.min(LARGEST_OWN) + d) * reach.powf(g)
}

/// The interval score as a part of what was measured; 0 where that is nothing.
fn score(trial: &Trial, half: f64, offset: f64) -> f64 {
    let score = interval(trial.predicted, half, offset).score(trial.measured);
    score
        .filter(|_| trial.measured > 0.0)
        .map_or(0.0, |score| score / trial.measured)
}

/// The least value that 97 % of the weight are not above.
fn weighted_quantile(values: &[f64], weights: &[f64]) -> f64 {
    let mut sorted: Vec<(f64, f64)> = values
        .iter()
        .copied()
        .zip(weights.iter().copied())
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = weights.iter().sum();
    let mut below = 0.0;
    for (value, weight) in &sorted {
        below += weight;
        if below >= OF_TRIALS * all * (1.0 - 1e-12) {
            return *value;
        }
    }
    sorted.last().map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::{Shape, Trial, interval, relative_error};

    fn trial(program: &str, error: f64, own: Option<f64>, reach: f64) -> Trial {
        Trial {
            program: program.to_owned(),
            predicted: 1.0,
            measured: 1.0 + error,
            reach,
            own,
        }
    }

    #[test]
    fn programs_weigh_the_same_however_many_trials_they_have() {
        // 1 of 40 trials of one program errs by 0.5, which is 1.25 % of all weight
        let mut trials: Vec<Trial> = (0..39).map(|_| trial("many", 0.1, None, 1.0)).collect();
        trials.push(trial("many", 0.5, None, 1.0));
        trials.extend((0..4).map(|_| trial("few", 0.2, None, 1.0)));
        let shape = Shape::of(&trials, 0.0).expect("numbers");
        assert!((shape.q - 0.2).abs() < 1e-12 && shape.d == 0.0, "{shape:?}");
        assert!(Shape::of(&[], 0.0).is_none());
    }

    #[test]
    fn errors_in_proportion_to_those_of_own_runs_and_to_the_root_of_the_reach_are_found() {
        let mut trials = Vec::new();
        for (program, own) in [("a", 0.01), ("b", 0.05), ("c", 0.3)] {
            for reach in [1.0, 2.0, 4.0, 8.0] {
                trials.push(trial(
                    program,
                    2.0 * (own + 0.02) * f64::sqrt(reach),
                    Some(own),
                    reach,
                ));
            }
        }
        let shape = Shape::of(&trials, 0.0).expect("numbers");
        assert!(
            (shape.q - 2.0).abs() < 1e-9 && shape.d == 0.02 && shape.g == 0.5,
            "{shape:?}"
        );
        assert!((shape.half(Some(0.08), 4.0) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn intervals_are_those_of_the_errors_and_never_below_nothing() {
        for (value, measured, offset) in [(10.0, 13.0, 0.0), (10.0, 4.0, 0.0), (0.2, 0.4, 0.3)] {
            let error = relative_error(value, measured, offset).expect("an error");
            assert_eq!(interval(value, error, offset).covers(measured), Some(true));
            assert_eq!(
                interval(value, 0.99 * error, offset).covers(measured),
                Some(false)
            );
        }
        assert!(
            interval(0.1, 9.0, 1.0)
                .interval
                .is_some_and(|i| i.low == 0.0)
        );
        assert_eq!(
            (
                relative_error(0.0, 0.0, 0.0),
                relative_error(0.0, 1.0, 0.0),
                relative_error(-1.0, 1.0, 0.0)
            ),
            (Some(0.0), None, None)
        );
    }
}
