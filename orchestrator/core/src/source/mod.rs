//! Reads text files that people write, with positions, so that errors show the place and the nearest name.

mod error;
mod text;

pub use error::{Explained, SourceError, SourceErrors};
pub use text::{
    Source, Span, Step, closest, key_span, plain_words, read_regular, span_of, suggestion,
};
