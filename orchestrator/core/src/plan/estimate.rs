//! Expected time and disk space of a plan: rough figures from the descriptors, before there are runs to learn from.
//!
//! Time of a run: `core_s` over the processes that compute at the same time (on each node at most as many as it has cores), and these
//! constants, which are rough:
//! start of the launcher and the processes, start under DMTCP and its end, bytes of images at the rates below, and for a restart check
//! a second start, reading the images, and half of the computation. `size-only` computes for at most two seconds.
//!
//! No checkpoint is written faster than the storage of its fullest node takes it, where that is known.
//!
//! Where the cores of a node are not known, every process counts as having one of its own, and [`PointEstimate::known_cores`] says so.
//!
//! Space of a run: outputs of the workload, traces, and its checkpoints, whose size the caller knows; of a series that is stored, what it takes uncompressed:
//! all its states where each is stored in full without a codec, else two of them, for the first way and the largest other one, and a state that is restored.

use super::Plan;
use crate::{
    campaign::{DeltaWay, Spec},
    ids::PointId,
    point::{Compression, Moment, PlannedPoint, Point, Repeat, TracerKind},
    units::{counted, duration},
};
use cvc_delta_rules::{Codec, MethodName};
use indexmap::IndexMap;
use serde::Serialize;
use std::collections::HashMap;

const MIB: f64 = crate::units::MIB;
/// Start and end of a launcher, seconds, and of each process.
const LAUNCH_S: f64 = 0.5;
const LAUNCH_PER_PROCESS_S: f64 = 0.03;
/// Coordinator, launch under DMTCP, waiting for its peers, end.
const DMTCP_S: f64 = 4.0;
const DMTCP_PER_PROCESS_S: f64 = 0.2;
/// MiB per second of all images together, to disk, and through gzip on one core.
const IMAGE_MIB_PER_S: f64 = 200.0;
const GZIP_MIB_PER_S: f64 = 40.0;
/// Content of images that gzip or pigz compress, as a multiple of their files: where more zeros are stored it is more.
const GZIP_RATIO: f64 = 3.0;
/// Computation of a size-only run.
const SIZE_ONLY_S: f64 = 2.0;
/// Core-seconds of a workload whose descriptor does not state them.
const UNKNOWN_CORE_S: f64 = 30.0;
/// Trace of one process, MiB.
const STRACE_MIB: f64 = 5.0;
const DARSHAN_MIB: f64 = 1.0;
/// It is compressed: a call takes about 25 bytes.
const DFTRACER_MIB: f64 = 1.0;

/// What the caller knows about the machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machines {
    /// Cores of one node, by site.
    pub cores: HashMap<String, u32>,
    /// The most that one node writes, MiB per second: by site and storage area.
    pub storage_mib_s: HashMap<(String, String), f64>,
}

impl Machines {
    /// Cores of one node of a site, if they are known.
    pub fn cores_of(&self, site: &str) -> Option<u32> {
        self.cores.get(site).copied().map(|cores| cores.max(1))
    }

    fn storage_of(&self, point: &Point) -> Option<f64> {
        let area = (point.site.clone(), point.storage.clone());
        self.storage_mib_s.get(&area).copied().filter(|v| *v > 0.0)
    }
}

/// The estimate of one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointEstimate {
    /// Which.
    pub point: PointId,
    /// How long one run holds its nodes, seconds: until `run.timeout_s` ends it at the latest.
    pub seconds: f64,
    /// How long it would take to come to its end, seconds.
    pub needed_s: f64,
    /// Whether the descriptor says how long the workload computes; otherwise 30 core-seconds are assumed.
    pub known: bool,
    /// Cores of a node; `None`: not known, and nothing that follows from them is.
    pub known_cores: Option<u32>,
    /// Checkpoints that are planned for a time when the program has ended; `None` where all are in time, or that is not known.
    pub late: Option<LateCheckpoints>,
    /// How long one checkpoint takes to be written, seconds; `None` where none is taken by cvc.
    pub checkpoint_s: Option<f64>,
    /// What of `checkpoint_s` the storage of the fullest node needs at least, if its bandwidth is known, seconds.
    pub storage_s: Option<f64>,
    /// Space that one run needs while it runs.
    pub peak_bytes: u64,
    /// Space that one run keeps for good (images and outputs that are to be kept).
    pub kept_bytes: u64,
}

impl PointEstimate {
    /// Whether the time limit is expected to end its runs before they come to their end.
    pub fn is_cut(&self) -> bool {
        self.is_timed() && self.needed_s > self.seconds
    }

