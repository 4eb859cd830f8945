//! The minimum of a function of one number.

use super::fit::FitError;

/// The smaller part of a golden section.
const GOLDEN: f64 = 0.381_966_011_250_105_1;

/// Returns the position of the minimum of a function with a single minimum between `low` and `high`, to within `width`, by golden-section search.
/// Where two values are equal, the search continues on the side of `low`.
///
/// # Errors
/// The function returns an error.
pub(super) fn least_between(
    mut low: f64,
    mut high: f64,
    width: f64,
    of: impl Fn(f64) -> Result<f64, FitError>,
) -> Result<f64, FitError> {
    while high - low > width {
        let (left, right) = (low + GOLDEN * (high - low), high - GOLDEN * (high - low));
        if of(left)? <= of(right)? {
            high = right;
        } else {
            low = left;
        }
    }
    Ok(f64::midpoint(low, high))
}
