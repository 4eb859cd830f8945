//! Statistics of one table cell.

use super::{
    blocks::block_means,
    interval::{Interval, WIDEST},
    moderated::{CommonScatter, OWN_FROM},
    moments::{log_variance, mean, quantile, sample_sd},
    order::median_interval,
    outliers::{Fences, Outlier},
    stopping::stopped_interval,
    student::{CORRECTED_FROM, Scale, mean_interval, t_quantile},
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
    /// 95 % interval of the mean; `None` for one value, or if the interval would be wider than ten times the mean.
    pub interval: Option<Interval>,
    /// How the interval was computed; `None` without an interval.
    pub interval_of: Option<Scale>,
    /// The number of values needed for an interval if further values scatter like these; `None` with an interval, or for one value.
    pub values_needed: Option<usize>,
    /// 95 % interval of the median by order statistics; `None` for fewer than six values.
    pub median_interval: Option<Interval>,
    /// Coefficient of variation; `None` for one value, or if a value is not positive.
    pub variation: Option<Variation>,
    /// Number of values beyond the inner fences but within the outer ones.
    pub mild: usize,
    /// Number of values beyond the outer fences.
    pub severe: usize,
}

impl Summary {
    /// Summarises the finite values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::with(values, mean_interval)
    }

    /// Summarises repeats that ended as soon as their interval was narrow. The interval of the mean is wider, to restore its coverage.
    pub fn of_stopped(values: &[f64]) -> Option<Self> {
        Self::with(values, stopped_interval)
    }

    /// Summarises repeats in blocks, each value with the number of its block. Mean and interval are those of the block means, so that the interval
    /// includes differences between blocks. The other statistics are those of the values. With one block, the result is that of [`Self::of`].
    pub fn of_blocks(values: &[(u32, f64)]) -> Option<Self> {
        let all = Self::of(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())?;
        let means = block_means(values);
        if means.len() < 2 {
            return Some(all);
        }
        let mut of_means = Self {
            mean: mean(&means)?,
            ..all
        };
        of_means.set_interval(&means, mean_interval(&means), log_variance(&means));
        Some(of_means)
    }

    /// Replaces the interval of the mean by one from the pooled scatter of all points. Applies to fewer than five independent values.
    pub fn pool(&mut self, values: &[f64], common: &CommonScatter) {
        let pooled = Some(values)
            .filter(|values| values.len() < OWN_FROM)
            .and_then(|values| common.interval(values));
        if let Some((interval, variance)) = pooled {
            self.set_interval(values, Some((interval, Scale::Pooled)), Some(variance));
        }
    }

    /// Returns the reason why there is no interval of the mean; `None` if there is one.
    pub fn why_no_interval(&self) -> Option<String> {
        match (self.interval, self.n, self.values_needed) {
            (Some(_), ..) => None,
            (None, 1, _) => Some("a single repeat has no interval".to_owned()),
            (None, n, needed) => Some(format!(
                "{n} repeats scatter too much for an interval{}",
                needed.map_or(String::new(), |n| format!(": it takes {n}"))
            )),
        }
    }

    /// Sets the interval of the mean of independent values if it is narrow enough. `variance` is the variance of the logarithms that it is based
    /// on.
    fn set_interval(
        &mut self,
        values: &[f64],
        interval: Option<(Interval, Scale)>,
        variance: Option<f64>,
    ) {
        // the mean of values that may be negative may be near 0
        let value = if self.min < 0.0 {
            self.mean.abs().max(-self.min).max(self.max)
        } else {
            self.mean
        };
        let useful = interval.filter(|(interval, _)| interval.is_useful(value));
        (self.interval, self.interval_of) = useful.unzip();
        self.values_needed = (interval.is_some() && useful.is_none())
            .then(|| values_needed(variance, values.len()))
            .flatten();
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
        let mut summary = Self {
            n: sorted.len(),
            mean: mean(&sorted)?,
            median: quantile(&sorted, 0.5)?,
            sd: sample_sd(&sorted),
            min,
            max,
            interval: None,
            interval_of: None,
            values_needed: None,
            median_interval: median_interval(&sorted),
            variation: Variation::of(&sorted),
            mild: count(Outlier::Mild),
            severe: count(Outlier::Severe),
        };
        summary.set_interval(&sorted, interval_of_mean(&sorted), log_variance(&sorted));
        Some(summary)
    }

    /// Returns the most severe kind of outlier among the values.
    pub fn outlier(&self) -> Option<Outlier> {
        match (self.severe, self.mild) {
            (0, 0) => None,
            (0, _) => Some(Outlier::Mild),
            _ => Some(Outlier::Severe),
        }
    }
}

/// Returns the total number of values needed for a useful interval, given the variance of their logarithms. It is at most ten: from ten values on,
/// intervals are narrow enough. Returns `None` if `have` is already ten or more.
fn values_needed(variance: Option<f64>, have: usize) -> Option<usize> {
    let enough = |n: &usize| {
        let (count, freedom) = (*n as f64, *n as f64 - 1.0);
        *n >= CORRECTED_FROM
            || variance.is_some_and(|v| {
                let half = t_quantile(freedom) * (v / count + v * v / (2.0 * freedom)).sqrt();
                2.0 * half.sinh() <= WIDEST
            })
    };
    (have + 1..=CORRECTED_FROM).find(enough)
}

#[cfg(test)]
mod tests {
    use super::{CommonScatter, Outlier, Scale, Summary, quantile};
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
    fn an_interval_of_no_use_is_none_and_says_what_it_takes() {
        for (values, needed) in [
            (&[0.1, 0.5][..], Some(5)),
            (&[0.02, 0.7], Some(10)),
            (&[1.0, 1.0, 1000.0], Some(10)),
            (&[0.0, 1.0], Some(10)),
            (&[-1.0, 1.0], Some(10)),
        ] {
            let s = Summary::of(values).expect("a summary");
            assert_eq!((s.interval, s.values_needed), (None, needed), "{values:?}");
            let why = s.why_no_interval().expect("a reason");
            assert!(
                why.contains("scatter too much for an interval: it takes"),
                "{why}"
            );
        }
        // ten values, one of which is a thousand times as large
        let mut ten = [1.0; 10];
        ten[3] = 1000.0;
        let s = Summary::of(&ten).expect("a summary");
        assert!(s.interval.is_some_and(|i| i.high < 10.0 * s.mean), "{s:?}");
    }

    #[test]
    fn few_values_have_the_interval_by_the_common_scatter() {
        let points = [
            [10.0, 10.4],
            [20.0, 20.9],
            [31.0, 30.0],
            [41.0, 40.0],
            [5.0, 5.1],
        ];
        let lists = points.each_ref().map(|p| &p[..]);
        let common = CommonScatter::of(&lists).expect("a scatter");
        let mut s = Summary::of(lists[0]).expect("a summary");
        let alone = s.interval.expect("an interval");
        s.pool(lists[0], &common);
        let pooled = s.interval.expect("an interval");
        assert!(
            pooled.high - pooled.low < 0.5 * (alone.high - alone.low)
                && s.interval_of == Some(Scale::Pooled),
            "{s:?}"
        );
        // five values are enough
        let five = [1.0, 1.1, 0.9, 1.05, 0.95];
        let mut s = Summary::of(&five).expect("a summary");
        s.pool(&five, &common);
        assert_eq!(Some(s), Summary::of(&five));
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
        // means 10.1, 12.1, 11.1: standard deviation 1; Student's t with two degrees of freedom is 4.3027
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
        // a block with fewer repeats has the same weight as the others
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
