//! Statistics of repeats: moments, bootstrap intervals, and outliers, which are flagged and never dropped.
//!
//! Nothing here does I/O, and nothing is random: the bootstrap is seeded with the data, so that the same values give the same interval on
//! every machine.

mod bootstrap;
mod compare;
mod interval;
mod moments;
mod outliers;
mod pooled;
mod summary;

pub use bootstrap::{RESAMPLES, mean_interval};
pub use compare::{Comparison, compare, compare_paired};
pub use interval::{Interval, LEVEL};
pub use moments::{mean, quantile, sample_sd};
pub use outliers::{Fences, Outlier};
pub use pooled::{PooledRatio, RatioGroup, pooled_ratio};
pub use summary::Summary;
