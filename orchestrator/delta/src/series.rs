//! A directory with the states of one run.
//!
//! ```text
//! lock              locked while somebody changes the series
//! manifest.json     the settings, and every state with its file and its base; written anew, atomically, with each change
//! 0001.state        a state in full
//! 0002.state        what changed since its base
//! 0001.sign         hashes of the first state, of the base of the moment, and of the last state: all that the next one is compared with
//! ```

use crate::{
    error::{DeltaError, DeltaErrorKind},
    file::{BaseRef, StateFile, wire},
    make::{self, Against, Settings},
    partner::changed_bytes,
    restore::Chain,
    signature::{Signature, sign_all},
    source::Source,
};
use cvc_delta_rules::{
    Addressing, Base, BlockSize, Codec, Decision, Method, Threshold, Transform, Volumes,
};
use cvc_os::regular;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Instant,
};

const MANIFEST: &str = "manifest.json";
/// The file that is locked while a series is changed.
const LOCK: &str = "lock";
/// Numbers of states are below this, and bytes of a state at most so many: what a damaged manifest may say.
const MOST_STATES: u32 = 1 << 30;
const MOST_BYTES: u64 = 1 << 50;
/// Version of the manifest.
const VERSION: u32 = 1;

/// How a series stores states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesOptions {
    /// Against which earlier state.
    pub method: Method,
    /// By what blocks are known.
    pub addressing: Addressing,
    /// Size of a block, bytes.
    pub block_bytes: BlockSize,
    /// How blocks are compressed.
    pub codec: Codec,
    /// What is done to them before.
    pub transform: Transform,
    /// Blocks that are compressed together (PaComp's Q); 0: all are one stream.
    pub packet_blocks: u32,
    /// Whether a content that several blocks of a state have is stored once, and one that the base has at another place not again.
    pub once: bool,
}

impl Default for SeriesOptions {
    /// ADCA by address, pages, packets of 256 pages with zstd.
    fn default() -> Self {
        Self {
            method: Method::Adca {
                threshold: Threshold::DEFAULT,
            },
            addressing: Addressing::Address,
            block_bytes: BlockSize::PAGE,
            codec: Codec::Zstd,
            transform: Transform::None,
            packet_blocks: 256,
            once: true,
        }
    }
}

/// A state of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Its number, from 1.
    pub state: u32,
    /// Its file, in the directory.
    pub file: String,
    /// The state that it is stored against; none if it is stored in full.
    pub base: Option<u32>,
    /// Whether later states are stored against it.
    pub becomes_base: bool,
    /// Its digest.
    pub digest: String,
    /// What was stored, as it was named then.
    pub source: String,
    /// When it was taken, seconds since 1970: the youngest time of its files.
    pub taken_s: f64,
    /// Its content, uncompressed, bytes.
    pub content_bytes: u64,
    /// Bytes of blocks that changed since the state that it is stored against; of a full one, all.
    pub changed_bytes: u64,
    /// Of these, bytes of blocks that the base has at another place: they are not stored again.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Bytes of the blocks that are stored, before compression: what changed, without what is at another place of the base, what other blocks of
    /// the state have, and zeros. Unknown of states that older versions stored.
    #[serde(default)]
    pub new_bytes: Option<u64>,
    /// Bytes of blocks that changed since the base of the moment and since the state before; none for the first.
    pub volumes: Option<Volumes>,
    /// Length of its file, bytes.
    pub file_bytes: u64,
    /// Length of its compressed blocks, bytes.
    pub packet_bytes: u64,
    /// Length of the hashes of the state, which its successor is compared with, bytes.
    pub signature_bytes: u64,
    /// Time to read and hash it, seconds.
    pub hash_s: f64,
    /// Time to compress and write it, seconds.
    pub store_s: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Manifest {
    format: String,
    version: u32,
    options: SeriesOptions,
    states: Vec<StateRecord>,
}

/// What was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The state.
    pub state: u32,
    /// Files that it needs.
    pub files: usize,
    /// Bytes that were restored and checked.
    pub bytes: u64,
    /// Its hashes.
    pub hashes: KeptHashes,
}

