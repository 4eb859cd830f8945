//! Tests of ssh, Slurm and installation, with nodes of a lab if a test needs them.

#![expect(clippy::print_stderr, reason = "tests tell what they skip and measure")]

mod common;
mod disks;
mod install;
mod inventory;
mod mpi_nodes;
mod slurm;
mod ssh;
mod ssh_faults;
mod ssh_keys;
