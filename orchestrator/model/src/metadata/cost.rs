//! Cost of a layout's operations and bytes: time, load of the metadata server, number of files.

use super::stripes::PartialStripes;
use crate::{
    check::{not_negative, positive},
    estimate::Estimate,
    fit::FitError,
};
use serde::Serialize;

const DAY_S: f64 = 86_400.0;

/// Rates of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StorageRates {
    /// Bytes per second for all processes together.
    pub bytes_s: f64,
    /// Metadata operations per second.
    pub operations_s: f64,
}

/// Seconds of all checkpoints of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayoutTime {
    /// Seconds for the bytes.
    pub data_s: f64,
    /// Seconds for the operations.
    pub operations_s: Estimate,
    /// Seconds for stripes that several processes write, on a file system that locks stripes and writes them as a whole.
    pub stripes_s: f64,
    /// Sum of the three times. If it is unknown whether the file system locks stripes, the low end is the time without locks.
    pub total_s: Estimate,
}

/// Returns the time of `bytes` and `operations`: bytes/bandwidth + operations/rate, plus the locks and additional bytes of `shared` stripes.
/// `locks` says whether the file system locks stripes; `None` if unknown.
///
/// # Errors
/// A rate is not above 0, or the bytes are negative.
pub fn layout_time(
    bytes: f64,
    operations: Estimate,
    shared: Option<PartialStripes>,
    locks: Option<bool>,
    rates: StorageRates,
) -> Result<LayoutTime, FitError> {
    positive("the bandwidth", rates.bytes_s)?;
    positive("the rate of metadata operations", rates.operations_s)?;
    let data_s = not_negative("the size", bytes)? / rates.bytes_s;
    let operations_s = operations.times(1.0 / rates.operations_s);
    let stripes_s = match (shared, locks) {
        (Some(shared), Some(true) | None) => {
            shared.pieces as f64 / rates.operations_s + shared.extra_bytes as f64 / rates.bytes_s
        }
        _ => 0.0,
    };
    let without = Estimate::exact(data_s).plus_together(operations_s);
    let with = without.plus_together(Estimate::exact(stripes_s));
    let total_s = match (locks, without.interval, with.interval) {
        (None, Some(low), Some(high)) => Estimate::between(with.value, low.low, high.high),
        (None, _, _) if stripes_s > 0.0 => Estimate::between(with.value, without.value, with.value),
        _ => with,
    };
    Ok(LayoutTime {
        data_s,
        operations_s,
        stripes_s,
        total_s,
    })
}

/// Load of the metadata server by the checkpoints of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServerLoad {
    /// Operations of the job per day.
    pub operations_a_day: f64,
    /// Operations per day that the server can execute.
    pub capacity_a_day: f64,
    /// Number of jobs with this load that the server can serve.
    pub jobs: f64,
}

/// Returns the load of a metadata server by one checkpoint of `operations` in each interval.
///
/// # Errors
/// The interval or the rate is not above 0.
pub fn server_load(
    operations: f64,
    interval_s: f64,
    operations_s: f64,
) -> Result<ServerLoad, FitError> {
    positive("the interval", interval_s)?;
    positive("the rate of metadata operations", operations_s)?;
    let operations_a_day = not_negative("the operations", operations)? * DAY_S / interval_s;
    let capacity_a_day = operations_s * DAY_S;
    Ok(ServerLoad {
        operations_a_day,
        capacity_a_day,
        jobs: if operations_a_day > 0.0 {
            (capacity_a_day / operations_a_day).floor()
        } else {
            f64::INFINITY
        },
    })
}

/// Number of files of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileCount {
    /// Number of files while no checkpoint is written.
    pub kept: u64,
    /// Number of files while a checkpoint is written, before the oldest checkpoint is removed.
    pub peak: u64,
    /// Number of checkpoints that can be kept within a limit of files while another one is written. `None` without a limit, or if the number of
    /// files does not depend on the number of checkpoints.
    pub can_keep: Option<u64>,
}

/// Returns the number of files. A checkpoint has `each` files; `checkpoints` are written, and the last `keep` of them are kept. With `reserved`,
/// all checkpoints share the same files. `limit` is the maximum number of files.
pub fn file_count(
    each: u64,
    keep: u64,
    checkpoints: u64,
    reserved: bool,
    limit: Option<u64>,
) -> FileCount {
    if reserved {
        return FileCount {
            kept: each,
            peak: each,
            can_keep: None,
        };
    }
    let kept = keep.min(checkpoints);
    let peak = keep.saturating_add(1).min(checkpoints);
    FileCount {
        kept: each.saturating_mul(kept),
        peak: each.saturating_mul(peak),
        can_keep: limit.map(|limit| (limit / each.max(1)).saturating_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: StorageRates = StorageRates {
        bytes_s: 100.0,
        operations_s: 10.0,
    };

    #[test]
    fn time_is_bytes_by_bandwidth_and_operations_by_rate() {
        let operations = Estimate::between(50.0, 40.0, 60.0);
        let time = layout_time(1000.0, operations, None, None, RATES).expect("a time");
        assert_eq!(time.total_s, Estimate::between(15.0, 14.0, 16.0));
        assert_eq!(time.data_s, 10.0);
        assert_eq!(time.operations_s.value, 5.0);
        assert!(
            layout_time(
                1.0,
                operations,
                None,
                None,
                StorageRates {
                    bytes_s: 0.0,
                    ..RATES
                }
            )
            .is_err()
        );
    }

    #[test]
    fn shared_stripes_cost_where_they_are_locked_and_widen_where_that_is_unknown() {
        let shared = Some(PartialStripes {
            pieces: 20,
            extra_bytes: 300,
        });
        let time = |locks| {
            layout_time(1000.0, Estimate::exact(50.0), shared, locks, RATES)
                .expect("a time")
                .total_s
        };
        assert_eq!(time(Some(false)), Estimate::exact(15.0));
        assert_eq!(time(Some(true)), Estimate::exact(20.0));
        assert_eq!(time(None), Estimate::between(20.0, 15.0, 20.0));
    }

    #[test]
    fn a_server_bears_as_many_jobs_as_its_rate_allows() {
        // 3600 operations each hour are one per second
        let load = server_load(3600.0, 3600.0, 10.0).expect("a load");
        assert_eq!(load.operations_a_day, 86_400.0);
        assert_eq!(load.jobs, 10.0);
        assert!(server_load(1.0, 0.0, 1.0).is_err());
    }

    #[test]
    fn files_peak_while_one_more_is_written() {
        let of = |keep, checkpoints, reserved, limit| {
            file_count(128, keep, checkpoints, reserved, limit)
        };
        assert_eq!(of(2, 9, false, Some(1000)).kept, 256);
        assert_eq!(of(2, 9, false, Some(1000)).peak, 384);
        assert_eq!(of(2, 9, false, Some(1000)).can_keep, Some(6));
        assert_eq!(of(2, 1, false, None).peak, 128);
        assert_eq!(of(2, 9, true, Some(1)).peak, 128);
    }
}
