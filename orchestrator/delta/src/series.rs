//! A directory with the states (checkpoints) of one run.
//!
//! ```text
//! lock              locked while a process changes the series
//! manifest.json     the settings, and every state with its file and its base; rewritten atomically with each change
//! 0001.state        a state in full
//! 0002.state        the changes of a state since its base
//! 0001.sign         hashes of the first state, of the current base, and of the last state: everything that the next state is compared with
//! ```

use crate::{
    error::{DeltaError, DeltaErrorKind},
    file::{BaseRef, StateFile, wire},
    make::{self, DeltaReference, Settings},
    partner::changed_bytes,
    restore::Chain,
    signature::{Signature, Signed, sign_all},
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
/// Limit for the number of a state; the next constant is the limit for its sizes in bytes. A damaged manifest may contain any numbers.
const MAX_STATES: u32 = 1 << 30;
const MAX_BYTES: u64 = 1 << 50;
/// Format version of the manifest.
const VERSION: u32 = 1;

/// Settings of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesOptions {
    /// The method. It decides for each state whether it is stored in full or as changes, and since which earlier state.
    pub method: Method,
    /// The addressing of blocks.
    pub addressing: Addressing,
    /// Size of a block, bytes.
    pub block_bytes: BlockSize,
    /// Compression of packets, which are groups of blocks.
    pub codec: Codec,
    /// The transform of blocks before compression.
    pub transform: Transform,
    /// Number of blocks in a packet, which are compressed together (PaComp's Q); 0: all blocks are one stream.
    pub packet_blocks: u32,
    /// Whether identical blocks of a state are stored only once (not with [`Transform::Xor`]), and blocks that the base has at another place are not
    /// stored.
    pub once: bool,
}

impl Default for SeriesOptions {
    /// ADCA with blocks matched by address; blocks are pages, and packets of 256 pages are compressed with zstd.
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

/// A state (checkpoint) of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Number of the state, from 1.
    pub state: u32,
    /// Name of its file in the directory of the series.
    pub file: String,
    /// The state that this one is stored against; `None` if it is stored in full.
    pub base: Option<u32>,
    /// Whether later states are stored against this one.
    pub becomes_base: bool,
    /// Digest of the state.
    pub digest: String,
    /// The path of the checkpoint, as given when it was stored.
    pub source: String,
    /// Time of the checkpoint, seconds since 1970: the latest modification time of its files.
    pub taken_s: f64,
    /// Length of the uncompressed content, bytes.
    pub content_bytes: u64,
    /// Bytes of blocks that changed since the base; in a full state, of all blocks.
    pub changed_bytes: u64,
    /// The part of `changed_bytes` in blocks whose content the base has at another place. These blocks are not stored again.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Uncompressed size of the stored blocks, bytes. These are the changed blocks except zeros, repetitions, and blocks that the base has at another
    /// place. `None` for states that an older version stored.
    #[serde(default)]
    pub new_bytes: Option<u64>,
    /// Bytes of blocks that changed since the current base and since the previous state; `None` for the first state.
    pub volumes: Option<Volumes>,
    /// Length of the state's file, bytes.
    pub file_bytes: u64,
    /// Length of the compressed blocks, bytes.
    pub packet_bytes: u64,
    /// Length of the file with the hashes of the state, bytes. The next state is compared with these hashes.
    pub signature_bytes: u64,
    /// Time for reading and hashing the state, seconds.
    pub hash_s: f64,
    /// Time for compressing and writing the state, seconds.
    pub store_s: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Manifest {
    format: String,
    version: u32,
    options: SeriesOptions,
    states: Vec<StateRecord>,
}

/// Result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Number of the state.
    pub state: u32,
    /// Number of files needed to restore the state.
    pub files: usize,
    /// Bytes that were restored and checked.
    pub bytes: u64,
    /// Result of the check of the stored hashes.
    pub hashes: KeptHashes,
}

/// Condition of the stored hashes that the next state is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptHashes {
    /// The series does not need the hashes of this state.
    Unneeded,
    /// The hashes are those of the state.
    Whole,
    /// The hashes were missing, damaged or of another state (the text gives the problem), and were computed again from the stored state.
    MadeAgain(String),
    /// The hashes are missing, damaged or of another state, and could not be written: the problem, and why writing failed. The next [`Series::add`]
    /// tries again.
    Wrong(String, String),
}

/// An opened series.
#[derive(Debug)]
pub struct Series {
    dir: PathBuf,
    manifest: Manifest,
    /// States whose hashes were computed again, each with the problem that the hashes had.
    made_again: Vec<(u32, String)>,
}

/// Prevents other processes from changing a series.
struct Lock(#[expect(dead_code, reason = "the lock ends with it")] File);

/// Locks the series in a directory against changes by other processes, until the returned value is dropped.
fn lock(dir: &Path) -> Result<Lock, DeltaError> {
    let path = dir.join(LOCK);
    // NFS locks only files open for writing
    let mut options = File::options();
    let file = regular::open_with(options.create(true).truncate(false).write(true), &path)
        .map_err(DeltaError::io(&path, "open"))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(DeltaError::new(dir, DeltaErrorKind::Busy)),
        // without a lock, two writing processes would overwrite each other's states
        Err(TryLockError::Error(error)) => Err(DeltaError::io(&path, "lock")(error)),
    }
}

