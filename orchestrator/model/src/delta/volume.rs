//! The changed volume against the distance of two checkpoints.

use super::{
    curve::{ChangedPair, VolumeCurve, VolumeForm},
    spread::Spread,
};
use crate::{check::positive, fit::FitError, stats::Interval};
use serde::Serialize;

/// A fitted curve, and how far it may be off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedVolume {
    /// Which parts of the formula the data tell apart.
    pub form: VolumeForm,
    /// The curve.
    pub curve: VolumeCurve,
    /// Checkpoints behind it.
    pub checkpoints: usize,
    /// Pairs of them.
    pub pairs: usize,
    /// Shortest distance between two, seconds.
    pub shortest_s: f64,
    /// Longest one.
    pub longest_s: f64,
    /// Root of the mean square error for pairs of a checkpoint that was left out of the fit, MiB; none with fewer than four checkpoints.
    pub left_out_mib: Option<f64>,
    /// Why it is not the complete formula.
    pub simpler: Option<String>,
    #[serde(skip)]
    spread: Spread,
}

/// An error that is at most this many times the least one does not speak against the simpler form.
const AS_GOOD: f64 = 1.05;
/// Nor does one below this part of the mean changed volume.
const NEGLIGIBLE: f64 = 0.002;
/// Times T that are tried between the shortest distance / 8 and the longest · 4.
const TIMES: usize = 60;
/// Of two columns that are more alike than this, only one is taken.
const DETERMINED: f64 = 1e-9;
/// With fewer checkpoints nothing can be left out.
const LEAVES_OUT_FROM: usize = 4;

