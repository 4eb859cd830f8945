//! A law for the time of a checkpoint, a·C·n + b·n + c·C + e, fitted to means of runs. C is the number of clients, n of checkpoints.

use crate::{
    estimate::Estimate,
    fit::{FitError, least_squares},
};

/// Terms of a variable that does not vary are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Varying {
    clients: bool,
    checkpoints: bool,
}

/// A law fitted to times.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeLaw {
    varying: Varying,
    coefficients: Vec<f64>,
    /// Largest error at a fitted setting, seconds.
    error: f64,
}

impl Varying {
    fn terms(self, clients: u64, checkpoints: u64) -> Vec<f64> {
        let (c, n) = (clients as f64, checkpoints as f64);
        let of = [
            (true, 1.0),
            (self.clients, c),
            (self.checkpoints, n),
            (self.clients && self.checkpoints, c * n),
        ];
        let varying = of.into_iter().filter(|(varies, _)| *varies);
        varying.map(|(_, term)| term).collect()
    }
}

impl TimeLaw {
    /// Fits a law to seconds at numbers of clients and of checkpoints.
    ///
    /// # Errors
    /// There are fewer settings than terms, or a value is not finite.
    pub fn fit(times: &[(u64, u64, f64)]) -> Result<Self, FitError> {
        let varies = |of: fn(&(u64, u64, f64)) -> u64| {
            times.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]))
        };
        let varying = Varying {
            clients: varies(|at| at.0),
            checkpoints: varies(|at| at.1),
        };
        let rows: Vec<Vec<f64>> = times
            .iter()
            .map(|(c, n, _)| varying.terms(*c, *n))
            .collect();
        let seconds: Vec<f64> = times.iter().map(|(.., s)| *s).collect();
        let mut law = Self {
            varying,
            coefficients: least_squares(&rows, &seconds, None)?.coefficients,
            error: 0.0,
        };
        let miss = |(c, n, s): &(u64, u64, f64)| (law.at(*c, *n).value - s).abs();
        law.error = times.iter().map(miss).fold(0.0, f64::max);
        Ok(law)
    }

    /// Returns the time at a setting, with the largest error at a fitted setting on both sides.
    pub fn at(&self, clients: u64, checkpoints: u64) -> Estimate {
        let terms = self.varying.terms(clients, checkpoints);
        let value = terms
            .iter()
            .zip(&self.coefficients)
            .map(|(a, b)| a * b)
            .sum();
        Estimate::plus_minus(value, self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_law_come_out_at_other_settings() {
        let truth = |c: u64, n: u64| (2 * c * n + 3 * n + 5 * c + 7) as f64;
        let at = [(2, 1), (8, 1), (2, 9), (8, 9), (4, 3)];
        let law = TimeLaw::fit(&at.map(|(c, n)| (c, n, truth(c, n)))).expect("a law");
        let found = law.at(16, 30);
        assert!((found.value - truth(16, 30)).abs() < 1e-6, "{found:?}");
        assert!(
            TimeLaw::fit(&[(1, 1, 1.0), (2, 2, 2.0)]).is_err(),
            "4 terms"
        );
    }

    #[test]
    fn a_variable_that_is_constant_has_no_term_and_errors_widen() {
        let law = TimeLaw::fit(&[(1, 9, 1.0), (2, 9, 2.3), (3, 9, 3.0)]).expect("a law");
        let found = law.at(2, 9);
        assert_eq!(found.covers(2.3), Some(true), "{found:?}");
        assert!(found.half_width().expect("an interval") > 0.1);
    }
}
