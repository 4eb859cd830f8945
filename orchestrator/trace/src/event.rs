//! A single operation on a file, in the same form for all tracers.

/// ID of a process in a trace, announced by [`Sink::process`](crate::Sink::process).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// ID of a file in a trace, announced by [`Sink::file`](crate::Sink::file).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Opens or creates a file.
    Open,
    /// Closes a file.
    Close,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Sets the position.
    Seek,
    /// Writes data to storage: `fsync`, `fdatasync`, `msync`.
    Sync,
    /// Changes the length of a file, or reserves space.
    Resize,
    /// Maps a file into memory. Reads and writes through the mapping are not recorded.
    Map,
    /// Renames or links a file.
    Rename,
    /// Removes a file.
    Remove,
    /// Queries attributes: `stat`, `access`.
    Stat,
    /// Any other operation on a file or directory.
    Other,
}

impl Op {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Open,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Seek,
        Self::Sync,
        Self::Resize,
        Self::Map,
        Self::Rename,
        Self::Remove,
        Self::Stat,
        Self::Other,
    ];

    /// Returns the word used in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Seek => "seek",
            Self::Sync => "sync",
            Self::Resize => "resize",
            Self::Map => "map",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Stat => "stat",
            Self::Other => "other",
        }
    }

    /// Returns whether the operation moves bytes of a file.
    pub fn is_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// Interface through which an operation was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Api {
    /// System calls, as the kernel or the C library's wrappers see them.
    Posix,
    /// MPI-IO.
    MpiIo,
    /// Streams of the C library.
    Stdio,
    /// An interface above these: HDF5, PnetCDF, functions of the application.
    Other,
}

impl Api {
    /// Returns the word used in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Posix => "posix",
            Self::MpiIo => "mpi-io",
            Self::Stdio => "stdio",
            Self::Other => "other",
        }
    }

    /// Returns the level above the file system. Bytes moved through a higher interface are also moved through a lower one, unless the lower one was
    /// not traced.
    pub fn height(self) -> u8 {
        match self {
            Self::Posix => 0,
            Self::Stdio => 1,
            Self::MpiIo => 2,
            Self::Other => 3,
        }
    }
}

/// A single operation. It may occur several times in a trace, once for each interface that recorded it; sums must use only one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The process.
    pub process: ProcessId,
    /// The thread, as numbered in the trace; 0 if the trace does not distinguish threads.
    pub thread: u64,
    /// The file.
    pub file: FileId,
    /// Kind of the operation.
    pub op: Op,
    /// Interface through which it was called.
    pub api: Api,
    /// Offset in the file, bytes; `None` if the operation has no offset or the trace does not record it.
    pub offset: Option<u64>,
    /// Bytes moved; for [`Op::Resize`] the new length, for [`Op::Map`] the length of the mapping, else 0. A failed call moved 0 bytes.
    pub bytes: u64,
    /// Start, nanoseconds since the start of the trace.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
    /// Whether the call failed.
    pub failed: bool,
}

impl Event {
    /// Returns the end, nanoseconds since the start of the trace.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}
