//! Linear least squares by a QR decomposition with column pivoting, with errors and prediction intervals.

use super::{estimate::Estimate, stats::t_quantile};
use nalgebra::{ColPivQR, DMatrix, DVector, Dyn};
use serde::Serialize;

/// Fraction of the largest diagonal element of R below which a column of the design matrix counts as a linear combination of the others.
const RANK_TOLERANCE: f64 = 1e-10;

/// Why a fit is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize)]
#[serde(tag = "refused", rename_all = "kebab-case")]
pub enum FitError {
    /// Fewer points than parameters.
    #[error("too few points: {found}, {needed} needed")]
    TooFewPoints {
        /// Number of points.
        found: usize,
        /// Number of points needed.
        needed: usize,
    },
    /// The points do not determine the parameters.
    #[error("the points do not determine the parameters (rank {rank} of {parameters}): {why}")]
    RankDeficient {
        /// Number of parameters that the points determine.
        rank: usize,
        /// Number of parameters of the model.
        parameters: usize,
        /// The reason why the points do not determine the parameters.
        why: String,
    },
    /// A value that the model does not accept.
    #[error("{what} is {value}: {why}")]
    BadValue {
        /// The name of the value.
        what: String,
        /// The value.
        value: f64,
        /// The condition on the value.
        why: String,
    },
    /// The model does not cover the setting.
    #[error("{0}")]
    OutOfDomain(String),
    /// A non-linear fit did not converge.
    #[error("the fit did not converge: {0}")]
    NoConvergence(String),
}

/// The result of a least-squares fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// One coefficient for each column of the design.
    pub coefficients: Vec<f64>,
    /// Standard errors of the coefficients; `None` without degrees of freedom.
    pub standard_errors: Option<Vec<f64>>,
    /// Observed minus fitted values, unweighted, in the order of the points.
    pub residuals: Vec<f64>,
    /// Number of points minus number of parameters.
    pub degrees_of_freedom: usize,
    /// Standard deviation of the weighted residuals; `None` without degrees of freedom.
    pub sigma: Option<f64>,
    /// (XᵀWX)⁻¹, without the factor σ².
    covariance: DMatrix<f64>,
}

/// Returns the weights 1/y², which make residuals proportional to the values.
pub fn relative_weights(values: &[f64]) -> Vec<f64> {
    values.iter().map(|y| 1.0 / (y * y)).collect()
}

/// Minimises Σ wᵢ (yᵢ − xᵢ·β)² over β ≥ 0. Returns the indices of the parameters above 0, and their fit. All sets of parameters are tried, because
/// there are few. Among sets with the same error, the smallest set is used, and among sets of the same size the one with the highest indices.
///
/// # Errors
/// No set can be fitted; the error is that of the last set.
pub(super) fn least_squares_not_negative(
    rows: &[Vec<f64>],
    values: &[f64],
    weights: &[f64],
) -> Result<(Vec<usize>, Fit), FitError> {
    let parameters = rows.first().map_or(0, Vec::len);
    let mut best: Option<(f64, Vec<usize>, Fit)> = None;
    let mut refused = FitError::TooFewPoints {
        found: rows.len(),
        needed: 1,
    };
    let mut sets: Vec<Vec<usize>> = (1..1_u32 << parameters)
        .map(|set| (0..parameters).filter(|i| set >> i & 1 == 1).collect())
        .collect();
    sets.sort_by_key(|set| (set.len(), std::cmp::Reverse(set.clone())));
    for kept in sets {
        let part: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| kept.iter().map(|i| row[*i]).collect())
            .collect();
        match least_squares(&part, values, Some(weights)) {
            Ok(fit) if fit.coefficients.iter().all(|c| *c > 0.0) => {
                let error: f64 = fit
                    .residuals
                    .iter()
                    .zip(weights)
                    .map(|(r, w)| w * r * r)
                    .sum();
                if best
                    .as_ref()
                    .is_none_or(|(least, ..)| error < least - 1e-12 * (1.0 + least))
                {
                    best = Some((error, kept, fit));
                }
            }
            Ok(_) => {}
            Err(why) => refused = why,
        }
    }
    best.map(|(_, kept, fit)| (kept, fit)).ok_or(refused)
}

