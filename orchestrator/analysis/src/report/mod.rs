//! Reports: one file for each table or plot. `cvc-show` writes them.
//!
//! A report is built from the index alone ([`build`]); the same index gives the same report.

mod abstract_of;
mod agreement;
mod answers;
mod comparison;
mod consistency;
mod cost;
mod distribution;
mod drift;
mod effects;
mod key_findings;
mod latency;
mod layout;
mod noise;
mod outcomes;
mod overview;
mod pages;
mod prediction;
mod prediction_plot;
mod price_of_checkpoints;
mod repeat;
mod restarts;
mod series;
mod size_by_zone;
mod summary;
mod time;
mod timeline;
mod traces;
mod versions;

pub use agreement::{AgreementPanel, ComparedNumber, agreement_plot};

use crate::results::data::Data;
use cvc_index::Index;
use cvc_index::error::AnalysisError;
use cvc_show::{Document, DocumentKind, SCHEMA};
use std::sync::Arc;

/// Builds the report of a campaign from its index.
pub fn build(index: &Index) -> Result<Document, AnalysisError> {
    let data = Data::read(index)?;
    let mut sections = vec![
        key_findings::section(&data),
        overview::section(&data),
        time::section(&data)?,
        summary::section(&data),
    ];
    sections.push(prediction::section(&data)?);
    sections.extend([
        comparison::section(&data),
        size_by_zone::section(&data),
        series::section(&data, index)?,
        pages::section(&data),
        traces::section(&data),
        time::merits(&data)?,
        distribution::section(&data)?,
    ]);
    sections.push(cost::section(&data, index)?);
    sections.extend([
        outcomes::section(&data),
        timeline::section(&data, index)?,
        versions::section(&data),
        repeat::section(&data),
    ]);
    sections.retain(|s| !s.blocks.is_empty());
    let meta = |key: &str| data.meta.get(key).cloned();
    Ok(Document {
        schema: SCHEMA,
        kind: DocumentKind::Campaign,
        campaign: meta("campaign").unwrap_or_default(),
        title: meta("title")
            .or_else(|| meta("campaign"))
            .unwrap_or_default(),
        span: meta("first_entry").zip(meta("last_entry")),
        sections,
        found: key_findings::told(&data),
        data_tables: Vec::new(),
        long_rows: Some(Arc::new(data.records(index))),
    })
}
