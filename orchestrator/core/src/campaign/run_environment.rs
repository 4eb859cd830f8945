//! Environment set up before the launcher of a run: environment modules, then lines of bash.

use super::checker::{Checker, SpanLookup};
use serde::{Deserialize, Serialize};

/// Set-up before the launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Environment"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table with `modules` and `prologue`"
)]
pub struct RunEnvironment {
    /// Environment modules, loaded in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// Lines of bash after the modules, as in `ulimit -s unlimited`. A failing command ends the attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prologue: Vec<String>,
}

impl RunEnvironment {
    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty() && self.prologue.is_empty()
    }

    /// Appends the environment of an inner part, for example of an application: its modules after these modules, its lines after these lines.
    pub(super) fn extend(&mut self, inner: &Self) {
        self.modules.extend(inner.modules.iter().cloned());
        self.prologue.extend(inner.prologue.iter().cloned());
    }

    /// Checks modules and lines; `place` returns positions below the table.
    pub(super) fn check(&self, check: &mut Checker<'_>, place: &SpanLookup<'_>) {
        for (i, module) in self.modules.iter().enumerate() {
            let at = || place(&["modules".into(), i.into()]);
            if module.is_empty() || module.contains(|c: char| c.is_whitespace() || c.is_control()) {
                check.fail(
                    at(),
                    format!("{module:?} is not the name of a module"),
                    "write one name for each entry, as in \"gcc/12.2\"; `module avail` lists them",
                );
            } else if module.starts_with('-') {
                check.fail(
                    at(),
                    format!("`{module}` would be an option of `module load`"),
                    format!(
                        "write \"module unload {}\" as a line of `prologue`",
                        module.trim_start_matches('-')
                    ),
                );
            }
        }
        for (i, line) in self.prologue.iter().enumerate() {
            let is_control = |c: char| c.is_control() && c != '\t';
            if line.trim().is_empty() || line.contains(is_control) {
                check.fail(
                    place(&["prologue".into(), i.into()]),
                    "not one line of bash",
                    "write one entry for each line, as in \"ulimit -s unlimited\"",
                );
            }
        }
    }
}

/// Site settings of one application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default, expecting = "a table with `environment`")]
pub struct SiteApp {
    /// Set-up before its runs, after those of the site and the MPI library.
    pub environment: RunEnvironment,
}
