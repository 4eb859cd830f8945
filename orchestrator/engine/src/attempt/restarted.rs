//! A second start of a run, to see whether its checkpoint can be restarted.

use super::noise::Noise;
use cvc_probe::shepherd::Exit;

/// A second start, to see whether a checkpoint can be restarted.
#[derive(Debug)]
pub(super) struct Restarted {
    pub exit: Option<Exit>,
    /// What else the nodes did.
    pub noise: Noise,
    pub stdout: String,
    pub stderr: String,
    /// Why it failed, in words of the checkpointer.
    pub explained: Option<String>,
}
