//! POSIX and MPI-IO operations, by Darshan with DXT.

use super::{
    contract::{Instrumentation, Tracer},
    totals::Totals,
};
use crate::mpi::{Launcher, Missing, launcher};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{campaign::MpiFamily, paths};
use cvc_trace::{
    DarshanCounters, DarshanLog, DarshanModule, DarshanRecordId, DarshanVisitor, read_dxt,
};
use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
};

/// Darshan's log.
const LOG: &str = "run.darshan";

/// Version since which Darshan writes its logs in a way that OMPIO cannot damage.
const SOUND: (u32, u32) = (3, 5);

/// Most files of which it is remembered that they are the run's.
const MOST_FILES: usize = 1 << 20;

/// Darshan.
pub(super) struct Darshan;

impl Tracer for Darshan {
    fn name(&self) -> &'static str {
        "darshan"
    }

    fn title(&self) -> &'static str {
        "Darshan"
    }

    /// Finds the library for preloading: that of `CVC_DARSHAN_LIB` or of a family, or the one beside `darshan-config`.
    fn find(&self) -> Result<Utf8PathBuf, Missing> {
        let missing = || {
            Missing {
            what: "Darshan's runtime library is not installed".into(),
            hint: "install it (Spack: spack install darshan-runtime darshan-util) and set CVC_DARSHAN_LIB to libdarshan.so".into(),
        }
        };
        let of_one = MpiFamily::ALL
            .iter()
            .find_map(|family| of_family(launcher(*family)));
        if let Some(given) = std::env::var("CVC_DARSHAN_LIB").ok().or(of_one) {
            return Some(Utf8PathBuf::from(given))
                .filter(|p| p.is_file())
                .ok_or_else(missing);
        }
        let config = paths::on_path(
            &["darshan-config"],
            &std::env::var("PATH").unwrap_or_default(),
        )
        .ok_or_else(missing)?;
        let prefix = config
            .parent()
            .and_then(|b| b.parent())
            .ok_or_else(missing)?;
        ["lib", "lib64"]
            .iter()
            .map(|l| prefix.join(l).join("libdarshan.so"))
            .find(|p| p.is_file())
            .ok_or_else(missing)
    }

    fn instrument(
        &self,
        tool: &Utf8Path,
        work: &Utf8Path,
        family: &dyn Launcher,
    ) -> Instrumentation {
        let own = of_family(family).map(Utf8PathBuf::from);
        let tool = own.as_deref().unwrap_or(tool);
        let mut env: BTreeMap<String, String> = [
            ("DXT_ENABLE_IO_TRACE", "1"),
            ("DARSHAN_MOD_ENABLE", "DXT_POSIX,DXT_MPIIO"),
            ("DARSHAN_LOGFILE", work.join(LOG).as_str()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        if family.sieves_writes() && version_of(tool).is_none_or(|version| version < SOUND) {
            // aggregators of the log's collective writes read, change and write back what others write (darshan issue 1064). Of 33 runs of BT-IO
            // on 4 ranks with Open MPI 4.1.4 and Darshan 3.4.7, 7 left a damaged log, and with one aggregator none
            env.insert("DARSHAN_LOGHINTS".to_owned(), "cb_nodes=1".to_owned());
        }
        Instrumentation {
            env,
            // for the ranks alone: the launcher is not traced
            rank_env: [("LD_PRELOAD".to_owned(), tool.to_string())].into(),
            ..Instrumentation::default()
        }
    }

    fn trace(&self) -> Option<&'static str> {
        Some(LOG)
    }

    /// Single reads and writes are those of DXT; how long everything else took is Darshan's own count, `POSIX_F_META_TIME`.
    fn add_up(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
    ) -> Result<(), cvc_trace::TraceError> {
        read_dxt(trace.as_std_path(), totals)?;
        let mut others = MetadataTime {
            totals,
            of_run: HashSet::new(),
            seconds: 0.0,
        };
        DarshanLog::open(trace.as_std_path())?.read(&mut others)?;
        let seconds = others.seconds;
        totals.add_metadata_s(seconds);
        Ok(())
    }

    fn cost_of_absence(&self) -> &'static str {
        "tracer = \"darshan\" cannot be used"
    }
}

/// The library for one family of MPI libraries, by `CVC_DARSHAN_LIB_MPICH` or `CVC_DARSHAN_LIB_OPENMPI`: Darshan is built against the headers of one, and
/// ends programs of others.
fn of_family(family: &dyn Launcher) -> Option<String> {
    std::env::var(format!(
        "CVC_DARSHAN_LIB_{}",
        family.name().to_ascii_uppercase()
    ))
    .ok()
}

/// Adds up what Darshan counted of operations that move no bytes.
struct MetadataTime<'a, 'b> {
    totals: &'a Totals<'b>,
    of_run: HashSet<DarshanRecordId>,
    seconds: f64,
}

impl DarshanVisitor for MetadataTime<'_, '_> {
    fn wants(&mut self, module: DarshanModule) -> bool {
        module == DarshanModule::Posix
    }

    fn name(&mut self, id: DarshanRecordId, name: &[u8]) -> io::Result<()> {
        if self.of_run.len() < MOST_FILES && self.totals.counts(name) {
            self.of_run.insert(id);
        }
        Ok(())
    }

