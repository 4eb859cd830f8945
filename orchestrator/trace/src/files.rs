//! The files of a trace: their paths and, as far as the trace shows them, their lengths.

use crate::{event::FileId, sink::Sink};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

/// The name used for operations whose file the trace does not record.
pub(crate) const UNKNOWN_FILE: &[u8] = b"<unknown file>";

/// Marks a value that the trace does not record.
const UNKNOWN: u64 = u64::MAX;

/// A number of bytes that may be unknown, shared between descriptors.
#[derive(Debug)]
pub(crate) struct SharedNumber(AtomicU64);

impl SharedNumber {
    pub(crate) fn new(value: Option<u64>) -> Self {
        Self(AtomicU64::new(value.unwrap_or(UNKNOWN)))
    }

    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Relaxed)).filter(|&value| value != UNKNOWN)
    }

    pub(crate) fn set(&self, value: Option<u64>) {
        self.0.store(value.unwrap_or(UNKNOWN), Relaxed);
    }
}

/// A file that a path refers to. It continues to exist while descriptors have it open, even if its path is removed.
#[derive(Debug)]
pub(crate) struct Inode {
    file: AtomicU32,
    /// Length of the file, bytes.
    pub(crate) length: SharedNumber,
}

impl Inode {
    pub(crate) fn new(file: FileId, length: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            file: AtomicU32::new(file.0),
            length: SharedNumber::new(length),
        })
    }

    /// Returns the ID of its path; if the path was removed, of its last path.
    pub(crate) fn file(&self) -> FileId {
        FileId(self.file.load(Relaxed))
    }

    /// Records that the file's length is at least `end`.
    pub(crate) fn extend(&self, end: u64) {
        if let Some(length) = self.length.get() {
            self.length.set(Some(length.max(end)));
        }
    }
}

/// The files of a trace.
#[derive(Debug, Default)]
pub(crate) struct Files {
    numbers: HashMap<Arc<[u8]>, FileId>,
    paths: Vec<(Arc<[u8]>, Arc<Inode>)>,
}

impl Files {
    /// Returns the ID of a path; announces a new path to the sink.
    pub(crate) fn number(&mut self, path: &[u8], sink: &mut dyn Sink) -> io::Result<FileId> {
        if let Some(&known) = self.numbers.get(path) {
            return Ok(known);
        }
        let next =
            u32::try_from(self.paths.len()).map_err(|_| io::Error::other("too many files"))?;
        let path: Arc<[u8]> = path.into();
        self.paths
            .push((Arc::clone(&path), Inode::new(FileId(next), None)));
        self.numbers.insert(Arc::clone(&path), FileId(next));
        sink.file(FileId(next), &path)?;
        Ok(FileId(next))
    }

    /// Returns the path of an ID that [`number`](Self::number) returned.
    pub(crate) fn path(&self, file: FileId) -> Arc<[u8]> {
        Arc::clone(&self.paths[file.0 as usize].0)
    }

    /// Returns the file to which the path with this ID refers now.
    pub(crate) fn inode(&self, file: FileId) -> Arc<Inode> {
        Arc::clone(&self.paths[file.0 as usize].1)
    }

    /// Makes the path with this ID refer to a new file.
    pub(crate) fn renew(&mut self, file: FileId, length: Option<u64>) -> Arc<Inode> {
        let inode = Inode::new(file, length);
        self.paths[file.0 as usize].1 = Arc::clone(&inode);
        inode
    }

    /// Moves a file from one path to another. If it is a directory, the files in it keep their paths.
    pub(crate) fn rename(&mut self, from: FileId, to: FileId) {
        if from == to {
            return;
        }
        let inode = self.inode(from);
        inode.file.store(to.0, Relaxed);
        self.paths[to.0 as usize].1 = inode;
        self.renew(from, None);
    }
}
