//! The table of names.

use super::{
    records::{Failure, Outcome, Records},
    region::MAX_PEEK_BYTES,
    visitor::{DarshanRecordId, DarshanVisitor},
};
use std::io::{Read, Seek};

/// The longest name that is believed, in bytes; Darshan itself has paths of up to 4096.
const MAX_NAME_BYTES: usize = MAX_PEEK_BYTES / 2;

/// Reads names of a number and text up to a zero.
pub(super) fn read<R: Read + Seek>(
    mut records: Records<'_, R>,
    visitor: &mut impl DarshanVisitor,
) -> Outcome {
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
            visitor.name(id, &text[..end]).map_err(Failure::Visitor)?;
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

/// Reads names of a number, a length and text, as version 3.00 has them.
pub(super) fn read_with_lengths<R: Read + Seek>(
    mut records: Records<'_, R>,
    visitor: &mut impl DarshanVisitor,
) -> Outcome {
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
            .map_err(Failure::Visitor)?;
        records.skip(12 + bytes);
        records.whole += 1;
    }
    records.finish("names", visitor)
}
