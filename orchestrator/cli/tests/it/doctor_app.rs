//! Tests of `cvc doctor --app`: the output for a descriptor that fits, and for each part that does not.

use crate::{common::campaign, examples::own_program};
use cvc_testkit::{Campaign, Finished, Running, Tool, require};
use serde_json::Value;
use std::{fs, path::Path, time::Duration};

const LIMIT: Duration = Duration::from_secs(600);

/// Runs `cvc doctor --app` with a separate directory for temporary files, and checks that none is left.
fn doctor(c: &mut Campaign, arguments: &[&str], code: i32) -> Finished {
    let tmp = c.dir().join("tmp");
    fs::create_dir_all(&tmp).expect("makes");
    c.env("TMPDIR", tmp.to_str().expect("UTF-8"));
    let finished = Running::start(c.command(&[&["doctor", "--app"], arguments].concat()))
        .wait(LIMIT)
        .expect(code);
    assert_eq!(
        fs::read_dir(&tmp).expect("lists").count(),
        0,
        "a temporary campaign is left"
    );
    assert!(!c.dir().join("campaigns").exists());
    cvc_testkit::wait_until("the end of its processes", Duration::from_secs(10), || {
        cvc_testkit::process::of_directory(c.dir()).is_empty()
    });
    finished
}

/// Returns the result for the only library that was tried.
fn tried(finished: &Finished) -> Value {
    let json: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(json["tried"].as_array().map(Vec::len), Some(1), "{json}");
    json["tried"][0].clone()
}

/// Returns the parts of the descriptor with their results, in order.
fn fits(tried: &Value) -> Vec<(String, String)> {
    let of = |item: &Value, key: &str| {
        item[key]
            .as_str()
            .unwrap_or_else(|| panic!("{key} in {item}"))
            .to_owned()
    };
    tried["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| (of(item, "key"), of(item, "fit")))
        .collect()
}

/// Returns the finding about a part.
fn found<'a>(tried: &'a Value, key: &str) -> &'a str {
    let item = tried["items"]
        .as_array()
        .expect("items")
        .iter()
        .find(|item| item["key"] == key);
    item.and_then(|item| item["found"].as_str())
        .unwrap_or_else(|| panic!("{key} in {tried}"))
}

fn assert_fits(tried: &Value, wanted: &[(&str, &str)]) {
    let wanted: Vec<(String, String)> = wanted
        .iter()
        .map(|(key, fit)| ((*key).to_owned(), (*fit).to_owned()))
        .collect();
    assert_eq!(fits(tried), wanted, "{tried:#}");
}

#[test]
fn a_descriptor_that_fits_its_program_is_told_line_by_line() {
    require!(Tool::OpenMpi);
    let mut c = own_program();
    c.env("CVC_DMTCP_ROOT", "/nonexistent/dmtcp");
    let finished = doctor(
        &mut c,
        &[
            "own-program/apps/heat.toml",
            "--app-dir",
            "own-program",
            "--mpi",
            "openmpi",
            "--json",
        ],
        0,
    );
    let tried = tried(&finished);
    let wanted = [
        ("program.names", "fits"),
        ("start", "fits"),
        ("success.exit_codes", "fits"),
        ("success.pattern", "fits"),
        ("success.forbid", "fits"),
        ("progress.step", "fits"),
        ("figures.time_s", "fits"),
        ("run", "fits"),
        ("dmtcp", "unknown"),
    ];
    assert_fits(&tried, &wanted);
    assert_eq!(
        (
            tried["class"].as_str(),
            tried["processes"].as_u64(),
            tried["fits"].as_bool()
        ),
        (Some("S"), Some(2), Some(true))
    );
    assert_eq!(
        found(&tried, "success.pattern"),
        "`Verification = SUCCESSFUL`"
    );
    assert!(
        found(&tried, "progress.step").starts_with("20 steps printed, 20 to 400"),
        "{tried}"
    );
    assert!(found(&tried, "figures.time_s").ends_with(" s"), "{tried}");
}

