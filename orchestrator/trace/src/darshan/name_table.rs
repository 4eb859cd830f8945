//! Reads the table of names.

use super::{
    records::{ReadResult, RecordFailure, RecordReader},
    region::MAX_PEEK_BYTES,
    visitor::{DarshanRecordId, DarshanVisitor},
};
use std::io::{Read, Seek};

/// Maximum accepted length of a name, bytes; in Darshan itself paths have at most 4096.
const MAX_NAME_BYTES: usize = MAX_PEEK_BYTES / 2;

/// Reads entries of a record ID and a zero-terminated name.
pub(super) fn read<R: Read + Seek>(
    mut records: RecordReader<'_, R>,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult {
    let order = records.order;
    let mut wanted = 9;
    loop {
        let bytes = records.peek(wanted)?;
        let Some((id, text)) = bytes
            .split_at_checked(8)
            .filter(|(_, text)| !text.is_empty())
        else {
            break;
        };
        if let Some(end) = text.iter().position(|&byte| byte == 0) {
            let id = DarshanRecordId(order.word(id));
            visitor
                .name(id, &text[..end])
                .map_err(RecordFailure::Visitor)?;
            records.skip(8 + end + 1);
            records.whole += 1;
            wanted = 9;
        } else if bytes.len() < wanted {
            break;
        } else if bytes.len() > MAX_NAME_BYTES {
            records.broken(format!("a name is longer than {MAX_NAME_BYTES} bytes"));
            break;
        } else {
            wanted = bytes.len() + 1;
        }
    }
    records.finish("names", visitor)
}

/// Reads entries of a record ID, a length and a name, as in version 3.00.
pub(super) fn read_with_lengths<R: Read + Seek>(
    mut records: RecordReader<'_, R>,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult {
    let order = records.order;
    while let Some(head) = records.exactly(12)? {
        let (id, bytes) = (order.word(head), order.half(&head[8..]) as usize);
        if bytes > MAX_NAME_BYTES {
            records.broken(format!("a name is longer than {MAX_NAME_BYTES} bytes"));
            break;
        }
        let Some(record) = records.exactly(12 + bytes)? else {
            break;
        };
        let name = record[12..].split(|&byte| byte == 0).next();
        visitor
            .name(DarshanRecordId(id), name.unwrap_or_default())
            .map_err(RecordFailure::Visitor)?;
        records.skip(12 + bytes);
        records.whole += 1;
    }
    records.finish("names", visitor)
}
