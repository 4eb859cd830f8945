//! Reads jobs of a cluster from exports of Slurm's accounting: `sacct --parsable2` with a sufficient set of columns, and `sacct --json`.
//!
//! A job counts if it used nodes. An attempt that was requeued, cancelled or failed after its start counts with the time it used. Steps are parts
//! of jobs and do not count. Jobs that have not ended or never started are omitted, with the reason.

mod found;
mod json;
mod text;
mod values;

pub use found::{ClusterJob, ClusterJobs};

use crate::error::ImportError;
use cvc_core::source::SourceText;

/// Reads an export: JSON, or a table whose first line has the column names.
///
/// # Errors
/// The first problem that concerns the whole text, with its position. Unreadable rows are omitted.
pub fn read_jobs(source: &SourceText) -> Result<ClusterJobs, ImportError> {
    let found = if source.text.trim_start().starts_with('{') {
        json::read(source)?
    } else {
        text::read(source)?
    };
    if found.jobs.is_empty() && found.left_out.is_empty() && found.steps == 0 {
        return Err(source
            .error(
                None,
                "it has no jobs".to_owned(),
                "export more days: sacct --starttime 2026-01-01 …".to_owned(),
            )
            .into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
