//! A finding of the doctor.

use cvc_engine::host::HostError;
use serde::Serialize;

/// The state of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Fine.
    Good,
    /// Not checked; the finding says why.
    Skipped,
    /// Runs work, but their measurements may be affected.
    Doubtful,
    /// Runs will fail.
    Bad,
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub what: String,
    /// Its host; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its state.
    pub state: State,
    /// What was found.
    pub found: String,
    /// How to fix it; empty if it is fine.
    pub hint: String,
}

impl Check {
    pub(super) fn new(
        what: impl Into<String>,
        state: State,
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
        Self::new(what, State::Good, found, "")
    }

    pub(super) fn of(host: &str, what: &str, error: &HostError) -> Self {
        let hint = error.hint().unwrap_or_default();
        Self {
            host: Some(host.to_owned()),
            ..Self::new(what, State::Bad, error.to_string(), hint)
        }
    }
}
