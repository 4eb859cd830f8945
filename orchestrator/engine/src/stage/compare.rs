//! Measures differences between the checkpoints of a series, before the next checkpoint overwrites them.

use super::checkpoint_stage::{NodePart, Stage, Taken, lost};
use crate::{
    crew::{self, CrewError},
    run::{Findings, LATER, RunContext, RunFailure, SOON},
};
use async_trait::async_trait;
use cvc_core::{
    outcome::Cause,
    record::{Source, names},
};
use cvc_delta::Matrix;
use cvc_delta_rules::{Method, MethodName, Threshold};
use cvc_image::{OwnerZone, Part};
use cvc_probe::sentinel::{CheckpointFiles, SeriesState};
use std::collections::BTreeMap;

/// The measured checkpoints. Their hashes are stored by the sentinels on the nodes that have the files.
pub(super) struct Compare<'r> {
    run: &'r RunContext,
    measured: Vec<Measured>,
    /// Whether the last checkpoint may be invalid, because its files could change while they were read.
    is_unconfirmed: bool,
}

impl<'r> Compare<'r> {
    /// Creates an empty series for a run.
    pub fn new(run: &'r RunContext) -> Self {
        Self {
            run,
            measured: Vec::new(),
            is_unconfirmed: false,
        }
    }

    /// Returns the valid checkpoints.
    fn confirmed(&self) -> &[Measured] {
        let unconfirmed = usize::from(self.is_unconfirmed);
        &self.measured[..self.measured.len() - unconfirmed]
    }
}

#[async_trait]
impl Stage for Compare<'_> {
    async fn after(&mut self, taken: &Taken) -> Result<(), RunFailure> {
        self.confirm(None);
        let (used, earlier) = (&self.run.used, self.measured.len());
        let number = u32::try_from(earlier + 1).unwrap_or(u32::MAX);
        let parts = taken.parts.iter();
        let parts = parts.map(|part| (part.node.clone(), part.files.clone()));
        let answers = used
            .crew
            .series(&used.marker, parts.collect(), number, LATER)
            .await;
        let states = crew::whole(answers).map_err(|error| not_compared(taken.number, &error))?;
        let mut measured = nothing(taken, earlier);
        for (_, state) in &states {
            put(&mut measured, state);
        }
        self.measured.push(measured);
        let of_program = |part: &NodePart| matches!(part.files, CheckpointFiles::Own { .. });
        self.is_unconfirmed = taken.parts.iter().any(of_program);
        Ok(())
    }

    fn confirm(&mut self, number: Option<u64>) {
        if !std::mem::take(&mut self.is_unconfirmed) {
            return;
        }
        match (number, self.measured.last_mut()) {
            (Some(number), Some(last)) => last.number = number,
            _ => drop(self.measured.pop()),
        }
    }

    /// Makes sentinels delete the hashes, because the restart needs the memory. A sentinel that does not answer has no hashes.
    async fn before_restart(&mut self) -> Result<Option<u64>, RunFailure> {
        let used = &self.run.used;
        let _ = used
            .crew
            .series_end(&used.places(), &used.marker, SOON)
            .await;
        Ok(None)
    }

    async fn finish(&mut self) -> Result<(), RunFailure> {
        self.before_restart().await.map(drop)
    }

    fn measure(&self, planned: u64, to: &mut Findings) {
        record(self.confirmed(), planned, to);
    }
}

/// Returns the measurements of a checkpoint before any of its files is read: zero bytes. `earlier` is the number of measured checkpoints before it.
fn nothing(taken: &Taken, earlier: usize) -> Measured {
    Measured {
        number: taken.number,
        at_s: taken.at_s,
        bytes: 0,
        changed: vec![0; earlier],
        parts: BTreeMap::new(),
        hash_s: 0.0,
    }
}

/// Adds the measurements of one node's files.
fn put(all: &mut Measured, node: &SeriesState) {
    all.bytes += node.bytes;
    for (sum, own) in all.changed.iter_mut().zip(&node.changed) {
        *sum += own;
    }
    if let Some(previous) = all.changed.len().checked_sub(1) {
        let since_first = (previous > 0).then_some((0, &node.since_first));
        let of_images = since_first
            .into_iter()
            .chain([(previous, &node.since_previous)])
            .filter(|_| node.has_parts);
        for (since, parts) in of_images {
            let sums = all.parts.entry(since).or_default();
            for (part, bytes) in parts {
                *sums.entry(*part).or_default() += bytes;
            }
        }
    }
    // nodes read concurrently: the slowest counts
    all.hash_s = all.hash_s.max(node.hash_s);
}

/// Returns the failure that a checkpoint was not compared. A node that merely needs too long for reading is not lost.
fn not_compared(number: u64, error: &CrewError) -> RunFailure {
    let what = format!("the changes up to checkpoint {number} are unknown");
    if let CrewError::Timeout { host, limit_s, .. } = error {
        return RunFailure::new(
            Cause::Checkpoint,
            format!(
                "{what}: {host} was still reading and hashing its images after {limit_s} s: choose a faster storage area, a smaller workload or more nodes, or \
                 write `compare = false` in the moment"
            ),
        );
    }
    let mut failure = lost(error);
    failure.detail = format!("{what}: {}", failure.detail);
    failure
}

