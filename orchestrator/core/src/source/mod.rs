//! Text files that people write: read with positions, so that an error shows its place and the nearest name.

mod error;
mod text;

pub use error::{SourceError, SourceErrors};
pub use text::{Source, Span, Step, closest, key_span, span_of, suggestion};
