//! Tests of `cvc delta` and `cvc image diff`: restored states are identical, and wrong arguments are refused.

use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PAGE: u64 = 4096;
/// Pages of both ranks that differ between consecutive states of the fixtures: the moving front, the pages that it has left, the stack.
const STEP: u64 = 2 * (20 + 10 + 2);
/// Pages of both ranks by which the heaps grow after the first state.
const GROWN: u64 = 2 * 3;

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn cvc(args: &[&str]) -> Ended {
    let ended = Command::new(env!("CARGO_BIN_EXE_cvc"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("cvc");
    let utf8 = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ended {
        code: ended.status.code(),
        stdout: utf8(ended.stdout),
        stderr: utf8(ended.stderr),
    }
}

#[track_caller]
fn done(args: &[&str]) -> String {
    let ended = cvc(args);
    assert_eq!(
        ended.code,
        Some(0),
        "{args:?}: {}{}",
        ended.stdout,
        ended.stderr
    );
    ended.stdout
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&done(args)).expect("JSON")
}

/// Checks that a command fails with this exit code, and prints one error on one line with at most a hint below.
#[track_caller]
fn refused(args: &[&str], code: i32, said: &str) -> Ended {
    let ended = cvc(args);
    let all = format!("{args:?}: {}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(code), "{all}");
    assert!(ended.stderr.contains(said), "expected `{said}`: {all}");
    assert_eq!(ended.stderr.matches("error: ").count(), 1, "{all}");
    assert!(!ended.stderr.contains("panicked"), "{all}");
    ended
}

fn gzipped(state: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../delta/tests/fixtures/relax")
        .join(state.to_string())
}

/// Returns the contents of all files below a directory, by name.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            for (inner, bytes) in files(&path) {
                found.insert(format!("{name}/{inner}"), bytes);
            }
        } else {
            found.insert(name, fs::read(&path).expect("reads"));
        }
    }
    found
}

/// Copies a state of the fixtures, uncompressed, with the other files that DMTCP writes next to an image.
fn state(dir: &Path, number: u32) -> PathBuf {
    let to = dir.join(number.to_string());
    fs::create_dir(&to).expect("makes");
    for name in files(&gzipped(number)).keys() {
        let inflated = Command::new("gzip")
            .arg("-dc")
            .stdin(fs::File::open(gzipped(number).join(name)).expect("opens"))
            .output()
            .expect("gzip");
        fs::write(to.join(name), inflated.stdout).expect("writes");
    }
    let beside = to.join("ckpt_relax_98ff-41000-2f1307f1a2b_files");
    fs::create_dir(&beside).expect("makes");
    fs::write(
        beside.join("fd-info.txt"),
        format!("of checkpoint {number}\n"),
    )
    .expect("writes");
    to
}

struct Fixture {
    dir: tempfile::TempDir,
    states: Vec<PathBuf>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let states = (1..=4).map(|n| state(dir.path(), n)).collect();
        Self { dir, states }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `cvc delta make` with these states, which are numbered from 1.
    #[track_caller]
    fn make(&self, name: &str, states: &[usize], options: &[&str]) -> PathBuf {
        let series = self.path(name);
        let mut args = vec!["delta", "make", text(&series)];
        args.extend(states.iter().map(|n| text(&self.states[n - 1])));
        args.extend(options);
        done(&args);
        series
    }
}

