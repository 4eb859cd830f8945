//! Shared by all readers of regions: reading failures, and reports of missing parts.

use super::{
    header::ByteOrder,
    region::{LogRegion, RegionEnd},
    visitor::DarshanVisitor,
};
use crate::sink::Missing;
use std::io::{self, Read, Seek};

/// Why reading stops.
pub(super) enum RecordFailure {
    /// The system cannot read the log.
    Read(io::Error),
    /// The visitor fails.
    Visitor(io::Error),
}

pub(super) type ReadResult<T = ()> = Result<T, RecordFailure>;

/// Reads the records of a region one after another.
pub(super) struct RecordReader<'a, R> {
    region: LogRegion<'a, R>,
    pub(super) order: ByteOrder,
    /// Name of the region for messages.
    part: String,
    /// Number of records that were read completely.
    pub(super) whole: u64,
    /// What is wrong with the last record, if its bytes are present but invalid.
    problem: Option<String>,
}

impl<'a, R: Read + Seek> RecordReader<'a, R> {
    pub(super) fn new(region: LogRegion<'a, R>, order: ByteOrder, part: String) -> Self {
        Self {
            region,
            order,
            part,
            whole: 0,
            problem: None,
        }
    }

    /// Returns the next bytes without consuming them: at least `bytes`, or all that remain.
    #[inline]
    pub(super) fn peek(&mut self, bytes: usize) -> ReadResult<&[u8]> {
        self.region.peek(bytes).map_err(RecordFailure::Read)
    }

    /// Returns exactly the next `bytes` bytes without consuming them. `None`: fewer remain.
    #[inline]
    pub(super) fn exactly(&mut self, bytes: usize) -> ReadResult<Option<&[u8]>> {
        Ok(self.peek(bytes)?.get(..bytes))
    }

    #[inline]
    pub(super) fn skip(&mut self, bytes: usize) {
        self.region.skip(bytes);
    }

    /// Skips `bytes` bytes. Returns whether they were present.
    pub(super) fn pass(&mut self, bytes: u64) -> ReadResult<bool> {
        self.region.pass(bytes).map_err(RecordFailure::Read)
    }

    /// Reads the next words. `None`: fewer remain.
    pub(super) fn words<const N: usize>(&mut self) -> ReadResult<Option<[u64; N]>> {
        let order = self.order;
        let Some(bytes) = self.exactly(N * 8)? else {
            return Ok(None);
        };
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = order.word(bytes);
        }
        self.skip(N * 8);
        Ok(Some(words))
    }

    /// Records that the last record is invalid. The position of the next record is then unknown, so reading stops.
    pub(super) fn broken(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Reports to the visitor what is missing after the last complete record, if anything.
    pub(super) fn finish(mut self, unit: &str, visitor: &mut impl DarshanVisitor) -> ReadResult {
        let left = self.peek(1)?.len();
        let whole = self.whole;
        let problem = match (self.problem, self.region.end()) {
            (Some(problem), _) => problem,
            (None, None) | (None, Some(RegionEnd::Whole)) if left == 0 => return Ok(()),
            (None, None | Some(RegionEnd::Whole)) => "it ends within a record".to_owned(),
            (None, Some(RegionEnd::CutOff(bytes))) => {
                format!("the file ends {bytes} bytes before it does; was it copied completely?")
            }
            (None, Some(RegionEnd::Unfinished)) => {
                "its compressed data does not come to its end".to_owned()
            }
            (None, Some(RegionEnd::Damaged(problem))) => {
                format!("it cannot be inflated: {problem}")
            }
        };
        report(
            visitor,
            &self.part,
            format!("after {whole} whole {unit}, {problem}"),
        )
    }
}

/// Reports a missing part to the visitor.
pub(super) fn report(visitor: &mut impl DarshanVisitor, part: &str, problem: String) -> ReadResult {
    let part = part.to_owned();
    visitor
        .missing(&Missing { part, problem })
        .map_err(RecordFailure::Visitor)
}
