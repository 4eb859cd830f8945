//! Stores the checkpoints of a run on this node as deltas: with one method and codec while the program runs, with all others after its end.

use super::{
    files::FileFound,
    series::{CheckpointFiles, SavedFiles, own_name, own_state},
};
use cvc_delta::{
    BlockSize, Codec, DeltaError, DeltaErrorKind, Method, Series, SeriesOptions, Source,
    require_same,
};
use cvc_os::space::free_bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Instant,
};

/// Counts the measurements of memory in this process, over all runs.
static AT_WORK: Mutex<AtWork> = Mutex::new(AtWork { now: 0, started: 0 });

/// Method, codec and block size with which a series is stored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeltaOptions {
    /// The base that a delta refers to.
    pub method: Method,
    /// The codec.
    pub codec: Codec,
    /// Size of a block.
    pub block: BlockSize,
}

impl From<DeltaOptions> for SeriesOptions {
    fn from(options: DeltaOptions) -> Self {
        Self {
            method: options.method,
            codec: options.codec,
            block_bytes: options.block,
            ..Self::default()
        }
    }
}

/// An operation on the series of deltas of a run, in a directory used for nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeltaWork {
    /// Copies the files of a checkpoint written by the program itself, so that its next checkpoint cannot change the stored data.
    Copy(CheckpointFiles),
    /// Stores a checkpoint, before the next one overwrites it.
    Store {
        /// Number of the checkpoint in the run.
        number: u64,
        /// Location of the checkpoint's files, or of their copy.
        from: CheckpointFiles,
        /// How to store the checkpoint. The options of the first checkpoint hold for the whole series.
        options: DeltaOptions,
        /// Uncompressed length of the checkpoint, bytes; 0 if it equals the length of the files.
        content_bytes: u64,
    },
    /// Moves the files of the last checkpoint away, restores them in place from base and deltas, and compares both byte by byte. For gzip-compressed
    /// images the uncompressed bytes are compared, because restored images are not compressed. Scripts are not moved.
    Replace,
    /// Restores a checkpoint of the series, and stores it again with other options.
    Again {
        /// Number of the checkpoint in the series, from 1. With 1, the series of checkpoints that are stored again starts anew.
        state: u32,
        /// The other options.
        options: DeltaOptions,
    },
    /// Restores a checkpoint to measure the time of a restore.
    Try {
        /// Number of the checkpoint in the series, from 1.
        state: u32,
        /// Whether to restore from the series that [`DeltaWork::Again`] stored.
        again: bool,
    },
    /// Waits for pending operations.
    Settle,
    /// Moves the series to this directory, if a directory is given, and removes all other files.
    Finish(Option<PathBuf>),
}

/// Measurements of a stored checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredFigures {
    /// Number of the checkpoint in the run.
    pub ckpt: u64,
    /// Length of the file that stores the checkpoint, bytes.
    pub file_bytes: u64,
    /// Time to compress and write the file, seconds.
    pub store_s: f64,
}

/// Results of a [`DeltaWork`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeltaDone {
    /// All checkpoints that were stored while the program ran.
    pub live: Vec<StoredFigures>,
    /// The checkpoint that was stored again with other options.
    pub again: Option<StoredFigures>,
    /// Time of a restore, seconds.
    pub restore_s: f64,
    /// Number of bytes that were restored and compared.
    pub same_bytes: u64,
    /// The copy that [`DeltaWork::Copy`] made.
    pub copied: Option<CheckpointFiles>,
    /// Peak memory of this process during the operation, bytes; `None` if it could not be measured for this operation alone.
    pub memory_bytes: Option<u64>,
}

/// Why a [`DeltaWork`] failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaProblem {
    /// The problem, with the file.
    pub why: String,
    /// Whether the disk is full.
    pub is_full: bool,
}

impl From<DeltaError> for DeltaProblem {
    fn from(error: DeltaError) -> Self {
        Self {
            is_full: matches!(
                &error.kind,
                DeltaErrorKind::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull
            ),
            why: error.to_string(),
        }
    }
}

/// The series of deltas of a run on this node.
#[derive(Debug, Default)]
pub(super) struct NodeDeltas {
    /// Files that DMTCP saved for the checkpoints stored already.
    saved: SavedFiles,
    states: Vec<StoredFigures>,
    /// Original location of the files that [`DeltaWork::Copy`] copied.
    held: Option<CheckpointFiles>,
    /// Location of the last stored checkpoint, and the names of its files.
    last: Option<(CheckpointFiles, Vec<String>)>,
    /// Size of the largest checkpoint, bytes.
    largest_bytes: u64,
}

