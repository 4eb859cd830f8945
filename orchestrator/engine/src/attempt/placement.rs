//! Checks whether every rank is where the mapping puts it. Each rank reports its node; launchers are not trusted.

use crate::{
    crew,
    run::{RANKS, RunContext, RunFailure, SOON, same_host},
    transport::Transport,
};
use cvc_core::campaign::StorageKind;
use cvc_core::mapping::Mapping;
use cvc_core::outcome::Cause;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

/// Delay between checks until all ranks have reported.
const TICK: Duration = Duration::from_millis(250);
/// Maximum number of ranks named in a message.
const MAX_NAMED: usize = 4;

/// Time limit for ranks' reports after the run: nodes may see late what others wrote.
const LATE: Duration = Duration::from_secs(5);

/// Ranks and the names of the hosts that they are on.
type Seen = BTreeMap<u32, BTreeSet<String>>;

/// Where ranks are that are not where the mapping puts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misplacement {
    mapping: Mapping,
    wrong: Vec<WrongRank>,
}

/// A rank that is not where the mapping puts it, or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WrongRank {
    /// It did not say where it is.
    Missing { rank: u32 },
    /// It is not on its node, or there is more than one of it.
    Elsewhere {
        rank: u32,
        hosts: BTreeSet<String>,
        node: String,
    },
    /// The mapping has no such rank.
    TooMany { rank: u32, hosts: BTreeSet<String> },
}

impl fmt::Display for WrongRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list_hosts = |hosts: &BTreeSet<String>| {
            hosts
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" and ")
        };
        match self {
            Self::Missing { rank } => write!(f, "rank {rank} did not start"),
            Self::Elsewhere { rank, hosts, node } => write!(
                f,
                "rank {rank} is on {} instead of {node}",
                list_hosts(hosts)
            ),
            Self::TooMany { rank, hosts } => {
                write!(f, "rank {rank} on {} should not exist", list_hosts(hosts))
            }
        }
    }
}

impl fmt::Display for Misplacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wrong: Vec<String> = self
            .wrong
            .iter()
            .take(MAX_NAMED)
            .map(ToString::to_string)
            .collect();
        let more = self.wrong.len() - wrong.len();
        if more > 0 {
            wrong.push(format!("{more} more"));
        }
        write!(
            f,
            "the launcher did not keep to {}: {}",
            self.mapping,
            wrong.join(", ")
        )
    }
}

impl Misplacement {
    /// What is wrong even if ranks may still come that have not said where they are.
    fn for_certain(mut self) -> Option<Self> {
        self.wrong
            .retain(|rank| !matches!(rank, WrongRank::Missing { .. }));
        (!self.wrong.is_empty()).then_some(self)
    }
}

/// Waits until all ranks have reported, and returns what is wrong; never returns if nothing is.
pub(super) async fn watch(run: &RunContext) -> Misplacement {
    if run.used.transport == Transport::Local {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(TICK).await;
        // a node that does not answer is missed by those who wait for that
        let Ok(seen) = seen(run).await else { continue };
        if let Some(wrong) = judge(&seen, run).err().and_then(Misplacement::for_certain) {
            return wrong;
        }
        if seen.len() as u32 >= run.point.processes() {
            return std::future::pending().await;
        }
    }
}

/// The problem of the placement of a run that has ended, if any.
pub(super) async fn check(run: &RunContext) -> Result<(), RunFailure> {
    if run.used.transport == Transport::Local {
        return Ok(());
    }
    let begin = Instant::now();
    loop {
        let seen = seen(run)
            .await
            .map_err(|error| RunFailure::new(Cause::NodeLost, error.to_string()))?;
        // a run of which no rank began has another cause
        if seen.is_empty() {
            return Ok(());
        }
        let Err(wrong) = judge(&seen, run) else {
            return Ok(());
        };
        // a rank that is only missing may be seen a moment later, where nodes look at each other's files
        let only_missing = wrong.clone().for_certain().is_none();
        if !only_missing || run.used.storage != StorageKind::Shared || begin.elapsed() > LATE {
            return Err(RunFailure::new(Cause::Misplaced, wrong.to_string()));
        }
        tokio::time::sleep(TICK).await;
    }
}