#[test]
fn states_of_a_series_come_back_identical() {
    let f = Fixture::new();
    let ways: [&[&str]; 6] = [
        &[],
        &["--method", "full", "--codec", "lz4"],
        &[
            "--method",
            "incremental",
            "--codec",
            "gzip",
            "--packet",
            "stream",
        ],
        &[
            "--method",
            "differential",
            "--by",
            "index",
            "--codec",
            "none",
            "--block",
            "16KiB",
        ],
        &[
            "--method",
            "adca",
            "--threshold",
            "64KiB",
            "--transform",
            "xor",
        ],
        &[
            "--method",
            "bounded",
            "--files",
            "2",
            "--threshold",
            "0.5",
            "--transform",
            "shuffle",
            "--packet",
            "7",
        ],
    ];
    for (n, options) in ways.into_iter().enumerate() {
        let series = f.make(&format!("series-{n}"), &[1, 2], options);
        // a file as left by a program that was killed while writing
        fs::write(series.join(".cvc-new-killed"), "half").expect("writes");
        f.make(&format!("series-{n}"), &[3], &[]);
        f.make(&format!("series-{n}"), &[4], options);
        assert!(!series.join(".cvc-new-killed").exists(), "it is swept");
        for state in 1..=4_usize {
            let (number, back) = (state.to_string(), f.path(&format!("back-{n}-{state}")));
            done(&["delta", "restore", text(&series), &number, text(&back)]);
            assert!(
                files(&back) == files(&f.states[state - 1]),
                "{options:?}: {state}"
            );
            let there = text(&f.states[state - 1]);
            let verified = done(&[
                "delta",
                "verify",
                text(&series),
                &number,
                "--against",
                there,
            ]);
            assert!(verified.contains("the same bytes as"), "{verified}");
        }
        let shown = done(&["delta", "show", text(&series)]);
        assert!(shown.starts_with("4 states of 13 MiB in "), "{shown}");
        let all = done(&["delta", "verify", text(&series)]);
        assert_eq!(all.matches(": whole, ").count(), 4, "{all}");
    }
}

#[test]
fn a_series_is_shown_with_what_each_state_stores() {
    let f = Fixture::new();
    let series = f.make("series", &[1, 2, 3, 4], &["--threshold", "1.5"]);
    let shown = json(&["delta", "show", text(&series), "--json"]);
    assert_eq!(shown["options"]["method"], "adca");
    assert_eq!(shown["options"]["threshold_ratio"], 1.5);
    let of = |key: &str| -> Vec<Value> {
        let states = shown["states"].as_array().expect("states");
        states.iter().map(|s| s[key].clone()).collect()
    };
    assert_eq!(of("state"), [1, 2, 3, 4]);
    assert_eq!(of("base"), [Value::Null, 1.into(), 1.into(), 1.into()]);
    // each rank has 35 changed pages since the base, and 10 more after each step; 32 changed since the previous state: the ratio 55/32 is above 1.5,
    // 45/32 is not
    assert_eq!(of("becomes_base"), [true, false, false, true]);
    assert_eq!(of("files_to_restore"), [1, 2, 2, 2]);
    let beside = u64::try_from("of checkpoint 2\n".len()).expect("a number");
    let changed = |pages: u64| Value::from(pages * PAGE + beside);
    assert_eq!(
        of("changed_bytes")[1..],
        [
            changed(STEP + GROWN),
            changed(STEP + GROWN + 20),
            changed(STEP + GROWN + 40)
        ]
    );
    let (stored, content) = (
        shown["stored_bytes"].as_u64(),
        shown["content_bytes"].as_u64(),
    );
    assert!(
        stored.expect("bytes") * 100 < content.expect("bytes"),
        "{shown}"
    );
    let file = json(&["delta", "show", text(&series.join("0002.state")), "--json"]);
    assert_eq!(
        (file["state"].as_u64(), file["base"].as_u64()),
        (Some(2), Some(1))
    );
    assert_eq!(file["files"].as_array().map(Vec::len), Some(3));
    let pruned = done(&["delta", "prune", text(&series), "--keep", "1"]);
    assert!(pruned.starts_with("2 states removed"), "{pruned}");
    assert!(pruned.trim_end().ends_with("2, 3; left: 1, 4"), "{pruned}");
    done(&["delta", "verify", text(&series), "4"]);
}

