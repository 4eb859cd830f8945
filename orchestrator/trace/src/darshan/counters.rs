//! Reads the records of counters.

use super::{
    layout::{MAX_WORDS, RecordLayout, apply},
    module::DarshanModule,
    records::{ReadResult, RecordFailure, RecordReader, report},
    visitor::{DarshanCounters, DarshanRecordId, DarshanVisitor},
};
use std::io::{Read, Seek};

const MAX_FLOATS: usize = 32;
/// Index of the word with the number of `fopen` calls in the first version of POSIX records.
const FOPENS: usize = 8;

/// Reads all records of a region.
pub(super) fn read<R: Read + Seek>(
    mut records: RecordReader<'_, R>,
    layout: &RecordLayout,
    version: usize,
    source_words: usize,
    visitor: &mut impl DarshanVisitor,
) -> ReadResult {
    let (order, edits, base) = (records.order, layout.edits(version), layout.base());
    let (mut source, mut new) = ([0_u64; MAX_WORDS], [0_u64; MAX_WORDS]);
    let (mut ints, mut floats) = ([0_i64; MAX_WORDS], [0_f64; MAX_FLOATS]);
    let (n_ints, n_floats) = (layout.ints.len(), layout.floats.len());
    let counts_streams = layout.module == DarshanModule::Posix && version == 1;
    let mut mixed = 0_u64;
    while let Some(bytes) = records.exactly(source_words * 8)? {
        for (word, bytes) in source.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = order.word(bytes);
        }
        records.skip(source_words * 8);
        records.whole += 1;
        let words = if let Some(edits) = edits {
            apply(edits, &source[..source_words], &mut new);
            &new
        } else {
            &source
        };
        if counts_streams && source[FOPENS].cast_signed() > 0 {
            mixed += 1;
            continue;
        }
        for (int, word) in ints.iter_mut().zip(&words[base..base + n_ints]) {
            *int = word.cast_signed();
        }
        for (float, word) in floats.iter_mut().zip(&words[base + n_ints..]) {
            *float = f64::from_bits(*word);
        }
        let counters = DarshanCounters {
            module: layout.module,
            id: DarshanRecordId(words[0]),
            rank: words[1].cast_signed(),
            file: layout.of_file.then_some(DarshanRecordId(words[2])),
            int_names: layout.ints,
            ints: &ints[..n_ints],
            float_names: layout.floats,
            floats: &floats[..n_floats],
        };
        visitor
            .counters(&counters)
            .map_err(RecordFailure::Visitor)?;
    }
    records.finish("records", visitor)?;
    if mixed > 0 {
        let problem = format!(
            "{mixed} records are left out: this old version counts calls of POSIX and of streams together in them"
        );
        report(visitor, &layout.module.part(), problem)?;
    }
    Ok(())
}
