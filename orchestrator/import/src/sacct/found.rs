//! The jobs in an export of Slurm's accounting that count, and the reasons for omitting others.

use indexmap::IndexMap;
use std::collections::HashSet;

/// A job that used nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterJob {
    /// Job number of Slurm: `12`, `12_3` in an array, `12+1` in a heterogeneous job.
    pub id: String,
    /// Name of the job; empty if the export does not contain it.
    pub name: String,
    /// Final state; empty if the export does not contain it.
    pub state: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Total number of processors on all nodes.
    pub cpus: u32,
    /// Memory of one node, MiB; `None` if unknown.
    pub memory_mib: Option<f64>,
    /// Time for which the job held its nodes, seconds.
    pub elapsed_s: f64,
}

/// The jobs of an export.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterJobs {
    /// Jobs in the order of the export.
    pub jobs: Vec<ClusterJob>,
    /// Number of omitted jobs, by reason.
    pub left_out: IndexMap<String, usize>,
    /// Number of job steps.
    pub steps: usize,
}

/// A row of an export, before it is decided whether the job counts.
#[derive(Debug, Default)]
pub(super) struct AccountedJob {
    pub id: String,
    pub name: String,
    pub state: String,
    pub nodes: Option<u32>,
    pub cpus: Option<u32>,
    pub gpus: u32,
    pub memory_mib: Option<f64>,
    pub elapsed_s: Option<f64>,
    /// Distinguishes the attempts of one job (requeued jobs have several).
    pub attempt: String,
}

/// States of jobs that have not ended.
const NOT_ENDED: [&str; 9] = [
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "CONFIGURING",
    "COMPLETING",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
];

impl ClusterJobs {
    pub(super) fn leave_out(&mut self, reason: impl Into<String>) {
        *self.left_out.entry(reason.into()).or_default() += 1;
    }

    pub(super) fn add(&mut self, row: AccountedJob, seen: &mut HashSet<(String, String)>) {
        let state = row
            .state
            .split([' ', '+'])
            .next()
            .unwrap_or_default()
            .to_ascii_uppercase();
        if NOT_ENDED.contains(&state.as_str()) {
            return self.leave_out(format!("not ended: {state}"));
        }
        if state == "REVOKED" {
            return self.leave_out("runs on another cluster of the federation: REVOKED");
        }
        let Some(elapsed_s) = row.elapsed_s else {
            return self.leave_out("without a time that can be read");
        };
        if elapsed_s <= 0.0 {
            return self.leave_out("never started, or ended at once");
        }
        let Some(cpus) = row.cpus.filter(|cpus| *cpus > 0) else {
            return self.leave_out("without a number of processors");
        };
        if row.gpus > 0 {
            return self.leave_out("with GPUs: cvc has no instance types with GPUs");
        }
        if !seen.insert((row.id.clone(), row.attempt)) {
            return self.leave_out("repeated in the export");
        }
        self.jobs.push(ClusterJob {
            id: row.id,
            name: row.name,
            state,
            nodes: row.nodes.filter(|nodes| *nodes > 0).unwrap_or(1),
            cpus,
            memory_mib: row.memory_mib.filter(|mib| *mib > 0.0),
            elapsed_s,
        });
    }
}