    /// Whether its time follows from what is known, and not from assumptions.
    pub fn is_timed(&self) -> bool {
        self.known && self.known_cores.is_some()
    }
}

/// Checkpoints that are planned for a time when the program is expected to have ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LateCheckpoints {
    /// When they are planned.
    pub moment: Moment,
    /// Checkpoints of a run that come before its end.
    pub in_time: usize,
    /// All checkpoints of a run.
    pub planned: usize,
    /// When the first late one is due, seconds after the program began to compute.
    pub due_s: f64,
    /// When the program is expected to end, on the same clock, with the checkpoints before.
    pub ends_s: f64,
    /// A moment that is early enough, as the campaign file has it.
    pub write: String,
}

impl LateCheckpoints {
    /// Those of a program that computes for `compute_s` and stands still for `one_s` during a checkpoint.
    fn of(moment: &Moment, compute_s: f64, one_s: f64) -> Option<Self> {
        // a rough estimate needs room
        let last_s = compute_s / 2.0;
        let (due, write): (Vec<f64>, String) = match moment {
            Moment::AtS(list) => {
                let step_s = rounded_down(last_s / list.len() as f64).max(0.001);
                let times: Vec<String> = (1..=list.len())
                    .map(|n| written(step_s * n as f64))
                    .collect();
                let write = match times.as_slice() {
                    [one] => format!("{{ at_s = {one} }}"),
                    several => format!("{{ at_s = [{}] }}", several.join(", ")),
                };
                (list.clone(), write)
            }
            Moment::Series { every_s, count, .. } => {
                let step_s = written(rounded_down(last_s / f64::from(*count)));
                let due = (1..=*count).map(|n| every_s * f64::from(n)).collect();
                (due, format!("{{ every_s = {step_s}, count = {count} }}"))
            }
            Moment::AfterStep(_) | Moment::SizeOnly | Moment::SizeOnlyAfterStep(_) => return None,
        };
        let (mut ends_s, mut free_s) = (compute_s, 0.0_f64);
        for (in_time, due_s) in due.iter().enumerate() {
            let begins_s = due_s.max(free_s);
            if begins_s >= ends_s {
                return Some(Self {
                    moment: moment.clone(),
                    in_time,
                    planned: due.len(),
                    due_s: *due_s,
                    ends_s,
                    write,
                });
            }
            ends_s += one_s;
            free_s = begins_s + one_s;
        }
        None
    }
}

/// A number of seconds with two digits that count, not above this one.
fn rounded_down(seconds: f64) -> f64 {
    let unit = 10_f64.powf(seconds.log10().floor() - 1.0);
    (seconds / unit).floor() * unit
}

/// Seconds as a campaign file has them: not 0, which no moment is.
fn written(seconds: f64) -> String {
    let text = format!("{:.3}", seconds.max(0.001));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Space that is needed in one storage area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskNeed {
    /// Name of the site.
    pub site: String,
    /// Name of the area.
    pub storage: String,
    /// The largest single run, and what all runs keep.
    pub bytes: u64,
}

/// The estimate of a whole plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimates {
    /// Of each point, in the order of the plan.
    pub points: Vec<PointEstimate>,
    /// All runs one after another, seconds.
    pub total_s: f64,
    /// Points of whose workload the time is only assumed.
    pub unknown: usize,
    /// Of each storage area that is used, in the order of first use.
    pub disk: Vec<DiskNeed>,
}

impl Estimates {
    /// Says which runs the time limit is expected to end before they come to their end, and which limit they need.
    pub fn too_long(&self, timeout_s: f64) -> Option<String> {
        let cut = || self.points.iter().filter(|p| p.is_cut());
        let longest_s = cut().map(|p| p.needed_s).max_by(f64::total_cmp)?;
        // a rough estimate needs room
        let enough_s = (2.0 * longest_s / 60.0).ceil() * 60.0;
        Some(format!(
            "NOT ENOUGH TIME: runs of {} are expected to take up to {}, and run.timeout_s ends them after {}: they would fail; hint: \
             timeout_s = {enough_s:.0} in [run], or a smaller class",
            counted(cut().count(), "point"),
            duration(longest_s),
            duration(timeout_s)
        ))
    }

