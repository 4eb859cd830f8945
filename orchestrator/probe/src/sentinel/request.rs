//! What a sentinel can be asked, and what it answers.

use super::{
    end::Ended,
    facts::Facts,
    files::{Digested, FileFound, ListingFound, Tail},
    make::NewFile,
    metadata::{InstanceFacts, Notice},
    mounts::Space,
    ranks::RankProcess,
};
use crate::image::CheckpointDir;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A question or an order. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// What kind of node this is. Answer: [`Answer::Facts`].
    Facts {
        /// Paths of which the file system is to be told.
        #[serde(default)]
        paths: Vec<PathBuf>,
    },
    /// What time it is. Answer: [`Answer::Clock`].
    Clock,
    /// How much may still be written, and on what. Answer: [`Answer::Free`], in the order of the paths.
    Free {
        /// They need not exist: the nearest ancestor that does is meant.
        paths: Vec<PathBuf>,
    },
    /// Makes a run's directories and files anew. Answer: [`Answer::Done`], or an error that says what could not be made.
    Make {
        /// Removed before, with all that is in them; a missing one is not an error.
        #[serde(default)]
        remove: Vec<PathBuf>,
        /// Directories with their modes; missing parents are made as well.
        #[serde(default)]
        dirs: Vec<(PathBuf, u32)>,
        /// Files, written whole or not at all.
        #[serde(default)]
        files: Vec<NewFile>,
    },
    /// Which machine of a cloud this is. Answer: [`Answer::Instance`].
    Instance {
        /// Address of the metadata service, if not [`super::METADATA`].
        #[serde(default)]
        service: Option<String>,
    },
    /// Whether the cloud takes this machine back. Answer: [`Answer::Notice`].
    Notice {
        /// Address of the metadata service, if not [`super::METADATA`].
        #[serde(default)]
        service: Option<String>,
    },
    /// Which ranks of a run are here. Answer: [`Answer::Ranks`].
    Ranks {
        /// Value of `CVC_RUN` in the environment of the run's processes.
        marker: String,
    },
    /// From now on a run's processes are to be ended when the line closes. Answer: [`Answer::Done`].
    Guard {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Where its processes work: those that DMTCP restarted are known by it.
        dirs: Vec<PathBuf>,
        /// What is then removed: directories that are the run's own on this node.
        #[serde(default)]
        remove: Vec<PathBuf>,
    },
    /// Not any more. Answer: [`Answer::Done`].
    Unguard {
        /// Value of `CVC_RUN`.
        marker: String,
    },
    /// Ends all that is here of a run: TERM, then KILL; marked processes and all below them, those that DMTCP restarted in its directories,
    /// launchers' proxies above them, and the shared-memory files that they leave. Answer: [`Answer::Ended`].
    End {
        /// Value of `CVC_RUN`.
        marker: String,
        /// Where its processes work.
        dirs: Vec<PathBuf>,
        /// Between TERM and KILL, seconds.
        grace_s: f64,
    },
    /// Reads a checkpoint directory. Answer: [`Answer::Images`].
    Images {
        /// The directory.
        dir: PathBuf,
    },
    /// What lies in a directory, to see whether it still changes. Answer: [`Answer::Listing`].
    Listing {
        /// The directory.
        dir: PathBuf,
        /// Only names that end in one of these; all, if there are none.
        #[serde(default)]
        suffixes: Vec<String>,
    },
    /// Files that match patterns. Answer: [`Answer::Globs`].
    Globs {
        /// Where relative patterns start.
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
    /// Makes a copy of a directory; what was there before goes. Answer: [`Answer::Done`].
    Copy {
        /// The directory.
        from: PathBuf,
        /// Where its copy is to be.
        to: PathBuf,
    },
    /// The end of a file. Answer: [`Answer::Read`].
    Read {
        /// The file.
        path: PathBuf,
        /// Maximum number of its last bytes.
        most_bytes: u64,
    },
}

impl Request {
    /// What it is called in messages: as after `do`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Facts { .. } => "facts",
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
            Self::Listing { .. } => "listing",
            Self::Globs { .. } => "globs",
            Self::Digest { .. } => "digest",
            Self::Remove { .. } => "remove",
            Self::Copy { .. } => "copy",
            Self::Read { .. } => "read",
        }
    }
}

/// What a sentinel answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It has been done.
    Done,
    /// To [`Request::Facts`].
    Facts(Box<Facts>),
    /// To [`Request::Clock`]: nanoseconds since 1970, by the node's own clock.
    Clock {
        /// When the question was read.
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
    /// To [`Request::Listing`].
    Listing(ListingFound),
    /// To [`Request::Globs`], by path.
    Globs(Vec<FileFound>),
    /// To [`Request::Digest`].
    Digest(Vec<Digested>),
    /// To [`Request::Read`].
    Read(Tail),
}

impl Answer {
    /// What it answers, in messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Facts(_) => "facts",
            Self::Clock { .. } => "clock",
            Self::Free(_) => "free",
            Self::Instance(_) => "instance",
            Self::Notice(_) => "notice",
            Self::Ranks(_) => "ranks",
            Self::Ended(_) => "ended",
            Self::Images(_) => "images",
            Self::Listing(_) => "listing",
            Self::Globs(_) => "globs",
            Self::Digest(_) => "digest",
            Self::Read(_) => "read",
        }
    }
}