#[test]
fn methods_are_compared_on_what_differs() {
    let f = Fixture::new();
    let mut args = vec!["delta", "compare"];
    args.extend(f.states.iter().map(|s| text(s)));
    let shown = done(&args);
    assert!(
        shown.starts_with(
            "The smallest volume is stored by incremental, by address in blocks of 4.0 KiB: "
        ),
        "{shown}"
    );
    let (csv, pack) = (
        f.path("pairs.csv"),
        ["--json", "--pack=differential", "--csv"],
    );
    args.extend(pack);
    args.push(text(&csv));
    let compared = json(&args);
    let beside = u64::try_from("of checkpoint 2\n".len()).expect("a number");
    let last = |method: &str, by: &str| {
        let methods = compared["methods"].as_array().expect("methods");
        let found = methods
            .iter()
            .find(|m| m["method"] == method && m["by"] == by);
        let found = found.expect("the method");
        (
            found["last_bytes"].as_u64().expect("bytes"),
            found["most_files_to_restore"].clone(),
        )
    };
    assert_eq!(
        last("incremental", "address"),
        (STEP * PAGE + beside, 4.into())
    );
    assert_eq!(
        last("differential", "address"),
        ((STEP + GROWN + 40) * PAGE + beside, 2.into())
    );
    // all content after the heap has another offset in the file
    assert!(last("differential", "index").0 > 5 * last("differential", "address").0);
    let packed = compared["packed"].as_array().expect("codecs");
    assert_eq!(packed.len(), 4);
    let size = |n: usize| packed[n]["total_bytes"].as_u64().expect("bytes");
    assert!((1..4).all(|n| size(n) < size(0)), "{packed:?}");
    let lines = fs::read_to_string(&csv).expect("a table");
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        (lines[0], lines.len()),
        ("from,to,distance_s,changed_bytes,bytes", 7)
    );
    let changed = (STEP + GROWN) * PAGE + beside;
    assert!(
        lines[1].starts_with("1,2,") && lines[1].contains(&format!(",{changed},")),
        "{lines:?}"
    );
}

#[test]
fn what_differs_is_told_by_part() {
    let (old, new) = (gzipped(1), gzipped(2));
    let found = json(&["image", "diff", text(&old), text(&new), "--json"]);
    let part = |name: &str, key: &str| -> u64 {
        let parts = found["parts"].as_array().expect("parts");
        let found = parts.iter().find(|p| p["part"] == name).expect("the part");
        found[key].as_u64().expect("bytes") / PAGE
    };
    assert_eq!(part("allocated", "changed_bytes"), 2 * 30);
    assert_eq!(part("heap", "new_bytes"), GROWN);
    assert_eq!(part("stacks", "changed_bytes"), 2 * 2);
    assert_eq!(
        part("files", "changed_bytes") + part("static", "changed_bytes"),
        0
    );
    assert_eq!(found["total"]["gone_bytes"], 0);
    let shown = done(&["image", "diff", text(&new), text(&new)]);
    assert!(shown.starts_with("No difference in "), "{shown}");
    refused(
        &["image", "diff", text(&old), "/nowhere"],
        6,
        "/nowhere: cannot read",
    );
    refused(&["image"], 2, "required");
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_is_written() {
    let f = Fixture::new();
    let series = f.path("series");
    let wrong: [(&[&str], &str); 12] = [
        (
            &["--block", "0"],
            "a block of 0 bytes: expected a power of two from 4 KiB to 1 MiB",
        ),
        (&["--block", "5000"], "a block of 5000 bytes"),
        (&["--block", "2MiB"], "a block of 2097152 bytes"),
        (&["--threshold", "-1"], "write a ratio of 0 or more"),
        (&["--threshold", "NaN"], "write a ratio of 0 or more"),
        (&["--threshold", "-64MiB"], "write a ratio of 0 or more"),
        (&["--packet", "0"], "a number of blocks above 0"),
        (&["--method", "bounded", "--files", "1"], "1 is not in 2.."),
        (&["--method", "best"], "invalid value 'best'"),
        (&["--codec", "xz"], "invalid value 'xz'"),
        (
            &["--files", "3"],
            "--files is an option of bounded, but the method is adca",
        ),
        (
            &["--method", "full", "--threshold", "2"],
            "--threshold is an option of adca and bounded",
        ),
    ];
    for (options, said) in wrong {
        let mut args = vec!["delta", "make", text(&series), text(&f.states[0])];
        args.extend(options);
        refused(&args, 2, said);
        assert!(!series.exists(), "{options:?}");
    }
    f.make("series", &[1], &["--codec", "gzip"]);
    let before = files(&series);
    let args = [
        "delta",
        "make",
        text(&series),
        text(&f.states[1]),
        "--codec",
        "zstd",
    ];
    let ended = refused(
        &args,
        2,
        "this series was created with codec gzip (asked: zstd)",
    );
    assert!(
        ended.stderr.contains("hint: leave these options out"),
        "{}",
        ended.stderr
    );
    assert!(files(&series) == before);
}

/// Changes the images of a state so that they belong to another process, with another number.
fn of_another_run(state: &Path) {
    for entry in fs::read_dir(state).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let mut bytes = fs::read(&path).expect("reads");
            for copy in [0, 4096] {
                bytes[copy + 48..copy + 52].copy_from_slice(&77_000_i32.to_le_bytes());
            }
            fs::write(&path, bytes).expect("writes");
        }
    }
}

