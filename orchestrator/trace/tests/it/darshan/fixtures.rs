//! Compares logs of real runs line by line with the output of Darshan's own tools.

use super::{
    log_bytes, printed,
    text::{Text, read},
};

const NAMES: [&str; 4] = [
    "mpich-btioS-full-np4",
    "mpich-btioS-simple-np4",
    "ompi-romio-btioW-full-np4",
    "ompi-ompio-btioW-full-np9",
];

/// Returns whether a line before the counters has content that this reader provides: local dates and the positions of header, job and names are
/// excluded.
pub(super) fn is_head(line: &str) -> bool {
    let known = [
        "# darshan log version",
        "# compression",
        "# exe",
        "# uid",
        "# jobid",
        "# start_time:",
        "# end_time:",
        "# nprocs",
        "# run time",
        "# metadata",
        "# mount entry",
    ];
    known.iter().any(|start| line.starts_with(start)) || line.contains(" module: ")
}

#[track_caller]
pub(super) fn same(ours: &[impl AsRef<str>], theirs: &[impl AsRef<str>]) {
    for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.as_ref(), theirs.as_ref(), "line {number}");
    }
    assert_eq!(ours.len(), theirs.len());
}

fn each(check: impl Fn(&str, &Text)) {
    for name in NAMES {
        let text = read(&log_bytes(name)).unwrap();
        assert_eq!(text.missing, [], "{name}");
        check(name, &text);
    }
}

#[test]
fn header_job_and_mounts_are_those_of_darshan_parser() {
    each(|name, text| {
        let theirs = printed(&format!("{name}.parser"));
        let theirs: Vec<&str> = theirs.lines().filter(|line| is_head(line)).collect();
        assert!(theirs.len() > 15);
        same(&text.head, &theirs);
    });
}

#[test]
fn every_counter_is_that_of_darshan_parser() {
    each(|name, text| {
        let theirs = printed(&format!("{name}.parser"));
        let lines = theirs
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let theirs: Vec<&str> = lines.collect();
        assert!(theirs.len() > 200);
        same(&text.counters, &theirs);
    });
}

#[test]
fn every_segment_is_that_of_darshan_dxt_parser() {
    each(|name, text| {
        let theirs = printed(&format!("{name}.dxt"));
        let lines = theirs
            .lines()
            .filter(|line| line.starts_with(" X_") || line.starts_with("# DXT, "));
        let theirs: Vec<&str> = lines.map(str::trim_end).collect();
        assert!(theirs.len() > 80);
        same(&text.dxt, &theirs);
    });
}

#[test]
fn sums_over_all_records_are_the_totals_of_darshan_parser() {
    let summed = [
        "_OPENS",
        "_READS",
        "_WRITES",
        "_BYTES_READ",
        "_BYTES_WRITTEN",
        "_READ_TIME",
        "_WRITE_TIME",
        "_META_TIME",
        "_SEEKS",
    ];
    each(|name, text| {
        let theirs = printed(&format!("{name}.total"));
        assert!(text.sums.len() > 100);
        for (&(counter, is_int), sum) in &text.sums {
            let module = ["POSIX_", "MPIIO_", "STDIO_"];
            if !module.iter().any(|module| counter.starts_with(module))
                || counter.contains("_MAX_")
                || !summed.iter().any(|end| counter.ends_with(end))
            {
                continue;
            }
            let ours = if is_int {
                format!("total_{counter}: {sum:.0}")
            } else {
                format!("total_{counter}: {sum:.6}")
            };
            assert!(theirs.lines().any(|line| line == ours), "{name}: {ours}");
        }
    });
}
