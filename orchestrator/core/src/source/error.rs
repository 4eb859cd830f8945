//! Errors in a campaign file or a descriptor: the problem, its position, and how to fix it.

use std::{fmt, ops::Range, path::PathBuf, sync::Arc};

/// A problem with a part of a file, for callers that know its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Explained {
    /// The problem.
    pub message: String,
    /// How to fix the problem; `None` if there is no hint.
    pub hint: Option<String>,
}

impl Explained {
    /// Creates a problem with a hint.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }
}

/// One problem in a file. Messages are lower-case fragments; the hint is separate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SourceError {
    /// The problem.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
    /// Position, in bytes of `source`; `None` if the problem concerns the whole file.
    pub span: Option<Range<usize>>,
    /// The file.
    pub path: PathBuf,
    /// Text of the whole file; empty if it could not be read.
    pub text: Arc<str>,
}

impl SourceError {
    /// Returns line and column (in characters) of the beginning, both from 1.
    pub fn position(&self) -> Option<(usize, usize)> {
        let start = self.span.as_ref()?.start.min(self.text.len());
        // a span from the parser begins at a character boundary; another one must not cause a panic
        let start = (0..=start)
            .rev()
            .find(|at| self.text.is_char_boundary(*at))
            .unwrap_or(0);
        let before = &self.text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Some((line, column))
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.position() {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All problems of a file, in its order; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SourceErrors(pub Vec<SourceError>);

impl fmt::Display for SourceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
            if let Some(hint) = &error.hint {
                write!(f, "\n  hint: {hint}")?;
            }
        }
        Ok(())
    }
}

impl From<SourceError> for SourceErrors {
    fn from(error: SourceError) -> Self {
        Self(vec![error])
    }
}
