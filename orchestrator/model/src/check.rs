//! Rejects what the formulas are not made for: no process, negative sizes, values that are not numbers.

use super::fit::FitError;

/// A count that must be at least 1.
pub(super) fn at_least_one(what: &str, value: u32) -> Result<f64, FitError> {
    if value == 0 {
        return Err(FitError::BadValue { what: what.into(), value: 0.0, why: "it must be at least 1".into() });
    }
    Ok(f64::from(value))
}

/// A size, a time or a factor that must be finite and not negative.
pub(super) fn not_negative(what: &str, value: f64) -> Result<f64, FitError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(FitError::BadValue { what: what.into(), value, why: "it must be finite and not negative".into() })
}

/// A value that something is divided by or whose logarithm is taken: finite and above zero.
pub(super) fn positive(what: &str, value: f64) -> Result<f64, FitError> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(FitError::BadValue { what: what.into(), value, why: "it must be finite and greater than 0".into() })
}

/// A result that has to be a number: products of large inputs may not be.
pub(super) fn finite(what: &str, value: f64) -> Result<f64, FitError> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(FitError::BadValue { what: what.into(), value, why: "the inputs are too large for it".into() })
}