    fn counters(&mut self, counters: &DarshanCounters<'_>) -> io::Result<()> {
        if self.of_run.contains(&counters.id) {
            // -1 where a version does not count it
            let seconds = counters.float("POSIX_F_META_TIME").unwrap_or(0.0);
            self.seconds += if seconds.is_finite() {
                seconds.max(0.0)
            } else {
                0.0
            };
        }
        Ok(())
    }
}

/// Major and minor version of the Darshan that a library belongs to, by the file for pkg-config that is installed with it, or by the directory that
/// Spack and others put it into.
fn version_of(library: &Utf8Path) -> Option<(u32, u32)> {
    let directory = library.parent()?;
    let told = ["darshan-runtime.pc", "darshan.pc"]
        .iter()
        .find_map(|name| {
            let text = fs::read_to_string(directory.join("pkgconfig").join(name)).ok()?;
            let version = text.lines().find_map(|l| l.strip_prefix("Version:"))?;
            numbers(version.trim())
        });
    told.or_else(|| {
        let mut words = library.components().map(|c| c.as_str());
        words.find_map(|word| {
            let of = word.strip_prefix("darshan-")?;
            numbers(of.strip_prefix("runtime-").unwrap_or(of))
        })
    })
}

/// The first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mpi::launcher, run::Findings, tracer::Places};
    use cvc_core::{campaign::MpiFamily, ids::RunId, record::names};

    fn hints(library: &Utf8Path, family: MpiFamily) -> Option<String> {
        let added = Darshan.instrument(library, Utf8Path::new("/run"), launcher(family));
        added.env.get("DARSHAN_LOGHINTS").cloned()
    }

    fn installed(version: &str) -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let lib = Utf8Path::from_path(dir.path()).expect("UTF-8").join("lib");
        fs::create_dir_all(lib.join("pkgconfig")).expect("made");
        let text = format!("Name: darshan\nVersion: {version}\n");
        fs::write(lib.join("pkgconfig/darshan-runtime.pc"), text).expect("written");
        (dir, lib.join("libdarshan.so"))
    }

    #[test]
    fn with_ompio_one_process_writes_the_log_until_darshan_3_5() {
        for (version, hint) in [
            ("3.4.7", true),
            ("3.2.1", true),
            ("3.5.0", false),
            ("3.5.0-pre1", false),
            ("4.0", false),
            ("unknown", true),
        ] {
            let (_dir, library) = installed(version);
            let wanted = hint.then(|| "cb_nodes=1".to_owned());
            assert_eq!(hints(&library, MpiFamily::OpenMpi), wanted, "{version}");
            assert_eq!(hints(&library, MpiFamily::Mpich), None, "{version}");
        }
    }

    #[test]
    fn the_version_is_also_read_from_the_directory() {
        let of = |path: &str| version_of(Utf8Path::new(path));
        assert_eq!(
            of("/spack/opt/darshan-runtime-3.4.6-abc/lib/libdarshan.so"),
            Some((3, 4))
        );
        assert_eq!(of("/opt/darshan-3.5.0/lib/libdarshan.so"), Some((3, 5)));
        assert_eq!(of("/opt/darshan-openmpi-none/lib/libdarshan.so"), None);
        assert_eq!(of("/usr/lib/libdarshan.so"), None);
    }

    /// What a log of the reader's tests comes to, and what is missing in it.
    fn read(log: &str) -> (BTreeMap<String, f64>, Vec<String>) {
        let data = Utf8Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../trace/tests/data/darshan"
        ));
        let mut found = Findings::new(RunId::from_written("r"));
        let nowhere = Utf8Path::new("/nowhere");
        let places = Places {
            work: nowhere,
            dir: nowhere,
            tmp: nowhere,
        };
        Darshan
            .read(&data.join(log), places, &mut found)
            .expect("what can be read");
        let records = found.records.into_iter().map(|r| (r.name, r.value));
        (records.collect(), found.notes)
    }

    #[test]
    fn a_log_becomes_records() {
        let (records, gaps) = read("mpich-btioS-full-np4.darshan");
        assert_eq!(gaps, Vec::<String>::new());
        // class S: 12^3 points of 5 variables, 12 times
        let bytes = f64::from(12 * 12 * 12 * 5 * 8 * 12);
        assert_eq!(records[names::TRACE_WRITTEN_BYTES], bytes, "{records:?}");
        assert_eq!(records[names::TRACE_READ_BYTES], bytes, "{records:?}");
        assert_eq!(records[names::TRACE_WRITERS], 1.0, "one node: {records:?}");
        assert!(records[names::TRACE_METADATA_S] > 0.0, "{records:?}");
    }

    #[test]
    fn a_damaged_log_gives_what_is_readable_and_says_what_is_not() {
        let (records, gaps) = read("corrupt-dxt-mpiio-module.darshan");
        assert!(records[names::TRACE_WRITTEN_BYTES] > 0.0, "{records:?}");
        assert!(gaps.iter().any(|gap| gap.contains("DXT_MPIIO")), "{gaps:?}");
    }

    #[test]
    fn dxt_of_posix_and_mpi_io_is_on() {
        let added = Darshan.instrument(
            Utf8Path::new("/usr/lib/libdarshan.so"),
            Utf8Path::new("/run"),
            launcher(MpiFamily::Mpich),
        );
        assert_eq!(added.env["DXT_ENABLE_IO_TRACE"], "1");
        assert_eq!(added.env["DARSHAN_MOD_ENABLE"], "DXT_POSIX,DXT_MPIIO");
    }
}
