//! What a site says of installing software.

use super::{
    model::SiteKind,
    raw::RawSite,
    settings::{Checker, Place, path_text},
};
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
    /// Whether each node gets a key of its own that the other nodes let in.
    pub ssh_keys: bool,
}

impl Default for InstallSettings {
    fn default() -> Self {
        Self { packages: true, build: true, spack: None, spack_dir: None, specs: IndexMap::new(), ssh_keys: false }
    }
}

pub fn install(check: &mut Checker<'_>, kind: Option<SiteKind>, raw: &RawSite, place: &Place<'_>) -> InstallSettings {
    let install = &raw.install;
    for (key, path) in [("spack", &install.spack), ("spack_dir", &install.spack_dir)] {
        if let Some(path) = path {
            path_text(check, path, place(&["install".into(), key.into()]));
        }
    }
    for (name, spec) in &install.specs {
        let at = || place(&["install".into(), "specs".into(), name.as_str().into()]);
        if spec.trim().is_empty() || spec.starts_with('-') || spec.contains(char::is_control) {
            check.fail(at(), format!("`{spec}` is no Spack spec"), "write it as for `spack install`, as in \"mpich@4.2.3 netmod=ofi\"");
        }
    }
    InstallSettings {
        // nobody is root on a cluster with a batch system, and its nodes are not known before it gives them
        packages: install.packages.unwrap_or(kind != Some(SiteKind::Slurm)),
        build: install.build.unwrap_or(true),
        spack: install.spack.clone(),
        spack_dir: install.spack_dir.clone(),
        specs: install.specs.clone(),
        // fresh machines do not know each other
        ssh_keys: install.ssh_keys || kind == Some(SiteKind::Ec2),
    }
}
