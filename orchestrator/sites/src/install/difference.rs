//! A difference between `cvc.lock` and the software installed on a site.

use serde::Serialize;
use std::fmt;

/// A difference between the lock and the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionDifference {
    /// Name of the component.
    pub component: String,
    /// The locked value.
    pub locked: String,
    /// The installed value.
    pub found: String,
}

impl fmt::Display for VersionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} was installed, now {}",
            self.component, self.locked, self.found
        )
    }
}
