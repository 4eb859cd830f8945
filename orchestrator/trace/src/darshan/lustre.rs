//! Reads the striping of files on Lustre.

use super::{
    records::{ReadResult, RecordFailure, RecordReader},
    visitor::{DarshanLustre, DarshanLustreComponent, DarshanRecordId, DarshanVisitor},
};
use std::io::{Read, Seek};

const COMPONENT_BYTES: usize = 72;

/// Reads all records of a region in a version with components.
pub(super) fn read<R: Read + Seek>(
    mut records: RecordReader<'_, R>,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult {
    while let Some([id, rank, components, stripes]) = records.words()? {
        let counts = [components, stripes].map(|count| u64::try_from(count.cast_signed()));
        let [Ok(components), Ok(stripes)] = counts else {
            records.broken("a record claims a negative number of components or stripes".to_owned());
            break;
        };
        let file = file_of(id, rank);
        visitor
            .lustre_record(&file)
            .map_err(RecordFailure::Visitor)?;
        // without components Darshan writes no storage targets
        if components > 0 {
            let Some(used) = pass_on_components(&mut records, &file, components, visitor)? else {
                break;
            };
            let used = used.min(stripes);
            if !pass_on_targets(&mut records, &file, used, visitor)?
                || !records.pass((stripes - used).saturating_mul(8))?
            {
                break;
            }
        }
        records.whole += 1;
    }
    records.finish("records", visitor)
}

/// Reads all records of a region of version 1, which has one component per file and fewer fields.
pub(super) fn read_v1<R: Read + Seek>(
    mut records: RecordReader<'_, R>,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult {
    while let Some([id, rank, _, _, _, stripe_size, stripes]) = records.words()? {
        let Ok(targets) = u64::try_from(stripes.cast_signed()) else {
            records.broken("a record claims a negative number of stripes".to_owned());
            break;
        };
        let file = file_of(id, rank);
        let component = DarshanLustreComponent {
            stripe_size: stripe_size.cast_signed(),
            stripe_count: stripes.cast_signed(),
            stripe_pattern: -1,
            flags: -1,
            extent_start: 0,
            extent_end: -1,
            mirror_id: -1,
            pool: Vec::new(),
        };
        visitor
            .lustre_record(&file)
            .map_err(RecordFailure::Visitor)?;
        visitor
            .lustre_component(&file, &component)
            .map_err(RecordFailure::Visitor)?;
        if !pass_on_targets(&mut records, &file, targets, visitor)? {
            break;
        }
        records.whole += 1;
    }
    records.finish("records", visitor)
}

fn file_of(id: u64, rank: u64) -> DarshanLustre {
    DarshanLustre {
        id: DarshanRecordId(id),
        rank: rank.cast_signed(),
    }
}

/// Passes the components in use to the visitor. Returns the sum of their stripe counts. `None`: some components are missing.
fn pass_on_components<R: Read + Seek>(
    records: &mut RecordReader<'_, R>,
    file: &DarshanLustre,
    components: u64,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult<Option<u64>> {
    let (order, mut used, mut unused) = (records.order, 0_u64, false);
    for _ in 0..components {
        let Some(bytes) = records.exactly(COMPONENT_BYTES)? else {
            return Ok(None);
        };
        let field = |at: usize| order.integer(&bytes[at * 8..]);
        let pool = bytes[56..].split(|&byte| byte == 0).next();
        let component = DarshanLustreComponent {
            stripe_size: field(0),
            stripe_count: field(1),
            stripe_pattern: field(2),
            flags: field(3),
            extent_start: field(4),
            extent_end: field(5),
            mirror_id: field(6),
            pool: pool.unwrap_or_default().to_vec(),
        };
        records.skip(COMPONENT_BYTES);
        // the first component without a stripe size and all after it are unused
        unused |= component.stripe_size == -1;
        if !unused {
            used = used.saturating_add(u64::try_from(component.stripe_count).unwrap_or(0));
            visitor
                .lustre_component(file, &component)
                .map_err(RecordFailure::Visitor)?;
        }
    }
    Ok(Some(used))
}

/// Passes the numbers of the storage targets to the visitor. Returns whether all are present.
fn pass_on_targets<R: Read + Seek>(
    records: &mut RecordReader<'_, R>,
    file: &DarshanLustre,
    targets: u64,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult<bool> {
    for _ in 0..targets {
        let Some([target]) = records.words()? else {
            return Ok(false);
        };
        visitor
            .lustre_target(file, target.cast_signed())
            .map_err(RecordFailure::Visitor)?;
    }
    Ok(true)
}
