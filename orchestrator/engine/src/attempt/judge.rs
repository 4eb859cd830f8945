//! The judge of a run: the evidence, the records that it yields, and the first reason to call the run a failure.

use super::{
    context::SiteContext, dmtcp::Driven, error::RunError, noise::Noise, outputs::Outputs, prepare::Prepared, restart::Restarted,
    run_failure::RunFailure,
};
use crate::ckpt::Course;
use cvc_core::{
    app::descriptor::Descriptor,
    outcome::Cause,
    record::{Record, Source, Unit},
};
use cvc_probe::{sentinel::FileFound, shepherd::Exit};
use regex::Regex;

/// Compiles a pattern of a descriptor, in which `^` and `$` match at every line.
pub(super) fn compile(app: &Descriptor, pattern: &str) -> Result<Regex, RunError> {
    Regex::new(&format!("(?m){pattern}")).map_err(|e| RunError::Descriptor { app: app.name.clone(), problem: e.to_string() })
}

/// The evidence about a run.
pub(super) struct Evidence<'a> {
    pub prepared: &'a Prepared,
    pub context: &'a SiteContext,
    /// The intended course of the run.
    pub course: Course,
    pub exit: Option<Exit>,
    pub driven: &'a Driven,
    /// What else the nodes did.
    pub noise: &'a Noise,
    pub restarted: Option<&'a Restarted>,
    /// Why the run was ended before its end: a node was lost, ranks were misplaced.
    pub cut_off: Option<RunFailure>,
    /// Files of the program's own checkpoint, by node.
    pub own: Vec<(String, FileFound)>,
    /// Files whose sizes the program reports.
    pub outputs: Vec<Outputs>,
}

/// Judges one run.
pub(super) struct Judge<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) records: Vec<Record>,
    pub(super) failure: Option<RunFailure>,
}

impl Judge<'_> {
    /// Keeps only the first reason, because later ones follow from it.
    pub(super) fn fail(&mut self, cause: Cause, detail: impl Into<String>) {
        self.failure.get_or_insert_with(|| RunFailure::new(cause, detail));
    }

    pub(super) fn record(&mut self, name: &str, value: f64, unit: Unit, source: Source, artefact: Option<&str>, labels: &[(&str, String)]) {
        self.records.push(Record {
            run: self.evidence.prepared.run.clone(),
            name: name.to_owned(),
            value,
            unit,
            source,
            artefact: artefact.map(str::to_owned),
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
        });
    }

    pub(super) fn regex(&self, pattern: &str) -> Result<Regex, RunError> {
        compile(&self.evidence.prepared.app, pattern)
    }

    /// Whether the program itself ends in a verification that counts: not when it was killed on purpose.
    pub(super) fn verifies(&self) -> bool {
        !self.evidence.course.killed
    }
}
