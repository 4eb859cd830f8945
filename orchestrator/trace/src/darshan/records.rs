//! What all readers of regions share: their failures, and how they tell what is missing.

use super::{
    header::ByteOrder,
    region::{End, Region},
    visitor::DarshanVisitor,
};
use crate::sink::Missing;
use std::io::{self, Read, Seek};

/// Why reading ends.
pub(super) enum Failure {
    /// The system cannot read the log.
    Read(io::Error),
    /// The visitor cannot go on.
    Visitor(io::Error),
}

pub(super) type Outcome<T = ()> = Result<T, Failure>;

/// The records of a region, one after the other.
pub(super) struct Records<'a, R> {
    region: Region<'a, R>,
    pub(super) order: ByteOrder,
    /// What messages call the region.
    part: String,
    /// How many records were read whole.
    pub(super) whole: u64,
    /// What is wrong with the last record, although its bytes are there.
    problem: Option<String>,
}

impl<'a, R: Read + Seek> Records<'a, R> {
    pub(super) fn new(region: Region<'a, R>, order: ByteOrder, part: String) -> Self {
        Self {
            region,
            order,
            part,
            whole: 0,
            problem: None,
        }
    }

    /// The next bytes: at least `bytes`, or all that there are.
    #[inline]
    pub(super) fn peek(&mut self, bytes: usize) -> Outcome<&[u8]> {
        self.region.peek(bytes).map_err(Failure::Read)
    }

    /// The next `bytes`. `None`: there are fewer.
    #[inline]
    pub(super) fn exactly(&mut self, bytes: usize) -> Outcome<Option<&[u8]>> {
        Ok(self.peek(bytes)?.get(..bytes))
    }

    #[inline]
    pub(super) fn skip(&mut self, bytes: usize) {
        self.region.skip(bytes);
    }

    /// Goes past `bytes`, also many. Whether they were there.
    pub(super) fn pass(&mut self, bytes: u64) -> Outcome<bool> {
        self.region.pass(bytes).map_err(Failure::Read)
    }

    /// The next words. `None`: there are fewer.
    pub(super) fn words<const N: usize>(&mut self) -> Outcome<Option<[u64; N]>> {
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

    /// Tells of a record that cannot be true. After it no further record can be found.
    pub(super) fn broken(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Tells the visitor what is missing, after the last record that could be read whole.
    pub(super) fn finish(mut self, unit: &str, visitor: &mut impl DarshanVisitor) -> Outcome {
        let left = self.peek(1)?.len();
        let whole = self.whole;
        let problem = match (self.problem, self.region.end()) {
            (Some(problem), _) => problem,
            (None, None) | (None, Some(End::Whole)) if left == 0 => return Ok(()),
            (None, None | Some(End::Whole)) => "it ends within a record".to_owned(),
            (None, Some(End::CutOff(bytes))) => {
                format!("the file ends {bytes} bytes before it does; was it copied completely?")
            }
            (None, Some(End::Unfinished)) => {
                "its compressed data does not come to its end".to_owned()
            }
            (None, Some(End::Damaged(problem))) => format!("it cannot be inflated: {problem}"),
        };
        tell(
            visitor,
            &self.part,
            format!("after {whole} whole {unit}, {problem}"),
        )
    }
}

/// Tells the visitor what is missing.
pub(super) fn tell(visitor: &mut impl DarshanVisitor, part: &str, problem: String) -> Outcome {
    let part = part.to_owned();
    visitor
        .missing(&Missing { part, problem })
        .map_err(Failure::Visitor)
}