#[test]
fn a_pattern_that_finds_nothing_is_the_only_part_that_does_not_fit() {
    require!(Tool::OpenMpi);
    let mut c = own_program();
    let file = c.dir().join("own-program/apps/heat.toml");
    let text = fs::read_to_string(&file).expect("reads");
    // a figure whose text differs, and steps that are counted differently
    let wrong = text
        .replace("^Time in seconds =", "^Time in minutes =")
        .replace("^Time step (", "^Step (");
    assert_eq!(
        wrong.matches("minutes").count() + wrong.matches("'^Step (").count(),
        2,
        "{wrong}"
    );
    fs::write(&file, wrong).expect("writes");
    let arguments = ["heat", "own-program/heat.toml", "--mpi", "openmpi"];
    let tried = tried(&doctor(&mut c, &[&arguments[..], &["--json"]].concat(), 10));
    let failing: Vec<String> = fits(&tried)
        .into_iter()
        .filter(|(_, fit)| fit == "fails")
        .map(|(key, _)| key)
        .collect();
    // the run fails because of the figure, and no checkpoint by DMTCP is tried
    assert_eq!(
        failing,
        ["progress.step", "figures.time_s", "run"],
        "{tried:#}"
    );
    assert!(
        found(&tried, "figures.time_s").starts_with("nothing matches `^Time in minutes = "),
        "{tried}"
    );
    assert!(
        found(&tried, "figures.time_s").contains("Verification = SUCCESSFUL"),
        "the end of its output is shown: {tried}"
    );
    let shown = doctor(&mut c, &arguments, 10).stdout;
    assert!(
        shown.starts_with(
            "heat with openmpi on local, class S, 2 processes: the descriptor does not fit\n"
        ),
        "{shown}"
    );
    let line = shown
        .lines()
        .find(|line| line.contains("figures.time_s"))
        .expect("its line");
    assert!(line.starts_with("--"), "{line}");
}

/// A program for one process that prints that it wrote 1000 bytes, and restarts from its own checkpoint.
const SCRIPT: &str = r#"#!/bin/sh
sleep 0.1
if [ "$1" = restart ]; then [ -s state.ckpt ] && echo SUCCESS; exit; fi
echo "Time step 1"
printf '%01000d' 0 > out.1
printf '%050d' 0 > state.ckpt
echo "checkpoint in 0.25 s"
echo "wrote 1000 bytes"
echo SUCCESS
"#;

/// Returns a campaign with the program and its descriptor.
fn with_checkpoint(outputs: &str) -> Campaign {
    let c = campaign("fit", "");
    // sh reads the script, because a file that another thread's child process still holds open for writing cannot be executed
    let program = c.put("bin/saver", SCRIPT).display().to_string();
    let text = format!(
        "schema = 1\nname = \"saver\"\ntitle = \"for tests\"\n[program]\nnames = [\"sh\"]\ninstall = \"none\"\n[command]\nargs = [\"{program}\"]\n\
         restart_args = [\"{program}\", \"restart\"]\n[processes]\nmax = 1\n[workloads.S]\n[success]\npattern = '^SUCCESS'\n[progress]\nstep = '^Time step (\\d+)'\n\
         [[figures]]\nname = \"rate\"\npattern = '^rate ([0-9.]+)'\nunit = \"1\"\nbetter = \"higher\"\n\
         [checkpoint]\nfiles = [\"state.ckpt\"]\ntime_s = '^checkpoint in ([0-9.]+) s'\nrestartable = true\n\
         [[outputs]]\nname = \"out_bytes\"\nfiles = [\"{{{{storage}}}}/out.*\"]\nsize = '^wrote (\\d+) bytes'\n{outputs}\n"
    );
    c.put("apps/saver.toml", &text);
    c
}

fn examine_saver(outputs: &str, code: i32) -> Value {
    let mut c = with_checkpoint(outputs);
    c.env("CVC_DMTCP_ROOT", "/nonexistent/dmtcp");
    tried(&doctor(
        &mut c,
        &["saver", "--mpi", "mpich", "--json"],
        code,
    ))
}

#[test]
fn own_checkpoints_their_restart_and_the_sizes_of_outputs_are_looked_at() {
    require!(Tool::Mpich);
    let tried = examine_saver("", 0);
    let wanted = [
        ("program.names", "fits"),
        ("start", "fits"),
        ("success.exit_codes", "fits"),
        ("success.pattern", "fits"),
        ("progress.step", "fits"),
        // an optional figure that is never printed
        ("figures.rate", "doubtful"),
        ("checkpoint.files", "fits"),
        ("checkpoint.time_s", "fits"),
        ("outputs.out_bytes", "fits"),
        ("checkpoint.restartable", "fits"),
        ("run", "fits"),
        ("dmtcp", "unknown"),
    ];
    assert_fits(&tried, &wanted);
    assert_eq!(found(&tried, "checkpoint.files"), "1 file, 50 bytes");
    assert_eq!(
        found(&tried, "checkpoint.time_s"),
        "1 checkpoint, 0.25 s together"
    );
    assert_eq!(tried["processes"], 1, "the program is for one process");
}

