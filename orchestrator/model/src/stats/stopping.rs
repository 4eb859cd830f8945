//! Repeats that end when their interval is narrow: when they may, and what their interval then is.

use super::{Interval, Scale, moments::mean, student::mean_interval_at};
use rand_chacha::ChaCha8Rng;

/// The level of intervals that decide when to stop, and of those of the points that were stopped. Repeats that happen to lie close together
/// end a point early, so intervals at 95 % hold the mean less often; at this level they hold it in at least 93 of 100 cases where values are
/// normal. Where they have a tail, or where seldom one is slow, the runs that would show it may not have been made: then no level helps, only
/// more repeats (a test simulates each).
const LEVEL_OF_STOPPED: f64 = 0.97;

/// How narrow the interval of a mean is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Narrowness {
    /// The larger distance from the mean to an end, percent of the mean.
    pub half_width_pct: f64,
    /// Whether that is at most what was asked for.
    pub is_narrow: bool,
}

/// Returns how narrow the interval of the mean is, against a half width in percent of the mean. `None` for fewer than two values, or a mean
/// of 0.
pub fn narrowness(values: &[f64], asked_pct: f64) -> Option<Narrowness> {
    let (centre, (interval, _)) = (mean(values)?, stopped_interval(values)?);
    let half = (interval.high - centre).max(centre - interval.low);
    let half_width_pct = 100.0 * half / centre.abs();
    half_width_pct.is_finite().then_some(Narrowness {
        half_width_pct,
        is_narrow: half_width_pct <= asked_pct,
    })
}

/// Returns the 95 % interval of the mean of repeats that ended when it was narrow.
pub(super) fn stopped_interval(values: &[f64]) -> Option<(Interval, Scale)> {
    mean_interval_at(LEVEL_OF_STOPPED, values)
}

/// Most repeats, and the half width in percent of the mean, of simulated points that are stopped.
const SIMULATED: (usize, f64) = (20, 5.0);

/// Draws values until their interval is narrow, for simulations: at least so many.
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
        // t(2) at 97 % is 5.6428; the deviation is 1, so 5.6428 / sqrt 3 = 3.2579 around 100
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

    /// From 3 or 5 to 20 repeats, until 5 %, over scatters for which the first, some, or the last repeats end a point.
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

    /// Values with a tail: from five repeats on more points hold than from three, and neither as many as of normal values.
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
