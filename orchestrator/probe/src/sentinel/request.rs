//! Requests to a sentinel, and its answers.

use super::{
    conditions::Conditions,
    deltas::{DeltaDone, DeltaProblem, DeltaWork},
    end::EndedProcesses,
    facts::NodeFacts,
    files::{Digested, FileFound, FilePart, ListingFound, Tail},
    levels::{LevelDone, LevelProblem, LevelWork},
    make::NewFile,
    metadata::{InstanceFacts, MetadataNotice},
    mounts::MountSpace,
    ranks::RankProcess,
    series::{CheckpointFiles, SeriesState},
    storage::{CounterText, ServersFound, ServersOf},
};
use cvc_image::CheckpointDir;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A request. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum SentinelRequest {
    /// Requests the facts of the node. Answer: [`SentinelAnswer::Facts`].
    Facts {
        /// Paths whose file systems are described.
        #[serde(default)]
        paths: Vec<PathBuf>,
    },
    /// Reads the settings and the activity of the node that may disturb measurements. Answer: [`SentinelAnswer::Conditions`].
    Conditions,
    /// Reads the node's clock. Answer: [`SentinelAnswer::Clock`].
    Clock,
    /// Measures the free space at paths. Answer: [`SentinelAnswer::Free`], in the order of the paths.
    Free {
        /// The paths. For a path that does not exist, its nearest existing ancestor is measured.
        paths: Vec<PathBuf>,
    },
    /// Replaces a run's directories and files. Answer: [`SentinelAnswer::Done`], or an error that names the path that failed.
    Make {
        /// Paths to remove first, directories with their contents. A missing path is not an error.
        #[serde(default)]
        remove: Vec<PathBuf>,
        /// Directories to create, with their modes. Missing parents are created as well.
        #[serde(default)]
        dirs: Vec<(PathBuf, u32)>,
        /// Files to create; each is written atomically.
        #[serde(default)]
        files: Vec<NewFile>,
    },
    /// Reads the id, type, zone and market of the cloud instance. Answer: [`SentinelAnswer::Instance`].
    Instance {
        /// Address of the metadata service, if not [`super::METADATA`].
        #[serde(default)]
        service: Option<String>,
    },
    /// Checks whether the cloud is about to reclaim this machine. Answer: [`SentinelAnswer::Notice`].
    Notice {
        /// Address of the metadata service, if not [`super::METADATA`].
        #[serde(default)]
        service: Option<String>,
    },
    /// Lists the living ranks of a run on this node. Answer: [`SentinelAnswer::Ranks`].
    Ranks {
        /// Value of `CVC_RUN` in the environment of the run's processes.
        marker: String,
    },
    /// Sends a signal to the ranks of a run. Answer: [`SentinelAnswer::Ranks`], the ranks that received the signal.
    Signal {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Number of the signal.
        signal: i32,
    },
    /// Guards a run: when the connection closes, the run's processes are ended. Answer: [`SentinelAnswer::Done`].
    Guard {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Working directories of the run's processes, by which processes restarted by DMTCP are found.
        dirs: Vec<PathBuf>,
        /// Directories of the run on this node, to remove when the connection closes.
        #[serde(default)]
        remove: Vec<PathBuf>,
    },
    /// Stops guarding a run. Answer: [`SentinelAnswer::Done`].
    Unguard {
        /// Value of `CVC_RUN`.
        marker: String,
    },
    /// Ends all processes of a run on this node with TERM, then KILL: marked processes and their descendants, processes that DMTCP restarted in the
    /// run's directories, and launchers' proxies above them. Removes the shared-memory files that these processes leave. Answer:
    /// [`SentinelAnswer::Ended`].
    End {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Working directories of the run's processes.
        dirs: Vec<PathBuf>,
        /// Time between TERM and KILL, seconds.
        grace_s: f64,
    },
    /// Reads the images in a checkpoint directory. Answer: [`SentinelAnswer::Images`].
    Images {
        /// The directory.
        dir: PathBuf,
    },
    /// Compares a checkpoint with the checkpoints of the same run that were read before. Answer: [`SentinelAnswer::Series`].
    Series {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Location of the checkpoint's files.
        files: CheckpointFiles,
        /// Number of the checkpoint, from 1. If a checkpoint of this number was read before, the series continues from there and later ones are
        /// dropped.
        number: u32,
    },
    /// Stores or restores a run's checkpoints as deltas. Answer: [`SentinelAnswer::Deltas`].
    Deltas {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Directory used for the deltas only.
        dir: PathBuf,
        /// The operation to do.
        work: DeltaWork,
    },
    /// Keeps, copies or restores a run's checkpoints on nodes. Answer: [`SentinelAnswer::Levels`].
    Levels {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Directory used for the kept checkpoints only.
        dir: PathBuf,
        /// The operation to do.
        work: LevelWork,
    },
    /// Discards the page hashes of a run whose checkpoints were compared. Answer: [`SentinelAnswer::Done`].
    SeriesEnd {
        /// Value of `CVC_RUN`.
        marker: String,
    },
    /// Lists a directory; two listings show whether it still changes. Answer: [`SentinelAnswer::Listing`].
    Listing {
        /// The directory.
        dir: PathBuf,
        /// Suffixes: only names with one of these suffixes are listed. Without suffixes, all names are listed.
        #[serde(default)]
        suffixes: Vec<String>,
    },
    /// Lists the files that match patterns. Answer: [`SentinelAnswer::Globs`].
    Globs {
        /// Directory to which relative patterns refer.
        dir: PathBuf,
        /// Patterns, such as `out/*.dat` or `/scratch/run-1/*.dat`.
        patterns: Vec<String>,
    },
    /// Reads files and returns their lengths and digests, in the order of the files. Answer: [`SentinelAnswer::Digest`].
    Digest {
        /// Files to read.
        files: Vec<PathBuf>,
    },
    /// Removes paths; a missing path is not an error. Answer: [`SentinelAnswer::Done`].
    Remove {
        /// Directories to remove with their contents.
        #[serde(default)]
        dirs: Vec<PathBuf>,
        /// Files to remove.
        #[serde(default)]
        files: Vec<PathBuf>,
    },
    /// Replaces a directory by a copy of another directory. Answer: [`SentinelAnswer::Done`].
    Copy {
        /// The directory to copy.
        from: PathBuf,
        /// Path of the copy; what exists there is removed first.
        to: PathBuf,
    },
    /// Reads a part of a file, so that the receiver can assemble the file from its parts. Answer: [`SentinelAnswer::Part`].
    Part {
        /// The file to read.
        path: PathBuf,
        /// Offset of the part, bytes.
        offset: u64,
    },
    /// Writes a part of a file. The first part creates the file and its directories. Answer: [`SentinelAnswer::Done`].
    Write {
        /// The file to write.
        path: PathBuf,
        /// Offset of the part, bytes.
        offset: u64,
        /// Bytes of the part.
        part: FilePart,
    },
    /// Reads the end of a file. Answer: [`SentinelAnswer::Read`].
    Read {
        /// The file to read.
        path: PathBuf,
        /// Maximum number of bytes to read at the end of the file.
        most_bytes: u64,
    },
    /// Reads the counters that a file system keeps of its clients. Answer: [`Answer::Counters`].
    Counters {
        /// A path in the file system.
        path: PathBuf,
    },
    /// Lists the servers of a file system that are in service. Answer: [`Answer::Servers`].
    Servers {
        /// How the servers are found.
        servers: ServersOf,
    },
}

