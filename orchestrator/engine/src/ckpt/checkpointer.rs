//! The contract of a checkpointer: what it needs, how its runs are started, and which course they take.

use super::dmtcp::DmtcpInstall;
use crate::{mpi::Missing, transport::Transport};
use camino::Utf8PathBuf;
use cvc_core::campaign::CheckpointSettings;
use std::fmt;

/// Tools for checkpoints that a site has.
#[derive(Clone, Copy, Debug)]
pub struct Tools<'a> {
    /// DMTCP.
    pub dmtcp: &'a Result<DmtcpInstall, Missing>,
}

/// The course of a run: who ends it, and what is restarted after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// cvc asks for the checkpoints while the program runs.
    pub on_request: bool,
    /// cvc ends the program after its last checkpoint, so that its own verification is not reached.
    pub killed: bool,
    /// The run is over with that: it may not have come far enough to show its settings.
    pub cut_short: bool,
    /// What is restarted.
    pub restart: Restart,
}

/// What is restarted to see whether a checkpoint can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Nothing.
    #[default]
    Nothing,
    /// The images that the checkpointer wrote.
    Images,
    /// The program, from the files that it wrote itself.
    OwnFiles,
}

/// A checkpointer.
pub trait Checkpointer: Send + Sync {
    /// Name in campaign files.
    fn name(&self) -> &'static str;

    /// Returns what its runs need and the site lacks.
    fn missing<'t>(&self, _tools: &Tools<'t>) -> Option<&'t Missing> {
        None
    }

    /// Returns programs that every node of a run must have.
    fn node_programs(&self, _tools: &Tools<'_>) -> Vec<Utf8PathBuf> {
        Vec::new()
    }

    /// Returns how its ranks get to nodes of a site with this transport.
    fn transport(&self, of_site: Transport) -> Transport {
        of_site
    }

    /// Returns whether the program writes checkpoint files of its own, which are measured.
    fn has_own_files(&self) -> bool {
        false
    }

    /// Returns the course of a run under these settings.
    fn course(&self, settings: &CheckpointSettings) -> Course;
}

impl fmt::Debug for dyn Checkpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
