//! Exit codes by which the scripts of a run tell that it never began. They are handed to the templates.

/// The run's directory could not be set up.
pub(super) const SETUP: i32 = 97;
/// DMTCP's coordinator did not start.
pub(super) const COORDINATOR: i32 = 98;
