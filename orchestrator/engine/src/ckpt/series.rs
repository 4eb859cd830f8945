//! What was measured of a series of checkpoints, as records.

use crate::run::Findings;
use cvc_core::{
    campaign::DeltaMethod,
    record::{Source, Unit, names},
};
use cvc_delta::{Matrix, Method, Threshold};
use cvc_image::{OwnerZone, Part};
use std::collections::BTreeMap;

/// At most so many files restore a state by [`DeltaMethod::Bounded`].
const BOUNDED_FILES: u32 = 3;

/// Methods that a series is told for.
const METHODS: [DeltaMethod; 5] = [
    DeltaMethod::Full,
    DeltaMethod::Incremental,
    DeltaMethod::Differential,
    DeltaMethod::Adca,
    DeltaMethod::Bounded,
];

/// A method, with the threshold that it has by default.
pub(in crate::ckpt) fn method(of: DeltaMethod) -> Method {
    let threshold = Threshold::DEFAULT;
    match of {
        DeltaMethod::Full => Method::Full,
        DeltaMethod::Incremental => Method::Incremental,
        DeltaMethod::Differential => Method::Differential,
        DeltaMethod::Adca => Method::Adca { threshold },
        DeltaMethod::Bounded => Method::Bounded {
            threshold,
            files: BOUNDED_FILES,
        },
    }
}

/// Bytes that changed since an earlier checkpoint, by part, without parts that did not.
pub(super) type ByPart = BTreeMap<Part, u64>;

/// What was measured of a checkpoint.
#[derive(Debug)]
pub(super) struct Measured {
    /// When it was asked for, seconds of computation.
    pub at_s: f64,
    /// What can change of it.
    pub bytes: u64,
    /// Since each earlier one.
    pub changed: Vec<u64>,
    /// Since the one before and since the first, by its place in the series.
    pub parts: BTreeMap<usize, ByPart>,
    /// Time to read and hash it.
    pub hash_s: f64,
}

/// What was measured, as differences between all of them.
fn matrix(all: &[Measured]) -> Matrix {
    Matrix::new(
        all.iter().map(|m| m.at_s).collect(),
        all.iter().map(|m| m.bytes).collect(),
        all.iter().map(|m| m.changed.clone()).collect(),
    )
}

/// Records what was measured of a series of so many planned checkpoints, and what each method would store of it.
pub(super) fn record(all: &[Measured], planned: u64, to: &mut Findings) {
    if all.is_empty() {
        return;
    }
    let labels = [("planned", planned.to_string())];
    let taken = all.len() as f64;
    let (clock, images) = (Source::Clock, Source::Image);
    to.record(
        names::SERIES_CHECKPOINTS,
        taken,
        Unit::Count,
        clock,
        None,
        &labels,
    );
    for (t, measured) in all.iter().enumerate() {
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
    record_methods(all, to);
}

fn record_methods(all: &[Measured], to: &mut Findings) {
    let matrix = matrix(all);
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

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::ids::RunId;

    /// Three checkpoints of 100 bytes: 10 change always, and 20 more are left behind by each.
    fn series() -> [Measured; 3] {
        let of = |at_s, changed| Measured {
            at_s,
            bytes: 100,
            changed,
            parts: BTreeMap::new(),
            hash_s: 0.1,
        };
        [of(1.0, vec![]), of(2.0, vec![30]), of(3.0, vec![50, 30])]
    }

    #[test]
    fn a_series_tells_what_each_method_stores() {
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
}