/// What became of the hashes that the next state is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptHashes {
    /// No state will be compared with this one.
    Unneeded,
    /// They are those of the state.
    Whole,
    /// They were missing, damaged or of another state, as is said, and were made again from the stored state.
    MadeAgain(String),
    /// They are missing, damaged or of another state, and could not be written: what was wrong, and why not. The next state tries again.
    Wrong(String, String),
}

/// A series, opened.
#[derive(Debug)]
pub struct Series {
    dir: PathBuf,
    manifest: Manifest,
    /// States whose hashes were made again, with what was wrong with them.
    made_again: Vec<(u32, String)>,
}

/// Keeps others from changing a series.
struct Lock(#[expect(dead_code, reason = "the lock ends with it")] File);

/// Keeps others from changing the series in a directory, until the lock is dropped.
fn lock(dir: &Path) -> Result<Lock, DeltaError> {
    let path = dir.join(LOCK);
    // NFS locks only what is open for writing
    let mut options = File::options();
    let file = regular::open_with(options.create(true).truncate(false).write(true), &path)
        .map_err(DeltaError::io(&path, "open"))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(DeltaError::new(dir, DeltaErrorKind::Busy)),
        // two who write at once would overwrite each other's states
        Err(TryLockError::Error(error)) => Err(DeltaError::io(&path, "lock")(error)),
    }
}

