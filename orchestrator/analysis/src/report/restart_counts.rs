//! Counts the restarts of points.

use crate::results::{data::Data, rows::PointRow};
use cvc_core::record::names;
use cvc_index::RunOutcome;

/// Number of restarts in counted runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RestartCounts {
    pub tried: usize,
    pub verified: usize,
}

/// Counts the restarts of a point, in runs that succeeded, and in runs that failed because of their restart.
pub(super) fn of_point(data: &Data, point: &PointRow) -> RestartCounts {
    let values: &[f64] = point
        .values
        .get(names::RESTART_VERIFIED)
        .map_or(&[], Vec::as_slice);
    let failed = point.runs.iter().map(|r| &data.runs[*r]);
    let failed = failed
        .filter(|r| {
            !r.warmup && r.state == RunOutcome::Failed && r.cause.as_deref() == Some("restart")
        })
        .count();
    RestartCounts {
        tried: values.len() + failed,
        verified: values.iter().filter(|v| **v == 1.0).count(),
    }
}

/// Counts the restarts of all points.
pub(super) fn of_all(data: &Data) -> RestartCounts {
    data.points
        .iter()
        .map(|p| of_point(data, p))
        .fold(RestartCounts::default(), |a, b| RestartCounts {
            tried: a.tried + b.tried,
            verified: a.verified + b.verified,
        })
}

impl RestartCounts {
    /// Returns the number of verified restarts as `7 of 7`; empty if no restart was attempted.
    pub fn shown(self) -> String {
        if self.tried == 0 {
            String::new()
        } else {
            format!("{} of {}", self.verified, self.tried)
        }
    }
}
