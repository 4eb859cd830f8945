//! Checkpoints that store only what changed: how much that is, what a run with them takes, and which method and interval take least.
//!
//! | file | what |
//! | --- | --- |
//! | `curve.rs` | the changed volume against the distance of two checkpoints: its forms |
//! | `volume.rs` | the form and its numbers, fitted |
//! | `spread.rs` | how far that may be off |
//! | `storing.rs` | what a method stores of each state, and what restores it |
//! | `run.rs` | the expected time of a run with failures when checkpoints and restarts differ |
//! | `choice.rs` | the interval and the method with the least expected time or cost |

mod choice;
mod curve;
mod run;
mod spread;
mod storing;
mod volume;

pub use choice::{Aim, BestInterval, Choosing, candidates, choose_method, least_interval};
pub use curve::{ChangedPair, VolumeCurve, VolumeForm};
pub use run::{DeltaCosts, DeltaJob, DeltaRun, Packing, Prices, delta_run, with_failures_of};
pub use storing::{StoredState, stored_states};
pub use volume::ChangedVolume;
