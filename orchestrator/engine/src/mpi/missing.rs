//! Missing software.

/// Software that is not installed, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {hint}")]
pub struct Missing {
    /// What is missing, and where it was looked for.
    pub what: String,
    /// How to get it.
    pub hint: String,
}
