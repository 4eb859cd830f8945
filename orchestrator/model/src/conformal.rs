//! Intervals from the errors of trials with other programs (split conformal prediction, normalised). A trial is a prediction for a program that the
//! model was not fitted to. Its error is divided by the expected error, which follows from the program's own runs, from the differences between
//! candidate laws, and from the distance to the runs.
//!
//! ```text
//! x = v + o        s = (own·b + laws·w/x + d)·reach^g        from v − x + x/(1 + l·s) to v + x·u·s
//! ```
//!
//! - v is the prediction, and b the largest error for the program's own runs when they are left out.
//! - w is the distance to the prediction of the candidate law that differs most.
//! - d is added because a few runs may be predicted well by chance.
//! - `own` and `laws` are 0 or 1; if both are 0, s = reach^g.
//! - o sets the reference of relative errors: 0 for the prediction, a large o for absolute errors, a negative o for the excess over the part that
//!   all programs have in common.
//! - l and u are quantiles of the scaled errors at a share of the trials. All programs have the same weight.
//!
//! This share and all other parameters minimise the mean interval score over programs that are left out in turn, because the predicted program is
//! also one that was not fitted. Sources: J. Lei and others, Distribution-free predictive inference for regression, J. Am. Stat. Assoc. 113, 2018
//! (normalised scores); R. L. Winkler, A decision-theoretic approach to interval estimation, J. Am. Stat. Assoc. 67, 1972; T. Gneiting and A. E.
//! Raftery, Strictly proper scoring rules, J. Am. Stat. Assoc. 102, 2007 (choice by score).

use super::estimate::Estimate;
use serde::Serialize;
use std::collections::BTreeMap;

/// Candidates for d, the constant part of the expected relative error.
const FLOORS: [f64; 6] = [0.003, 0.01, 0.03, 0.1, 0.3, 2.0];

/// Candidates for g, the exponent of the reach.
const GROWTHS: [f64; 3] = [0.0, 0.5, 1.0];

/// Candidates for the share of the trials that the interval contains.
const LEVELS: [f64; 6] = [0.8, 0.9, 0.95, 0.97, 0.985, 1.0];

/// The share used if the trials have fewer than three programs. Too few programs then remain to leave one out.
const LEVEL_OF_FEW: f64 = 0.97;
const FEW_PROGRAMS: usize = 3;

/// Minimum share of left-out trials inside the interval. Below it the score gets a penalty of `PENALTY` times the shortfall, because otherwise
/// narrow intervals that contain too few trials could win.
const MIN_INSIDE: f64 = 0.945;
const PENALTY: f64 = 5.0;

/// Maximum of the own error and of the difference between laws; larger values are clamped, because the model does not apply to the program.
const LARGEST_SCALE: f64 = 1.0;

/// A scale with more terms replaces a simpler one only if its score is below this multiple of the simpler one's.
const CLEARLY_LESS: f64 = 0.995;

/// The relative error of a measured value that is so far below the prediction that no interval contains it.
const NEVER_INSIDE: f64 = 1e6;

/// Minimum reference of relative errors, as a fraction of the amount of a negative offset: about 0.2 MiB for an offset of −9 MiB.
const MIN_EXCESS: f64 = 0.02;

/// A run that was left out of the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut {
    /// The prediction from the runs on other numbers of processes.
    pub predicted: f64,
    /// The measured value.
    pub measured: f64,
}

/// Expected error of a prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doubt {
    /// Factor by which the setting is beyond the fitted runs; 1 inside their range.
    pub reach: f64,
    /// The program's own runs, each left out in turn.
    pub left_out: Vec<LeftOut>,
    /// Distance between the prediction and that of the candidate law that differs most, in the unit of the quantity.
    pub laws: f64,
}

/// A prediction for a program that the model was not fitted to.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The program.
    pub program: String,
    /// The prediction.
    pub predicted: f64,
    /// The measured value.
    pub measured: f64,
    /// Expected error of the prediction.
    pub doubt: Doubt,
}

/// Parameters of the intervals of one kind of prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// o: added to values before relative errors are computed.
    pub offset: f64,
    /// Whether the errors of the program's own runs count.
    pub own: bool,
    /// Whether the distance between laws counts.
    pub laws: bool,
    /// Constant part of the expected error.
    pub d: f64,
    /// Exponent of the reach.
    pub g: f64,
    /// l: quantile of the scaled errors below the prediction.
    pub below: f64,
    /// u: quantile of the scaled errors above the prediction.
    pub above: f64,
}

