//! Several Darshan logs: compared with `darshan-parser --total` of each; damaged logs; files of several jobs.

use cvc_trace::{
    jobs::{JobFilter, Jobs, darshan_logs_below},
    summarize,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

const LOGS: [&str; 4] = [
    "mpich-btioS-full-np4",
    "mpich-btioS-simple-np4",
    "ompi-ompio-btioW-full-np9",
    "ompi-romio-btioW-full-np4",
];

fn log(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/darshan/{name}.darshan"))
}

fn jobs(filter: JobFilter, more: &[PathBuf]) -> Jobs {
    let mut jobs = Jobs::new(filter);
    for path in LOGS.map(log).iter().chain(more) {
        jobs.add(path);
    }
    jobs
}

/// Returns a counter from the output of `darshan-parser --total`, which is stored next to the log.
fn total(name: &str, counter: &str) -> u64 {
    use std::io::Read;
    let path = log(name).with_extension("total.txt.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("total_{counter}: ")));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn each_job_has_the_sums_of_its_log() {
    let jobs = jobs(JobFilter::default(), &[]);
    assert_eq!(jobs.rows.len(), 4);
    for (row, name) in jobs.rows.iter().zip(LOGS) {
        let posix = row.modules.iter().find(|m| m.module == "POSIX").unwrap();
        assert_eq!(
            posix.written_bytes,
            total(name, "POSIX_BYTES_WRITTEN"),
            "{name}"
        );
        assert_eq!(posix.read_bytes, total(name, "POSIX_BYTES_READ"), "{name}");
        assert_eq!(posix.writes, total(name, "POSIX_WRITES"), "{name}");
        // bytes moved by MPI-IO are not added to the bytes that POSIX moved for it
        let mpi_io = row.modules.iter().find(|m| m.module == "MPI-IO").unwrap();
        let stdio = row
            .modules
            .iter()
            .find(|m| m.module == "STDIO")
            .map_or(0, |m| m.written_bytes);
        assert!(mpi_io.written_bytes > 0);
        assert_eq!(row.written_bytes, posix.written_bytes + stdio, "{name}");
        assert!(
            row.io_share.unwrap() > 0.0 && row.io_share.unwrap() < 1.0,
            "{row:?}"
        );
        assert_eq!(row.processes, if name.contains("np9") { 9 } else { 4 });
    }
}

#[test]
fn damaged_logs_are_named_and_do_not_hide_others() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("2026/11");
    fs::create_dir_all(&deep).unwrap();
    for name in LOGS {
        fs::copy(log(name), deep.join(format!("{name}.darshan"))).unwrap();
    }
    fs::write(deep.join("empty.darshan"), "").unwrap();
    fs::write(deep.join("text.darshan"), "hello").unwrap();
    let whole = fs::read(log(LOGS[0])).unwrap();
    fs::write(deep.join("cut.darshan"), &whole[..whole.len() / 2]).unwrap();
    fs::write(deep.join("notes.txt"), "no log").unwrap();
    let paths = darshan_logs_below(dir.path()).unwrap();
    assert_eq!(paths.len(), 7);
    let mut jobs = Jobs::default();
    for path in &paths {
        jobs.add(path);
    }
    assert_eq!(jobs.rows.len(), 5);
    let unread: Vec<_> = jobs
        .unread
        .iter()
        .map(|u| u.log.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(unread, ["empty.darshan", "text.darshan"]);
    let cut = jobs
        .rows
        .iter()
        .find(|row| row.log.ends_with("cut.darshan"))
        .unwrap();
    assert!(!cut.notes.is_empty(), "{cut:?}");
}

#[test]
fn files_of_several_jobs_are_added_up_and_filters_keep_what_has_their_text() {
    let twice = jobs(JobFilter::default(), &[log(LOGS[0])]);
    let file = |jobs: &Jobs, module: &str| {
        let files = jobs.files();
        let of = files.iter().find(|f| {
            f.module == module && f.file.ends_with("btio.full.out") && f.file.contains("mpich")
        });
        (*of.unwrap()).clone()
    };
    let once = jobs(JobFilter::default(), &[]);
    for module in ["POSIX", "MPI-IO"] {
        let (one, two) = (file(&once, module), file(&twice, module));
        assert_eq!((one.jobs, two.jobs), (1, 2));
        assert_eq!(
            (2 * one.writes, 2 * one.written_bytes),
            (two.writes, two.written_bytes)
        );
        assert!(one.time_by_slowest_s > 0.0);
    }
    let some = jobs(
        JobFilter {
            logs: vec!["np9".into()],
            files: vec!["btio.full".into()],
        },
        &[],
    );
    assert_eq!((some.rows.len(), some.left_out), (1, 3));
    assert!(!some.files().is_empty() && some.files().iter().all(|f| f.file.contains("btio.full")));
}

#[test]
fn mpi_io_without_a_counted_operation_is_named() {
    let of = |name| cvc_trace::jobs::uncounted_mpi_io(&summarize(&log(name)).unwrap());
    assert_eq!(of(LOGS[0]), None);
    let told = of("mpich-large-count-np2").unwrap();
    assert!(
        told.contains("lc.out is counted")
            && told.contains("2.0 MiB")
            && told.contains("MPI_File_write_c"),
        "{told}"
    );
    // the bytes are counted by POSIX nevertheless
    let jobs = jobs(JobFilter::default(), &[log("mpich-large-count-np2")]);
    assert_eq!(jobs.rows[4].written_bytes, 2 << 20);
    assert_eq!(jobs.rows[4].notes.len(), 1, "{:?}", jobs.rows[4].notes);
}
