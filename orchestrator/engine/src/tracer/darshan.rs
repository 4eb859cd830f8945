//! Traces POSIX and MPI-IO operations with Darshan, including its extended tracing (DXT).

use super::{
    contract::{Instrumentation, Tracer},
    totals::{Moved, Totals},
};
use crate::mpi::{Launcher, Missing, launcher, linked_mpi};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{campaign::MpiFamily, paths};
use cvc_trace::{
    DarshanLog, DarshanModule, DarshanRecordId, DarshanSummary, FileId, ProcessId, RecordSums,
    Sink as _, read_dxt_after, summarize_each,
};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
};

/// File name of Darshan's log.
const LOG: &str = "run.darshan";

/// First version of Darshan (major, minor) whose logs are not damaged if they are written through OMPIO.
const SOUND: (u32, u32) = (3, 5);

/// Maximum number of files whose writers are stored.
const MAX_FILES: usize = 1 << 20;

/// Darshan as a tracer.
pub(super) struct Darshan;

impl Tracer for Darshan {
    fn name(&self) -> &'static str {
        "darshan"
    }

    fn title(&self) -> &'static str {
        "Darshan"
    }

    /// Finds the library to preload: from `CVC_DARSHAN_LIB`, from the variable of an MPI family, or next to `darshan-config`.
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

    /// Checks the family, because the library calls functions of the MPI library that it was built with.
    fn check_family(&self, tool: &Utf8Path, family: &dyn Launcher) -> Result<(), Missing> {
        let own = of_family(family).map(Utf8PathBuf::from);
        let tool = own.as_deref().unwrap_or(tool);
        let Some(linked) = linked_mpi(tool).filter(|linked| linked.family.word() != family.name())
        else {
            return Ok(());
        };
        let variable = variable_of(family);
        Err(Missing {
            what: format!(
                "Darshan's library {tool} was built with {} ({}), and would crash programs of {}",
                launcher(linked.family).title(),
                linked.library,
                family.title()
            ),
            hint: format!(
                "set {variable} to a libdarshan.so that was built with {}",
                family.title()
            ),
        })
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
            // the aggregators that write the log collectively may overwrite ranges that others write (darshan issue 1064). In 33 runs of BT-IO on 4
            // ranks with Open MPI 4.1.4 and Darshan 3.4.7, 7 left a damaged log; with one aggregator none did
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

    /// Takes sums from Darshan's counters, which include every operation. Times and offsets of writes come from DXT's events, which lack operations
    /// on streams.
    fn add_up(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
    ) -> Result<(), cvc_trace::TraceError> {
        let mut written = Written::new();
        let mut each = |record: &RecordSums<'_>| {
            let bytes = record.sums.written_bytes().unwrap_or(0);
            if let Some(rank) = record
                .rank
                .filter(|_| bytes > 0 && written.len() < MAX_FILES)
            {
                let of = written.entry((record.sums.module, record.id)).or_default();
                of.push((u32::try_from(rank).unwrap_or(u32::MAX), bytes));
            }
            Ok(())
        };
        let log = summarize_each(DarshanLog::open(trace.as_std_path())?, Some(&mut each))?;
        for missing in &log.missing {
            totals
                .missing(missing)
                .map_err(cvc_trace::TraceError::Sink)?;
        }
        read_dxt_after(trace.as_std_path(), &log, totals)?;
        add_counters(&log, &written, totals);
        Ok(())
    }

    fn cost_of_absence(&self) -> &'static str {
        "tracer = \"darshan\" cannot be used"
    }
}

/// Returns the library for one family of MPI libraries, from `CVC_DARSHAN_LIB_MPICH` or `CVC_DARSHAN_LIB_OPENMPI`. Darshan is built against the
/// headers of one family, and programs of other families crash with it.
fn of_family(family: &dyn Launcher) -> Option<String> {
    std::env::var(variable_of(family)).ok()
}

fn variable_of(family: &dyn Launcher) -> String {
    format!("CVC_DARSHAN_LIB_{}", family.name().to_ascii_uppercase())
}

/// Bytes that ranks wrote, for files with a record for each rank, by module and file.
type Written = HashMap<(DarshanModule, DarshanRecordId), Vec<(u32, u64)>>;

