//! Tests that every output option writes into an existing file, that a name selects the campaign of that name, and that every reader reports records
//! that have changed.

use crate::common::campaign;
use cvc_testkit::Campaign;
use nix::{
    sys::stat::{Mode, SFlag, makedev, mknod},
    unistd::mkfifo,
};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    path::Path,
};

const TEXT: &str = "[sites.here]\nkind = \"local\"\n[matrix]\nsite = \"here\"\napp = \"unused\"\nprocesses = 1\nmpi = \"mpich\"\n";

/// Records of two sites with three repeats each, for an import.
const TABLE: &str = "app,class,mapping,mpi,site,wall_s\nlu,A,1Nx2P,mpich,a,10\nlu,A,1Nx2P,mpich,a,11\nlu,A,1Nx2P,mpich,a,12\n\
                     lu,A,1Nx2P,mpich,b,20\nlu,A,1Nx2P,mpich,b,21\nlu,A,1Nx2P,mpich,b,22\n";

/// Returns a directory with a campaign `x`, two states for deltas, and a trace.
fn prepared() -> Campaign {
    let c = campaign("given", TEXT);
    c.put("x.csv", TABLE);
    c.cvc(&["import", "x.csv"]).expect(0);
    let log = "../trace/tests/data/darshan/mpich-btioS-full-np4.darshan";
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(log);
    fs::copy(from, c.dir().join("log.darshan")).expect("a log");
    for (state, content) in [("one", "a"), ("two", "b")] {
        fs::create_dir(c.dir().join(state)).expect("a directory");
        c.put(&format!("{state}/file"), &content.repeat(9000));
    }
    fs::create_dir(c.dir().join("out")).expect("a directory");
    c
}

/// Every option that writes a file: the arguments, which contain `T`, and the file that is written (for a directory, a file in it).
const FILES: [(&str, &str); 11] = [
    ("trace log.darshan --csv T", ""),
    ("trace log.darshan --perfetto T", ""),
    ("trace log.darshan --html T", ""),
    ("delta compare one two --csv T", ""),
    ("export x --artifact T --replace", ""),
    ("init T --yes --force --app npb-lu --mpi mpich", ""),
    ("report x --to out --format json", "out/report.json"),
    ("report x --to out --format html", "out/report.html"),
    ("report x --to out --format csv", "out/csv/records.csv"),
    ("compare x:a x:b --to out --format html", "out/report.html"),
    ("advise x --to out --format markdown", "out/report.md"),
];

/// `cvc` writes into whatever exists at the path of the output, and does not replace it.
#[test]
fn every_output_option_writes_into_what_is_there() {
    for (args, place) in FILES {
        let c = prepared();
        let place = if place.is_empty() {
            "out/target"
        } else {
            place
        };
        let args: Vec<&str> = args
            .split(' ')
            .map(|arg| if arg == "T" { place } else { arg })
            .collect();
        let at = c.dir().join(place);
        let parent = at.parent().expect("a directory");
        let remade = || {
            fs::remove_dir_all(c.dir().join("out")).expect("removed");
            fs::create_dir_all(parent).expect("a directory");
        };
        // the content that is written to a new file
        c.cvc(&args).expect(0);
        if !at.is_file() {
            panic!("{args:?} writes no {place}: {:?}", c.cvc(&["status", "x"]));
        }
        let is_long = |bytes: &[u8]| assert!(bytes.len() > 40, "{args:?}: {bytes:?}");
        is_long(&fs::read(&at).expect("a file"));

        remade();
        symlink(c.dir().join("linked"), &at).expect("a link");
        c.cvc(&args).expect(0);
        assert!(at.is_symlink(), "{args:?}");
        is_long(&fs::read(c.dir().join("linked")).expect("a file"));

        remade();
        mkfifo(&at, Mode::S_IRWXU).expect("a pipe");
        let pipe = at.clone();
        let reader = std::thread::spawn(move || fs::read(pipe).expect("bytes"));
        c.cvc(&args).expect(0);
        is_long(&reader.join().expect("a reader"));
        assert!(
            fs::metadata(&at).expect("there").file_type().is_fifo(),
            "{args:?}"
        );

        remade();
        // only root can make devices; this one equals /dev/null
        let made = mknod(&at, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 3));
        if made.is_ok() && fs::write(&at, "").is_ok() {
            c.cvc(&args).expect(0);
            let kind = fs::metadata(&at).expect("there").file_type();
            assert!(kind.is_char_device(), "{args:?}");
        }
    }
}

