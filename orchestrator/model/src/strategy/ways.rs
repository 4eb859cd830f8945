//! The strategies for taking checkpoints, and the cost of each for given volumes and bandwidths.

use super::{
    CheckpointCost, Failures, LatePolicy, Level, best_interval, first_order, kept_interval, waste,
};
use crate::fit::FitError;

/// A strategy: how the program waits for its checkpoint, and where the checkpoint is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The program waits until the whole checkpoint is on shared storage.
    Synchronous,
    /// The program waits for a copy in memory. A thread writes the copy to shared storage while the program continues.
    Thread,
    /// As with a thread, but groups of nodes write their copies in turn.
    Staggered,
    /// The program alternates between two grids: it computes on one while a thread writes the other.
    Swap,
    /// The program waits for a copy in memory. Non-blocking MPI-IO writes the copy to shared storage while the program continues.
    NonBlocking,
    /// The checkpoint is stored on the node; at longer intervals also on shared storage.
    Local,
    /// The checkpoint is stored on the node and on a partner node; at longer intervals also on shared storage.
    Partner,
    /// The checkpoint is stored on the node, with parity over a group of nodes; at longer intervals also on shared storage.
    Parity,
}

impl Way {
    /// All strategies.
    pub const ALL: [Self; 8] = [
        Self::Synchronous,
        Self::Thread,
        Self::Staggered,
        Self::Swap,
        Self::NonBlocking,
        Self::Local,
        Self::Partner,
        Self::Parity,
    ];

    /// Returns the name used in options, tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Synchronous => "sync",
            Self::Thread => "thread",
            Self::Staggered => "staggered",
            Self::Swap => "swap",
            Self::NonBlocking => "iwrite",
            Self::Local => "local",
            Self::Partner => "partner",
            Self::Parity => "xor",
        }
    }

    /// Returns whether the strategy stores checkpoints on nodes. These do not survive all failures, so further checkpoints on shared storage are
    /// needed.
    pub fn is_on_nodes(self) -> bool {
        matches!(self, Self::Local | Self::Partner | Self::Parity)
    }

    /// Returns whether the cost must be measured because it does not follow from bandwidths.
    pub fn is_measured_only(self) -> bool {
        matches!(self, Self::Swap | Self::NonBlocking)
    }
}

/// Machines on which checkpoints are taken. Sizes are in MiB, bandwidths in MiB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machines {
    /// Number of nodes.
    pub nodes: f64,
    /// Size of a checkpoint on each node.
    pub node_mib: f64,
    /// Bandwidth of shared storage, for all nodes together.
    pub shared_mib_s: Option<f64>,
    /// Part of the nodes that write at once where groups of nodes write in turn; above 0, at most 1.
    pub at_once: Option<f64>,
    /// Bandwidth of shared storage while only this part writes; `None` if it is that of all nodes.
    pub shared_at_once_mib_s: Option<f64>,
    /// Bandwidth of a node's storage.
    pub local_mib_s: Option<f64>,
    /// Bandwidth from one node to another.
    pub network_mib_s: Option<f64>,
    /// Bandwidth of a node's memory.
    pub memory_mib_s: Option<f64>,
    /// Bytes of memory traffic for each byte that is written while the program continues.
    pub traffic: f64,
    /// Number of nodes in a parity group.
    pub group: u32,
}

/// Which failures checkpoints on nodes survive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// Part of the failures after which all nodes still have their checkpoints: failures of processes.
    pub of_processes: f64,
    /// Part of the failures that affect at most one node, including failures of processes.
    pub of_a_node: f64,
}

/// The reason why the cost of a strategy is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCost {
    /// The bandwidth of shared storage is missing.
    Shared,
    /// The part of the nodes that write at once is missing.
    AtOnce,
    /// The bandwidth of a node's storage is missing.
    Local,
    /// The bandwidth between nodes is missing.
    Network,
    /// The bandwidth of memory is missing.
    Memory,
    /// A parity group has fewer than two nodes, or more nodes than there are.
    Group,
    /// Parity groups of this size leave one node alone.
    AloneInGroup,
    /// A partner is impossible with one node.
    OneNode,
    /// The cost must be measured.
    Measured,
}

/// Cost of a checkpoint with a strategy, and its space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayCost {
    /// Cost of a checkpoint; for strategies on nodes, without checkpoints on shared storage.
    pub cost: CheckpointCost,
    /// Memory that a node needs in addition to the program's, MiB.
    pub memory_mib: f64,
    /// Space of a checkpoint on each node, MiB.
    pub on_node_mib: f64,
}

