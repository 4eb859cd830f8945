//! The checkpoints of a series, stored as deltas while the program runs, and in all other ways after its end.

use crate::{
    ckpt::{moments::no_checkpoint, series::method},
    run::{Findings, RunFailure},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    campaign::{DeltaCodec, DeltaSettings, DeltaWay},
    outcome::Cause,
    record::{Source, Unit, names},
    store::{StoreError, copy_tree, remove_all},
};
use cvc_delta::{
    BlockSize, Codec, DeltaError, DeltaErrorKind, Series, SeriesOptions, Source as State,
    require_same,
};
use cvc_os::space::free_bytes;
use cvc_probe::sentinel::SavedFiles;
use parking_lot::Mutex;
use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// Work of which the memory is measured, of all runs of this process.
static AT_WORK: Mutex<AtWork> = Mutex::new(AtWork { now: 0, started: 0 });

/// Directory in the working directory of a run for all that is made here; it is never kept.
pub(super) const DIR: &str = ".cvc-deltas";
/// Directory in the directory of a run for the series that is kept.
const KEPT: &str = "deltas";
fn options(way: DeltaWay) -> Result<SeriesOptions, DeltaErrorKind> {
    Ok(SeriesOptions {
        method: method(way.method),
        codec: match way.codec {
            DeltaCodec::None => Codec::None,
            DeltaCodec::Gzip => Codec::Gzip,
            DeltaCodec::Zstd => Codec::Zstd,
            DeltaCodec::Lz4 => Codec::Lz4,
        },
        block_bytes: BlockSize::new(way.block.0)?,
        ..SeriesOptions::default()
    })
}

/// What was measured of a state that was stored in some way.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    file_bytes: u64,
    store_s: f64,
    /// Once it was restored.
    restore_s: Option<f64>,
}

/// A way to store the series, with what was measured of it.
#[derive(Debug)]
struct Way {
    way: DeltaWay,
    states: Vec<Figures>,
    /// Most memory of this process meanwhile, bytes, where the kernel tells.
    memory_bytes: Option<u64>,
}

impl Way {
    fn note_memory(&mut self, peak: Option<u64>) {
        self.memory_bytes = self.memory_bytes.max(peak);
    }
}

/// The series of a run, in its storage area.
#[derive(Debug)]
pub(super) struct Deltas {
    dir: Utf8PathBuf,
    keep: bool,
    /// What DMTCP saved for checkpoints that were stored.
    saved: SavedFiles,
    /// The first is made while the program runs.
    ways: Vec<Way>,
    /// Files of the last state.
    last: Vec<String>,
    /// Content of the largest state, bytes.
    largest_bytes: u64,
    /// Bytes of the state that the run is restarted from.
    restarted_bytes: Option<u64>,
}

impl Deltas {
    /// Those of a run with this working directory.
    pub fn new(settings: &DeltaSettings, work: &Utf8Path) -> Self {
        let of = |way| Way {
            way,
            states: Vec::new(),
            memory_bytes: None,
        };
        Self {
            dir: work.join(DIR),
            keep: settings.keep,
            saved: SavedFiles::default(),
            ways: settings.ways().map(of).collect(),
            last: Vec::new(),
            largest_bytes: 0,
            restarted_bytes: None,
        }
    }

    /// The series that is made while the program runs.
    fn live(&self) -> Utf8PathBuf {
        self.dir.join("series")
    }

    /// Length at most of the file that stores a checkpoint: files that are gzip'd are stored from their content, which is longer.
    fn most_bytes(&self, file_bytes: u64, content_bytes: u64) -> u64 {
        file_bytes.max(content_bytes).max(self.largest_bytes)
    }

    /// Number of states that are stored.
    fn states(&self) -> u32 {
        let states = self.ways.first().map_or(0, |live| live.states.len());
        u32::try_from(states).unwrap_or(u32::MAX)
    }

