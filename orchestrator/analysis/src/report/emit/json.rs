//! The whole report model as JSON.

use crate::report::model::Report;
use cvc_index::error::AnalysisError;

pub(super) fn text(report: &Report) -> Result<String, AnalysisError> {
    serde_json::to_string_pretty(report)
        .map(|text| text + "\n")
        .map_err(|e| AnalysisError::Render {
            what: "the report as JSON".to_owned(),
            detail: e.to_string(),
        })
}
