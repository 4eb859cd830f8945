//! Records of what was traced.

use super::totals::{Moved, Totals};
use crate::run::Findings;
use cvc_core::{
    record::{Source, Unit, names},
    units::MIB,
};

/// Makes the records of a trace, and keeps its gaps among the findings. What there was none of has no times and rates.
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
    // where no write is an event, nothing is known of bursts
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
        // bytes of the same writes as the time
        let mib = totals.writes_with_times().bytes as f64 / MIB;
        record(
            names::TRACE_WRITE_MIB_S,
            mib / writing_s,
            Unit::MibPerSecond,
        );
    }
    to.notes.extend(totals.gaps());
}
