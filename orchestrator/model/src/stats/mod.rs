//! Statistics of repeats: plain moments, bootstrap intervals, outliers that are flagged and never dropped.
//!
//! Nothing here reads or writes anything, and nothing here is random: the bootstrap is seeded from the data themselves, so that the
//! same values give the same interval on every machine.

mod bootstrap;
mod compare;
mod interval;
mod moments;
mod outliers;
mod summary;

pub use bootstrap::{RESAMPLES, mean_interval};
pub use compare::{Comparison, compare, compare_paired};
pub use interval::{Interval, LEVEL};
pub use moments::{mean, quantile, sample_sd};
pub use outliers::{Fences, Outlier};
pub use summary::Summary;