    /// Says which runs are expected to end before their checkpoints are due, and which moment they need: one text for each moment of the plan.
    pub fn too_short(&self) -> Vec<String> {
        let mut by_moment: IndexMap<String, Vec<&LateCheckpoints>> = IndexMap::new();
        for late in self.points.iter().filter_map(|p| p.late.as_ref()) {
            let of = by_moment.entry(late.moment.to_string()).or_default();
            of.push(late);
        }
        let texts = by_moment.into_values().filter_map(|all| {
            let shortest = all
                .iter()
                .min_by(|a, b| a.ends_s.total_cmp(&b.ends_s))?;
            let taken = match (shortest.in_time, shortest.planned) {
                (0, 1) => "such a run would fail".to_owned(),
                (0, planned) => format!("none of {planned} would be taken, and such a run would fail"),
                (in_time, planned) => format!("{in_time} of {planned} would be taken"),
            };
            Some(format!(
                "NOT ENOUGH RUN TIME: a checkpoint of {} is due {} after the program began to compute, which is expected to end after {}: {taken}; \
                 hint: moment = {} in [checkpoint], or a larger class",
                counted(all.len(), "point"),
                duration(shortest.due_s),
                duration(shortest.ends_s),
                shortest.write
            ))
        });
        texts.collect()
    }
}

/// Estimates a plan. `stored_bytes` are those of all files of one checkpoint by DMTCP, by point; points without are taken to store nothing.
pub fn estimate(
    spec: &Spec,
    plan: &Plan,
    machines: &Machines,
    stored_bytes: &HashMap<PointId, u64>,
) -> Estimates {
    let of = |p: &PlannedPoint| {
        let stored_mib = stored_bytes
            .get(&p.id)
            .map_or(0.0, |bytes| *bytes as f64 / MIB);
        of_point(
            spec,
            &p.id,
            &p.point,
            machines.cores_of(&p.point.site),
            machines.storage_of(&p.point),
            stored_mib,
        )
    };
    let points: Vec<PointEstimate> = plan.points.iter().map(of).collect();
    let mut runs: HashMap<&PointId, u64> = HashMap::new();
    for run in &plan.runs {
        match run.repeat {
            Repeat::Warmup(_) | Repeat::Measured(_) => *runs.entry(&run.point).or_default() += 1,
        }
    }
    let mut total_s = 0.0;
    let mut areas: IndexMap<(&str, &str), (u64, u64)> = IndexMap::new();
    for (planned, own) in plan.points.iter().zip(&points) {
        let count = runs.get(&planned.id).copied().unwrap_or(0);
        total_s += own.seconds * count as f64;
        let (peak, kept) = areas
            .entry((&planned.point.site, &planned.point.storage))
            .or_default();
        *peak = (*peak).max(own.peak_bytes);
        *kept = kept.saturating_add(own.kept_bytes.saturating_mul(count));
    }
    let disk = areas
        .into_iter()
        .map(|((site, storage), (peak, kept))| DiskNeed {
            site: site.to_owned(),
            storage: storage.to_owned(),
            bytes: peak.saturating_add(kept),
        })
        .collect();
    Estimates {
        total_s,
        unknown: points.iter().filter(|p| !p.known).count(),
        points,
        disk,
    }
}

