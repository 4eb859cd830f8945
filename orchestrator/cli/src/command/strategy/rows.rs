//! The rows of `cvc strategy`: the cost of each strategy ("way") to take checkpoints.

use crate::{
    args::{KeptCheckpoints, KnownCost, StrategyArgs, WhenLateArg},
    command::bandwidth::Bandwidths,
    exit_status::ExitStatus,
    failure::Failure,
};
use camino::Utf8Path;
use cvc_core::units::{MIB, size};
use cvc_model::{
    FitError,
    schedule::{self, checkpoints_in},
    strategy::{
        CheckpointCost, Failures, LatePolicy, Machines, Reach, UnknownCost, Way, WayCost, WayWaste,
        way_cost,
    },
};
use cvc_probe::bandwidth::StorageBandwidth;
use serde::Serialize;

/// Waste above which the first-order model of two levels is inaccurate.
const MAX_FIRST_ORDER_WASTE: f64 = 0.2;
/// Waste above which a program does not progress.
const MAX_WASTE: f64 = 100.0;
/// Seconds per hour.
const HOUR_S: f64 = 3600.0;

/// Why a strategy is left out.
#[derive(Debug, thiserror::Error)]
pub enum LeftOutReason {
    /// An input is missing, or the strategy is impossible.
    #[error("{0}")]
    Input(&'static str),
    /// The copy of a checkpoint does not fit into memory.
    #[error(
        "its copy needs {} of memory on each node, and {} are {}",
        size(needed_mib * MIB),
        size(there_mib * MIB),
        if *is_limit { "allowed (--memory-limit)" } else { "there" }
    )]
    Copy {
        needed_mib: f64,
        there_mib: f64,
        is_limit: bool,
    },
    /// Nodes keep checkpoints in memory, and have less memory than that.
    #[error(
        "the measured storage is in memory: its checkpoints need {} on each node, which has {}",
        size(needed_mib * MIB),
        size(memory_mib * MIB)
    )]
    Memory { needed_mib: f64, memory_mib: f64 },
}

impl From<&'static str> for LeftOutReason {
    fn from(reason: &'static str) -> Self {
        Self::Input(reason)
    }
}

/// A strategy with its cost for the program.
#[derive(Clone, Debug, Serialize)]
pub struct ShownWay {
    pub way: &'static str,
    /// How checkpoints on nodes are copied to shared storage.
    pub flush: Option<&'static str>,
    pub overhead_s: f64,
    pub latency_s: f64,
    pub interval_s: f64,
    pub shared_interval_s: Option<f64>,
    /// Expected time divided by the time without checkpoints and failures, minus 1.
    pub waste: f64,
    /// Lower end of the waste's interval, if the cost has an interval.
    pub waste_low: Option<f64>,
    pub waste_high: Option<f64>,
    pub expected_s: f64,
    /// Work lost in a failure on average, seconds.
    pub lost_s: f64,
    /// Whether the program is expected to end before the deadline.
    pub in_time: bool,
    /// Number of checkpoints that the share of time in `--overhead` allows.
    pub affordable: Option<u64>,
    /// The checkpoints that the thesis's rule takes for that share; `None` also if it takes none.
    pub by_rule: Option<RuleSchedule>,
    pub memory_mib_per_node: Option<f64>,
    pub on_node_mib: Option<f64>,
    /// Space on a node while one checkpoint is written, including the checkpoints kept.
    pub peak_on_node_mib: Option<f64>,
    /// Space on shared storage while one checkpoint is written, including the checkpoints kept.
    pub peak_on_shared_mib: Option<f64>,
    pub usd: Option<f64>,
    pub spot: Option<Spot>,
    /// Remarks about the strategy.
    pub remarks: Vec<&'static str>,
}

