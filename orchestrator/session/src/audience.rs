//! Who is told what a session does.

use cvc_controller::observe::Observer;
use cvc_core::campaign::Block;
use cvc_core::point::PlannedPoint;

/// Who is told what a session does.
pub trait Audience {
    /// Returns an observer of what concerns no points yet.
    fn preparing(&self) -> Box<dyn Observer>;

    /// Returns an observer of the runs of these points, which are expected to take so long, seconds.
    fn running(&self, points: &[PlannedPoint], expected_s: f64) -> Box<dyn Observer>;

    /// Is told that a block of runs begins, of so many.
    fn block(&self, block: Block, count: u32);

    /// Is told a remark.
    fn remark(&self, what: &str);
}
