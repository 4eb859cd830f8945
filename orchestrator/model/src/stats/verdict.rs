//! Verdict of the comparison of two samples: the same, larger, smaller, or undecided.

use super::{compare::Comparison, student::t_quantile_at};
use serde::Serialize;

/// Maximum number of repeats of a side that is recommended.
const MAX_REPEATS: usize = 1000;

/// Quantile of the normal distribution for a power of 80 %: with the recommended number of repeats, four of five comparisons decide, if the
/// observed difference is the true one.
const POWER_Z: f64 = 0.841_621;

/// Verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval of the ratio is within the margin: any difference is too small to matter.
    Same,
    /// The first side is larger, by more than the scatter of the repeats explains.
    Larger,
    /// The first side is smaller, by more than the scatter of the repeats explains.
    Smaller,
    /// Neither a difference nor equality is shown.
    CannotTell {
        /// Number of further repeats of each side with which four of five comparisons would decide, if the observed difference is the true one.
        /// `None` if a side has one repeat, so that its scatter is unknown, or if more than a thousand repeats would be needed.
        more_repeats: Option<usize>,
    },
}

impl Verdict {
    /// Returns the verdict of a comparison, after the adjustment for the number of comparisons, if there was one. `margin` is the largest relative
    /// difference that does not matter, such as 0.05. Both sides are the same if the interval of their ratio is between 1 / (1 + margin) and 1 +
    /// margin.
    ///
    /// The interval has a confidence level of 95 % or, adjusted, more. The usual test of equivalence (Schuirmann 1987, A comparison of the two
    /// one-sided tests procedure) uses 90 %. With 95 %, `Same` is wrong in at most 2.5 of 100 cases instead of 5.
    pub fn of(comparison: &Comparison, margin: f64) -> Self {
        let within = comparison
            .interval
            .is_some_and(|i| i.low >= 1.0 / (1.0 + margin) && i.high <= 1.0 + margin);
        if within {
            Self::Same
        } else if comparison.differs() {
            if comparison.ratio > 1.0 {
                Self::Larger
            } else {
                Self::Smaller
            }
        } else {
            Self::CannotTell {
                more_repeats: more_repeats(comparison, margin),
            }
        }
    }
}

/// Returns the number of repeats missing on each side. With n repeats on each side, the half-width h of the ratio's logarithm is proportional to t
/// / √n. The power is that of [`POWER_Z`] if |d| ≥ h (1 + z / t) for a difference, or margin - |d| ≥ h (1 + z / t) for equality.
fn more_repeats(comparison: &Comparison, margin: f64) -> Option<usize> {
    let error = comparison.log_error()?;
    let have = comparison.n.0.min(comparison.n.1);
    let apart = comparison.ratio.ln().abs();
    let room = apart.max((1.0 + margin).ln() - apart);
    let freedom = |n: usize| {
        if comparison.paired {
            n as f64 - 1.0
        } else {
            2.0 * n as f64 - 2.0
        }
    };
    let needed = |n: usize| {
        let t = t_quantile_at(1.0 - comparison.level, freedom(n));
        error * (have as f64 / n as f64).sqrt() * (t + POWER_Z)
    };
    // the required distance falls with n
    let (mut low, mut high) = (have, MAX_REPEATS + have);
    if needed(high) > room {
        return None;
    }
    while low + 1 < high {
        let middle = low.midpoint(high);
        if needed(middle) <= room {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high - have)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            compare::{adjust, compare},
            random::{
                samples::{normal, share},
                seeded,
            },
        },
        *,
    };

    fn judged(a: &[f64], b: &[f64], margin: f64) -> Verdict {
        Verdict::of(&compare(a, b).expect("a comparison"), margin)
    }

    #[test]
    fn each_verdict_is_reached() {
        let near = [100.0, 100.1, 99.9, 100.0];
        assert_eq!(
            judged(&near, &[100.2, 100.1, 100.0, 100.1], 0.02),
            Verdict::Same
        );
        assert_eq!(judged(&[110.0, 111.0, 109.0], &near, 0.02), Verdict::Larger);
        assert_eq!(
            judged(&near, &[110.0, 111.0, 109.0], 0.02),
            Verdict::Smaller
        );
        assert_eq!(
            judged(&[100.0], &[100.0], 0.02),
            Verdict::CannotTell { more_repeats: None }
        );
        let wide = judged(&[90.0, 110.0, 100.0], &[95.0, 118.0, 104.0], 0.02);
        assert!(
            matches!(wide, Verdict::CannotTell { more_repeats: Some(more) } if more > 3),
            "{wide:?}"
        );
        // even a thousand repeats would neither show this small a difference nor bring this wide an interval into the margin
        assert_eq!(
            judged(&[10.0, 200.0], &[10.0, 201.0], 1e-6),
            Verdict::CannotTell { more_repeats: None }
        );
    }

    #[test]
    fn values_without_scatter_are_the_same_or_not() {
        assert_eq!(judged(&[7.0; 3], &[7.0; 3], 0.0), Verdict::Same);
        assert_eq!(judged(&[7.5; 3], &[7.0; 3], 0.0), Verdict::Larger);
        assert_eq!(judged(&[7.01; 3], &[7.0; 3], 0.02), Verdict::Same);
    }

    #[test]
    fn a_difference_that_the_adjustment_removes_is_not_reported() {
        let mut one = compare(&[102.0, 103.0, 104.5], &[99.5, 100.4, 100.9]).expect("a comparison");
        assert_eq!(Verdict::of(&one, 0.001), Verdict::Larger, "{one:?}");
        let mut others =
            vec![compare(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]).expect("a comparison"); 40];
        adjust(others.iter_mut().chain([&mut one]), 0.001);
        assert!(
            matches!(Verdict::of(&one, 0.001), Verdict::CannotTell { .. }),
            "{one:?}"
        );
    }

    /// Simulates three error rates: sides at the edge of the margin called the same, equal sides called different, and the recommended repeats not
    /// deciding.
    #[test]
    fn verdicts_are_wrong_as_rarely_as_they_say() {
        let mut random = seeded([[1.0, 2.0].as_slice()]);
        let mut sample = |n: usize, mean: f64| -> Vec<f64> {
            (0..n)
                .map(|_| mean * (1.0 + 0.03 * normal(&mut random)))
                .collect()
        };
        for n in [3, 5, 10] {
            let at_the_edge = share(4000, || {
                judged(&sample(n, 105.0), &sample(n, 100.0), 0.05) == Verdict::Same
            });
            assert!(at_the_edge <= 0.035, "{n}: {at_the_edge}");
            let equal = share(4000, || {
                matches!(
                    judged(&sample(n, 100.0), &sample(n, 100.0), 0.0),
                    Verdict::Larger | Verdict::Smaller
                )
            });
            assert!((0.03..=0.06).contains(&equal), "{n}: {equal}");
        }
        let (mut advised, mut decided) = (0, 0);
        while advised < 600 {
            let (mut a, mut b) = (sample(4, 103.0), sample(4, 100.0));
            if let Verdict::CannotTell {
                more_repeats: Some(more),
            } = judged(&a, &b, 0.01)
                && more < 200
            {
                advised += 1;
                a.extend(sample(more, 103.0));
                b.extend(sample(more, 100.0));
                decided += usize::from(!matches!(judged(&a, &b, 0.01), Verdict::CannotTell { .. }));
            }
        }
        let share = decided as f64 / advised as f64;
        assert!((0.6..=0.95).contains(&share), "{share}");
    }
}
