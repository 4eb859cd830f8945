//! Tests of wrong input: sixty inputs that cvc refuses with what is wrong, where, and how to correct it, all in one format.

use crate::common::{SITE, campaign};
use cvc_testkit::Campaign;
use std::{fs, os::unix::fs::symlink};

/// A valid campaign file.
const GOOD: &str =
    "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 4\nmpi = \"mpich\"\n";

/// Campaign files with one error: the part of the valid file that is replaced, the replacement, and what the message must contain.
const FILES: [(&str, &str, &str); 36] = [
    ("processes = 4", "proceses = 4", "processes"),
    ("processes = 4", "processes = -4", "-4"),
    ("processes = 4", "processes = \"four\"", "a whole number"),
    (
        "processes = 4",
        "processes = 9223372036854775808",
        "the number 9223372036854775808 is",
    ),
    (
        "mpi = \"mpich\"",
        "mpi = \"mpich\"\n[run]\nrepeats = 99999999999999999999",
        // lines are wrapped, depending on the length of the path
        "with at most 18 digits",
    ),
    ("processes = 4", "processes = 0", "0"),
    ("processes = 4", "processes = 4.5", "fractional"),
    ("processes = 4", "processes = []", "empty"),
    ("processes = 4", "processes = [4, 4]", "twice"),
    ("processes = 4", "processes = 4\nprocesses = 9", "twice"),
    ("processes = 4", "mapping = \"2x4\"", "2x4"),
    ("processes = 4", "mapping = 4", "1Nx4P"),
    ("processes = 4", "", "processes"),
    (
        "processes = 4",
        "processes = 4\naggregators = \"two\"",
        "aggregators",
    ),
    (
        "processes = 4",
        "processes = 4\ncb_buffer = \"4GiB\"",
        "4GiB",
    ),
    (
        "processes = 4",
        "processes = 4\ncheckpointer = \"dmtpc\"",
        "did you mean `dmtcp`",
    ),
    (
        "processes = 4",
        "processes = 4\ncompression = \"zstd\"",
        "zstd",
    ),
    (
        "processes = 4",
        "processes = 4\nmoment = \"sizeonly\"",
        "size-only",
    ),
    (
        "processes = 4",
        "processes = 4\nrestart_check = 1",
        "true or false",
    ),
    (
        "processes = 4",
        "processes = 4\ntracer = \"darschan\"",
        "did you mean `darshan`",
    ),
    (
        "app = \"kernel-stencil\"",
        "app = \"kernel-stencli\"",
        "did you mean `kernel-stencil`",
    ),
    ("app = \"kernel-stencil\"", "app = \"\"", "app"),
    ("app = \"kernel-stencil\"", "app = kernel-stencil", "quote"),
    (
        "app = \"kernel-stencil\"",
        "app = \u{201c}kernel-stencil\u{201d}",
        "quote",
    ),
    ("class = \"S\"", "class = \"Z\"", "Z"),
    ("class = \"S\"", "", "class"),
    ("mpi = \"mpich\"", "mpi = \"mvapich\"", "mvapich"),
    ("[matrix]", "[matrix", "]"),
    ("[matrix]", "[matrx]", "did you mean `matrix`"),
    ("[matrix]", "[run]\nrepeats = 0\n[matrix]", "repeats"),
    ("[matrix]", "[run]\ntimeout_s = -1\n[matrix]", "timeout_s"),
    ("[matrix]", "[run]\nretries = \"many\"\n[matrix]", "retries"),
    (
        "[matrix]",
        "[checkpoint]\nmoment = { at_s = 5, after_step = 3 }\n[matrix]",
        "at_s",
    ),
    (
        "[matrix]",
        "[checkpoint]\nmoment = { at_s = [5, 2] }\n[matrix]",
        "2",
    ),
    ("[matrix]", "[report]\nformats = [\"pdf\"]\n[matrix]", "pdf"),
    (
        "[matrix]",
        "[[exclude]]\nwhen = { app = \"x\" }\nreason = \"\"\n[matrix]",
        "reason",
    ),
];

