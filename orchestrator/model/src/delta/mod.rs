//! Checkpoints that store only changes: the changed volume, the duration of a run, and the best method and interval.
//!
//! | file | contents |
//! | --- | --- |
//! | `curve.rs` | the changed volume as a function of the time between two checkpoints: its forms |
//! | `volume.rs` | the fit of a form and its parameters |
//! | `spread.rs` | the error of a fitted curve |
//! | `storing.rs` | what a method stores of each checkpoint, and reads to restore it |
//! | `run.rs` | the expected time of a run with failures if checkpoints and restarts have different durations |
//! | `choice.rs` | the interval and the method with the minimum expected time or cost |

mod choice;
mod curve;
mod run;
mod spread;
mod storing;
mod volume;

pub use choice::{
    BestDeltaInterval, Choosing, DeltaObjective, candidates, choose_method, optimal_interval,
};
pub use curve::{ChangedPair, VolumeCurve, VolumeForm};
pub use run::{DeltaCosts, DeltaJob, DeltaRun, Packing, Prices, delta_run, with_failures_of};
pub use storing::{StoredState, stored_states};
pub use volume::ChangedVolume;
