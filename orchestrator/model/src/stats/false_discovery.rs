//! Control of the false discovery rate among many comparisons.

/// Returns the adjusted probabilities in the given order, and the level of matching intervals.
///
/// If comparisons with an adjusted probability of up to 0.05 are called different, 5 % of them are false on average (Benjamini and Hochberg 1995,
/// Controlling the false discovery rate, J. R. Stat. Soc. B 57). The second result is the largest unadjusted probability that is called different;
/// intervals with a coverage of 1 minus this level agree with these decisions. If no comparison is called different, it is the level of the
/// smallest probability.
pub fn adjusted(probabilities: &[f64], level: f64) -> (Vec<f64>, f64) {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut least: f64 = 1.0;
    for (rank, at) in order.iter().enumerate().rev() {
        least = least.min(probabilities[*at] * probabilities.len() as f64 / (rank as f64 + 1.0));
        adjusted[*at] = least;
    }
    let different = adjusted.iter().filter(|q| **q <= level).count().max(1);
    let of_each = level * different as f64 / probabilities.len().max(1) as f64;
    (adjusted, of_each)
}

#[cfg(test)]
mod tests {
    use super::adjusted;

    /// Expected values: R's p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.8), "BH").
    #[test]
    fn known_values() {
        let (q, level) = adjusted(&[0.01, 0.04, 0.03, 0.005, 0.8], 0.05);
        assert!((level - 0.04).abs() < 1e-12);
        let expected = [0.025, 0.05, 0.05, 0.025, 0.8];
        assert!(
            q.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12),
            "{q:?}"
        );
        assert!(adjusted(&[], 0.05).0.is_empty());
        // none is different: the level of the smallest probability
        assert!((adjusted(&[0.1, 0.2], 0.05).1 - 0.025).abs() < 1e-12);
    }

    /// Expected values: R's p.adjust(c(0.02, 0.01, 0.021), "BH").
    #[test]
    fn a_smaller_probability_is_never_adjusted_to_a_larger_one() {
        let (q, _) = adjusted(&[0.02, 0.01, 0.021], 0.05);
        assert!(q.iter().all(|q| (q - 0.021).abs() < 1e-12), "{q:?}");
    }
}