impl NodeDeltas {
    /// Carries out an operation in this directory, and measures the peak memory.
    pub fn work(&mut self, dir: &Path, work: &DeltaWork) -> Result<DeltaDone, DeltaProblem> {
        let (done, memory_bytes) = with_peak(|| self.at(dir, work));
        let done = done?;
        Ok(DeltaDone {
            live: self.states.clone(),
            memory_bytes,
            ..done
        })
    }

    fn at(&mut self, dir: &Path, work: &DeltaWork) -> Result<DeltaDone, DeltaError> {
        let mut done = DeltaDone::default();
        match work {
            DeltaWork::Copy(from) => done.copied = Some(self.copy(dir, from)?),
            DeltaWork::Store {
                number,
                from,
                options,
                content_bytes,
            } => self.store(dir, *number, from, *options, *content_bytes)?,
            DeltaWork::Replace => done.same_bytes = self.replace(dir)?,
            DeltaWork::Again { state, options } => {
                done.again = Some(self.again(dir, *state, *options)?);
            }
            DeltaWork::Try { state, again } => {
                let series = if *again { again_dir(dir) } else { live(dir) };
                let restored = dir.join("restored");
                require_room(dir, self.largest_bytes)?;
                let begin = Instant::now();
                Series::open(&series)?.restore(*state, &restored, &|_| {})?;
                done.restore_s = begin.elapsed().as_secs_f64();
                remove(&restored)?;
            }
            DeltaWork::Settle => {}
            DeltaWork::Finish(keep) => {
                let kept = match keep {
                    Some(kept) if !self.states.is_empty() => keep_series(&live(dir), kept),
                    _ => Ok(()),
                };
                kept.and(remove(dir))?;
            }
        }
        Ok(done)
    }

    /// Returns the maximum length of the file that stores a checkpoint, bytes. For gzip-compressed files the longer, uncompressed content is stored.
    fn max_bytes(&self, file_bytes: u64, content_bytes: u64) -> u64 {
        file_bytes.max(content_bytes).max(self.largest_bytes)
    }

    fn copy(&mut self, dir: &Path, from: &CheckpointFiles) -> Result<CheckpointFiles, DeltaError> {
        let CheckpointFiles::Own { work, files } = from else {
            return Ok(from.clone());
        };
        make_dir(dir)?;
        let copied = copied(dir);
        remove(&copied)?;
        require_room(dir, files.iter().map(|f| f.bytes).sum())?;
        let mut copies = Vec::new();
        for file in files {
            let to = copied.join(own_name(work, &file.path));
            let above = to.parent().unwrap_or(&copied);
            fs::create_dir_all(above).map_err(|e| io_error(above, "make", e))?;
            fs::copy(&file.path, &to).map_err(|e| io_error(&file.path, "read", e))?;
            let mut copy = file.clone();
            copy.path = to;
            copies.push(copy);
        }
        for file in files {
            let now = fs::metadata(&file.path).map_err(|e| io_error(&file.path, "read", e))?;
            if !file.is(&now) {
                return Err(DeltaError {
                    path: file.path.clone(),
                    kind: DeltaErrorKind::Changed,
                });
            }
        }
        self.held = Some(from.clone());
        Ok(CheckpointFiles::Own {
            work: copied,
            files: copies,
        })
    }

    fn store(
        &mut self,
        dir: &Path,
        number: u64,
        from: &CheckpointFiles,
        options: DeltaOptions,
        content_bytes: u64,
    ) -> Result<(), DeltaError> {
        // the series is missing: another attempt at the run starts over
        if !live(dir).exists() {
            *self = Self {
                held: self.held.take(),
                ..Self::default()
            };
        }
        // this checkpoint is stored already: the caller repeats a request whose answer it did not wait for
        if self.states.last().is_some_and(|last| last.ckpt == number) {
            return Ok(());
        }
        make_dir(dir)?;
        let (copied, live) = (copied(dir), live(dir));
        let state = from.list(&mut self.saved)?;
        require_room(dir, self.max_bytes(state.bytes(), content_bytes))?;
        let names = state.files.iter().map(|file| file.name.clone()).collect();
        let mut series = if self.states.is_empty() {
            Series::create(&live, options.into())?
        } else {
            Series::open(&live)?
        };
        let record = series.add_source(state, &|_| {})?;
        let from = self.held.take().unwrap_or_else(|| from.clone());
        self.last = Some((from, names));
        self.states.push(StoredFigures {
            ckpt: number,
            file_bytes: record.file_bytes,
            store_s: record.store_s,
        });
        self.largest_bytes = self.largest_bytes.max(record.content_bytes);
        remove(&copied)
    }

