//! Checks whether every rank is on the node where the mapping puts it, and whether its threads have separate cores. Each rank reports its node and
//! its cores, because launchers may ignore their options.

use crate::{
    crew,
    run::{RANKS, RunContext, RunFailure, SOON, same_host},
    transport::Transport,
};
use cvc_core::campaign::StorageKind;
use cvc_core::mapping::Mapping;
use cvc_core::outcome::Cause;
use cvc_core::units::counted;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

/// Delay between checks until all ranks have reported.
const TICK: Duration = Duration::from_millis(250);
/// Maximum number of ranks named in a message.
const MAX_NAMED: usize = 4;

/// Time limit for ranks' reports after the run's end: shared storage may show files of other nodes late.
const LATE: Duration = Duration::from_secs(30);

/// Host names reported by each rank.
type Seen = BTreeMap<u32, BTreeSet<String>>;

/// Cores that each rank may use, by the host name that the rank reported and by the rank's number.
type Allowed = BTreeMap<String, BTreeMap<u32, BTreeSet<u32>>>;

/// Ranks that are not where the mapping puts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misplacement {
    mapping: Mapping,
    wrong: Vec<WrongRank>,
}

/// A rank that is missing or on a wrong node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WrongRank {
    /// The rank did not report its node.
    Missing { rank: u32 },
    /// The rank is not on its node, or several processes have its number.
    Elsewhere {
        rank: u32,
        hosts: BTreeSet<String>,
        node: String,
    },
    /// The mapping has no rank of this number.
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
            "the launcher did not follow {}: {}",
            self.mapping,
            wrong.join(", ")
        )
    }
}

impl Misplacement {
    /// Returns the ranks that are certainly misplaced, without ranks that have not reported yet; `None` if there are none.
    fn for_certain(mut self) -> Option<Self> {
        self.wrong
            .retain(|rank| !matches!(rank, WrongRank::Missing { .. }));
        (!self.wrong.is_empty()).then_some(self)
    }
}

/// Waits for ranks' reports until a rank is certainly misplaced, and returns the misplaced ranks. Never returns if all ranks are on their nodes.
pub(super) async fn watch(run: &RunContext) -> Misplacement {
    if run.used.transport == Transport::Local {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(TICK).await;
        // a lost node is detected by other code
        let Ok(seen) = seen(run).await else { continue };
        if let Some(wrong) = judge(&seen.0, run)
            .err()
            .and_then(Misplacement::for_certain)
        {
            return wrong;
        }
        if seen.0.len() as u32 >= run.point.processes() {
            return std::future::pending().await;
        }
    }
}

/// Checks the placement of a run that has ended. Returns the smallest number of cores that a rank may use, if ranks have threads.
pub(super) async fn check(run: &RunContext, bound: Option<u32>) -> Result<Option<u32>, RunFailure> {
    let is_local = run.used.transport == Transport::Local;
    if is_local && run.point.threads().is_none() {
        return Ok(None);
    }
    let begin = Instant::now();
    loop {
        let (seen, allowed) = seen(run)
            .await
            .map_err(|error| RunFailure::new(Cause::NodeLost, error.to_string()))?;
        // if no rank has reported, the failure has another cause
        if seen.is_empty() {
            return Ok(None);
        }
        let judged = if is_local { Ok(()) } else { judge(&seen, run) };
        let Err(wrong) = judged else {
            if let Some(problem) = bound.and_then(|threads| unbound(&allowed, threads)) {
                return Err(RunFailure::new(Cause::SettingIgnored, problem));
            }
            let counts = allowed
                .values()
                .flat_map(BTreeMap::values)
                .map(BTreeSet::len);
            return Ok(counts
                .min()
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX)));
        };
        // if reports are only missing, they may become visible a moment later on shared storage
        let only_missing = wrong.clone().for_certain().is_none();
        if !only_missing || run.used.storage != StorageKind::Shared || begin.elapsed() > LATE {
            return Err(RunFailure::new(Cause::Misplaced, wrong.to_string()));
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Returns why ranks are not bound to separate cores, one for each thread; `None` if they are.
fn unbound(allowed: &Allowed, threads: u32) -> Option<String> {
    for (host, ranks) in allowed {
        let mut owners: BTreeMap<u32, u32> = BTreeMap::new();
        for (rank, cores) in ranks {
            if cores.len() < threads as usize {
                return Some(format!(
                    "{} requested for each process, but rank {rank} may use {} of {host}",
                    counted(threads, "thread"),
                    counted(cores.len() as u64, "core")
                ));
            }
            for core in cores {
                if let Some(other) = owners.insert(*core, *rank) {
                    return Some(format!(
                        "each process should have separate cores for its {}, but ranks {other} and {rank} share core {core} of {host}",
                        counted(threads, "thread")
                    ));
                }
            }
        }
    }
    None
}

/// Parses a list of cores in the kernel's format: `0-5,12`.
fn core_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cores = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cores.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cores)
}

/// Returns the reports of ranks until now. Queries every node even if all share the files: a node sees at least its own ranks' reports.
async fn seen(run: &RunContext) -> Result<(Seen, Allowed), crew::CrewError> {
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
    let (mut seen, mut allowed) = (Seen::new(), Allowed::new());
    for (node, listing) in found {
        let listing = match listing {
            // with shared files the head node's answer is sufficient
            Err(crew::CrewError::Refused { .. })
                if used.storage == StorageKind::Shared && node != used.head.name =>
            {
                continue;
            }
            listing => listing?,
        };
        for entry in listing.entries {
            if let Some((rank, place)) = entry.name.split_once('.')
                && let Ok(rank) = rank.parse()
            {
                let (host, cores) = place.split_once(':').unwrap_or((place, ""));
                seen.entry(rank).or_default().insert(host.to_owned());
                if let Some(cores) = core_list(cores) {
                    allowed
                        .entry(host.to_owned())
                        .or_default()
                        .insert(rank, cores);
                }
            }
        }
    }
    Ok((seen, allowed))
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

/// Compares the reports with the mapping over these nodes, each given as name and own host name.
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
    fn threads_need_cores_that_no_other_rank_of_their_node_may_use() {
        let allowed = |ranks: &[(&str, &str)]| -> Allowed {
            let mut all = Allowed::new();
            for (rank, (host, cores)) in (0..).zip(ranks) {
                let cores = core_list(cores).expect("a list");
                all.entry((*host).to_owned())
                    .or_default()
                    .insert(rank, cores);
            }
            all
        };
        let good = allowed(&[("a", "0-1,8-9"), ("a", "2-3"), ("b", "0-1")]);
        assert_eq!(unbound(&good, 2), None);
        assert_eq!(
            unbound(&good, 3).expect("too few"),
            "3 threads requested for each process, but rank 1 may use 2 cores of a"
        );
        let shared = allowed(&[("a", "0-3"), ("a", "0-3")]);
        assert_eq!(
            unbound(&shared, 2).expect("shared"),
            "each process should have separate cores for its 2 threads, but ranks 0 and 1 share core 0 of a"
        );
        assert_eq!((core_list(""), core_list("0-")), (None, None));
    }

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
            "the launcher did not follow 1Nx2P+1Nx1P: rank 1 is on b instead of a"
        );
        assert_eq!(wrong.clone().for_certain(), Some(wrong));
        let late = judged(&seen(&["a", "a"])).expect_err("too few");
        assert!(late.to_string().contains("rank 2 did not start"), "{late}");
        assert_eq!(late.for_certain(), None, "the last one may still come");
        let many = judged(&seen(&["a", "a", "b", "b"]))
            .expect_err("too many")
            .for_certain()
            .expect("in any order");
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
