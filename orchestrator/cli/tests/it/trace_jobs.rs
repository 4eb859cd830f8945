//! Tests of `cvc trace` with several Darshan logs, as users type it.

use crate::common::campaign;
use serde_json::Value;
use std::{fs, path::PathBuf};

const TEXT: &str = "[sites.here]\nkind = \"local\"\n[matrix]\nsite = \"here\"\napp = \"unused\"\nprocesses = 1\nmpi = \"mpich\"\n";

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/darshan")
}

fn log(name: &str) -> String {
    data()
        .join(format!("{name}.darshan"))
        .to_str()
        .expect("UTF-8")
        .to_owned()
}

#[test]
fn a_directory_of_logs_is_a_table_of_jobs() {
    let c = campaign("unused", TEXT);
    let deep = c.dir().join("logs/2026/11");
    fs::create_dir_all(&deep).expect("a directory");
    for (from, to) in [
        ("mpich-btioS-full-np4", "a"),
        ("mpich-btioS-full-np4", "b"),
        ("mpich-large-count-np2", "c"),
        ("killed-while-writing", "d"),
    ] {
        fs::copy(log(from), deep.join(format!("{to}.darshan"))).expect("a copy");
    }
    let text = c.cvc(&["trace", "logs"]).expect(0).stdout;
    for part in [
        "3 jobs of 10 processes",
        "not read: logs/2026/11/d.darshan",
        "large-count calls",
        "file of several jobs",
        "btio.full.out",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = c.cvc(&["trace", "logs", "--json"]).expect(0).stdout;
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&told["sum"]["jobs"], &told["sum"]["processes"]),
        (&3.into(), &10.into())
    );
    // three files of 829440 bytes and 2 MiB: bytes of MPI-IO are not added to the bytes that POSIX moved for it
    assert_eq!(
        told["sum"]["modules"]["POSIX"]["bytes"],
        4 * 829_440 + (2 << 20)
    );
    assert_eq!(told["unread"].as_array().map(Vec::len), Some(1));
    assert!(
        told["files"]
            .as_array()
            .is_some_and(|files| files.iter().all(|f| f["jobs"] == 2))
    );

    c.cvc(&[
        "trace",
        "logs",
        "--csv",
        "jobs.csv",
        "--files-csv",
        "files.csv",
        "--job",
        "/c.dar",
        "--path",
        "out",
    ])
    .expect(0);
    let jobs = fs::read_to_string(c.dir().join("jobs.csv")).expect("CSV");
    assert!(
        jobs.lines().skip(1).all(|line| line.contains("c.darshan")) && jobs.lines().count() == 3,
        "{jobs}"
    );
    let files = fs::read_to_string(c.dir().join("files.csv")).expect("CSV");
    assert!(
        files
            .lines()
            .any(|line| line.ends_with("lc.out,POSIX,1,0,2,0,2097152")
                || line.contains("lc.out,POSIX,1,0,")),
        "{files}"
    );
}

#[test]
fn options_of_one_trace_and_of_several_logs_are_told_apart() {
    let c = campaign("unused", TEXT);
    let two = [log("mpich-btioS-full-np4"), log("mpich-btioS-simple-np4")];
    let refused = c
        .cvc(&["trace", &two[0], &two[1], "--html", "x.html"])
        .expect(2);
    assert!(
        refused
            .stderr
            .contains("--html is for one trace, but these are 2 logs")
    );
    let refused = c.cvc(&["trace", &two[0], "--job", "x"]).expect(2);
    assert!(
        refused
            .stderr
            .contains("--job is for several logs of Darshan")
    );
}

#[test]
fn the_page_of_a_log_shows_its_heat_map() {
    let c = campaign("unused", TEXT);
    c.cvc(&["trace", &log("mpich-large-count-np2"), "--html", "x.html"])
        .expect(0);
    let page = fs::read_to_string(c.dir().join("x.html")).expect("a page");
    for part in ["Ranks over time: POSIX", "Files by file system"] {
        assert!(page.contains(part), "{part}");
    }
}