/// Returns the cost of one checkpoint with a strategy. S is the volume of a node, n the number of nodes, B the bandwidth of shared storage, D of a
/// node's storage, N between nodes, W of memory; m is the bytes of memory traffic for each byte written, and k the number of nodes in a group.
///
/// | way | overhead | latency |
/// | --- | --- | --- |
/// | sync | n·S/B | n·S/B |
/// | thread | m·S/W | m·S/W + n·S/B |
/// | staggered | m·S/W | m·S/W + n·S/min(B', w·N) |
/// | local | S/D | S/D |
/// | partner | S/D + S/min(N, D) | the same |
/// | xor | S/D + max(S/N, S/((k − 1)·D)) | the same |
///
/// With staggered, w nodes write at once, and shared storage has the bandwidth B' for them (B if unknown). N limits only this strategy, and only if it
/// is known. The latency has no coordination of all nodes: it is that of an uncoordinated checkpoint (thesis, equation 3.6), of which the storage time
/// depends on the part of the processes that store at the same time.
///
/// The costs of swap and iwrite do not follow from bandwidths: with swap the program waits for none of these transfers, and with iwrite the wait
/// depends on the MPI library.
///
/// A partner writes while it receives. The parity on a node has the size S/(k − 1), and each node sends its volume once.
///
/// Source: sync and thread as [`crate::asynchronous`]; levels as in A. Moody and others, Design, modeling, and evaluation of a scalable multi-level
/// checkpointing system, 2010.
///
/// # Errors
/// The fact that is missing for the cost.
pub fn way_cost(way: Way, of: &Machines) -> Result<WayCost, UnknownCost> {
    let s = of.node_mib;
    let shared_s = || Ok(of.nodes * s / of.shared_mib_s.ok_or(UnknownCost::Shared)?);
    let local = || of.local_mib_s.ok_or(UnknownCost::Local);
    let network = || of.network_mib_s.ok_or(UnknownCost::Network);
    let on_node = |seconds: f64, on_node_mib: f64| WayCost {
        cost: CheckpointCost::synchronous(seconds),
        memory_mib: 0.0,
        on_node_mib,
    };
    let behind = |drain_s: f64| {
        let overhead_s = of.traffic * s / of.memory_mib_s.ok_or(UnknownCost::Memory)?;
        Ok(WayCost {
            cost: CheckpointCost {
                overhead_s,
                latency_s: overhead_s + drain_s,
            },
            memory_mib: s,
            on_node_mib: 0.0,
        })
    };
    Ok(match way {
        Way::Synchronous => on_node(shared_s()?, 0.0),
        Way::Thread => behind(shared_s()?)?,
        Way::Staggered => behind(in_turn_s(of)?)?,
        Way::Swap | Way::NonBlocking => return Err(UnknownCost::Measured),
        Way::Local => on_node(s / local()?, s),
        Way::Partner if of.nodes < 2.0 => return Err(UnknownCost::OneNode),
        Way::Partner => {
            let (local, network) = (local()?, network()?);
            on_node(s / local + s / network.min(local), 2.0 * s)
        }
        Way::Parity => {
            let k = f64::from(of.group);
            if of.group < 2 || k > of.nodes {
                return Err(UnknownCost::Group);
            }
            if of.nodes % k == 1.0 {
                return Err(UnknownCost::AloneInGroup);
            }
            let (local, network) = (local()?, network()?);
            let parity = s / (k - 1.0);
            on_node(s / local + (s / network).max(parity / local), s + parity)
        }
    })
}

/// Returns the seconds for which groups of nodes write in turn.
fn in_turn_s(of: &Machines) -> Result<f64, UnknownCost> {
    let at_once = (of.at_once.ok_or(UnknownCost::AtOnce)? * of.nodes).round();
    let at_once = at_once.clamp(1.0, of.nodes);
    let shared = of.shared_at_once_mib_s.or(of.shared_mib_s);
    let shared = shared.ok_or(UnknownCost::Shared)?;
    let links = at_once * of.network_mib_s.unwrap_or(f64::INFINITY);
    Ok(of.nodes * of.node_mib / shared.min(links))
}

/// Waste of a strategy: the time of checkpoints, lost work and restarts.
#[derive(Clone, Debug, PartialEq)]
pub struct WayWaste {
    /// Additional time relative to the program's time.
    pub waste: f64,
    /// Computing time between two checkpoints, seconds; for a strategy on nodes, between two checkpoints on nodes.
    pub interval_s: f64,
    /// For a strategy on nodes: computing time between two checkpoints on shared storage, seconds.
    pub shared_interval_s: Option<f64>,
    /// Whether the interval is longer than the optimum because the previous checkpoint must be complete first.
    pub is_bound_by_latency: bool,
}

impl Way {
    /// Returns the part of the failures after which the strategy's checkpoints still exist.
    fn survived(self, reach: Reach) -> f64 {
        match self {
            Self::Synchronous | Self::Thread | Self::Staggered | Self::Swap | Self::NonBlocking => {
                1.0
            }
            Self::Local => reach.of_processes,
            Self::Partner | Self::Parity => reach.of_a_node,
        }
    }

