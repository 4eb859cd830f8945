//! What runs on the machine where ranks are launched: MPI libraries, checkpointers, kernels, the crew of sentinels, and one attempt at a run.

pub mod attempt;
pub mod ckpt;
pub mod crew;
pub mod host;
pub mod kernels;
pub mod mpi;
pub mod render;
pub mod run;
pub mod stage;
pub mod tracer;
pub mod transport;