/// Adds the log's counters for the run's files. For each file, only the lowest interface is counted.
fn add_counters(log: &DarshanSummary, written: &Written, totals: &mut Totals<'_>) {
    let ns = |seconds: Option<f64>| (seconds.unwrap_or(0.0) * 1e9) as u64;
    if log.moved().is_some() {
        totals.add_counted(Moved::default(), Moved::default());
    }
    for (number, file) in (0..).zip(log.lowest()) {
        if !log.name(file.id).is_some_and(|name| totals.counts(name)) {
            continue;
        }
        let sums = &file.sums;
        let moved = |operations: Option<u64>, bytes: Option<u64>, time_s| Moved {
            operations: operations.unwrap_or(0),
            bytes: bytes.unwrap_or(0),
            duration_ns: ns(time_s),
        };
        totals.add_counted(
            moved(sums.reads(), sums.read_bytes(), sums.read_s()),
            moved(sums.writes(), sums.written_bytes(), sums.write_s()),
        );
        totals.add_metadata_s(sums.meta_s().unwrap_or(0.0));
        // the writers of files with events are taken from the events
        if sums.module == DarshanModule::Posix && log.header.has_events() {
            continue;
        }
        for (rank, bytes) in written.get(&(sums.module, file.id)).into_iter().flatten() {
            // numbers that the events do not use
            totals.add_written(FileId(u32::MAX - number), ProcessId(*rank), *bytes);
        }
    }
}

/// Returns the major and the minor version of a library's Darshan: from the pkg-config file installed with it, or from the name of its directory, as
/// in Spack.
fn version_of(library: &Utf8Path) -> Option<(u32, u32)> {
    let directory = library.parent()?;
    let from_package = ["darshan-runtime.pc", "darshan.pc"]
        .iter()
        .find_map(|name| {
            let text = fs::read_to_string(directory.join("pkgconfig").join(name)).ok()?;
            let version = text.lines().find_map(|l| l.strip_prefix("Version:"))?;
            numbers(version.trim())
        });
    from_package.or_else(|| {
        let mut words = library.components().map(|c| c.as_str());
        words.find_map(|word| {
            let of = word.strip_prefix("darshan-")?;
            numbers(of.strip_prefix("runtime-").unwrap_or(of))
        })
    })
}

/// Returns the first two numbers of a version.
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
    fn a_library_of_another_mpi_is_refused() {
        let mut seen = 0;
        for (path, family, other) in [
            (
                "/opt/darshan/mpich/lib/libdarshan.so",
                MpiFamily::Mpich,
                MpiFamily::OpenMpi,
            ),
            (
                "/opt/darshan/openmpi/lib/libdarshan.so",
                MpiFamily::OpenMpi,
                MpiFamily::Mpich,
            ),
        ] {
            let library = Utf8Path::new(path);
            if !library.is_file()
                || of_family(launcher(family)).is_some()
                || of_family(launcher(other)).is_some()
            {
                continue;
            }
            seen += 1;
            assert_eq!(Darshan.check_family(library, launcher(family)), Ok(()));
            let missing = Darshan
                .check_family(library, launcher(other))
                .expect_err("of another one");
            let (built, wanted) = (launcher(family).title(), launcher(other).title());
            assert!(
                missing.what.contains(&format!("was built with {built}")),
                "{missing}"
            );
            assert!(
                missing.hint.ends_with(&format!("built with {wanted}")),
                "{missing}"
            );
        }
        // a file that is not a library has no version
        let text = Utf8Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert_eq!(
            Darshan.check_family(text, launcher(MpiFamily::Mpich)),
            Ok(())
        );
        assert!(seen != 1, "both libraries or none");
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

    /// Returns the sums of a log from the reader's tests, and the missing parts of the log.
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
            .read(&data.join(log), &mut Totals::new(places), &mut found)
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
    fn stream_data_count_and_logs_without_dxt_have_sums_too() {
        for (log, bursts) in [("own-dxt0.darshan", false), ("own-dxt1.darshan", true)] {
            let (records, gaps) = read(log);
            assert_eq!(gaps, Vec::<String>::new());
            // 16 writes by POSIX and 18 lines of text; writes of MPI-IO are also writes of POSIX
            assert_eq!(records[names::TRACE_WRITE_OPS], 34.0, "{records:?}");
            assert_eq!(records[names::TRACE_WRITTEN_BYTES], 18_718.0, "{records:?}");
            assert_eq!(records[names::TRACE_READ_BYTES], 12_518.0, "{records:?}");
            let known = records.contains_key(names::TRACE_WRITE_BURSTS);
            assert_eq!(known, bursts, "{records:?}");
        }
    }

    #[test]
    fn a_damaged_log_gives_its_readable_part_and_names_the_rest() {
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