/// Returns the reference value of relative errors.
fn base(value: f64, offset: f64) -> f64 {
    (value + offset).max((-MIN_EXCESS * offset).max(1e-9))
}

/// Adds `offset` to both values, and returns the larger of measured/predicted and predicted/measured, minus 1. Returns `None` if the result is not
/// finite.
pub fn relative_error(predicted: f64, measured: f64, offset: f64) -> Option<f64> {
    let ratio = base(measured, offset) / base(predicted, offset);
    Some(ratio.max(1.0 / ratio) - 1.0).filter(|e| e.is_finite())
}

/// Returns the largest relative error of the program's left-out runs; `None` if there are none.
pub fn own_error(left_out: &[LeftOut], offset: f64) -> Option<f64> {
    let error = |run: &LeftOut| relative_error(run.predicted, run.measured, offset);
    left_out.iter().filter_map(error).reduce(f64::max)
}

impl Shape {
    /// Returns s, the expected error of a prediction relative to its reference value.
    fn scale(&self, value: f64, doubt: &Doubt) -> f64 {
        let mut scale = 0.0;
        if self.own {
            scale += own_error(&doubt.left_out, self.offset)
                .unwrap_or(0.0)
                .min(LARGEST_SCALE);
        }
        if self.laws {
            scale += (doubt.laws / base(value, self.offset)).min(LARGEST_SCALE);
        }
        let scale = if self.own || self.laws {
            scale + self.d
        } else {
            1.0
        };
        scale * doubt.reach.max(1.0).powf(self.g)
    }

    /// Returns a prediction with its interval.
    pub fn interval(&self, value: f64, doubt: &Doubt) -> Estimate {
        let scale = self.scale(value, doubt);
        let (low, high) = ends(
            value,
            base(value, self.offset),
            self.below * scale,
            self.above * scale,
        );
        Estimate::between(value, low, high)
    }

    /// Fits the parameters to trials and chooses one of the offsets. `has_own` says whether runs of the predicted program can be left out, so that
    /// their errors are known. Returns `None` without trials.
    pub fn of(trials: &[Trial], offsets: &[f64], has_own: bool) -> Option<Self> {
        if trials.is_empty() {
            return None;
        }
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for trial in trials {
            let next = places.len();
            places.entry(&trial.program).or_insert(next);
        }
        let programs: Vec<usize> = trials.iter().map(|t| places[t.program.as_str()]).collect();
        let counts: Vec<f64> = (0..places.len())
            .map(|p| programs.iter().filter(|of| **of == p).count() as f64)
            .collect();
        let has_laws = trials.iter().any(|t| t.doubt.laws > 0.0);
        let mut best: Option<(f64, Self)> = None;
        for offset in offsets {
            let of = Errors::of(trials, *offset, &programs, &counts);
            for (own, laws) in [(false, false), (true, false), (false, true), (true, true)] {
                if own && !has_own || laws && !has_laws {
                    continue;
                }
                let floors = if own || laws { &FLOORS[..] } else { &[0.0] };
                for d in floors {
                    for g in GROWTHS {
                        let shape = Self {
                            offset: *offset,
                            own,
                            laws,
                            d: *d,
                            g,
                            below: 0.0,
                            above: 0.0,
                        };
                        let (score, shape) = of.best(shape);
                        if best
                            .as_ref()
                            .is_none_or(|(least, _)| score < *least * CLEARLY_LESS)
                        {
                            best = Some((score, shape));
                        }
                    }
                }
            }
        }
        best.map(|(_, shape)| shape)
    }
}

/// Returns the ends of an interval with these relative errors.
fn ends(value: f64, base: f64, below: f64, above: f64) -> (f64, f64) {
    (
        (value - base + base / (1.0 + below)).max(0.0).min(value),
        value + base * above,
    )
}

/// The errors of trials for one offset.
struct Errors<'t> {
    trials: &'t [Trial],
    /// For each trial: base, relative error below, relative error above, error of own runs, distance between laws.
    of: Vec<[f64; 5]>,
    programs: &'t [usize],
    counts: &'t [f64],
}

