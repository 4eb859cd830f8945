//! The walk through a plan in memory: journal and directories are real, sites and the clock are not.

mod failing;
mod killed;
mod memory;
mod sessions;
mod sites;
mod until;
