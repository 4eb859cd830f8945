//! Reads the records of DXT, which have every read and write.

use super::{
    header::ByteOrder,
    module::DarshanModule,
    records::{ReadResult, RecordFailure, RecordReader},
    visitor::{DarshanRecordId, DarshanVisitor, DxtRecord, DxtSegment},
};
use crate::event::Op;
use std::io::{Read, Seek};

const HEAD_BYTES: usize = 104;
const HOST: std::ops::Range<usize> = 24..88;

/// Layout of the segments in a version of the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments {
    offsets: bool,
    threads: bool,
}

impl Segments {
    /// Returns the layout of `version`; `None` if the version is unknown.
    pub(super) fn of(module: DarshanModule, version: u32) -> Option<Self> {
        let (offsets_since, threads_since) = if module == DarshanModule::DxtPosix {
            (1, 2)
        } else {
            (2, 3)
        };
        (1..=threads_since).contains(&version).then_some(Self {
            offsets: version >= offsets_since,
            threads: version >= threads_since,
        })
    }

    fn bytes(self) -> usize {
        if self.threads { 40 } else { 32 }
    }
}

/// Reads all records of a region.
pub(super) fn read<R: Read + Seek>(
    mut records: RecordReader<'_, R>,
    module: DarshanModule,
    segments: Segments,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult {
    let order = records.order;
    while let Some(head) = records.exactly(HEAD_BYTES)? {
        let host = head[HOST].split(|&byte| byte == 0).next();
        let counts = [order.integer(&head[88..]), order.integer(&head[96..])];
        let mut record = DxtRecord {
            module,
            id: DarshanRecordId(order.word(head)),
            rank: order.integer(&head[8..]),
            host: host.unwrap_or_default().to_vec(),
            writes: 0,
            reads: 0,
        };
        let [Ok(writes), Ok(reads)] = counts.map(u64::try_from) else {
            records.broken(format!(
                "a record claims {} writes and {} reads",
                counts[0], counts[1]
            ));
            break;
        };
        (record.writes, record.reads) = (writes, reads);
        records.skip(HEAD_BYTES);
        visitor
            .dxt_record(&record)
            .map_err(RecordFailure::Visitor)?;
        let whole = pass_on(&mut records, &record, Op::Write, segments, visitor)?
            && pass_on(&mut records, &record, Op::Read, segments, visitor)?;
        if !whole {
            break;
        }
        records.whole += 1;
    }
    records.finish("records", visitor)
}

/// Passes the writes or the reads of a record to the visitor. Returns whether all are present.
fn pass_on<R: Read + Seek>(
    records: &mut RecordReader<'_, R>,
    record: &DxtRecord,
    op: Op,
    segments: Segments,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult<bool> {
    let (order, bytes) = (records.order, segments.bytes());
    let count = if op == Op::Write {
        record.writes
    } else {
        record.reads
    };
    let mut index = 0;
    while index < count {
        let there = records.peek(bytes)?;
        let wanted = usize::try_from(count - index).unwrap_or(usize::MAX);
        let chunk = (there.len() / bytes).min(wanted);
        if chunk == 0 {
            return Ok(false);
        }
        for segment in there[..chunk * bytes].chunks_exact(bytes) {
            let segment = decode(segment, order, op, index, segments);
            visitor
                .dxt_segment(record, &segment)
                .map_err(RecordFailure::Visitor)?;
            index += 1;
        }
        records.skip(chunk * bytes);
    }
    Ok(true)
}

#[inline]
fn decode(bytes: &[u8], order: ByteOrder, op: Op, index: u64, segments: Segments) -> DxtSegment {
    DxtSegment {
        op,
        index,
        offset: if segments.offsets {
            order.integer(bytes)
        } else {
            -1
        },
        length: order.integer(&bytes[8..]),
        start_s: f64::from_bits(order.word(&bytes[16..])),
        end_s: f64::from_bits(order.word(&bytes[24..])),
        thread: segments.threads.then(|| order.word(&bytes[32..])),
    }
}
