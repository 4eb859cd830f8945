//! Simulates the coverage of the intervals and tests of repeats: samples with known true values, with fixed seeds.

use cvc_model::stats::{
    CommonScatter, Interval, LEVEL, PooledRatio, RatioGroup, Summary, adjust_effects, compare,
    compare_paired, compare_stopped, drift, pooled_ratio,
    random::{below, normal, seeded},
    share_interval, stopped_sample,
};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use statrs::function::erf::erfc;

/// A claim about repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// The interval of the mean covers the true mean.
    Mean,
    /// The interval of the median covers the true median.
    Median,
    /// The interval of the coefficient of variation covers the true coefficient.
    Variation,
    /// The interval of a ratio of independent repeats covers the true ratio.
    Ratio,
    /// The interval of a ratio of paired repeats covers the true ratio.
    PairedRatio,
    /// The interval of an effect pooled over points covers the true effect.
    PooledEffect,
    /// The interval of a share of runs covers the true share.
    Share,
    /// Independent repeats with equal means are reported as different.
    FalseStar,
    /// Paired repeats with equal means are reported as different.
    PairedFalseStar,
    /// The interval of a mean with a scatter pooled from eight points covers the true mean. All points scatter alike.
    PooledMean,
    /// The interval of the change during a campaign covers the true change.
    Drift,
    /// The interval of the mean covers the true mean, for repeats that ended when the interval was narrow.
    StoppedMean,
    /// Equal sites are reported as different, for repeats that ended when their intervals were narrow.
    StoppedFalseStar,
    /// The interval of the mean of repeats on five days covers the true mean. Days differ as much as repeats do.
    MeanOfDays,
    /// No effect is reported, or the interval of the reported effect covers the true effect. Intervals are adjusted for eight effects, half of which
    /// are zero.
    AdjustedEffect,
    /// The same as [`Self::PooledMean`] for any of eight points, the last of which scatters nine times as much as the first.
    UnequalPooledMean,
    /// The same as [`Self::UnequalPooledMean`], for the point that scatters most.
    WidestPooledMean,
    /// The same as [`Self::PooledMean`] for one of seven points, while a repeat of the eighth point took a thousand times as long as the others.
    PooledMeanBesideBad,
    /// The same as [`Self::PooledMean`], while all points become 1.3 times as slow during an interleaved campaign.
    DriftingPooledMean,
}

impl Claim {
    /// Returns whether the claim is a false difference between equal things.
    pub fn is_false_star(self) -> bool {
        matches!(
            self,
            Self::FalseStar | Self::PairedFalseStar | Self::StoppedFalseStar
        )
    }

    /// Returns whether the claim is about repeats that end when an interval is narrow. [`Simulated::repeats`] is then their minimum number.
    pub fn is_stopped(self) -> bool {
        matches!(self, Self::StoppedMean | Self::StoppedFalseStar)
    }
}

/// The result of one simulation: many samples of one kind of data, and for how many of them the claim was true.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// The claim.
    pub claim: Claim,
    /// Distribution of the data, and coefficient of variation: `normal, 3 %`.
    pub data: &'static str,
    /// Number of repeats in a sample.
    pub repeats: usize,
    /// The share of samples for which the claim should be true.
    pub nominal: f64,
    /// Number of samples for which the claim was true.
    pub came_true: usize,
    /// Number of samples for which the claim was made; some samples have no interval.
    pub samples: usize,
}

impl Simulated {
    /// Returns the share of samples for which the claim was true.
    pub fn measured(&self) -> f64 {
        self.came_true as f64 / self.samples.max(1) as f64
    }

    /// Returns the confidence interval of [`Self::measured`].
    pub fn interval(&self) -> Option<Interval> {
        share_interval(self.came_true, self.samples)
    }
}

/// A kind of data. `value` converts standard normal values to values of the data, so the median is `value(0)`. `memory` is the correlation of
/// consecutive normal values, `variation` the coefficient of variation.
struct Nature {
    name: &'static str,
    value: fn(f64) -> f64,
    memory: f64,
    mean: f64,
    variation: f64,
}

