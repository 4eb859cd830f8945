//! A trace as one self-contained page. The page is complete without JavaScript, which only adds zoom and filters. It loads no other file, and all
//! text is escaped.
//!
//! | file | contents |
//! | --- | --- |
//! | `grid.rs` | sums of bytes in two-dimensional bins |
//! | `sink.rs` | fills the bins while a trace is read |
//! | `access.rs` | counters of a Darshan log by file system and module |
//! | `bins.rs` | draws bins with few SVG paths |
//! | `figure.rs` | a plot with its axes and its caption |
//! | `curves.rs` | the plots of bandwidth and bursts |
//! | `heat.rs` | the plots of Darshan's heat maps |
//! | `order.rs` | the sizes of operations in order |
//! | `phases.rs` | the page of a model of I/O phases |
//! | `plots.rs` | the plots of bins, and the choice of plots |
//! | `words.rs` | describes the trace in sentences |
//! | `tables.rs` | findings, files, processes |
//! | `text.rs` | formats numbers and texts |

mod access;
mod bins;
mod curves;
mod figure;
mod grid;
mod heat;
mod order;
mod phases;
mod plots;
mod sink;
mod tables;
mod text;
mod words;

use crate::emit::policy::PageHead;
use cvc_core::render_error::RenderError;
use cvc_trace::document::TraceDocument;
use handlebars::Handlebars;
pub use phases::phases_page;
use serde_json::{Value, json};
pub use sink::{PlotSink, Plots};

const PAGE: &str = include_str!("../../../../templates/trace/trace.html.hbs");
/// Template of the page of a model of I/O phases.
const PHASES: &str = include_str!("../../../../templates/trace/phases.html.hbs");
/// Templates of the parts that both pages share.
const PARTS: [(&str, &str); 2] = [
    (
        "table",
        include_str!("../../../../templates/trace/table.html.hbs"),
    ),
    (
        "figure",
        include_str!("../../../../templates/trace/figure.html.hbs"),
    ),
];
const STYLE: &str = include_str!("../../../../templates/trace/trace.css");
const SCRIPT: &str = include_str!("../../../../templates/trace/trace.js");

/// Returns the page of a trace. The document and the plots must come from the same events.
///
/// # Errors
/// The template cannot be rendered.
pub fn page(document: &TraceDocument, plots: &Plots) -> Result<String, RenderError> {
    let (figures, rest) = plots::figures(document, plots);
    let figures: Vec<Value> = figures
        .iter()
        .enumerate()
        .map(|(id, figure)| figure.to_json(id + 1))
        .collect();
    let head = PageHead::with(STYLE, SCRIPT);
    let context = json!({
        "policy": head.policy, "style": head.style, "script": head.script,
        "title": text::escape(&words::title(document)), "abstract": words::sentences(document),
        "findings": tables::findings(document), "missing": tables::missing(document), "figures": figures,
        "no_plots": words::no_plots(document, figures.is_empty()), "rest": rest.as_deref().map(text::escape),
        "modules": tables::modules(document), "access": access::to_table(&plots.access), "files": tables::files(document), "processes": tables::processes(document), "provenance": words::provenance(document),
    });
    engine()?
        .render("page", &context)
        .map_err(|e| failed(e.to_string()))
}

fn failed(detail: String) -> RenderError {
    RenderError {
        what: "the page of a trace".to_owned(),
        detail,
    }
}

/// Returns the template engine with all templates.
fn engine() -> Result<Handlebars<'static>, RenderError> {
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    for (name, text) in [("page", PAGE), ("phases", PHASES)]
        .into_iter()
        .chain(PARTS)
    {
        engine
            .register_template_string(name, text)
            .map_err(|e| failed(e.to_string()))?;
    }
    Ok(engine)
}
