//! Requests to a sentinel, and its answers.

use super::{
    conditions::Conditions,
    deltas::{DeltaDone, DeltaProblem, DeltaWork},
    end::Ended,
    facts::Facts,
    files::{Digested, FileFound, ListingFound, Part, Tail},
    make::NewFile,
    metadata::{InstanceFacts, Notice},
    mounts::Space,
    ranks::RankProcess,
    series::{CheckpointFiles, SeriesState},
};
use cvc_image::CheckpointDir;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A request. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Asks for the facts of the node. Answer: [`Answer::Facts`].
    Facts {
        /// Paths whose file system is requested.
        #[serde(default)]
        paths: Vec<PathBuf>,
    },
    /// Asks for what may disturb measurements on the node. Answer: [`Answer::Conditions`].
    Conditions,
    /// Asks for the time. Answer: [`Answer::Clock`].
    Clock,
    /// Asks for free space. Answer: [`Answer::Free`], in the order of the paths.
    Free {
        /// They need not exist: the nearest ancestor that does is meant.
        paths: Vec<PathBuf>,
    },
    /// Replaces a run's directories and files. Answer: [`Answer::Done`], or an error that says what could not be made.
    Make {
        /// Removed before, with all that is in them; a missing one is not an error.
        #[serde(default)]
        remove: Vec<PathBuf>,
        /// Directories with their modes; missing parents are made as well.
        #[serde(default)]
        dirs: Vec<(PathBuf, u32)>,
        /// Files, written atomically.
        #[serde(default)]
        files: Vec<NewFile>,
    },
    /// Asks for the cloud instance. Answer: [`Answer::Instance`].
    Instance {
        /// Address of the metadata service, if not [`super::METADATA`].
        #[serde(default)]
        service: Option<String>,
    },
    /// Asks whether the cloud is about to reclaim this machine. Answer: [`Answer::Notice`].
    Notice {
        /// Address of the metadata service, if not [`super::METADATA`].
        #[serde(default)]
        service: Option<String>,
    },
    /// Asks for the ranks of a run. Answer: [`Answer::Ranks`].
    Ranks {
        /// Value of `CVC_RUN` in the environment of the run's processes.
        marker: String,
    },
    /// Guards a run: its processes are ended when the connection closes. Answer: [`Answer::Done`].
    Guard {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Working directories of its processes, by which those restarted by DMTCP are found.
        dirs: Vec<PathBuf>,
        /// Directories to remove then: those that are the run's own on this node.
        #[serde(default)]
        remove: Vec<PathBuf>,
    },
    /// Stops guarding a run. Answer: [`Answer::Done`].
    Unguard {
        /// Value of `CVC_RUN`.
        marker: String,
    },
    /// Ends everything of a run here: TERM, then KILL; marked processes and all below them, those that DMTCP restarted in its directories,
    /// launchers' proxies above them, and the shared-memory files that they leave. Answer: [`Answer::Ended`].
    End {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Working directories of its processes.
        dirs: Vec<PathBuf>,
        /// Time between TERM and KILL, seconds.
        grace_s: f64,
    },
    /// Reads a checkpoint directory. Answer: [`Answer::Images`].
    Images {
        /// The directory.
        dir: PathBuf,
    },
    /// Compares a checkpoint with those of the same run that lay there before. Answer: [`Answer::Series`].
    Series {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Where it is.
        files: CheckpointFiles,
        /// Number of the checkpoint, from 1. A known one begins the series anew from there.
        number: u32,
    },
    /// Works with the deltas of a run's checkpoints. Answer: [`Answer::Deltas`].
    Deltas {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Directory for nothing else.
        dir: PathBuf,
        /// The work.
        work: DeltaWork,
    },
    /// Forgets the checkpoints of a run that were compared. Answer: [`Answer::Done`].
    SeriesEnd {
        /// Value of `CVC_RUN`.
        marker: String,
    },
    /// Lists a directory, to see whether it still changes. Answer: [`Answer::Listing`].
    Listing {
        /// The directory.
        dir: PathBuf,
        /// Only names that end in one of these; all, if there are none.
        #[serde(default)]
        suffixes: Vec<String>,
    },
    /// Files that match patterns. Answer: [`Answer::Globs`].
    Globs {
        /// Base of relative patterns.
        dir: PathBuf,
        /// Patterns, such as `out/*.dat` or `/scratch/run-1/*.dat`.
        patterns: Vec<String>,
    },
    /// Lengths and contents' digests of files. Answer: [`Answer::Digest`], in their order.
    Digest {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Removes paths; a missing one is not an error. Answer: [`Answer::Done`].
    Remove {
        /// Directories, with all that is in them.
        #[serde(default)]
        dirs: Vec<PathBuf>,
        /// Files.
        #[serde(default)]
        files: Vec<PathBuf>,
    },
    /// Replaces a directory by a copy of another. Answer: [`Answer::Done`].
    Copy {
        /// The directory.
        from: PathBuf,
        /// Path of the copy.
        to: PathBuf,
    },
    /// Reads a part of a file, to be put together elsewhere. Answer: [`Answer::Part`].
    Part {
        /// The file.
        path: PathBuf,
        /// Where the part begins, bytes.
        offset: u64,
    },
    /// Reads the end of a file. Answer: [`Answer::Read`].
    Read {
        /// The file.
        path: PathBuf,
        /// Maximum number of its last bytes.
        most_bytes: u64,
    },
}

impl Request {
    /// Its name in messages, as after `do`.
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
            Self::Guard { .. } => "guard",
            Self::Unguard { .. } => "unguard",
            Self::End { .. } => "end",
            Self::Images { .. } => "images",
            Self::Series { .. } => "series",
            Self::Deltas { .. } => "deltas",
            Self::SeriesEnd { .. } => "series-end",
            Self::Listing { .. } => "listing",
            Self::Globs { .. } => "globs",
            Self::Digest { .. } => "digest",
            Self::Remove { .. } => "remove",
            Self::Copy { .. } => "copy",
            Self::Part { .. } => "part",
            Self::Read { .. } => "read",
        }
    }
}

/// An answer of a sentinel.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Done.
    Done,
    /// To [`Request::Facts`].
    Facts(Box<Facts>),
    /// To [`Request::Conditions`].
    Conditions(Box<Conditions>),
    /// To [`Request::Clock`]: nanoseconds since 1970, by the node's own clock.
    Clock {
        /// Time at which the request was read.
        at_ns: i64,
    },
    /// To [`Request::Free`].
    Free(Vec<Space>),
    /// To [`Request::Instance`].
    Instance(InstanceFacts),
    /// To [`Request::Notice`].
    Notice(Option<Notice>),
    /// To [`Request::Ranks`], in rank order.
    Ranks(Vec<RankProcess>),
    /// To [`Request::End`].
    Ended(Ended),
    /// To [`Request::Images`].
    Images(Box<CheckpointDir>),
    /// To [`Request::Series`].
    Series(SeriesState),
    /// To [`Request::Deltas`].
    Deltas(Result<DeltaDone, DeltaProblem>),
    /// To [`Request::Listing`].
    Listing(ListingFound),
    /// To [`Request::Globs`], by path.
    Globs(Vec<FileFound>),
    /// To [`Request::Digest`].
    Digest(Vec<Digested>),
    /// To [`Request::Part`].
    Part(Part),
    /// To [`Request::Read`].
    Read(Tail),
}

impl Answer {
    /// Its name in messages.
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
            Self::Listing(_) => "listing",
            Self::Globs(_) => "globs",
            Self::Digest(_) => "digest",
            Self::Part(_) => "part",
            Self::Read(_) => "read",
        }
    }
}
