//! Exports campaigns: results that can be read without cvc, archived, published and cited.
//!
//! | file | contents |
//! | --- | --- |
//! | `target.rs` | a directory that appears only when complete, and replaces only an earlier export |
//! | `package.rs` | the schema of flat tables, a Data Package of Frictionless |
//! | `tables.rs`, `parquet.rs` | these tables as CSV (RFC 4180), and as Parquet |
//! | `artifact/` | an artefact to publish: a BagIt bag in a zip, described, without secrets and names |
//! | `artifact/bug_report.rs` | a report of a bug in cvc, without secrets and names |
//! | `ro_crate/` | the campaign as a Process Run Crate: an RO-Crate whose actions are its runs |
//!
//! Exports only read the index and the files of a campaign.

mod artifact;
mod error;
mod package;
#[cfg(feature = "parquet")]
mod parquet;
mod ro_crate;
mod tables;
mod target;

pub use artifact::{
    Artifact, ArtifactOptions, BugReport, LeftOutFile, LeftOutReason, PackedFile, export_artifact,
    pack_bug_report,
};
pub use error::ExportError;
pub use package::SCHEMA;
#[cfg(feature = "parquet")]
pub use parquet::export_parquet;
pub use ro_crate::{Description, export_ro_crate};
pub use tables::export_tables;
pub use target::Exported;
