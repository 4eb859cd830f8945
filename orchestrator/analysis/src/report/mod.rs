//! Reports: one file for each table or plot, one for each format.
//!
//! A report is built from the index alone ([`build`]); the same index gives the same report. The emitters ([`write_all`]) do not know what
//! the tables are about.

mod abstract_of;
mod agreement;
mod answers;
mod comparison;
mod consistency;
mod cost;
mod distribution;
mod drift;
pub(crate) mod dumbbells;
mod effects;
mod emit;
pub(crate) mod format;
mod key_findings;
mod latency;
mod layout;
mod lines;
mod model;
mod noise;
mod outcomes;
mod overview;
mod pages;
pub(crate) mod plot;
mod prediction;
mod prediction_plot;
mod price_of_checkpoints;
mod repeat;
mod restarts;
mod series;
mod size_by_zone;
mod slug;
mod summary;
mod time;
mod timeline;
mod traces;
mod versions;

pub use agreement::{AgreementPanel, ComparedNumber, agreement_plot};
pub use emit::write_all;
pub use lines::LinePlot;
pub use model::{
    Against, Beside, Block, Cell, Column, Confidence, Mark, Note, Plot, Report, ReportKind,
    Section, Table,
};
pub use slug::slug;

use crate::results::data::Data;
use cvc_index::Index;
use cvc_index::error::AnalysisError;

/// Version of the report model, as written to JSON.
pub const SCHEMA: u32 = 1;

/// Builds the report of a campaign from its index.
pub fn build(index: &Index) -> Result<Report, AnalysisError> {
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
    Ok(Report {
        schema: SCHEMA,
        kind: ReportKind::Campaign,
        campaign: meta("campaign").unwrap_or_default(),
        title: meta("title")
            .or_else(|| meta("campaign"))
            .unwrap_or_default(),
        span: meta("first_entry").zip(meta("last_entry")),
        sections,
        found: key_findings::told(&data),
        data_tables: Vec::new(),
        records: data.records(index),
    })
}
