//! Progress measured in bytes.

use crate::command::progress::Progress;
use cvc_delta::Source;
use std::{cell::Cell, path::Path};

const MIB: u64 = 1 << 20;

/// Counts bytes that are read or written, and shows the progress.
pub struct Bytes {
    progress: Progress,
    done: Cell<u64>,
    all: u64,
    of: &'static str,
}

impl Bytes {
    pub fn start(all: u64, of: &'static str) -> Self {
        Self {
            progress: Progress::start(),
            done: Cell::new(0),
            all,
            of,
        }
    }

    pub fn advance(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
        // a gzip'd image is longer than its file, so the count may exceed the total
        let all = (self.all / MIB).max(1);
        let done = (self.done.get() / MIB).min(all - 1);
        self.progress.report(done, all, self.of);
    }

    pub fn finish(self) {
        self.progress.report(1, 1, self.of);
    }
}

/// Returns the number of bytes in the files of the states. Files that cannot be listed are reported when they are read.
pub fn bytes_of(states: &[impl AsRef<Path>]) -> u64 {
    let listed = states
        .iter()
        .filter_map(|state| Source::list(state.as_ref()).ok());
    listed.map(|source| source.bytes()).sum()
}
