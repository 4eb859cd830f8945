//! Documents: a model of texts, tables and plots, a formatter of numbers, and an emitter for each format.
//!
//! | file | contents |
//! | --- | --- |
//! | `document.rs` | the parts of a document |
//! | `blocks.rs` | the output of a command |
//! | `format.rs` | numbers for people: one scale and one number of decimals per column |
//! | `plot.rs`, `lines.rs`, `dumbbells.rs` | drawings as SVG |
//! | `slug.rs` | names for links and files |
//! | `trace_page/` | the page of a trace |
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
mod trace_page;

pub use blocks::Blocks;
pub use document::{
    Against, Block, Cell, Column, ComparedValue, Confidence, Document, DocumentKind, LineWriter,
    LongRows, Mark, Narrow, Note, Plot, SCHEMA, Section, Table,
};
pub use emit::{
    csv_line, escape_markdown,
    terminal::{fits, fits_in, paragraph, terminal_width, text},
    write_all,
};
pub use error::ShowError;
pub use format::{or_dash, significant};
pub use lines::LinePlot;
pub use slug::slug;
pub use trace_page::{PlotSink, Plots, page as trace_page, phases_page};
