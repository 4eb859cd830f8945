//! The small run that represents a large run: the same amount of data in each process, and the same number of processes on each node (thesis,
//! section 5.3.3 and Table 5.16). Each node then stores the same amount, in the same time if nodes store independently.

/// Maximum relative excess of the large run's latency over the small run's in the thesis (section 5.3.3, Figure 5.12).
pub const PUBLISHED_LATENCY_RISE: f64 = 0.20;

/// Maximum ratio of the data per process of two runs for which one represents the other. Published ratios are up to 1.26 (SP on 49 and 196
/// processes).
pub const LARGEST_DATA_RATIO: f64 = 1.26;

/// Returns whether the data of a process in the two runs, given by their ratio, are similar enough.
pub fn is_alike(data_ratio: f64) -> bool {
    data_ratio.is_finite() && data_ratio > 0.0 && data_ratio.ln().abs() <= LARGEST_DATA_RATIO.ln()
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "tests tell what they measure")]
mod tests {
    use super::{LARGEST_DATA_RATIO, is_alike};
    use crate::nas::Problem;

    /// Thesis, Table 5.16: benchmark; processes of class B on one node, and MiB of data of each; processes of class C on four nodes, and MiB of
    /// data of each.
    const TABLE: [(&str, u32, f64, u32, f64); 18] = [
        ("npb-bt", 4, 109.94, 16, 112.09),
        ("npb-sp", 4, 94.3, 16, 95.66),
        ("npb-lu", 4, 49.55, 16, 51.78),
        ("npb-bt", 9, 53.63, 36, 57.61),
        ("npb-sp", 9, 45.45, 36, 52.53),
        ("npb-lu", 9, 23.7, 36, 24.77),
        ("npb-bt", 16, 31.35, 64, 35.01),
        ("npb-sp", 16, 28.3, 64, 31.06),
        ("npb-lu", 16, 14.82, 64, 16.17),
        ("npb-bt", 25, 21.97, 100, 24.99),
        ("npb-sp", 25, 19.21, 100, 22.44),
        ("npb-lu", 25, 10.37, 100, 11.52),
        ("npb-bt", 36, 17.5, 144, 18.14),
        ("npb-sp", 36, 16.45, 144, 17.74),
        ("npb-lu", 36, 7.39, 144, 8.59),
        ("npb-bt", 49, 12.65, 196, 14.75),
        ("npb-sp", 49, 11.38, 196, 14.3),
        ("npb-lu", 49, 6.11, 196, 6.89),
    ];

    #[test]
    fn the_declared_arrays_have_the_ratios_of_table_5_16() {
        let bytes = |app: &str, class: &str, processes: u32| {
            let problem = Problem::of(app, class).expect("a benchmark");
            problem.static_bytes(processes).expect("a size") as f64
        };
        let mut errors = Vec::new();
        for (app, small, small_mib, big, big_mib) in TABLE {
            let printed = big_mib / small_mib;
            assert!(is_alike(printed), "{app} {small}");
            let ratio = bytes(app, "C", big) / bytes(app, "B", small);
            assert!(is_alike(ratio), "{app} {small}: {ratio}");
            errors.push((ratio / printed - 1.0).abs());
            eprintln!("{app} {small} {big}: {printed:.3} {ratio:.3}");
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean < 0.007, "{mean}");
        let worst = errors.into_iter().fold(0.0, f64::max);
        assert!(worst < 0.035, "{worst}");
        assert!(!is_alike(1.01 * LARGEST_DATA_RATIO) && !is_alike(f64::NAN));
    }
}
