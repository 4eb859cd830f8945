//! Choice of the sample with the lowest mean, and the probability that its true mean is the lowest.

use super::{
    moments::{mean, sample_sd},
    random::{normal, seeded},
};
use rand_chacha::ChaCha8Rng;

/// Number of random draws; the standard error of a probability of 95 % is then 0.15 %.
const DRAWS: u32 = 20_000;

/// The sample with the lowest mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeastMean {
    /// Index of the sample.
    pub index: usize,
    /// Index of the sample with the second lowest mean; `None` for a single sample.
    pub next: Option<usize>,
    /// Probability that the sample's true mean is the lowest of all; `None` for a single sample, or if a sample has fewer than two values.
    pub probability: Option<f64>,
}

/// The true mean of a sample, given its values: mean + sd/√n · t, with n − 1 degrees of freedom.
struct TrueMean {
    mean: f64,
    error: f64,
    freedom: usize,
}

impl TrueMean {
    fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            mean: mean(values)?,
            error: sample_sd(values)? / (values.len() as f64).sqrt(),
            freedom: values.len() - 1,
        })
    }

    fn draw(&self, random: &mut ChaCha8Rng) -> f64 {
        let square: f64 = (0..self.freedom).map(|_| normal(random).powi(2)).sum();
        let t = normal(random) / (square / self.freedom as f64).sqrt();
        self.mean + self.error * t
    }
}

/// Returns the sample with the lowest mean. `None` if there is no sample, or if a sample has no value.
///
/// Samples are independent. The probability is Bayesian: a mean and its scatter have no preferred value before the measurement, so that the interval
/// of a mean is the one by Student's t.
pub fn least_mean(samples: &[Vec<f64>]) -> Option<LeastMean> {
    let means: Vec<f64> = samples.iter().map(|s| mean(s)).collect::<Option<_>>()?;
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|a, b| means[*a].total_cmp(&means[*b]));
    let (index, next) = (*order.first()?, order.get(1).copied());
    let all: Option<Vec<TrueMean>> = samples.iter().map(|s| TrueMean::of(s)).collect();
    let probability = next.and(all).map(|all| {
        let mut random = seeded(samples.iter().map(Vec::as_slice));
        let mut is_least = || {
            let best = all[index].draw(&mut random);
            let mut others = all.iter().enumerate().filter(|(i, _)| *i != index);
            others.all(|(_, other)| best < other.draw(&mut random))
        };
        let hits: u32 = (0..DRAWS).map(|_| u32::from(is_least())).sum();
        f64::from(hits) / f64::from(DRAWS)
    });
    Some(LeastMean {
        index,
        next,
        probability,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_among_two_samples_is_as_sure_as_the_one_sided_t_test() {
        let a = vec![9.0, 10.0, 11.0, 10.5, 9.5, 10.2, 9.8, 10.0];
        let b = vec![9.8, 10.8, 11.8, 10.8, 10.1, 11.5, 10.3, 10.8];
        let found = least_mean(&[b.clone(), a.clone()]).expect("values");
        assert_eq!((found.index, found.next), (1, Some(0)));
        // 1 - p/2 of Welch's test; with unequal variances (Behrens and Fisher) the posterior is slightly wider
        let p = crate::stats::compare(&a, &b).and_then(|c| c.p_value);
        let (sure, welch) = (
            found.probability.expect("scatter"),
            1.0 - p.expect("p") / 2.0,
        );
        assert!((sure - welch).abs() < 0.02, "{sure} and {welch}");
        assert_eq!(least_mean(&[b, a]), Some(found), "deterministic");
        // for few values the posterior is more careful than Welch's 0.948
        let few = [vec![9.0, 10.0, 11.0], vec![10.5, 11.5, 12.5, 11.5]];
        let sure = least_mean(&few).and_then(|found| found.probability);
        assert!((sure.expect("scatter") - 0.9116).abs() < 0.01, "{sure:?}");
    }

    #[test]
    fn equal_samples_share_the_probability_and_one_value_gives_none() {
        let same = vec![1.0, 2.0, 3.0];
        let third = least_mean(&[same.clone(), same.clone(), same.clone()]).expect("values");
        let p = third.probability.expect("scatter");
        assert!((p - 1.0 / 3.0).abs() < 0.015, "{p}");
        let alone = least_mean(std::slice::from_ref(&same)).expect("values");
        assert_eq!((alone.next, alone.probability), (None, None));
        let single = least_mean(&[same.clone(), vec![9.0]]).expect("values");
        assert_eq!((single.index, single.probability), (0, None));
        assert_eq!(least_mean(&[same, Vec::new()]), None);
        assert_eq!(least_mean(&[]), None);
    }
}
