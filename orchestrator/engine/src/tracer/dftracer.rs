//! Traces calls of the C library with DFTracer.

use super::{
    contract::{Instrumentation, Tracer},
    totals::Totals,
};
use crate::mpi::{Launcher, Missing};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::paths;
use cvc_trace::read_dftracer_files;

/// Directory of the traces. Each process writes one file, whose name DFTracer derives from the node and the process.
const TRACE: &str = "dftracer";
/// Paths of the preloaded library in PyPI's wheel.
const LIBRARIES: [&str; 2] = ["lib64/libdftracer_preload.so", "lib/libdftracer_preload.so"];
/// DFTracer as a tracer.
pub(super) struct DfTracer;

impl Tracer for DfTracer {
    fn name(&self) -> &'static str {
        "dftracer"
    }

    fn title(&self) -> &'static str {
        "DFTracer"
    }

    /// Finds the library to preload: from `CVC_DFTRACER_LIB`, as installed by cvc, or in a package installed by pip.
    fn find(&self) -> Result<Utf8PathBuf, Missing> {
        let found = match std::env::var("CVC_DFTRACER_LIB") {
            Ok(given) => Some(Utf8PathBuf::from(given)).filter(|path| path.is_file()),
            Err(_) => brought(&paths::cache()).or_else(|| {
                let path = std::env::var("PATH").unwrap_or_default();
                of_pip(&path, paths::home().as_deref())
            }),
        };
        found.ok_or_else(|| Missing {
            what: "DFTracer's library for preloading is not installed".into(),
            hint:
                "python3 -m pip install dftracer, or set CVC_DFTRACER_LIB to libdftracer_preload.so"
                    .into(),
        })
    }

    fn instrument(&self, tool: &Utf8Path, work: &Utf8Path, _: &dyn Launcher) -> Instrumentation {
        let traces = work.join(TRACE);
        let env = [
            ("DFTRACER_ENABLE", "1"),
            ("DFTRACER_INIT", "PRELOAD"),
            ("DFTRACER_LOG_FILE", traces.join("process").as_str()),
            ("DFTRACER_DATA_DIR", "all"),
            // without this, offsets, lengths and results of calls are missing
            ("DFTRACER_INC_METADATA", "1"),
            ("DFTRACER_TRACE_COMPRESSION", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        Instrumentation {
            dirs: vec![traces],
            env,
            // for the ranks alone: the launcher is not traced
            rank_env: [("LD_PRELOAD".to_owned(), tool.to_string())].into(),
            ..Instrumentation::default()
        }
    }

    fn trace(&self) -> Option<&'static str> {
        Some(TRACE)
    }

    fn add_up(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
    ) -> Result<(), cvc_trace::TraceError> {
        read_dftracer_files(&[trace.into()], totals).map(drop)
    }

    fn cost_of_absence(&self) -> &'static str {
        "tracer = \"dftracer\" cannot be used"
    }
}

/// Returns the library in the directory of a package.
fn in_package(package: &Utf8Path) -> Option<Utf8PathBuf> {
    LIBRARIES
        .iter()
        .map(|library| package.join(library))
        .find(|path| path.is_file())
}

/// Returns the library that cvc installed in the cache as `dftracer-VERSION`; among several, the last by name.
fn brought(cache: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut found: Vec<Utf8PathBuf> = cache
        .read_dir_utf8()
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().starts_with("dftracer-"))
        .filter_map(|entry| in_package(&entry.path().join("dftracer")))
        .collect();
    found.sort();
    found.pop()
}

/// Returns the library of a package installed by pip. Searched are the directories next to the programs on PATH, including virtual environments, and
/// the home directory. Python is not called, because planning starts no programs.
fn of_pip(path: &str, home: Option<&str>) -> Option<Utf8PathBuf> {
    let prefixes = path
        .split(':')
        .filter_map(|bin| Utf8Path::new(bin).parent().map(Utf8Path::to_owned))
        .chain(home.map(|home| Utf8Path::new(home).join(".local")));
    prefixes
        .filter(|prefix| prefix.is_absolute())
        .find_map(|prefix| {
            let pythons = prefix.join("lib").read_dir_utf8().ok()?.flatten();
            pythons
                .filter(|entry| entry.file_name().starts_with("python3"))
                .find_map(|python| {
                    ["site-packages", "dist-packages"]
                        .iter()
                        .find_map(|packages| {
                            in_package(&python.path().join(packages).join("dftracer"))
                        })
                })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::launcher;
    use cvc_core::campaign::MpiFamily;
    use std::fs;

    #[test]
    fn the_newest_library_that_the_set_up_brought_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = Utf8Path::from_path(dir.path()).expect("UTF-8");
        assert_eq!(brought(cache), None);
        for (version, lib) in [("2.1.0", "lib"), ("2.2.0", "lib64"), ("2.3.0", "empty")] {
            let place = cache.join(format!("dftracer-{version}/dftracer/{lib}"));
            fs::create_dir_all(&place).expect("made");
            if lib != "empty" {
                fs::write(place.join("libdftracer_preload.so"), "").expect("written");
            }
        }
        let newest = cache.join("dftracer-2.2.0/dftracer/lib64/libdftracer_preload.so");
        assert_eq!(brought(cache), Some(newest));
    }

    #[test]
    fn packages_of_pip_are_found_without_starting_python() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let package = root.join("env/lib/python3.11/site-packages/dftracer/lib");
        fs::create_dir_all(&package).expect("made");
        let path = format!("bin:/no/such/bin:{root}/env/bin");
        assert_eq!(of_pip(&path, None), None);
        let library = package.join("libdftracer_preload.so");
        fs::write(&library, "").expect("written");
        assert_eq!(of_pip(&path, None), Some(library));
        assert_eq!(of_pip("", Some("/no/such/home")), None);
    }

    #[test]
    fn only_ranks_are_traced() {
        let library = Utf8Path::new("/opt/libdftracer_preload.so");
        for family in MpiFamily::ALL.iter().copied().map(launcher) {
            let added = DfTracer.instrument(library, Utf8Path::new("/run"), family);
            assert!(!added.env.contains_key("LD_PRELOAD"), "{added:?}");
            assert_eq!(added.rank_env["LD_PRELOAD"], library.as_str());
        }
    }
}