#[test]
fn outputs_of_another_size_fail_with_what_was_found_and_headers_may_explain_it() {
    require!(Tool::Mpich);
    let tried = examine_saver("scale = 0.9", 10);
    let said = "out.1 on localhost has 1000 bytes, but the program says that it wrote 900";
    assert!(
        found(&tried, "outputs.out_bytes").ends_with(said),
        "{tried}"
    );
    examine_saver("scale = 0.9\nheader_bytes = 100", 0);
    let tried = examine_saver("scale = 0.9\nheader_bytes = 99", 10);
    assert!(
        found(&tried, "outputs.out_bytes").ends_with("900, not counting up to 99 of headers"),
        "{tried}"
    );
}

#[test]
fn a_checkpoint_by_dmtcp_is_taken_with_a_longer_workload_and_restarted() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let mut c = own_program();
    let root = Tool::Dmtcp.find().expect("the test requires it");
    c.env(
        "CVC_DMTCP_ROOT",
        root.parent()
            .and_then(Path::parent)
            .and_then(Path::to_str)
            .expect("a prefix"),
    );
    let tried = tried(&doctor(
        &mut c,
        &[
            "heat",
            "own-program/heat.toml",
            "--mpi",
            "openmpi",
            "--json",
        ],
        0,
    ));
    let last: Vec<(String, String)> = fits(&tried).into_iter().rev().take(2).rev().collect();
    let wanted = [("dmtcp.checkpoint", "fits"), ("dmtcp.restart", "fits")]
        .map(|(key, fit)| (key.to_owned(), fit.to_owned()));
    assert_eq!(last, wanted, "{tried:#}");
    assert!(
        found(&tried, "dmtcp.checkpoint").starts_with("class W: "),
        "{tried}"
    );
}

#[test]
fn what_is_not_there_is_told_with_the_way_to_get_it() {
    require!(Tool::Mpich);
    let mut c = with_checkpoint("");
    let file = c.dir().join("apps/saver.toml");
    let text = fs::read_to_string(&file)
        .expect("reads")
        .replace("names = [\"sh\"]", "names = [\"no-such-saver\"]");
    fs::write(&file, text).expect("writes");
    let tried = tried(&doctor(&mut c, &["saver", "--mpi", "mpich", "--json"], 5));
    assert_fits(&tried, &[("program.names", "fails")]);
    assert_eq!(tried["hint"], "none", "the install line of the descriptor");
    let unknown = doctor(&mut c, &["savr"], 2).stderr;
    assert!(
        unknown.contains("there is no descriptor `savr`") && unknown.contains("saver"),
        "{unknown}"
    );
    let class = doctor(&mut c, &["saver", "--class", "D"], 2).stderr;
    assert!(
        class.contains("saver has no class `D`") && class.contains("its classes: S"),
        "{class}"
    );
    let count = doctor(&mut c, &["saver", "--processes", "2"], 2).stderr;
    assert!(
        count.contains("saver runs on at most 1 processes, not 2"),
        "{count}"
    );
}

#[test]
fn a_program_next_to_its_descriptor_or_next_to_apps_is_found() {
    require!(Tool::Mpich);
    for place in ["my-shell", "apps/my-shell"] {
        let mut c = campaign("next-to-it", "");
        c.env("CVC_DMTCP_ROOT", "/nonexistent/dmtcp");
        c.script_app("script", "sleep 0.1\necho Time step 1\necho SUCCESS", "");
        let descriptor = c.dir().join("apps/script.toml");
        let text = fs::read_to_string(&descriptor).expect("the descriptor");
        fs::write(&descriptor, text.replace("[\"sh\"]", "[\"my-shell\"]")).expect("writes");
        std::os::unix::fs::symlink("/bin/sh", c.dir().join(place)).expect("links");
        let finished = doctor(&mut c, &["apps/script.toml", "--mpi", "mpich", "--json"], 0);
        let tried = tried(&finished);
        assert!(
            fits(&tried).contains(&("success.pattern".to_owned(), "fits".to_owned())),
            "{tried:#}"
        );
    }
}
