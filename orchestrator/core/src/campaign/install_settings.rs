//! Checks the settings for installing software.

use super::{
    checker::{Checker, Place, path_text},
    install::InstallSettings,
    model::SiteKind,
    raw::RawSite,
};

pub fn install(
    check: &mut Checker<'_>,
    kind: Option<SiteKind>,
    raw: &RawSite,
    place: &Place<'_>,
) -> InstallSettings {
    let install = &raw.install;
    for (key, path) in [("spack", &install.spack), ("spack_dir", &install.spack_dir)] {
        if let Some(path) = path {
            path_text(check, path, place(&["install".into(), key.into()]));
        }
    }
    for (name, spec) in &install.specs {
        let at = || place(&["install".into(), "specs".into(), name.as_str().into()]);
        if spec.trim().is_empty() || spec.starts_with('-') || spec.contains(char::is_control) {
            check.fail(
                at(),
                format!("`{spec}` is not a Spack spec"),
                "write it as for `spack install`, as in \"mpich@4.2.3 netmod=ofi\"",
            );
        }
    }
    InstallSettings {
        // users of a cluster with a batch system are not root, and its nodes are unknown until it allocates them
        packages: install.packages.unwrap_or(kind != Some(SiteKind::Slurm)),
        build: install.build.unwrap_or(true),
        spack: install.spack.clone(),
        spack_dir: install.spack_dir.clone(),
        specs: install.specs.clone(),
        // fresh machines do not know each other
        ssh_keys: install.ssh_keys || kind == Some(SiteKind::Ec2),
    }
}
