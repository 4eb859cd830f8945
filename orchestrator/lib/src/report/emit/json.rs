//! The whole report model as JSON.

use crate::{report::model::Report, store::StoreError};

pub(super) fn text(report: &Report) -> Result<String, StoreError> {
    serde_json::to_string_pretty(report)
        .map(|text| text + "\n")
        .map_err(|e| StoreError::Render { what: "the report as JSON".to_owned(), detail: e.to_string() })
}
