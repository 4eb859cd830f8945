//! The estimate of one point, which follows the plan of its checkpoints.

use super::{
    figures::{CheckpointBytes, Machines, PointEstimate, fullest_share},
    late::LateCheckpoints,
};
use crate::{
    campaign::{CheckpointPlan, Spec, StageLoad},
    point::{Compression, Moment, PlannedPoint, Point, TracerKind},
    retention::Retention,
    units::MIB,
};

/// Time to start and end a launcher, seconds.
const LAUNCH_S: f64 = 0.5;
/// Additional time to start and end each process, seconds.
const LAUNCH_PER_PROCESS_S: f64 = 0.03;
/// Rate at which all images together are written to disk, MiB per second.
const IMAGE_MIB_PER_S: f64 = 200.0;
/// Computing time of a size-only run, seconds.
const SIZE_ONLY_S: f64 = 2.0;
/// Core-seconds of a workload whose descriptor does not declare them.
const UNKNOWN_CORE_S: f64 = 30.0;
/// Assumed number of checkpoints if the program's own checkpoints are a series; the real number is unknown.
const OWN_STATES: f64 = 2.0;
/// Size of the trace of one process, MiB.
const STRACE_MIB: f64 = 5.0;
const DARSHAN_MIB: f64 = 1.0;
/// Size of the compressed trace of one process, MiB. A call takes about 25 bytes.
const DFTRACER_MIB: f64 = 1.0;
/// Size of the trace of one process, MiB. A call takes 56 bytes.
const MPI_IO_MIB: f64 = 1.0;

/// The program of a point.
struct Program {
    processes: f64,
    /// Whether the computing time is known.
    is_known: bool,
    compute_s: f64,
    output_mib: f64,
}

impl Program {
    fn of(spec: &Spec, point: &Point, cores: Option<u32>) -> Self {
        let app = spec.apps.get(&point.app);
        let workload = app.and_then(|app| app.descriptor.workload(&point.class).ok());
        let core_s = workload.as_ref().and_then(|w| w.core_s);
        Self {
            processes: f64::from(point.processes()),
            is_known: core_s.is_some(),
            compute_s: core_s.unwrap_or(UNKNOWN_CORE_S) / busy(point, Compression::None, cores),
            output_mib: workload.and_then(|w| w.output_mib).unwrap_or(0.0),
        }
    }
}

/// Returns the number of busy cores on all nodes together: while the program computes, or, if `compression` is not `None`, while images are written.
fn busy(point: &Point, compression: Compression, cores: Option<u32>) -> f64 {
    let of_node = |load| cores.map_or(load, |cores| compression.busy_cores(load, cores));
    let all: u32 = match compression {
        Compression::None => point.mapping.node_cores().map(of_node).sum(),
        // each process pipes its image through its own compressor
        Compression::Gzip | Compression::Pigz => point.mapping.node_loads().map(of_node).sum(),
    };
    f64::from(all.max(1))
}

/// The checkpoints that cvc requests.
struct Requested {
    count: f64,
    one_s: f64,
    storage_s: Option<f64>,
    /// Time that the checkpoints add to the run, seconds; negative if they end the run early.
    seconds: f64,
}

impl Requested {
    fn of(
        moment: &Moment,
        plan: &CheckpointPlan,
        program: &Program,
        point: &Point,
        machines: &Machines,
        stored_mib: f64,
    ) -> Self {
        let compression = plan.compression();
        let through = |by: crate::point::Compressor| {
            by.core_mib_s * busy(point, compression, machines.cores_of(&point.site))
        };
        let rate = compression.compressor().map_or(f64::INFINITY, through);
        // a node stores its share of the processes
        let of_node = |rate| stored_mib * fullest_share(point) / rate;
        let storage_s = machines.storage_of(point).map(of_node);
        let one_s = (stored_mib / IMAGE_MIB_PER_S.min(rate)).max(storage_s.unwrap_or(0.0));
        let cut_s = match moment {
            Moment::SizeOnly => program.compute_s - SIZE_ONLY_S.min(program.compute_s),
            // the number of steps is unknown, so half of the time is assumed
            Moment::SizeOnlyAfterStep(_) => program.compute_s * 0.5,
            Moment::AtS(_) | Moment::AfterStep(_) | Moment::Series { .. } => 0.0,
        };
        let count = f64::from(moment.count());
        let start_s = plan
            .taker()
            .driven()
            .map_or(0.0, |of| of.start_s + of.process_s * program.processes);
        Self {
            count,
            one_s,
            storage_s,
            seconds: start_s + count * one_s - cut_s,
        }
    }

