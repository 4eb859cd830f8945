//! Rejects invalid inputs of formulas: zero processes, negative sizes, values that are not numbers.

use super::fit::FitError;

/// Checks that a count is at least 1.
pub(super) fn at_least_one(what: &str, value: u32) -> Result<f64, FitError> {
    if value == 0 {
        return Err(FitError::BadValue {
            what: what.into(),
            value: 0.0,
            why: "it must be at least 1".into(),
        });
    }
    Ok(f64::from(value))
}

/// Checks that a size, a time or a factor is finite and not negative.
pub(super) fn not_negative(what: &str, value: f64) -> Result<f64, FitError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(FitError::BadValue {
        what: what.into(),
        value,
        why: "it must be finite and not negative".into(),
    })
}

/// Checks that a divisor, or a value whose logarithm is taken, is finite and greater than 0.
pub(super) fn positive(what: &str, value: f64) -> Result<f64, FitError> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(FitError::BadValue {
        what: what.into(),
        value,
        why: "it must be finite and greater than 0".into(),
    })
}

/// Checks that a result is finite, because products of large inputs may overflow.
pub(super) fn finite(what: &str, value: f64) -> Result<f64, FitError> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(FitError::BadValue {
        what: what.into(),
        value,
        why: "the inputs are too large for it".into(),
    })
}
