//! A series of checkpoints: what differs between them, measured before the next one overwrites them.

use super::{
    deltas::{Deltas, method},
    dmtcp_run::DmtcpRun,
    images::lost,
};
use crate::{
    crew,
    run::{Findings, LATER, RunFailure, SOON},
};
use cvc_core::{
    campaign::DeltaMethod,
    record::{Source, Unit, names},
};
use cvc_delta::Matrix;
use cvc_image::{OwnerZone, Part};
use cvc_probe::sentinel::SeriesState;
use std::collections::BTreeMap;

/// Methods that a series is told for.
const METHODS: [DeltaMethod; 5] = [
    DeltaMethod::Full,
    DeltaMethod::Incremental,
    DeltaMethod::Differential,
    DeltaMethod::Adca,
    DeltaMethod::Bounded,
];

/// Bytes that changed since an earlier checkpoint, by part, without parts that did not.
type ByPart = BTreeMap<Part, u64>;

/// What was measured of a checkpoint.
#[derive(Debug)]
struct Measured {
    at_s: f64,
    bytes: u64,
    /// Since each earlier one.
    changed: Vec<u64>,
    /// Since the one before and since the first, by its place in the series.
    parts: BTreeMap<usize, ByPart>,
    hash_s: f64,
}

impl Measured {
    /// Of a checkpoint after so many others.
    fn new(at_s: f64, earlier: usize) -> Self {
        Self {
            at_s,
            bytes: 0,
            changed: vec![0; earlier],
            parts: BTreeMap::new(),
            hash_s: 0.0,
        }
    }

    /// Adds what was measured of the images of a node.
    fn put(&mut self, node: &SeriesState) {
        self.bytes += node.bytes;
        for (all, own) in self.changed.iter_mut().zip(&node.changed) {
            *all += own;
        }
        if let Some(previous) = self.changed.len().checked_sub(1) {
            let since_first = (previous > 0).then_some((0, &node.since_first));
            for (since, parts) in since_first
                .into_iter()
                .chain([(previous, &node.since_previous)])
            {
                let all = self.parts.entry(since).or_default();
                for (part, bytes) in parts {
                    *all.entry(*part).or_default() += bytes;
                }
            }
        }
        // nodes read side by side
        self.hash_s = self.hash_s.max(node.hash_s);
    }
}

/// The checkpoints of a run that were measured. Their hashes are where their images lie: with the sentinels of the nodes.
#[derive(Debug, Default)]
pub(super) struct Series {
    measured: Vec<Measured>,
    /// The checkpoints themselves, as deltas, if they are stored.
    pub deltas: Option<Deltas>,
}

impl Series {
    /// A series of which no checkpoint was taken yet.
    pub fn new(deltas: Option<Deltas>) -> Self {
        Self {
            deltas,
            ..Self::default()
        }
    }

    /// Measures the checkpoint that lies in the run's directories of images, which was asked for at `at_s` seconds of computation: on all nodes
    /// that have images of their own, side by side.
    ///
    /// # Errors
    /// When its images cannot be read.
    pub async fn add(&mut self, of: &DmtcpRun<'_>, at_s: f64) -> Result<(), RunFailure> {
        let number = self.measured.len() + 1;
        let used = &of.run.used;
        let dir = of.layout.ckptdir.as_std_path();
        let ckpt = u32::try_from(number).unwrap_or(u32::MAX);
        let answers = used
            .crew
            .series(&used.places(), &used.marker, dir, ckpt, LATER)
            .await;
        let states = crew::whole(answers).map_err(|error| {
            let mut failure = lost(error);
            failure.detail = format!(
                "what changed until checkpoint {number} cannot be told: {}",
                failure.detail
            );
            failure
        })?;
        let mut measured = Measured::new(at_s, number - 1);
        for (_, state) in &states {
            measured.put(state);
        }
        self.measured.push(measured);
        Ok(())
    }

    /// Lets sentinels forget the hashes of the checkpoints. One that does not answer has nothing to forget.
    pub async fn forget(&self, of: &DmtcpRun<'_>) {
        let used = &of.run.used;
        let _ = used
            .crew
            .series_end(&used.places(), &used.marker, SOON)
            .await;
    }

    /// What was measured, as differences between all of them.
    fn matrix(&self) -> Matrix {
        Matrix::new(
            self.measured.iter().map(|m| m.at_s).collect(),
            self.measured.iter().map(|m| m.bytes).collect(),
            self.measured.iter().map(|m| m.changed.clone()).collect(),
        )
    }

