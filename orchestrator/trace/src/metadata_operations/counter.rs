//! The interface of a counter reader, and its results.

use super::kind::MetadataKind;
use std::collections::BTreeMap;

/// Cumulative counts at one moment, by source: a node, a mount, a brick, a server or a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterSnapshot {
    /// Name of the counter that was read.
    pub counter: &'static str,
    /// Counts by name of the source.
    pub sources: BTreeMap<String, SourceSnapshot>,
    /// Parts that could not be read or are uncertain; each is listed once.
    pub notes: Vec<String>,
}

impl CounterSnapshot {
    pub(super) fn source(&mut self, name: &str) -> &mut SourceSnapshot {
        if !self.sources.contains_key(name) {
            self.sources
                .insert(name.to_owned(), SourceSnapshot::default());
        }
        self.sources.entry(name.to_owned()).or_default()
    }

    pub(super) fn note(&mut self, text: &str) {
        if !self.notes.iter().any(|note| note == text) {
            self.notes.push(text.to_owned());
        }
    }
}

/// Cumulative counts of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSnapshot {
    /// Counts of metadata operations, by the names that the file system uses.
    pub native: BTreeMap<String, (MetadataKind, u64)>,
    /// Number of messages to metadata servers, if they are counted separately from operations.
    pub messages: Option<u64>,
    /// Time since the counter started, seconds, if recorded.
    pub age_s: Option<f64>,
    /// A number that changes when the counter or its server restarts, if recorded.
    pub generation: Option<u64>,
}

impl SourceSnapshot {
    pub(super) fn add(&mut self, native: &str, kind: MetadataKind, count: u64) {
        match self.native.get_mut(native) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => {
                self.native.insert(native.to_owned(), (kind, count));
            }
        }
    }
}

/// Options for reading counters.
#[derive(Clone, Debug, Default)]
pub struct CounterOptions {
    /// If set, only system calls on files below this directory are counted.
    pub under: Option<Vec<u8>>,
}

/// A reader of counts, in the format of one file system or tracer.
pub trait MetadataCounter: Sync {
    /// Returns the name used in tables and JSON.
    fn name(&self) -> &'static str;

    /// Returns whether a line identifies this format.
    fn recognises(&self, line: &[u8]) -> bool;

    /// Begins reading a text from the source with this name.
    fn begin(&self, source: &str, options: &CounterOptions) -> Box<dyn CounterLines>;
}

/// Receives the lines of a text.
pub trait CounterLines {
    /// Processes a line. Lines without counts are skipped.
    fn line(&mut self, line: &[u8]);

    /// Returns the counts.
    fn finish(self: Box<Self>) -> CounterSnapshot;
}

/// Returns a line as text; empty if it is not UTF-8.
pub(super) fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap_or_default().trim()
}
