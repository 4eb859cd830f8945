//! Outliers by Tukey's fences, with the same classes as criterion.

use super::moments::quantile;
use serde::Serialize;

/// The class of an outlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlier {
    /// More than 1.5 interquartile ranges beyond a quartile.
    Mild,
    /// More than 3 interquartile ranges beyond a quartile.
    Severe,
}

/// Tukey's inner and outer fences (Tukey 1977, Exploratory Data Analysis, section 2D).
///
/// With fewer than five values no value can be outside the fences, because the quartiles move with it. Then nothing is flagged, and readers must
/// look at plots of all repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fences {
    inner: (f64, f64),
    outer: (f64, f64),
}

impl Fences {
    /// Returns the fences of values in ascending order.
    pub fn of_sorted(sorted: &[f64]) -> Self {
        let q1 = quantile(sorted, 0.25).unwrap_or(f64::NEG_INFINITY);
        let q3 = quantile(sorted, 0.75).unwrap_or(f64::INFINITY);
        let range = q3 - q1;
        Self {
            inner: (q1 - 1.5 * range, q3 + 1.5 * range),
            outer: (q1 - 3.0 * range, q3 + 3.0 * range),
        }
    }

    /// Returns the fences of values in any order.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self::of_sorted(&sorted)
    }

    /// Classifies a value; `None` if it is no outlier.
    pub fn judge(&self, value: f64) -> Option<Outlier> {
        let beyond = |(low, high): (f64, f64)| value < low || value > high;
        if beyond(self.outer) {
            Some(Outlier::Severe)
        } else if beyond(self.inner) {
            Some(Outlier::Mild)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fences, Outlier};

    #[test]
    fn fences_of_known_values() {
        // quartiles 2 and 4: inner fences -1 and 7, outer fences -4 and 10
        let fences = Fences::of(&[1.0, 5.0, 3.0, 2.0, 4.0]);
        for (value, is) in [
            (7.0, None),
            (7.1, Some(Outlier::Mild)),
            (10.0, Some(Outlier::Mild)),
            (10.1, Some(Outlier::Severe)),
            (-4.1, Some(Outlier::Severe)),
        ] {
            assert_eq!(fences.judge(value), is, "{value}");
        }
    }

    #[test]
    fn three_values_flag_nothing() {
        let values = [1.0, 1.0, 100.0];
        let fences = Fences::of(&values);
        assert!(values.iter().all(|v| fences.judge(*v).is_none()));
    }
}
