//! A series of checkpoints: what differs between them, measured before the next one overwrites them.

use super::dmtcp_run::DmtcpRun;
use crate::{
    ckpt::moments::no_checkpoint,
    run::{Findings, RunFailure},
};
use cvc_core::record::{Source, Unit, names};
use cvc_delta::{
    BlockSize, DeltaError, Matrix, Method, Signature, Source as State, Threshold, changed_by_part,
    changed_bytes, sign_with_parts,
};
use cvc_image::OwnerZone;
use std::{collections::BTreeMap, path::Path, time::Instant};

/// Methods that a series is told for, with their names in records: ADCA with the threshold that it has by default, and with at most three files to
/// a restore.
const METHODS: [(&str, Method); 5] = [
    ("full", Method::Full),
    ("incremental", Method::Incremental),
    ("differential", Method::Differential),
    (
        "adca",
        Method::Adca {
            threshold: Threshold::DEFAULT,
        },
    ),
    (
        "bounded",
        Method::Bounded {
            threshold: Threshold::DEFAULT,
            files: 3,
        },
    ),
];

/// Bytes that changed since an earlier checkpoint, by zone.
type ByZone = BTreeMap<&'static str, u64>;

/// What was measured of a checkpoint.
#[derive(Debug)]
struct Measured {
    at_s: f64,
    bytes: u64,
    /// Since each earlier one.
    changed: Vec<u64>,
    /// Since the one before and since the first, by its place in the series.
    zones: BTreeMap<usize, ByZone>,
    hash_s: f64,
}

/// The checkpoints of a run that were measured.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Hashes of all: a number of 16 bytes for each page.
    signatures: Vec<Signature>,
    measured: Vec<Measured>,
}

impl Series {
    /// Measures the checkpoint that lies in the run's directory of images, which was asked for at `at_s` seconds of computation.
    ///
    /// # Errors
    /// When its images cannot be read.
    pub async fn add(&mut self, of: &DmtcpRun<'_>, at_s: f64) -> Result<(), RunFailure> {
        let number = self.measured.len() + 1;
        let (dir, signatures) = (
            of.layout.ckptdir.clone(),
            std::mem::take(&mut self.signatures),
        );
        let failed = |why: String| {
            no_checkpoint(format!(
                "what changed until checkpoint {number} cannot be told: {why}"
            ))
        };
        let work =
            tokio::task::spawn_blocking(move || measure(dir.as_std_path(), signatures, at_s));
        let (signatures, measured) = work
            .await
            .map_err(|e| failed(e.to_string()))?
            .map_err(|e| failed(e.to_string()))?;
        self.signatures = signatures;
        self.measured.push(measured);
        Ok(())
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
            for (since, zones) in &measured.zones {
                for (zone, changed) in zones {
                    let labels = [
                        ckpt.clone(),
                        ("since", (since + 1).to_string()),
                        ("zone", (*zone).to_owned()),
                        ("rule", "owner".to_owned()),
                    ];
                    let name = names::SERIES_ZONE_CHANGED_BYTES;
                    to.record(name, *changed as f64, Unit::Bytes, images, None, &labels);
                }
            }
        }
        self.record_methods(to);
    }

    fn record_methods(&self, to: &mut Findings) {
        let matrix = self.matrix();
        let images = Source::Image;
        for (name, method) in METHODS {
            let choices = matrix.choices(method);
            let label = ("method", name.to_owned());
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

/// Reads the checkpoint in a directory, and compares it with those before.
fn measure(
    dir: &Path,
    mut signatures: Vec<Signature>,
    at_s: f64,
) -> Result<(Vec<Signature>, Measured), DeltaError> {
    let begin = Instant::now();
    let mut state = State::list(dir)?;
    // beside the images: the script of the restart, with links to it
    state.files.retain(|file| !file.name.ends_with(".sh"));
    let (signature, parts) = sign_with_parts(&state, BlockSize::PAGE, &|_| {})?;
    let hash_s = begin.elapsed().as_secs_f64();
    let changed = signatures.iter().map(|old| changed_bytes(&signature, old));
    let changed: Vec<u64> = changed.collect();
    let mut zones = BTreeMap::new();
    let previous = signatures.len().checked_sub(1);
    for since in previous
        .into_iter()
        .chain((!signatures.is_empty()).then_some(0))
    {
        let mut by_zone: ByZone = OwnerZone::ALL
            .iter()
            .map(|zone| (zone.as_str(), 0))
            .collect();
        for (part, bytes) in changed_by_part(&signature, &parts, &signatures[since]) {
            *by_zone.entry(part.zone().as_str()).or_default() += bytes;
        }
        zones.insert(since, by_zone);
    }
    let measured = Measured {
        at_s,
        bytes: signature.bytes(),
        changed,
        zones,
        hash_s,
    };
    signatures.push(signature);
    Ok((signatures, measured))
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
            zones: BTreeMap::new(),
            hash_s: 0.1,
        };
        Series {
            signatures: Vec::new(),
            measured: vec![of(1.0, vec![]), of(2.0, vec![30]), of(3.0, vec![50, 30])],
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
        let totals = METHODS.map(|(name, _)| of(names::SERIES_TOTAL_BYTES, &[("method", name)]));
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
