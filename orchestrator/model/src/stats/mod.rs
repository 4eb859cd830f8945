//! Statistics of repeats: moments, intervals, comparisons, and outliers, which are flagged but never dropped.
//!
//! Nothing here does I/O, and results are deterministic: random numbers are seeded with the data, so that the same values give the same result on
//! every machine.

mod blocks;
mod compare;
mod drift;
mod false_discovery;
mod interval;
mod lag;
mod least;
mod moderated;
mod moments;
mod order;
mod outliers;
mod pooled;
pub mod random;
mod share;
mod stopping;
mod student;
mod summary;
mod variation;
mod verdict;

pub use blocks::block_means;
pub use compare::{Comparison, adjust, compare, compare_paired, compare_stopped};
pub use drift::{Drift, drift};
pub use interval::{Interval, LEVEL};
pub use lag::{Lag, lag};
pub use least::{LeastMean, least_mean};
pub use moderated::CommonScatter;
pub use moments::{mean, quantile, sample_sd};
pub use outliers::{Fences, Outlier};
pub use pooled::{PooledRatio, RatioGroup, adjust_effects, pooled_ratio};
pub use share::share_interval;
pub use stopping::{Narrowness, narrowness, stopped_sample};
pub use student::{Scale, t_quantile};
pub use summary::Summary;
pub use variation::Variation;
pub use verdict::Verdict;
