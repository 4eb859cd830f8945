//! A series of checkpoints: what differs between them, measured before the next one overwrites them.

use super::{
    deltas::{Deltas, method},
    dmtcp_run::DmtcpRun,
};
use crate::{
    ckpt::moments::no_checkpoint,
    run::{Findings, RunFailure},
};
use cvc_core::{
    campaign::DeltaMethod,
    record::{Source, Unit, names},
};
use cvc_delta::{
    BlockSize, DeltaError, Matrix, Signature, Source as State, SourceFile, changed_by_part,
    changed_bytes, sign_with_parts,
};
use cvc_image::{OwnerZone, Part};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::{Instant, SystemTime},
};

/// Methods that a series is told for.
const METHODS: [DeltaMethod; 5] = [
    DeltaMethod::Full,
    DeltaMethod::Incremental,
    DeltaMethod::Differential,
    DeltaMethod::Adca,
    DeltaMethod::Bounded,
];

/// Bytes that changed since an earlier checkpoint, by part, without parts that did not.
type ByPart = Vec<(Part, u64)>;

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

/// The checkpoints of a run that were measured.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Hashes of all: a number of 16 bytes for each page.
    signatures: Vec<Signature>,
    measured: Vec<Measured>,
    /// Files of earlier checkpoints that DMTCP leaves beside the images.
    left: Left,
    /// The checkpoints themselves, as deltas, if they are stored.
    pub deltas: Option<Deltas>,
}

/// Files that DMTCP saved for checkpoints, with the time of their last change.
type Left = HashMap<String, SystemTime>;

impl Series {
    /// A series of which no checkpoint was taken yet.
    pub fn new(deltas: Option<Deltas>) -> Self {
        Self {
            deltas,
            ..Self::default()
        }
    }

    /// Measures the checkpoint that lies in the run's directory of images, which was asked for at `at_s` seconds of computation.
    ///
    /// # Errors
    /// When its images cannot be read.
    pub async fn add(&mut self, of: &DmtcpRun<'_>, at_s: f64) -> Result<(), RunFailure> {
        let dir = of.layout.ckptdir.clone();
        let mut own = std::mem::take(self);
        let work = tokio::task::spawn_blocking(move || {
            let added = own.add_state(dir.as_std_path(), at_s);
            (own, added)
        });
        let (own, added) = work.await.map_err(|e| no_checkpoint(e.to_string()))?;
        *self = own;
        added
    }

    fn add_state(&mut self, dir: &Path, at_s: f64) -> Result<(), RunFailure> {
        let number = self.measured.len() + 1;
        let failed = |why: DeltaError| {
            no_checkpoint(format!(
                "what changed until checkpoint {number} cannot be told: {why}"
            ))
        };
        let mut state = State::list(dir).map_err(failed)?;
        state.files = of_this_checkpoint(state.files, &mut self.left);
        // its other name
        state.links.retain(|(name, _)| !is_script(name));
        self.measure(&state, at_s).map_err(failed)?;
        self.deltas
            .as_mut()
            .map_or(Ok(()), |deltas| deltas.store(state))
    }

    /// Reads a checkpoint, and compares it with those before.
    fn measure(&mut self, state: &State, at_s: f64) -> Result<(), DeltaError> {
        let begin = Instant::now();
        let compared = State {
            path: state.path.clone(),
            files: by_what_was_saved(state.files.clone()),
            links: Vec::new(),
            taken_s: state.taken_s,
        };
        let (signature, parts) = sign_with_parts(&compared, BlockSize::PAGE, &|_| {})?;
        let hash_s = begin.elapsed().as_secs_f64();
        let all = self.signatures.iter();
        let changed: Vec<u64> = all.map(|old| changed_bytes(&signature, old)).collect();
        let since = [self.signatures.len().checked_sub(1), Some(0)];
        let since = since.into_iter().flatten();
        let parts = since.filter_map(|since| {
            let old = self.signatures.get(since)?;
            Some((since, changed_by_part(&signature, &parts, old)))
        });
        self.measured.push(Measured {
            at_s,
            bytes: signature.bytes(),
            changed,
            parts: parts.collect(),
            hash_s,
        });
        self.signatures.push(signature);
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

/// The files of the checkpoint that was written last: its images, and what DMTCP saved for it in `_files` directories, where it leaves what it saved
/// for earlier ones. The script of the restart is no part of a state.
fn of_this_checkpoint(files: Vec<SourceFile>, left: &mut Left) -> Vec<SourceFile> {
    let own = files.into_iter().filter(|file| !is_script(&file.name));
    let own = own.filter(|file| {
        let changed = std::fs::metadata(&file.path).and_then(|m| m.modified());
        let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
        !file.name.contains('/') || left.insert(file.name.clone(), changed) != Some(changed)
    });
    own.collect()
}

/// Whether it is the script of the restart, or its other name.
fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "sh")
}

/// Gives files of `_files` directories the names by which those of several checkpoints are compared. A file is saved by another process each time, under
/// a number of its own, so that the name of what was saved is all that stays; where that is not enough to tell files apart, they keep their names.
fn by_what_was_saved(mut files: Vec<SourceFile>) -> Vec<SourceFile> {
    let mut saved: HashMap<String, usize> = HashMap::new();
    for name in files.iter().filter_map(|file| original(&file.name)) {
        *saved.entry(name.to_owned()).or_default() += 1;
    }
    for file in &mut files {
        let name = original(&file.name).filter(|name| saved.get(*name) == Some(&1));
        if let Some(name) = name.map(|name| format!("saved/{name}")) {
            file.name = name;
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
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
            parts: BTreeMap::new(),
            hash_s: 0.1,
        };
        Series {
            signatures: Vec::new(),
            left: Left::new(),
            deltas: None,
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
            let own = by_what_was_saved(of_this_checkpoint(files, left)).into_iter();
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
