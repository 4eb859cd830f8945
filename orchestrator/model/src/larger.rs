//! Finds a few sizes that are larger than the others, such as the files of ranks that are I/O aggregators.

/// Relative difference of the means below which the groups are not separated.
const MIN_SHARE: f64 = 0.005;

/// Minimum ratio of the gap between the groups to the spread within either group.
const CLEARLY: f64 = 2.0;

/// A group of values that are larger than all others.
#[derive(Clone, Debug, PartialEq)]
pub struct LargerGroup {
    /// Indices of the group's values, in ascending order.
    pub places: Vec<usize>,
    /// Excess of the group's mean over the mean of the others, in the unit of the values.
    pub excess: f64,
}

/// Returns the group of values, at most half of all, that is separate from the others and above them. The widest gap between sorted values must be
/// at least twice as wide as the spread on either side, and the means must differ by more than 0.5 %. Returns `None` if there is no such group.
pub fn larger_group(values: &[f64]) -> Option<LargerGroup> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let gap = |k: &usize| values[order[*k]] - values[order[k - 1]];
    let half = values.len().div_ceil(2).max(1);
    let first = (half..values.len()).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let (others, larger) = order.split_at(first);
    let spread = |group: &[usize]| values[group[group.len() - 1]] - values[group[0]];
    let mean = |group: &[usize]| group.iter().map(|i| values[*i]).sum::<f64>() / group.len() as f64;
    let excess = mean(larger) - mean(others);
    let apart = gap(&first) >= CLEARLY * spread(others).max(spread(larger));
    let mut places = larger.to_vec();
    places.sort_unstable();
    (apart && excess > MIN_SHARE * mean(others).abs()).then_some(LargerGroup { places, excess })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_separate_group_of_larger_values_is_found() {
        let aggregators = [112.1, 97.0, 97.2, 97.1, 112.0, 97.0, 97.1, 97.2];
        let found = larger_group(&aggregators).expect("two stand apart");
        assert_eq!(found.places, [0, 4]);
        assert!((found.excess - 14.95).abs() < 0.01, "{}", found.excess);
        assert_eq!(larger_group(&[10.0, 10.3]).expect("one").places, [1]);
        // evenly spread; equal; all but one larger; a negligible difference; too few values
        for none in [
            &[1.0, 2.0, 3.0, 4.0, 5.0][..],
            &[7.0; 6],
            &[1.0, 9.0, 9.0, 9.0],
            &[100.0, 100.0, 100.1],
            &[3.0],
            &[],
        ] {
            assert_eq!(larger_group(none), None, "{none:?}");
        }
    }
}
