//! Reads text files that people write, with positions, so that errors can show the place and suggest the nearest name.

mod error;
mod text;

pub use error::{Explained, SourceError, SourceErrors};
pub use text::{
    SourceText, Span, Step, closest, key_span, plain_words, read_regular, span_of, suggestion,
};
