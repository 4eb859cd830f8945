//! Records of a trace.

use super::totals::{CheckpointIo, Moved, Totals};
use crate::run::Findings;
use cvc_core::{
    record::{Source, Unit, names},
    units::MIB,
};

/// Records the totals of a trace, and adds its gaps to the notes. Operations that did not occur get no times and rates.
pub(super) fn write(totals: &Totals<'_>, artefact: Option<&str>, to: &mut Findings) {
    let (reads, writes) = (totals.reads(), totals.writes());
    let seconds = |of: Moved| of.duration_ns as f64 / 1e9;
    let mut record = |name, value, unit| to.record(name, value, unit, Source::Trace, artefact, &[]);
    record(names::TRACE_READ_OPS, reads.operations as f64, Unit::Count);
    record(names::TRACE_READ_BYTES, reads.bytes as f64, Unit::Bytes);
    record(names::TRACE_READ_S, seconds(reads), Unit::Seconds);
    record(
        names::TRACE_WRITE_OPS,
        writes.operations as f64,
        Unit::Count,
    );
    record(names::TRACE_WRITTEN_BYTES, writes.bytes as f64, Unit::Bytes);
    record(names::TRACE_WRITE_S, seconds(writes), Unit::Seconds);
    record(names::TRACE_METADATA_S, totals.metadata_s(), Unit::Seconds);
    // if writes have no events, the number of bursts is unknown
    if totals.writes_with_times().operations > 0 || writes.operations == 0 {
        record(
            names::TRACE_WRITE_BURSTS,
            totals.write_bursts() as f64,
            Unit::Count,
        );
    }
    let writers = totals.writers();
    if let (Some(least), Some(most)) = (writers.first(), writers.last()) {
        record(names::TRACE_WRITERS, writers.len() as f64, Unit::Count);
        record(
            names::TRACE_WRITER_SPREAD,
            *least as f64 / *most as f64,
            Unit::One,
        );
    }
    let writing_s = totals.writing_s();
    if writing_s > 0.0 {
        // bytes and time must be of the same writes
        let mib = totals.writes_with_times().bytes as f64 / MIB;
        record(
            names::TRACE_WRITE_MIB_S,
            mib / writing_s,
            Unit::MibPerSecond,
        );
    }
    to.notes.extend(totals.gaps());
}

/// Records the totals of a restart's trace: the bytes read, and the operations by which a checkpoint's files were written and then read again.
pub(super) fn write_restart(
    started: &Totals<'_>,
    restarted: &Totals<'_>,
    artefact: Option<&str>,
    to: &mut Findings,
) {
    let mut record = |name, value, unit| to.record(name, value, unit, Source::Trace, artefact, &[]);
    let reads = restarted.reads();
    record(
        names::RESTART_READ_OPS,
        reads.operations as f64,
        Unit::Count,
    );
    record(names::RESTART_READ_BYTES, reads.bytes as f64, Unit::Bytes);
    record(
        names::RESTART_READ_S,
        reads.duration_ns as f64 / 1e9,
        Unit::Seconds,
    );
    if let Some(io) = CheckpointIo::of(started, restarted) {
        for (name, value, unit) in [
            (names::CKPT_IO_FILES, io.files, Unit::Count),
            (names::CKPT_IO_WRITE_OPS, io.write_operations, Unit::Count),
            (names::CKPT_IO_WRITTEN_BYTES, io.written_bytes, Unit::Bytes),
            (names::CKPT_IO_READ_OPS, io.read_operations, Unit::Count),
            (names::CKPT_IO_READ_BYTES, io.read_bytes, Unit::Bytes),
        ] {
            record(name, value, unit);
        }
    }
    to.notes.extend(restarted.gaps());
}