/// Minimises Σ wᵢ (yᵢ − xᵢ·β)². `rows` are the xᵢ, all of the same length; `weights` default to 1.
///
/// # Errors
/// There are too few points, a value is not finite, a weight is not positive, or the design matrix does not have full rank.
pub fn least_squares(
    rows: &[Vec<f64>],
    values: &[f64],
    weights: Option<&[f64]>,
) -> Result<Fit, FitError> {
    let parameters = rows.first().map_or(0, Vec::len);
    let points = rows.len().min(values.len());
    if points < parameters.max(1) {
        return Err(FitError::TooFewPoints {
            found: points,
            needed: parameters.max(1),
        });
    }
    let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
    for i in 0..points {
        let bad = rows[i]
            .iter()
            .chain([&values[i]])
            .copied()
            .find(|v| !v.is_finite());
        let bad = bad.or_else(|| Some(weight(i)).filter(|w| !(w.is_finite() && *w > 0.0)));
        if let Some(value) = bad {
            let what = format!("a value of point {}", i + 1);
            return Err(FitError::BadValue {
                what,
                value,
                why: "it must be finite, and weights must be positive".into(),
            });
        }
    }
    let scaled = |i: usize| weight(i).sqrt();
    let design = DMatrix::from_fn(points, parameters, |i, j| rows[i][j] * scaled(i));
    let target = DVector::from_fn(points, |i, _| values[i] * scaled(i));
    // scaling columns to unit length makes the rank independent of the units
    let lengths: Vec<f64> = design.column_iter().map(|c| c.norm()).collect();
    let unit = |j: usize| if lengths[j] > 0.0 { lengths[j] } else { 1.0 };
    let design = DMatrix::from_fn(points, parameters, |i, j| design[(i, j)] / unit(j));
    let qr = ColPivQR::new(design.clone());
    let r = qr.r();
    let largest = r.diagonal().iter().map(|d| d.abs()).fold(0.0, f64::max);
    let rank = r
        .diagonal()
        .iter()
        .filter(|d| d.abs() > RANK_TOLERANCE * largest && d.abs() > 0.0)
        .count();
    if rank < parameters {
        let why = "several points are equal in all inputs of the model".to_owned();
        return Err(FitError::RankDeficient {
            rank,
            parameters,
            why,
        });
    }
    let (solution, covariance) =
        solve(&qr, &r, &target, parameters).ok_or_else(|| FitError::RankDeficient {
            rank,
            parameters,
            why: "the triangular system has no solution".into(),
        })?;
    let coefficients: Vec<f64> = (0..parameters).map(|j| solution[j] / unit(j)).collect();
    let covariance = DMatrix::from_fn(parameters, parameters, |i, j| {
        covariance[(i, j)] / (unit(i) * unit(j))
    });
    let weighted = &target - &design * &solution;
    let residuals = (0..points).map(|i| weighted[i] / scaled(i)).collect();
    let degrees_of_freedom = points - parameters;
    let sigma = (degrees_of_freedom > 0)
        .then(|| (weighted.norm_squared() / degrees_of_freedom as f64).sqrt());
    let standard_errors = sigma.map(|s| {
        covariance
            .diagonal()
            .iter()
            .map(|v| s * v.max(0.0).sqrt())
            .collect()
    });
    Ok(Fit {
        coefficients,
        standard_errors,
        residuals,
        degrees_of_freedom,
        sigma,
        covariance,
    })
}

/// Returns β and (XᵀX)⁻¹ = P R⁻¹ R⁻ᵀ Pᵀ.
fn solve(
    qr: &ColPivQR<f64, Dyn, Dyn>,
    r: &DMatrix<f64>,
    target: &DVector<f64>,
    parameters: usize,
) -> Option<(DVector<f64>, DMatrix<f64>)> {
    let square = r.rows(0, parameters).into_owned();
    let mut projected = qr.q().transpose() * target;
    projected = projected.rows(0, parameters).into_owned();
    let mut solution = square.solve_upper_triangular(&projected)?;
    qr.p().inv_permute_rows(&mut solution);
    let mut inverse = square.solve_upper_triangular(&DMatrix::identity(parameters, parameters))?;
    qr.p().inv_permute_rows(&mut inverse);
    Some((solution, &inverse * inverse.transpose()))
}

impl Fit {
    /// Returns the fit of a model without parameters.
    pub(super) fn of_nothing(values: &[f64]) -> Self {
        Self {
            coefficients: Vec::new(),
            standard_errors: None,
            residuals: values.to_vec(),
            degrees_of_freedom: values.len(),
            sigma: None,
            covariance: DMatrix::zeros(0, 0),
        }
    }

    /// Returns the fitted value at `row`.
    pub fn value(&self, row: &[f64]) -> f64 {
        self.coefficients.iter().zip(row).map(|(b, x)| b * x).sum()
    }

