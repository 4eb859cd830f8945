//! A page, a table or a drawing that cannot be made.

/// Something that could not be rendered: a bug in cvc or its templates.
#[derive(Debug, thiserror::Error)]
#[error("internal error (please report): cannot render {what}: {detail}")]
pub struct RenderError {
    /// Which part.
    pub what: String,
    /// What went wrong.
    pub detail: String,
}