    /// Records what was measured of a series of so many planned checkpoints, and what each method would store of it.
    pub fn record(&self, planned: u32, to: &mut Findings) {
        if self.measured.is_empty() {
            return;
        }
        let labels = [("planned", planned.to_string())];
        let taken = self.measured.len() as f64;
        let (clock, images) = (Source::Clock, Source::Image);
        to.record(
            names::SERIES_CHECKPOINTS,
            taken,
            Unit::Count,
            clock,
            None,
            &labels,
        );
        for (t, measured) in self.measured.iter().enumerate() {
            let ckpt = ("ckpt", (t + 1).to_string());
            let own = std::slice::from_ref(&ckpt);
            to.record(
                names::SERIES_AT_S,
                measured.at_s,
                Unit::Seconds,
                clock,
                None,
                own,
            );
            to.record(
                names::SERIES_HASH_S,
                measured.hash_s,
                Unit::Seconds,
                clock,
                None,
                own,
            );
            let bytes = measured.bytes as f64;
            to.record(names::SERIES_BYTES, bytes, Unit::Bytes, images, None, own);
            for (since, changed) in measured.changed.iter().enumerate() {
                let labels = [ckpt.clone(), ("since", (since + 1).to_string())];
                let name = names::SERIES_CHANGED_BYTES;
                to.record(name, *changed as f64, Unit::Bytes, images, None, &labels);
            }
            for (since, parts) in &measured.parts {
                let mut zones: BTreeMap<&str, u64> =
                    OwnerZone::ALL.iter().map(|z| (z.as_str(), 0)).collect();
                let since = ("since", (since + 1).to_string());
                for (part, changed) in parts {
                    *zones.entry(part.zone().as_str()).or_default() += changed;
                    let part = ("part", part.as_str().to_owned());
                    let labels = [ckpt.clone(), since.clone(), part];
                    let name = names::SERIES_PART_CHANGED_BYTES;
                    to.record(name, *changed as f64, Unit::Bytes, images, None, &labels);
                }
                for (zone, changed) in zones {
                    let labels = [
                        ckpt.clone(),
                        since.clone(),
                        ("zone", zone.to_owned()),
                        ("rule", "owner".to_owned()),
                    ];
                    let name = names::SERIES_ZONE_CHANGED_BYTES;
                    to.record(name, changed as f64, Unit::Bytes, images, None, &labels);
                }
            }
        }
        self.record_methods(to);
        if let Some(deltas) = &self.deltas {
            deltas.record(to);
        }
    }

    fn record_methods(&self, to: &mut Findings) {
        let matrix = self.matrix();
        let images = Source::Image;
        for of in METHODS {
            let choices = matrix.choices(method(of));
            let label = ("method", of.as_str().to_owned());
            for (t, choice) in choices.iter().enumerate() {
                let labels = [
                    ("ckpt", (t + 1).to_string()),
                    label.clone(),
                    ("base", choice.base.map_or(0, |base| base + 1).to_string()),
                ];
                let stored = choice.bytes as f64;
                to.record(
                    names::SERIES_STORED_BYTES,
                    stored,
                    Unit::Bytes,
                    images,
                    None,
                    &labels,
                );
            }
            let total: u64 = choices.iter().map(|c| c.bytes).sum();
            let files = choices.iter().map(|c| c.files).max().unwrap_or(0);
            let own = std::slice::from_ref(&label);
            let name = names::SERIES_TOTAL_BYTES;
            to.record(name, total as f64, Unit::Bytes, images, None, own);
            let name = names::SERIES_RESTORE_FILES;
            to.record(name, f64::from(files), Unit::Count, images, None, own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::ids::RunId;

    /// Three checkpoints of 100 bytes: 10 change always, and 20 more are left behind by each.
    fn series() -> Series {
        let of = |at_s, changed| Measured {
            at_s,
            bytes: 100,
            changed,
            parts: BTreeMap::new(),
            hash_s: 0.1,
        };
        Series {
            measured: vec![of(1.0, vec![]), of(2.0, vec![30]), of(3.0, vec![50, 30])],
            ..Series::default()
        }
    }

    #[test]
    fn a_series_tells_what_each_method_stores() {
        let mut findings = Findings::new(RunId::of(b"r"));
        series().record(5, &mut findings);
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
        let totals = METHODS.map(|m| of(names::SERIES_TOTAL_BYTES, &[("method", m.as_str())]));
        // 50 is not more than twice 30: ADCA stays with its base
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
    fn what_several_nodes_have_measured_is_added_and_their_times_are_not() {
        let node = |bytes, since_first, since_previous, hash_s| SeriesState {
            bytes,
            changed: vec![since_first, since_previous],
            since_first: [(Part::Heap, since_first)].into(),
            since_previous: [(Part::Heap, since_previous), (Part::Files, 1)].into(),
            hash_s,
        };
        let mut all = Measured::new(1.0, 2);
        all.put(&node(100, 30, 20, 0.5));
        all.put(&node(200, 50, 10, 0.25));
        assert_eq!((all.bytes, all.changed.as_slice()), (300, &[80, 30][..]));
        assert_eq!(all.parts[&0], [(Part::Heap, 80)].into());
        assert_eq!(all.parts[&1], [(Part::Heap, 30), (Part::Files, 2)].into());
        assert_eq!(all.hash_s, 0.5);
    }
}
