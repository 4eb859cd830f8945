//! The contract of a checkpointer: its requirements, how it starts runs, and its work during a run, after the run, and for a restart.

use crate::{
    mpi::Missing,
    render::RenderError,
    run::{
        AttemptReporter, Findings, OutputSizes, RestartNumber, RunContext, RunError, RunFailure,
        RunInput, Shepherd,
    },
    stage::Stages,
    transport::Transport,
};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_core::campaign::{CheckpointPlan, Site};
use cvc_core::outcome::Cause;
use cvc_core::point::Compression;
use cvc_core::strategy::Strategy;
use cvc_probe::sentinel::FileFound;
use serde_json::Value;
use std::{fmt, future::pending, time::Duration};

/// How thoroughly cvc searches for a checkpointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Searches for programs that the campaign file names, but does not start them: the campaign file may come from another user.
    Files,
    /// Starts the checkpointer, to check whether it works.
    Start,
}

/// An installed checkpointer. All fields are empty for a checkpointer without software.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install {
    /// Directory of the checkpointer's programs.
    pub bin: Utf8PathBuf,
    /// Version that the checkpointer prints; `None` if it was not started.
    pub version: Option<String>,
    /// Whether this build lets forked copies of the processes write the images. cvc can disable that for a run.
    pub forks: bool,
}

impl Install {
    /// Returns the path of the checkpointer's program of this name.
    pub fn program(&self, name: &str) -> String {
        self.bin.join(name).into_string()
    }

    /// Returns whether the checkpointer has programs whose version is unknown because they were not started.
    pub fn is_unstarted(&self) -> bool {
        self.version.is_none() && !self.bin.as_str().is_empty()
    }

    /// Returns the major and the minor version, if known.
    pub fn major_minor(&self) -> Option<(u32, u32)> {
        let mut parts = self
            .version
            .as_ref()?
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

/// The software of a checkpointer, which must be installed on machines.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    /// Environment variable that holds the installation prefix on this machine.
    pub root: &'static str,
    /// Returns the prefix that a site configures.
    pub prefix: fn(&Site) -> Option<&str>,
    /// Parses the version from the program's output.
    pub version: fn(&str) -> Option<String>,
}

/// Course of a run: who ends it, and whether it is restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// cvc requests the checkpoints while the program runs.
    pub on_request: bool,
    /// cvc ends the program after its last checkpoint, so the program does not reach its own verification.
    pub killed: bool,
    /// The program is ended by its last checkpoint, perhaps before it has printed its settings.
    pub cut_short: bool,
    /// The run is restarted from its last checkpoint: from images of a program that was ended, or from the files of a program that has ended by
    /// itself.
    pub restarted: bool,
}

impl Course {
    /// Returns the course of a run that continues from a checkpoint of an earlier attempt. Such a run is neither killed nor restarted, because
    /// continuing already tests a restart.
    #[must_use]
    pub fn resumed(self) -> Self {
        Self {
            killed: false,
            restarted: false,
            ..self
        }
    }
}

/// A checkpointer's part of a run's script. The script runs in the run's working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchPart {
    /// Lines before the program is started. `fail CODE` ends the script.
    pub before: String,
    /// Words in front of the launcher's command, quoted for the shell.
    pub wrapper: String,
    /// Words in front of each rank's program, after the launcher's arguments.
    pub rank: Vec<String>,
    /// Lines after the program's end.
    pub after: String,
    /// Files that the checkpointer needs in the working directory.
    pub inputs: Vec<RunInput>,
}

/// How a run is restarted.
#[derive(Clone, Debug, PartialEq)]
pub enum Restart {
    /// This script restarts the run.
    Script(String),
    /// The launcher starts the program again, with these arguments instead of the original ones.
    Program(Vec<String>),
}

/// How much the program had printed when it took the checkpoint that a restart begins from. The restarted program does not print that output again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// Number of the checkpoint.
    pub number: u32,
    /// Length of the output when the checkpoint was requested.
    pub asked: OutputSizes,
    /// Length of the output when every process had stored its part.
    pub whole: OutputSizes,
}