/// Checkpoints by the thesis's rule for a share of time, which does not take failures into account.
#[derive(Clone, Debug, Serialize)]
pub struct RuleSchedule {
    pub count: u64,
    /// Time from one checkpoint to the next, including the program's wait for one.
    pub interval_s: f64,
    /// Waste at this interval with the failures; `None` if failures are too frequent for it.
    pub waste: Option<f64>,
}

/// Expected time and cost of a strategy on spot instances.
#[derive(Clone, Debug, Serialize)]
pub struct Spot {
    /// Whether the notice before a reclaim is long enough to complete a checkpoint.
    pub notice_suffices: bool,
    pub expected_s: f64,
    pub usd: Option<f64>,
}

impl ShownWay {
    /// Returns the remarks, and the space that a node needs, as lines.
    pub fn lines(&self) -> Vec<String> {
        let name = self.way;
        let remarks = self.remarks.iter();
        let mut lines: Vec<String> = remarks.map(|of| format!("{name}: {of}")).collect();
        let space = |mib: Option<f64>| mib.filter(|mib| *mib > 0.0).map(|mib| size(mib * MIB));
        lines.extend(
            space(self.memory_mib_per_node)
                .map(|size| format!("{name}: {size} of memory on each node for the copy")),
        );
        lines.extend(space(self.peak_on_node_mib).map(|size| {
            format!("{name}: {size} on the storage of each node while a checkpoint is written")
        }));
        lines
    }

    /// Returns the lower and upper bound of the waste; both are the waste itself if it has no interval.
    pub fn bounds(&self) -> (f64, f64) {
        (
            self.waste_low.unwrap_or(self.waste),
            self.waste_high.unwrap_or(self.waste),
        )
    }
}

/// Cost of a checkpoint by a strategy, and the space it occupies if that can be computed from sizes.
#[derive(Clone, Copy)]
struct KnownWayCost {
    cost: CheckpointCost,
    /// Half-width of the interval of the times, as a fraction of them.
    spread: f64,
    occupies: Option<WayCost>,
}

impl KnownWayCost {
    /// Returns the cost with its times multiplied by a factor.
    fn scaled(self, by: f64) -> CheckpointCost {
        CheckpointCost {
            overhead_s: self.cost.overhead_s * by,
            latency_s: self.cost.latency_s * by,
        }
    }
}

/// Memory traffic per byte written if it is neither given nor measured: the middle of the published range.
const PUBLISHED_TRAFFIC: f64 = 7.0;

/// How the memory traffic per byte written was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficSource {
    /// By `--traffic`.
    Given,
    /// By counters of the memory controllers.
    Counted,
    /// From the bandwidth that triads lost to a writer, which includes processor time and caches.
    Inferred,
    /// The middle of the published range.
    Published,
}

/// The measured storage of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LocalStorage {
    /// Not measured, or on a device of the node.
    Own,
    /// All nodes share it.
    Shared,
    /// In the node's memory of this size, if known.
    Memory(Option<f64>),
}

impl LocalStorage {
    fn of(measured: &StorageBandwidth, memory_mib: Option<f64>) -> Self {
        let file_system = measured.file_system.as_str();
        if measured.in_memory {
            Self::Memory(memory_mib)
        } else if NETWORK.iter().any(|name| file_system.contains(name)) {
            Self::Shared
        } else {
            Self::Own
        }
    }
}

/// Parts of the names of file systems that several nodes mount.
const NETWORK: [&str; 9] = [
    "nfs", "lustre", "gluster", "mfs", "beegfs", "gpfs", "ceph", "pvfs", "cifs",
];

impl From<cvc_probe::bandwidth::TrafficSource> for TrafficSource {
    fn from(of: cvc_probe::bandwidth::TrafficSource) -> Self {
        match of {
            cvc_probe::bandwidth::TrafficSource::Counted => Self::Counted,
            cvc_probe::bandwidth::TrafficSource::Inferred => Self::Inferred,
        }
    }
}