/// Maximum number of files needed to restore a state with [`MethodName::Bounded`].
const BOUNDED_FILES: u32 = 3;

/// Returns a method with its default threshold.
pub(super) fn method(name: MethodName) -> Method {
    name.with(Threshold::DEFAULT, BOUNDED_FILES)
}

/// Bytes that changed since an earlier checkpoint, by part; parts without changes are left out.
type ByPart = BTreeMap<Part, u64>;

/// Measurements of a checkpoint.
#[derive(Debug)]
struct Measured {
    /// Number among the checkpoints of the run, from 1. Checkpoints whose numbers are missing were not measured.
    pub number: u64,
    /// Time of the request, seconds since the program began to compute. For a checkpoint that the program writes by itself: when cvc began to read
    /// its files, seconds since the program's start.
    pub at_s: f64,
    /// Size of the part of the checkpoint that can change, bytes.
    pub bytes: u64,
    /// Bytes changed since each earlier measured checkpoint, in the order of the series.
    pub changed: Vec<u64>,
    /// Bytes changed since the previous and since the first measured checkpoint, by the index of that earlier checkpoint in the series.
    pub parts: BTreeMap<usize, ByPart>,
    /// Time to read and hash the checkpoint, seconds.
    pub hash_s: f64,
}

/// Returns the differences between all measured checkpoints.
fn matrix(all: &[Measured]) -> Matrix {
    Matrix::new(
        all.iter().map(|m| m.at_s).collect(),
        all.iter().map(|m| m.bytes).collect(),
        all.iter().map(|m| m.changed.clone()).collect(),
    )
}

/// Records the measurements of a series with `planned` planned checkpoints, and the bytes that each method would store for it.
fn record(all: &[Measured], planned: u64, to: &mut Findings) {
    record_count(all.len(), planned, to);
    if all.is_empty() {
        return;
    }
    let (clock, images) = (Source::Clock, Source::Image);
    let number = |t: usize| all.get(t).map_or(0, |m| m.number).to_string();
    for measured in all {
        let ckpt = ("ckpt", measured.number.to_string());
        let own = std::slice::from_ref(&ckpt);
        to.seconds(names::SERIES_AT_S, measured.at_s, clock, own);
        to.seconds(names::SERIES_HASH_S, measured.hash_s, clock, own);
        let bytes = measured.bytes as f64;
        to.bytes(names::SERIES_BYTES, bytes, images, own);
        for (since, changed) in measured.changed.iter().enumerate() {
            let labels = [ckpt.clone(), ("since", number(since))];
            let name = names::SERIES_CHANGED_BYTES;
            to.bytes(name, *changed as f64, images, &labels);
        }
        for (since, parts) in &measured.parts {
            let mut zones: BTreeMap<&str, u64> =
                OwnerZone::ALL.iter().map(|z| (z.as_str(), 0)).collect();
            let since = ("since", number(*since));
            for (part, changed) in parts {
                *zones.entry(part.zone().as_str()).or_default() += changed;
                let part = ("part", part.as_str().to_owned());
                let labels = [ckpt.clone(), since.clone(), part];
                let name = names::SERIES_PART_CHANGED_BYTES;
                to.bytes(name, *changed as f64, images, &labels);
            }
            for (zone, changed) in zones {
                let labels = [
                    ckpt.clone(),
                    since.clone(),
                    ("zone", zone.to_owned()),
                    ("rule", "owner".to_owned()),
                ];
                let name = names::SERIES_ZONE_CHANGED_BYTES;
                to.bytes(name, changed as f64, images, &labels);
            }
        }
    }
    record_methods(all, to);
}

/// Records how many of the `planned` checkpoints a series has.
fn record_count(taken: usize, planned: u64, to: &mut Findings) {
    to.count(
        names::SERIES_CHECKPOINTS,
        taken as f64,
        Source::Clock,
        &[("planned", planned.to_string())],
    );
}