#[test]
fn states_that_are_none_leave_a_series_as_it_was() {
    let f = Fixture::new();
    let series = f.make("series", &[1], &[]);
    let before = files(&series);
    let image = "ckpt_relax_98ff-41000-2f1307f1a2b.dmtcp";
    let copy = |name: &str| {
        fs::create_dir(f.path(name)).expect("makes");
        state(&f.path(name), 2)
    };
    let other = copy("other");
    of_another_run(&other);
    let temporary = copy("temporary");
    fs::write(temporary.join("ckpt_x.dmtcp.temp"), "half").expect("writes");
    let truncated = copy("truncated");
    let bytes = fs::read(truncated.join(image)).expect("reads");
    fs::write(truncated.join(image), &bytes[..bytes.len() / 2]).expect("writes");
    let no_image = copy("no-image");
    fs::write(no_image.join(image), "text").expect("writes");
    let empty = f.path("empty");
    fs::create_dir(&empty).expect("makes");
    for (path, code, said, hint) in [
        (
            &other,
            2,
            "the image of another run: its process is 98ff-77000-0",
            "begin a new series",
        ),
        (
            &temporary,
            6,
            "ckpt_x.dmtcp.temp: a temporary file of DMTCP",
            "that DMTCP has finished",
        ),
        (&truncated, 6, "the image is truncated", "copy it again"),
        (&no_image, 6, image, "hint: "),
        (&empty, 2, "no file in it", "the images of a checkpoint"),
        (&f.path("nowhere"), 6, "nowhere: cannot read", ""),
    ] {
        let ended = refused(&["delta", "make", text(&series), text(path)], code, said);
        assert!(ended.stderr.contains(hint), "{}", ended.stderr);
        assert!(files(&series) == before, "{}", path.display());
        // the failed command creates no series either
        if code != 2 || path == &empty {
            let new = f.path("new");
            refused(&["delta", "make", text(&new), text(path)], code, said);
            assert!(!new.exists(), "{}", path.display());
        }
    }
    assert!(ended_path_once(
        &cvc(&["delta", "make", text(&series), text(&truncated)]),
        &truncated
    ));
}

/// Returns whether the output names the path exactly once.
fn ended_path_once(ended: &Ended, path: &Path) -> bool {
    ended.stderr.matches(text(path)).count() == 1
}

