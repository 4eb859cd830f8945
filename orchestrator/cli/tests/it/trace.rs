//! Tests of `cvc trace` as users type it.

use crate::common::campaign;
use serde_json::Value;
use std::{fs, path::PathBuf};

const TEXT: &str = "[sites.here]\nkind = \"local\"\n[matrix]\nsite = \"here\"\napp = \"unused\"\nprocesses = 1\nmpi = \"mpich\"\n";

fn log(name: &str) -> String {
    let data = "../trace/tests/data/darshan";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(data)
        .join(name);
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn json_has_events_files_bursts_and_findings() {
    let c = campaign("unused", TEXT);
    let file = log("mpich-btioS-simple-np4.darshan");
    let text = c.cvc(&["trace", &file, "--json"]).expect(0).stdout;
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(told["schema"], 2);
    assert_eq!(told["trace"]["tracer"], "darshan");
    assert_eq!(told["trace"]["ranks"], 4);
    // 3456 reads and writes of POSIX, and as many of MPI-IO
    assert_eq!(told["events"], 4 * 3456);
    let shared = &told["files"][0];
    assert_eq!(shared["writers"], 4);
    assert_eq!(shared["writes"]["operations"], 3456);
    assert_eq!(shared["writes"]["bytes"], 829_440);
    assert_eq!(shared["writes"]["sizes"]["100-1K"], 3456);
    assert!(told["bursts"].as_array().is_some_and(|b| b.len() > 10));
    assert!(text.contains("\"code\": \"T07\""));
}

#[test]
fn every_event_is_a_line_of_csv_and_a_slice_of_perfetto() {
    let c = campaign("unused", TEXT);
    let file = log("mpich-btioS-full-np4.darshan");
    c.cvc(&[
        "trace",
        &file,
        "--csv",
        "events.csv",
        "--perfetto",
        "trace.json",
    ])
    .expect(0);
    let csv = fs::read_to_string(c.dir().join("events.csv")).expect("CSV");
    assert_eq!(csv.lines().count(), 1 + 120);
    let to_stdout = c.cvc(&["trace", &file, "--csv", "-"]).expect(0).stdout;
    assert_eq!(to_stdout, csv);
    let perfetto = fs::read(c.dir().join("trace.json")).expect("a file");
    let perfetto: Value = serde_json::from_slice(&perfetto).expect("JSON");
    let slices: Vec<&Value> = perfetto["traceEvents"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|e| e["ph"] == "X")
        .collect();
    assert_eq!(slices.len(), 120);
    let starts: Vec<f64> = slices.iter().filter_map(|e| e["ts"].as_f64()).collect();
    assert!(starts.windows(2).all(|w| w[0] <= w[1]), "in order of time");
    // in microseconds: the run took two seconds
    assert!(starts[119] > 1e6 && starts[119] < 3e6, "{}", starts[119]);
}

#[test]
fn a_log_without_dxt_is_answered_from_its_counters() {
    let c = campaign("unused", TEXT);
    let file = log("own-dxt0.darshan");
    let told = c
        .cvc(&["trace", &file, "--all", "--html", "page.html"])
        .expect(0)
        .stdout;
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "34 writes and 26 reads on 5 files by 2 processes in",
        "18.3 KiB written, 12.2 KiB read.",
        "By interface: POSIX 16 writes and 8 reads; STDIO 18 writes and 18 reads.",
        "not added: MPI-IO 6 writes and 2 reads.",
    ] {
        assert!(flat.contains(says), "{says}: {told}");
    }
    let page = fs::read_to_string(c.dir().join("page.html")).expect("a page");
    assert!(page.contains("id=\"table-modules\"") && page.contains("Bandwidth over time"));
    let csv = c.cvc(&["trace", &file, "--csv", "-"]).expect(0).stdout;
    let mut lines = csv.lines();
    let columns = lines.next().expect("a header").split(',').count();
    let records: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(
        records.iter().all(|record| record.len() == columns),
        "{csv}"
    );
    let writes = |module: &str| -> u64 {
        let of = records.iter().filter(|record| record[0] == module);
        of.map(|record| record[5].parse::<u64>().expect("a number"))
            .sum()
    };
    assert_eq!(["POSIX", "MPI-IO", "STDIO"].map(writes), [16, 6, 18]);
    let text = c.cvc(&["trace", &file, "--json"]).expect(0).stdout;
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(told["events"], 0);
    assert_eq!(told["logs"][0]["lowest"]["STDIO"]["written_bytes"], 126);
    assert_eq!(
        told["records"].as_array().map(Vec::len),
        Some(records.len())
    );
    let with_dxt = log("own-dxt1.darshan");
    let told = c.cvc(&["trace", &with_dxt]).expect(0).stdout;
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = "34 writes are counted, 16 of them are events; 18 went through streams, which have no events.";
    assert!(flat.contains(says), "{told}");
    let same = ["trace", "compare", &file, &with_dxt, "--gate"];
    assert!(!c.cvc(&same).expect(0).stdout.contains("differs"));
}