    /// Stores the checkpoint whose images are in a directory, before the next one overwrites it. `content_bytes`: length of the images, uncompressed.
    ///
    /// # Errors
    /// Where there is no room for it, or it cannot be read or written. What was stored before stays.
    pub fn store(&mut self, images: &Utf8Path, content_bytes: u64) -> Result<(), RunFailure> {
        let number = self.states() + 1;
        let failed = |error| {
            let what = format!("checkpoint {number} cannot be stored as a delta");
            failure(Cause::Checkpoint, &what, &error)
        };
        let state = self.saved.list(images.as_std_path()).map_err(failed)?;
        make_dir(&self.dir).map_err(failed)?;
        require_room(&self.dir, self.most_bytes(state.bytes(), content_bytes)).map_err(failed)?;
        let live = self.live();
        let Some(first) = self.ways.first_mut() else {
            return Ok(());
        };
        self.last = state.files.iter().map(|file| file.name.clone()).collect();
        let (way, live) = (first.way, live.as_std_path());
        let (record, peak) = with_peak(|| {
            let mut series = if number == 1 {
                let options = options(way).map_err(|kind| DeltaError {
                    path: live.to_owned(),
                    kind,
                })?;
                Series::create(live, options)?
            } else {
                Series::open(live)?
            };
            series.add_source(state, &|_| {})
        });
        let record = record.map_err(failed)?;
        first.note_memory(peak);
        first.states.push(Figures {
            file_bytes: record.file_bytes,
            store_s: record.store_s,
            restore_s: None,
        });
        self.largest_bytes = self.largest_bytes.max(record.content_bytes);
        Ok(())
    }

    /// Moves the images of the last checkpoint away, restores them from base and deltas into their place, and compares them byte by byte. Of images that
    /// were gzip'd the uncompressed bytes are compared: those that are restored are not compressed. The script of the restart stays.
    ///
    /// # Errors
    /// Which state and file differ, or cannot be read or written. The images that the checkpointer wrote are then in their place again.
    pub fn restore_into(&mut self, images: &Utf8Path) -> Result<(), RunFailure> {
        let state = self.states();
        let failed = |error: DeltaError| {
            let what = format!("state {state}, restored from its deltas, cannot be restarted");
            failure(Cause::Restart, &what, &error)
        };
        let (moved, restored) = (self.dir.join("moved"), self.dir.join("restored"));
        make_dir(&moved).map_err(failed)?;
        require_room(&self.dir, self.largest_bytes).map_err(failed)?;
        // what was moved goes back the other way, in the other order
        let back = |steps: &[(&Utf8Path, &Utf8Path)], error: DeltaError| {
            let mut told = failed(error);
            for (from, to) in steps {
                if let Err(error) = move_entries(from, to) {
                    told.detail = format!(
                        "{}; and the images of the checkpoint could not be put back: {error}",
                        told.detail
                    );
                }
            }
            told
        };
        let bytes = move_entries(images, &moved)
            .and_then(|()| Series::open(self.live().as_std_path()))
            .and_then(|series| series.restore(state, restored.as_std_path(), &|_| {}))
            .and_then(|()| {
                let mut expected = State::list(moved.as_std_path())?;
                expected.files.retain(|file| self.last.contains(&file.name));
                let found = State::list(restored.as_std_path())?;
                require_same(&expected, &found)
            })
            .map_err(|error| back(&[(&moved, images)], error))?;
        move_entries(&restored, images)
            .map_err(|error| back(&[(images, &restored), (&moved, images)], error))?;
        for dir in [&moved, &restored] {
            remove_all(dir).map_err(|error| RunFailure::new(Cause::Restart, error.to_string()))?;
        }
        self.restarted_bytes = Some(bytes);
        Ok(())
    }

    /// All ways to store the series, for people.
    pub fn titles(&self) -> Vec<String> {
        (0..self.ways.len()).map(|n| self.title(n)).collect()
    }

    /// The `n`th way, for people.
    fn title(&self, n: usize) -> String {
        self.ways.get(n).map_or_else(String::new, |way| {
            let DeltaWay {
                method,
                codec,
                block,
            } = way.way;
            format!(
                "deltas: {}, {}, blocks of {block}",
                method.as_str(),
                codec.as_str()
            )
        })
    }