#[test]
fn a_descriptor_of_the_shell_and_standard_output_are_written_to() {
    let c = prepared();
    let cvc = c.command(&["trace", "log.darshan"]);
    let words: Vec<String> = std::iter::once(cvc.get_program())
        .chain(cvc.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let shell = |script: &str| {
        let script = script.replace("CVC", &words.join(" "));
        let done = std::process::Command::new("bash")
            .args(["-c", &script])
            .current_dir(c.dir())
            .output()
            .expect("bash");
        assert!(done.status.success(), "{script}: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    shell("CVC --csv >(wc -l > lines) > /dev/null; until [ -s lines ]; do sleep 0.01; done");
    let lines = fs::read_to_string(c.dir().join("lines")).expect("a file");
    assert_eq!(lines.trim(), "121");
    // all other output is in the same file
    shell("CVC --csv /dev/stdout > all; CVC > text");
    let read = |name: &str| fs::read_to_string(c.dir().join(name)).expect("a file");
    let all = read("all");
    assert!(
        all.lines().count() > 121 && all.contains(read("text").trim_end()),
        "{all}"
    );
}

#[test]
fn exports_follow_a_link_to_a_directory_and_leave_what_is_none() {
    let c = prepared();
    symlink("out", c.dir().join("link")).expect("a link");
    c.cvc(&["export", "x", "--csv", "link"]).expect(0);
    assert!(c.dir().join("link").is_symlink());
    assert!(c.dir().join("out/runs.csv").is_file());
    mkfifo(&c.dir().join("pipe"), Mode::S_IRWXU).expect("a pipe");
    for option in ["--csv", "--parquet", "--ro-crate"] {
        c.cvc(&["export", "x", option, "pipe", "--replace"])
            .expect(2);
    }
    let kind = fs::metadata(c.dir().join("pipe"))
        .expect("there")
        .file_type();
    assert!(kind.is_fifo());
}

#[test]
fn a_directory_hides_no_campaign_of_its_name_and_two_campaigns_are_asked_back() {
    let c = prepared();
    fs::rename(c.dir().join("campaigns"), c.dir().join("C")).expect("renamed");
    let export = |name: &str, to: &str| c.cvc(&["export", name, "--campaigns", "C", "--csv", to]);
    fs::create_dir(c.dir().join("x")).expect("a directory");
    export("x", "out/1").expect(0);
    // a path is not a name
    let refused = export("./x", "out/2").expect(7).stderr;
    assert!(refused.contains("./x is not a campaign"), "{refused}");
    fs::create_dir(c.dir().join("none")).expect("a directory");
    let refused = export("none", "out/2").expect(7).stderr;
    assert!(
        refused.contains("neither the directory none nor C/none is a campaign"),
        "{refused}"
    );
    fs::remove_dir(c.dir().join("x")).expect("removed");
    let copied = std::process::Command::new("cp")
        .args(["-r", "C/x", "x"])
        .current_dir(c.dir())
        .status();
    assert!(copied.expect("cp").success());
    for args in [
        &["export", "x", "--csv", "out/2"][..],
        &["status", "x"],
        &["report", "x"],
        &["compare", "x"],
        &["advise", "x"],
        &["predict", "--from", "x", "--at", "npb-lu.A 2 mpich"],
        &["fsck", "x"],
        &["explain", "x", "mpi=mpich"],
    ] {
        let refused = c
            .cvc(&[args, &["--campaigns", "C"]].concat())
            .expect(2)
            .stderr;
        assert!(
            refused.contains("x is ambiguous: ./x and C/x are campaigns")
                && refused.contains("write ./x or C/x"),
            "{args:?}: {refused}"
        );
    }
    for (name, to) in [("./x", "out/3"), ("C/x", "out/4")] {
        export(name, to).expect(0);
    }
}

#[test]
fn records_that_are_missing_or_changed_are_reported_by_every_reader() {
    let c = prepared();
    let runs = c.dir().join("campaigns/x/runs");
    let mut names: Vec<_> = fs::read_dir(&runs)
        .expect("runs")
        .flatten()
        .map(|entry| entry.path().join("records.jsonl"))
        .collect();
    names.sort();
    fs::remove_file(&names[0]).expect("removed");
    fs::write(&names[1], "{").expect("damaged");
    let text = fs::read_to_string(&names[2]).expect("records");
    fs::write(&names[2], text.replace("\"value\":", "\"value\":9")).expect("changed");
    for args in [
        &["compare", "x"][..],
        &["compare", "x", "--json"],
        &["advise", "x"],
        &["status", "x"],
        &["status", "x", "--json"],
        &["export", "x", "--csv", "out/1"],
        &["export", "x", "--artifact", "out/a.zip", "--damaged"],
    ] {
        let told = c.cvc(args).expect(0);
        for part in [
            "records of 3 runs are not as they were written: 1 missing (",
            "; 1 damaged (",
            "; 1 changed (",
        ] {
            assert!(told.stderr.contains(part), "{args:?}: {}", told.stderr);
        }
    }
    let json = c.cvc(&["status", "x", "--json"]).expect(0).stdout;
    assert!(json.contains("\"records\": \"damaged\""), "{json}");
    let csv = fs::read_to_string(c.dir().join("out/1/runs.csv")).expect("a table");
    for state in [",missing\r\n", ",damaged\r\n", ",changed\r\n", ",ok\r\n"] {
        assert!(csv.contains(state), "{csv}");
    }
    let refused = c
        .cvc(&["export", "x", "--artifact", "out/b.zip"])
        .expect(7)
        .stderr;
    assert!(
        refused.contains("--damaged") && !c.dir().join("out/b.zip").exists(),
        "{refused}"
    );
    // an undamaged campaign gives no warning
    let c = prepared();
    let told = c.cvc(&["export", "x", "--artifact", "out/a.zip"]).expect(0);
    assert_eq!(told.stderr, "");
    assert_eq!(c.cvc(&["status", "x"]).expect(0).stderr, "");
}
