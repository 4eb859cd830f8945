//! The contract of a checkpointer: what it needs, how its runs are started, which course they take, and what it does while one runs, after it,
//! and for its restart.

use crate::{
    mpi::Missing,
    render::RenderError,
    run::{AttemptReporter, Findings, Input, RunContext, RunError, RunFailure, Shepherd},
    stage::Stages,
    transport::Transport,
};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_core::campaign::{CheckpointSettings, Site};
use cvc_core::point::Compression;
use serde_json::Value;
use std::{fmt, future::pending};

/// How far a checkpointer is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// What the campaign file names is only looked for, and not started: it may be somebody else's.
    Files,
    /// It is started, to see whether it works.
    Start,
}

/// An installed checkpointer. Of one that needs nothing, all is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install {
    /// Directory of its programs.
    pub bin: Utf8PathBuf,
    /// Version, as it tells it; `None` if it was not started.
    pub version: Option<String>,
}

impl Install {
    /// Returns the path of a program of it.
    pub fn program(&self, name: &str) -> String {
        self.bin.join(name).into_string()
    }

    /// Returns whether there is something that was not started, so that its version is unknown.
    pub fn is_unstarted(&self) -> bool {
        self.version.is_none() && !self.bin.as_str().is_empty()
    }

    /// Returns major and minor version, if known.
    pub fn major_minor(&self) -> Option<(u32, u32)> {
        let mut parts = self
            .version
            .as_ref()?
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

/// A checkpointer as software that machines must have.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    /// Variable with its prefix on this machine.
    pub root: &'static str,
    /// Returns the prefix that a site gives.
    pub prefix: fn(&Site) -> Option<&str>,
    /// Finds its version in what it prints.
    pub version: fn(&str) -> Option<String>,
}

/// The course of a run: who ends it, and whether it is restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// cvc asks for the checkpoints while the program runs.
    pub on_request: bool,
    /// cvc ends the program after its last checkpoint, so that its own verification is not reached.
    pub killed: bool,
    /// The run is over with that: it may not have come far enough to show its settings.
    pub cut_short: bool,
    /// It is restarted from its last checkpoint: images of a program that was ended, or what a program that has ended wrote itself.
    pub restarted: bool,
}

/// What a checkpointer adds to the script of a run, which does its part in the run's working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchPart {
    /// Lines before the program is started. `fail CODE` ends the script.
    pub before: String,
    /// Words before the launcher, as the shell reads them.
    pub wrapper: String,
    /// Words before the program of each rank, behind those of the launcher.
    pub rank: Vec<String>,
    /// Lines after the program's end.
    pub after: String,
    /// Files that it needs in the working directory.
    pub inputs: Vec<Input>,
}

/// How a run is restarted.
#[derive(Clone, Debug, PartialEq)]
pub enum Restart {
    /// By this script.
    Script(String),
    /// The program is started again as before, with these arguments.
    Program(Vec<String>),
}

/// Why no more checkpoints are taken, or none can be read or restarted.
#[derive(Debug)]
pub enum Halt {
    /// The run has failed.
    Failure(RunFailure),
    /// It cannot be carried out.
    Error(RunError),
}

impl From<RunFailure> for Halt {
    fn from(failure: RunFailure) -> Self {
        Self::Failure(failure)
    }
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        Self::Error(error)
    }
}

impl From<RenderError> for Halt {
    fn from(error: RenderError) -> Self {
        Self::Error(error.into())
    }
}

/// What a session knows of its run when that starts.
#[derive(Clone, Debug)]
pub struct SessionContext<'r> {
    /// The run.
    pub run: &'r RunContext,
    /// Processes that must take part before a checkpoint makes sense: ranks and launchers.
    pub peers: u32,
    /// What starts a command on another node: a program, which takes a host and a command.
    pub ssh_wrapper: Utf8PathBuf,
}

/// A checkpointer.
#[async_trait]
pub trait Checkpointer: Send + Sync {
    /// Name in campaign files.
    fn name(&self) -> &'static str;

    /// Name for people.
    fn title(&self) -> &'static str;

    /// Returns it as software that is installed by its name; `None` if it needs nothing.
    fn software(&self) -> Option<Software> {
        None
    }

    /// Finds it on this machine.
    ///
    /// # Errors
    /// When it is not installed, or does not work.
    async fn find(&self, _: &Site, _: Search) -> Result<Install, Missing> {
        Ok(Install::default())
    }

