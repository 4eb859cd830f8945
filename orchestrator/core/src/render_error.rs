//! Errors of rendering a page, a table or a drawing.

/// The error that something could not be rendered, because of a bug in cvc or its templates.
#[derive(Debug, thiserror::Error)]
#[error("internal error (please report): cannot render {what}: {detail}")]
pub struct RenderError {
    /// The part that could not be rendered.
    pub what: String,
    /// The problem.
    pub detail: String,
}
