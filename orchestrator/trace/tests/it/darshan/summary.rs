//! Compares sums of counters with the output of `darshan-parser --total` for real runs, and with the known content of generated logs.

use super::{
    data, log_bytes,
    made::{self, counters_of},
    printed,
    write::{Order, Written, WrittenModule},
};
use cvc_trace::{
    DarshanLog, DarshanModule, DarshanSummary, ModuleReading, summarize, summarize_each,
};
use std::{io::Cursor, path::Path};

fn summary_of(bytes: &[u8]) -> DarshanSummary {
    let log = DarshanLog::from_source(Cursor::new(bytes), Path::new("log")).unwrap();
    summarize_each(log, None).unwrap()
}

#[test]
fn sums_of_modules_are_those_of_darshan_parser() {
    for name in [
        "mpich-btioS-full-np4",
        "mpich-btioS-simple-np4",
        "ompi-romio-btioW-full-np4",
        "ompi-ompio-btioW-full-np9",
    ] {
        let summary = summary_of(&log_bytes(name));
        let text = printed(&format!("{name}.total"));
        let theirs = |wanted: &str| -> f64 {
            let of = text.lines().find_map(|line| {
                line.strip_prefix("total_")?
                    .strip_prefix(wanted)?
                    .strip_prefix(": ")
            });
            of.unwrap_or_else(|| panic!("{wanted}")).parse().unwrap()
        };
        let mut compared = 0;
        for module in &summary.modules {
            let Some(sums) = &module.sums else { continue };
            for (counter, sum) in sums.summed() {
                assert_eq!(sum as f64, theirs(counter), "{name} {counter}");
                compared += 1;
            }
            for (counter, value) in sums.floats().filter(|(c, _)| !c.contains("_RANK_")) {
                let close = (value - theirs(counter)).abs() < 1e-5;
                assert!(close, "{name} {counter} {value}");
            }
            let last = |of: &str| sums.int(of).unwrap() as f64;
            let prefix = if module.info.module == DarshanModule::MpiIo {
                continue;
            } else {
                "POSIX_"
            };
            for of in ["MAX_BYTE_READ", "MAX_BYTE_WRITTEN"] {
                assert_eq!(last(of), theirs(&format!("{prefix}{of}")), "{name}");
            }
        }
        assert!(compared > 60, "{compared}");
    }
}

#[test]
fn layers_are_kept_separate_and_common_sizes_are_counted() {
    let summary = summarize(&data("mpich-btioS-simple-np4.darshan")).unwrap();
    for module in [DarshanModule::Posix, DarshanModule::MpiIo] {
        let sums = summary.module(module).unwrap().sums.as_ref().unwrap();
        assert_eq!((sums.reads(), sums.writes()), (Some(3456), Some(3456)));
        assert_eq!(sums.written_bytes(), Some(12 * 12 * 12 * 5 * 8 * 12));
        assert_eq!(sums.sizes.top(1)[0].0, 240, "{:?}", sums.sizes.top(4));
    }
    let posix = summary.module(DarshanModule::Posix).unwrap();
    assert_eq!(posix.files, 1);
    assert!(posix.time_by_slowest_s() > 0.0);
    assert_eq!(summary.heat.len(), 2);
    let written = summary.heat.iter().map(|grid| grid.totals()[1]);
    assert!(
        written.clone().all(|bytes| bytes == 829_440),
        "{:?}",
        written.collect::<Vec<_>>()
    );
}

fn with(modules: Vec<WrittenModule>) -> Written {
    let mut log = made::newest(Order::Little, 0);
    log.modules = modules;
    log
}

#[test]
fn dfs_and_daos_are_read_and_others_are_named_with_their_size() {
    let mut log = with(vec![
        made::module(
            16,
            1,
            counters_of(&[(11, 0), (22, u64::MAX)], [0, 52, 15, 4], |i| i + 1),
        ),
        made::module(17, 1, counters_of(&[(11, 2)], [0, 64, 15, 6], |i| i + 1)),
        made::module(13, 1, vec![1; 100]),
        made::module(14, 1, vec![1; 100]),
        made::module(40, 1, vec![1; 100]),
    ]);
    log.partial = 1 << 16 | 1 << 9;
    let summary = summary_of(&log.bytes());
    let dfs = summary.module(DarshanModule::Dfs).unwrap();
    assert!(dfs.info.partial);
    let sums = dfs.sums.as_ref().unwrap();
    // two records: OPENS is the first counter and GLOBAL_OPENS the second; READS is the fifth and READXS the sixth
    assert_eq!(sums.opens(), Some(2 * (1 + 2)));
    assert_eq!(sums.reads(), Some(2 * (5 + 6)));
    assert_eq!(
        (sums.read_bytes(), sums.written_bytes()),
        (Some(30), Some(32))
    );
    let sizes = sums.read_sizes().unwrap();
    assert_eq!(sizes.iter().next(), Some(("0-100", 40)));
    let daos = summary.module(DarshanModule::Daos).unwrap();
    let sums = daos.sums.as_ref().unwrap();
    assert_eq!(
        (sums.reads(), sums.writes()),
        (Some(2 + 11 + 19), Some(3 + 12 + 20))
    );
    assert_eq!(daos.ranks.keys().collect::<Vec<_>>(), [&2]);
    let unread: Vec<_> = summary
        .modules
        .iter()
        .filter(|module| module.reading == ModuleReading::Unread)
        .map(|module| (module.info.module.name(), module.info.bytes > 0))
        .collect();
    assert_eq!(
        unread,
        [("APXC", true), ("APMPI", true), ("<UNKNOWN>", true)]
    );
    let apmpi = summary
        .missing
        .iter()
        .find(|m| m.part == "module APMPI")
        .unwrap();
    assert!(apmpi.problem.contains("bytes (compressed)"), "{apmpi:?}");
}