    fn replace(&mut self, dir: &Path) -> Result<u64, DeltaError> {
        let Some((from, names)) = &self.last else {
            return Ok(0);
        };
        let state = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        let (moved, restored) = (dir.join("moved"), dir.join("restored"));
        make_dir(&moved)?;
        require_room(dir, self.largest_bytes)?;
        let restore = || {
            Series::open(&live(dir))?.restore(state, &restored, &|_| {})?;
            Source::list(&restored)
        };
        let bytes = match from {
            CheckpointFiles::Dir(images) => {
                // undo the moves in reverse order
                let back = |steps: &[(&Path, &Path)], error: DeltaError| {
                    steps
                        .iter()
                        .try_for_each(|(from, to)| move_entries(from, to))
                        .err()
                        .map_or(error, |lost| lost)
                };
                let bytes = move_entries(images, &moved)
                    .and_then(|()| {
                        let mut expected = Source::list(&moved)?;
                        expected.files.retain(|file| names.contains(&file.name));
                        require_same(&expected, &restore()?)
                    })
                    .map_err(|error| back(&[(&moved, images)], error))?;
                move_entries(&restored, images)
                    .map_err(|error| back(&[(images, &restored), (&moved, images)], error))?;
                bytes
            }
            CheckpointFiles::Own { work, files } => {
                let bytes = require_same(&own_state(work, files), &restore()?)?;
                for file in files {
                    let from = restored.join(own_name(work, &file.path));
                    // files outside the working directory may be on another file system
                    fs::rename(&from, &file.path)
                        .or_else(|_| fs::copy(&from, &file.path).map(drop))
                        .map_err(|e| io_error(&file.path, "write", e))?;
                }
                bytes
            }
        };
        remove(&moved)?;
        remove(&restored)?;
        Ok(bytes)
    }

    fn again(
        &self,
        dir: &Path,
        state: u32,
        options: DeltaOptions,
    ) -> Result<StoredFigures, DeltaError> {
        let (other, one) = (again_dir(dir), dir.join("state"));
        let mut series = if state == 1 {
            remove(&other)?;
            Series::create(&other, options.into())?
        } else {
            Series::open(&other)?
        };
        // room for the restored checkpoint, and for the delta file, which may be as long
        require_room(dir, self.largest_bytes.saturating_mul(2))?;
        Series::open(&live(dir))?.restore(state, &one, &|_| {})?;
        let record = series.add(&one, &|_| {})?;
        remove(&one)?;
        let known = self.states.get((state as usize).saturating_sub(1));
        Ok(StoredFigures {
            ckpt: known.map_or(u64::from(state), |known| known.ckpt),
            file_bytes: record.file_bytes,
            store_s: record.store_s,
        })
    }
}

/// Returns the directory of the series that is stored while the program runs.
fn live(dir: &Path) -> PathBuf {
    dir.join("series")
}

/// Returns the directory of the series that [`DeltaWork::Again`] stores.
fn again_dir(dir: &Path) -> PathBuf {
    dir.join("other")
}

/// Returns the directory for the copy of the next checkpoint to store.
fn copied(dir: &Path) -> PathBuf {
    dir.join("copied")
}

fn io_error(path: &Path, verb: &'static str, error: io::Error) -> DeltaError {
    DeltaError {
        path: path.into(),
        kind: DeltaErrorKind::Io { verb, error },
    }
}

/// Creates a directory if it does not exist. Fails if its parent, the run's own directory, is missing.
fn make_dir(dir: &Path) -> Result<(), DeltaError> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(io_error(dir, "make", error))
        }
        _ => Ok(()),
    }
}

