//! Uses the time between the notice that a node will be reclaimed and the node's loss.

use crate::{
    ckpt::{CheckpointRun, Halt},
    crew::Leaving,
    run::{RunFailure, Shepherd},
};
use cvc_core::{outcome::Cause, store::NoticeUse};
use std::time::{Duration, Instant};

/// Time reserved for the steps after a checkpoint: ending the run, and moving its files to other storage.
const RESERVE: Duration = Duration::from_secs(10);
/// If the notice is too short for [`RESERVE`], the time left divided by this number is reserved instead.
const RESERVED_PART: u32 = 4;

/// A notice that a run received, and how the run then ended.
#[derive(Debug)]
pub(super) struct ReceivedNotice {
    received: Instant,
    left: Option<Duration>,
    /// Whether the program ended by itself after the notice.
    pub has_ended: bool,
    /// The failure with which the run ends because of the notice.
    pub failure: RunFailure,
}

impl ReceivedNotice {
    /// Returns the time until the node is reclaimed, if known.
    pub fn left(&self) -> Option<Duration> {
        let left = self.left?;
        Some(left.saturating_sub(self.received.elapsed()))
    }

    /// Returns how the time was used until now.
    pub fn used(&self) -> NoticeUse {
        NoticeUse {
            left_s: self.left.map(|left| left.as_secs_f64()),
            took_s: self.received.elapsed().as_secs_f64(),
        }
    }
}

/// Returns the time available for a checkpoint, if this much time is left until the node is reclaimed.
fn time_for_checkpoint(left: Duration) -> Duration {
    left.saturating_sub(RESERVE.min(left / RESERVED_PART))
}

/// Takes a checkpoint of a run because this node will be reclaimed. `limit` is the usual time limit of a checkpoint.
pub(super) async fn take_checkpoint(
    session: &mut dyn CheckpointRun,
    shepherd: &mut Shepherd,
    (node, leaving): (String, Leaving),
    limit: Duration,
) -> ReceivedNotice {
    let received = Instant::now();
    let left = leaving.at.map(|at| {
        let left = at.duration_since(jiff::Timestamp::now());
        Duration::try_from_secs_f64(left.as_secs_f64()).unwrap_or_default()
    });
    let limit = left.map_or(limit, |left| time_for_checkpoint(left).min(limit));
    // the request may take longer than the time that is left
    let taken = tokio::time::timeout(limit + RESERVE / 2, session.take_now(shepherd, limit)).await;
    let effect = match taken {
        Ok(Ok(())) => format!(
            "a checkpoint was taken in {:.1} s",
            received.elapsed().as_secs_f64()
        ),
        Ok(Err(Halt::Failure(failure))) => format!("no checkpoint was taken: {}", failure.detail),
        Ok(Err(Halt::Error(error))) => format!("no checkpoint was taken: {error}"),
        Err(_) => "no checkpoint was complete in time".to_owned(),
    };
    let of_left = left.map_or_else(String::new, |left| {
        format!(" {:.0} s before", left.as_secs_f64())
    });
    let detail = format!("{node}: {}, announced{of_left}; {effect}", leaving.why);
    ReceivedNotice {
        received,
        left,
        has_ended: !shepherd.at_work(),
        failure: RunFailure::new(Cause::Reclaimed, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_time_is_reserved_for_the_steps_after_the_checkpoint() {
        let of = |s| time_for_checkpoint(Duration::from_secs(s)).as_secs();
        assert_eq!([of(120), of(20), of(0)], [110, 15, 0]);
    }
}