/// A complete checkpoint that the next attempt may continue from.
#[derive(Clone, Debug)]
pub struct CheckpointToKeep {
    /// The checkpointer's data for continuing from the checkpoint.
    pub details: Value,
    /// Files of the checkpoint, each with the node that has it.
    pub files: Vec<(String, FileFound)>,
}

/// Why a run's checkpointing stops: no checkpoint can be taken, read or restarted any more.
#[derive(Debug)]
pub enum Halt {
    /// The run has failed.
    Failure(RunFailure),
    /// The run cannot be carried out.
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

/// Facts about a run that its [`CheckpointRun`] gets at the start.
#[derive(Clone, Debug)]
pub struct SessionContext<'r> {
    /// The run.
    pub run: &'r RunContext,
    /// Number of processes (ranks and launchers) that must be connected to the checkpointer before a checkpoint is useful.
    pub peers: u32,
    /// Program that starts a command on another node; its arguments are the host and the command.
    pub ssh_wrapper: Utf8PathBuf,
    /// Whether checkpoints are kept for the run's next attempt.
    pub keeps: bool,
}

/// A checkpointer.
#[async_trait]
pub trait Checkpointer: Send + Sync {
    /// Name in campaign files.
    fn name(&self) -> &'static str;

    /// Display name.
    fn title(&self) -> &'static str;

    /// Returns the software to install under the checkpointer's name; `None` if it needs none.
    fn software(&self) -> Option<Software> {
        None
    }

    /// Finds the checkpointer on this machine.
    ///
    /// # Errors
    /// The checkpointer is not installed, or does not work.
    async fn find(&self, _: &Site, _: Search) -> Result<Install, Missing> {
        Ok(Install::default())
    }

    /// Returns the programs that every node of a run must have; empty if the checkpointer needs none.
    fn node_programs(&self, _: &Install) -> Vec<Utf8PathBuf> {
        Vec::new()
    }

    /// Returns the program that compresses the checkpointer's images, which every node of a run must have; `None` if none is needed.
    ///
    /// # Errors
    /// The compressor is not installed on this machine.
    fn compressor(&self, _: Compression) -> Result<Option<Utf8PathBuf>, Missing> {
        Ok(None)
    }

    /// Checks that this installation can take checkpoints with this strategy.
    ///
    /// # Errors
    /// The strategy needs a feature that the installation lacks.
    fn check_strategy(&self, _: &Install, _: Strategy) -> Result<(), Missing> {
        Ok(())
    }

    /// Returns how ranks under this checkpointer are started on other nodes. `of_site` is how the site starts ranks without a checkpointer.
    fn transport(&self, of_site: Transport) -> Transport {
        of_site
    }

    /// Returns names of the directories, in a run's working directory on every node, that contain images and related files.
    fn dirs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the course of a run with this checkpoint plan.
    fn course(&self, plan: &CheckpointPlan) -> Course;

    /// Returns the checkpointer's part of a run's script; `None` if the script needs no change.
    ///
    /// # Errors
    /// A template cannot be rendered.
    fn launch(&self, _: &Install, _: &RunContext) -> Result<Option<LaunchPart>, RenderError> {
        Ok(None)
    }

    /// Returns the object that takes checkpoints in one run.
    fn session<'r>(
        &self,
        install: &Install,
        context: SessionContext<'r>,
    ) -> Box<dyn CheckpointRun + 'r>;

    /// Describes the effect of a missing checkpointer, for `cvc doctor`.
    fn cost_of_absence(&self) -> &'static str {
        "nothing"
    }

    /// Returns a problem of this installation in runs over several nodes, with a hint how to fix it; `None` if no problem is known.
    fn remark_on_nodes(&self, _: &Install) -> Option<(String, &'static str)> {
        None
    }
}

impl fmt::Debug for dyn Checkpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A checkpointer's work in one run and its restarts. When a node is lost, or when the user requests the end, the caller ends the run and drops the
/// pending futures of these methods.
#[async_trait]
pub trait CheckpointRun: Send + Sync {
    /// Takes the checkpoints of this shepherd's run, and passes each through the stages. Returns early when the run ends. Called only if cvc requests
    /// checkpoints.
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