/// Bandwidths of a node, MiB/s, and bytes of memory traffic per byte written in the background.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    local_mib_s: Option<f64>,
    local: LocalStorage,
    /// Measured size of a node's memory.
    node_memory_mib: Option<f64>,
    network_mib_s: Option<f64>,
    pub memory_mib_s: Option<f64>,
    pub traffic: f64,
    pub traffic_source: TrafficSource,
}

impl Rates {
    /// Reads the rates from options, and otherwise from measurements.
    pub fn of(args: &StrategyArgs) -> Result<Self, Failure> {
        let measured = args.measured.as_deref().map(read_measured).transpose()?;
        let measured = measured.as_ref();
        let local = measured.and_then(|of| {
            let first = &of.storage.first()?.dir;
            let same = of.storage.iter().filter(|row| row.dir == *first);
            same.max_by_key(|row| row.writers)
        });
        let network = measured.and_then(|of| of.network.as_ref());
        let memory = measured.and_then(|of| of.memory.as_ref());
        let beside = measured.and_then(|of| of.memory_with_writer.as_ref());
        let beside = beside.filter(|of| of.traffic > 0.0);
        let (traffic, traffic_source) = match (args.traffic, beside) {
            (Some(traffic), _) => (traffic, TrafficSource::Given),
            (None, Some(of)) => (of.traffic, of.traffic_source.into()),
            (None, None) => (PUBLISHED_TRAFFIC, TrafficSource::Published),
        };
        let node_memory_mib = measured.and_then(|of| of.memory_mib);
        Ok(Self {
            local: match (args.local, local) {
                (None, Some(of)) => LocalStorage::of(of, node_memory_mib),
                (Some(_), _) | (None, None) => LocalStorage::Own,
            },
            node_memory_mib,
            local_mib_s: args.local.or(local.map(|of| of.write_mib_s)),
            network_mib_s: args.network.or(network.map(|of| of.mib_s)),
            memory_mib_s: args.memory.or(memory.map(|of| of.triad_mib_s)),
            traffic,
            traffic_source,
        })
    }
}

fn read_measured(path: &Utf8Path) -> Result<Bandwidths, Failure> {
    let failed = |why: String| Failure::Other {
        status: ExitStatus::Unreadable,
        message: format!("{path}: {why}"),
        hint: Some("write it on a node with `cvc bandwidth --storage DIR --json > FILE`".into()),
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let found: Bandwidths =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let rates = [
        found.memory.as_ref().map(|of| of.triad_mib_s),
        found.network.as_ref().map(|of| of.mib_s),
    ];
    let stored = found.storage.iter().map(|of| Some(of.write_mib_s));
    let mut rates = rates.into_iter().chain(stored).flatten().peekable();
    if rates.peek().is_none() {
        return Err(failed("it has no bandwidth".to_owned()));
    }
    match rates.find(|rate| !(*rate > 0.0 && rate.is_finite())) {
        Some(rate) => Err(failed(format!("{rate} is not a bandwidth"))),
        None => Ok(found),
    }
}

/// The rate of failures, and which checkpoints survive them.
#[derive(Clone, Copy)]
pub struct Risks {
    pub failures: Failures,
    pub reach: Reach,
}

/// Input of the models.
pub struct StrategyRequest<'a> {
    pub args: &'a StrategyArgs,
    /// Measured or given costs of strategies. If a strategy has several, the last one is used.
    pub costs: Vec<KnownCost>,
    pub rates: Rates,
    pub risks: Risks,
}

