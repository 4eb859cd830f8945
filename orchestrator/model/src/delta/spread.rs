//! How far a fitted curve of the changed volume may be off.
//!
//! Pairs of checkpoints overlap: of n checkpoints there are n(n − 1)/2, but within the time L of the series only L/τ of the distance τ do not share
//! a stretch. The error of the mean at τ is therefore taken as the scatter of pairs of about this distance over √(L/τ). Leaving checkpoints out
//! in turn (a jackknife) would not do: the long pairs keep every stretch but those at the ends.

use super::curve::{ChangedPair, VolumeCurve, VolumeForm};
use crate::stats::t_quantile;

/// Pairs within this factor of a distance speak for it.
const NEAR: f64 = 1.5;
/// With fewer pairs that do not overlap, the scatter is carried over from shorter distances, where it grows with the distance.
const APART: f64 = 4.0;

/// What the choice of a form and the skewness of volumes add: with it, intervals of simulated programs hold as often as they say.
const WIDENED: f64 = 1.2;

/// Residuals of pairs by distance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    /// Distance, and square of the residual, the shortest first.
    squares: Vec<(f64, f64)>,
    /// Longest distance: the time of the series.
    longest_s: f64,
    /// Student's t, with what parameters cost.
    factor: f64,
}

impl Spread {
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
        // the form was chosen among others, which costs as much as a parameter
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

    /// Half of the interval of the mean at a distance, MiB. Infinite where there are too few checkpoints to tell.
    pub(super) fn half_width_mib(&self, distance_s: f64) -> f64 {
        if self.factor.is_infinite() {
            return f64::INFINITY;
        }
        let shortest = self.squares.first().map_or(0.0, |(d, _)| *d);
        // what scatters as a sum over the time does so with the distance; few pairs of a longer one may not show it
        let from = distance_s.min((self.longest_s / APART).max(shortest));
        let variance = [from, shortest]
            .into_iter()
            .map(|from| self.mean_square(from) * (distance_s / from))
            .fold(0.0, f64::max);
        let apart = (self.longest_s / distance_s).max(1.0);
        self.factor * (variance / apart).sqrt()
    }

    /// Mean square of the residuals of pairs of about this distance; 0 where there is none.
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
