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
    /// Its number among the checkpoints of the run, from 1. Numbers that are missing were not measured.
    pub number: u64,
    /// When it was asked for, seconds of computation; of one that the program writes itself, when its reading began, seconds since the program's
    /// start.
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
    record_count(all.len(), planned, to);
    let (clock, images) = (Source::Clock, Source::Image);
    let number = |t: usize| all.get(t).map_or(0, |m| m.number).to_string();
    for measured in all {
        let ckpt = ("ckpt", measured.number.to_string());
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
            let labels = [ckpt.clone(), ("since", number(since))];
            let name = names::SERIES_CHANGED_BYTES;
            to.record(name, *changed as f64, Unit::Bytes, images, None, &labels);
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

/// Records how many checkpoints of so many planned ones a series has.
pub(super) fn record_count(taken: usize, planned: u64, to: &mut Findings) {
    to.record(
        names::SERIES_CHECKPOINTS,
        taken as f64,
        Unit::Count,
        Source::Clock,
        None,
        &[("planned", planned.to_string())],
    );
}

fn record_methods(all: &[Measured], to: &mut Findings) {
    let matrix = matrix(all);
    let images = Source::Image;
    for of in METHODS {
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

    #[test]
    fn a_checkpoint_that_was_not_measured_leaves_its_number_out() {
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
}