impl StrategyRequest<'_> {
    /// Returns whether options other than `--cost` can determine the cost of a strategy.
    pub fn can_judge(&self, way: Way) -> bool {
        !way.is_measured_only() && (way != Way::Staggered || self.args.at_once.is_some())
    }

    fn cost(&self, way: Way) -> Result<KnownWayCost, LeftOutReason> {
        let measured = self.costs.iter().rev().find(|of| of.way == way);
        let derived = self.args.stored.map(|stored_mib| {
            let machines = Machines {
                nodes: f64::from(self.args.nodes),
                node_mib: stored_mib / f64::from(self.args.nodes),
                shared_mib_s: self.args.shared,
                at_once: self.args.at_once,
                shared_at_once_mib_s: self.args.shared_at_once,
                local_mib_s: self.rates.local_mib_s,
                network_mib_s: self.rates.network_mib_s,
                memory_mib_s: self.rates.memory_mib_s,
                traffic: self.rates.traffic,
                group: self.args.group,
            };
            way_cost(way, &machines)
        });
        match (measured, derived) {
            (Some(of), derived) => Ok(KnownWayCost {
                cost: of.cost,
                spread: of.spread,
                occupies: derived.and_then(Result::ok),
            }),
            (None, Some(Ok(of))) => Ok(KnownWayCost {
                cost: of.cost,
                spread: 0.0,
                occupies: Some(of),
            }),
            (None, Some(Err(unknown))) => Err(reason(unknown).into()),
            (None, None) => Err("missing cost: --cost, or --stored and bandwidths".into()),
        }
    }

    /// Returns the rows of a strategy: one, or, for a strategy on nodes, one for each way to copy to shared storage.
    pub fn rows(&self, way: Way) -> Result<Vec<ShownWay>, LeftOutReason> {
        if way == Way::Local && self.args.of_processes.is_none() {
            return Err("missing share of survived failures: --of-processes".into());
        }
        if matches!(way, Way::Partner | Way::Parity) && self.args.of_a_node.is_none() {
            return Err("missing share of survived failures: --of-a-node".into());
        }
        let known = self.cost(way)?;
        let needed_mib = known.occupies.map_or(0.0, |of| of.memory_mib);
        let limits = [
            (self.args.memory_limit, true),
            (self.rates.node_memory_mib, false),
        ];
        for (there_mib, is_limit) in limits {
            if let Some(there_mib) = there_mib.filter(|there_mib| needed_mib > *there_mib) {
                return Err(LeftOutReason::Copy {
                    needed_mib,
                    there_mib,
                    is_limit,
                });
            }
        }
        if way.is_on_nodes() {
            self.has_own_storage(known)?;
        }
        if !way.is_on_nodes() {
            let row = self.row(way, known, None).map_err(|_| IMPOSSIBLE)?;
            return Ok(vec![row]);
        }
        let flushes = [(Way::Synchronous, "waits"), (Way::Thread, "behind")];
        let costs = flushes.map(|(by, word)| (self.cost(by), word));
        let rows = costs.iter().filter_map(|(cost, word)| {
            let cost = *cost.as_ref().ok()?;
            self.row(way, known, Some((cost, word))).ok()
        });
        let rows: Vec<ShownWay> = rows.collect();
        if rows.is_empty() {
            Err("missing rate of shared storage: --shared, or --cost sync=TIME".into())
        } else {
            Ok(rows)
        }
    }

    /// Checks that the measured storage can keep checkpoints on nodes.
    fn has_own_storage(&self, known: KnownWayCost) -> Result<(), LeftOutReason> {
        let peak = known
            .occupies
            .map(|of| of.on_node_mib * self.args.keep.peak());
        match (self.rates.local, peak) {
            (LocalStorage::Shared, _) => Err("the measured storage is shared, and not a node's own: measure another directory, or give its rate (--local)".into()),
            (LocalStorage::Memory(Some(memory_mib)), Some(needed_mib)) if needed_mib > memory_mib => {
                Err(LeftOutReason::Memory { needed_mib, memory_mib })
            }
            (LocalStorage::Memory(_) | LocalStorage::Own, _) => Ok(()),
        }
    }

    fn row(
        &self,
        way: Way,
        known: KnownWayCost,
        flush: Option<(KnownWayCost, &'static str)>,
    ) -> Result<ShownWay, FitError> {
        let (cost, to_shared) = (known.cost, flush.map_or(known, |(cost, _)| cost));
        let found = self.waste(way, cost, to_shared.cost, self.risks)?;
        if found.waste > MAX_WASTE {
            return Err(FitError::OutOfDomain(IMPOSSIBLE.to_owned()));
        }
        let at = |sign: f64| {
            let [own, shared] =
                [known, to_shared].map(|known| known.scaled(1.0 + sign * known.spread));
            self.waste(way, own, shared, self.risks)
                .map(|found| found.waste)
        };
        let is_uncertain = known.spread > 0.0 || to_shared.spread > 0.0;
        let (low, high) = match is_uncertain {
            true => (Some(at(-1.0)?), at(1.0).ok()),
            false => (None, None),
        };
        let work_s = self.args.work;
        let expected_s = work_s * (1.0 + found.waste);
        let in_time = self.args.deadline.is_none_or(|end_s| expected_s <= end_s);
        let spot = self
            .args
            .reclaims_per_hour
            .map(|rate| self.spot(way, (cost, to_shared.cost), found.waste, rate))
            .transpose()?;
        let on_node_mib = known.occupies.map(|of| of.on_node_mib);
        let share = self.args.overhead;
        let rule = share.map(|share| schedule::published(work_s, cost.overhead_s, share));
        let rule = rule.transpose()?;
        let uses_shared = !way.is_on_nodes() || found.shared_interval_s.is_some();
        Ok(ShownWay {
            way: way.word(),
            flush: flush.map(|(_, word)| word),
            overhead_s: cost.overhead_s,
            latency_s: cost.latency_s,
            interval_s: found.interval_s,
            shared_interval_s: found.shared_interval_s,
            waste: found.waste,
            waste_low: low,
            waste_high: high,
            expected_s,
            // work since the checkpoint (on average half an interval), and the time until a checkpoint is complete
            lost_s: found.interval_s / 2.0 + cost.latency_s,
            in_time,
            affordable: rule.map(|rule| rule.k),
            by_rule: rule.and_then(|rule| {
                let interval_s = rule.interval_s?;
                let tau = interval_s - cost.overhead_s;
                let found = self.waste_every(tau, way, cost, to_shared.cost, self.risks);
                Some(RuleSchedule {
                    count: rule.count,
                    interval_s,
                    waste: found.map(|found| found.waste).ok(),
                })
            }),
            memory_mib_per_node: known.occupies.map(|of| of.memory_mib),
            on_node_mib,
            peak_on_node_mib: on_node_mib.map(|mib| mib * self.args.keep.peak()),
            peak_on_shared_mib: self
                .args
                .stored
                .filter(|_| uses_shared)
                .map(|mib| mib * self.args.keep_shared.peak()),
            usd: self
                .args
                .dollars_per_hour
                .map(|usd| usd * expected_s / HOUR_S),
            remarks: self.remarks(way, &found, spot.as_ref(), in_time),
            spot,
        })
    }

    /// Returns the waste of a strategy at its best interval, or at the requested one.
    fn waste(
        &self,
        way: Way,
        cost: CheckpointCost,
        to_shared: CheckpointCost,
        risks: Risks,
    ) -> Result<WayWaste, FitError> {
        match self.args.every {
            None => way.waste(cost, to_shared, risks.reach, risks.failures),
            Some(tau) => self.waste_every(tau, way, cost, to_shared, risks),
        }
    }

    fn waste_every(
        &self,
        tau: f64,
        way: Way,
        cost: CheckpointCost,
        to_shared: CheckpointCost,
        Risks { failures, reach }: Risks,
    ) -> Result<WayWaste, FitError> {
        let policy = LatePolicy::from(self.args.when_late);
        way.waste_every(tau, policy, cost, to_shared, reach, failures)
    }

    /// Evaluates a strategy on spot instances; `on_demand` is its waste without reclaims. If the notice suffices to complete a checkpoint, a reclaim
    /// costs that checkpoint and a restart. Otherwise a reclaim counts as a failure of a node.
    fn spot(
        &self,
        way: Way,
        (cost, to_shared): (CheckpointCost, CheckpointCost),
        on_demand: f64,
        reclaims_per_hour: f64,
    ) -> Result<Spot, FitError> {
        let Risks { failures, reach } = self.risks;
        let rate = reclaims_per_hour * f64::from(self.args.nodes) / HOUR_S;
        let notice_suffices = to_shared.latency_s <= self.args.notice;
        let waste = if notice_suffices {
            let each_s = to_shared.latency_s + failures.restart_s;
            (1.0 + on_demand) * (1.0 + rate * each_s) - 1.0
        } else {
            let own = 1.0 / failures.mtbf_s;
            // a reclaimed node loses its stored data
            let part = |of: f64, reclaimed: f64| (own * of + rate * reclaimed) / (own + rate);
            let risks = Risks {
                failures: Failures {
                    mtbf_s: 1.0 / (own + rate),
                    ..failures
                },
                reach: Reach {
                    of_processes: part(reach.of_processes, 0.0),
                    of_a_node: part(reach.of_a_node, 1.0),
                },
            };
            self.waste(way, cost, to_shared, risks)?.waste
        };
        let expected_s = self.args.work * (1.0 + waste);
        Ok(Spot {
            notice_suffices,
            expected_s,
            usd: self
                .args
                .spot_dollars_per_hour
                .map(|usd| usd * expected_s / HOUR_S),
        })
    }

    fn remarks(
        &self,
        way: Way,
        found: &WayWaste,
        spot: Option<&Spot>,
        in_time: bool,
    ) -> Vec<&'static str> {
        let mut remarks = Vec::new();
        let kept = match way.is_on_nodes() {
            true => self.args.keep,
            false => self.args.keep_shared,
        };
        if kept == KeptCheckpoints::Overwritten {
            remarks.push(
                "a failure while the checkpoint is overwritten leaves none at this level: the waste does not include this",
            );
        }
        if found.is_bound_by_latency {
            remarks.push(match (self.args.every, self.args.when_late) {
                (None, _) => "the interval is as long as a checkpoint takes to be safe",
                (Some(_), WhenLateArg::Wait) => {
                    "checkpoints are due before the previous one is safe: the program waits each time"
                }
                (Some(_), WhenLateArg::Skip) => {
                    "checkpoints are due before the previous one is safe: some are skipped"
                }
            });
        }
        if found.shared_interval_s.is_some() && found.waste > MAX_FIRST_ORDER_WASTE {
            remarks.push("first order: with this much waste the true one is larger");
        }
        if checkpoints_in(self.args.work, found.interval_s) < 1.0 {
            remarks.push("the program ends before its first checkpoint");
        }
        if !in_time {
            remarks.push("it is expected to end after the deadline");
        }
        if spot.is_some_and(|spot| !spot.notice_suffices) {
            remarks.push(
                "a reclaim comes before a checkpoint is safe on shared storage: the notice is too short",
            );
        }
        remarks
    }
}

const IMPOSSIBLE: &str = "no interval pays: failures come faster than its checkpoints";

fn reason(unknown: UnknownCost) -> &'static str {
    match unknown {
        UnknownCost::Shared => "missing rate of shared storage: --shared",
        UnknownCost::AtOnce => "missing share of nodes that write at once: --at-once",
        UnknownCost::Local => "missing rate of a node's storage: --local",
        UnknownCost::Network => "missing rate between nodes: --network",
        UnknownCost::Memory => "missing memory rate: --memory",
        UnknownCost::Group => {
            "a parity group has at least 2 nodes and at most those of the job: --group"
        }
        UnknownCost::AloneInGroup => {
            "groups of this size leave one node alone, without parity: --group"
        }
        UnknownCost::OneNode => "a job on one node has no partner",
        UnknownCost::Measured => "its cost cannot be derived from bandwidths: --cost, or --from",
    }
}