/// Sorts the files of a state by name; moved blocks are numbered in this order.
fn sorted(mut source: Source) -> Result<Source, DeltaError> {
    source.files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut pairs = source.files.windows(2);
    match pairs.find(|two| two[0].name == two[1].name) {
        Some(twice) => Err(DeltaError::new(
            &twice[1].path,
            DeltaErrorKind::Special("a second file of the same name"),
        )),
        None => Ok(source),
    }
}

/// Returns the names of files for a message.
fn names(files: &[PathBuf]) -> String {
    let names = files.iter().filter_map(|file| file.file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    names.join(", ")
}

impl Series {
    /// Creates the directory of a new series.
    ///
    /// # Errors
    /// The directory exists and is not empty, or the options are invalid.
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
        // refuses a directory with other files, and does not overwrite a series that another process creates at the same time
        require_empty().or_else(|error| match fs::symlink_metadata(dir.join(LOCK)) {
            // a lock file: another process may be creating a series; checked again below, under the lock
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
    /// There is no series, its manifest is damaged, or its manifest has a newer format version.
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
        // rejects numbers that are too high, so that sums of them do not overflow
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
            s.state < MAX_STATES && bytes.iter().all(|b| *b <= MAX_BYTES)
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

    /// Returns whether a directory contains a series.
    #[must_use]
    pub fn is_there(dir: &Path) -> bool {
        fs::symlink_metadata(dir.join(MANIFEST)).is_ok()
    }

    /// Returns the settings of the series.
    #[must_use]
    pub fn options(&self) -> &SeriesOptions {
        &self.manifest.options
    }

    /// Returns the states of the series, by number.
    #[must_use]
    pub fn states(&self) -> &[StateRecord] {
        &self.manifest.states
    }

    fn save(&self) -> Result<(), DeltaError> {
        let mut text = serde_json::to_vec_pretty(&self.manifest).expect("plain data");
        text.push(b'\n');
        wire::write_whole(&self.dir.join(MANIFEST), &text)
    }

    /// Removes the series if it has no states, as after [`Self::create`]; removes its directory, too, if no other files are in it.
    ///
    /// # Errors
    /// The manifest cannot be removed.
    pub fn remove_if_empty(self) -> Result<(), DeltaError> {
        let Ok(_lock) = lock(&self.dir) else {
            // another process has stored states in it
            return Ok(());
        };
        if !Self::open(&self.dir)?.manifest.states.is_empty() {
            return Ok(());
        }
        self.sweep()?;
        let path = self.dir.join(MANIFEST);
        fs::remove_file(&path).map_err(DeltaError::io(&path, "remove"))?;
        let _ = fs::remove_file(self.dir.join(LOCK));
        // fails if the directory contains other files now
        let _ = fs::remove_dir(&self.dir);
        Ok(())
    }

    /// Returns the length of the stored hashes that the next state is compared with, bytes.
    #[must_use]
    pub fn kept_hashes_bytes(&self) -> u64 {
        let states = self.manifest.states.iter();
        states
            .filter_map(|s| fs::metadata(self.signature_file(s.state)).ok())
            .map(|file| file.len())
            .sum()
    }

    /// Returns the states whose hashes [`Self::add`] computed again from the stored states, because they were missing, damaged or of another state;
    /// each with its problem. Each is returned only once.
    pub fn take_made_again(&mut self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.made_again)
    }

    /// Returns the numbers in the names of files with the extension `kind` that belong to no state in the manifest.
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

    /// Returns the files of states that the manifest does not list, unless pruning or an interruption explains it. If there are any, the manifest may
    /// be older than these states.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn unknown_states(&self) -> Result<Vec<PathBuf>, DeltaError> {
        let last = self.manifest.states.last().map_or(0, |s| s.state);
        let unknown = self.unknown("state")?;
        // a file with a lower number was pruned; a file with the number after the last is of a state whose writing was interrupted, or is no state
        // file
        let is_left = |n: u32| {
            let path = self.state_file(n);
            let was_begun = self.begun(n).exists() || StateFile::read_summary(&path).is_err();
            n < last || (n == last + 1 && unknown.last() == Some(&n) && was_begun)
        };
        let others = unknown.iter().filter(|n| !is_left(**n));
        Ok(others.map(|n| self.state_file(*n)).collect())
    }

    /// Removes what a killed program left: half-written files, the file of a state that it was adding, files of states that it was pruning, and the
    /// hashes of these states. Returns an error if there are [unknown states](Self::unknown_states). The caller holds the lock of the series.
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
            // the marker of a state in progress is removed after the state itself
            .chain(new.map(|entry| entry.path()));
        for path in left {
            if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) {
                fs::remove_file(&path).map_err(DeltaError::io(&path, "remove"))?;
            }
        }
        Ok(())
    }

    /// Returns the path of the marker file that exists while a state is being added. As long as it exists, the state's file is incomplete or not
    /// needed.
    fn begun(&self, state: u32) -> PathBuf {
        self.dir.join(format!("{}{state:04}", wire::NEW))
    }

    fn state_file(&self, state: u32) -> PathBuf {
        self.dir.join(format!("{state:04}.state"))
    }

    /// Adds the next state. `progress` receives the number of bytes read.
    ///
    /// # Errors
    /// The state cannot be read, is of another run, changes while it is read, or cannot be written. The series is unchanged after an error.
    pub fn add(&mut self, path: &Path, progress: &dyn Fn(u64)) -> Result<StateRecord, DeltaError> {
        self.add_listed(|| Source::list(path), progress)
    }

    /// Adds the next state from its files. `progress` receives the number of bytes read.
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
        // includes states that another process added in the meantime
        self.manifest = Self::open(&self.dir)?.manifest;
        self.sweep()?;
        let options = self.manifest.options;
        let source = sorted(list()?)?;
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
            let volumes = self.volumes(&signed, &mut kept, progress)?;
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
            (Some(signature), Some(state)) => Some(DeltaReference {
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
        // writes the hashes to disk while blocks are compressed
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
        // the state is stored even if these files remain: the next call removes them
        let _ = fs::remove_file(begun);
        let _ = self.forget_signatures();
        Ok(record)
    }

    /// Returns the bytes that changed since the current base and since the previous state. Adds the hashes of these two states to `kept`.
    fn volumes(
        &mut self,
        signed: &Signed,
        kept: &mut BTreeMap<u32, Signature>,
        progress: &dyn Fn(u64),
    ) -> Result<Volumes, DeltaError> {
        for base in [Base::Current, Base::Previous] {
            let state = self.state_of(base);
            if let Entry::Vacant(place) = kept.entry(state) {
                place.insert(self.signature(state, progress)?);
            }
        }
        let since = |base| changed_bytes(&signed.signature, &kept[&self.state_of(base)]);
        Ok(Volumes {
            since_base: since(Base::Current),
            since_previous: since(Base::Previous),
        })
    }

    /// Removes the files of a state that could not be added.
    fn forget_state(&self, state: u32) {
        for path in [
            self.state_file(state),
            self.signature_file(state),
            self.begun(state),
        ] {
            // the next call removes a file that cannot be removed now
            let _ = fs::remove_file(path);
        }
    }

    /// Refuses a state if it has no process in common with the series.
    fn check_run(&self, new: &Path, signed: &Signed) -> Result<(), DeltaError> {
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

    /// Stores the hashes of a state; returns the length of their file, bytes.
    fn keep_signature(&self, state: u32, signature: &Signature) -> Result<u64, DeltaError> {
        let path = self.signature_file(state);
        signature.write(&path)?;
        fs::metadata(&path)
            .map(|m| m.len())
            .map_err(DeltaError::io(&path, "read"))
    }

    /// Returns the states that a later state may be compared with.
    fn compared(&self) -> Vec<u32> {
        let bases = [Base::First, Base::Current, Base::Previous].into_iter();
        let is_used =
            |base: &Base| *base != Base::First || self.options().method.returns_to_first();
        bases
            .filter(is_used)
            .map(|base| self.state_of(base))
            .collect()
    }

    /// Removes the stored hashes of states that no later state is compared with.
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

    /// Returns the stored hashes of a state.
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

    /// Returns the stored hashes of a state. If they are missing, damaged or of another state, computes them from the stored state. The caller
    /// holds the lock.
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

    /// Compares the stored hashes of a state with `own`, the hashes of its restored content. If they differ, stores `own`.
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
            // another process may have added states in the meantime
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

    /// Returns the numbers of the states whose files are needed to restore a state: the state, its base, and so on.
    ///
    /// # Errors
    /// There is no such state.
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
    /// A file is missing, damaged, or was replaced.
    pub fn chain(&self, state: u32) -> Result<Chain, DeltaError> {
        let files: Result<Vec<StateFile>, DeltaError> = self
            .chain_of(state)?
            .into_iter()
            .map(|link| self.open_file(link, state))
            .collect();
        Chain::new(files?)
    }

    /// Returns the path of the file of state `link`, which is needed to restore `state`.
    fn path_of(&self, link: u32, state: u32) -> Result<PathBuf, DeltaError> {
        let path = self.dir.join(&self.record(link)?.file);
        // symbolic links are not followed
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

    /// Checks that a state can be restored and, with `source`, that it equals the checkpoint there. Also checks its stored hashes if the next state
    /// is compared with them: if they are missing, damaged or of another state, they are computed again.
    ///
    /// # Errors
    /// A file is missing, damaged or differs.
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

    /// Removes all states except the last `keep` states, the states needed to restore these, and the states needed to add the next one. Returns the
    /// removed states.
    ///
    /// # Errors
    /// A file cannot be removed.
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
        // the manifest is written first: `unknown_states` accepts unlisted files with numbers below the last state
        match self.save() {
            // writing the manifest needs space: on a full disk, unneeded files are removed first
            Err(error) if error.is_full_disk() => {
                remove()?;
                self.save()?;
            }
            saved => saved.and_then(|()| remove())?,
        }
        Ok(removed)
    }
}
