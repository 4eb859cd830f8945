//! A difference between `cvc.lock` and what is installed on a site.

use serde::Serialize;
use std::fmt;

/// A difference between the lock and the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The component.
    pub component: String,
    /// What the lock records.
    pub locked: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} was installed, and now it is {}",
            self.component, self.locked, self.found
        )
    }
}