fn record_methods(all: &[Measured], to: &mut Findings) {
    let matrix = matrix(all);
    let images = Source::Image;
    for of in MethodName::ALL {
        let choices = matrix.choices(method(of));
        let label = ("method", of.as_str().to_owned());
        for (measured, choice) in all.iter().zip(&choices) {
            let base = choice.base.and_then(|base| all.get(base));
            let labels = [
                ("ckpt", measured.number.to_string()),
                label.clone(),
                ("base", base.map_or(0, |base| base.number).to_string()),
            ];
            let stored = choice.bytes as f64;
            to.bytes(names::SERIES_STORED_BYTES, stored, images, &labels);
        }
        let total: u64 = choices.iter().map(|c| c.bytes).sum();
        let files = choices.iter().map(|c| c.files).max().unwrap_or(0);
        let own = std::slice::from_ref(&label);
        let name = names::SERIES_TOTAL_BYTES;
        to.bytes(name, total as f64, images, own);
        let name = names::SERIES_RESTORE_FILES;
        to.count(name, f64::from(files), images, own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::ids::RunId;

    /// Returns three checkpoints of 100 bytes. 10 bytes change every time; each checkpoint changes 20 further bytes for good.
    fn series() -> [Measured; 3] {
        let of = |number, changed| Measured {
            number,
            at_s: number as f64,
            bytes: 100,
            changed,
            parts: BTreeMap::new(),
            hash_s: 0.1,
        };
        [of(1, vec![]), of(2, vec![30]), of(3, vec![50, 30])]
    }

    #[test]
    fn a_series_shows_the_size_of_each_method() {
        let mut findings = Findings::new(RunId::of(b"r"));
        record(&series(), 5, &mut findings);
        let of = |name: &str, labels: &[(&str, &str)]| {
            let found = findings.records.iter().find(|r| {
                r.name == name
                    && labels
                        .iter()
                        .all(|(k, v)| r.labels.get(*k).is_some_and(|found| found == v))
            });
            found
                .unwrap_or_else(|| panic!("no {name} {labels:?}"))
                .value
        };
        let taken = of(names::SERIES_CHECKPOINTS, &[("planned", "5")]);
        assert!((taken - 3.0).abs() < f64::EPSILON);
        let totals =
            MethodName::ALL.map(|m| of(names::SERIES_TOTAL_BYTES, &[("method", m.as_str())]));
        // 50 is not more than twice 30: ADCA keeps its base
        assert_eq!(totals, [300.0, 160.0, 180.0, 180.0, 180.0]);
        let labels = [("ckpt", "3"), ("method", "incremental"), ("base", "2")];
        assert_eq!(of(names::SERIES_STORED_BYTES, &labels), 30.0);
        let changed = of(
            names::SERIES_CHANGED_BYTES,
            &[("ckpt", "3"), ("since", "1")],
        );
        assert_eq!(changed, 50.0);
        assert_eq!(
            of(names::SERIES_RESTORE_FILES, &[("method", "incremental")]),
            3.0
        );
        assert_eq!(of(names::SERIES_RESTORE_FILES, &[("method", "full")]), 1.0);
    }

    #[test]
    fn a_checkpoint_that_was_not_measured_leaves_a_gap() {
        let mut series = series();
        series[2].number = 4;
        let mut findings = Findings::new(RunId::of(b"r"));
        record(&series, 4, &mut findings);
        let labels = |name: &str, of: [&str; 2]| -> Vec<[String; 2]> {
            let found = findings.records.iter().filter(|r| r.name == name);
            let is_incremental = |r: &&cvc_core::record::Record| {
                r.labels.get("method").is_none_or(|m| m == "incremental")
            };
            found
                .filter(is_incremental)
                .map(|r| of.map(|label| r.labels.get(label).cloned().unwrap_or_default()))
                .collect()
        };
        let pairs = |all: &[[&str; 2]]| -> Vec<[String; 2]> {
            all.iter().map(|pair| pair.map(str::to_owned)).collect()
        };
        assert_eq!(
            labels(names::SERIES_CHANGED_BYTES, ["ckpt", "since"]),
            pairs(&[["2", "1"], ["4", "1"], ["4", "2"]])
        );
        assert_eq!(
            labels(names::SERIES_STORED_BYTES, ["ckpt", "base"]),
            pairs(&[["1", "0"], ["2", "1"], ["4", "2"]])
        );
    }

    #[test]
    fn a_node_that_hashes_too_long_is_not_lost() {
        let timeout = CrewError::Timeout {
            host: "n2".into(),
            request: "series",
            limit_s: 1800.0,
        };
        let failure = not_compared(3, &timeout);
        assert_eq!(failure.cause, Cause::Checkpoint);
        for part in ["checkpoint 3", "n2", "1800 s", "`compare = false`"] {
            assert!(failure.detail.contains(part), "{}", failure.detail);
        }
        let gone = CrewError::Lost {
            host: "n2".into(),
            reason: "silent".into(),
        };
        assert_eq!(not_compared(3, &gone).cause, Cause::NodeLost);
    }

    #[test]
    fn sizes_of_several_nodes_are_added_and_their_times_are_not() {
        let node = |bytes, since_first, since_previous, hash_s| SeriesState {
            bytes,
            changed: vec![since_first, since_previous],
            since_first: [(Part::Heap, since_first)].into(),
            since_previous: [(Part::Heap, since_previous), (Part::Files, 1)].into(),
            hash_s,
            has_parts: true,
        };
        let taken = Taken {
            number: 3,
            at_s: 1.0,
            parts: Vec::new(),
        };
        let mut all = nothing(&taken, 2);
        put(&mut all, &node(100, 30, 20, 0.5));
        put(&mut all, &node(200, 50, 10, 0.25));
        assert_eq!((all.bytes, all.changed.as_slice()), (300, &[80, 30][..]));
        assert_eq!(all.parts[&0], [(Part::Heap, 80)].into());
        assert_eq!(all.parts[&1], [(Part::Heap, 30), (Part::Files, 2)].into());
        assert_eq!(all.hash_s, 0.5);
    }
}
