//! Errors of showing documents.

use cvc_core::{render_error::RenderError, store::StoreError};

/// Why a document cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A page or a drawing cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Rows cannot be read.
    #[error(transparent)]
    Rows(Box<dyn std::error::Error + Send + Sync>),
}
