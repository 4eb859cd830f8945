//! The paired permutation test: how often signs given by chance would show as much.

use super::random::{seeded, sign};
use statrs::function::erf::erfc;

/// Number of pairs up to which all assignments of signs are counted.
const EXACT: usize = 12;
/// Number of random assignments beyond.
const RANDOM: u32 = 10_000;
/// Number of pairs beyond which the sum of random signs is normal to all that can be told, and drawing them would take seconds.
const NORMAL: usize = 1000;

/// Returns the two-sided probability that the sum of the differences of pairs is at least as far from 0, if each could as well have the other
/// sign (Fisher 1935). Exact up to 12 pairs, from 10 000 random assignments up to 1000 pairs, and beyond by the normal limit of their sum. `None`
/// without differences.
pub fn probability(differences: &[f64]) -> Option<f64> {
    let n = differences.len();
    if n == 0 {
        return None;
    }
    let sum = |signed: &mut dyn FnMut(usize) -> f64| {
        differences
            .iter()
            .enumerate()
            .map(|(i, d)| d.abs() * signed(i))
            .sum::<f64>()
            .abs()
    };
    let observed = differences.iter().sum::<f64>().abs();
    // assignments that give the same sum count, despite rounding
    let least = observed - differences.iter().map(|d| d.abs()).sum::<f64>() * 1e-12;
    if n <= EXACT {
        let all = 1u32 << n;
        let as_far = (0..all)
            .filter(|bits| sum(&mut |i| if bits >> i & 1 == 0 { 1.0 } else { -1.0 }) >= least)
            .count();
        return Some(as_far as f64 / f64::from(all));
    }
    if n > NORMAL {
        let spread = differences.iter().map(|d| d * d).sum::<f64>().sqrt();
        return Some(if spread > 0.0 {
            erfc(observed / spread / std::f64::consts::SQRT_2)
        } else {
            1.0
        });
    }
    let mut random = seeded([differences]);
    let as_far = (0..RANDOM)
        .filter(|_| sum(&mut |_| sign(&mut random)) >= least)
        .count();
    // the observed assignment is one of them
    Some((as_far as f64 + 1.0) / (f64::from(RANDOM) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::probability;

    #[test]
    fn all_assignments_are_counted() {
        assert_eq!(probability(&[1.0; 6]), Some(2.0 / 64.0));
        // 1+2+3 = 6: of eight assignments only +6 and -6 are as far
        assert_eq!(probability(&[1.0, 2.0, 3.0]), Some(0.25));
        assert_eq!(probability(&[1.0, 2.0, -3.0]), Some(1.0));
        assert_eq!(probability(&[0.0; 4]), Some(1.0));
        assert_eq!(probability(&[]), None);
    }

    #[test]
    fn random_assignments_agree_with_counted_ones() {
        let twelve: Vec<f64> = (0..12).map(|i| f64::from(i) - 3.0).collect();
        let exact = probability(&twelve).expect("a probability");
        // a pair without a difference changes nothing but the method
        let thirteen: Vec<f64> = twelve.into_iter().chain([0.0]).collect();
        let random = probability(&thirteen).expect("a probability");
        assert!((exact - random).abs() < 0.01, "{exact} {random}");
    }

    #[test]
    fn the_limit_for_many_pairs_agrees_with_random_assignments_and_takes_no_time() {
        let of = |n: i32| -> Vec<f64> { (0..n).map(|i| f64::from(i % 7) - 2.9).collect() };
        let (drawn, limit) = (
            probability(&of(1000)).expect("a probability"),
            probability(&of(1001)).expect("a probability"),
        );
        assert!((drawn - limit).abs() < 0.02, "{drawn} {limit}");
        let started = std::time::Instant::now();
        assert!(probability(&of(1_000_000)).is_some_and(|p| p < 1e-6));
        assert!(started.elapsed().as_secs() < 2);
        assert_eq!(probability(&[0.0; 2000]), Some(1.0));
    }
}