#[test]
fn what_differs_between_two_traces_has_an_exit_code() {
    let c = campaign("unused", TEXT);
    let (full, simple) = (
        log("mpich-btioS-full-np4.darshan"),
        log("mpich-btioS-simple-np4.darshan"),
    );
    let same = c
        .cvc(&["trace", "compare", &full, &full, "--gate"])
        .expect(0)
        .stdout;
    assert!(
        same.contains("the same operations in the same order: btio.full.out"),
        "{same}"
    );
    c.cvc(&["trace", "compare", &full, &simple, "--gate"])
        .expect(13);
}

#[test]
fn what_is_no_trace_is_refused_with_what_is_one() {
    let c = campaign("unused", TEXT);
    fs::write(c.dir().join("letter.txt"), "Dear all,\nthis is no trace.\n").expect("a file");
    for (file, says) in [
        ("letter.txt", "letter.txt"),
        ("nothing-there", "nothing-there"),
        (&*log("killed-while-writing.darshan"), "its header is empty"),
    ] {
        let told = c.cvc(&["trace", file]).expect(6).stderr;
        assert!(told.contains(says) && told.contains("hint:"), "{told}");
    }
    let two = ["trace", "letter.txt", &log("mpich-btioS-full-np4.darshan")];
    let told = c.cvc(&two).expect(6).stderr;
    assert!(told.contains("one after the other"), "{told}");
}

#[test]
fn damaged_logs_give_what_they_have_and_say_what_is_missing() {
    let c = campaign("unused", TEXT);
    let told = c
        .cvc(&["trace", &log("corrupt-dxt-mpiio-module.darshan")])
        .expect(0)
        .stdout;
    assert!(told.contains("missing: module DXT_MPIIO"), "{told}");
    assert!(told.contains("btio.full.out"), "{told}");
}

#[test]
fn thresholds_of_a_file_are_taken_and_unknown_ones_refused() {
    let c = campaign("unused", TEXT);
    let file = log("mpich-btioS-simple-np4.darshan");
    let limits = c.dir().join("limits.toml");
    fs::write(&limits, "small_bytes = 100\n").expect("a file");
    let told = c
        .cvc(&["trace", &file, "--thresholds", "limits.toml"])
        .expect(0)
        .stdout;
    assert!(!told.contains("T07") && told.contains("T42"), "{told}");
    fs::write(&limits, "small_byte = 100\n").expect("a file");
    let told = c
        .cvc(&["trace", &file, "--thresholds", "limits.toml"])
        .expect(2)
        .stderr;
    assert!(
        told.contains("small_byte") && told.contains("small_requests"),
        "{told}"
    );
}

#[test]
fn images_without_a_trace_of_them_are_told_and_other_files_refused() {
    let c = campaign("unused", TEXT);
    let file = log("mpich-btioS-full-np4.darshan");
    let empty = c.dir().join("no-images");
    fs::create_dir(&empty).expect("a directory");
    let told = c
        .cvc(&["trace", &file, "--images", "no-images"])
        .expect(6)
        .stderr;
    assert!(told.contains("there is no image"), "{told}");
}

#[test]
fn the_gallery_shows_the_page_that_is_written_today() {
    let c = campaign("unused", TEXT);
    let copied = c.dir().join("btio-simple.darshan");
    fs::copy(log("mpich-btioS-simple-np4.darshan"), copied).expect("a copy");
    c.cvc(&["trace", "btio-simple.darshan", "--html", "trace.html"])
        .expect(0);
    let kept = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../reports/gallery/trace/trace.html"
    );
    let [made, kept] = [c.dir().join("trace.html"), kept.into()]
        .map(|path| fs::read_to_string(path).expect("a page"));
    assert!(
        made == kept,
        "reports/gallery/trace/trace.html is not current: write it again with `cvc trace btio-simple.darshan --html`, of a copy of the log in \
         orchestrator/trace/tests/data/darshan"
    );
}
