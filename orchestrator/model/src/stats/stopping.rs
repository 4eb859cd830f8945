//! Repeats that end as soon as their interval is narrow: the stopping rule, and the interval of stopped repeats.

use super::{Interval, Scale, moments::mean, student::mean_interval_at};
use rand_chacha::ChaCha8Rng;

/// Confidence level of the intervals that decide when to stop, and of the intervals of stopped points. Repeats that happen to be close end a point
/// early, so 95 % intervals would contain the mean less often. At this level, intervals contain it in at least 93 of 100 cases for normal values.
/// For distributions with a tail or with rare slow repeats, no level helps, because the runs that would show this may not have been made. Only more
/// repeats help. A test simulates each case.
const LEVEL_OF_STOPPED: f64 = 0.97;

/// Relative width of a mean's interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Narrowness {
    /// The larger distance from the mean to an end of the interval, percent of the mean.
    pub half_width_pct: f64,
    /// Whether this distance is at most the requested half-width.
    pub is_narrow: bool,
}

/// Returns the relative width of the mean's interval, compared with a requested half-width in percent of the mean. Returns `None` for fewer than
/// two values, or if the mean is 0.
pub fn narrowness(values: &[f64], asked_pct: f64) -> Option<Narrowness> {
    let (centre, (interval, _)) = (mean(values)?, stopped_interval(values)?);
    let half = (interval.high - centre).max(centre - interval.low);
    let half_width_pct = 100.0 * half / centre.abs();
    half_width_pct.is_finite().then_some(Narrowness {
        half_width_pct,
        is_narrow: half_width_pct <= asked_pct,
    })
}

/// Returns the 95 % interval of the mean of repeats that ended as soon as it was narrow.
pub(super) fn stopped_interval(values: &[f64]) -> Option<(Interval, Scale)> {
    mean_interval_at(LEVEL_OF_STOPPED, values)
}

/// Maximum number of repeats, and half-width in percent of the mean, for simulated points.
const SIMULATED: (usize, f64) = (20, 5.0);

/// Draws values until their interval is narrow, for simulations. `least` is the minimum number of values.
pub fn stopped_sample(
    least: usize,
    mut value: impl FnMut(&mut ChaCha8Rng) -> f64,
    random: &mut ChaCha8Rng,
) -> Vec<f64> {
    let (most, asked_pct) = SIMULATED;
    let mut values = Vec::new();
    while values.len() < most {
        values.push(value(random));
        if values.len() >= least && narrowness(&values, asked_pct).is_some_and(|w| w.is_narrow) {
            break;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::{
        super::random::{
            samples::{normal, share},
            seeded,
        },
        *,
    };

    #[test]
    fn the_width_is_that_of_the_wider_side() {
        // t(2) at 97 % is 5.6428; the deviation is 1, so the half-width is 5.6428 / √3 = 3.2579, around 100
        let width = narrowness(&[99.0, 100.0, 101.0], 5.0).expect("a width");
        assert!(
            (width.half_width_pct - 3.2579).abs() < 1e-3 && width.is_narrow,
            "{width:?}"
        );
        assert!(
            !narrowness(&[99.0, 100.0, 101.0], 3.0)
                .expect("a width")
                .is_narrow
        );
        assert_eq!(narrowness(&[1.0], 5.0), None);
        assert_eq!(narrowness(&[-1.0, 1.0], 5.0), None);
    }

    /// At least 3 or 5, and at most 20 repeats, until a half-width of 5 %. The scatters end a point after the first, some, or the last of the
    /// repeats.
    #[test]
    fn intervals_of_stopped_points_hold_the_mean() {
        for least in [3, 5] {
            for scatter in [0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.3] {
                let mut random = seeded([&[f64::from(least), scatter][..]]);
                let mut ends = 0;
                let held = share(4000, || {
                    let values = stopped_sample(
                        least as usize,
                        |random| 1.0 + scatter * normal(random),
                        &mut random,
                    );
                    ends += values.len();
                    stopped_interval(&values).is_some_and(|(i, _)| i.low <= 1.0 && 1.0 <= i.high)
                });
                assert!(
                    (0.925..=0.985).contains(&held),
                    "from {least}, scatter {scatter}: {held}"
                );
                assert!(
                    scatter > 0.02 || ends < 4000 * (least as usize + 2),
                    "a point that scatters little ends early: {ends}"
                );
            }
        }
    }

    /// Values with a tail: with a minimum of five repeats, intervals contain the mean more often than with three, and in both cases less often than
    /// for normal values.
    #[test]
    fn points_with_a_tail_are_held_less_often_and_more_often_from_five_repeats_on() {
        let uniform = |z: f64| 0.5 * statrs::function::erf::erfc(-z / std::f64::consts::SQRT_2);
        let held = |least: usize, tail: f64| {
            let mut random = seeded([&[least as f64, tail][..]]);
            share(3000, || {
                let values = stopped_sample(
                    least,
                    |random| 1.0 - tail * uniform(normal(random)).ln(),
                    &mut random,
                );
                stopped_interval(&values)
                    .is_some_and(|(i, _)| i.low <= 1.0 + tail && 1.0 + tail <= i.high)
            })
        };
        for tail in [0.05, 0.1, 0.2] {
            let [three, five] = [held(3, tail), held(5, tail)];
            assert!(
                five >= three - 0.01 && (0.84..=0.97).contains(&five),
                "tail {tail}: {three} {five}"
            );
        }
    }
}