    /// Returns programs that every node of a run must have: none if it needs nothing.
    fn node_programs(&self, _: &Install) -> Vec<Utf8PathBuf> {
        Vec::new()
    }

    /// Returns the program that compresses its images, which every node of a run must have; `None` if none is needed.
    ///
    /// # Errors
    /// When it is not installed on this machine.
    fn compressor(&self, _: Compression) -> Result<Option<Utf8PathBuf>, Missing> {
        Ok(None)
    }

    /// Returns how its ranks get to nodes of a site with this transport.
    fn transport(&self, of_site: Transport) -> Transport {
        of_site
    }

    /// Returns directories in a run's working directory, on every node, that hold its images and what belongs to them.
    fn dirs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the course of a run under these settings.
    fn course(&self, settings: &CheckpointSettings) -> Course;

    /// Returns what it adds to the script of a run; `None` if the program is started as without it.
    ///
    /// # Errors
    /// When a template cannot be rendered.
    fn launch(&self, _: &Install, _: &RunContext) -> Result<Option<LaunchPart>, RenderError> {
        Ok(None)
    }

    /// Returns its part in a run.
    fn session<'r>(
        &self,
        install: &Install,
        context: SessionContext<'r>,
    ) -> Box<dyn CheckpointRun + 'r>;

    /// What its absence costs, for the doctor.
    fn cost_of_absence(&self) -> &'static str {
        "nothing"
    }

    /// Returns what to tell of runs on several nodes with this installation: a remark, and a hint.
    fn remark_on_nodes(&self, _: &Install) -> Option<(String, &'static str)> {
        None
    }
}

impl fmt::Debug for dyn Checkpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A checkpointer's part in one run, from its start to its end or that of its restart. Whoever calls these ends the run when a node is lost, or
/// the user wants it, and drops what is under way.
#[async_trait]
pub trait CheckpointRun: Send + Sync {
    /// Takes the checkpoints of the run that this shepherd watches over, each with its stages. Returns early when the run ends. Called only if cvc asks
    /// for checkpoints.
    async fn take(
        &mut self,
        _stages: &mut Stages<'_>,
        _shepherd: &mut Shepherd,
        _reporter: &AttemptReporter,
    ) -> Result<(), Halt> {
        Ok(())
    }

    /// Returns the number of checkpoints that were taken on request.
    fn taken(&self) -> usize {
        0
    }

    /// Ends the ranks, where it can do so faster or more cleanly than a signal.
    async fn stop(&self) {}

    /// Watches what the program does beside its run, once cvc asks for no more checkpoints. Returns only if the run has to end because of it.
    async fn accompany(&mut self, _stages: &mut Stages<'_>) -> RunFailure {
        pending().await
    }

    /// Hears that the program has ended, before anything is restarted.
    async fn ended(&mut self, _stages: &mut Stages<'_>) -> Result<(), Halt> {
        Ok(())
    }

    /// Reads what the run has left, which is over.
    async fn finish(&mut self) -> Result<(), Halt> {
        Ok(())
    }

    /// Returns how the run is restarted from its last checkpoint; `None` if there is nothing to restart. `values` are those of the run's script.
    fn restart(&self, _values: &Value) -> Result<Option<Restart>, Halt> {
        Ok(None)
    }

    /// Makes everything ready for the restart, before its start.
    ///
    /// # Errors
    /// Why it cannot be restarted, which is a failure of the run, or why that cannot be tried.
    async fn prepare_restart(&mut self) -> Result<(), Halt> {
        Ok(())
    }

    /// Waits until a restart under way cannot come to an end any more. Never returns if it can.
    async fn watch_restart(&self) -> RunFailure {
        pending().await
    }

    /// Returns what a restart that has ended says of its failure, in words of the checkpointer.
    fn explain_restart(&self) -> Option<String> {
        None
    }

    /// Returns the number of the checkpoint that a restart begins from, and how many bytes of output the program had printed by then, which it does
    /// not print again; `None` if it prints all.
    fn continues_from(&self) -> Option<(u32, u64)> {
        None
    }

    /// Records the checkpoints with what stages measured, and why they are a failure if they are. `output` is what the program printed.
    fn measure(
        &self,
        _output: &str,
        _stages: &Stages<'_>,
        _to: &mut Findings,
    ) -> Result<(), RunError> {
        Ok(())
    }

    /// Returns why it did not start, when the script says so.
    fn start_failure(&self) -> String {
        String::new()
    }

    /// Keeps its own logs beside the run.
    fn keep_logs(&self) {}
}