    /// Returns the waste of the strategy at its best interval. A strategy on nodes has two levels of checkpoints: `cost` applies to those on nodes,
    /// for failures that they survive, and `to_shared` to those on shared storage, for other failures. If checkpoints on nodes survive all
    /// failures, there is only one level. The result is exact for one level and random failures, and a first-order approximation for two levels.
    ///
    /// # Errors
    /// Costs or times are not positive; [`FitError::OutOfDomain`] if checkpoints on nodes survive no failure.
    pub fn waste(
        self,
        cost: CheckpointCost,
        to_shared: CheckpointCost,
        reach: Reach,
        failures: Failures,
    ) -> Result<WayWaste, FitError> {
        let survived = self.survived(reach);
        if survived <= 0.0 {
            return Err(FitError::OutOfDomain(
                "checkpoints on nodes survive none of the failures; store them on shared storage"
                    .to_owned(),
            ));
        }
        if survived >= 1.0 {
            let best = best_interval(cost, failures)?;
            return Ok(WayWaste {
                waste: best.waste,
                interval_s: best.interval_s,
                shared_interval_s: None,
                is_bound_by_latency: best.is_bound_by_latency,
            });
        }
        let level = |cost, share: f64| Level {
            cost,
            rate_per_s: share / failures.mtbf_s,
        };
        let (waste, intervals_s) =
            first_order(&[level(cost, survived), level(to_shared, 1.0 - survived)])?;
        let shortest = to_shared.shortest_interval_s();
        Ok(WayWaste {
            // restarts do not depend on intervals: there is one for each failure
            waste: waste + failures.restart_s / failures.mtbf_s,
            interval_s: intervals_s[0].min(intervals_s[1]),
            shared_interval_s: Some(intervals_s[1].max(shortest)),
            is_bound_by_latency: intervals_s[1] < shortest,
        })
    }