#[test]
fn damage_is_found_where_it_is_and_the_rest_stays_restorable() {
    let f = Fixture::new();
    let options = ["--method", "incremental", "--packet", "10"];
    let series = f.make("series", &[1, 2, 3, 4], &options);
    let third = series.join("0003.state");
    let whole = fs::read(&third).expect("reads");
    let mut bytes = whole.clone();
    // the first packet begins after 8 bytes of header
    bytes[20] ^= 1;
    fs::write(&third, &bytes).expect("writes");
    let ended = refused(
        &["delta", "verify", text(&series)],
        6,
        "1 of 4 states cannot be restored",
    );
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let damaged = lines[2];
    assert!(
        damaged.starts_with("state 3: ") && damaged.contains("0003.state: damaged: packet 1 of 7"),
        "{damaged}"
    );
    // the front, which was in these blocks, has moved on in state 4
    for line in [lines[0], lines[1], lines[3]] {
        assert!(line.contains(": whole, "), "{line}");
    }
    let back = f.path("back");
    let restore = |state: &str| {
        vec![
            "delta".to_owned(),
            "restore".into(),
            text(&series).into(),
            state.into(),
            text(&back).into(),
        ]
    };
    let call = |state: &str, code, said: &str| {
        let args = restore(state);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refused(&args, code, said);
        let left: Vec<String> = files(f.dir.path())
            .into_keys()
            .filter(|n| n.contains(".cvc-new-"))
            .collect();
        assert!(!back.exists() && left.is_empty(), "{left:?}");
    };
    call("3", 6, "damaged: packet 1 of ");
    call("9", 2, "no state 9: the series has 1, 2, 3, 4");
    done(&[
        "delta",
        "restore",
        text(&series),
        "2",
        text(&f.path("second")),
    ]);
    assert!(files(&f.path("second")) == files(&f.states[1]));
    // a file of a state that has another base
    let other = f.make("other", &[1, 2, 4], &options);
    fs::copy(other.join("0003.state"), &third).expect("copies");
    call("4", 6, "0003.state: not the base of");
    fs::remove_file(&third).expect("removes");
    call("4", 6, "0003.state: missing: state 4 needs it");
    done(&["delta", "verify", text(&series), "2"]);
    fs::write(&third, &whole).expect("writes");
    fs::create_dir(&back).expect("makes");
    let args = restore("3");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    refused(&args, 2, "back: exists");
    assert!(files(&back).is_empty());
    done(&["delta", "verify", text(&series)]);
    // a directory that is not a series, and a comparison with another state
    refused(
        &["delta", "show", text(&back)],
        6,
        "it has no manifest.json",
    );
    refused(
        &[
            "delta",
            "show",
            text(&f.states[0].join("ckpt_relax_98ff-41000-2f1307f1a2b.dmtcp")),
        ],
        6,
        "not a file of cvc delta",
    );
    let against = text(&f.states[0]);
    refused(
        &["delta", "verify", text(&series), "2", "--against", against],
        13,
        "its bytes differ",
    );
    refused(
        &["delta", "verify", text(&series), "--against", against],
        2,
        "--against is one state",
    );
    refused(
        &["delta", "prune", text(&series), "--keep", "0"],
        2,
        "0 is not in 1..",
    );
}

/// A small tmpfs; unmounted at the end, even if the test fails.
struct Tmpfs(PathBuf);

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_full_in_the_middle_leaves_nothing_half_written() {
    require!(Tool::Tmpfs);
    let f = Fixture::new();
    let series = f.make("series", &[1, 2], &[]);
    let place = f.path("small");
    fs::create_dir(&place).expect("makes");
    // one image fits, two do not; packets that both images share are written to both at the same time
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "cvc-test"])
        .arg(&place)
        .status();
    assert!(mounted.is_ok_and(|s| s.success()), "mount");
    let _tmpfs = Tmpfs(place.clone());
    let to = place.join("back");
    let ended = refused(
        &["delta", "restore", text(&series), "2", text(&to)],
        7,
        ".dmtcp: cannot write: No space left on device",
    );
    assert!(
        ended.stderr.contains("hint: make room, and try again"),
        "{}",
        ended.stderr
    );
    assert_eq!(fs::read_dir(&place).expect("a directory").count(), 0);
    // the series contains no incomplete state either
    let small = place.join("series");
    let args = ["--codec", "none"];
    let make = |state: usize| {
        let mut all = vec!["delta", "make", text(&small), text(&f.states[state - 1])];
        all.extend(args);
        cvc(&all)
    };
    assert_eq!(make(1).code, Some(7));
    assert_eq!(fs::read_dir(&place).expect("a directory").count(), 0);
}