    /// Makes the series in the `n`th way from the states of the first one, and restores each state of it. Ends early when `stop` is set.
    ///
    /// # Errors
    /// Where there is no room for it, or something cannot be read or written.
    pub fn evaluate(&mut self, n: usize, stop: &AtomicBool) -> Result<(), RunFailure> {
        let what = format!("{} cannot be made", self.title(n));
        let failed = |error| failure(Cause::Checkpoint, &what, &error);
        let other = self.dir.join("other");
        let dir = if n == 0 { self.live() } else { other.clone() };
        let (states, room) = (self.states(), self.largest_bytes);
        let (work, live) = (self.dir.clone(), self.live());
        let Some(way) = self.ways.get_mut(n) else {
            return Ok(());
        };
        let options = way.way;
        let (done, peak) = with_peak(|| -> Result<(), DeltaError> {
            if n > 0 {
                let options = self::options(options).map_err(|kind| DeltaError {
                    path: dir.clone().into(),
                    kind,
                })?;
                let live = Series::open(live.as_std_path())?;
                let mut series = Series::create(dir.as_std_path(), options)?;
                let again = work.join("state");
                for state in 1..=states {
                    if stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    // the state, and the file that may be as long
                    require_room(&work, 2 * room)?;
                    live.restore(state, again.as_std_path(), &|_| {})?;
                    let record = series.add(again.as_std_path(), &|_| {})?;
                    remove(&again)?;
                    way.states.push(Figures {
                        file_bytes: record.file_bytes,
                        store_s: record.store_s,
                        restore_s: None,
                    });
                }
            }
            let series = Series::open(dir.as_std_path())?;
            let restored = work.join("restored");
            for (state, figures) in (1..).zip(&mut way.states) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                require_room(&work, room)?;
                let begin = Instant::now();
                series.restore(state, restored.as_std_path(), &|_| {})?;
                figures.restore_s = Some(begin.elapsed().as_secs_f64());
                remove(&restored)?;
            }
            Ok(())
        });
        done.map_err(failed)?;
        way.note_memory(peak);
        remove(&other).map_err(failed)
    }

    /// Keeps the series in the directory of the run, if that is wanted, and removes all else that was made for it.
    ///
    /// # Errors
    /// Where it cannot be copied, of which nothing is kept then, or something cannot be removed.
    pub fn finish(&self, run: &Utf8Path) -> Result<(), RunFailure> {
        let kept = self.keep(run);
        let cleared = if self.dir.exists() {
            remove_all(&self.dir)
        } else {
            Ok(())
        };
        kept.and(cleared).map_err(|error| {
            let cause = if error.is_full_disk() {
                Cause::DiskFull
            } else {
                Cause::Store
            };
            RunFailure::new(cause, format!("the deltas of the series: {error}"))
        })
    }

    fn keep(&self, run: &Utf8Path) -> Result<(), StoreError> {
        let (live, kept) = (self.live(), run.join(KEPT));
        if !self.keep || self.states() == 0 || fs::rename(&live, &kept).is_ok() {
            return Ok(());
        }
        copy_tree(&live, &kept).inspect_err(|_| {
            // a part of a series is none
            let _ = remove_all(&kept);
        })
    }

    /// Records what was measured.
    pub fn record(&self, to: &mut Findings) {
        let (clock, image) = (Source::Clock, Source::Image);
        for (n, way) in self.ways.iter().enumerate() {
            let mut labels = vec![
                ("method", way.way.method.as_str().to_owned()),
                ("codec", way.way.codec.as_str().to_owned()),
                ("block", way.way.block.0.to_string()),
            ];
            if n == 0 {
                // the program had cores meanwhile: its times compare with no others
                labels.push(("live", "true".to_owned()));
            }
            if let Some(bytes) = way.memory_bytes.filter(|_| !way.states.is_empty()) {
                let name = names::SERIES_MEMORY_BYTES;
                to.record(
                    name,
                    bytes as f64,
                    Unit::Bytes,
                    Source::Kernel,
                    None,
                    &labels,
                );
            }
            for (ckpt, figures) in (1_u32..).zip(&way.states) {
                let own = [vec![("ckpt", ckpt.to_string())], labels.clone()].concat();
                let (bytes, store_s) = (figures.file_bytes as f64, figures.store_s);
                to.record(
                    names::SERIES_FILE_BYTES,
                    bytes,
                    Unit::Bytes,
                    image,
                    None,
                    &own,
                );
                let name = names::SERIES_STORE_S;
                to.record(name, store_s, Unit::Seconds, clock, None, &own);
                if let Some(restore_s) = figures.restore_s {
                    let name = names::SERIES_RESTORE_S;
                    to.record(name, restore_s, Unit::Seconds, clock, None, &own);
                }
            }
        }
        if let (Some(bytes), Some(live)) = (self.restarted_bytes, self.ways.first()) {
            let labels = [
                ("ckpt", self.states().to_string()),
                ("method", live.way.method.as_str().to_owned()),
                ("codec", live.way.codec.as_str().to_owned()),
                ("block", live.way.block.0.to_string()),
            ];
            let name = names::SERIES_RESTARTED_BYTES;
            to.record(name, bytes as f64, Unit::Bytes, image, None, &labels);
        }
    }
}