    /// Returns the waste, as [`Way::waste`], with `tau` seconds of computing between two checkpoints. For a strategy on nodes, checkpoints on
    /// shared storage keep their best interval, but are not more frequent than checkpoints on nodes.
    ///
    /// # Errors
    /// See [`Way::waste`].
    pub fn waste_every(
        self,
        tau: f64,
        policy: LatePolicy,
        cost: CheckpointCost,
        to_shared: CheckpointCost,
        reach: Reach,
        failures: Failures,
    ) -> Result<WayWaste, FitError> {
        let kept = kept_interval(cost, tau, policy)?;
        let is_bound_by_latency = tau < cost.shortest_interval_s();
        let best = self.waste(cost, to_shared, reach, failures)?;
        let Some(shared_s) = best.shared_interval_s else {
            return Ok(WayWaste {
                waste: waste(kept.cost, failures, kept.interval_s)?,
                interval_s: kept.interval_s,
                shared_interval_s: None,
                is_bound_by_latency,
            });
        };
        let survived = self.survived(reach);
        let shared_s = shared_s.max(kept.interval_s);
        // to first order, each level costs the time of its checkpoints, and half an interval for each failure
        let level = |cost_s: f64, interval_s: f64, share: f64| {
            cost_s / interval_s + share * interval_s / (2.0 * failures.mtbf_s)
        };
        Ok(WayWaste {
            waste: level(kept.cost.overhead_s, kept.interval_s, survived)
                + level(to_shared.overhead_s, shared_s, 1.0 - survived)
                + failures.restart_s / failures.mtbf_s,
            interval_s: kept.interval_s,
            shared_interval_s: Some(shared_s),
            is_bound_by_latency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_is_asked_for_wastes_no_less_than_the_best_one() {
        let failures = Failures {
            mtbf_s: 43_200.0,
            restart_s: 60.0,
        };
        let reach = Reach {
            of_processes: 0.3,
            of_a_node: 0.85,
        };
        let (cost, shared) = (
            CheckpointCost::synchronous(13.1),
            CheckpointCost::synchronous(170.0),
        );
        for way in [Way::Synchronous, Way::Partner] {
            let best = way.waste(cost, shared, reach, failures).expect("a waste");
            let at = |by: f64| {
                let tau = best.interval_s * by;
                let of = way.waste_every(tau, LatePolicy::Wait, cost, shared, reach, failures);
                of.expect("a waste").waste
            };
            assert!((at(1.0) / best.waste - 1.0).abs() < 0.01, "{way:?}");
            assert!(at(0.5) > at(1.0) && at(2.0) > at(1.0), "{way:?}");
        }
    }

    const MACHINES: Machines = Machines {
        nodes: 128.0,
        node_mib: 6400.0,
        shared_mib_s: Some(3072.0),
        at_once: None,
        shared_at_once_mib_s: None,
        local_mib_s: Some(1000.0),
        network_mib_s: Some(3200.0),
        memory_mib_s: Some(51_200.0),
        traffic: 7.0,
        group: 8,
    };

    #[test]
    fn costs_are_those_of_the_table() {
        let cost = |way| way_cost(way, &MACHINES).expect("known");
        assert!((cost(Way::Synchronous).cost.overhead_s - 266.7).abs() < 0.05);
        let thread = cost(Way::Thread);
        assert!((thread.cost.overhead_s - 0.875).abs() < 1e-9);
        assert!((thread.cost.latency_s - 267.54).abs() < 0.01);
        assert_eq!(thread.memory_mib, 6400.0);
        assert!((cost(Way::Partner).cost.overhead_s - 12.8).abs() < 1e-9);
        assert!((cost(Way::Parity).cost.overhead_s - 8.4).abs() < 1e-9);
        assert!((cost(Way::Parity).on_node_mib - 6400.0 * 8.0 / 7.0).abs() < 1e-6);
        for (way, machines, unknown) in [
            (
                Way::Thread,
                Machines {
                    memory_mib_s: None,
                    ..MACHINES
                },
                UnknownCost::Memory,
            ),
            (
                Way::Partner,
                Machines {
                    nodes: 1.0,
                    ..MACHINES
                },
                UnknownCost::OneNode,
            ),
            (
                Way::Parity,
                Machines {
                    group: 129,
                    ..MACHINES
                },
                UnknownCost::Group,
            ),
            (
                Way::Parity,
                Machines {
                    nodes: 129.0,
                    ..MACHINES
                },
                UnknownCost::AloneInGroup,
            ),
            (
                Way::Local,
                Machines {
                    local_mib_s: None,
                    ..MACHINES
                },
                UnknownCost::Local,
            ),
        ] {
            assert_eq!(way_cost(way, &machines), Err(unknown), "{way:?}");
        }
    }

    #[test]
    fn nodes_in_turn_drain_at_the_bandwidth_of_those_that_write_at_once() {
        let drain_s = |at_once, shared_at_once_mib_s, network_mib_s| {
            let machines = Machines {
                at_once,
                shared_at_once_mib_s,
                network_mib_s,
                ..MACHINES
            };
            way_cost(Way::Staggered, &machines).map(|of| {
                assert_eq!(of.memory_mib, 6400.0);
                of.cost.latency_s - of.cost.overhead_s
            })
        };
        let all = way_cost(Way::Thread, &MACHINES).expect("known").cost;
        let all_s = all.latency_s - all.overhead_s;
        let close = |a: Result<f64, UnknownCost>, b: f64| (a.expect("known") - b).abs() < 1e-9;
        // with one bandwidth, turns cost nothing: fewer nodes write for a shorter time each
        assert!(close(drain_s(Some(0.25), None, None), all_s));
        // storage that is twice as fast for a quarter of the nodes
        assert!(close(drain_s(Some(0.25), Some(6144.0), None), all_s / 2.0));
        // the links of two nodes deliver less than shared storage takes
        let links_s = 128.0 * 6400.0 / (2.0 * 100.0);
        assert!(close(drain_s(Some(0.015), None, Some(100.0)), links_s));
        // at least one node writes
        assert!(close(drain_s(Some(1e-6), None, Some(100.0)), 2.0 * links_s));
        assert_eq!(drain_s(None, None, None), Err(UnknownCost::AtOnce));
    }

    #[test]
    fn partner_copies_survive_a_node_and_shared_storage_the_rest() {
        let failures = Failures {
            mtbf_s: 43_200.0,
            restart_s: 0.0,
        };
        let reach = Reach {
            of_processes: 0.3,
            of_a_node: 0.85,
        };
        let waste = |way: Way, to_shared| {
            way.waste(
                CheckpointCost::synchronous(13.1),
                to_shared,
                reach,
                failures,
            )
        };
        let flushed = waste(Way::Partner, CheckpointCost::synchronous(170.0)).expect("a waste");
        assert_eq!((flushed.waste * 1e4).round(), 571.0);
        let behind = CheckpointCost {
            overhead_s: 17.0,
            latency_s: 170.0,
        };
        let behind = waste(Way::Partner, behind).expect("a waste");
        assert_eq!((behind.waste * 1e4).round(), 336.0);
        assert!(behind.shared_interval_s > Some(behind.interval_s));
        // checkpoints on one node alone survive fewer failures
        let local = waste(Way::Local, CheckpointCost::synchronous(170.0)).expect("a waste");
        assert!(local.waste > flushed.waste);
        let none = Reach {
            of_processes: 0.0,
            ..reach
        };
        let cost = CheckpointCost::synchronous(13.1);
        assert!(Way::Local.waste(cost, cost, none, failures).is_err());
    }
}
