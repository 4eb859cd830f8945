//! Which restarts were tried, and which of them verified.

use crate::results::{data::Data, rows::PointRow};
use cvc_core::record::names;
use cvc_index::RunOutcome;

/// Restarts of counted runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    pub tried: usize,
    pub verified: usize,
}

/// Counts the restarts of a point: those of runs that succeeded, and runs that failed because of their restart.
pub(super) fn of_point(data: &Data, point: &PointRow) -> Restarts {
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
    Restarts {
        tried: values.len() + failed,
        verified: values.iter().filter(|v| **v == 1.0).count(),
    }
}

/// Counts the restarts of all points.
pub(super) fn of_all(data: &Data) -> Restarts {
    data.points
        .iter()
        .map(|p| of_point(data, p))
        .fold(Restarts::default(), |a, b| Restarts {
            tried: a.tried + b.tried,
            verified: a.verified + b.verified,
        })
}

impl Restarts {
    /// Says how many verified: `7 of 7`; nothing if none was tried.
    pub fn shown(self) -> String {
        if self.tried == 0 {
            String::new()
        } else {
            format!("{} of {}", self.verified, self.tried)
        }
    }
}
