//! Receivers of a session's events.

use cvc_controller::observe::Observer;
use cvc_core::campaign::Block;
use cvc_core::point::PlannedPoint;

/// Receives the events of sessions, for display.
pub trait Audience {
    /// Returns an observer for the preparation, before the points are known.
    fn preparing(&self) -> Box<dyn Observer>;

    /// Returns an observer of the runs of these points, which are expected to take `expected_s` seconds in total.
    fn running(&self, points: &[PlannedPoint], expected_s: f64) -> Box<dyn Observer>;

    /// Called when a block of runs begins; the campaign has `count` blocks.
    fn block(&self, block: Block, count: u32);

    /// Called with a remark for the user.
    fn remark(&self, what: &str);
}