/// Does something with deltas on a thread that may wait for disks. It goes on, and has them, when this is dropped: who locks them waits for it.
///
/// # Errors
/// As `work`, or when it panics.
pub(super) async fn on_a_thread(
    deltas: &Arc<tokio::sync::Mutex<Deltas>>,
    work: impl FnOnce(&mut Deltas) -> Result<(), RunFailure> + Send + 'static,
) -> Result<(), RunFailure> {
    // before the thread starts, so that nobody else comes before it
    let mut deltas = Arc::clone(deltas).lock_owned().await;
    tokio::task::spawn_blocking(move || work(&mut deltas))
        .await
        .map_err(|e| no_checkpoint(e.to_string()))?
}

/// What the delta engine says as a failure of the run.
fn failure(cause: Cause, what: &str, error: &DeltaError) -> RunFailure {
    let is_full = matches!(
        &error.kind,
        DeltaErrorKind::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull
    );
    let cause = if is_full { Cause::DiskFull } else { cause };
    RunFailure::new(cause, format!("{what}: {error}"))
}

fn io_error(path: &Utf8Path, verb: &'static str, error: io::Error) -> DeltaError {
    DeltaError {
        path: path.into(),
        kind: DeltaErrorKind::Io { verb, error },
    }
}

/// Makes a directory, if it is not there. Where the run's own directory is gone, nothing is made.
fn make_dir(dir: &Utf8Path) -> Result<(), DeltaError> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(io_error(dir, "make", error))
        }
        _ => Ok(()),
    }
}

/// Refuses to write so many bytes where there is no room for them: the program writes there too.
fn require_room(dir: &Utf8Path, bytes: u64) -> Result<(), DeltaError> {
    let free = free_bytes(dir.as_std_path()).map_err(|e| io_error(dir, "see the space of", e))?;
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

/// Moves what is in a directory to another one of the same file system, except scripts.
fn move_entries(from: &Utf8Path, to: &Utf8Path) -> Result<(), DeltaError> {
    let entries = fs::read_dir(from).map_err(|e| io_error(from, "list", e))?;
    for entry in entries {
        let path = entry.map_err(|e| io_error(from, "list", e))?.path();
        let name = path.file_name().unwrap_or_default();
        if Path::new(name).extension().is_some_and(|end| end == "sh") {
            continue;
        }
        fs::rename(&path, to.as_std_path().join(name)).map_err(|error| DeltaError {
            path: path.clone(),
            kind: DeltaErrorKind::Io {
                verb: "move",
                error,
            },
        })?;
    }
    Ok(())
}

fn remove(dir: &Utf8Path) -> Result<(), DeltaError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error(dir, "remove", error))
        }
        _ => Ok(()),
    }
}

