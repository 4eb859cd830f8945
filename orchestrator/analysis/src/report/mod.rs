//! Reports: one file for each table or plot, which `cvc-show` writes.
//!
//! A report is built from the index alone ([`build`]), so the same index gives the same report.

mod abstract_of;
mod agreement;
mod answers;
mod checkpoint_layouts;
mod comparison;
mod consistency;
mod cost;
mod distribution;
mod drift;
mod effects;
mod key_findings;
mod late_images;
mod latency;
mod layout;
mod layout_crossings;
mod noise;
mod outcomes;
mod overview;
mod pages;
mod prediction;
mod prediction_plot;
mod price_of_checkpoints;
mod rank_files;
mod repeat;
mod restart_counts;
mod restarts;
pub(crate) mod scaling;
mod series;
mod size_by_zone;
mod strategies;
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
    sections.push(scaling::section(&data)?);
    sections.push(checkpoint_layouts::section(&data)?);
    sections.push(prediction::section(&data)?);
    sections.extend([
        strategies::section(&data),
        comparison::section(&data),
        size_by_zone::section(&data),
        rank_files::section(&data, index)?,
        series::section(&data, index)?,
        restarts::section(&data),
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
        found: key_findings::lines(&data),
        data_tables: Vec::new(),
        long_rows: Some(Arc::new(data.records(index))),
    })
}
