//! Finds the ranks of a run on this node.

use cvc_image::Role;
use cvc_os::proc::{self, ProcessId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A rank of a run, from its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankProcess {
    /// Its rank in the whole run.
    pub rank: u32,
    /// The process.
    pub pid: u32,
    /// Name of its program.
    pub program: String,
}

/// Variables in which process managers give a process its rank, most reliable first: Hydra and PMI2, PMIx, Open MPI.
const RANK_VARIABLES: [&str; 3] = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"];

/// The rank that a process was given. srun numbers everything that it starts, launchers' proxies and the batch script too, so that its own
/// variable counts only where no process manager has spoken, and inside a step.
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

/// The ranks of a run that are alive here, in rank order. A rank that has started processes of its own is listed once, by the topmost.
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
