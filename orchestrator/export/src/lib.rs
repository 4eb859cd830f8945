//! Campaigns for others: so that their results are read without cvc, kept, published and cited.
//!
//! | file | what |
//! | --- | --- |
//! | `target.rs` | a directory that appears whole, and takes the place of an earlier export only |
//! | `tables.rs` | flat tables (CSV, RFC 4180) with their schema, a Data Package of Frictionless |
//! | `ro_crate/` | the campaign as a Process Run Crate: an RO-Crate whose actions are its runs |
//!
//! Everything is read from the index and the files of a campaign; nothing of it is changed.

mod error;
mod ro_crate;
mod tables;
mod target;

pub use error::ExportError;
pub use ro_crate::{Description, export_ro_crate};
pub use tables::{SCHEMA, export_tables};
pub use target::Exported;
