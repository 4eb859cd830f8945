//! Estimates of a plan's time and disk space: rough figures from the descriptors, before there are runs to learn from.
//!
//! Time of a run: `core_s` divided by the number of processes that compute at the same time (on each node at most as many as it has cores), plus
//! rough constants for the start of the launcher and the processes, for the start and end of DMTCP, and for writing images. A restart check adds a
//! second start, reading the images, and half of the computation. A `size-only` run computes for at most two seconds.
//!
//! If the bandwidth of the fullest node's storage is known, no checkpoint is estimated to be written faster than that.
//!
//! If the number of cores of a node is unknown, every process is assumed to have its own core, and [`PointEstimate::known_cores`] is `None`.
//!
//! Space of a run: outputs of the workload, traces, and checkpoints, whose size the caller provides. If a series is stored as deltas, the
//! uncompressed size counts: all checkpoints if each is stored in full without a codec, otherwise two. That space is needed for the first method and
//! for the largest other one, plus a restored checkpoint. The program's own checkpoints are part of its outputs. If they are stored as a series, each
//! is assumed to be as large as all outputs, and the series, whose length is unknown, to have two checkpoints; one more is copied while it is stored.

mod figures;
mod late;
mod of_plan;
mod of_point;

pub use figures::{CheckpointBytes, DiskNeed, Estimates, Machines, PointEstimate, fullest_share};
pub use of_plan::estimate;
