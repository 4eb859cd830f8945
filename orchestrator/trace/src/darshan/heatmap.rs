//! Reads heat maps: bytes moved over time.

use super::{
    records::{ReadResult, RecordFailure, RecordReader},
    visitor::{DarshanHeatmap, DarshanRecordId, DarshanVisitor},
};
use crate::event::Op;
use std::io::{Read, Seek};

/// Reads all records of a region.
pub(super) fn read<R: Read + Seek>(
    mut records: RecordReader<'_, R>,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult {
    let (mut first_width, mut first_bins) = (0.0, 0);
    // the last two words are memory addresses of the run and are ignored
    while let Some([id, rank, width, bins, _, _]) = records.words()? {
        let width = f64::from_bits(width);
        let Ok(bins) = u64::try_from(bins.cast_signed()) else {
            let problem = format!("a record claims {} bins", bins.cast_signed());
            records.broken(problem);
            break;
        };
        if first_bins == 0 {
            first_bins = bins;
        }
        if first_width == 0.0 {
            first_width = width;
        }
        let off_by_one = width == first_width && bins.abs_diff(first_bins) == 1;
        let heatmap = DarshanHeatmap {
            id: DarshanRecordId(id),
            rank: rank.cast_signed(),
            bin_width_s: width,
            bins: if off_by_one { first_bins } else { bins },
        };
        visitor
            .heatmap_record(&heatmap)
            .map_err(RecordFailure::Visitor)?;
        let whole = pass_on(&mut records, &heatmap, Op::Write, bins, visitor)?
            && pass_on(&mut records, &heatmap, Op::Read, bins, visitor)?;
        if !whole {
            break;
        }
        records.whole += 1;
    }
    records.finish("records", visitor)
}

/// Passes the bins of writes or reads to the visitor; the log has `bins` of them. Returns whether all are present.
fn pass_on<R: Read + Seek>(
    records: &mut RecordReader<'_, R>,
    heatmap: &DarshanHeatmap,
    op: Op,
    bins: u64,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult<bool> {
    let mut bin = |index: u64, bytes: i64| {
        if index < heatmap.bins {
            visitor
                .heatmap_bin(heatmap, op, index, bytes)
                .map_err(RecordFailure::Visitor)
        } else {
            Ok(())
        }
    };
    for index in 0..bins {
        let Some([bytes]) = records.words()? else {
            return Ok(false);
        };
        bin(index, bytes.cast_signed())?;
    }
    for index in bins..heatmap.bins {
        bin(index, 0)?;
    }
    Ok(true)
}
