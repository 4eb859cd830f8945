//! Intervals of a median by order statistics, for any distribution.

use super::interval::{Interval, LEVEL};
use statrs::distribution::{Binomial, DiscreteCDF};

/// Minimum number of values. With five values, even the range from the smallest to the largest contains the median in only 94 of 100 samples.
pub const ENOUGH: usize = 6;

/// Returns the interval of the median from values in ascending order: the narrowest pair of order statistics that contains the median in at least
/// 95 of 100 samples of any distribution. Returns `None` for fewer than six values.
///
/// The coverage from the k-th smallest to the k-th largest value is binomial (Hoefler and Belli 2015, Scientific benchmarking of parallel computing
/// systems, rule 5); it is 95 to 99 %.
pub fn median_interval(sorted: &[f64]) -> Option<Interval> {
    let n = sorted.len();
    if n < ENOUGH {
        return None;
    }
    let binomial = Binomial::new(0.5, n as u64).ok()?;
    let coverage = |k: usize| 1.0 - 2.0 * binomial.cdf(k as u64 - 1);
    let k = (1..=n / 2).take_while(|k| coverage(*k) >= LEVEL).last()?;
    Some(Interval {
        low: sorted[k - 1],
        high: sorted[n - k],
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::random::{
            samples::{Nature, normal, share},
            seeded,
        },
        *,
    };

    #[test]
    fn six_values_are_their_range_and_five_are_too_few() {
        let ascending: Vec<f64> = (1..=20).map(f64::from).collect();
        let of = |n: usize| median_interval(&ascending[..n]).map(|i| (i.low, i.high));
        // ranks from tables of binomial intervals, as in Hollander and Wolfe
        assert_eq!(
            [of(6), of(8), of(9), of(10), of(20)],
            [(1.0, 6.0), (1.0, 8.0), (2.0, 8.0), (2.0, 9.0), (6.0, 15.0)].map(Some)
        );
        assert!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).is_none());
        let same = median_interval(&[2.0; 8]).expect("an interval");
        assert_eq!((same.low, same.high), (2.0, 2.0));
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_median() {
        for n in [6, 7, 8, 10, 15, 20, 40] {
            let natures: [Nature; 3] = [
                ("normal", |z| z),
                ("log-normal", |z| (0.5 * z).exp()),
                ("two modes", |z| z + 3.0 * z.signum()),
            ];
            for (name, value) in natures {
                let mut random = seeded([&[n as f64][..]]);
                let truth = value(0.0);
                let held = share(4000, || {
                    let mut values: Vec<f64> = (0..n).map(|_| value(normal(&mut random))).collect();
                    values.sort_by(f64::total_cmp);
                    median_interval(&values).is_some_and(|i| i.low <= truth && truth <= i.high)
                });
                assert!(
                    (0.945..=0.995).contains(&held),
                    "{name}, {n} repeats: {held}"
                );
            }
        }
    }
}
