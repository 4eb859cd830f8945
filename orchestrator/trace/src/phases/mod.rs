//! Models the I/O of a program as phases: accesses between two periods of computation, their positions in the files, and their repetitions. Source:
//! Méndez and others, A new approach for Analyzing I/O in parallel scientific applications (PAS2P-I/O).
//!
//! | file | contents |
//! | --- | --- |
//! | `log.rs` | reads the log that the tracer `trace-mpi-io` wrote for a process |
//! | `progression.rs` | converts positions to nested arithmetic progressions |
//! | `accesses.rs` | combines the accesses of a process into phases |
//! | `calls.rs` | the individual calls in the logs |
//! | `checkpoint.rs` | the writes of a DMTCP checkpoint, from its images or from predicted areas |
//! | `events.rs` | derives the model from a trace of another tracer |
//! | `merge.rs` | combines the phases of all processes, and groups equal ones into families |
//! | `model.rs` | the model, as a document |
//! | `scale.rs` | combines models at several numbers of processes into one for any number |
//! | `storage.rs` | the phases with which storage is measured |
//! | `replay.rs` | the input of `kernel-replay` |

mod accesses;
mod calls;
mod checkpoint;
mod events;
mod log;
mod merge;
mod model;
mod progression;
mod replay;
mod scale;
mod storage;

pub use calls::{CallKind, TracedCall, traced_calls};
pub use checkpoint::{checkpoint_model, planned_checkpoint};
pub use events::trace_model;
pub use log::PhaseError;
pub use merge::{Separation, io_model};
pub use model::{
    FORMAT, IoFile, IoModel, Loop, Marks, PerRank, PhaseFamily, PhaseOp, Ranks, VERSION,
    ViewPattern,
};
pub use progression::{Level, Progression};
pub use replay::{ReplayOptions, replay_program};
pub use scale::{Growth, ScaledPhase, scaled, scaled_phases};
pub use storage::{AccessKind, StorageCell, storage_model};
