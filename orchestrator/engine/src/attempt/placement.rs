//! Whether every rank is where the mapping puts it. Each rank says on which node it is; a launcher's word is not asked for.

use super::{evidence::same_host, nodes::SOON, prepare::Prepared, run_dirs::RANKS};
use crate::{crew, transport::Transport};
use cvc_core::{campaign::StorageKind, mapping::Mapping, outcome::Cause};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Delay between looks while ranks have not all said where they are.
const TICK: Duration = Duration::from_millis(250);
/// Maximum number of ranks named in a message.
const MOST_TOLD: usize = 4;

/// How long to look for ranks after the run, where nodes may see late what others wrote.
const LATE: Duration = Duration::from_secs(5);

/// Ranks and the names of the hosts that they are on.
type Seen = BTreeMap<u32, BTreeSet<String>>;

/// Waits until all ranks have said where they are, and ends with what is wrong; never ends if nothing is.
pub(super) async fn watch(prepared: &Prepared) -> String {
    if prepared.used.transport == Transport::Local {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(TICK).await;
        // a node that does not answer is missed by those who wait for that
        let Ok(seen) = seen(prepared).await else { continue };
        if let Err(wrong) = judge(&seen, prepared, true) {
            return wrong;
        }
        if seen.len() as u32 >= prepared.point.processes() {
            return std::future::pending().await;
        }
    }
}

/// What is wrong with the placement of a run that has ended.
pub(super) async fn check(prepared: &Prepared) -> Result<(), (Cause, String)> {
    if prepared.used.transport == Transport::Local {
        return Ok(());
    }
    let begin = Instant::now();
    loop {
        let seen = match seen(prepared).await {
            Ok(seen) => seen,
            Err(error) => return Err((Cause::NodeLost, error.to_string())),
        };
        // a run of which no rank began has another cause
        if seen.is_empty() {
            return Ok(());
        }
        let judged = judge(&seen, prepared, false).map_err(|wrong| (Cause::Misplaced, wrong));
        // a rank that is only missing may be seen a moment later, where nodes look at each other's files
        let only_missing = judged.is_err() && judge(&seen, prepared, true).is_ok();
        if !only_missing || prepared.used.storage != StorageKind::Shared || begin.elapsed() > LATE {
            return judged;
        }
        tokio::time::sleep(TICK).await;
    }
}

/// What ranks have said so far. Every node is asked, also where all see the same: each sees at least what was written on it.
async fn seen(prepared: &Prepared) -> Result<Seen, crew::CrewError> {
    let used = &prepared.used;
    let found = used.crew.listing(&used.everywhere(), prepared.work.join(RANKS).as_std_path(), &[], SOON).await;
    let mut seen = Seen::new();
    for (node, listing) in found {
        let listing = match listing {
            // the head's view is enough there
            Err(crew::CrewError::Refused { .. }) if used.storage == StorageKind::Shared && node != used.head.name => continue,
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

fn told(hosts: &BTreeSet<String>) -> String {
    hosts.iter().map(String::as_str).collect::<Vec<_>>().join(" and ")
}

fn judge(seen: &Seen, prepared: &Prepared, still_starting: bool) -> Result<(), String> {
    let names: Vec<(&str, &str)> = prepared.used.ranks.iter().map(|n| (n.name.as_str(), n.hostname.as_str())).collect();
    placed(&prepared.point.mapping, &names, seen, still_starting)
}

/// Holds what ranks said against the mapping over these nodes (their names, and what they call themselves).
fn placed(mapping: &Mapping, nodes: &[(&str, &str)], seen: &Seen, still_starting: bool) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut rank = 0;
    for ((name, hostname), load) in nodes.iter().zip(mapping.node_loads()) {
        for _ in 0..load {
            match seen.get(&rank) {
                None if still_starting => {}
                None => wrong.push(format!("rank {rank} did not start")),
                Some(hosts) if hosts.len() == 1 && hosts.iter().all(|host| same_host(host, hostname)) => {}
                Some(hosts) => wrong.push(format!("rank {rank} is on {} instead of {name}", told(hosts))),
            }
            rank += 1;
        }
    }
    wrong.extend(seen.range(rank..).map(|(rank, hosts)| format!("rank {rank} on {} is one too many", told(hosts))));
    if wrong.is_empty() {
        return Ok(());
    }
    let more = wrong.len().saturating_sub(MOST_TOLD);
    wrong.truncate(MOST_TOLD);
    if more > 0 {
        wrong.push(format!("{more} more"));
    }
    Err(format!("the launcher did not keep to {mapping}: {}", wrong.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fill_the_nodes_in_their_order_and_nothing_else_is_accepted() {
        let mapping: Mapping = "1Nx2P+1Nx1P".parse().expect("a mapping");
        let nodes = [("a", "a.cluster"), ("b", "b.cluster")];
        let seen = |hosts: &[&str]| -> Seen { (0..).zip(hosts.iter().map(|h| BTreeSet::from([(*h).to_owned()]))).collect() };
        assert_eq!(placed(&mapping, &nodes, &seen(&["a.cluster", "a", "b"]), false), Ok(()));
        let wrong = placed(&mapping, &nodes, &seen(&["a", "b", "b"]), false).expect_err("rank 1");
        assert!(wrong.ends_with("rank 1 is on b instead of a"), "{wrong}");
        assert_eq!(placed(&mapping, &nodes, &seen(&["a", "a"]), true), Ok(()), "the last one may still come");
        assert!(placed(&mapping, &nodes, &seen(&["a", "a"]), false).expect_err("too few").contains("rank 2 did not start"));
        assert!(placed(&mapping, &nodes, &seen(&["a", "a", "b", "b"]), true).expect_err("too many").contains("one too many"));
        let mut twice = seen(&["a", "a", "b"]);
        twice.entry(0).or_default().insert("b".into());
        assert!(placed(&mapping, &nodes, &twice, false).is_err(), "a rank that started twice");
    }
}