/// Command lines with an error, next to a valid `campaign.toml`, and what the message must contain.
const COMMANDS: [(&str, &[&str], &str); 35] = [
    ("plan", &["no-such.toml"], "no-such.toml"),
    ("plan", &["."], "several campaign files in this directory"),
    ("plan", &["empty.toml"], "empty.toml"),
    ("plan", &["binary.toml"], "binary.toml"),
    (
        "plan",
        &["campaign.toml", "--variant", "shorter"],
        "shorter",
    ),
    ("plan", &["campaign.toml", "--only", "processes=8"], "8"),
    (
        "init",
        &[
            "no-such/x.toml",
            "--yes",
            "--measure",
            "sizes",
            "--app",
            "kernel-stencil",
        ],
        "no-such does not exist",
    ),
    ("run", &["campaign.toml", "--repeat", "3"], "--repeat"),
    ("run", &["campaign.toml", "--for", "2"], "2h"),
    (
        "run",
        &["campaign.toml", "--campaigns", "empty.toml"],
        "empty.toml",
    ),
    ("rum", &["campaign.toml"], "run"),
    ("status", &["no-such"], "no-such"),
    ("status", &["empty.toml"], "empty.toml"),
    ("report", &["no-such"], "no-such"),
    ("report", &["campaign.toml", "--format", "pdf"], "pdf"),
    ("fsck", &["no-such"], "no-such"),
    ("down", &["no-such"], "no-such"),
    ("doctor", &["no-such.toml"], "no-such.toml"),
    ("image", &["no-such.dmtcp"], "no-such.dmtcp"),
    ("image", &["text.dmtcp"], "text.dmtcp"),
    ("image", &["/dev/null"], "/dev/null"),
    ("image", &["loop.dmtcp"], "loop.dmtcp"),
    ("predict", &["--at", "npb-bt.Q 4 mpich-ch3"], "Q"),
    ("predict", &["--at", "npb-bt.A four mpich-ch3"], "four"),
    (
        "predict",
        &["--at", "npb-bt.A 4 mpich-ch3", "--mtbf", "24"],
        "24h",
    ),
    (
        "predict",
        &["--at", "npb-bt.A 4 mpich-ch3", "--overhead", "30"],
        "30%",
    ),
    (
        "predict",
        &["--from", "bad.csv", "--at", "npb-bt.A 4 mpich-ch3"],
        "bad.csv",
    ),
    (
        "advise",
        &["wrong", "--times", "-3"],
        "'--times <N>': write a number above 0",
    ),
    ("advise", &["wrong", "wrong"], "wrong is given twice"),
    (
        "init",
        &["--app", "kernel-stencil", "--processes", "1-4"],
        "write whole numbers from 1 to 100000, as in 1,2,4",
    ),
    (
        "jobs",
        &["jobs.txt", "--csv", ""],
        "--csv needs a file or directory name",
    ),
    (
        "trace",
        &["text.dmtcp", "--thresholds", ""],
        "--thresholds needs a file or directory name",
    ),
    (
        "run",
        &["campaign.toml", "--junit", "absent/runs.xml"],
        "--junit: cannot write absent/runs.xml",
    ),
    (
        "run",
        &["campaign.toml", "--summary", "."],
        "--summary: cannot write .",
    ),
    ("reproduce", &["theses"], "thesis"),
];

/// Returns what is wrong with the format of a message; `None` if it is right.
fn flaw(stderr: &str, named: &str) -> Option<&'static str> {
    let first = stderr.lines().next().unwrap_or_default();
    if !first.starts_with("error: ") {
        return Some("does not begin with `error: `");
    }
    if stderr.contains("panicked") || stderr.contains("internal error") {
        return Some("is a panic");
    }
    if ["help: ", "tip: ", "  × "]
        .iter()
        .any(|word| stderr.contains(word))
    {
        return Some("has another word for a hint");
    }
    (!stderr.contains(named)).then_some("does not name what is wrong")
}

fn directory() -> Campaign {
    let c = campaign("wrong", &format!("{SITE}{GOOD}"));
    c.put("empty.toml", "");
    c.put("text.dmtcp", "this is no image");
    c.put("bad.csv", "app,class\nnpb-bt\n");
    fs::write(c.dir().join("binary.toml"), [0xff, 0xfe, 0, 1]).expect("writes");
    symlink("loop.dmtcp", c.dir().join("loop.dmtcp")).expect("a link");
    c
}

#[test]
fn sixty_wrong_inputs_are_refused_in_one_form() {
    let c = directory();
    let good = fs::read_to_string(c.dir().join("campaign.toml")).expect("a file");
    let (mut flaws, mut hints, mut all) = (Vec::new(), 0, 0);
    let mut judge = |what: String, named: &str, finished: cvc_testkit::Finished| {
        all += 1;
        hints += usize::from(
            finished.stderr.contains("hint: ") || finished.stderr.contains("For more information"),
        );
        let wrong = if [None, Some(0), Some(1), Some(101)].contains(&finished.code) {
            Some("ends with a wrong code")
        } else {
            flaw(&finished.stderr, named)
        };
        flaws.extend(wrong.map(|wrong| {
            format!(
                "{what}: {wrong} (code {:?}):\n{}{}",
                finished.code, finished.stdout, finished.stderr
            )
        }));
    };
    for (right, wrong, named) in FILES {
        let text = good.replacen(right, wrong, 1);
        assert_ne!(text, good, "{right}");
        let file = c.put("wrong.toml", &text);
        judge(
            wrong.to_owned(),
            named,
            c.cvc(&["plan", &file.display().to_string()]),
        );
    }
    for (command, arguments, named) in COMMANDS {
        let line = [&[command], arguments].concat();
        judge(line.join(" "), named, c.cvc(&line));
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
    assert!(
        all >= 60 && hints * 10 >= all * 9,
        "{hints} of {all} messages say how to correct it"
    );
    assert!(!c.root().exists(), "nothing was begun");
}

#[test]
fn of_a_file_that_is_no_campaign_the_first_errors_are_shown() {
    let c = directory();
    let file = c.put("program.c", &"/* no campaign */ int x;\n".repeat(40));
    let shown = c
        .cvc(&["plan", &file.display().to_string()])
        .expect(2)
        .stderr;
    assert_eq!(shown.matches("error: ").count(), 10, "{shown}");
    assert!(shown.contains("more errors"), "{shown}");
}
