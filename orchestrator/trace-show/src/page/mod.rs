//! A trace as one self-contained page. All of it is there without JavaScript, which only adds zoom and filters. Nothing is loaded, and all text is
//! escaped.
//!
//! | file | what |
//! | --- | --- |
//! | `grid.rs` | bytes in two-dimensional bins whose ranges grow as needed |
//! | `sink.rs` | gathers the bins while a trace is read |
//! | `access.rs` | files of a Darshan log by file system and module |
//! | `bins.rs` | draws bins as few paths |
//! | `figure.rs` | a plot with its axes and its caption |
//! | `curves.rs` | the plots of bandwidth and bursts |
//! | `heat.rs` | the plots of Darshan's heat maps |
//! | `plots.rs` | the plots of bins, and which plots a page has |
//! | `words.rs` | the abstract: what was traced, in sentences |
//! | `tables.rs` | findings, files, processes |
//! | `text.rs` | numbers and texts as they stand in the page |

mod access;
mod bins;
mod curves;
mod figure;
mod grid;
mod heat;
mod plots;
mod sink;
mod tables;
mod text;
mod words;

use crate::document::TraceDocument;
use base64::{Engine, prelude::BASE64_STANDARD};
use handlebars::Handlebars;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
pub use sink::{PlotSink, Plots};

const PAGE: &str = include_str!("../../../../templates/trace/trace.html.hbs");
const STYLE: &str = include_str!("../../../../templates/trace/trace.css");
const SCRIPT: &str = include_str!("../../../../templates/trace/trace.js");

/// A page that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the page of a trace: {0}")]
pub struct PageError(String);

/// Makes the page of a trace: the document and the plots must be of the same events.
///
/// # Errors
/// When the template cannot be filled.
pub fn page(document: &TraceDocument, plots: &Plots) -> Result<String, PageError> {
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine
        .register_template_string("page", PAGE)
        .map_err(|e| PageError(e.to_string()))?;
    let (figures, rest) = plots::figures(document, plots);
    let figures: Vec<Value> = figures
        .iter()
        .enumerate()
        .map(|(id, figure)| figure.to_json(id + 1))
        .collect();
    // line feeds, as the template writes the elements
    let (style, script) = (format!("\n{STYLE}\n"), format!("\n{SCRIPT}\n"));
    let context = json!({
        "policy": policy(&style, &script), "style": style, "script": script,
        "title": text::escape(&words::title(document)), "abstract": words::sentences(document),
        "findings": tables::findings(document), "missing": tables::missing(document), "figures": figures,
        "no_plots": words::no_plots(document, figures.is_empty()), "rest": rest.as_deref().map(text::escape),
        "modules": tables::modules(document), "access": access::to_table(&plots.access), "files": tables::files(document), "processes": tables::processes(document), "provenance": words::provenance(document),
    });
    engine
        .render("page", &context)
        .map_err(|e| PageError(e.to_string()))
}

/// The Content-Security-Policy of a page: no script but its own, and nothing is loaded.
fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    // the places of marks stand in attributes, which hashes do not cover
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; style-src-attr 'unsafe-inline'; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    )
}
