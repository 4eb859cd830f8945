//! The files of a trace: the numbers of their paths, and their lengths as far as a trace tells them.

use crate::{event::FileId, sink::Sink};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

/// The name of operations whose file the trace does not tell.
pub(crate) const UNKNOWN_FILE: &[u8] = b"<unknown file>";

/// Stands for a number that the trace does not tell.
const UNKNOWN: u64 = u64::MAX;

/// A number of bytes that may be unknown, of something that several descriptors share.
#[derive(Debug)]
pub(crate) struct Known(AtomicU64);

impl Known {
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

/// What a path stands for: lives on without its path while descriptors have it open.
#[derive(Debug)]
pub(crate) struct Inode {
    file: AtomicU32,
    /// Its length.
    pub(crate) length: Known,
}

impl Inode {
    pub(crate) fn new(file: FileId, length: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            file: AtomicU32::new(file.0),
            length: Known::new(length),
        })
    }

    /// The number of its path: of the last one, if that was removed.
    pub(crate) fn file(&self) -> FileId {
        FileId(self.file.load(Relaxed))
    }

    /// Takes note that it reaches at least this far.
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
    /// The number of a path, which the sink is told of if it is new.
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

    /// The path of a number that [`number`](Self::number) gave.
    pub(crate) fn path(&self, file: FileId) -> Arc<[u8]> {
        Arc::clone(&self.paths[file.0 as usize].0)
    }

    /// What the path of a number stands for now.
    pub(crate) fn inode(&self, file: FileId) -> Arc<Inode> {
        Arc::clone(&self.paths[file.0 as usize].1)
    }

    /// Lets the path of a number stand for something new.
    pub(crate) fn renew(&mut self, file: FileId, length: Option<u64>) -> Arc<Inode> {
        let inode = Inode::new(file, length);
        self.paths[file.0 as usize].1 = Arc::clone(&inode);
        inode
    }

    /// Moves what one path stands for to another one. A directory's files keep their paths.
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
