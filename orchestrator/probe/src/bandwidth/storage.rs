//! Bandwidth of storage with several writers, and of memory while a thread writes to storage.

use super::{
    MIB,
    counters::{memory_events, moved_mib},
    memory::triads,
};
use crate::sentinel::file_system_type;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Bytes of one write or read.
const BLOCK: usize = 4 << 20;

/// Bandwidth of a directory's storage for a number of writers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorageBandwidth {
    /// The measured directory.
    pub dir: PathBuf,
    /// Type of the directory's file system.
    pub file_system: String,
    /// Number of threads that wrote at the same time, and afterwards read at the same time.
    pub writers: usize,
    /// MiB written by each writer.
    pub each_mib: f64,
    /// Total bandwidth of all writers until their data were synchronised, MiB/s.
    pub write_mib_s: f64,
    /// Total bandwidth of all readers after the files were dropped from the page cache, MiB/s.
    pub read_mib_s: f64,
    /// Rate at which all writers together create empty files in one directory, files/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates_s: Option<f64>,
    /// Number of files that can still be created; `None` if the file system does not count files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_files: Option<u64>,
    /// Whether the file system is in memory, so that no device is measured.
    pub in_memory: bool,
}

/// Maximum number of files that a writer creates, and the time after which it creates no more.
const MAX_CREATED: usize = 5000;
const CREATING: Duration = Duration::from_secs(1);

/// Why storage was not measured.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A file could not be written or read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The files of the measurement do not fit.
    #[error("{dir}: {needed_mib:.0} MiB are needed and {free_mib:.0} MiB are free")]
    Full {
        /// The directory.
        dir: PathBuf,
        /// Space that the measurement needs, MiB.
        needed_mib: f64,
        /// Free space, MiB.
        free_mib: f64,
    },
}

/// The file of a writer, which is removed when this value is dropped.
struct TestFile(PathBuf);

impl TestFile {
    fn new(dir: &Path, number: usize) -> Self {
        Self(dir.join(format!(".cvc-bandwidth-{}-{number}", std::process::id())))
    }

    fn at(&self, error: io::Error) -> StorageError {
        StorageError::File {
            path: self.0.clone(),
            error,
        }
    }