impl<'t> Errors<'t> {
    fn of(trials: &'t [Trial], offset: f64, programs: &'t [usize], counts: &'t [f64]) -> Self {
        let of = trials
            .iter()
            .map(|t| {
                let base = base(t.predicted, offset);
                let error = (t.measured - t.predicted) / base;
                let below = if error > -1.0 {
                    1.0 / (1.0 + error) - 1.0
                } else {
                    NEVER_INSIDE
                };
                [
                    base,
                    below.max(0.0),
                    error.max(0.0),
                    own_error(&t.doubt.left_out, offset)
                        .unwrap_or(0.0)
                        .min(LARGEST_SCALE),
                    (t.doubt.laws / base).min(LARGEST_SCALE),
                ]
            })
            .collect();
        Self {
            trials,
            of,
            programs,
            counts,
        }
    }

    /// Returns the minimum score, and the shape completed with the share of trials and the quantiles that give this score.
    fn best(&self, shape: Shape) -> (f64, Shape) {
        let scales: Vec<f64> = self
            .trials
            .iter()
            .zip(&self.of)
            .map(|(t, [.., own, laws])| {
                let scale = match (shape.own, shape.laws) {
                    (false, false) => 1.0,
                    (true, false) => own + shape.d,
                    (false, true) => laws + shape.d,
                    (true, true) => own + laws + shape.d,
                };
                scale * t.doubt.reach.max(1.0).powf(shape.g)
            })
            .collect();
        let sorted = |error: &dyn Fn(&[f64; 5]) -> f64| {
            let mut sorted: Vec<(f64, usize)> = self
                .of
                .iter()
                .zip(&scales)
                .zip(self.programs)
                .map(|((of, scale), program)| (error(of) / scale, *program))
                .collect();
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
            sorted
        };
        let (below, above) = (sorted(&|of| of[1]), sorted(&|of| of[2]));
        let either = sorted(&|of| of[1].max(of[2]));
        let quantiles = |level: f64, is_even: bool, without: Option<usize>| {
            if is_even {
                let q = self.quantile(&either, level, without);
                (q, q)
            } else {
                let level = 0.5 + 0.5 * level;
                (
                    self.quantile(&below, level, without),
                    self.quantile(&above, level, without),
                )
            }
        };
        let few = self.counts.len() < FEW_PROGRAMS;
        let mut best: Option<(f64, Shape)> = None;
        for level in LEVELS {
            for is_even in [false, true] {
                if few && !(is_even && level == LEVEL_OF_FEW) {
                    continue;
                }
                let of_program: Vec<(f64, f64)> = (0..self.counts.len())
                    .map(|p| quantiles(level, is_even, (!few).then_some(p)))
                    .collect();
                let score = self.score(&scales, &of_program);
                if best
                    .as_ref()
                    .is_none_or(|(least, _)| score < *least * (1.0 - 1e-9))
                {
                    let (below, above) = quantiles(level, is_even, None);
                    best = Some((
                        score,
                        Shape {
                            below,
                            above,
                            ..shape
                        },
                    ));
                }
            }
        }
        best.unwrap_or((f64::INFINITY, shape))
    }

    /// Returns the mean interval score divided by the measured value. Each program has its own quantiles and the same weight.
    fn score(&self, scales: &[f64], quantiles: &[(f64, f64)]) -> f64 {
        let (mut score, mut inside) = (0.0, 0.0);
        for (((trial, of), scale), program) in self
            .trials
            .iter()
            .zip(&self.of)
            .zip(scales)
            .zip(self.programs)
        {
            let (below, above) = quantiles[*program];
            let (low, high) = ends(trial.predicted, of[0], below * scale, above * scale);
            let measured = trial.measured;
            let weight = 1.0 / self.counts[*program];
            let slack = 1e-9 * measured.abs();
            if (low - slack..=high + slack).contains(&measured) {
                inside += weight;
            }
            if measured > 0.0 {
                let beyond = (low - measured).max(measured - high).max(0.0);
                score += weight * (high - low + PER_BEYOND * beyond) / measured;
            }
        }
        let missing = MIN_INSIDE - inside / self.counts.len() as f64;
        score * (1.0 + PENALTY * missing.max(0.0))
    }

    /// Returns the smallest value that covers a share of the weight, computed without the trials of one program.
    fn quantile(&self, sorted: &[(f64, usize)], level: f64, without: Option<usize>) -> f64 {
        let all = self.counts.len() as f64 - f64::from(u8::from(without.is_some()));
        let mut below = 0.0;
        let mut last = 0.0;
        for (value, program) in sorted.iter().filter(|(_, p)| Some(*p) != without) {
            below += 1.0 / self.counts[*program];
            last = *value;
            if below >= level * all * (1.0 - 1e-12) {
                break;
            }
        }
        last
    }
}

