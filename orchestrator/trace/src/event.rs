//! One operation on a file, whoever recorded it.

/// A process of a trace: the number under which [`Sink::process`](crate::Sink::process) told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// A file of a trace: the number under which [`Sink::file`](crate::Sink::file) told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Opened or created.
    Open,
    /// Closed.
    Close,
    /// Read.
    Read,
    /// Written.
    Write,
    /// The position was set.
    Seek,
    /// Sent to the disk: `fsync`, `fdatasync`, `msync`.
    Sync,
    /// Cut or extended to a length, or space was reserved.
    Resize,
    /// Mapped into memory. Reads and writes through the mapping are invisible.
    Map,
    /// Renamed or linked.
    Rename,
    /// Removed.
    Remove,
    /// Asked about: `stat`, `access`.
    Stat,
    /// Another operation on a file or directory.
    Other,
}

impl Op {
    /// All operations, in the order of their numbers.
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

    /// Its word in tables and JSON.
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

    /// Whether bytes of a file move.
    pub fn is_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// Through which interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Api {
    /// System calls, as the kernel or the C library's wrappers see them.
    Posix,
    /// MPI-IO.
    MpiIo,
    /// Streams of the C library.
    Stdio,
    /// Anything above: HDF5, PnetCDF, functions of the application.
    Other,
}

impl Api {
    /// Its word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Posix => "posix",
            Self::MpiIo => "mpi-io",
            Self::Stdio => "stdio",
            Self::Other => "other",
        }
    }
}

/// One operation. The same operation can appear twice in a trace, once for each interface that saw it; sums are made of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who.
    pub process: ProcessId,
    /// Its thread, as the trace numbers it; 0 where the trace does not tell threads apart.
    pub thread: u64,
    /// On which file.
    pub file: FileId,
    /// What.
    pub op: Op,
    /// By which interface.
    pub api: Api,
    /// Where in the file, in bytes; `None` for what has no place, and where the trace does not tell it.
    pub offset: Option<u64>,
    /// How many bytes moved; of [`Op::Resize`] the new length, of [`Op::Map`] the length of the mapping, else 0. A call that failed moved none.
    pub bytes: u64,
    /// When it began, in nanoseconds since the start of the trace.
    pub start_ns: u64,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
    /// Whether the call failed.
    pub failed: bool,
}

impl Event {
    /// When it ended, in nanoseconds since the start of the trace.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}