    /// Writes this number of blocks, and waits until they are on the device.
    fn write(
        &self,
        blocks: usize,
        seed: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<usize, StorageError> {
        let mut block = incompressible(seed);
        let mut file = File::create(&self.0).map_err(|error| self.at(error))?;
        let mut written = 0;
        for number in 0..blocks {
            if stop() {
                break;
            }
            // make each block differ from the previous one
            block[..8].copy_from_slice(&(number as u64).to_le_bytes());
            file.write_all(&block).map_err(|error| self.at(error))?;
            written += 1;
        }
        file.sync_all().map_err(|error| self.at(error))?;
        // if the kernel ignores this advice, the file is read from the cache
        let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        Ok(written)
    }

    fn read(&self) -> Result<(), StorageError> {
        let mut file = File::open(&self.0).map_err(|error| self.at(error))?;
        let mut block = vec![0u8; BLOCK];
        while file.read(&mut block).map_err(|error| self.at(error))? > 0 {}
        Ok(())
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns bytes that no file system can compress.
fn incompressible(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(BLOCK);
    while bytes.len() < BLOCK {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Runs this number of threads at the same time. Returns the time until the last one has ended, seconds.
fn together(
    count: usize,
    work: &(dyn Fn(usize) -> Result<(), StorageError> + Sync),
) -> Result<f64, StorageError> {
    let ready = Barrier::new(count);
    thread::scope(|scope| {
        let ready = &ready;
        let one = |number| {
            move || {
                ready.wait();
                let begin = Instant::now();
                work(number).map(|()| (begin, Instant::now()))
            }
        };
        let all: Vec<_> = (0..count).map(|number| scope.spawn(one(number))).collect();
        let mut times = Vec::new();
        for thread in all {
            let Ok(ended) = thread.join() else { continue };
            times.push(ended?);
        }
        let begin = times.iter().map(|(begin, _)| *begin).min();
        let end = times.iter().map(|(_, end)| *end).max();
        Ok(match (begin, end) {
            (Some(begin), Some(end)) => (end - begin).as_secs_f64(),
            _ => f64::NAN,
        })
    })
}

/// A directory of empty files, which is removed with them when this value is dropped.
struct CreatedFiles(PathBuf);

impl CreatedFiles {
    fn new(dir: &Path) -> Result<Self, StorageError> {
        let made = Self(dir.join(format!(".cvc-creates-{}", std::process::id())));
        match fs::create_dir(&made.0) {
            Ok(()) => Ok(made),
            Err(error) => Err(StorageError::File {
                path: made.0.clone(),
                error,
            }),
        }
    }

    /// Creates files on this number of threads at the same time. Returns the rate, files/s.
    fn rate(&self, writers: usize) -> Result<f64, StorageError> {
        let created = AtomicUsize::new(0);
        let seconds = together(writers, &|writer| {
            let begin = Instant::now();
            for number in 0..MAX_CREATED {
                let path = self.0.join(format!("{writer}-{number}"));
                File::create_new(&path).map_err(|error| StorageError::File { path, error })?;
                created.fetch_add(1, Ordering::Relaxed);
                if begin.elapsed() >= CREATING {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(created.into_inner() as f64 / seconds)
    }
}

impl Drop for CreatedFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the number of files that can still be created in a directory, if its file system counts files.
fn free_files(dir: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(dir).ok()?;
    (stat.files() > 0).then(|| stat.files_available())
}

/// Measures the storage of a directory: each of `writers` threads writes and reads `each_mib`, then creates empty files. All files are removed.
///
/// # Errors
/// The files do not fit, or cannot be written or read.
pub fn storage_bandwidth(
    dir: &Path,
    writers: usize,
    each_mib: u64,
) -> Result<StorageBandwidth, StorageError> {
    let failed = |error: io::Error| StorageError::File {
        path: dir.to_owned(),
        error,
    };
    let blocks = (each_mib as usize).div_ceil(BLOCK >> 20).max(1);
    let each_mib = (blocks * BLOCK) as f64 / MIB;
    let free_mib = cvc_os::space::free_bytes(dir).map_err(failed)? as f64 / MIB;
    let needed_mib = each_mib * writers as f64;
    if needed_mib > 0.9 * free_mib {
        return Err(StorageError::Full {
            dir: dir.to_owned(),
            needed_mib,
            free_mib,
        });
    }
    let files: Vec<TestFile> = (0..writers).map(|n| TestFile::new(dir, n)).collect();
    let write_s = together(writers, &|n| {
        files[n].write(blocks, n as u64 + 1, &|| false).map(drop)
    })?;
    let read_s = together(writers, &|n| files[n].read())?;
    let file_system = file_system_type(dir).unwrap_or_default();
    let free_files = free_files(dir);
    let has_room = free_files.is_none_or(|free| free > (writers * MAX_CREATED) as u64);
    let creates_s = match has_room {
        true => Some(CreatedFiles::new(dir)?.rate(writers)?),
        false => None,
    };
    Ok(StorageBandwidth {
        dir: dir.to_owned(),
        in_memory: ["tmpfs", "ramfs"].contains(&file_system.as_str()),
        file_system,
        writers,
        each_mib,
        write_mib_s: needed_mib / write_s,
        read_mib_s: needed_mib / read_s,
        creates_s: creates_s.filter(|rate| rate.is_finite()),
        free_files,
    })
}

/// How the memory traffic for each byte written was determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficSource {
    /// By counters of the memory controllers.
    Counted,
    /// From the bandwidth that triads lost to a writer.
    #[default]
    Inferred,
}

/// Bandwidth of memory with and without a thread that writes to storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BesideWriter {
    /// Number of threads that computed triads, a = b + s·c.
    pub threads: usize,
    /// Bandwidth of the triads without a writer, MiB/s.
    pub alone_mib_s: f64,
    /// Bandwidth of the triads while one thread wrote, MiB/s.
    pub beside_mib_s: f64,
    /// Write rate of the writing thread, MiB/s.
    pub write_mib_s: f64,
    /// Memory traffic in bytes for each byte written: counted if the machine has counters, otherwise inferred.
    pub traffic: f64,
    /// How the traffic was determined.
    #[serde(default)]
    pub traffic_source: TrafficSource,
    /// The inferred traffic: the loss of bandwidth of the triads divided by the write rate. The loss includes processor time and caches that the
    /// writer took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_traffic: Option<f64>,
}

/// Measures the bandwidth of memory with triads on `threads` threads: for `time` alone, then for `time` while a further thread writes to a directory.
///
/// # Errors
/// The file cannot be written.
pub fn memory_with_writer(
    dir: &Path,
    threads: usize,
    time: Duration,
) -> Result<BesideWriter, StorageError> {
    let begin = Instant::now();
    let alone = triads(threads, &|| begin.elapsed() >= time).mean_mib_s;
    let file = TestFile::new(dir, 0);
    let done = AtomicBool::new(false);
    let (beside, written) = thread::scope(|scope| {
        let begin = Instant::now();
        let (file, done) = (&file, &done);
        let writer = scope.spawn(move || {
            let written = write_for(file, time);
            done.store(true, Ordering::Relaxed);
            written.map(|mib| mib / begin.elapsed().as_secs_f64())
        });
        let beside = triads(threads, &|| done.load(Ordering::Relaxed)).mean_mib_s;
        (beside, writer.join())
    });
    let write_mib_s = written.unwrap_or(Ok(f64::NAN))?;
    let inferred = (alone - beside).max(0.0) / write_mib_s;
    let counted = counted_traffic(&file, time)?;
    Ok(BesideWriter {
        threads,
        alone_mib_s: alone,
        beside_mib_s: beside,
        write_mib_s,
        traffic: counted.unwrap_or(inferred),
        traffic_source: match counted {
            Some(_) => TrafficSource::Counted,
            None => TrafficSource::Inferred,
        },
        inferred_traffic: Some(inferred),
    })
}

/// Writes for this time, and returns the MiB written.
fn write_for(file: &TestFile, time: Duration) -> Result<f64, StorageError> {
    let begin = Instant::now();
    let mut blocks = 0;
    // each call rewrites the file, so that it stays small; at least one block is written, however short the time is
    while blocks == 0 || begin.elapsed() < time {
        let is_first = blocks == 0;
        blocks += file.write(16, 1, &|| !is_first && begin.elapsed() >= time)?;
    }
    Ok((blocks * BLOCK) as f64 / MIB)
}

/// Returns the bytes that memory moves for each byte that a thread writes, by counters: those while it writes, without those of a machine at rest.
/// `None` if the machine does not show such counters.
fn counted_traffic(file: &TestFile, time: Duration) -> Result<Option<f64>, StorageError> {
    let events = memory_events();
    if events.is_empty() {
        return Ok(None);
    }
    let at_rest = moved_mib(&events, time);
    let (busy, written) = thread::scope(|scope| {
        let counter = scope.spawn(|| moved_mib(&events, time));
        let written = write_for(file, time);
        (counter.join().ok().flatten(), written)
    });
    let (Some(at_rest), Some(busy)) = (at_rest, busy) else {
        return Ok(None);
    };
    Ok(Some((busy - at_rest) / written?).filter(|traffic| *traffic > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_measured_and_left_empty() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = storage_bandwidth(dir.path(), 2, 6).expect("a measurement");
        assert_eq!((of.writers, of.each_mib), (2, 8.0));
        assert!(of.write_mib_s > 0.0 && of.read_mib_s > 0.0, "{of:?}");
        assert!(!of.file_system.is_empty());
        assert!(of.creates_s.is_some_and(|rate| rate > 1.0), "{of:?}");
        let beside =
            memory_with_writer(dir.path(), 1, Duration::from_millis(100)).expect("a measurement");
        assert!(
            beside.write_mib_s > 0.0 && beside.traffic >= 0.0,
            "{beside:?}"
        );
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = storage_bandwidth(dir.path(), 4, 1 << 40).expect_err("too large");
        assert!(matches!(error, StorageError::Full { .. }), "{error}");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0);
        let missing = storage_bandwidth(&dir.path().join("none"), 1, 1).expect_err("missing");
        assert!(missing.to_string().contains("none"), "{missing}");
    }
}
