//! Computes counts between two moments.

use super::{
    counter::{CounterSnapshot, SourceSnapshot},
    kind::MetadataKind,
};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

impl Serialize for MetadataKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}

/// Counts of a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceCounts {
    /// The node, mount, brick, server or task.
    pub source: String,
    /// Why the counts are unknown; null if they are known.
    pub unknown: Option<String>,
    /// Counts by kind.
    pub kinds: BTreeMap<MetadataKind, u64>,
    /// Counts by the names that the file system uses.
    pub native: BTreeMap<String, NativeCount>,
    /// Number of messages to metadata servers; null if they are not counted.
    pub messages: Option<u64>,
}

/// A count under the name that the file system uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NativeCount {
    /// The kind that it belongs to.
    pub kind: MetadataKind,
    /// The count.
    pub count: u64,
}

/// A kind of operation with its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountedKind {
    /// The kind.
    pub kind: MetadataKind,
    /// Sum over all sources; null if unknown.
    pub count: Option<u64>,
}

/// Counts of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetadataCounts {
    /// Name of the counter.
    pub counter: &'static str,
    /// Counts of all kinds, including those that are 0.
    pub kinds: Vec<CountedKind>,
    /// Sum over all kinds; null if unknown.
    pub total: Option<u64>,
    /// Number of messages to metadata servers; null if unknown or not counted.
    pub messages: Option<u64>,
    /// Counts by source.
    pub sources: Vec<SourceCounts>,
    /// Notes about uncertain counts.
    pub notes: Vec<String>,
}

/// Snapshots before and after a period in which the file system was idle. The counts of this period are subtracted from those of a run.
pub type Idle<'a> = (&'a CounterSnapshot, &'a CounterSnapshot);

/// Returns the counts since the counters started.
pub fn since_start(at: &CounterSnapshot) -> MetadataCounts {
    let sources = at
        .sources
        .iter()
        .map(|(name, source)| subtract(name, &SourceSnapshot::default(), source));
    sum(at.counter, sources.collect(), at.notes.clone())
}

/// Returns the counts from `before` to `after`, minus the counts that an idle file system would have in that time.
pub fn difference(
    before: &CounterSnapshot,
    after: &CounterSnapshot,
    idle: Option<Idle<'_>>,
) -> MetadataCounts {
    let names: BTreeSet<&String> = before.sources.keys().chain(after.sources.keys()).collect();
    let mut sources: Vec<SourceCounts> = names
        .into_iter()
        .map(|name| between(name, before, after))
        .collect();
    let mut notes = after.notes.clone();
    if let Some((first, second)) = idle {
        for source in &mut sources {
            take_off(source, &between(&source.source, first, second), &mut notes);
        }
    }
    sum(after.counter, sources, notes)
}

fn unknown(name: &str, why: &str) -> SourceCounts {
    SourceCounts {
        source: name.to_owned(),
        unknown: Some(why.to_owned()),
        kinds: BTreeMap::new(),
        native: BTreeMap::new(),
        messages: None,
    }
}

fn between(name: &str, before: &CounterSnapshot, after: &CounterSnapshot) -> SourceCounts {
    match (before.sources.get(name), after.sources.get(name)) {
        (Some(first), Some(last)) => {
            let is_younger =
                (first.age_s.zip(last.age_s)).is_some_and(|(first, last)| last < first);
            if is_younger || first.generation != last.generation {
                return unknown(name, "its counter or server restarted in between");
            }
            subtract(name, first, last)
        }
        (Some(_), None) => unknown(name, "it has no counts from after the run: it may be lost"),
        (None, _) => unknown(name, "it has no counts from before the run"),
    }
}

fn subtract(name: &str, first: &SourceSnapshot, last: &SourceSnapshot) -> SourceCounts {
    let anew = || {
        unknown(
            name,
            "its counts became smaller: its counter or server restarted",
        )
    };
    let mut counts = SourceCounts {
        source: name.to_owned(),
        unknown: None,
        kinds: BTreeMap::new(),
        native: BTreeMap::new(),
        messages: None,
    };
    if first
        .native
        .keys()
        .any(|native| !last.native.contains_key(native))
    {
        return anew();
    }
    for (native, (kind, after)) in &last.native {
        let before = first.native.get(native).map_or(0, |(_, count)| *count);
        let Some(count) = after.checked_sub(before) else {
            return anew();
        };
        let sum: &mut u64 = counts.kinds.entry(*kind).or_default();
        *sum = sum.saturating_add(count);
        counts
            .native
            .insert(native.clone(), NativeCount { kind: *kind, count });
    }
    if let Some(after) = last.messages {
        match after.checked_sub(first.messages.unwrap_or(0)) {
            Some(messages) => counts.messages = Some(messages),
            None => return anew(),
        }
    }
    counts
}

/// Subtracts the idle counts of a source.
fn take_off(from: &mut SourceCounts, idle: &SourceCounts, notes: &mut Vec<String>) {
    if from.unknown.is_some() {
        return;
    }
    if let Some(why) = &idle.unknown {
        notes.push(format!(
            "the idle counts of {} are unknown: {why}",
            from.source
        ));
        return;
    }
    let mut more = false;
    let mut less = |count: &mut u64, idle: u64| {
        more |= idle > *count;
        *count = count.saturating_sub(idle);
    };
    for (kind, count) in &mut from.kinds {
        less(count, idle.kinds.get(kind).copied().unwrap_or(0));
    }
    for (name, of) in &mut from.native {
        less(
            &mut of.count,
            idle.native.get(name).map_or(0, |of| of.count),
        );
    }
    if let (Some(messages), Some(idle)) = (&mut from.messages, idle.messages) {
        less(messages, idle);
    }
    if more {
        notes.push(format!(
            "{} counted more when idle than in the run: give idle counts over a time as long as the run",
            from.source
        ));
    }
}

fn sum(counter: &'static str, sources: Vec<SourceCounts>, notes: Vec<String>) -> MetadataCounts {
    let is_known = sources.iter().all(|source| source.unknown.is_none());
    let of = |kind: &MetadataKind| {
        let counts = sources.iter().filter_map(|source| source.kinds.get(kind));
        counts.fold(0_u64, |sum, count| sum.saturating_add(*count))
    };
    let kinds: Vec<CountedKind> = MetadataKind::ALL
        .iter()
        .map(|kind| CountedKind {
            kind: *kind,
            count: is_known.then(|| of(kind)),
        })
        .collect();
    let total = kinds
        .iter()
        .map(|of| of.count)
        .try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)));
    let messages = sources
        .iter()
        .map(|source| source.messages)
        .try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)));
    MetadataCounts {
        counter,
        kinds,
        total,
        messages: messages.filter(|_| !sources.is_empty()),
        sources,
        notes,
    }
}