impl SentinelRequest {
    /// Returns the request's name for messages, as in the field `do` of the protocol.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Facts { .. } => "facts",
            Self::Conditions => "conditions",
            Self::Clock => "clock",
            Self::Free { .. } => "free",
            Self::Make { .. } => "make",
            Self::Instance { .. } => "instance",
            Self::Notice { .. } => "notice",
            Self::Ranks { .. } => "ranks",
            Self::Signal { .. } => "signal",
            Self::Guard { .. } => "guard",
            Self::Unguard { .. } => "unguard",
            Self::End { .. } => "end",
            Self::Images { .. } => "images",
            Self::Series { .. } => "series",
            Self::Deltas { .. } => "deltas",
            Self::Levels { .. } => "levels",
            Self::SeriesEnd { .. } => "series-end",
            Self::Listing { .. } => "listing",
            Self::Globs { .. } => "globs",
            Self::Digest { .. } => "digest",
            Self::Remove { .. } => "remove",
            Self::Copy { .. } => "copy",
            Self::Part { .. } => "part",
            Self::Write { .. } => "write",
            Self::Read { .. } => "read",
            Self::Counters { .. } => "counters",
            Self::Servers { .. } => "servers",
        }
    }
}

/// An answer of a sentinel.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SentinelAnswer {
    /// The request was carried out and returns no data.
    Done,
    /// Answer to [`SentinelRequest::Facts`].
    Facts(Box<NodeFacts>),
    /// Answer to [`SentinelRequest::Conditions`].
    Conditions(Box<Conditions>),
    /// Answer to [`SentinelRequest::Clock`], by the node's own clock.
    Clock {
        /// Time at which the request was read, nanoseconds since 1970.
        at_ns: i64,
    },
    /// Answer to [`SentinelRequest::Free`].
    Free(Vec<MountSpace>),
    /// Answer to [`SentinelRequest::Instance`].
    Instance(InstanceFacts),
    /// Answer to [`SentinelRequest::Notice`].
    Notice(Option<MetadataNotice>),
    /// Answer to [`SentinelRequest::Ranks`] and [`SentinelRequest::Signal`], in rank order.
    Ranks(Vec<RankProcess>),
    /// Answer to [`SentinelRequest::End`].
    Ended(EndedProcesses),
    /// Answer to [`SentinelRequest::Images`].
    Images(Box<CheckpointDir>),
    /// Answer to [`SentinelRequest::Series`].
    Series(SeriesState),
    /// Answer to [`SentinelRequest::Deltas`].
    Deltas(Result<DeltaDone, DeltaProblem>),
    /// Answer to [`SentinelRequest::Levels`].
    Levels(Result<LevelDone, LevelProblem>),
    /// Answer to [`SentinelRequest::Listing`].
    Listing(ListingFound),
    /// Answer to [`SentinelRequest::Globs`], sorted by path.
    Globs(Vec<FileFound>),
    /// Answer to [`SentinelRequest::Digest`].
    Digest(Vec<Digested>),
    /// Answer to [`SentinelRequest::Part`].
    Part(FilePart),
    /// Answer to [`SentinelRequest::Read`].
    Read(Tail),
    /// Answer to [`Request::Counters`].
    Counters(CounterText),
    /// Answer to [`Request::Servers`].
    Servers(ServersFound),
}

impl SentinelAnswer {
    /// Returns the answer's name for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Facts(_) => "facts",
            Self::Conditions(_) => "conditions",
            Self::Clock { .. } => "clock",
            Self::Free(_) => "free",
            Self::Instance(_) => "instance",
            Self::Notice(_) => "notice",
            Self::Ranks(_) => "ranks",
            Self::Ended(_) => "ended",
            Self::Images(_) => "images",
            Self::Series(_) => "series",
            Self::Deltas(_) => "deltas",
            Self::Levels(_) => "levels",
            Self::Listing(_) => "listing",
            Self::Globs(_) => "globs",
            Self::Digest(_) => "digest",
            Self::Part(_) => "part",
            Self::Read(_) => "read",
            Self::Counters(_) => "counters",
            Self::Servers(_) => "servers",
        }
    }
}
