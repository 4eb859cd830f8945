//! Checks which workarounds of the library for DMTCP between nodes ([`super::install::BETWEEN_NODES`]) have an effect on an installed DMTCP. The
//! library skips functions that it does not find, so with a version that uses other names a fault would silently remain.

use crate::ckpt::contract::Install;
use camino::{Utf8Path, Utf8PathBuf};

/// A workaround, and the names in DMTCP's libraries on which it depends: one name of each list must exist.
struct Repair {
    title: &'static str,
    needs: &'static [&'static [&'static str]],
}

const REPAIRS: [Repair; 5] = [
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
    // names until DMTCP 4.2, and from 5.0 on
    Repair {
        title: "children that have ended",
        needs: &[&["dmtcp_real_to_virtual_pid", "dmtcp_pid_real_to_virtual"]],
    },
    Repair {
        title: "names of the sockets of forked processes",
        needs: &[
            &["dmtcp_get_uniquepid"],
            &["_ZN5dmtcp9UniquePid11ThisProcessEb"],
        ],
    },
];

/// Returns the workarounds that have no effect on this DMTCP; `None` if its libraries cannot be found or read.
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

/// Returns the message to the user about workarounds without effect; `None` if all have one.
pub(super) fn remark(install: &Install) -> Option<String> {
    let version = install.version.as_deref().unwrap_or("unknown");
    match without_effect(install) {
        Some(missing) if missing.is_empty() => None,
        Some(missing) => Some(format!(
            "cvc's repairs of DMTCP between nodes have no effect on DMTCP {version} for: {}; checkpoints and restarts on several nodes may hang",
            missing.join(", ")
        )),
        None => Some(format!(
            "the libraries of DMTCP {version} cannot be read at {}: the effect of cvc's repairs between nodes is unknown",
            install.bin
        )),
    }
}

/// Returns the paths of DMTCP's own libraries: `lib/dmtcp` next to its programs, on some systems below `lib64` or the processor's directory.
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
        // in the format of a symbol table
        let text: Vec<u8> = names
            .iter()
            .flat_map(|name| [&[0xff, 0], name.as_bytes(), &[0]].concat())
            .collect();
        fs::write(root.join("lib/dmtcp/libdmtcp.so"), text).expect("writes");
        let install = Install {
            bin: root.join("bin"),
            version: Some("9.0".into()),
            forks: false,
        };
        (dir, install)
    }

    const OTHERS: [&str; 8] = [
        "dmtcp_local_barrier",
        "dmtcp_global_barrier",
        "dmtcp_get_local_ip_addr",
        "_ZN5jalib9JSockAddr3ANYE",
        "_ZN5jalib7JSocket8writeAllEPKcm",
        "_ZN5jalib7JSocket7readAllEPcm",
        "dmtcp_get_uniquepid",
        "_ZN5dmtcp9UniquePid11ThisProcessEb",
    ];

    #[test]
    fn either_name_of_the_process_table_suffices_and_its_absence_is_reported() {
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
        let text = remark(&install).expect("a remark");
        assert!(
            text.contains("DMTCP 9.0 for: children that have ended"),
            "{text}"
        );
    }

    #[test]
    fn a_dmtcp_without_libraries_is_not_taken_for_repaired() {
        let dir = tempfile::tempdir().expect("a directory");
        let bin = Utf8Path::from_path(dir.path()).expect("UTF-8").join("bin");
        let install = Install {
            bin,
            version: Some("9.0".into()),
            forks: false,
        };
        assert_eq!(without_effect(&install), None);
        assert!(remark(&install).is_some_and(|text| text.contains("is unknown")));
    }

    #[test]
    fn the_library_looks_up_the_symbols_that_are_checked_here() {
        for name in REPAIRS
            .iter()
            .flat_map(|repair| repair.needs.iter().flat_map(|names| names.iter()))
        {
            assert!(BETWEEN_NODES.contains(name), "{name}");
        }
    }
}
