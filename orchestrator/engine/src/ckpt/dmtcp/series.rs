//! A series of checkpoints: what differs between them, measured before the next one overwrites them.

use super::dmtcp_run::DmtcpRun;
use crate::{
    ckpt::moments::no_checkpoint,
    run::{Findings, RunFailure},
};
use cvc_core::record::{Source, Unit, names};
use cvc_delta::{
    BlockSize, DeltaError, Matrix, Method, Signature, Source as State, SourceFile, Threshold,
    changed_by_part, changed_bytes, sign_with_parts,
};
use cvc_image::OwnerZone;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::{Instant, SystemTime},
};

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
    /// Files of earlier checkpoints that DMTCP leaves beside the images.
    left: Left,
}

/// Files that DMTCP saved for checkpoints, with the time of their last change.
type Left = HashMap<String, SystemTime>;

impl Series {
    /// Measures the checkpoint that lies in the run's directory of images, which was asked for at `at_s` seconds of computation.
    ///
    /// # Errors
    /// When its images cannot be read.
    pub async fn add(&mut self, of: &DmtcpRun<'_>, at_s: f64) -> Result<(), RunFailure> {
        let number = self.measured.len() + 1;
        let dir = of.layout.ckptdir.clone();
        let signatures = std::mem::take(&mut self.signatures);
        let left = std::mem::take(&mut self.left);
        let failed = |why: String| {
            no_checkpoint(format!(
                "what changed until checkpoint {number} cannot be told: {why}"
            ))
        };
        let work =
            tokio::task::spawn_blocking(move || measure(dir.as_std_path(), signatures, left, at_s));
        let (signatures, left, measured) = work
            .await
            .map_err(|e| failed(e.to_string()))?
            .map_err(|e| failed(e.to_string()))?;
        (self.signatures, self.left) = (signatures, left);
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
    mut left: Left,
    at_s: f64,
) -> Result<(Vec<Signature>, Left, Measured), DeltaError> {
    let begin = Instant::now();
    let mut state = State::list(dir)?;
    state.files = of_this_checkpoint(state.files, &mut left);
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
    Ok((signatures, left, measured))
}

/// The files of the checkpoint that was written last: its images, and what DMTCP saved for it in `_files` directories, where it leaves what it saved
/// for earlier ones. A file is saved by another process each time, under a number of its own, so that the name of what was saved is all that stays;
/// where that is not enough to tell files apart, they keep their names. The script of the restart is no part of a state.
fn of_this_checkpoint(files: Vec<SourceFile>, left: &mut Left) -> Vec<SourceFile> {
    let mut own: Vec<SourceFile> = files
        .into_iter()
        .filter(|file| !file.name.ends_with(".sh"))
        .filter(|file| {
            let changed = std::fs::metadata(&file.path).and_then(|m| m.modified());
            let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
            !file.name.contains('/') || left.insert(file.name.clone(), changed) != Some(changed)
        })
        .collect();
    let mut saved: HashMap<String, usize> = HashMap::new();
    for name in own.iter().filter_map(|file| original(&file.name)) {
        *saved.entry(name.to_owned()).or_default() += 1;
    }
    for file in &mut own {
        let name = original(&file.name).filter(|name| saved.get(*name) == Some(&1));
        if let Some(name) = name.map(|name| format!("saved/{name}")) {
            file.name = name;
        }
    }
    own.sort_by(|a, b| a.name.cmp(&b.name));
    own
}

/// What was saved in a file of a `_files` directory: its name without the number behind it.
fn original(name: &str) -> Option<&str> {
    let (_, file) = name.rsplit_once('/')?;
    let (original, number) = file.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(original)
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
            left: Left::new(),
            measured: vec![of(1.0, vec![]), of(2.0, vec![30]), of(3.0, vec![50, 30])],
        }
    }

    #[test]
    fn what_was_saved_for_an_earlier_checkpoint_is_none_of_a_later_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
            std::fs::write(path, name).expect("writes");
        };
        let names = |left: &mut Left| -> Vec<String> {
            let files = State::list(dir.path()).expect("a state").files;
            let own = of_this_checkpoint(files, left).into_iter();
            own.map(|file| file.name).collect()
        };
        let mut left = Left::new();
        for name in [
            "ckpt_a_1.dmtcp",
            "ckpt_b_2.dmtcp",
            "dmtcp_restart_script_1.sh",
            "ckpt_a_1_files/segment-7_99606",
            "ckpt_a_1_files/twice_99607",
            "ckpt_b_2_files/twice_99606",
        ] {
            put(name);
        }
        assert_eq!(
            names(&mut left),
            [
                "ckpt_a_1.dmtcp",
                "ckpt_a_1_files/twice_99607",
                "ckpt_b_2.dmtcp",
                "ckpt_b_2_files/twice_99606",
                "saved/segment-7"
            ]
        );
        // another process saves it
        put("ckpt_b_2_files/segment-7_99611");
        assert_eq!(
            names(&mut left),
            ["ckpt_a_1.dmtcp", "ckpt_b_2.dmtcp", "saved/segment-7"]
        );
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