    /// Returns the fitted value with the interval for one new observation of weight `weight` (1 for an unweighted fit):
    /// t(ν)·σ·√(1/w + x (XᵀWX)⁻¹ xᵀ) to each side. There is no interval without degrees of freedom.
    pub fn predict(&self, row: &[f64], weight: f64) -> Estimate {
        let value = self.value(row);
        let Some(sigma) = self.sigma else {
            return Estimate::bare(value);
        };
        let x = DVector::from_column_slice(row);
        let leverage = (x.transpose() * &self.covariance * &x)[(0, 0)];
        Estimate::plus_minus(
            value,
            t_quantile(self.degrees_of_freedom as f64)
                * sigma
                * (1.0 / weight + leverage.max(0.0)).sqrt(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{FitError, least_squares, relative_weights};

    /// Reference values of R's `lm(y ~ x)` for x = 1..5, y = (2.1, 3.9, 6.2, 7.8, 10.1), checked by hand: slope 1.99, intercept 0.05, σ² = 0.107/3.
    #[test]
    fn a_straight_line_with_its_errors() {
        let rows: Vec<Vec<f64>> = (1..=5).map(|x| vec![1.0, f64::from(x)]).collect();
        let fit = least_squares(&rows, &[2.1, 3.9, 6.2, 7.8, 10.1], None).expect("a fit");
        assert!(
            (fit.coefficients[0] - 0.05).abs() < 1e-12
                && (fit.coefficients[1] - 1.99).abs() < 1e-12,
            "{:?}",
            fit.coefficients
        );
        let sigma = (0.107f64 / 3.0).sqrt();
        assert!((fit.sigma.expect("sigma") - sigma).abs() < 1e-12);
        let errors = fit.standard_errors.as_ref().expect("errors");
        assert!((errors[1] - sigma / 10f64.sqrt()).abs() < 1e-12);
        assert!((errors[0] - sigma * 1.1f64.sqrt()).abs() < 1e-12);
        // one new observation at x = 6: variance σ² times 1 + 1/5 + 9/10, t(3) = 3.182446305
        let at = fit.predict(&[1.0, 6.0], 1.0);
        assert!((at.value - 11.99).abs() < 1e-12);
        assert!(
            (at.half_width().expect("interval") - 3.182_446_305 * sigma * 2.1f64.sqrt()).abs()
                < 1e-6
        );
        assert!(fit.residuals.iter().sum::<f64>().abs() < 1e-12);
    }

    #[test]
    fn unusable_points_are_refused_with_the_reason() {
        let few = least_squares(&[vec![1.0, 2.0]], &[1.0], None)
            .expect_err("one point for two parameters");
        assert_eq!(
            few,
            FitError::TooFewPoints {
                found: 1,
                needed: 2
            }
        );
        let singular = least_squares(
            &[vec![1.0, 2.0], vec![1.0, 2.0], vec![1.0, 2.0]],
            &[1.0, 2.0, 3.0],
            None,
        )
        .expect_err("one x only");
        assert!(
            matches!(
                singular,
                FitError::RankDeficient {
                    rank: 1,
                    parameters: 2,
                    ..
                }
            ),
            "{singular:?}"
        );
        let bad =
            least_squares(&[vec![1.0], vec![f64::NAN]], &[1.0, 2.0], None).expect_err("a NaN");
        assert!(matches!(bad, FitError::BadValue { .. }), "{bad:?}");
        let zero = relative_weights(&[0.0]);
        assert!(matches!(
            least_squares(&[vec![1.0]], &[0.0], Some(&zero)),
            Err(FitError::BadValue { .. })
        ));
        assert!(matches!(
            least_squares(&[], &[], None),
            Err(FitError::TooFewPoints { .. })
        ));
    }

    #[test]
    fn columns_of_very_different_size_do_not_change_the_rank() {
        let rows: Vec<Vec<f64>> = (1..=4)
            .map(|x| vec![1e-9, 1e9 * f64::from(x * x)])
            .collect();
        let values: Vec<f64> = rows.iter().map(|r| 3e9 * r[0] + 2e-9 * r[1]).collect();
        let fit = least_squares(&rows, &values, None).expect("full rank");
        assert!(
            (fit.coefficients[0] / 3e9 - 1.0).abs() < 1e-9
                && (fit.coefficients[1] / 2e-9 - 1.0).abs() < 1e-9
        );
    }

    #[test]
    fn as_many_points_as_parameters_leave_no_interval() {
        let fit = least_squares(&[vec![1.0, 1.0], vec![1.0, 2.0]], &[1.0, 3.0], None)
            .expect("an exact fit");
        assert_eq!((fit.degrees_of_freedom, fit.sigma), (0, None));
        assert_eq!(fit.predict(&[1.0, 3.0], 1.0).interval, None);
    }
}
