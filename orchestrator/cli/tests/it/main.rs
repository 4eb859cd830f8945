//! Tests of the program `cvc`, as a user starts it.

#![expect(clippy::print_stderr, reason = "tests tell what they skip and measure")]

mod aa_test;
mod blocks;
mod campaign;
#[cfg(feature = "ec2")]
mod cloud;
mod cluster_dmtcp;
mod cluster_faults;
mod cluster_slurm;
mod cluster_slurm_faults;
mod cluster_ssh;
mod common;
mod compare;
mod costs;
mod delta;
mod dmtcp;
mod dmtcp_stand_in;
mod docs;
mod doctor_app;
mod doctor_probe;
mod doctor_site;
mod doctor_verdict;
mod examples;
mod explain;
mod export;
mod failing;
mod failing_writes;
mod first_hours;
mod foreign;
mod foreign_files;
mod identity;
mod image;
mod init;
mod install;
mod install_nodes;
mod instruments;
mod kernels;
mod killed;
mod log;
#[path = "../../../prediction/tests/it/common/measured.rs"]
mod measured;
#[cfg(feature = "ec2")]
mod ordeal;
mod outputs;
mod power_loss;
mod predict;
mod predict_delta;
mod predictions;
mod quickstart;
mod reproduce;
mod sessions;
mod shepherd;
mod stopped;
mod trace;
mod trace_jobs;
mod traced_kernel;
mod until;
mod written;
mod wrong_inputs;