/// Returns the unmodified output, which is binary.
#[track_caller]
fn bytes_of(args: &[&str]) -> Vec<u8> {
    let ended = Command::new(env!("CARGO_BIN_EXE_cvc"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("cvc");
    assert!(ended.status.success(), "{args:?}: {ended:?}");
    ended.stdout
}

#[test]
fn a_stretch_of_a_file_of_a_state_is_written_as_it_is() {
    let f = Fixture::new();
    let options = ["--method", "incremental", "--packet", "4"];
    let series = f.make("series", &[1, 2, 3], &options);
    let name = "ckpt_relax_98ff-42000-2f1307f1a2b.dmtcp";
    let image = fs::read(f.states[2].join(name)).expect("reads");
    let cat = |options: &[&str]| {
        let mut args = vec!["delta", "cat", text(&series), "3", name];
        args.extend(options);
        bytes_of(&args)
    };
    assert!(cat(&[]) == image);
    assert!(cat(&["--from", "1KiB", "--length", "1MiB"]) == image[1024..1024 + (1 << 20)]);
    let end = (image.len() - 10).to_string();
    assert!(cat(&["--from", &end]) == image[image.len() - 10..]);
    assert!(cat(&["--from", "1GiB"]).is_empty());
    let beside = "ckpt_relax_98ff-41000-2f1307f1a2b_files/fd-info.txt";
    let args = ["delta", "cat", text(&series), "2", beside];
    assert_eq!(bytes_of(&args), b"of checkpoint 2\n");
    for (state, file, code, said) in [
        ("9", name, 2, "no state 9"),
        (
            "3",
            "ckpt.dmtcp",
            2,
            "no file `ckpt.dmtcp` in this state: it has ckpt_relax",
        ),
    ] {
        refused(&["delta", "cat", text(&series), state, file], code, said);
    }
    // only needed packets are read: the packets of the other image are all in the first state
    let third = series.join("0003.state");
    let mut bytes = fs::read(&third).expect("reads");
    bytes[20] ^= 1;
    fs::write(&third, bytes).expect("writes");
    assert!(cat(&[]) == image);
    let other = "ckpt_relax_98ff-41000-2f1307f1a2b.dmtcp";
    refused(
        &["delta", "cat", text(&series), "3", other],
        6,
        "damaged: packet 1 of",
    );
}

#[test]
fn hashes_that_are_missing_or_damaged_are_told_and_made_again() {
    let f = Fixture::new();
    let series = f.make("series", &[1, 2], &["--method", "incremental"]);
    let hashes = series.join("0002.sign");
    let good = fs::read(&hashes).expect("reads");
    let mut flipped = good.clone();
    flipped[200] ^= 1;
    fs::write(&hashes, &flipped).expect("writes");
    let told = done(&["delta", "verify", text(&series)]).replace('\n', " ");
    assert!(told.contains("state 2: whole"), "{told}");
    assert!(
        told.contains("hashes were rebuilt from the stored data"),
        "{told}"
    );
    assert!(told.contains("damaged"), "{told}");
    assert!(fs::read(&hashes).expect("reads") == good);
    let found = json(&["delta", "verify", text(&series), "--json"]);
    assert_eq!(found["states"][0]["hashes"], "unneeded");
    assert_eq!(found["states"][1]["hashes"], "whole");
    assert_eq!(found["states"][1]["whole"], true);
    fs::remove_file(&hashes).expect("removes");
    let ended = cvc(&["delta", "make", text(&series), text(&f.states[2])]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("rebuilt the hashes of state 2 from its stored data"),
        "{}",
        ended.stderr
    );
    done(&[
        "delta",
        "verify",
        text(&series),
        "3",
        "--against",
        text(&f.states[2]),
    ]);
    // a state that cannot be restored appears in the JSON, and in the exit code
    let third = series.join("0003.state");
    let mut bytes = fs::read(&third).expect("reads");
    bytes[20] ^= 1;
    fs::write(&third, bytes).expect("writes");
    let ended = cvc(&["delta", "verify", text(&series), "--json"]);
    assert_eq!(ended.code, Some(6));
    let found: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(found["states"][2]["whole"], false);
    let error = found["states"][2]["error"].as_str().expect("text");
    assert!(error.contains("damaged: packet 1 of"), "{error}");
}

#[test]
fn what_moved_is_shown_beside_what_is_stored() {
    let f = Fixture::new();
    // DMTCP stores shared memory with another name in each checkpoint
    let content: Vec<u8> = (0..40_960_u32)
        .flat_map(|n| (n / 3).to_le_bytes())
        .collect();
    for (state, name) in [(0, "SYSV-1"), (1, "SYSV-2")] {
        let beside = f.states[state].join("ckpt_relax_98ff-41000-2f1307f1a2b_files");
        fs::write(beside.join(name), &content).expect("writes");
    }
    let series = f.make("series", &[1, 2], &["--method", "incremental"]);
    let shown = json(&["delta", "show", text(&series), "--json"]);
    let state = &shown["states"][1];
    let number = |key: &str| state[key].as_u64().expect("a number");
    assert_eq!(number("moved_bytes"), content.len() as u64);
    // the front, the pages that it has left, stacks, heaps, and the short file next to the images; but not moved blocks
    let beside = b"of checkpoint 2\n".len() as u64;
    assert_eq!(number("new_bytes"), (STEP + GROWN) * PAGE + beside);
    assert_eq!(
        number("changed_bytes"),
        number("new_bytes") + number("moved_bytes")
    );
    let table = done(&["delta", "show", text(&series)]);
    assert!(
        table.contains("changed") && table.contains("new"),
        "{table}"
    );
    let file = done(&["delta", "show", text(&series.join("0002.state"))]).replace('\n', " ");
    assert!(file.contains("moved from another place"), "{file}");
}

#[test]
fn the_json_is_what_its_schema_says() {
    let schema = json(&["schema", "delta"]);
    let f = Fixture::new();
    let options = ["--method", "bounded", "--threshold", "inf"];
    let series = f.make("series", &[1, 2], &options);
    let made = done(&["delta", "make", text(&series), text(&f.states[2]), "--json"]);
    let third = series.join("0003.state");
    let (one, two) = (text(&f.states[0]), text(&f.states[1]));
    let printed = [
        ("state", made),
        ("series", done(&["delta", "show", text(&series), "--json"])),
        ("file", done(&["delta", "show", text(&third), "--json"])),
        (
            "verification",
            done(&["delta", "verify", text(&series), "--json"]),
        ),
        (
            "comparison",
            done(&["delta", "compare", one, two, "--pack", "--json"]),
        ),
    ];
    for (kind, printed) in printed {
        let printed: Value = serde_json::from_str(&printed).expect("JSON");
        let mut found = Vec::new();
        let of_kind = &schema["$defs"][kind];
        crate::predict::violations(of_kind, &schema, &printed, kind, &mut found);
        assert!(found.is_empty(), "{found:#?}");
        crate::predict::violations(&schema, &schema, &printed, kind, &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }
}
