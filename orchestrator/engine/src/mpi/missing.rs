//! Missing software.

/// Software that is missing, and how to install it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {hint}")]
pub struct Missing {
    /// The missing software, and where it was searched.
    pub what: String,
    /// How to install it.
    pub hint: String,
}
