//! The numbers that a table cell holds.

use super::{
    blocks::block_means,
    interval::Interval,
    moments::{mean, quantile, sample_sd},
    order::median_interval,
    outliers::{Fences, Outlier},
    stopping::stopped_interval,
    student::{Scale, mean_interval},
    variation::Variation,
};
use serde::Serialize;

/// Statistics of the repeats of one quantity at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// Standard deviation with n - 1 in the denominator; `None` for one value.
    pub sd: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// 95 % interval of the mean; `None` for one value.
    pub interval: Option<Interval>,
    /// How it was made; `None` without one.
    pub interval_of: Option<Scale>,
    /// 95 % interval of the median by order statistics; `None` for fewer than six values.
    pub median_interval: Option<Interval>,
    /// Coefficient of variation; `None` for one value, or if one is not positive.
    pub variation: Option<Variation>,
    /// Number of values beyond the inner fences but within the outer ones.
    pub mild: usize,
    /// Number of values beyond the outer fences.
    pub severe: usize,
}

impl Summary {
    /// Summarises the finite values. `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::with(values, mean_interval)
    }

    /// Summarises repeats that ended when an interval was narrow: that of the mean is wider, so that it holds as often.
    pub fn of_stopped(values: &[f64]) -> Option<Self> {
        Self::with(values, stopped_interval)
    }

    /// Summarises repeats in blocks, each with the number of its block: mean and interval are those of the means of blocks, so that what
    /// differs between blocks is in the interval. The rest is of the values. As [`Self::of`] if all are of one block.
    pub fn of_blocks(values: &[(u32, f64)]) -> Option<Self> {
        let all = Self::of(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())?;
        let means = block_means(values);
        if means.len() < 2 {
            return Some(all);
        }
        let (interval, interval_of) = mean_interval(&means).unzip();
        Some(Self {
            mean: mean(&means)?,
            interval,
            interval_of,
            ..all
        })
    }

    fn with(
        values: &[f64],
        interval_of_mean: fn(&[f64]) -> Option<(Interval, Scale)>,
    ) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let fences = Fences::of_sorted(&sorted);
        let count = |kind| {
            sorted
                .iter()
                .filter(|v| fences.judge(**v) == Some(kind))
                .count()
        };
        let (interval, interval_of) = interval_of_mean(&sorted).unzip();
        Some(Self {
            n: sorted.len(),
            mean: mean(&sorted)?,
            median: quantile(&sorted, 0.5)?,
            sd: sample_sd(&sorted),
            min,
            max,
            interval,
            interval_of,
            median_interval: median_interval(&sorted),
            variation: Variation::of(&sorted),
            mild: count(Outlier::Mild),
            severe: count(Outlier::Severe),
        })
    }

    /// Returns the worst class of outliers among the values.
    pub fn outlier(&self) -> Option<Outlier> {
        match (self.severe, self.mild) {
            (0, 0) => None,
            (0, _) => Some(Outlier::Mild),
            _ => Some(Outlier::Severe),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outlier, Summary, quantile};
    use proptest::prelude::*;

    /// Reference values of Python's `statistics` module (mean, median, stdev; quantiles with method="inclusive").
    #[test]
    fn known_values() {
        let s = Summary::of(&[3.1, 2.7, 4.4, 3.0, 2.9, 3.3, 3.2]).expect("a summary");
        assert!((s.mean - 3.228_571_428_571_428_7).abs() < 1e-12);
        assert!((s.median - 3.1).abs() < 1e-12);
        assert!((s.sd.expect("sd") - 0.552_914_356_581_818).abs() < 1e-12);
        assert_eq!((s.min, s.max, s.n), (2.7, 4.4, 7));
        let sorted = [2.7, 2.9, 3.0, 3.1, 3.2, 3.3, 4.4];
        assert!((quantile(&sorted, 0.25).expect("q1") - 2.95).abs() < 1e-12);
        assert!((quantile(&sorted, 0.75).expect("q3") - 3.25).abs() < 1e-12);
        assert_eq!(s.outlier(), Some(Outlier::Severe));
    }

    #[test]
    fn a_single_value_has_no_interval_and_no_values_have_no_summary() {
        let s = Summary::of(&[5.0]).expect("a summary");
        assert_eq!((s.n, s.sd, s.interval), (1, None, None));
        assert!(Summary::of(&[]).is_none());
        assert!(Summary::of(&[f64::NAN, f64::INFINITY]).is_none());
    }

    #[test]
    fn what_differs_between_blocks_is_in_the_interval() {
        let values = [
            (1, 10.0),
            (1, 10.2),
            (2, 12.0),
            (2, 12.2),
            (3, 11.0),
            (3, 11.2),
        ];
        let of = |values: &[(u32, f64)]| Summary::of_blocks(values).expect("a summary");
        let all = of(&values);
        // means 10.1, 12.1, 11.1: standard deviation 1, and 4.3027 of Student's t with two degrees of freedom
        let half = 4.302_652_729_911_275 / 3f64.sqrt();
        let interval = all.interval.expect("an interval");
        assert!(
            (all.mean - 11.1).abs() < 1e-12 && (interval.high - all.mean - half).abs() < 1e-9,
            "{interval:?}"
        );
        assert_eq!(all.n, 6);
        let one_block: Vec<f64> = vec![10.0, 10.2];
        assert_eq!(
            Summary::of_blocks(&values[..2]),
            Summary::of(&one_block),
            "one block is as repeats without"
        );
        // a block with fewer repeats weighs as much as the others
        assert!((of(&values[1..]).mean - (10.2 + 12.1 + 11.1) / 3.0).abs() < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn order_does_not_matter_and_everything_lies_within(mut values in prop::collection::vec(-1e6f64..1e6, 1..9)) {
            let s = Summary::of(&values).expect("a summary");
            prop_assert!(s.min <= s.mean && s.mean <= s.max);
            prop_assert!(s.min <= s.median && s.median <= s.max);
            if let Some(i) = s.interval {
                prop_assert!(i.low <= s.mean && s.mean <= i.high);
            }
            prop_assert!(s.mild + s.severe < s.n.max(2));
            values.reverse();
            prop_assert_eq!(Summary::of(&values), Some(s));
        }

        #[test]
        fn a_shift_moves_the_summary_along(values in prop::collection::vec(0f64..1e3, 2..8), by in -100f64..100.0) {
            let (a, b) = (Summary::of(&values).expect("a"), Summary::of(&values.iter().map(|v| v + by).collect::<Vec<_>>()).expect("b"));
            prop_assert!((a.mean + by - b.mean).abs() < 1e-6);
            prop_assert!((a.sd.expect("sd") - b.sd.expect("sd")).abs() < 1e-6);
        }
    }
}