/// The reports of ranks so far. Asks every node even if all see the same files: each sees at least what was written on it.
async fn seen(run: &RunContext) -> Result<Seen, crew::CrewError> {
    let used = &run.used;
    let found = used
        .crew
        .listing(
            &used.everywhere(),
            run.work.join(RANKS).as_std_path(),
            &[],
            SOON,
        )
        .await;
    let mut seen = Seen::new();
    for (node, listing) in found {
        let listing = match listing {
            // the head's view is enough there
            Err(crew::CrewError::Refused { .. })
                if used.storage == StorageKind::Shared && node != used.head.name =>
            {
                continue;
            }
            listing => listing?,
        };
        for entry in listing.entries {
            if let Some((rank, host)) = entry.name.split_once('.')
                && let Ok(rank) = rank.parse()
            {
                seen.entry(rank).or_default().insert(host.to_owned());
            }
        }
    }
    Ok(seen)
}

fn judge(seen: &Seen, run: &RunContext) -> Result<(), Misplacement> {
    let names: Vec<(&str, &str)> = run
        .used
        .ranks
        .iter()
        .map(|n| (n.name.as_str(), n.hostname.as_str()))
        .collect();
    placed(&run.point.mapping, &names, seen)
}

/// Compares the reports with the mapping over these nodes (given by name and own host name).
fn placed(mapping: &Mapping, nodes: &[(&str, &str)], seen: &Seen) -> Result<(), Misplacement> {
    let mut wrong = Vec::new();
    let mut rank = 0;
    for ((name, hostname), load) in nodes.iter().zip(mapping.node_loads()) {
        for _ in 0..load {
            match seen.get(&rank) {
                None => wrong.push(WrongRank::Missing { rank }),
                Some(hosts)
                    if hosts.len() == 1 && hosts.iter().all(|host| same_host(host, hostname)) => {}
                Some(hosts) => wrong.push(WrongRank::Elsewhere {
                    rank,
                    hosts: hosts.clone(),
                    node: (*name).to_owned(),
                }),
            }
            rank += 1;
        }
    }
    wrong.extend(seen.range(rank..).map(|(rank, hosts)| WrongRank::TooMany {
        rank: *rank,
        hosts: hosts.clone(),
    }));
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Misplacement {
            mapping: mapping.clone(),
            wrong,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fill_the_nodes_in_their_order_and_nothing_else_is_accepted() {
        let mapping: Mapping = "1Nx2P+1Nx1P".parse().expect("a mapping");
        let nodes = [("a", "a.cluster"), ("b", "b.cluster")];
        let seen = |hosts: &[&str]| -> Seen {
            (0..)
                .zip(hosts.iter().map(|h| BTreeSet::from([(*h).to_owned()])))
                .collect()
        };
        let judged = |seen: &Seen| placed(&mapping, &nodes, seen);
        assert_eq!(judged(&seen(&["a.cluster", "a", "b"])), Ok(()));
        let wrong = judged(&seen(&["a", "b", "b"])).expect_err("rank 1");
        assert_eq!(
            wrong.to_string(),
            "the launcher did not keep to 1Nx2P+1Nx1P: rank 1 is on b instead of a"
        );
        assert_eq!(wrong.clone().for_certain(), Some(wrong));
        let late = judged(&seen(&["a", "a"])).expect_err("too few");
        assert!(late.to_string().contains("rank 2 did not start"), "{late}");
        assert_eq!(late.for_certain(), None, "the last one may still come");
        let many = judged(&seen(&["a", "a", "b", "b"]))
            .expect_err("too many")
            .for_certain()
            .expect("whatever comes");
        assert!(
            many.to_string().ends_with("rank 3 on b should not exist"),
            "{many}"
        );
        let mut twice = seen(&["a", "a", "b"]);
        twice.entry(0).or_default().insert("b".into());
        assert!(judged(&twice).is_err(), "a rank that started twice");
        let none = judged(&Seen::new()).expect_err("none");
        assert!(
            none.to_string()
                .ends_with("rank 0 did not start, rank 1 did not start, rank 2 did not start"),
            "{none}"
        );
    }
}
