//! Finds the ranks of a run on this node.

use super::error::SentinelError;
use cvc_image::Role;
use cvc_os::proc::{self, ProcessId};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A rank of a run, identified by its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankProcess {
    /// Rank in the whole run.
    pub rank: u32,
    /// Process number.
    pub pid: u32,
    /// Name of the program.
    pub program: String,
}

/// Environment variables in which process managers pass the rank to a process, most reliable first: Hydra and PMI2, PMIx, Open MPI.
const RANK_VARIABLES: [&str; 3] = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"];

/// Returns the rank that a process was given. srun sets its own variable for every process that it starts, also for launchers' proxies and the batch
/// script. The variable of srun therefore counts only inside a job step, and only if no process manager has set its own variable.
fn rank_of(environment: &BTreeMap<String, String>) -> Option<u32> {
    let number = |name: &str| environment.get(name)?.parse().ok();
    let by_slurm = || {
        environment
            .contains_key("SLURM_STEP_ID")
            .then(|| number("SLURM_PROCID"))
            .flatten()
    };
    RANK_VARIABLES
        .iter()
        .find_map(|name| number(name))
        .or_else(by_slurm)
}

/// Returns the living ranks of a run on this node, in rank order. A rank that has started further processes is listed once, by its topmost process.
pub(super) fn ranks(marker: &str) -> Vec<RankProcess> {
    let mark = format!("{}={marker}", proc::MARK);
    let parents = proc::parents();
    let found: BTreeMap<u32, (u32, ProcessId)> = proc::marked(&mark)
        .into_iter()
        .filter(|p| Role::of_program(&proc::program(p.pid)) == Role::Rank)
        .filter_map(|p| Some((p.pid, (rank_of(&proc::environment(p.pid))?, p))))
        .collect();
    let mut ranks: Vec<RankProcess> = found
        .values()
        .filter(|(rank, p)| {
            let parent = parents.get(&p.pid).and_then(|parent| found.get(parent));
            parent.is_none_or(|(of_parent, _)| of_parent != rank)
        })
        .map(|(rank, p)| RankProcess {
            rank: *rank,
            pid: p.pid,
            program: proc::program(p.pid),
        })
        .collect();
    ranks.sort_by_key(|r| (r.rank, r.pid));
    ranks
}

/// Sends a signal to the living ranks of a run on this node. Returns the ranks that received the signal.
///
/// # Errors
/// The signal number does not exist.
pub(super) fn signal(marker: &str, number: i32) -> Result<Vec<RankProcess>, SentinelError> {
    let signal = Signal::try_from(number).map_err(|_| SentinelError::Signal(number))?;
    let mut ranks = ranks(marker);
    // a rank that has just ended needs no signal
    ranks.retain(|rank| {
        i32::try_from(rank.pid).is_ok_and(|pid| kill(Pid::from_raw(pid), signal).is_ok())
    });
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn each_process_manager_is_understood() {
        assert_eq!(
            rank_of(&environment(&[
                ("PMI_RANK", "3"),
                ("SLURM_PROCID", "0"),
                ("SLURM_STEP_ID", "0")
            ])),
            Some(3)
        );
        assert_eq!(
            rank_of(&environment(&[
                ("PMIX_RANK", "2"),
                ("OMPI_COMM_WORLD_RANK", "2")
            ])),
            Some(2)
        );
        assert_eq!(
            rank_of(&environment(&[("OMPI_COMM_WORLD_RANK", "7")])),
            Some(7)
        );
        assert_eq!(
            rank_of(&environment(&[
                ("SLURM_PROCID", "5"),
                ("SLURM_STEP_ID", "1")
            ])),
            Some(5)
        );
        // the batch script itself
        assert_eq!(rank_of(&environment(&[("SLURM_PROCID", "0")])), None);
        assert_eq!(rank_of(&environment(&[("PMI_RANK", "x")])), None);
        assert_eq!(rank_of(&environment(&[])), None);
    }
}