/// Fails if fewer than this many bytes are free. The program writes to the same disk, which must not become full.
fn require_room(dir: &Path, bytes: u64) -> Result<(), DeltaError> {
    let free = free_bytes(dir).map_err(|e| io_error(dir, "query the free space of", e))?;
    if free >= bytes {
        return Ok(());
    }
    let text = format!(
        "up to {} MiB are needed and {} MiB are free",
        bytes.div_ceil(1 << 20),
        free >> 20
    );
    let error = io::Error::new(io::ErrorKind::StorageFull, text);
    Err(io_error(dir, "write", error))
}

/// Moves the content of a directory to another one of the same file system, except scripts.
fn move_entries(from: &Path, to: &Path) -> Result<(), DeltaError> {
    let entries = fs::read_dir(from).map_err(|e| io_error(from, "list", e))?;
    for entry in entries {
        let path = entry.map_err(|e| io_error(from, "list", e))?.path();
        let name = path.file_name().unwrap_or_default();
        if path.extension().is_none_or(|end| end != "sh") {
            fs::rename(&path, to.join(name)).map_err(|error| io_error(&path, "move", error))?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<(), DeltaError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error(dir, "remove", error))
        }
        _ => Ok(()),
    }
}

/// Moves a series to its final directory, or copies it there if it is on another file system. An incomplete copy is removed.
fn keep_series(live: &Path, kept: &Path) -> Result<(), DeltaError> {
    if fs::rename(live, kept).is_ok() {
        return Ok(());
    }
    let copy = || -> io::Result<()> {
        fs::create_dir(kept)?;
        for entry in fs::read_dir(live)? {
            let entry = entry?;
            fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
        Ok(())
    };
    copy().map_err(|error| {
        let _ = fs::remove_dir_all(kept);
        io_error(kept, "write", error)
    })
}

/// Counts the measurements of this process's memory.
#[derive(Debug)]
struct AtWork {
    /// Number of measurements in progress.
    now: usize,
    /// Number of measurements started until now.
    started: u64,
}

/// A measurement of this process's memory during an operation.
struct Measured {
    /// Number of the measurement.
    number: u64,
    /// Whether no other measurement was in progress at its begin, and the peak could be reset.
    is_reset: bool,
}

impl Measured {
    fn begin() -> Self {
        let mut at_work = AT_WORK.lock();
        at_work.now += 1;
        at_work.started += 1;
        Self {
            number: at_work.started,
            // reset the peak only if no other measurement uses it
            is_reset: at_work.now == 1 && fs::write("/proc/self/clear_refs", "5").is_ok(),
        }
    }

    /// Returns whether no other measurement was in progress at the same time.
    fn is_alone(&self) -> bool {
        self.is_reset && AT_WORK.lock().started == self.number
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        AT_WORK.lock().now -= 1;
    }
}

/// Calls `work`, and returns the peak memory of this process meanwhile, bytes. This is VmHWM of Linux, which is reset first. Returns `None` if VmHWM
/// cannot be reset, or if an operation of another run was in progress at the same time.
fn with_peak<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    let measured = Measured::begin();
    let done = work();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    (
        done,
        kib.filter(|_| measured.is_alone()).map(|kib| kib << 10),
    )
}