/// Returns the probability that a standard normal value is above `z`.
fn above(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

/// The standard normal value that is exceeded with probability 0.1.
const ONE_IN_TEN: f64 = 1.281_551_565_544_6;

const NATURES: [Nature; 9] = [
    Nature {
        name: "normal, 3 %",
        value: |z| 1.0 + 0.03 * z,
        memory: 0.0,
        mean: 1.0,
        variation: 0.03,
    },
    Nature {
        name: "normal, 30 %",
        value: |z| 1.0 + 0.3 * z,
        memory: 0.0,
        mean: 1.0,
        variation: 0.3,
    },
    // log-normal: mean exp(σ²/2), variation √(exp(σ²) − 1)
    Nature {
        name: "log-normal, 0.2",
        value: |z| (0.2 * z).exp(),
        memory: 0.0,
        mean: 1.020_201_340_026_755_8,
        variation: 0.202_017_003_459_7,
    },
    Nature {
        name: "log-normal, 0.5",
        value: |z| (0.5 * z).exp(),
        memory: 0.0,
        mean: 1.133_148_453_066_826_3,
        variation: 0.532_939_983_3,
    },
    Nature {
        name: "normal, 8 %",
        value: |z| 1.0 + 0.08 * z,
        memory: 0.0,
        mean: 1.0,
        variation: 0.08,
    },
    Nature {
        name: "1 + 0.1 exponential",
        value: |z| 1.0 - 0.1 * above(z).ln(),
        memory: 0.0,
        mean: 1.1,
        variation: 1.0 / 11.0,
    },
    Nature {
        name: "exponential",
        value: |z| -above(z).ln(),
        memory: 0.0,
        mean: 1.0,
        variation: 1.0,
    },
    // mean: 0.9 of a truncated normal value, less its density at the cut, and a tenth of 1.5; variation from the same integrals
    Nature {
        name: "one in ten 1.5 times as slow",
        value: |z| if z < ONE_IN_TEN { 1.0 + 0.01 * z } else { 1.5 },
        memory: 0.0,
        mean: 1.048_245_016_68,
        variation: 0.143_857_242,
    },
    Nature {
        name: "normal, 3 %, half as the one before",
        value: |z| 1.0 + 0.03 * z,
        memory: 0.5,
        mean: 1.0,
        variation: 0.03,
    },
];

/// True ratio of two means.
const RATIO: f64 = 1.3;

/// Number of days into which repeats are divided.
const DAYS: usize = 5;

/// True share of runs for [`Claim::Share`].
const SHARE: f64 = 0.9;

/// Returns the cases for [`simulate`]: each claim with its data and number of repeats.
pub fn simulations() -> Vec<(Claim, &'static str, usize)> {
    let mut all = Vec::new();
    let mut add = |claim: Claim, natures: &[usize], repeats: &[usize]| {
        for nature in natures {
            all.extend(repeats.iter().map(|n| (claim, NATURES[*nature].name, *n)));
        }
    };
    add(
        Claim::Mean,
        &[0, 1, 2, 3, 5, 6, 7, 8],
        &[2, 3, 5, 8, 10, 20, 50, 200],
    );
    add(Claim::MeanOfDays, &[0, 2], &[5, 10, 20, 50]);
    add(Claim::PooledMean, &[0, 3, 5, 7], &[2, 3, 4]);
    for claim in [
        Claim::UnequalPooledMean,
        Claim::WidestPooledMean,
        Claim::PooledMeanBesideBad,
        Claim::DriftingPooledMean,
    ] {
        add(claim, &[0], &[2, 3, 4]);
    }
    add(Claim::Median, &[0, 3], &[6, 8, 10, 20]);
    add(Claim::Variation, &[0, 1], &[3, 5, 8, 10, 20]);
    add(Claim::Ratio, &[0, 1, 2], &[3, 5, 8, 10, 20]);
    add(Claim::PairedRatio, &[0, 2], &[3, 5, 8, 10, 20]);
    add(Claim::PooledEffect, &[0, 2], &[3, 5, 8]);
    add(Claim::AdjustedEffect, &[0, 2], &[3, 5, 8]);
    add(Claim::FalseStar, &[0, 1, 3], &[4, 5, 6, 8, 10, 14, 20]);
    add(
        Claim::PairedFalseStar,
        &[0, 1, 3],
        &[4, 5, 6, 8, 10, 14, 20],
    );
    add(Claim::Drift, &[0, 2], &[3, 5, 10]);
    add(Claim::StoppedMean, &[0, 4, 5, 7, 8], &[3, 5]);
    add(Claim::StoppedFalseStar, &[0, 4, 5, 7, 8], &[3, 5]);
    all.extend([10, 20, 50].map(|n| (Claim::Share, "nine of ten", n)));
    all
}

/// Draws `samples` samples, and counts those for which a claim is true. The seed is derived from the claim, the data and the number of repeats.
pub fn simulate(claim: Claim, data: &'static str, repeats: usize, samples: usize) -> Simulated {
    let place = NATURES.iter().position(|n| n.name == data);
    let nature = &NATURES[place.unwrap_or(0)];
    let mut random = seeded([&[
        claim as u8 as f64,
        place.map_or(-1.0, |p| p as f64),
        repeats as f64,
    ][..]]);
    let outcomes: Vec<bool> = (0..samples)
        .filter_map(|_| comes_true(claim, nature, repeats, &mut random))
        .collect();
    let (came_true, samples) = (
        outcomes.iter().filter(|came_true| **came_true).count(),
        outcomes.len(),
    );
    let nominal = if claim.is_false_star() {
        1.0 - LEVEL
    } else {
        LEVEL
    };
    Simulated {
        claim,
        data,
        repeats,
        nominal,
        came_true,
        samples,
    }
}

/// Draws a sample, and returns whether a claim about it is true; `None` if no claim can be made.
fn comes_true(
    claim: Claim,
    nature: &Nature,
    repeats: usize,
    random: &mut ChaCha8Rng,
) -> Option<bool> {
    let holds = |interval: Option<Interval>, truth: f64| {
        interval.map(|i| i.low <= truth && truth <= i.high)
    };
    // values of one point, in the order of its repeats
    let values = |random: &mut ChaCha8Rng| {
        let mut z = normal(random);
        move |random: &mut ChaCha8Rng| {
            z = nature.memory * z + (1.0 - nature.memory * nature.memory).sqrt() * normal(random);
            (nature.value)(z)
        }
    };
    let sample = |random: &mut ChaCha8Rng, factor: f64| -> Vec<f64> {
        let mut value = values(random);
        (0..repeats).map(|_| factor * value(random)).collect()
    };
    let stopped = |random: &mut ChaCha8Rng| {
        let value = values(random);
        stopped_sample(repeats, value, random)
    };
    // pairs share half of their scatter, like repeats that run close in time
    let pairs = |random: &mut ChaCha8Rng, factor: f64| -> Vec<(f64, f64)> {
        let common: Vec<f64> = (0..repeats).map(|_| normal(random)).collect();
        let mut value = |z: f64| (nature.value)((z + normal(random)) / std::f64::consts::SQRT_2);
        common
            .into_iter()
            .map(|z| (factor * value(z), value(z)))
            .collect()
    };
    match claim {
        Claim::Mean => holds(
            Summary::of(&sample(random, 1.0)).and_then(|s| s.interval),
            nature.mean,
        ),
        Claim::MeanOfDays => {
            let day = |random: &mut ChaCha8Rng| {
                let of_day = normal(random);
                (0..repeats / DAYS)
                    .map(|_| (nature.value)((of_day + normal(random)) / std::f64::consts::SQRT_2))
                    .collect::<Vec<_>>()
            };
            let values: Vec<(u32, f64)> = (0..DAYS as u32)
                .flat_map(|number| day(random).into_iter().map(move |v| (number, v)))
                .collect();
            holds(
                Summary::of_blocks(&values).and_then(|s| s.interval),
                nature.mean,
            )
        }
        Claim::Median => holds(
            Summary::of(&sample(random, 1.0)).and_then(|s| s.median_interval),
            (nature.value)(0.0),
        ),
        Claim::Variation => {
            let variation = Summary::of(&sample(random, 1.0)).and_then(|s| s.variation);
            variation.map(|v| {
                v.low <= nature.variation && v.high.is_none_or(|high| nature.variation <= high)
            })
        }
        Claim::Ratio => holds(
            compare(&sample(random, RATIO), &sample(random, 1.0)).and_then(|c| c.interval),
            RATIO,
        ),
        Claim::PairedRatio => holds(
            compare_paired(&pairs(random, RATIO)).and_then(|c| c.interval),
            RATIO,
        ),
        Claim::PooledEffect => {
            // three points, each with as many ratios as repeats
            let ratios = |random: &mut ChaCha8Rng| {
                sample(random, RATIO)
                    .into_iter()
                    .zip(sample(random, 1.0))
                    .map(|(a, b)| a / b)
                    .collect()
            };
            let groups: Vec<RatioGroup> = (0..3)
                .map(|_| RatioGroup {
                    points: 1,
                    ratios: ratios(random),
                })
                .collect();
            holds(pooled_ratio(&groups).and_then(|p| p.interval), RATIO)
        }
        Claim::AdjustedEffect => {
            let truths = [1.0, 1.0, 1.0, 1.0, 1.05, 1.1, 1.2, RATIO];
            let mut effects: Vec<PooledRatio> = truths
                .iter()
                .filter_map(|truth| {
                    let ratios = sample(random, *truth).into_iter().zip(sample(random, 1.0));
                    let ratios = ratios.map(|(a, b)| a / b).collect();
                    pooled_ratio(&[RatioGroup { points: 1, ratios }])
                })
                .collect();
            adjust_effects(&mut effects);
            let shown: Vec<(&PooledRatio, f64)> = effects
                .iter()
                .zip(truths)
                .filter(|(effect, _)| effect.differs())
                .collect();
            let Some((effect, truth)) = shown.get(below(random, shown.len())) else {
                return Some(true);
            };
            holds(effect.interval, *truth)
        }
        Claim::Share => {
            let happened = (0..repeats).filter(|_| normal(random) < ONE_IN_TEN).count();
            holds(share_interval(happened, repeats), SHARE)
        }
        Claim::FalseStar => {
            Some(compare(&sample(random, 1.0), &sample(random, 1.0)).is_some_and(|c| c.differs()))
        }
        Claim::PairedFalseStar => {
            Some(compare_paired(&pairs(random, 1.0)).is_some_and(|c| c.differs()))
        }
        Claim::PooledMean
        | Claim::UnequalPooledMean
        | Claim::WidestPooledMean
        | Claim::PooledMeanBesideBad
        | Claim::DriftingPooledMean => pooled_mean(claim, nature, repeats, random),
        Claim::Drift => {
            // four points in interleaved order; all become 1.3 times as slow until the end
            let last = (4 * repeats - 1) as f64;
            let mut groups = vec![Vec::new(); 4];
            for run in 0..4 * repeats {
                let time = run as f64 / last;
                groups[run % 4].push((time, RATIO.powf(time) * (nature.value)(normal(random))));
            }
            holds(drift(&groups).map(|d| d.interval), RATIO)
        }
        Claim::StoppedMean => holds(
            Summary::of_stopped(&stopped(random)).and_then(|s| s.interval),
            nature.mean,
        ),
        Claim::StoppedFalseStar => Some(
            compare_stopped(&stopped(random), &stopped(random), repeats)
                .is_some_and(|c| c.differs()),
        ),
    }
}

/// Number of points whose scatter is pooled.
const POINTS: usize = 8;

/// Draws eight points, and returns whether the interval of one mean with the pooled scatter covers the true mean; `None` without an interval.
fn pooled_mean(
    claim: Claim,
    nature: &Nature,
    repeats: usize,
    random: &mut ChaCha8Rng,
) -> Option<bool> {
    let unequal = matches!(claim, Claim::UnequalPooledMean | Claim::WidestPooledMean);
    let last = (POINTS * repeats - 1) as f64;
    let time = |run: usize| match claim {
        Claim::DriftingPooledMean => RATIO.powf(run as f64 / last),
        _ => 1.0,
    };
    let mut points: Vec<Vec<f64>> = (0..POINTS)
        .map(|point| {
            let scatter = if unequal {
                9f64.powf(point as f64 / (POINTS - 1) as f64 - 0.5)
            } else {
                1.0
            };
            // in interleaved order
            let run = |repeat: usize| time(repeat * POINTS + point);
            (0..repeats)
                .map(|repeat| run(repeat) * (nature.value)(scatter * normal(random)))
                .collect()
        })
        .collect();
    if claim == Claim::PooledMeanBesideBad {
        points[POINTS - 1][0] *= 1000.0;
    }
    let judged = match claim {
        Claim::WidestPooledMean => POINTS - 1,
        Claim::PooledMeanBesideBad => below(random, POINTS - 1),
        _ => below(random, POINTS),
    };
    let lists: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
    let mut summary = Summary::of(lists[judged])?;
    if let Some(common) = CommonScatter::of(&lists) {
        summary.pool(lists[judged], &common);
    }
    let runs = POINTS * repeats;
    let truth = nature.mean * (0..runs).map(time).sum::<f64>() / runs as f64;
    summary.interval.map(|i| i.holds(truth))
}
