//! Documents, and how they are shown: one model of texts, tables and plots, one formatter of numbers, and an emitter for each format.
//!
//! | file | contents |
//! | --- | --- |
//! | `document.rs` | the parts of a document |
//! | `blocks.rs` | what a command answers |
//! | `format.rs` | numbers as they are shown: one scale and one number of decimals per column |
//! | `plot.rs`, `lines.rs`, `dumbbells.rs` | drawings as SVG |
//! | `slug.rs` | names for links and files |
//! | `emit/` | one file for each format |

mod blocks;
pub mod document;
pub mod dumbbells;
mod emit;
mod error;
pub mod format;
mod lines;
pub mod plot;
mod slug;

pub use blocks::Blocks;
pub use document::{
    Against, Beside, Block, Cell, Column, Confidence, Document, DocumentKind, LineWriter, LongRows,
    Mark, Narrow, Note, Plot, SCHEMA, Section, Table,
};
pub use emit::{
    terminal::{fits, paragraph, terminal_width, text},
    write_all,
};
pub use error::ShowError;
pub use lines::LinePlot;
pub use slug::slug;