impl FileFound {
    /// Returns whether the file is unchanged since it was found, by length, time of change, inode and device.
    pub(super) fn is(&self, now: &fs::Metadata) -> bool {
        let modified_ns = now.mtime() * 1_000_000_000 + now.mtime_nsec();
        (now.len(), modified_ns, now.ino(), now.dev())
            == (self.bytes, self.modified_ns, self.inode, self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real checkpoints of a small program on two ranks, gzip-compressed.
    const RELAX: &str = "../delta/tests/fixtures/relax";
    const INCREMENTAL: DeltaOptions = DeltaOptions {
        method: Method::Incremental,
        codec: Codec::Lz4,
        block: BlockSize::PAGE,
    };

    struct Run {
        root: tempfile::TempDir,
        deltas: NodeDeltas,
    }

    impl Run {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("a directory");
            let run = Self {
                root,
                deltas: NodeDeltas::default(),
            };
            fs::create_dir_all(run.images()).expect("a directory");
            run
        }

        /// Creates a run with three stored checkpoints of [`RELAX`], each of which replaced the files of the previous one.
        fn with_images() -> Self {
            let mut run = Self::new();
            let images = run.images();
            fs::write(images.join("dmtcp_restart_script.sh"), "exec true").expect("writes");
            for state in 1..=3 {
                put(&Path::new(RELAX).join(state.to_string()), &images);
                run.store(state, 0).expect("stored");
            }
            // files that DMTCP saved for an earlier checkpoint are not stored
            fs::write(images.join("left"), "of an earlier one").expect("writes");
            run
        }

        fn images(&self) -> PathBuf {
            self.root.path().join("ckpt")
        }

        fn dir(&self) -> PathBuf {
            self.root.path().join("deltas")
        }

        fn work(&mut self, work: &DeltaWork) -> Result<DeltaDone, DeltaProblem> {
            let dir = self.dir();
            self.deltas.work(&dir, work)
        }

        fn store(&mut self, number: u64, content_bytes: u64) -> Result<DeltaDone, DeltaProblem> {
            self.work(&DeltaWork::Store {
                number,
                from: CheckpointFiles::Dir(self.images()),
                options: INCREMENTAL,
                content_bytes,
            })
        }
    }

    /// Copies files and directories to a directory, replacing existing ones of the same names.
    fn put(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a directory");
        for file in Source::list(from).expect("a state").files {
            let path = to.join(&file.name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
            fs::copy(&file.path, path).expect("copies");
        }
    }

    /// Returns names and bytes of all files in a directory.
    fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
        let files = Source::list(dir).expect("a state").files.into_iter();
        files
            .map(|file| (file.name, fs::read(&file.path).expect("reads")))
            .collect()
    }

    #[test]
    fn a_series_that_cannot_be_kept_leaves_nothing() {
        let mut run = Run::with_images();
        // no directory can be made below a file
        let file = run.root.path().join("file");
        fs::write(&file, "").expect("writes");
        let kept = file.join("kept");
        let problem = run
            .work(&DeltaWork::Finish(Some(kept)))
            .expect_err("it is no directory");
        assert!(problem.why.contains("kept"), "{}", problem.why);
        assert!(!run.dir().exists(), "it is removed all the same");
    }

    #[test]
    fn room_is_wanted_for_what_compressed_images_contain() {
        let run = Run::with_images();
        let files = Source::list(&run.images()).expect("a state").bytes();
        let content = run.deltas.largest_bytes;
        assert!(content > files, "they are gzip'd: {content} {files}");
        assert_eq!(run.deltas.max_bytes(files, 0), content);
        assert_eq!(run.deltas.max_bytes(files, 2 * content), 2 * content);
        // before any checkpoint was stored
        let mut first = Run::new();
        put(&Path::new(RELAX).join("1"), &first.images());
        let problem = first.store(1, u64::MAX).expect_err("no room");
        assert!(problem.is_full, "{}", problem.why);
        assert!(problem.why.contains("MiB are free"), "{}", problem.why);
        assert_eq!(fs::read_dir(first.dir()).expect("a directory").count(), 0);
    }

    #[test]
    fn memory_is_that_of_one_run_or_unknown() {
        let ((), peak) = with_peak(|| {
            let ((), inner) = with_peak(|| ());
            assert_eq!(inner, None, "another one is measured");
        });
        assert_eq!(peak, None, "it was not alone");
    }

    #[test]
    fn what_was_restored_takes_the_place_of_the_images_uncompressed() {
        let mut run = Run::with_images();
        let done = run.work(&DeltaWork::Replace).expect("the same");
        let there = Source::list(&run.images()).expect("a state");
        let names = |state: &Source| -> Vec<String> {
            let files = state.files.iter().map(|file| file.name.clone());
            files.filter(|name| !name.ends_with(".sh")).collect()
        };
        let third = Source::list(&Path::new(RELAX).join("3")).expect("a state");
        assert_eq!(names(&there), names(&third));
        assert!(run.images().join("dmtcp_restart_script.sh").exists());
        let image = there.files.iter().find(|f| f.name.ends_with(".dmtcp"));
        let bytes = fs::read(&image.expect("an image").path).expect("reads");
        assert_ne!(bytes[..2], [0x1f, 0x8b], "it is not gzip'd");
        assert_eq!(done.same_bytes, there.bytes() - "exec true".len() as u64);
        let entries: Vec<_> = fs::read_dir(run.dir())
            .expect("a directory")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(entries, ["series"], "nothing else is left");
    }

    #[test]
    fn a_byte_that_was_not_stored_is_reported_with_its_file() {
        let mut run = Run::with_images();
        let state = Source::list(&run.images()).expect("a state");
        let file = state.files.iter().find(|f| f.name.ends_with(".dmtcp"));
        let file = file.expect("an image");
        // the image of an earlier checkpoint of the same process
        fs::copy(Path::new(RELAX).join("1").join(&file.name), &file.path).expect("copies");
        let before = content(&run.images());
        let problem = run.work(&DeltaWork::Replace).expect_err("it differs");
        assert!(problem.why.contains(&file.name), "{}", problem.why);
        let after = content(&run.images());
        assert_eq!(after, before, "what differs is still there");
    }

    #[test]
    fn another_way_is_made_from_the_first_and_each_state_is_restored() {
        let mut run = Run::with_images();
        let full = DeltaOptions {
            method: Method::Full,
            ..INCREMENTAL
        };
        for state in 1..=3 {
            let again = DeltaWork::Again {
                state,
                options: full,
            };
            let done = run.work(&again).expect("made");
            let (again, live) = (done.again.expect("stored"), done.live[state as usize - 1]);
            assert_eq!(again.ckpt, u64::from(state));
            // a complete checkpoint is larger than its changes
            assert!(state == 1 || again.file_bytes > live.file_bytes);
        }
        for (state, again) in [(1, true), (3, true), (2, false)] {
            let done = run
                .work(&DeltaWork::Try { state, again })
                .expect("restored");
            assert!(done.restore_s > 0.0);
        }
        // only the first series is kept
        let kept = run.root.path().join("kept");
        run.work(&DeltaWork::Finish(Some(kept.clone())))
            .expect("kept");
        assert!(!run.dir().exists());
        let series = Series::open(&kept).expect("a series");
        for state in 1..=3_u32 {
            let same = Path::new(RELAX).join(state.to_string());
            let verified = series.verify(state, Some(&same), &|_| {});
            verified.unwrap_or_else(|e| panic!("state {state}: {e}"));
        }
    }

    /// Returns the files that a program has written in its directory.
    fn own(work: &Path) -> CheckpointFiles {
        let found = super::super::files::globs(work, &["out/*".to_owned()]);
        CheckpointFiles::Own {
            work: work.to_owned(),
            files: found.expect("files"),
        }
    }

    #[test]
    fn what_a_program_writes_is_stored_from_a_copy_and_restored_into_its_place() {
        let mut run = Run::new();
        let work = run.root.path().join("work");
        fs::create_dir_all(work.join("out")).expect("makes");
        let write = |bytes: u8| {
            for rank in 0..2_u8 {
                let mut content = vec![7; 3 * 4096];
                content[4096] = bytes + rank;
                fs::write(work.join(format!("out/rank{rank}")), content).expect("writes");
            }
        };
        for number in [1, 4] {
            write(number);
            let done = run.work(&DeltaWork::Copy(own(&work))).expect("copied");
            // the program continues and writes the next one
            let before = content(&work);
            write(100);
            let work_done = run.work(&DeltaWork::Store {
                number: number.into(),
                from: done.copied.expect("a copy"),
                options: INCREMENTAL,
                content_bytes: 0,
            });
            let live = work_done.expect("stored").live;
            assert_eq!(live.last().map(|l| l.ckpt), Some(u64::from(number)));
            for (name, bytes) in before {
                fs::write(work.join(name), bytes).expect("writes");
            }
        }
        let before = content(&work);
        let same = run.work(&DeltaWork::Replace).expect("the same").same_bytes;
        assert_eq!((same, content(&work)), (2 * 3 * 4096, before));
        // files that differ from the last state are not replaced
        write(50);
        let problem = run.work(&DeltaWork::Replace).expect_err("they differ");
        assert!(problem.why.contains("out/rank0"), "{}", problem.why);
    }

    #[test]
    fn a_file_that_changed_since_it_was_found_is_not_stored() {
        let mut run = Run::new();
        let work = run.root.path().join("work");
        fs::create_dir_all(work.join("out")).expect("makes");
        fs::write(work.join("out/state"), "one").expect("writes");
        let found = own(&work);
        fs::write(work.join("out/state"), "other").expect("writes");
        let problem = run.work(&DeltaWork::Copy(found)).expect_err("it changed");
        assert!(problem.why.contains("out/state"), "{}", problem.why);
        assert!(run.deltas.states.is_empty());
    }
}
