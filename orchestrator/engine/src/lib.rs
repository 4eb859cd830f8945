//! The part of cvc that runs on the machine where ranks are launched: MPI libraries, checkpointers, kernels, crews of sentinels, and single attempts
//! at runs.

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
