//! The judge of a run: the evidence, the records that it yields, and the first reason to call the run a failure.

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

/// The evidence about a run.
pub(super) struct Evidence<'a> {
    pub prepared: &'a Prepared,
    pub context: &'a SiteContext,
    /// The intended course of the run.
    pub course: Course,
    pub exit: Option<Exit>,
    /// Its checkpointer's part in it.
    pub session: &'a dyn CheckpointRun,
    /// What was done with its checkpoints.
    pub stages: &'a Stages<'a>,
    /// Why no more checkpoints were taken.
    pub halted: Option<RunFailure>,
    /// What else the nodes did.
    pub noise: &'a Noise,
    pub restarted: Option<&'a Restarted>,
    /// Why it was not restarted.
    pub not_restarted: Option<RunFailure>,
    /// Why what needs the program no more was not measured.
    pub not_evaluated: Option<RunFailure>,
    /// Why the run was ended before its end: a node was lost, ranks were misplaced.
    pub cut_off: Option<RunFailure>,
    /// Files whose sizes the program reports.
    pub outputs: Vec<Outputs>,
}

/// Judges one run.
pub(super) struct Judge<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) findings: Findings,
}

impl Judge<'_> {
    /// Keeps only the first reason, because later ones follow from it.
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

    /// Whether the program itself ends in a verification that counts: not when it was killed on purpose.
    pub(super) fn verifies(&self) -> bool {
        !self.evidence.course.killed
    }
}
