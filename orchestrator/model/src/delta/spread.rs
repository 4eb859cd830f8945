//! The error of a fitted curve of the changed volume.
//!
//! Pairs of checkpoints overlap: n checkpoints form n(n − 1)/2 pairs, but in a series of duration L, only L/τ pairs of distance τ do not overlap.
//! The error of the mean at τ is therefore estimated as the scatter of pairs of about this distance, divided by √(L/τ). Leaving out one checkpoint
//! at a time (a jackknife) would underestimate it, because the remaining long pairs still contain almost all of the series.

use super::curve::{ChangedPair, VolumeCurve, VolumeForm};
use crate::stats::t_quantile;

/// The scatter at a distance is that of the pairs whose distance differs by at most this factor.
const NEAR: f64 = 1.5;
/// Minimum number of pairs without overlap. With fewer, the scatter is extrapolated from shorter distances, in proportion to the root of the
/// distance.
const APART: f64 = 4.0;

/// Factor that allows for the choice of a form and for skewed volumes. With it, intervals of simulated programs have the stated coverage.
const WIDENED: f64 = 1.2;

/// Residuals of pairs by distance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeltaSpread {
    /// (distance, square of the residual), sorted by distance.
    squares: Vec<(f64, f64)>,
    /// Longest distance in seconds, which is the duration of the series.
    longest_s: f64,
    /// Student's t, adjusted for the number of parameters.
    factor: f64,
}

impl DeltaSpread {
    pub(super) fn of(
        pairs: &[ChangedPair],
        curve: &VolumeCurve,
        form: VolumeForm,
        checkpoints: usize,
    ) -> Self {
        let mut squares: Vec<(f64, f64)> = pairs
            .iter()
            .map(|p| {
                let residual = p.changed_mib - curve.at(p.distance_s);
                (p.distance_s, residual * residual)
            })
            .collect();
        squares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let stretches = checkpoints.saturating_sub(1) as f64;
        // choosing one of several forms costs one degree of freedom, like a parameter
        let freedom = stretches - form.parameters() as f64 - 1.0;
        let factor = if freedom >= 1.0 {
            WIDENED * t_quantile(freedom) * (stretches / freedom).sqrt()
        } else {
            f64::INFINITY
        };
        Self {
            longest_s: squares.last().map_or(0.0, |(d, _)| *d),
            squares,
            factor,
        }
    }

    /// Returns the half-width of the interval of the mean at a distance, MiB. Infinite with too few checkpoints.
    pub(super) fn half_width_mib(&self, distance_s: f64) -> f64 {
        if self.factor.is_infinite() {
            return f64::INFINITY;
        }
        let shortest = self.squares.first().map_or(0.0, |(d, _)| *d);
        // the scatter of a sum over time grows with the distance; the few pairs of a longer distance may not show it
        let from = distance_s.min((self.longest_s / APART).max(shortest));
        let variance = [from, shortest]
            .into_iter()
            .map(|from| self.mean_square(from) * (distance_s / from))
            .fold(0.0, f64::max);
        let apart = (self.longest_s / distance_s).max(1.0);
        self.factor * (variance / apart).sqrt()
    }

    /// Returns the mean square of the residuals of pairs of about this distance; 0 if there are none.
    fn mean_square(&self, distance_s: f64) -> f64 {
        let near: Vec<f64> = self
            .squares
            .iter()
            .filter(|(d, _)| *d <= distance_s * NEAR && *d * NEAR >= distance_s)
            .map(|(_, square)| *square)
            .collect();
        near.iter().sum::<f64>() / near.len().max(1) as f64
    }
}
