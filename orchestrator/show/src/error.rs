//! Why a document cannot be shown.

use cvc_core::{render_error::RenderError, store::StoreError};

/// A document that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// A file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A page or a drawing.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Rows that could not be read.
    #[error(transparent)]
    Rows(Box<dyn std::error::Error + Send + Sync>),
}