fn of_point(
    spec: &Spec,
    id: &PointId,
    point: &Point,
    cores: Option<u32>,
    storage_mib_s: Option<f64>,
    stored_mib: f64,
) -> PointEstimate {
    let workload = spec
        .apps
        .get(&point.app)
        .and_then(|app| app.descriptor.workloads.get(&point.class));
    let core_s = workload.and_then(|w| w.core_s);
    let processes = f64::from(point.processes());
    // the processes that compute at the same time: on each node as many as it has cores
    let busy: u32 = point
        .mapping
        .node_loads()
        .map(|load| cores.map_or(load, |cores| load.min(cores)))
        .sum();
    let busy = f64::from(busy.max(1));
    let compute_s = core_s.unwrap_or(UNKNOWN_CORE_S) / busy;
    let mut seconds = LAUNCH_S + LAUNCH_PER_PROCESS_S * processes + compute_s;

    let checkpoint = spec.checkpoint.of(point);
    let is_driven = point.checkpointer.is_driven();
    let (mut stored_peak, mut checkpoints, mut deltas_s) = (0.0, 0.0, 0.0);
    // of the series that is kept
    let mut kept_series_mib = 0.0;
    let (mut checkpoint_s, mut storage_s, mut late) = (None, None, None);
    if is_driven {
        checkpoints = match &checkpoint.moment {
            Moment::AtS(list) => list.len() as f64,
            Moment::Series { count, .. } => f64::from(*count),
            Moment::AfterStep(_) | Moment::SizeOnly | Moment::SizeOnlyAfterStep(_) => 1.0,
        };
        // A later checkpoint is written beside the earlier one before it takes its place.
        stored_peak = stored_mib * if checkpoints > 1.0 { 2.0 } else { 1.0 };
        if let Some(deltas) = spec.checkpoint.deltas_of(point) {
            // images are stored in deltas uncompressed
            let content_mib = stored_mib
                * match point.compression {
                    Compression::None => 1.0,
                    Compression::Gzip | Compression::Pigz => GZIP_RATIO,
                };
            let series = |way: &DeltaWay| content_mib * series_states(way, checkpoints);
            // that of the run, another one beside it, and a state that was restored
            kept_series_mib = deltas.ways().next().as_ref().map_or(0.0, series);
            let other_mib = deltas
                .ways()
                .skip(1)
                .map(|way| series(&way))
                .fold(0.0, f64::max);
            stored_peak += kept_series_mib + other_mib + content_mib;
            if !deltas.keep {
                kept_series_mib = 0.0;
            }
            // each state is read, stored and restored, which no time limit of the run ends
            let ways = deltas.ways().count() as f64;
            deltas_s = ways * checkpoints * 3.0 * content_mib / IMAGE_MIB_PER_S;
        }
        let rate = match point.compression {
            Compression::None => IMAGE_MIB_PER_S,
            Compression::Gzip => IMAGE_MIB_PER_S.min(GZIP_MIB_PER_S * busy),
            // all cores of a node, however few processes compute on it
            Compression::Pigz => {
                let nodes = f64::from(point.mapping.nodes());
                let all = cores.map_or(busy, |cores| busy.max(f64::from(cores) * nodes));
                IMAGE_MIB_PER_S.min(GZIP_MIB_PER_S * all)
            }
        };
        // a node stores as large a part as it has of the processes
        storage_s = storage_mib_s.map(|rate| stored_mib * fullest_share(point) / rate);
        let one_s = (stored_mib / rate).max(storage_s.unwrap_or(0.0));
        checkpoint_s = Some(one_s);
        // without these, the time of the program is only assumed
        if core_s.is_some() && cores.is_some() {
            late = LateCheckpoints::of(&checkpoint.moment, compute_s, one_s);
        }
        match checkpoint.moment {
            Moment::SizeOnly => seconds += SIZE_ONLY_S.min(compute_s) - compute_s,
            // the number of steps is unknown
            Moment::SizeOnlyAfterStep(_) => seconds -= compute_s * 0.5,
            Moment::AtS(_) | Moment::AfterStep(_) | Moment::Series { .. } => {}
        }
        seconds += DMTCP_S + DMTCP_PER_PROCESS_S * processes + checkpoints * one_s;
    }
    if checkpoint.restart_check && point.checkpointer.takes_checkpoints() {
        seconds += LAUNCH_S + compute_s / 2.0;
        if point.checkpointer.restarts_images() {
            seconds += DMTCP_S + stored_mib / IMAGE_MIB_PER_S;
        }
    }

    let traces_mib = processes
        * match spec.trace.of(point) {
            TracerKind::None => 0.0,
            TracerKind::Strace => STRACE_MIB,
            TracerKind::Darshan => DARSHAN_MIB,
            TracerKind::DfTracer => DFTRACER_MIB,
        };
    let outputs_mib = workload.and_then(|w| w.output_mib).unwrap_or(0.0);
    let kept_mib = traces_mib
        + kept_series_mib
        + if spec.run.keep_images && checkpoints > 0.0 {
            stored_mib
        } else {
            0.0
        }
        + if spec.run.keep_outputs {
            outputs_mib
        } else {
            0.0
        };
    PointEstimate {
        point: id.clone(),
        seconds: seconds.min(spec.run.timeout_s) + deltas_s,
        needed_s: seconds,
        known: core_s.is_some(),
        known_cores: cores,
        late,
        checkpoint_s,
        storage_s,
        peak_bytes: bytes(stored_peak + outputs_mib + traces_mib),
        kept_bytes: bytes(kept_mib),
    }
}

/// Space of a series of so many states, as a multiple of one: at most all of them, where each is stored in full as it is. Otherwise what a codec leaves of
/// them, and blocks that did not change, are taken to leave no more than two.
fn series_states(way: &DeltaWay, states: f64) -> f64 {
    match (way.method, way.codec) {
        (MethodName::Full, Codec::None) => states,
        _ => states.min(2.0),
    }
}

/// The part of a point's processes that its fullest node has.
pub fn fullest_share(point: &Point) -> f64 {
    let fullest = point.mapping.node_loads().max().unwrap_or(1);
    f64::from(fullest) / f64::from(point.processes().max(1))
}

fn bytes(mib: f64) -> u64 {
    // The conversion saturates; what is negative or no number is 0.
    (mib * MIB).ceil() as u64
}
