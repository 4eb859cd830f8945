//! Decides whether a run failed: collects its records, and the first reason for a failure.

use super::{noise::Noise, outputs::Outputs, prepare::Prepared, restarted::Restarted};
use crate::{
    ckpt::{CheckpointRun, Course},
    run::{Findings, Label, RunError, RunFailure, SiteContext, compile},
    stage::Stages,
};
use cvc_core::outcome::Cause;
use cvc_core::record::{Source, Unit};
use cvc_probe::shepherd::Exit;
use regex::Regex;

/// Everything that is known about a run when its outcome is decided.
pub(super) struct Evidence<'a> {
    pub prepared: &'a Prepared,
    pub context: &'a SiteContext,
    /// The intended course of the run.
    pub course: Course,
    pub exit: Option<Exit>,
    /// The checkpointer's work in the run.
    pub session: &'a dyn CheckpointRun,
    /// The stages through which its checkpoints went.
    pub stages: &'a Stages<'a>,
    /// Why no more checkpoints were taken.
    pub halted: Option<RunFailure>,
    /// Other activity on the nodes.
    pub noise: &'a Noise,
    pub restarts: &'a [Restarted],
    /// Why the run was not restarted.
    pub not_restarted: Option<RunFailure>,
    /// Why the measurements that do not need the program are missing.
    pub not_evaluated: Option<RunFailure>,
    /// Why the run was ended early: a node was lost, or ranks were misplaced.
    pub cut_off: Option<RunFailure>,
    /// The smallest number of cores that a rank may use, if ranks have threads.
    pub allowed_cores: Option<u32>,
    /// Files whose sizes the program reports.
    pub outputs: Vec<Outputs>,
}

/// Decides the outcome of one run.
pub(super) struct Judge<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) findings: Findings,
}

impl Evidence<'_> {
    /// Returns the restart that ran to the program's end.
    pub(super) fn restarted(&self) -> Option<&Restarted> {
        self.restarts.last().filter(|last| last.which.is_last())
    }
}

impl Judge<'_> {
    /// Records the reason for a failure. Only the first reason is kept, because later reasons follow from it.
    pub(super) fn fail(&mut self, cause: Cause, detail: impl Into<String>) {
        self.findings.fail(cause, detail);
    }

    pub(super) fn record(
        &mut self,
        name: &str,
        value: f64,
        unit: Unit,
        source: Source,
        artefact: Option<&str>,
        labels: &[Label],
    ) {
        self.findings
            .record(name, value, unit, source, artefact, labels);
    }

    pub(super) fn regex(&self, pattern: &str) -> Result<Regex, RunError> {
        compile(&self.evidence.prepared.run.app, pattern)
    }

    /// Returns whether the program's final verification is required: not if the program was ended on purpose.
    pub(super) fn verifies(&self) -> bool {
        !self.evidence.course.killed
    }
}
