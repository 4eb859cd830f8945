//! Traces calls of MPI-IO, and the calls for communication between them, with cvc's own library. The library is compiled together with the kernels
//! for each MPI library.

use super::{
    contract::{Instrumentation, TraceError, Tracer},
    totals::{Moved, Totals},
};
use crate::{
    kernels,
    mpi::{Launcher, Missing},
    run::Findings,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    record::{Source, names},
    units::{counted, size},
};
use cvc_trace::{
    Sink as _,
    phases::{CallKind, IoModel, PhaseFamily, Separation, io_model, traced_calls},
};

/// Directory of the logs, `RANK.mpi-io`.
pub const LOGS: &str = "mpi-io";
/// Maximum number of phases named in the report; phases that differ only in their offset count once.
const MAX_NAMED: usize = 12;

/// The tracer of MPI-IO.
pub(super) struct MpiIo;

impl Tracer for MpiIo {
    fn name(&self) -> &'static str {
        "mpi-io"
    }

    fn title(&self) -> &'static str {
        "the tracer of MPI-IO"
    }

    fn find(&self) -> Result<Utf8PathBuf, Missing> {
        Ok(Utf8PathBuf::new())
    }

    fn compiled(&self) -> Option<&'static str> {
        Some(kernels::TRACER)
    }

    fn instrument(&self, tool: &Utf8Path, work: &Utf8Path, _: &dyn Launcher) -> Instrumentation {
        let logs = work.join(LOGS);
        Instrumentation {
            env: [("CVC_MPI_IO_TRACE".to_owned(), logs.to_string())].into(),
            // for the ranks alone: the launcher is not traced
            rank_env: [("LD_PRELOAD".to_owned(), tool.to_string())].into(),
            dirs: vec![logs],
            ..Instrumentation::default()
        }
    }

    fn trace(&self) -> Option<&'static str> {
        Some(LOGS)
    }

    /// Adds up the program's own calls, not the calls that an MPI library derives from them.
    fn add_up(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
    ) -> Result<(), cvc_trace::TraceError> {
        let (mut reads, mut writes, mut sync_ns) = (Moved::default(), Moved::default(), 0_u64);
        let read = traced_calls(trace.as_std_path(), &mut |call| {
            if !totals.counts(call.path.as_bytes()) {
                return;
            }
            let moved = match call.op {
                CallKind::Read => &mut reads,
                CallKind::Write => &mut writes,
                CallKind::Sync => {
                    sync_ns = sync_ns.saturating_add(call.duration_ns);
                    return;
                }
            };
            moved.merge(&Moved {
                operations: 1,
                bytes: call.bytes,
                duration_ns: call.duration_ns,
            });
        });
        let missing = read.map_err(|error| cvc_trace::TraceError::NotATrace {
            path: trace.into(),
            kind: "trace of MPI-IO",
            problem: error.to_string(),
        })?;
        for part in &missing {
            totals.missing(part).map_err(cvc_trace::TraceError::Sink)?;
        }
        totals.add_counted(reads, writes);
        totals.add_metadata_s(sync_ns as f64 / 1e9);
        Ok(())
    }

    fn find_phases(&self, trace: &Utf8Path, to: &mut Findings) -> Result<(), TraceError> {
        let model = io_model(trace.as_std_path(), Separation::Gap).map_err(|error| TraceError {
            path: trace.to_owned(),
            problem: error.to_string(),
        })?;
        let count = f64::from(model.phase_count());
        to.count(names::TRACE_PHASES, count, Source::Trace, &[]);
        to.seconds(names::TRACE_PHASES_S, model.io_s(), Source::Trace, &[]);
        to.facts.insert(names::TRACE_PHASES, named(&model));
        Ok(())
    }

    fn cost_of_absence(&self) -> &'static str {
        "tracer = \"mpi-io\" cannot be used"
    }
}

/// Returns a line for each kind of phase, without times, so that repeats give the same text.
fn named(model: &IoModel) -> String {
    let mut lines: Vec<String> = model.phases.iter().take(MAX_NAMED).map(name).collect();
    let more = model.phases.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        lines.push(format!("and {}", counted(more, "more kind")));
    }
    lines.join("\n")
}

fn name(family: &PhaseFamily) -> String {
    let last = family.first + family.count - 1;
    let numbers = match family.count {
        1 => format!("phase {}", family.first),
        _ => format!("phases {} to {last}", family.first),
    };
    let ops = family.loops.iter().flat_map(|l| &l.ops);
    let mut calls: Vec<String> = ops.map(|op| op.call()).collect();
    calls.dedup();
    let named = calls.len().min(3);
    let more = if calls.len() > named { ", …" } else { "" };
    let calls = calls.get(..named).unwrap_or_default().join(", ");
    let each = size(family.weight_bytes as f64);
    format!("{numbers}: {calls}{more}; {each} each")
}