/// Who measures the memory of this process.
#[derive(Debug)]
struct AtWork {
    /// Those that do now.
    now: usize,
    /// Those that ever did.
    started: u64,
}

/// Work of which the memory is measured.
struct Measured {
    /// Which one it is.
    number: u64,
    /// Whether it began alone, and the peak could be set back for it.
    is_reset: bool,
}

impl Measured {
    fn begin() -> Self {
        let mut at_work = AT_WORK.lock();
        at_work.now += 1;
        at_work.started += 1;
        Self {
            number: at_work.started,
            // the peak of another one is not set back
            is_reset: at_work.now == 1 && fs::write("/proc/self/clear_refs", "5").is_ok(),
        }
    }

    /// Whether nothing else was measured at the same time.
    fn is_alone(&self) -> bool {
        self.is_reset && AT_WORK.lock().started == self.number
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        AT_WORK.lock().now -= 1;
    }
}

/// Does something, and tells the most memory that this process had meanwhile, bytes: VmHWM of Linux, which can be set back; none where it cannot, or
/// where another run of this process did the same at the same time.
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

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::{campaign::DeltaMethod, ids::RunId, units::ByteSize};

    /// Real checkpoints of a small program on two ranks, gzip'd.
    const RELAX: &str = "../delta/tests/fixtures/relax";

    struct Run {
        _dir: tempfile::TempDir,
        images: Utf8PathBuf,
        deltas: Deltas,
    }

    impl Run {
        /// A run of which the first three checkpoints of [`RELAX`] were stored, each over the one before.
        fn new(methods: &[DeltaMethod], keep: bool) -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let work = Utf8Path::from_path(dir.path()).expect("UTF-8").join("work");
            let settings = DeltaSettings {
                methods: methods.to_vec(),
                codecs: vec![DeltaCodec::Lz4],
                blocks: vec![ByteSize(4 << 10), ByteSize(64 << 10)],
                keep,
            };
            let images = work.join("ckpt");
            fs::create_dir_all(&images).expect("a directory");
            fs::write(images.join("dmtcp_restart_script.sh"), "exec true").expect("writes");
            let mut deltas = Deltas::new(&settings, &work);
            for state in 1..=3 {
                let from = Utf8PathBuf::from(format!("{RELAX}/{state}"));
                copy_tree(&from, &images).expect("copies");
                deltas.store(&images, 0).expect("stored");
            }
            // what DMTCP left of an earlier checkpoint is no part of the state
            fs::write(images.join("left"), "of an earlier one").expect("writes");
            Self {
                _dir: dir,
                images,
                deltas,
            }
        }

        fn records(&self) -> Vec<(String, String, f64)> {
            let mut findings = Findings::new(RunId::of(b"r"));
            self.deltas.record(&mut findings);
            let records = findings.records.iter().map(|r| {
                let of = |key: &str| r.labels.get(key).cloned().unwrap_or_default();
                let labels = ["ckpt", "method", "codec", "block"].map(of).join(" ");
                (r.name.to_string(), labels, r.value)
            });
            records.collect()
        }
    }

    /// Names and bytes of all files in a directory.
    fn content(dir: &Utf8Path) -> Vec<(String, Vec<u8>)> {
        let files = State::list(dir.as_std_path()).expect("a state").files;
        let of = |file: cvc_delta::SourceFile| {
            let bytes = fs::read(&file.path).expect("reads");
            (file.name, bytes)
        };
        files.into_iter().map(of).collect()
    }

    #[test]
    fn a_series_that_cannot_be_kept_leaves_nothing_and_its_records_stay() {
        let run = Run::new(&[DeltaMethod::Incremental], true);
        let work = run.images.parent().expect("a directory");
        // no directory can be made below a file
        let file = work.join("file");
        fs::write(&file, "").expect("writes");
        let failure = run.deltas.finish(&file).expect_err("it is no directory");
        assert_eq!(failure.cause, Cause::Store, "{}", failure.detail);
        assert!(failure.detail.contains(KEPT), "{}", failure.detail);
        assert!(!work.join(DIR).exists(), "it is removed all the same");
        assert!(!run.records().is_empty());
    }

    #[test]
    fn room_is_wanted_for_what_compressed_images_contain() {
        let run = Run::new(&[DeltaMethod::Incremental], false);
        let state = State::list(run.images.as_std_path()).expect("a state");
        let (files, content) = (state.bytes(), run.deltas.largest_bytes);
        assert!(content > files, "they are gzip'd: {content} {files}");
        assert_eq!(run.deltas.most_bytes(files, 0), content);
        assert_eq!(run.deltas.most_bytes(files, 2 * content), 2 * content);
        // before anything was seen of it
        let mut first = Run::new(&[DeltaMethod::Incremental], false);
        let images = first.images.clone();
        let failure = first.deltas.store(&images, u64::MAX).expect_err("no room");
        assert_eq!(failure.cause, Cause::DiskFull);
    }

    #[tokio::test]
    async fn a_store_that_nobody_waits_for_goes_on_and_what_it_made_is_not_lost() {
        let run = Run::new(&[DeltaMethod::Incremental], true);
        let (images, work) = (
            run.images.clone(),
            run.images.parent().map(Utf8Path::to_owned),
        );
        let deltas = Arc::new(tokio::sync::Mutex::new(run.deltas));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let store = on_a_thread(&deltas, move |deltas| {
            wait.recv().expect("released");
            deltas.store(&images, 0)
        });
        let limit = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(limit, store).await.is_err(), "dropped");
        assert!(deltas.try_lock().is_err(), "it goes on");
        release.send(()).expect("it waits");
        let kept = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(kept.path()).expect("UTF-8").to_owned();
        let to = dir.clone();
        on_a_thread(&deltas, move |deltas| deltas.finish(&to))
            .await
            .expect("kept");
        let series = Series::open(dir.join(KEPT).as_std_path()).expect("a series");
        assert_eq!(series.states().len(), 4, "with the one that was dropped");
        assert!(!work.expect("a directory").join(DIR).exists());
    }

    #[test]
    fn memory_is_that_of_one_run_or_not_told() {
        let ((), peak) = with_peak(|| {
            let ((), inner) = with_peak(|| ());
            assert_eq!(inner, None, "another one is measured");
        });
        assert_eq!(peak, None, "it was not alone");
    }

    #[test]
    fn what_was_restored_takes_the_place_of_the_images_uncompressed() {
        let mut run = Run::new(&[DeltaMethod::Incremental], false);
        run.deltas.restore_into(&run.images).expect("the same");
        let there = State::list(run.images.as_std_path()).expect("a state");
        let names = |state: &State| -> Vec<String> {
            let files = state.files.iter().map(|file| file.name.clone());
            files.filter(|name| !name.ends_with(".sh")).collect()
        };
        let third = State::list(Path::new(&format!("{RELAX}/3"))).expect("a state");
        assert_eq!(names(&there), names(&third));
        assert!(run.images.join("dmtcp_restart_script.sh").exists());
        let image = there.files.iter().find(|f| f.name.ends_with(".dmtcp"));
        let bytes = fs::read(&image.expect("an image").path).expect("reads");
        assert_ne!(bytes[..2], [0x1f, 0x8b], "it is not gzip'd");
        let restarted = run.records();
        let restarted = restarted
            .iter()
            .find(|(name, ..)| name == names::SERIES_RESTARTED_BYTES)
            .expect("recorded");
        assert_eq!(restarted.1, "3 incremental lz4 4096");
        let content: u64 = there.bytes() - "exec true".len() as u64;
        assert_eq!(restarted.2, content as f64);
        let entries: Vec<_> = fs::read_dir(&run.deltas.dir)
            .expect("a directory")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(entries, ["series"], "nothing else is left");
    }

    #[test]
    fn a_byte_that_was_not_stored_is_told_with_its_state_and_file() {
        let mut run = Run::new(&[DeltaMethod::Incremental], false);
        let state = State::list(run.images.as_std_path()).expect("a state");
        let file = state.files.iter().find(|f| f.name.ends_with(".dmtcp"));
        let file = file.expect("an image");
        // the image of an earlier checkpoint of the same process
        fs::copy(format!("{RELAX}/1/{}", file.name), &file.path).expect("copies");
        let before = content(&run.images);
        let failure = run
            .deltas
            .restore_into(&run.images)
            .expect_err("it differs");
        assert_eq!(failure.cause, Cause::Restart);
        let beginning = "state 3, restored from its deltas, cannot be restarted: ";
        assert!(failure.detail.starts_with(beginning), "{}", failure.detail);
        assert!(failure.detail.contains(&file.name), "{}", failure.detail);
        assert!(
            !run.records()
                .iter()
                .any(|(name, ..)| name == names::SERIES_RESTARTED_BYTES)
        );
        assert_eq!(content(&run.images), before, "what differs is still there");
    }

    #[test]
    fn all_other_ways_are_made_from_the_first_and_each_state_is_restored() {
        let mut run = Run::new(&[DeltaMethod::Incremental, DeltaMethod::Full], true);
        let go_on = AtomicBool::new(false);
        let titles = run.deltas.titles();
        assert_eq!(titles.len(), 4);
        assert_eq!(titles[3], "deltas: full, lz4, blocks of 64KiB");
        for way in 0..4 {
            run.deltas.evaluate(way, &go_on).expect("made");
        }
        let records = run.records();
        for method in ["incremental", "full"] {
            for block in [4 << 10, 64 << 10] {
                for name in [
                    names::SERIES_FILE_BYTES,
                    names::SERIES_STORE_S,
                    names::SERIES_RESTORE_S,
                ] {
                    for ckpt in 1..=3 {
                        let labels = format!("{ckpt} {method} lz4 {block}");
                        let found = records
                            .iter()
                            .filter(|(n, l, value)| n == name && *l == labels && *value > 0.0);
                        assert_eq!(found.count(), 1, "{name} {labels}");
                    }
                }
            }
        }
        let bytes = |labels: &str| {
            let of = |(name, l, _): &&(String, String, f64)| {
                name == names::SERIES_FILE_BYTES && l == labels
            };
            records.iter().find(of).expect("a record").2
        };
        // larger blocks store more, and a state in full more than what changed
        let delta = bytes("3 incremental lz4 4096");
        assert!(bytes("3 incremental lz4 65536") > delta);
        assert!(bytes("3 full lz4 4096") > delta);

        // the first one is kept, and nothing else
        let kept = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(kept.path()).expect("UTF-8");
        run.deltas.finish(root).expect("kept");
        let work = run.images.parent().expect("a directory");
        assert!(!work.join(DIR).exists());
        let series = Series::open(root.join(KEPT).as_std_path()).expect("a series");
        for state in 1..=3_u32 {
            let same = format!("{RELAX}/{state}");
            let verified = series.verify(state, Some(Path::new(&same)), &|_| {});
            verified.unwrap_or_else(|e| panic!("state {state}: {e}"));
        }
    }

    #[test]
    fn a_way_that_is_stopped_records_no_time_that_was_not_measured() {
        let mut run = Run::new(&[DeltaMethod::Incremental, DeltaMethod::Full], false);
        run.deltas
            .evaluate(2, &AtomicBool::new(true))
            .expect("it ends");
        assert!(!run.records().iter().any(|(_, l, _)| l.contains("full")));
    }

    #[test]
    fn no_room_is_told_before_anything_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(dir.path()).expect("UTF-8");
        require_room(dir, 1).expect("room for a byte");
        let error = require_room(dir, u64::MAX).expect_err("no disk is as large");
        let failure = failure(Cause::Checkpoint, "it cannot be stored", &error);
        assert_eq!(failure.cause, Cause::DiskFull);
        assert!(
            failure.detail.contains("MiB are free"),
            "{}",
            failure.detail
        );
        assert_eq!(fs::read_dir(dir).expect("a directory").count(), 0);
    }
}