    /// Returns the maximum MiB of the checkpoint files if restarts take `further` checkpoints in addition to the requested ones.
    fn peak_mib(&self, further: u32, stored_mib: f64, left_mib: f64) -> f64 {
        let (policy, all) = (
            Retention::OVERWRITTEN,
            Some(self.count as u64 + u64::from(further)),
        );
        policy.volume(all).peak * (stored_mib - left_mib) + policy.left(all) * left_mib
    }
}

/// Space and time that the stages need to process a point's checkpoints.
struct OfStages {
    peak_mib: f64,
    kept_mib: f64,
    /// Time of the stages, seconds. The time limit of the run does not include this time.
    seconds: f64,
}

impl OfStages {
    fn of(
        plan: &CheckpointPlan,
        requested: Option<&Requested>,
        program: &Program,
        stored_mib: f64,
    ) -> Self {
        let (states, content_mib) = match requested {
            // deltas store images uncompressed
            Some(of) => {
                let compressor = plan.compression().compressor();
                (of.count, stored_mib * compressor.map_or(1.0, |c| c.ratio))
            }
            None => (OWN_STATES, program.output_mib),
        };
        let StageLoad {
            peak,
            kept,
            handled,
        } = plan.load(states);
        Self {
            peak_mib: peak * content_mib,
            kept_mib: kept * content_mib,
            seconds: handled * content_mib / IMAGE_MIB_PER_S,
        }
    }
}

/// Estimates a point with checkpoints of the size `stored`.
pub(super) fn of_point(
    spec: &Spec,
    planned: &PlannedPoint,
    machines: &Machines,
    stored: CheckpointBytes,
) -> PointEstimate {
    let point = &planned.point;
    let (stored_mib, left_mib) = (stored.all as f64 / MIB, stored.left as f64 / MIB);
    let (plan, cores) = (spec.checkpoint_plan(point), machines.cores_of(&point.site));
    let mut program = Program::of(spec, point, cores);
    if point.checkpointer.has_own_files() {
        program.output_mib = program.output_mib.max(stored_mib);
    }
    let requested = plan
        .requested()
        .map(|moment| Requested::of(moment, &plan, &program, point, machines, stored_mib));
    let stages = OfStages::of(&plan, requested.as_ref(), &program, stored_mib);

    let mut needed_s = LAUNCH_S + LAUNCH_PER_PROCESS_S * program.processes + program.compute_s;
    needed_s += requested.as_ref().map_or(0.0, |of| of.seconds);
    if plan.is_restarted() {
        let restarts = f64::from(plan.restarts());
        needed_s += restarts * LAUNCH_S + program.compute_s / 2.0;
        if let Some(driven) = plan.taker().driven() {
            needed_s += restarts * (driven.start_s + stored_mib / IMAGE_MIB_PER_S);
            needed_s += (restarts - 1.0) * stored_mib / IMAGE_MIB_PER_S;
        }
    }
    // otherwise the time of the program is only assumed
    let is_timed = program.is_known && cores.is_some();
    let late = plan
        .requested()
        .zip(requested.as_ref())
        .filter(|_| is_timed);

    let traces_mib = program.processes * trace_mib(spec.trace.of(point));
    let further = plan.restarts().saturating_sub(1);
    let images_mib = requested
        .as_ref()
        .map_or(0.0, |of| of.peak_mib(further, stored_mib, left_mib));
    let when = |is_kept: bool, mib: f64| if is_kept { mib } else { 0.0 };
    let kept_mib = traces_mib
        + stages.kept_mib
        + when(spec.run.keep_images && requested.is_some(), stored_mib)
        + when(spec.run.keep_outputs, program.output_mib);
    PointEstimate {
        point: planned.id.clone(),
        seconds: needed_s.min(spec.run.timeout_s) + stages.seconds,
        needed_s,
        known: program.is_known,
        known_cores: cores,
        late: late
            .and_then(|(moment, of)| LateCheckpoints::of(moment, program.compute_s, of.one_s)),
        checkpoint_s: requested.as_ref().map(|of| of.one_s),
        storage_s: requested.as_ref().and_then(|of| of.storage_s),
        peak_bytes: bytes(images_mib + stages.peak_mib + program.output_mib + traces_mib),
        kept_bytes: bytes(kept_mib),
    }
}

/// Returns the size of the trace of one process, MiB.
fn trace_mib(tracer: TracerKind) -> f64 {
    match tracer {
        TracerKind::None => 0.0,
        TracerKind::Strace => STRACE_MIB,
        TracerKind::Darshan => DARSHAN_MIB,
        TracerKind::DfTracer => DFTRACER_MIB,
        TracerKind::MpiIo => MPI_IO_MIB,
    }
}

fn bytes(mib: f64) -> u64 {
    // the conversion saturates; negative values and NaN become 0
    (mib * MIB).ceil() as u64
}