    /// Ends the ranks, if that is faster or cleaner than a signal.
    async fn stop(&self) {}

    /// Watches the program during its run, once cvc requests no more checkpoints. Returns only if the checkpointer requires the end of the run.
    async fn accompany(&mut self, _stages: &mut Stages<'_>) -> RunFailure {
        pending().await
    }

    /// Handles the program's end, before anything is restarted.
    async fn ended(&mut self, _stages: &mut Stages<'_>) -> Result<(), Halt> {
        Ok(())
    }

    /// Reads the run's files, once the run is over.
    async fn finish(&mut self) -> Result<(), Halt> {
        Ok(())
    }

    /// Returns how the run is restarted from its last checkpoint; `None` if there is nothing to restart. `values` are the template values of the
    /// run's script.
    fn restart(&self, _values: &Value, _which: RestartNumber) -> Result<Option<Restart>, Halt> {
        Ok(None)
    }

    /// Records that the restart begins from the checkpoint of this number instead of the last one.
    fn restart_from(&mut self, _number: u64) {}

    /// Prepares the restart, before it starts. Afterwards the other methods of this trait apply to the restarted program.
    ///
    /// # Errors
    /// The run cannot be restarted, which is a failure of the run; or the restart cannot be attempted.
    async fn prepare_restart(&mut self, _which: RestartNumber) -> Result<(), Halt> {
        Ok(())
    }

    /// Returns the size of the checkpoint that the restart reads, bytes; `None` if unknown.
    fn restart_bytes(&self) -> Option<u64> {
        None
    }

    /// Takes the next checkpoint of a restarted program, which already computes again. If the program itself decides when to write checkpoints, waits
    /// for its next checkpoint.
    async fn take_again(&mut self, _shepherd: &mut Shepherd) -> Result<(), Halt> {
        Ok(())
    }

    /// Waits until a running restart can no longer complete, and returns the reason. Does not return while the restart can still complete.
    async fn watch_restart(&self) -> RunFailure {
        pending().await
    }

    /// Explains the failure of an ended restart in terms of the checkpointer; `None` without an explanation.
    fn explain_restart(&self) -> Option<String> {
        None
    }

    /// Returns how much the program had printed at its last checkpoint; `None` if the checkpointer does not record that, or has no checkpoint.
    fn continues_from(&self) -> Option<Continuation> {
        None
    }

    /// Records the checkpoints, with the measurements of stages. If the checkpoints make the run a failure, records the reason. `output` is the
    /// program's output.
    fn measure(
        &self,
        _output: &str,
        _stages: &Stages<'_>,
        _to: &mut Findings,
    ) -> Result<(), RunError> {
        Ok(())
    }

    /// Returns why the checkpointer did not start, as the run's script reports it; empty if the script reports nothing.
    fn start_failure(&self) -> String {
        String::new()
    }

    /// Takes a checkpoint immediately because a node will be reclaimed, and waits until it is complete. `limit` is the remaining time. The program
    /// may end together with the checkpoint.
    ///
    /// # Errors
    /// No checkpoint was taken. An earlier checkpoint may exist.
    async fn take_now(&mut self, _shepherd: &mut Shepherd, _limit: Duration) -> Result<(), Halt> {
        Err(RunFailure::new(Cause::Checkpoint, "it has no checkpointer").into())
    }

    /// Returns the last complete checkpoint whose files can be read now; `None` if there is none.
    async fn keep(&mut self) -> Option<CheckpointToKeep> {
        None
    }

    /// Returns the data that the checkpointer needs to continue the run from this checkpoint; `None` if the run cannot continue from it. The nodes
    /// keep the checkpoint itself.
    fn details_of(&self, _number: u64) -> Option<Value> {
        None
    }

    /// Continues from the checkpoint of an earlier attempt, whose files have been restored. Returns how the program is started from the checkpoint.
    /// `values` are the template values of the run's script.
    async fn resume(&mut self, _details: &Value, _values: &Value) -> Result<Restart, Halt> {
        Err(RunFailure::new(Cause::Restart, "it has no checkpoints").into())
    }

    /// Stores the checkpointer's own logs in the run's directory.
    fn keep_logs(&self) {}
}