impl ChangedVolume {
    /// Fits the curve by least squares, each pair with a weight of 1/distance: what is written between two checkpoints scatters as a sum over the
    /// time between them. Of the forms, the simplest is taken that predicts pairs of a checkpoint that was left out as well as any.
    ///
    /// # Errors
    /// No pair; distances or sizes that are not positive; more changed than there is.
    pub fn fit(pairs: &[ChangedPair]) -> Result<Self, FitError> {
        for pair in pairs {
            positive("a distance of two checkpoints", pair.distance_s)?;
            positive("the size of a checkpoint", pair.full_mib)?;
            if !(0.0..=pair.full_mib).contains(&pair.changed_mib) {
                return Err(FitError::BadValue {
                    what: "the changed volume of a pair".into(),
                    value: pair.changed_mib,
                    why: "it must be from 0 to the size of the checkpoint".into(),
                });
            }
        }
        let (Some(shortest_s), Some(longest_s)) = (
            pairs.iter().map(|p| p.distance_s).reduce(f64::min),
            pairs.iter().map(|p| p.distance_s).reduce(f64::max),
        ) else {
            return Err(FitError::TooFewPoints {
                found: 0,
                needed: 1,
            });
        };
        let mut numbers: Vec<u32> = pairs.iter().flat_map(|p| [p.from, p.to]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let full_mib = mean(pairs.iter().map(|p| p.full_mib));
        let changed = mean(pairs.iter().map(|p| p.changed_mib));
        let (form, curve, left_out_mib, simpler) = if longest_s / shortest_s < 1.2 {
            let curve = fit_form(VolumeForm::Constant, pairs, full_mib)?;
            let why = "all pairs are about as far apart: how the changed volume grows with the distance cannot be told";
            (VolumeForm::Constant, curve, None, Some(why.to_owned()))
        } else if numbers.len() < LEAVES_OUT_FROM {
            let curve = fit_form(VolumeForm::Line, pairs, full_mib)?;
            let why = format!(
                "{} checkpoints are too few to tell S, T and r apart",
                numbers.len()
            );
            (VolumeForm::Line, curve, None, Some(why))
        } else {
            let errors: Vec<(VolumeForm, f64)> = VolumeForm::ALL
                .into_iter()
                .filter(|form| form.parameters() + 1 < numbers.len())
                .filter_map(|form| Some((form, left_out(form, pairs, &numbers, full_mib)?)))
                .collect();
            let least = errors.iter().map(|(_, e)| *e).fold(f64::INFINITY, f64::min);
            let (form, error) = errors
                .iter()
                .find(|(_, e)| *e <= (least * AS_GOOD).max(NEGLIGIBLE * changed))
                .copied()
                .ok_or(FitError::TooFewPoints {
                    found: pairs.len(),
                    needed: LEAVES_OUT_FROM,
                })?;
            let simpler = (form != VolumeForm::Complete).then(|| {
                format!(
                    "the data cannot tell all of S, T and r apart: {} predicts checkpoints that were left out as well",
                    form.formula()
                )
            });
            (form, fit_form(form, pairs, full_mib)?, Some(error), simpler)
        };
        let spread = Spread::of(pairs, &curve, form, numbers.len());
        Ok(Self {
            form,
            curve,
            checkpoints: numbers.len(),
            pairs: pairs.len(),
            shortest_s,
            longest_s,
            left_out_mib,
            simpler,
            spread,
        })
    }

    /// Where the mean changed volume at a distance is expected, MiB: from the scatter of the pairs within the distances that were seen. Beyond
    /// them, as far as a curve may go that never falls and never grows faster than before.
    #[must_use]
    pub fn interval(&self, distance_s: f64) -> Interval {
        let inside = distance_s.clamp(self.shortest_s, self.longest_s);
        let middle = self.curve.at(inside);
        let half = self.spread.half_width_mib(inside);
        let (mut low, mut high) = ((middle - half).max(0.0), middle + half);
        let scale = distance_s / inside;
        // concave from 0 on: D(τ)/τ never grows
        if scale < 1.0 {
            low *= scale;
        } else {
            high *= scale;
        }
        let value = self.curve.at(distance_s);
        Interval {
            low: low.min(value),
            high: high.max(value).min(self.curve.full_mib),
        }
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count();
    values.sum::<f64>() / count as f64
}

/// The root of the mean square error for the pairs of each checkpoint in turn, predicted from all pairs without it.
fn left_out(
    form: VolumeForm,
    pairs: &[ChangedPair],
    numbers: &[u32],
    full_mib: f64,
) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for number in numbers {
        let (out, kept): (Vec<ChangedPair>, Vec<ChangedPair>) = pairs
            .iter()
            .partition(|p| p.from == *number || p.to == *number);
        let curve = fit_form(form, &kept, full_mib).ok()?;
        for pair in out {
            let weight = 1.0 / pair.distance_s;
            sum += weight * (pair.changed_mib - curve.at(pair.distance_s)).powi(2);
            weights += weight;
        }
    }
    (weights > 0.0).then(|| (sum / weights).sqrt())
}

fn fit_form(
    form: VolumeForm,
    pairs: &[ChangedPair],
    full_mib: f64,
) -> Result<VolumeCurve, FitError> {
    let shortest = pairs
        .iter()
        .map(|p| p.distance_s)
        .fold(f64::INFINITY, f64::min);
    let longest = pairs.iter().map(|p| p.distance_s).fold(0.0, f64::max);
    if !form.has_time() {
        return fit_at(form, 0.0, pairs, full_mib).map(|(_, curve)| curve);
    }
    let (first, last) = ((shortest / 8.0).ln(), (longest * 4.0).ln());
    let step = (last - first) / (TIMES - 1) as f64;
    let at = |log: f64| fit_at(form, log.exp(), pairs, full_mib);
    let mut best: Option<(f64, f64, VolumeCurve)> = None;
    for i in 0..TIMES {
        let log = first + step * i as f64;
        if let Ok((error, curve)) = at(log)
            && best.as_ref().is_none_or(|(least, ..)| error < *least)
        {
            best = Some((error, log, curve));
        }
    }
    let (mut error, log, mut curve) =
        best.ok_or_else(|| FitError::NoConvergence("no time T fits".into()))?;
    // golden section around the best of the grid
    let ratio = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (log - step, log + step);
    for _ in 0..20 {
        let (left, right) = (high - ratio * (high - low), low + ratio * (high - low));
        let (a, b) = (at(left), at(right));
        for (found, candidate) in [&a, &b].into_iter().flatten() {
            if *found < error {
                (error, curve) = (*found, *candidate);
            }
        }
        let is_left = match (&a, &b) {
            (Ok((a, _)), Ok((b, _))) => a <= b,
            (Ok(_), Err(_)) => true,
            (Err(_), _) => false,
        };
        if is_left {
            high = right;
        } else {
            low = left;
        }
    }
    Ok(curve)
}

/// Fits S and r for a time T, neither below 0; returns the weighted square error as well.
fn fit_at(
    form: VolumeForm,
    time_s: f64,
    pairs: &[ChangedPair],
    full_mib: f64,
) -> Result<(f64, VolumeCurve), FitError> {
    let mut curve = VolumeCurve {
        repeated_mib: 0.0,
        time_s,
        rate_mib_s: 0.0,
        full_mib,
    };
    let (repeats, grows) = match form {
        VolumeForm::Constant | VolumeForm::Saturating => (true, false),
        VolumeForm::Proportional => (false, true),
        VolumeForm::Line | VolumeForm::Complete => (true, true),
    };
    let one = VolumeCurve {
        repeated_mib: 1.0,
        ..curve
    };
    // the normal equations of two columns
    let (mut ss, mut st, mut tt, mut sy, mut ty, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for p in pairs {
        let (weight, s, t, y) = (
            1.0 / p.distance_s,
            one.uncapped(p.distance_s),
            p.distance_s,
            p.changed_mib,
        );
        ss += weight * s * s;
        st += weight * s * t;
        tt += weight * t * t;
        sy += weight * s * y;
        ty += weight * t * y;
        yy += weight * y * y;
    }
    let error =
        |s: f64, r: f64| yy - 2.0 * (s * sy + r * ty) + s * s * ss + 2.0 * s * r * st + r * r * tt;
    let mut sets: Vec<(f64, f64)> = Vec::new();
    if repeats && ss > 0.0 {
        sets.push((sy / ss, 0.0));
    }
    if grows {
        sets.push((0.0, ty / tt));
    }
    let determinant = ss * tt - st * st;
    if repeats && grows && determinant > DETERMINED * ss * tt {
        sets.push((
            (sy * tt - ty * st) / determinant,
            (ty * ss - sy * st) / determinant,
        ));
    }
    sets.retain(|(s, r)| *s >= 0.0 && *r >= 0.0);
    let (s, r) = sets
        .into_iter()
        .min_by(|a, b| error(a.0, a.1).total_cmp(&error(b.0, b.1)))
        .ok_or_else(|| FitError::NoConvergence("no part of the formula fits".into()))?;
    (curve.repeated_mib, curve.rate_mib_s) = (s, r);
    // rounding may leave less than nothing
    Ok((error(s, r).max(0.0), curve))
}

#[cfg(test)]
mod tests {
    use super::{ChangedPair, ChangedVolume, VolumeCurve, VolumeForm};
    use crate::stats::LEVEL;
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };

    fn uniform(random: &mut ChaCha8Rng) -> f64 {
        ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(random: &mut ChaCha8Rng) -> f64 {
        (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
    }

    fn exact(curve: VolumeCurve, times: &[f64]) -> Vec<ChangedPair> {
        let mut pairs = Vec::new();
        for (to, end) in times.iter().enumerate() {
            for (from, start) in times[..to].iter().enumerate() {
                pairs.push(ChangedPair {
                    from: from as u32,
                    to: to as u32,
                    distance_s: end - start,
                    changed_mib: curve.at(end - start),
                    full_mib: curve.full_mib,
                });
            }
        }
        pairs
    }

    fn curve(repeated_mib: f64, time_s: f64, rate_mib_s: f64) -> VolumeCurve {
        VolumeCurve {
            repeated_mib,
            time_s,
            rate_mib_s,
            full_mib: 1000.0,
        }
    }

    const TIMES: [f64; 8] = [0.0, 10.0, 25.0, 60.0, 130.0, 200.0, 310.0, 400.0];

    #[test]
    fn exact_volumes_give_their_curve_back() {
        for (truth, form) in [
            (curve(80.0, 0.0, 0.0), VolumeForm::Constant),
            (curve(0.0, 0.0, 0.4), VolumeForm::Proportional),
            (curve(80.0, 0.0, 0.4), VolumeForm::Line),
            (curve(80.0, 50.0, 0.0), VolumeForm::Saturating),
            (curve(80.0, 30.0, 0.4), VolumeForm::Complete),
        ] {
            let fitted = ChangedVolume::fit(&exact(truth, &TIMES)).expect("a fit");
            assert_eq!(fitted.form, form);
            assert_eq!(fitted.simpler.is_none(), form == VolumeForm::Complete);
            for distance in [10.0, 40.0, 200.0, 400.0] {
                let (found, expected) = (fitted.curve.at(distance), truth.at(distance));
                assert!(
                    (found / expected - 1.0).abs() < 1e-3,
                    "{form:?} {distance}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn distances_far_from_the_time_give_the_simpler_form_that_says_so() {
        // T far above all distances: proportional, with r + S/T
        let fitted = ChangedVolume::fit(&exact(curve(8000.0, 1e6, 0.1), &TIMES)).expect("a fit");
        assert_eq!(fitted.form, VolumeForm::Proportional);
        assert!((fitted.curve.rate_mib_s - 0.108).abs() < 1e-4);
        let why = fitted.simpler.expect("a reason");
        assert!(why.contains("cannot tell"), "{why}");
        // one distance alone says nothing about the growth: the interval says as much
        let two = ChangedVolume::fit(&exact(curve(80.0, 50.0, 0.4), &[0.0, 60.0])).expect("a fit");
        assert_eq!(two.form, VolumeForm::Constant);
        let (short, long) = (two.interval(6.0), two.interval(600.0));
        assert!(short.low < 0.11 * short.high && long.high > 9.0 * long.low);
    }

    #[test]
    fn no_more_changes_than_there_is() {
        let fitted = ChangedVolume::fit(&exact(curve(0.0, 0.0, 2.0), &TIMES)).expect("a fit");
        assert_eq!(fitted.curve.at(1e9), 1000.0);
        assert_eq!(fitted.interval(1e9).high, 1000.0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = exact(curve(80.0, 50.0, 0.4), &TIMES)[0];
        assert!(ChangedVolume::fit(&[]).is_err());
        for (distance_s, changed_mib, full_mib) in [
            (0.0, 1.0, 2.0),
            (-1.0, 1.0, 2.0),
            (f64::NAN, 1.0, 2.0),
            (1.0, f64::NAN, 2.0),
            (1.0, 3.0, 2.0),
            (1.0, -1.0, 2.0),
            (1.0, 1.0, f64::INFINITY),
        ] {
            let bad = ChangedPair {
                distance_s,
                changed_mib,
                full_mib,
                ..good
            };
            assert!(ChangedVolume::fit(&[good, bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nothing_that_changed_is_nothing_at_every_distance() {
        let fitted = ChangedVolume::fit(&exact(curve(0.0, 0.0, 0.0), &TIMES)).expect("a fit");
        assert_eq!(fitted.curve.at(1e6), 0.0);
    }

    /// Pairs of a program with pages, each of which it writes at random times; its activity differs from stretch to stretch. With what the mean
    /// over such runs is at a distance.
    fn pages(random: &mut ChaCha8Rng, count: usize, nature: Nature) -> Vec<ChangedPair> {
        let stretch = 30.0;
        let activity: Vec<f64> = (0..count)
            .map(|_| (nature.unrest * normal(random) - nature.unrest.powi(2) / 2.0).exp())
            .collect();
        let swept: Vec<f64> = activity.iter().map(|a| nature.rate * stretch * a).collect();
        let mut pairs = Vec::new();
        for to in 1..=count {
            for from in 0..to {
                let own: f64 = activity[from..to].iter().sum::<f64>() * stretch;
                let hot = nature.hot * -(-own / nature.time).exp_m1();
                let noise = 1.0 + nature.noise * normal(random);
                pairs.push(ChangedPair {
                    from: from as u32,
                    to: to as u32,
                    distance_s: stretch * (to - from) as f64,
                    changed_mib: ((hot + swept[from..to].iter().sum::<f64>()) * noise)
                        .clamp(0.0, 1000.0),
                    full_mib: 1000.0,
                });
            }
        }
        pairs
    }

    #[derive(Clone, Copy)]
    struct Nature {
        hot: f64,
        time: f64,
        rate: f64,
        /// Standard deviation of the logarithm of the activity of a stretch.
        unrest: f64,
        /// Of each pair by itself.
        noise: f64,
    }

    #[test]
    fn intervals_hold_for_programs_of_several_natures() {
        let mut random = ChaCha8Rng::seed_from_u64(20_120_601);
        for (hot, time, rate, unrest, noise) in [
            (80.0, 1e-3, 0.0, 0.0, 0.03),
            (0.0, 1.0, 0.4, 0.4, 0.0),
            (80.0, 50.0, 0.2, 0.3, 0.02),
            (120.0, 90.0, 0.0, 0.5, 0.0),
        ] {
            let nature = Nature {
                hot,
                time,
                rate,
                unrest,
                noise,
            };
            for count in [5, 7, 15] {
                // the truth: the mean over many runs
                const RUNS: usize = 400;
                let distances = [30.0, 60.0, 120.0, 30.0 * count as f64];
                let mut truth = [0.0; 4];
                let of = |pairs: &[ChangedPair], distance: f64| {
                    let at: Vec<f64> = pairs
                        .iter()
                        .filter(|p| p.distance_s == distance)
                        .map(|p| p.changed_mib)
                        .collect();
                    at.iter().sum::<f64>() / at.len() as f64
                };
                for _ in 0..2000 {
                    let run = pages(&mut random, count, nature);
                    for (sum, distance) in truth.iter_mut().zip(distances) {
                        *sum += of(&run, distance) / 2000.0;
                    }
                }
                let mut hits = [0_u32; 4];
                for _ in 0..RUNS {
                    let fitted =
                        ChangedVolume::fit(&pages(&mut random, count, nature)).expect("a fit");
                    for ((hit, distance), truth) in hits.iter_mut().zip(distances).zip(truth) {
                        let interval = fitted.interval(distance);
                        *hit += u32::from((interval.low..=interval.high).contains(&truth));
                    }
                }
                let shares = hits.map(|h| f64::from(h) / RUNS as f64);
                println!("{hot} {time} {rate} {unrest} {noise}, {count}: {shares:?}");
                for share in shares {
                    assert!(
                        share >= LEVEL - 0.03,
                        "{hot} {time} {rate} {unrest} {noise}, {count}: {shares:?}"
                    );
                }
            }
        }
    }
}
