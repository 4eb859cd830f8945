//! Settings for installing software on a site.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// How software is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstallSettings {
    /// Whether packages of the distribution may be installed.
    pub packages: bool,
    /// Whether Spack may build what has no package.
    pub build: bool,
    /// Spack's prefix on the nodes, as written; `None` is `SPACK_ROOT` there, or PATH.
    pub spack: Option<String>,
    /// Directory of the Spack environment on the nodes, as written.
    pub spack_dir: Option<String>,
    /// Spack specs by name of an MPI library or an application, `dmtcp`, `darshan-runtime`, `darshan-util`.
    pub specs: IndexMap<String, String>,
    /// Whether each node gets a key of its own that the other nodes accept.
    pub ssh_keys: bool,
}

impl Default for InstallSettings {
    fn default() -> Self {
        Self {
            packages: true,
            build: true,
            spack: None,
            spack_dir: None,
            specs: IndexMap::new(),
            ssh_keys: false,
        }
    }
}
