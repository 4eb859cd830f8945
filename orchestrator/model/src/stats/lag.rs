//! Test whether consecutive runs are correlated. Correlated repeats contain less information than their number suggests.

use super::random::{below, seeded};
use serde::Serialize;

/// Minimum number of values for which the correlation is tested.
const ENOUGH: usize = 8;
/// Number of random orders with which the actual order of the runs is compared.
const ORDERS: u32 = 1000;
/// Number of random orders with at least the observed correlation after which the test stops: the probability is then above 0.02, and sorting 10^5
/// runs takes long.
const PLENTY: u32 = 20;

/// Correlation between consecutive runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lag {
    /// Number of values.
    pub values: usize,
    /// Correlation of each value's deviation from the mean of its group with the deviation of the next value.
    pub correlation: f64,
    /// Probability of a correlation at least as large in a random order.
    pub p_value: f64,
}

/// Tests the correlation of consecutive runs among groups of repeats, each a list of (time, positive value).
///
/// e are the deviations of the logarithms from the means of their groups, in the order of time over all groups. The correlation is Σ eᵢ eᵢ₊₁ / Σ
/// eᵢ². The probability is the share of 1000 random orders with at least this correlation; an order permutes the values within each group. After 20
/// such orders, the test stops, and the share is that among the orders tried (Besag and Clifford 1991). Returns `None` for fewer than eight values
/// in groups of two or more, or without scatter.
pub fn lag(groups: &[Vec<(f64, f64)>]) -> Option<Lag> {
    let groups: Vec<&Vec<(f64, f64)>> = groups.iter().filter(|group| group.len() > 1).collect();
    let count = groups.iter().map(|group| group.len()).sum();
    if count < ENOUGH
        || groups
            .iter()
            .flat_map(|g| g.iter())
            .any(|(time, v)| !time.is_finite() || !v.is_finite() || *v <= 0.0)
    {
        return None;
    }
    let mut deviations: Vec<Vec<f64>> = Vec::new();
    let mut slots: Vec<(f64, usize, usize)> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let mean = group.iter().map(|(_, v)| v.ln()).sum::<f64>() / group.len() as f64;
        deviations.push(group.iter().map(|(_, v)| v.ln() - mean).collect());
        slots.extend(
            group
                .iter()
                .enumerate()
                .map(|(i, (time, _))| (*time, at, i)),
        );
    }
    slots.sort_by(|a, b| a.0.total_cmp(&b.0));
    let squares: f64 = deviations.iter().flatten().map(|e| e * e).sum();
    // rounding differences between equal values are not scatter
    if squares <= count as f64 * 1e-28 {
        return None;
    }
    let together = |of: &[Vec<f64>]| {
        slots
            .windows(2)
            .map(|pair| of[pair[0].1][pair[0].2] * of[pair[1].1][pair[1].2])
            .sum::<f64>()
            / squares
    };
    let correlation = together(&deviations);
    let mut random = seeded(deviations.iter().map(Vec::as_slice));
    let mut shuffled = deviations.clone();
    let (mut tried, mut as_alike) = (0, 0);
    while tried < ORDERS && as_alike < PLENTY {
        tried += 1;
        for group in &mut shuffled {
            for last in (1..group.len()).rev() {
                group.swap(last, below(&mut random, last + 1));
            }
        }
        as_alike += u32::from(together(&shuffled) >= correlation - 1e-12);
    }
    // the actual order counts as one of the orders
    let p_value = f64::from(as_alike + 1) / f64::from(tried + 1);
    Some(Lag {
        values: count,
        correlation,
        p_value,
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::random::{
            samples::{normal, share},
            seeded,
        },
        lag,
    };

    /// Returns how often the test reports a correlation, for points of runs in an interleaved order whose noise is correlated with that of the
    /// previous run.
    fn alarms(points: usize, repeats: usize, memory: f64, trials: u32) -> f64 {
        let mut random = seeded([&[points as f64, repeats as f64, memory][..]]);
        share(trials, || {
            let mut groups = vec![Vec::new(); points];
            let mut noise = normal(&mut random);
            for run in 0..points * repeats {
                let point = run % points;
                groups[point].push((run as f64, (0.05 * noise).exp() * (point + 1) as f64));
                noise = memory * noise + (1.0 - memory * memory).sqrt() * normal(&mut random);
            }
            lag(&groups).expect("an answer").p_value <= 0.01
        })
    }

    #[test]
    fn runs_that_remember_the_one_before_are_found_and_others_seldom() {
        for (points, repeats) in [(8, 3), (8, 5), (1, 10)] {
            let quiet = alarms(points, repeats, 0.0, 300);
            assert!(quiet <= 0.03, "{points} points, {repeats} repeats: {quiet}");
        }
        for (repeats, least) in [(3, 0.25), (5, 0.55), (10, 0.9)] {
            let found = alarms(8, repeats, 0.5, 100);
            assert!(found >= least, "{repeats} repeats: {found}");
        }
    }

    #[test]
    fn few_values_and_equal_ones_say_nothing() {
        assert!(lag(&[vec![(0.0, 1.0), (1.0, 2.0)]]).is_none(), "too few");
        assert!(
            lag(&[(0..9).map(|i| (f64::from(i), 0.1)).collect()]).is_none(),
            "no scatter"
        );
        assert!(
            lag(&[(0..9).map(|i| (f64::from(i), -1.0)).collect()]).is_none(),
            "no logarithm"
        );
        let waves: Vec<(f64, f64)> = (0..16)
            .map(|i| (f64::from(i), if i / 4 % 2 == 0 { 1.0 } else { 1.2 }))
            .collect();
        let found = lag(&[waves]).expect("an answer");
        assert!(
            found.correlation > 0.5 && found.p_value < 0.01 && found.values == 16,
            "{found:?}"
        );
    }
}
