//! Which parts of the library that repairs DMTCP between nodes ([`super::install::BETWEEN_NODES`]) have an effect on an installed DMTCP. The library
//! leaves alone what it does not find there, so that a version with other names is not repaired, and nobody would know.

use crate::ckpt::contract::Install;
use camino::{Utf8Path, Utf8PathBuf};

/// A repair, and the names in DMTCP's libraries on which it depends: of each list one.
struct Repair {
    title: &'static str,
    needs: &'static [&'static [&'static str]],
}

const REPAIRS: [Repair; 4] = [
    Repair {
        title: "barriers of all nodes",
        needs: &[&["dmtcp_local_barrier"], &["dmtcp_global_barrier"]],
    },
    Repair {
        title: "addresses of restarted processes",
        needs: &[&["_ZN5jalib9JSockAddr3ANYE"], &["dmtcp_get_local_ip_addr"]],
    },
    Repair {
        title: "drained data",
        needs: &[
            &["_ZN5jalib7JSocket8writeAllEPKcm"],
            &["_ZN5jalib7JSocket7readAllEPcm"],
        ],
    },
    // until DMTCP 4.2, and from 5.0 on
    Repair {
        title: "children that have ended",
        needs: &[&["dmtcp_real_to_virtual_pid", "dmtcp_pid_real_to_virtual"]],
    },
];

/// Returns which repairs have no effect on this DMTCP; `None` where its libraries cannot be found or read.
pub(super) fn without_effect(install: &Install) -> Option<Vec<&'static str>> {
    let texts: Vec<String> = libraries(&install.bin)
        .into_iter()
        .map(|path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        .collect::<Result<_, _>>()
        .ok()?;
    if texts.is_empty() {
        return None;
    }
    let has = |name: &str| texts.iter().any(|text| text.contains(name));
    let works = |repair: &Repair| {
        repair
            .needs
            .iter()
            .all(|names| names.iter().any(|name| has(name)))
    };
    Some(
        REPAIRS
            .iter()
            .filter(|repair| !works(repair))
            .map(|repair| repair.title)
            .collect(),
    )
}

/// What to tell a user of repairs that have no effect; `None` if there is nothing to tell.
pub(super) fn remark(install: &Install) -> Option<String> {
    let version = install.version.as_deref().unwrap_or("unknown");
    match without_effect(install) {
        Some(missing) if missing.is_empty() => None,
        Some(missing) => Some(format!(
            "cvc's repairs of DMTCP between nodes have no effect on DMTCP {version} for: {}; checkpoints and restarts on several nodes may hang",
            missing.join(", ")
        )),
        None => Some(format!(
            "the libraries of DMTCP {version} cannot be read at {}: whether cvc's repairs between nodes have an effect on it is not known",
            install.bin
        )),
    }
}

/// DMTCP's own libraries, which lie beside its programs: `lib/dmtcp`, on some systems below `lib64` or the processor's directory.
fn libraries(bin: &Utf8Path) -> Vec<Utf8PathBuf> {
    let Some(prefix) = bin.parent() else {
        return Vec::new();
    };
    let listed = |dir: &Utf8Path| {
        dir.read_dir_utf8()
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path().to_owned())
            .collect::<Vec<_>>()
    };
    let mut directories = vec![prefix.join("lib/dmtcp"), prefix.join("lib64/dmtcp")];
    directories.extend(
        listed(&prefix.join("lib"))
            .into_iter()
            .map(|of_processor| of_processor.join("dmtcp")),
    );
    let is_library = |path: &Utf8PathBuf| {
        path.file_name()
            .is_some_and(|name| name.starts_with("libdmtcp") && name.ends_with(".so"))
    };
    directories
        .iter()
        .flat_map(|dir| listed(dir))
        .filter(is_library)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckpt::dmtcp::install::BETWEEN_NODES;
    use std::fs;

    fn install(names: &[&str]) -> (tempfile::TempDir, Install) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
        fs::create_dir_all(root.join("lib/dmtcp")).expect("makes");
        // as in a table of symbols
        let text: Vec<u8> = names
            .iter()
            .flat_map(|name| [&[0xff, 0], name.as_bytes(), &[0]].concat())
            .collect();
        fs::write(root.join("lib/dmtcp/libdmtcp.so"), text).expect("writes");
        let install = Install {
            bin: root.join("bin"),
            version: Some("9.0".into()),
        };
        (dir, install)
    }

    const OTHERS: [&str; 6] = [
        "dmtcp_local_barrier",
        "dmtcp_global_barrier",
        "dmtcp_get_local_ip_addr",
        "_ZN5jalib9JSockAddr3ANYE",
        "_ZN5jalib7JSocket8writeAllEPKcm",
        "_ZN5jalib7JSocket7readAllEPcm",
    ];

    #[test]
    fn either_name_of_the_table_of_processes_will_do_and_none_is_told() {
        for name in ["dmtcp_real_to_virtual_pid", "dmtcp_pid_real_to_virtual"] {
            let (_dir, install) = install(&[&OTHERS[..], &[name]].concat());
            assert_eq!(
                (without_effect(&install), remark(&install)),
                (Some(Vec::new()), None),
                "{name}"
            );
        }
        let (_dir, install) = install(&OTHERS);
        assert_eq!(
            without_effect(&install),
            Some(vec!["children that have ended"])
        );
        let told = remark(&install).expect("a remark");
        assert!(
            told.contains("DMTCP 9.0 for: children that have ended"),
            "{told}"
        );
    }

    #[test]
    fn a_dmtcp_without_libraries_is_not_taken_for_repaired() {
        let dir = tempfile::tempdir().expect("a directory");
        let bin = Utf8Path::from_path(dir.path()).expect("UTF-8").join("bin");
        let install = Install {
            bin,
            version: Some("9.0".into()),
        };
        assert_eq!(without_effect(&install), None);
        assert!(remark(&install).is_some_and(|told| told.contains("is not known")));
    }

    #[test]
    fn the_library_looks_up_what_is_looked_for_here() {
        for name in REPAIRS
            .iter()
            .flat_map(|repair| repair.needs.iter().flat_map(|names| names.iter()))
        {
            assert!(BETWEEN_NODES.contains(name), "{name}");
        }
    }
}
