//! Tests of output that is not read, that has no space, or whose terminal is closed: no command panics, commands that change something complete it,
//! and the exit codes report the work.

use crate::common::{SITE, campaign, scripted, waiting};
use cvc_testkit::{Campaign, Tool, require, wait_until};
use nix::fcntl::{FcntlArg, fcntl};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    time::Duration,
};

/// Time limit for an event, long enough for a machine that is busy with other work.
const LIMIT: Duration = Duration::from_secs(90);

/// Destinations of output.
const SINKS: [&str; 3] = ["terminal", "closed", "full"];

/// Starts a command with its outputs connected to two destinations, and ends with the command's exit code (128 + N after a signal). It is in Python,
/// which can open a terminal.
const START: &str = r#"
import os, pty, subprocess, sys, threading

def drain(terminal):
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass

def sink(kind):
    if kind == "full":
        return os.open("/dev/full", os.O_WRONLY)
    if kind == "closed":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    master, terminal = pty.openpty()
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    return terminal

out, err = sink(sys.argv[1]), sink(sys.argv[2])
code = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=out, stderr=err).wait()
sys.exit(code if code >= 0 else 128 - code)
"#;

/// Returns the exit code of `cvc` with its outputs connected to these destinations.
pub fn code_with(campaign: &Campaign, args: &[&str], stdout: &str, stderr: &str) -> Option<i32> {
    let cvc = campaign.command(args);
    let mut command = Command::new(Tool::Python.find().expect("the test requires it"));
    command
        .args(["-c", START, stdout, stderr])
        .arg(cvc.get_program())
        .args(cvc.get_args());
    command.current_dir(campaign.dir()).envs(
        cvc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command.status().expect("python3").code()
}

/// Panics unless `cvc` ends with this exit code for every combination of destinations.
#[track_caller]
pub fn assert_same_everywhere(campaign: &Campaign, args: &[&str], expected: i32) {
    for (stdout, stderr) in SINKS.iter().flat_map(|o| SINKS.map(|e| (*o, e))) {
        assert_eq!(
            code_with(campaign, args, stdout, stderr),
            Some(expected),
            "{args:?}, stdout {stdout}, stderr {stderr}"
        );
    }
}

#[test]
fn a_campaign_goes_on_and_ends_as_ever_wherever_its_output_goes() {
    require!(Tool::Mpich, Tool::Python);
    for (stdout, stderr) in SINKS.iter().flat_map(|o| SINKS.map(|e| (*o, e))) {
        let c = scripted("unread", "echo SUCCESS", "repeats = 2");
        for args in [
            &["run", "campaign.toml"][..],
            &["run", "campaign.toml", "--json", "--log", "debug"],
        ] {
            assert_eq!(
                code_with(&c, args, stdout, stderr),
                Some(0),
                "{args:?}, stdout {stdout}, stderr {stderr}"
            );
        }
        c.assert_whole(2);
        c.assert_nothing_left();
        assert!(c.dir().join("reports/unread/report.html").is_file());
    }
}

#[test]
fn failed_runs_are_told_by_the_exit_code_wherever_output_goes() {
    require!(Tool::Mpich, Tool::Python);
    let c = scripted("unread", "echo FAILURE; exit 3", "repeats = 1\nretries = 0");
    assert_same_everywhere(&c, &["run", "campaign.toml"], 10);
}

#[test]
fn commands_that_change_or_write_something_end_as_ever_wherever_their_output_goes() {
    require!(Tool::Mpich, Tool::Python);
    let c = scripted("unread", "echo SUCCESS", "repeats = 1");
    c.run().expect(0);
    assert_same_everywhere(&c, &["down", "campaign.toml"], 0);
    assert_same_everywhere(&c, &["report", "campaign.toml"], 0);
}

#[test]
fn what_cannot_be_installed_is_told_by_the_exit_code_wherever_output_goes() {
    require!(Tool::Ansible, Tool::Python);
    let text = format!(
        "{SITE}[sites.local.mpi.mine]\nfamily = \"mpich\"\nprefix = \"/no/such\"\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n"
    );
    let mut c = campaign("unread", &text);
    crate::install::with_ansible(&mut c);
    for sink in SINKS {
        assert_eq!(
            code_with(&c, &["install", "local", "--tags", "mpi"], sink, sink),
            Some(5),
            "{sink}"
        );
    }
}

#[test]
fn commands_that_only_show_something_end_with_their_reader_and_report_a_full_disk() {
    require!(Tool::Mpich, Tool::Python);
    let c = scripted("unread", "echo SUCCESS", "repeats = 1");
    c.run().expect(0);
    let shows: [&[&str]; 7] = [
        &["status", "campaign.toml"],
        &["status", "campaign.toml", "--json"],
        &["plan", "campaign.toml"],
        &["schema"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ];
    for args in shows {
        for (stdout, expected) in SINKS.into_iter().zip([0, 141, 1]) {
            assert_eq!(
                code_with(&c, args, stdout, "closed"),
                Some(expected),
                "{args:?}, stdout {stdout}"
            );
        }
    }
    // errors in the command line
    assert_same_everywhere(&c, &["run", "--no-such-option"], 2);
    assert_same_everywhere(&c, &["status", "no-such"], 7);
}

#[test]
fn a_campaign_is_completed_when_the_reader_of_its_messages_ends_after_the_first_line() {
    require!(Tool::Mpich);
    let c = scripted("head", "echo SUCCESS", "repeats = 3");
    let mut child = c
        .command(&["run", "campaign.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut first = String::new();
    BufReader::new(child.stderr.take().expect("a pipe"))
        .read_line(&mut first)
        .expect("a line");
    assert!(!first.is_empty());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    c.assert_whole(3);
    c.assert_nothing_left();
}

#[test]
fn a_campaign_is_completed_while_the_reader_of_its_output_rests_and_then_has_all_of_it() {
    require!(Tool::Mpich);
    let c = scripted("rests", "echo SUCCESS", "repeats = 24");
    let mut child = c
        .command(&["run", "campaign.toml", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut out = child.stdout.take().expect("a pipe");
    let bytes = fcntl(&out, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
    wait_until("the end of the campaign", LIMIT, || {
        c.events("completed").len() == 1
    });
    let mut text = String::new();
    out.read_to_string(&mut text).expect("reads");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert!(
        text.len() > 2 * usize::try_from(bytes).expect("a size"),
        "more than the pipe holds: {}",
        text.len()
    );
    let finished = text.lines().filter(|l| {
        serde_json::from_str::<serde_json::Value>(l).expect("JSON")["event"] == "run-finished"
    });
    assert_eq!(finished.count(), 24, "{text}");
    c.assert_whole(24);
}

/// Starts a command on a terminal that is stopped as by Ctrl-S. Once a line can be read, continues the terminal as by Ctrl-Q. Prints what the
/// terminal received, and ends with the command's exit code.
const START_STOPPED: &str = r#"
import os, pty, subprocess, sys, termios, threading

master, terminal = pty.openpty()
termios.tcflow(terminal, termios.TCOOFF)
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal)
sys.stdin.readline()
seen = []

def drain():
    try:
        while True:
            seen.append(os.read(master, 4096))
    except OSError:
        pass

reader = threading.Thread(target=drain)
reader.start()
termios.tcflow(terminal, termios.TCOON)
code = child.wait()
os.close(terminal)
reader.join()
sys.stdout.buffer.write(b"".join(seen))
sys.exit(code)
"#;

#[test]
fn a_campaign_is_completed_while_its_terminal_is_stopped() {
    require!(Tool::Mpich);
    let c = scripted("stopped", "echo SUCCESS", "repeats = 3");
    let cvc = c.command(&["run", "campaign.toml"]);
    let mut command = Command::new(Tool::Python.find().expect("the test requires it"));
    command
        .args(["-c", START_STOPPED])
        .arg(cvc.get_program())
        .args(cvc.get_args())
        .current_dir(c.dir());
    command.envs(
        cvc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    wait_until("the end of the campaign", LIMIT, || {
        c.events("completed").len() == 1
    });
    let mut resume = child.stdin.take().expect("a pipe");
    resume.write_all(b"\n").expect("writes");
    let mut shown = String::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_string(&mut shown)
        .expect("reads");
    assert_eq!(child.wait().expect("ends").code(), Some(0), "{shown}");
    let plain = shown.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "");
    assert!(
        plain.contains("3/3") && plain.contains("3 runs succeeded"),
        "{shown:?}"
    );
    c.assert_whole(3);
}

/// Checks that the output contains what a bug report needs: how the campaign ended, and where the log is.
#[track_caller]
fn assert_reportable(c: &Campaign, stderr: &str) {
    assert!(
        stderr.contains("error: internal error (please report): asked to panic"),
        "{stderr}"
    );
    assert!(
        stderr.contains("hint: send the command, its whole output and the archive of `cvc report-bug` (with campaigns/"),
        "{stderr}"
    );
    let log = fs::read_dir(c.root().join("logs"))
        .expect("logs")
        .flatten()
        .next()
        .expect("a log")
        .path();
    let log = fs::read_to_string(log).expect("reads");
    assert!(
        log.contains("panics.rs") && log.contains("asked to panic"),
        "{log}"
    );
}

#[test]
fn after_a_panic_in_the_campaign_nothing_is_left_and_it_goes_on_next_time() {
    require!(Tool::Mpich);
    for place in ["walk", "attempt", "observer"] {
        let mut c = scripted(
            "panic",
            "echo 'Time step 1'; sleep 1; echo SUCCESS",
            "repeats = 1",
        );
        c.env("CVC_PANIC_AT", place);
        let output = c.run().expect(1);
        assert_reportable(&c, &output.stderr);
        wait_until("the end of its processes", LIMIT, || {
            c.processes().is_empty()
        });
        c.env("CVC_PANIC_AT", "nowhere");
        c.run().expect(0);
        c.assert_whole(1);
        c.assert_nothing_left();
    }
}

#[test]
fn a_panic_is_an_internal_error_also_where_nobody_reads_it() {
    require!(Tool::Mpich, Tool::Python);
    let mut c = scripted("panic", "echo SUCCESS", "repeats = 1");
    c.env("CVC_PANIC_AT", "observer");
    assert_same_everywhere(&c, &["run", "campaign.toml"], 1);
    c.env("CVC_PANIC_AT", "nowhere");
    c.run().expect(0);
    c.assert_nothing_left();
}

#[test]
fn a_campaign_without_a_reader_still_hears_a_request_to_stop() {
    require!(Tool::Mpich);
    let (c, go) = waiting("stop", "repeats = 3");
    let mut child = c
        .command(&["run", "campaign.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_exact(&mut [0]).expect("it speaks");
    drop(stderr);
    wait_until("the first run", LIMIT, || {
        !c.events("run-started").is_empty()
    });
    cvc_testkit::process::signal(
        i32::try_from(child.id()).expect("a process id"),
        nix::sys::signal::Signal::SIGINT,
    );
    fs::write(go, "").expect("writes");
    let mut ended = None;
    wait_until("its end", LIMIT, || {
        ended = child.try_wait().expect("waits");
        ended.is_some()
    });
    assert_eq!(ended.expect("has ended").code(), Some(130));
    c.assert_whole(1);
    c.assert_nothing_left();
}

/// Runs a command with all outputs connected to one terminal, and prints what the terminal received.
const ON_TERMINAL: &str = r#"
import os, pty, subprocess, sys

master, terminal = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
os.close(terminal)
try:
    while True:
        got = os.read(master, 4096)
        if not got:
            break
        os.write(1, got)
except OSError:
    pass
sys.exit(child.wait())
"#;

/// Returns what a terminal receives from `cvc` with these arguments.
fn on_terminal(campaign: &Campaign, args: &[&str]) -> String {
    let cvc = campaign.command(args);
    let mut command = Command::new(Tool::Python.find().expect("the test requires it"));
    command
        .args(["-c", ON_TERMINAL])
        .arg(cvc.get_program())
        .args(cvc.get_args());
    command.current_dir(campaign.dir()).envs(
        cvc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    String::from_utf8(command.output().expect("python3").stdout).expect("text")
}

/// Panics if a text contains control sequences other than those that a bar needs.
#[track_caller]
fn assert_harmless(text: &str, what: &str) {
    for hostile in [
        "\u{1b}]",
        "\u{1b}[2J",
        "\u{7}",
        "bad\r",
        "\u{9b}",
        "\u{202e}",
    ] {
        assert!(!text.contains(hostile), "{what}: {hostile:?} in {text:?}");
    }
}

#[test]
fn a_bar_is_gone_before_the_answer_is_printed() {
    require!(Tool::Mpich, Tool::Python);
    let c = scripted("bar", "echo SUCCESS", "repeats = 6");
    c.cvc(&["run", "campaign.toml"]).expect(0);
    for _ in 0..10 {
        let shown = on_terminal(&c, &["fsck", "campaign.toml"]);
        let answer = shown.find("entries of the journal").expect("an answer");
        let bar = shown.rfind("/12 run directories checked");
        let cleared = shown.rfind("\u{1b}[2K");
        assert!(bar.is_none_or(|bar| bar < answer), "{shown:?}");
        assert!(cleared.is_none_or(|cleared| cleared < answer), "{shown:?}");
    }
}

#[test]
fn what_programs_and_names_of_files_say_cannot_steer_a_terminal() {
    require!(Tool::Mpich, Tool::Python);
    // a title, a cleared screen, a bell, an overwritten line, a C1 sequence, reversed text
    let script =
        r"printf '\033]0;owned\007\033[2Jbad\rgood \302\23331m\342\200\256txt\n' >&2; exit 3";
    let c = scripted("hostile", script, "repeats = 2\nretries = 0");
    let shown = r"\u{1b}]0;owned\u{7}\u{1b}[2Jbad\u{d}good \u{9b}31m\u{202e}txt";
    let run = on_terminal(&c, &["run", "campaign.toml", "--log", "debug"]);
    assert_harmless(&run, "run");
    assert!(run.contains(shown), "{run}");
    let lines = c
        .cvc(&["run", "campaign.toml", "--retry-failed"])
        .expect(10);
    assert_harmless(&lines.stderr, "run without a terminal");
    assert!(lines.stderr.contains(shown), "{}", lines.stderr);
    let status = on_terminal(&c, &["status", "campaign.toml"]);
    assert_harmless(&status, "status");
    assert!(status.contains(r"\u{1b}]0;owned"), "{status}");
    // parsed JSON contains the original text
    let json = c
        .cvc(&["status", "campaign.toml", "--json"])
        .expect(0)
        .stdout;
    assert_harmless(&json, "status --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let said = "\u{1b}]0;owned\u{7}\u{1b}[2Jbad\rgood \u{9b}31m\u{202e}txt";
    assert!(
        json["runs"][0]["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains(said)),
        "{json}"
    );

    let name = "ckpt_\u{1b}]0;owned\u{7}\u{1b}[2J.dmtcp";
    fs::create_dir(c.dir().join("images")).expect("makes");
    fs::write(c.dir().join("images").join(name), "no image").expect("writes");
    for args in [&["image", "images"][..], &["image", "images", "--json"]] {
        assert_harmless(&on_terminal(&c, args), "image");
        let output = c.cvc(args).expect(6);
        assert_harmless(&output.stdout, "image");
        assert_harmless(&output.stderr, "image");
        assert!(
            output
                .stderr
                .contains(r"ckpt_\u{1b}]0;owned\u{7}\u{1b}[2J.dmtcp"),
            "{}",
            output.stderr
        );
    }
    // errors in a file and in the command line
    fs::write(
        c.dir().join("wrong.toml"),
        "[matrix]\n# \u{202e}\u{9b}\napp = \"\u{202e}x\u{9b}\"\n",
    )
    .expect("writes");
    for args in [
        &["plan", "wrong.toml"][..],
        &["plan", "campaign.toml", "\u{1b}]0;owned\u{7}"],
        &["plan", "\u{1b}]0;owned\u{7}"],
    ] {
        let output = on_terminal(&c, args);
        assert_harmless(&output, "an error");
        assert!(
            output.contains("error: ") || output.contains("error:\u{1b}"),
            "{output:?}"
        );
    }
}
