//! Campaigns for others: so that their results are read without cvc, kept, published and cited.
//!
//! | file | what |
//! | --- | --- |
//! | `target.rs` | a directory that appears whole, and takes the place of an earlier export only |
//! | `package.rs` | the schema of flat tables, a Data Package of Frictionless |
//! | `tables.rs`, `parquet.rs` | these tables as CSV (RFC 4180), and as Parquet |
//! | `artifact/` | an artefact to publish: a BagIt bag in a zip, described, without secrets and names |
//! | `ro_crate/` | the campaign as a Process Run Crate: an RO-Crate whose actions are its runs |
//!
//! Everything is read from the index and the files of a campaign; nothing of it is changed.

mod artifact;
mod error;
mod package;
mod parquet;
mod ro_crate;
mod tables;
mod target;

pub use artifact::{Artifact, ArtifactOptions, export_artifact};
pub use error::ExportError;
pub use package::SCHEMA;
pub use parquet::export_parquet;
pub use ro_crate::{Description, export_ro_crate};
pub use tables::export_tables;
pub use target::Exported;
