//! Settings for installing software on a site.

use super::checker::{Checker, SpanLookup, path_text};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Software installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Install"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table that says how software is installed"
)]
pub struct InstallSettings {
    /// Whether distribution packages may be installed, as root. Default: true, but false for Slurm.
    pub packages: Option<bool>,
    /// Whether Spack may build software without a package. Default: true.
    pub build: bool,
    /// Spack's prefix on the nodes. Default: `SPACK_ROOT` there, or PATH.
    pub spack: Option<String>,
    /// Directory of the Spack environment on the nodes. Default: `~/.cvc/spack`.
    pub spack_dir: Option<String>,
    /// Spack specs (versions and variants) by name: MPI library, application, `dmtcp`, `darshan-runtime`, `darshan-util`.
    pub specs: IndexMap<String, String>,
    /// Whether each node gets its own key, accepted by the other nodes. Default: false.
    pub ssh_keys: bool,
}

impl Default for InstallSettings {
    fn default() -> Self {
        Self {
            packages: None,
            build: true,
            spack: None,
            spack_dir: None,
            specs: IndexMap::new(),
            ssh_keys: false,
        }
    }
}

impl InstallSettings {
    /// Checks paths and specs; `place` returns positions below the site's table.
    pub(super) fn check(&self, check: &mut Checker<'_>, place: &SpanLookup<'_>) {
        for (key, path) in [("spack", &self.spack), ("spack_dir", &self.spack_dir)] {
            if let Some(path) = path {
                path_text(check, path, place(&["install".into(), key.into()]));
            }
        }
        for (name, spec) in &self.specs {
            if spec.trim().is_empty() || spec.starts_with('-') || spec.contains(char::is_control) {
                check.fail(
                    place(&["install".into(), "specs".into(), name.as_str().into()]),
                    format!("`{spec}` is not a Spack spec"),
                    "write it as for `spack install`, as in \"mpich@4.2.3 netmod=ofi\"",
                );
            }
        }
    }
}
