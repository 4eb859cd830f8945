//! Results of a run: its records, and why it failed.

use super::{
    failure::RunFailure,
    numbers::{CUT_HINT, CutNumber},
};
use cvc_core::ids::RunId;
use cvc_core::outcome::Cause;
use cvc_core::record::{Record, Source, Unit};
use std::collections::BTreeMap;

/// Name and value of a label of a record.
pub type Label = (&'static str, String);

/// The records of a run, and the first reason for its failure.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The run.
    run: RunId,
    /// Its records.
    pub records: Vec<Record>,
    /// Why the run failed.
    pub failure: Option<RunFailure>,
    /// Missing or doubtful results that are not a failure, one line each.
    pub notes: Vec<String>,
    /// Facts about the run, by name.
    pub facts: BTreeMap<&'static str, String>,
}

impl Findings {
    /// Creates empty findings for this run.
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            records: Vec::new(),
            failure: None,
            notes: Vec::new(),
            facts: BTreeMap::new(),
        }
    }

    /// Records the reason for a failure. Only the first reason is kept, because later reasons follow from it.
    pub fn fail(&mut self, cause: Cause, detail: impl Into<String>) {
        self.failure
            .get_or_insert_with(|| RunFailure::new(cause, detail));
    }

    /// Fails the run because a pattern captures only a part of a number in the output.
    pub(crate) fn fail_by_cut_number(&mut self, what: &str, pattern: &str, cut: &CutNumber) {
        self.fail(
            Cause::Application,
            format!(
                "its output has {what} as `{cut}`, of which `{pattern}` captures only a part: {CUT_HINT}"
            ),
        );
    }

    /// Adds a record.
    pub fn record(
        &mut self,
        name: &str,
        value: f64,
        unit: Unit,
        source: Source,
        artefact: Option<&str>,
        labels: &[Label],
    ) {
        self.records.push(Record {
            run: self.run.clone(),
            name: name.to_owned(),
            value,
            unit,
            source,
            artefact: artefact.map(str::to_owned),
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect(),
        });
    }

    /// Adds a record of a time that is not from a file of the run.
    pub fn seconds(&mut self, name: &str, value: f64, source: Source, labels: &[Label]) {
        self.record(name, value, Unit::Seconds, source, None, labels);
    }

    /// Adds a record of a size that is not from a file of the run.
    pub fn bytes(&mut self, name: &str, value: f64, source: Source, labels: &[Label]) {
        self.record(name, value, Unit::Bytes, source, None, labels);
    }

    /// Adds a record of a number that is not from a file of the run.
    pub fn count(&mut self, name: &str, value: f64, source: Source, labels: &[Label]) {
        self.record(name, value, Unit::Count, source, None, labels);
    }
}
