//! The volume that changes between two checkpoints, as a function of the time between them.

use super::{
    curve::{ChangedPair, VolumeCurve, VolumeForm},
    spread::DeltaSpread,
};
use crate::{check::positive, fit::FitError, stats::Interval};
use serde::Serialize;

/// A fitted curve with its error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedVolume {
    /// The parts of the formula that the data separate.
    pub form: VolumeForm,
    /// The curve.
    pub curve: VolumeCurve,
    /// Number of checkpoints used in the fit.
    pub checkpoints: usize,
    /// Number of pairs of checkpoints.
    pub pairs: usize,
    /// Shortest time between the checkpoints of a pair, seconds.
    pub shortest_s: f64,
    /// Longest time between the checkpoints of a pair, seconds.
    pub longest_s: f64,
    /// Root mean square error, MiB, for pairs of a checkpoint that was left out of the fit; `None` with fewer than four checkpoints.
    pub left_out_mib: Option<f64>,
    /// The reason for a formula that is simpler than the complete one.
    pub simpler: Option<String>,
    #[serde(skip)]
    spread: DeltaSpread,
}

/// A simpler form is used if its error is at most this multiple of the smallest error of all forms.
const AS_GOOD: f64 = 1.05;
/// Errors below this part of the mean changed volume are ignored in the choice of the form.
const NEGLIGIBLE: f64 = 0.002;
/// Number of values of the time T that are tried, from an eighth of the shortest time between two checkpoints to four times the longest.
const TIMES: usize = 60;
/// Relative determinant below which two columns are too similar, and only one of them is used.
const DETERMINED: f64 = 1e-9;
/// Minimum number of checkpoints with which each is left out in turn to determine the error.
const LEAVES_OUT_FROM: usize = 4;

impl ChangedVolume {
    /// Fits the curve by least squares. Each pair has a weight of 1/distance, because the variance of the volume written between two checkpoints
    /// grows with the time between them. Among the forms that predict pairs of a left-out checkpoint about equally well, the simplest one is used.
    ///
    /// # Errors
    /// There is no pair, a distance or size is not positive, or the changed volume is larger than the checkpoint.
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
            let why = "all pairs are at about the same distance: the growth of the changed volume with the distance is unknown";
            (VolumeForm::Constant, curve, None, Some(why.to_owned()))
        } else if numbers.len() < LEAVES_OUT_FROM {
            let curve = fit_form(VolumeForm::Line, pairs, full_mib)?;
            let why = format!(
                "{} checkpoints are too few to separate S, T and r",
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
                    "the data cannot separate S, T and r: {} predicts left-out checkpoints equally well",
                    form.formula()
                )
            });
            (form, fit_form(form, pairs, full_mib)?, Some(error), simpler)
        };
        let spread = DeltaSpread::of(pairs, &curve, form, numbers.len());
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

    /// Returns the interval of the mean changed volume at a distance, MiB. Within the observed distances it follows from the scatter of the pairs.
    /// Beyond them it is widened to all curves that never fall, and that never grow faster than in proportion to the distance.
    #[must_use]
    pub fn interval(&self, distance_s: f64) -> Interval {
        let inside = distance_s.clamp(self.shortest_s, self.longest_s);
        let middle = self.curve.at(inside);
        let half = self.spread.half_width_mib(inside);
        let (mut low, mut high) = ((middle - half).max(0.0), middle + half);
        let scale = distance_s / inside;
        // the curve is concave from 0 on: D(τ)/τ never grows
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

/// Returns the root mean square error when each checkpoint is left out in turn and its pairs are predicted from all other pairs.
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
    // golden-section search around the best value of the grid
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

/// Fits S and r, both at least 0, for a given T. Returns the weighted square error and the curve.
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
    // rounding may make the error negative
    Ok((error(s, r).max(0.0), curve))
}

#[cfg(test)]
#[expect(clippy::print_stdout, reason = "tests tell what they measure")]
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
        // T is far above all distances: the volume is proportional to the distance, with a rate of r + S/T
        let fitted = ChangedVolume::fit(&exact(curve(8000.0, 1e6, 0.1), &TIMES)).expect("a fit");
        assert_eq!(fitted.form, VolumeForm::Proportional);
        assert!((fitted.curve.rate_mib_s - 0.108).abs() < 1e-4);
        let why = fitted.simpler.expect("a reason");
        assert!(why.contains("cannot separate"), "{why}");
        // pairs at one distance cannot determine the growth, so the interval must be wide
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

    /// Simulates pairs of a program that writes each of its pages at random times, with a different activity in each segment. Also returns the mean
    /// over many such runs at each distance.
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
        /// Standard deviation of the logarithm of a segment's activity.
        unrest: f64,
        /// Noise of each single pair.
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
                // the true value: the mean over many runs
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
