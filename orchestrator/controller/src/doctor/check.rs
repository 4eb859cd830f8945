//! Results of the checks of `cvc doctor`.

use cvc_engine::host::HostError;
use serde::Serialize;

/// The state of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    /// The requirement is met.
    Good,
    /// Not checked; [`DoctorCheck::found`] says why.
    Skipped,
    /// Runs work, but the problem may affect measurements.
    Doubtful,
    /// Runs will fail.
    Bad,
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorCheck {
    /// The subject of the check.
    pub what: String,
    /// Host that was checked; `None` for all hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// State of the check.
    pub state: CheckState,
    /// Result of the check, as text.
    pub found: String,
    /// How to fix the problem; empty without one.
    pub hint: String,
}

impl DoctorCheck {
    pub(super) fn new(
        what: impl Into<String>,
        state: CheckState,
        found: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            host: None,
            state,
            found: found.into(),
            hint: hint.into(),
        }
    }

    pub(super) fn good(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(what, CheckState::Good, found, "")
    }

    pub(super) fn of(host: &str, what: &str, error: &HostError) -> Self {
        let hint = error.hint().unwrap_or_default();
        Self {
            host: Some(host.to_owned()),
            ..Self::new(what, CheckState::Bad, error.to_string(), hint)
        }
    }
}