#[test]
fn sums_end_at_the_largest_number_and_what_is_not_counted_is_unknown() {
    let most = counters_of(&[(11, 0), (11, 1)], [0, 69, 17, 0], |_| i64::MAX as u64);
    let sums = summary_of(&with(vec![made::module(1, 4, most)]).bytes());
    let posix = sums
        .module(DarshanModule::Posix)
        .unwrap()
        .sums
        .as_ref()
        .unwrap();
    assert_eq!(posix.reads(), Some(i64::MAX as u64));
    let of = &sums.files[0];
    let spread = of.read_by.unwrap();
    assert_eq!((spread.processes, sums.files.len()), (2, 1));
    // HDF5 files have no counter of reads, and the old version has none of flushes
    let old = counters_of(&[(11, 0)], [0, 1, 4, 0], |_| 7);
    let sums = summary_of(&with(vec![made::module(3, 2, old)]).bytes());
    let h5f = sums
        .module(DarshanModule::H5f)
        .unwrap()
        .sums
        .as_ref()
        .unwrap();
    assert_eq!(
        (h5f.opens(), h5f.reads(), h5f.int("FLUSHES")),
        (Some(7), None, None)
    );
}

#[test]
fn every_record_is_handed_over_with_its_name() {
    let bytes = made::newest(Order::Little, 0).bytes();
    let log = DarshanLog::from_source(Cursor::new(&bytes), Path::new("log")).unwrap();
    let mut all = Vec::new();
    let mut each = |record: &cvc_trace::RecordSums<'_>| {
        let name = record.name.map(String::from_utf8_lossy).map(String::from);
        all.push((record.sums.module, name, record.rank));
        Ok(())
    };
    summarize_each(log, Some(&mut each)).unwrap();
    assert_eq!(all.len(), 14);
    let name = Some("/scratch/run/out.h5".to_owned());
    assert_eq!(all[0], (DarshanModule::Posix, name, Some(3)));
    assert_eq!(all[1].2, None);
}

/// Two ranks write 5 times 1000 bytes to separate files and 9 lines of text, and write collectively and independently to one file.
#[test]
fn totals_are_of_the_lowest_layer_and_streams_count() {
    let of = |name: &str| summarize(&data(name)).unwrap();
    let posix = (DarshanModule::Posix, [8, 16, 12_392, 18_592]);
    let streams = (DarshanModule::Stdio, [18, 18, 126, 126]);
    let mpi_io = (DarshanModule::MpiIo, [2, 6, 8192, 8592]);
    for (name, expected) in [
        ("own-dxt0.darshan", [posix, streams]),
        ("own-dxt1.darshan", [posix, streams]),
        ("own-no-posix.darshan", [mpi_io, streams]),
    ] {
        let summary = of(name);
        let moved = summary.moved().unwrap().into_iter();
        let moved = moved.map(|(module, of)| {
            let numbers = [of.reads, of.writes, of.read_bytes, of.written_bytes];
            (module, numbers)
        });
        assert_eq!(moved.collect::<Vec<_>>(), expected, "{name}");
        let mpi_io = summary.module(DarshanModule::MpiIo).unwrap();
        assert_eq!(mpi_io.sums.as_ref().unwrap().writes(), Some(6), "{name}");
        assert_eq!(summary.missing, [], "{name}");
    }
    assert!(of("own-dxt1.darshan").header.has_events());
    assert!(!of("own-dxt0.darshan").header.has_events());
}

#[test]
fn logs_of_darshan_2_are_named_as_that() {
    use std::io::Write;
    let mut text = b"2.06\0\0\0\0".to_vec();
    text.resize(3000, 7);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    bzip2.write_all(&text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("a.darshan.gz", gzip.finish().unwrap()),
        ("a.darshan", bzip2.finish().unwrap()),
        ("plain", text),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut profiler = cvc_trace::profile::Profiler::default();
        let error = cvc_trace::read_trace(&[path], &mut profiler, None).unwrap_err();
        assert!(
            error.to_string().contains("Darshan 2.06 wrote it"),
            "{error}"
        );
    }
}