/// Names of files, for messages.
fn names(files: &[PathBuf]) -> String {
    let names = files.iter().filter_map(|file| file.file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    names.join(", ")
}

impl Series {
    /// Makes the directory of a new series.
    ///
    /// # Errors
    /// Where it exists and is not empty, or options make no sense.
    pub fn create(dir: &Path, options: SeriesOptions) -> Result<Self, DeltaError> {
        options
            .method
            .check()
            .map_err(|rule| DeltaError::new(dir, rule.into()))?;
        fs::create_dir_all(dir).map_err(DeltaError::io(dir, "make"))?;
        let require_empty = || {
            let entries = fs::read_dir(dir).map_err(DeltaError::io(dir, "list"))?;
            if entries.flatten().any(|entry| entry.file_name() != LOCK) {
                return Err(DeltaError::new(dir, DeltaErrorKind::Exists));
            }
            Ok(())
        };
        // nothing is made in a directory of somebody else, and no series that another one makes now is overwritten
        require_empty().or_else(|error| match fs::symlink_metadata(dir.join(LOCK)) {
            // another one that has begun is asked
            Ok(_) => Ok(()),
            Err(_) => Err(error),
        })?;
        let _lock = lock(dir)?;
        require_empty()?;
        let series = Self {
            dir: dir.to_owned(),
            manifest: Manifest {
                format: "cvc-delta".into(),
                version: VERSION,
                options,
                states: Vec::new(),
            },
            made_again: Vec::new(),
        };
        series.save()?;
        Ok(series)
    }

    /// Opens a series.
    ///
    /// # Errors
    /// Where there is none, or its manifest is damaged or newer.
    pub fn open(dir: &Path) -> Result<Self, DeltaError> {
        let path = dir.join(MANIFEST);
        let text = regular::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                DeltaError::new(dir, DeltaErrorKind::NotOurs("it has no manifest.json"))
            }
            _ => DeltaError::io(&path, "read")(error),
        })?;
        let damaged = || DeltaError::damaged(&path, "it");
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
        if value["format"] != "cvc-delta" {
            return Err(DeltaError::new(
                &path,
                DeltaErrorKind::NotOurs("its format is another"),
            ));
        }
        let version = value["version"]
            .as_u64()
            .and_then(|v| u32::try_from(v).ok());
        match version {
            Some(found) if found > VERSION => {
                return Err(DeltaError::new(
                    &path,
                    DeltaErrorKind::Newer {
                        found,
                        known: VERSION,
                    },
                ));
            }
            Some(_) => {}
            None => return Err(damaged()),
        }
        let manifest: Manifest = serde_json::from_value(value).map_err(|_| damaged())?;
        let is_name = |name: &str| !name.contains('/') && name != ".." && !name.is_empty();
        // sums of what is said here stay numbers
        let is_possible = |s: &StateRecord| {
            let bytes = [
                s.content_bytes,
                s.changed_bytes,
                s.moved_bytes,
                s.new_bytes.unwrap_or(0),
                s.file_bytes,
                s.packet_bytes,
                s.signature_bytes,
            ];
            s.state < MOST_STATES && bytes.iter().all(|b| *b <= MOST_BYTES)
        };
        let is_ordered = manifest.states.is_sorted_by(|a, b| a.state < b.state);
        let looks_back = |s: &StateRecord| s.base.is_none_or(|base| base < s.state);
        if !is_ordered
            || !manifest
                .states
                .iter()
                .all(|s| is_name(&s.file) && looks_back(s) && is_possible(s))
        {
            return Err(damaged());
        }
        Ok(Self {
            dir: dir.to_owned(),
            manifest,
            made_again: Vec::new(),
        })
    }

    /// Whether a directory holds a series.
    #[must_use]
    pub fn is_there(dir: &Path) -> bool {
        fs::symlink_metadata(dir.join(MANIFEST)).is_ok()
    }

    /// How it stores states.
    #[must_use]
    pub fn options(&self) -> &SeriesOptions {
        &self.manifest.options
    }

    /// Its states, by number.
    #[must_use]
    pub fn states(&self) -> &[StateRecord] {
        &self.manifest.states
    }

    fn save(&self) -> Result<(), DeltaError> {
        let mut text = serde_json::to_vec_pretty(&self.manifest).expect("plain data");
        text.push(b'\n');
        wire::write_whole(&self.dir.join(MANIFEST), &text)
    }

    /// Removes a series without states, as [`Self::create`] made it: its directory too, if nothing else is in it.
    ///
    /// # Errors
    /// Where its manifest cannot be removed.
    pub fn remove_if_empty(self) -> Result<(), DeltaError> {
        let Ok(_lock) = lock(&self.dir) else {
            // somebody else has begun to use it
            return Ok(());
        };
        if !Self::open(&self.dir)?.manifest.states.is_empty() {
            return Ok(());
        }
        self.sweep()?;
        let path = self.dir.join(MANIFEST);
        fs::remove_file(&path).map_err(DeltaError::io(&path, "remove"))?;
        let _ = fs::remove_file(self.dir.join(LOCK));
        // somebody put something else there
        let _ = fs::remove_dir(&self.dir);
        Ok(())
    }

    /// Length of the hashes that are kept to compare the next state with, bytes.
    #[must_use]
    pub fn kept_hashes_bytes(&self) -> u64 {
        let states = self.manifest.states.iter();
        states
            .filter_map(|s| fs::metadata(self.signature_file(s.state)).ok())
            .map(|file| file.len())
            .sum()
    }

    /// States whose hashes [`Self::add`] made again from what is stored, because they were missing, damaged or of another state: which, and what was
    /// wrong. They are told once.
    pub fn take_made_again(&mut self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.made_again)
    }

    /// Numbers of the files of this kind that the manifest does not know.
    fn unknown(&self, kind: &str) -> Result<BTreeSet<u32>, DeltaError> {
        let entries = fs::read_dir(&self.dir).map_err(DeltaError::io(&self.dir, "list"))?;
        let names = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        let numbers = names.filter_map(|name| {
            let (number, of) = name.split_once('.')?;
            (of == kind).then(|| number.parse().ok())?
        });
        let is_known = |n: &u32| self.manifest.states.iter().any(|s| s.state == *n);
        Ok(numbers.filter(|n| !is_known(n)).collect())
    }

    /// Files of states that the manifest does not know and that nobody is known to have removed: it may be an older one than they are.
    ///
    /// # Errors
    /// Where the directory cannot be listed.
    pub fn unknown_states(&self) -> Result<Vec<PathBuf>, DeltaError> {
        let last = self.manifest.states.last().map_or(0, |s| s.state);
        let unknown = self.unknown("state")?;
        // those before the last one were pruned; one behind it was begun, or is none
        let is_left = |n: u32| {
            let path = self.state_file(n);
            let was_begun = self.begun(n).exists() || StateFile::read_summary(&path).is_err();
            n < last || (n == last + 1 && unknown.last() == Some(&n) && was_begun)
        };
        let others = unknown.iter().filter(|n| !is_left(**n));
        Ok(others.map(|n| self.state_file(*n)).collect())
    }

    /// Removes what a program that was killed left: files that are half-written, a state that it had begun, states that it was removing, and hashes
    /// of either. Nobody else writes: the series is locked.
    fn sweep(&self) -> Result<(), DeltaError> {
        let others = self.unknown_states()?;
        if !others.is_empty() {
            return Err(DeltaError::new(
                &self.dir,
                DeltaErrorKind::UnknownStates(names(&others)),
            ));
        }
        let states = self.unknown("state")?.into_iter();
        let hashes = self.unknown("sign")?.into_iter();
        let entries = fs::read_dir(&self.dir).map_err(DeltaError::io(&self.dir, "list"))?;
        let new = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(wire::NEW)
        });
        let left = states
            .map(|n| self.state_file(n))
            .chain(hashes.map(|n| self.signature_file(n)))
            // what says that a state was begun goes after the state
            .chain(new.map(|entry| entry.path()));
        for path in left {
            if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) {
                fs::remove_file(&path).map_err(DeltaError::io(&path, "remove"))?;
            }
        }
        Ok(())
    }

    /// Says, as long as it is there, that a state is being made, so that its file is not whole or not needed.
    fn begun(&self, state: u32) -> PathBuf {
        self.dir.join(format!("{}{state:04}", wire::NEW))
    }

    fn state_file(&self, state: u32) -> PathBuf {
        self.dir.join(format!("{state:04}.state"))
    }

    /// Adds the next state. `progress` is told bytes that were read.
    ///
    /// # Errors
    /// Where it cannot be read, is of another run, changes meanwhile, or cannot be written. The series is then as it was.
    pub fn add(&mut self, path: &Path, progress: &dyn Fn(u64)) -> Result<StateRecord, DeltaError> {
        self.add_listed(|| Source::list(path), progress)
    }

    /// Adds the next state, of which the files are given. `progress` is told bytes that were read.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_source(
        &mut self,
        source: Source,
        progress: &dyn Fn(u64),
    ) -> Result<StateRecord, DeltaError> {
        self.add_listed(|| Ok(source), progress)
    }

    fn add_listed(
        &mut self,
        list: impl FnOnce() -> Result<Source, DeltaError>,
        progress: &dyn Fn(u64),
    ) -> Result<StateRecord, DeltaError> {
        let _lock = lock(&self.dir)?;
        // what another one added meanwhile
        self.manifest = Self::open(&self.dir)?.manifest;
        self.sweep()?;
        let options = self.manifest.options;
        let mut source = list()?;
        // moved blocks are numbered by the names of files
        source.files.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twice) = source
            .files
            .windows(2)
            .find(|two| two[0].name == two[1].name)
        {
            return Err(DeltaError::new(
                &twice[1].path,
                DeltaErrorKind::Special("a second file of the same name"),
            ));
        }
        let path = &source.path;
        let begin = Instant::now();
        let signed = sign_all(&source, options.addressing, options.block_bytes, progress)?;
        let hash_s = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let number = self.manifest.states.last().map_or(1, |s| s.state + 1);
        let mut kept: BTreeMap<u32, Signature> = BTreeMap::new();
        let (decision, volumes) = if self.manifest.states.is_empty() {
            (Decision::FIRST, None)
        } else {
            self.check_run(path, &signed)?;
            for base in [Base::Current, Base::Previous] {
                let state = self.state_of(base);
                if let Entry::Vacant(place) = kept.entry(state) {
                    place.insert(self.signature(state, progress)?);
                }
            }
            let since = |base| changed_bytes(&signed.signature, &kept[&self.state_of(base)]);
            let volumes = Volumes {
                since_base: since(Base::Current),
                since_previous: since(Base::Previous),
            };
            let chain = self.chain_of(self.current_base())?.len();
            let chain = u32::try_from(chain).unwrap_or(u32::MAX);
            let (since_base, since_previous) =
                (volumes.since_base as f64, volumes.since_previous as f64);
            let decision = options.method.decide(since_base, since_previous, chain);
            (decision, Some(volumes))
        };
        let old = match decision.against {
            Some(base) => Some(match kept.remove(&self.state_of(base)) {
                Some(signature) => signature,
                None => self.signature(self.state_of(base), progress)?,
            }),
            None => None,
        };
        let reference = decision.against.map(|base| self.state_of(base));
        let mut chain = match (reference, options.transform) {
            (Some(state), Transform::Xor) => Some(self.chain(state)?),
            _ => None,
        };
        let against = match (&old, reference) {
            (Some(signature), Some(state)) => Some(Against {
                reference: BaseRef {
                    state,
                    digest: self.record(state)?.digest.clone(),
                },
                signature,
                chain: chain.as_mut(),
            }),
            _ => None,
        };
        let settings = Settings {
            codec: options.codec,
            transform: options.transform,
            packet_blocks: options.packet_blocks,
            once: options.once,
        };
        let file = format!("{number:04}.state");
        let begun = self.begun(number);
        File::create(&begun).map_err(DeltaError::io(&begun, "write"))?;
        // the hashes reach the disk while blocks are compressed
        let (made, kept) = std::thread::scope(|scope| {
            let kept = scope.spawn(|| self.keep_signature(number, &signed.signature));
            let path = self.dir.join(&file);
            let made = make::make(&path, number, &source, &signed, against, settings, progress);
            (made, kept.join())
        });
        let kept = kept.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let ((summary, written), signature_bytes) = made
            .and_then(|made| Ok((made, kept?)))
            .inspect_err(|_| self.forget_state(number))?;
        let record = StateRecord {
            state: number,
            file,
            base: reference,
            becomes_base: decision.becomes_base,
            digest: summary.digest.clone(),
            source: path.display().to_string(),
            taken_s: source.taken_s,
            content_bytes: summary.images.iter().map(|i| i.bytes).sum(),
            changed_bytes: summary.images.iter().map(|i| i.changed_bytes).sum(),
            moved_bytes: summary.images.iter().map(|i| i.moved_bytes).sum(),
            new_bytes: Some(written.new_bytes),
            volumes,
            file_bytes: written.file_bytes,
            packet_bytes: written.packet_bytes,
            signature_bytes,
            hash_s,
            store_s: begin.elapsed().as_secs_f64(),
        };
        self.manifest.states.push(record.clone());
        self.save().inspect_err(|_| self.forget_state(number))?;
        // the state is stored, whatever becomes of files that nobody needs: the next one removes them
        let _ = fs::remove_file(begun);
        let _ = self.forget_signatures();
        Ok(record)
    }

    /// Removes what was written of a state that the manifest does not get.
    fn forget_state(&self, state: u32) {
        for path in [
            self.state_file(state),
            self.signature_file(state),
            self.begun(state),
        ] {
            // what cannot be removed now is removed by the next one
            let _ = fs::remove_file(path);
        }
    }

    /// Refuses a state of which no image is of a process that the series knows.
    fn check_run(&self, new: &Path, signed: &crate::signature::Signed) -> Result<(), DeltaError> {
        let last = self.manifest.states.last().map_or(1, |s| s.state);
        let path = self.path_of(last, last)?;
        let known: Vec<String> = StateFile::read_summary(&path)?
            .images
            .iter()
            .filter_map(|i| i.unique_pid.clone())
            .collect();
        let found: Vec<String> = signed
            .files
            .iter()
            .filter_map(|f| f.unique_pid.clone())
            .collect();
        if known.is_empty() || found.is_empty() || found.iter().any(|f| known.contains(f)) {
            return Ok(());
        }
        Err(DeltaError::new(
            new,
            DeltaErrorKind::OtherRun {
                found: found.join(", "),
                known: known.join(", "),
            },
        ))
    }

    fn signature_file(&self, state: u32) -> PathBuf {
        self.dir.join(format!("{state:04}.sign"))
    }

    /// Keeps the hashes of a state; returns their length, bytes.
    fn keep_signature(&self, state: u32, signature: &Signature) -> Result<u64, DeltaError> {
        let path = self.signature_file(state);
        signature.write(&path)?;
        fs::metadata(&path)
            .map(|m| m.len())
            .map_err(DeltaError::io(&path, "read"))
    }

    /// States that a later one may be compared with.
    fn compared(&self) -> Vec<u32> {
        let bases = [Base::First, Base::Current, Base::Previous].into_iter();
        let is_used =
            |base: &Base| *base != Base::First || self.options().method.returns_to_first();
        bases
            .filter(is_used)
            .map(|base| self.state_of(base))
            .collect()
    }

    /// Removes hashes that no later state is compared with.
    fn forget_signatures(&self) -> Result<(), DeltaError> {
        let kept = self.compared();
        for state in &self.manifest.states {
            let path = self.signature_file(state.state);
            if !kept.contains(&state.state) && path.exists() {
                fs::remove_file(&path).map_err(DeltaError::io(&path, "remove"))?;
            }
        }
        Ok(())
    }

    /// The hashes of a state as they are kept.
    fn kept_signature(&self, state: u32) -> Result<Signature, DeltaError> {
        let path = self.signature_file(state);
        if !path.exists() {
            return Err(DeltaError::new(&path, DeltaErrorKind::MissingHashes));
        }
        let signature = Signature::read(&path)?;
        let options = self.options();
        let is_of_it = (signature.addressing, signature.block)
            == (options.addressing, options.block_bytes)
            && match &signature.digest {
                Some(digest) => *digest == self.record(state)?.digest,
                None => true,
            };
        if is_of_it {
            Ok(signature)
        } else {
            Err(DeltaError::new(&path, DeltaErrorKind::OtherHashes))
        }
    }

    /// The hashes of a state. Where they are missing, damaged or of another state, they are made again from what is stored; the series is locked.
    fn signature(&mut self, state: u32, progress: &dyn Fn(u64)) -> Result<Signature, DeltaError> {
        match self.kept_signature(state) {
            Err(wrong) if wrong.is_of_hashes() => {
                let signature = self.chain(state)?.sign(progress)?;
                self.keep_signature(state, &signature)?;
                self.made_again.push((state, wrong.to_string()));
                Ok(signature)
            }
            kept => kept,
        }
    }

    /// Compares the hashes that are kept of a state with those that its content has, and makes them again where they differ.
    fn verify_hashes(&self, state: u32, own: &Signature) -> Result<KeptHashes, DeltaError> {
        if !self.compared().contains(&state) {
            return Ok(KeptHashes::Unneeded);
        }
        let wrong = match self.kept_signature(state) {
            Ok(kept) if kept.images == own.images => return Ok(KeptHashes::Whole),
            Ok(_) => DeltaError::new(&self.signature_file(state), DeltaErrorKind::OtherHashes),
            Err(wrong) if wrong.is_of_hashes() => wrong,
            Err(error) => return Err(error),
        };
        let make_again = || {
            let _lock = lock(&self.dir)?;
            // another one may have added states meanwhile
            if !Self::open(&self.dir)?.compared().contains(&state) {
                return Ok(KeptHashes::Unneeded);
            }
            self.keep_signature(state, own)?;
            Ok(KeptHashes::MadeAgain(wrong.to_string()))
        };
        Ok(make_again().unwrap_or_else(|error: DeltaError| {
            KeptHashes::Wrong(wrong.to_string(), error.to_string())
        }))
    }

    fn state_of(&self, base: Base) -> u32 {
        let states = &self.manifest.states;
        match base {
            Base::First => states.first().map_or(1, |s| s.state),
            Base::Current => self.current_base(),
            Base::Previous => states.last().map_or(1, |s| s.state),
        }
    }

    fn current_base(&self) -> u32 {
        let states = &self.manifest.states;
        states
            .iter()
            .rev()
            .find(|s| s.becomes_base)
            .map_or(1, |s| s.state)
    }

    fn record(&self, state: u32) -> Result<&StateRecord, DeltaError> {
        let found = self.manifest.states.iter().find(|s| s.state == state);
        found.ok_or_else(|| {
            let known: Vec<String> = self
                .manifest
                .states
                .iter()
                .map(|s| s.state.to_string())
                .collect();
            DeltaError::new(
                &self.dir,
                DeltaErrorKind::NoState {
                    asked: state,
                    known: if known.is_empty() {
                        "none".into()
                    } else {
                        known.join(", ")
                    },
                },
            )
        })
    }

    /// The states whose files restore a state: itself, its base, and so on.
    ///
    /// # Errors
    /// Where there is no such state.
    pub fn chain_of(&self, state: u32) -> Result<Vec<u32>, DeltaError> {
        let mut chain = vec![state];
        let mut record = self.record(state)?;
        while let Some(base) = record.base {
            chain.push(base);
            record = self.record(base)?;
        }
        Ok(chain)
    }

    /// Opens the files that restore a state.
    ///
    /// # Errors
    /// Where one is missing, damaged, or another than it was.
    pub fn chain(&self, state: u32) -> Result<Chain, DeltaError> {
        let files: Result<Vec<StateFile>, DeltaError> = self
            .chain_of(state)?
            .into_iter()
            .map(|link| self.open_file(link, state))
            .collect();
        Chain::new(files?)
    }

    /// The file of a state, which another one needs.
    fn path_of(&self, link: u32, state: u32) -> Result<PathBuf, DeltaError> {
        let path = self.dir.join(&self.record(link)?.file);
        // a link is opened as none
        if fs::symlink_metadata(&path).is_ok() {
            Ok(path)
        } else {
            Err(DeltaError::new(
                &path,
                DeltaErrorKind::MissingLink { state },
            ))
        }
    }

    fn open_file(&self, link: u32, state: u32) -> Result<StateFile, DeltaError> {
        let path = self.path_of(link, state)?;
        let file = StateFile::open(&path)?;
        let expected = &self.record(link)?.digest;
        if file.summary().digest != *expected {
            return Err(DeltaError::new(
                &path,
                DeltaErrorKind::WrongBase {
                    of: format!("state {state}"),
                    expected: expected.clone(),
                    found: file.summary().digest.clone(),
                },
            ));
        }
        Ok(file)
    }

    /// Restores a state as a new directory.
    ///
    /// # Errors
    /// As [`Chain::restore`].
    pub fn restore(&self, state: u32, to: &Path, progress: &dyn Fn(u64)) -> Result<(), DeltaError> {
        self.chain(state)?.restore(to, progress)
    }

    /// Checks that a state can be restored; with `source` also that it is the same. Its hashes, if the next state is compared with them, are made
    /// again if they are missing, damaged or of another state.
    ///
    /// # Errors
    /// What is missing, damaged or differs.
    pub fn verify(
        &self,
        state: u32,
        source: Option<&Path>,
        progress: &dyn Fn(u64),
    ) -> Result<Verified, DeltaError> {
        let mut chain = self.chain(state)?;
        let source = source.map(Source::list).transpose()?;
        let own = chain.check(source.as_ref(), progress)?;
        Ok(Verified {
            hashes: self.verify_hashes(state, &own)?,
            state,
            files: chain.len(),
            bytes: chain.summary().images.iter().map(|i| i.bytes).sum(),
        })
    }

    /// Removes states that are neither among the last `keep` nor needed to restore these. Returns the removed ones.
    ///
    /// # Errors
    /// Where a file cannot be removed.
    pub fn prune(&mut self, keep: u32) -> Result<Vec<StateRecord>, DeltaError> {
        let _lock = lock(&self.dir)?;
        self.manifest = Self::open(&self.dir)?.manifest;
        self.sweep()?;
        let states = &self.manifest.states;
        let from = states.len().saturating_sub(keep.max(1) as usize);
        let mut needed = Vec::new();
        for record in &states[from..] {
            needed.extend(self.chain_of(record.state)?);
        }
        for base in self.options().method.bases() {
            needed.extend(self.chain_of(self.state_of(*base))?);
        }
        let (kept, removed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.manifest.states)
            .into_iter()
            .partition(|s| needed.contains(&s.state));
        self.manifest.states = kept;
        let remove = || {
            for record in &removed {
                let path = self.dir.join(&record.file);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(DeltaError::io(&path, "remove")(error));
                    }
                    _ => {}
                }
            }
            Ok(())
        };
        // first the manifest forgets them: files before the last state that it does not know do no harm
        match self.save() {
            // to make room needs room: what nobody needs can go first
            Err(error) if error.is_full_disk() => {
                remove()?;
                self.save()?;
            }
            saved => saved.and_then(|()| remove())?,
        }
        Ok(removed)
    }
}
