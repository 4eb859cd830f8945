//! Moments and quantiles of values.

/// Returns the arithmetic mean, limited to the interval from the smallest to the largest value despite rounding. Returns `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    let n = values.len() as f64;
    // summing deviations from the first value makes the mean of equal values exact
    let mean = first + values.iter().map(|v| (v - first) / n).sum::<f64>();
    let (low, high) = values
        .iter()
        .fold((first, first), |(l, h), v| (l.min(*v), h.max(*v)));
    Some(mean.clamp(low, high))
}

/// Relative rounding error of sums, and of numbers written to files and read again.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Returns the difference of two numbers, or 0 if they differ only by rounding, such as 0.1 + 0.2 and 0.3.
pub(super) fn difference(a: f64, b: f64) -> f64 {
    if (a - b).abs() <= ROUNDING * a.abs().max(b.abs()) {
        0.0
    } else {
        a - b
    }
}

/// Returns the sample variance of the logarithms. Returns `None` for fewer than two values, if a value is not positive, or without scatter.
pub(super) fn log_variance(values: &[f64]) -> Option<f64> {
    if values.iter().any(|v| *v <= 0.0 || !v.is_finite()) {
        return None;
    }
    let variance = sample_sd(&values.iter().map(|v| v.ln()).collect::<Vec<_>>())?.powi(2);
    // rounding is not scatter
    (variance > 1e-28).then_some(variance)
}

/// Returns the standard deviation of a sample (n - 1); `None` for fewer than two values.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Returns the quantile `p` (0 to 1) of values in ascending order, with linear interpolation (type 7 of Hyndman and Fan 1996: the default of R and
/// numpy).
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = p.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64))
}