/// The interval score's penalty for each unit outside a 95 % interval: 2/0.05.
const PER_BEYOND: f64 = 40.0;

#[cfg(test)]
mod tests {
    use super::{Doubt, LeftOut, Shape, Trial, relative_error};

    fn trial(program: &str, error: f64, doubt: Doubt) -> Trial {
        Trial {
            program: program.to_owned(),
            predicted: 1.0,
            measured: 1.0 + error,
            doubt,
        }
    }

    fn at(reach: f64) -> Doubt {
        Doubt {
            reach,
            ..Doubt::default()
        }
    }

    #[test]
    fn programs_weigh_the_same_however_many_trials_they_have() {
        // 1 of 40 trials of one program has an error of 0.5; it has 1.25 % of the total weight
        let mut trials: Vec<Trial> = (0..39).map(|_| trial("many", 0.1, at(1.0))).collect();
        trials.push(trial("many", 0.5, at(1.0)));
        trials.extend((0..4).map(|_| trial("few", 0.2, at(1.0))));
        let shape = Shape::of(&trials, &[0.0], false).expect("numbers");
        assert!(
            (shape.above - 0.2).abs() < 1e-12 && shape.d == 0.0,
            "{shape:?}"
        );
        assert!(Shape::of(&[], &[0.0], false).is_none());
    }

    #[test]
    fn errors_on_one_side_that_grow_with_own_errors_and_the_reach_are_found() {
        let mut trials = Vec::new();
        for (i, program) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            for reach in [1.0, 2.0, 4.0, 8.0] {
                let own = 0.01 * f64::from(1_u32 << i);
                let left_out = vec![LeftOut {
                    predicted: 1.0,
                    measured: 1.0 + own,
                }];
                let doubt = Doubt {
                    left_out,
                    ..at(reach)
                };
                trials.push(trial(program, 2.0 * (own + 0.03) * f64::sqrt(reach), doubt));
            }
        }
        let shape = Shape::of(&trials, &[0.0, 1e4], true).expect("numbers");
        assert!(
            shape.own && shape.offset == 0.0 && shape.d == 0.03 && shape.g == 0.5,
            "{shape:?}"
        );
        assert!(
            (shape.above - 2.0).abs() < 1e-9 && shape.below == 0.0,
            "{shape:?}"
        );
        let interval = shape
            .interval(10.0, &trials[0].doubt)
            .interval
            .expect("one");
        assert!(
            (interval.high - 10.8).abs() < 1e-9 && interval.low == 10.0,
            "{interval:?}"
        );
    }

    #[test]
    fn the_distance_between_laws_separates_certain_predictions() {
        let laws = |laws: f64| Doubt { laws, ..at(1.0) };
        let trials: Vec<Trial> = ["a", "b", "c", "d"]
            .into_iter()
            .flat_map(|p| [0.0, 0.05, 0.4].map(|w| trial(p, 0.5 * (w + 0.01), laws(w))))
            .collect();
        let shape = Shape::of(&trials, &[0.0], false).expect("numbers");
        assert!(shape.laws && shape.d == 0.01, "{shape:?}");
        let high = |w: f64| shape.interval(1.0, &laws(w)).interval.expect("one").high;
        assert!((high(0.0) - 1.005).abs() < 1e-9 && (high(0.4) - 1.205).abs() < 1e-9);
    }

    #[test]
    fn errors_are_relative_to_the_excess_over_what_every_program_has_and_never_below_nothing() {
        assert_eq!(relative_error(10.0, 10.5, -9.0), Some(0.5));
        assert!(relative_error(8.0, 9.18, -9.0).is_some_and(|e| e.abs() < 1e-9));
        let shape = Shape {
            offset: 1.0,
            own: false,
            laws: false,
            d: 0.0,
            g: 0.0,
            below: 9.0,
            above: 9.0,
        };
        let interval = shape.interval(0.1, &at(1.0)).interval.expect("one");
        assert_eq!(interval.low, 0.0);
        assert!((interval.high - 10.0).abs() < 1e-9);
        assert_eq!(relative_error(0.0, 0.0, 0.0), Some(0.0));
    }
}
