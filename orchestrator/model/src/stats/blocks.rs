//! Repeats in blocks, such as days or fleets, which differ by chance. Repeats within a block are correlated, so only blocks are independent.

use super::moments::mean;
use std::collections::BTreeMap;

/// Returns the mean of each block, in the order of blocks. Values that are not finite are skipped.
///
/// If all blocks have the same number of repeats, Student's t interval of these means is the interval of the mean in the one-way model with random
/// blocks (Searle, Casella, McCulloch 1992, Variance components, chapter 3). Its degrees of freedom are the number of blocks minus one.
pub fn block_means(values: &[(u32, f64)]) -> Vec<f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (block, value) in values.iter().filter(|(_, value)| value.is_finite()) {
        blocks.entry(*block).or_default().push(*value);
    }
    blocks.values().filter_map(|values| mean(values)).collect()
}
