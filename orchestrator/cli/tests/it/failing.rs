//! Tests of failing runs: each has its cause, its logs are kept, its retries are counted, and the exit code reports it.

use crate::common::{SITE, campaign, scripted};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use std::{fs, process::Command};

/// Returns cause and detail of the only failure, in a campaign of one run without retries.
fn failure(c: &Campaign) -> (String, String) {
    c.run().expect(10);
    c.assert_nothing_left();
    let failures = c.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(c.run_names().len(), 1);
    let (run, dir) = c
        .run_names()
        .into_iter()
        .map(|n| (n.split('.').next().unwrap_or_default().to_owned(), n))
        .next()
        .expect("a run");
    assert_eq!(
        dir,
        format!("{run}.failed-1"),
        "its logs are kept under a name that says that it failed"
    );
    for file in [
        "stdout",
        "stderr",
        "launch.sh",
        "exit.json",
        "run.json",
        "outcome.json",
    ] {
        assert!(c.run_dir(&dir).join(file).is_file(), "{file}");
    }
    assert_eq!(
        read_json(&c.run_dir(&dir).join("outcome.json"))["outcome"]["cause"],
        failures[0].0.as_str()
    );
    failures.into_iter().next().expect("one")
}

#[test]
fn each_way_to_fail_has_its_cause() {
    require!(Tool::Mpich);
    let cases = [
        (
            "code",
            "echo working; echo it went wrong >&2; exit 3",
            "application",
            "it went wrong",
        ),
        ("silent", "echo working", "application", "lacks `^SUCCESS`"),
        (
            "forbidden",
            "echo SUCCESS; echo FAILURE of the norm",
            "application",
            "FAILURE",
        ),
        (
            "signal",
            "echo working; kill -SEGV $$",
            "application",
            "exit code",
        ),
        ("launch", "exit 127", "launch", "exit code 127"),
        (
            "disk",
            "echo SUCCESS; echo 'write: No space left on device' >&2; exit 1",
            "disk-full",
            "No space left",
        ),
    ];
    for (name, script, cause, detail) in cases {
        let c = scripted(name, script, "repeats = 1\nretries = 0");
        let (got, output) = failure(&c);
        assert!(
            got == cause && output.contains(detail),
            "{name}: {got}: {output}"
        );
    }
}

#[test]
fn a_program_that_hangs_and_ignores_sigterm_is_ended_in_time() {
    require!(Tool::Mpich);
    let c = scripted(
        "hangs",
        "trap '' TERM; echo 'Time step 1'; setsid sleep 100 & sleep 100; sleep 100",
        "repeats = 1\nretries = 0\ntimeout_s = 1",
    );
    let (cause, detail) = failure(&c);
    assert!(
        cause == "timeout" && detail.contains("1 s (run.timeout_s)"),
        "{cause}: {detail}"
    );
    let exit = read_json(
        &c.run_dir(c.run_names().first().expect("a run"))
            .join("exit.json"),
    );
    assert_eq!(exit["ended_by"], "timeout", "{exit}");
    assert!(
        exit["wall_s"]
            .as_f64()
            .is_some_and(|s| (1.0..6.0).contains(&s)),
        "{exit}"
    );
}

#[test]
fn what_a_program_leaves_running_is_ended_with_its_run() {
    require!(Tool::OpenMpi);
    // Open MPI's launcher does not wait for processes that a rank has left behind; Hydra waits as long as they hold its pipes
    let c = campaign(
        "daemon",
        &format!(
            "{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"openmpi\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 20\n"
        ),
    );
    c.script_app(
        "script",
        "setsid sh -c 'trap \"\" TERM HUP; sleep 100' >/dev/null 2>&1 </dev/null & echo SUCCESS",
        "",
    );
    c.run().expect(0);
    c.assert_nothing_left();
    let exit = read_json(
        &c.run_dir(c.run_names().first().expect("a run"))
            .join("exit.json"),
    );
    assert!(exit["leftovers"].as_u64().is_some_and(|n| n >= 1), "{exit}");
}

#[test]
fn retries_are_counted_points_set_aside_and_tried_again_on_request() {
    require!(Tool::Mpich);
    let c = campaign(
        "retries",
        &format!(
            "{SITE}[matrix]\napp = [\"bad\", \"good\"]\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 5\nretries = 1\nquarantine_after = 2\norder = \"interleaved\"\n"
        ),
    );
    c.script_app("bad", "echo attempt; exit 1", "")
        .script_app("good", "echo SUCCESS", "");
    // all runs fail in the same way, but the session continues
    let output = c.cvc(&["run", "campaign.toml", "--keep-going"]).expect(10);
    assert!(
        output.stderr.contains("failed too often: 3 runs skipped"),
        "{}",
        output.stderr
    );
    // 2 runs with 2 attempts each, and 5 successful ones: the points that are given up do not stop the others
    assert_eq!(
        (c.failures().len(), c.events("point-quarantined").len()),
        (4, 1)
    );
    assert_eq!(
        c.run_names()
            .iter()
            .filter(|n| n.contains(".failed-"))
            .count(),
        4,
        "the logs of every attempt: {:?}",
        c.run_names()
    );
    assert_eq!(c.run_names().iter().filter(|n| !n.contains('.')).count(), 5);
    let report = fs::read_to_string(c.dir().join("reports/retries/report.html")).expect("a report");
    assert!(
        report.contains("exit code 1"),
        "the report says what failed"
    );

    // failed runs are not retried without the option
    let before = c.events("run-intended").len();
    c.run().expect(10);
    assert_eq!(c.events("run-intended").len(), before);

    // with the option, numbers of attempts continue, and the logs of earlier attempts are kept
    c.cvc(&["run", "campaign.toml", "--retry-failed", "--keep-going"])
        .expect(10);
    assert_eq!(c.failures().len(), 8);
    assert_eq!(
        c.run_names()
            .iter()
            .filter(|n| n.contains(".failed-"))
            .count(),
        8,
        "{:?}",
        c.run_names()
    );

    // after the program (not its descriptor) was corrected, everything is done, including the other runs of the point
    c.put("bin/bad.sh", "sleep 0.05; echo SUCCESS");
    c.cvc(&["run", "campaign.toml", "--retry-failed"]).expect(0);
    assert_eq!(
        c.run_names().iter().filter(|n| !n.contains('.')).count(),
        10
    );
    c.assert_nothing_left();
    c.run().expect(0);
}

/// Returns a campaign of two programs at three numbers of processes.
fn two_programs(name: &str, run: &str) -> Campaign {
    campaign(
        name,
        &format!(
            "{SITE}[matrix]\napp = [\"one\", \"two\"]\nprocesses = [1, 2, 4]\nmpi = \"mpich\"\n[run]\n{run}\n"
        ),
    )
}

const NO_MESH: &str =
    "sleep 0.1; echo \"error: rank $$ cannot open mesh.nml\" >&2; echo backtrace >&2; exit 3";

#[test]
fn a_campaign_whose_first_runs_fail_alike_stops_shows_why_and_goes_on_later() {
    require!(Tool::Mpich);
    let c = two_programs("alike", "repeats = 5");
    c.script_app("one", NO_MESH, "")
        .script_app("two", NO_MESH, "");
    let output = c.run().expect(10);
    let said = &output.stderr;
    assert!(
        said.contains(
            "site local starts no more runs: 3 attempts at 3 points failed in the same way"
        ),
        "{said}"
    );
    assert!(
        said.contains("the output of one of the failed runs, campaigns/alike/runs/")
            && said.contains("  | error: rank ")
            && said.contains("  | backtrace"),
        "{said}"
    );
    assert!(said.contains("--keep-going"), "{said}");
    assert_eq!(c.failures().len(), 3, "nothing more was tried");
    let tried: std::collections::BTreeSet<String> =
        c.failures().into_iter().map(|(cause, _)| cause).collect();
    assert_eq!(tried.into_iter().collect::<Vec<_>>(), ["application"]);
    c.assert_nothing_left();

    // another session starts counting again, and continues in spite of failures only with the option
    c.run().expect(10);
    let before = c.failures().len();
    assert!((4..10).contains(&before), "{before}");
    c.cvc(&["run", "campaign.toml", "--keep-going"]).expect(10);
    assert_eq!(c.events("point-quarantined").len(), 6);

    // correct the program
    c.put("bin/one.sh", "sleep 0.1; echo SUCCESS");
    c.put("bin/two.sh", "sleep 0.1; echo SUCCESS");
    c.cvc(&["run", "campaign.toml", "--retry-failed"]).expect(0);
}

#[test]
fn a_program_that_works_lets_the_campaign_go_on_and_hopeless_attempts_are_left_out() {
    require!(Tool::Mpich);
    let c = two_programs("hopeless", "repeats = 2\nretries = 2");
    c.script_app("one", NO_MESH, "")
        .script_app("two", "sleep 0.1; echo SUCCESS", "");
    let output = c.run().expect(10);
    assert!(
        !output.stderr.contains("starts no more runs"),
        "{}",
        output.stderr
    );
    assert!(
        output.stderr.contains("not tried again: "),
        "{}",
        output.stderr
    );
    let ended: Vec<_> = c
        .events("run-finished")
        .into_iter()
        .filter(|e| e["outcome"]["result"] == "failed")
        .collect();
    // six runs with three attempts each would be 18; only one run of each of three points is retried
    assert!((6..=9).contains(&ended.len()), "{ended:?}");
    let left_out = ended
        .iter()
        .filter(|e| {
            e["not_again"]
                .as_str()
                .is_some_and(|why| why.contains("failed twice in this way"))
        })
        .count();
    assert_eq!(left_out, 6, "{ended:?}");

    // the failure is in the journal, so that the next session does not retry either
    c.run().expect(10);
    let again = c.events("run-finished").into_iter();
    assert_eq!(
        again.filter(|e| e["outcome"]["result"] == "failed").count(),
        ended.len()
    );

    // the status shows where the program's output is
    let status = c.cvc(&["status", "campaign.toml"]).expect(0).stdout;
    assert!(
        status.contains("6 of 12 runs succeeded (50 %), 6 failed (50 %)"),
        "{status}"
    );
    assert!(
        status.contains("output: campaigns/hopeless/runs/") && status.contains("/stderr"),
        "{status}"
    );
    assert!(
        status.contains("report: reports/hopeless/report.html"),
        "{status}"
    );
    assert!(
        status.contains("wall time") && !status.contains("skipped"),
        "{status}"
    );
}

#[test]
fn a_setting_without_effect_fails_the_run() {
    require!(Tool::Mpich, Tool::OpenMpi);
    let io = "[io]\ncollective = true\nwriters = '^Writers = (\\d+)'\n";
    let c = campaign(
        "ignored",
        &format!(
            "{SITE}[matrix]\napp = [\"opens-nothing\"]\nprocesses = 2\nmpi = [\"mpich\", \"openmpi\"]\naggregators = 2\n[run]\nrepeats = 1\nretries = 0\n"
        ),
    );
    c.script_app("opens-nothing", "echo SUCCESS; echo Writers = 2", io);
    c.run().expect(10);
    let failures = c.failures();
    assert!(
        failures.len() == 2 && failures.iter().all(|(cause, _)| cause == "setting-ignored"),
        "{failures:?}"
    );
    assert!(
        failures
            .iter()
            .any(|f| f.1.contains("ROMIO printed no such hint"))
            && failures
                .iter()
                .any(|f| f.1.contains("OMPIO did not report"))
    );

    // the library reports that it accepted the hints, but another number of ranks wrote
    let hints = "key = cb_nodes value = 2\nkey = cb_config_list value = *:2\nkey = romio_cb_write value = enable\nkey = romio_cb_read value = enable";
    let c = campaign(
        "writers",
        &format!(
            "{SITE}[matrix]\napp = \"w\"\nprocesses = 2\nmpi = \"mpich\"\naggregators = 2\n[run]\nrepeats = 1\nretries = 0\n"
        ),
    );
    c.script_app(
        "w",
        &format!("echo '{hints}'; echo Writers = 1; echo SUCCESS"),
        io,
    );
    let (cause, detail) = failure(&c);
    assert!(
        cause == "setting-ignored" && detail.contains("2 aggregators requested, but 1 ranks wrote"),
        "{cause}: {detail}"
    );
}

/// The program ends with 0, as with an MPI library that hides a full disk; but its files do not contain the data.
#[test]
fn files_that_do_not_hold_what_was_written_fail_the_run() {
    require!(Tool::Mpich);
    let outputs = "[[outputs]]\nfiles = [\"part.*\", \"{{storage}}/more/*.dat\"]\nsize = '^Written: ([0-9.]+) MB'\nscale = 1e6\n";
    let script = |second: u32| {
        format!(
            "mkdir more; head -c 600000 /dev/zero >part.0; head -c {second} /dev/zero >more/1.dat; echo unrelated >other; echo 'Written: 1.00 MB'; echo SUCCESS"
        )
    };
    for (name, second, expected) in [
        ("whole", 400_000, 0),
        ("rounded", 396_000, 0),
        ("short", 390_000, 10),
        ("long", 410_000, 10),
    ] {
        let c = campaign(
            name,
            &format!(
                "{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 1\nretries = 0\n"
            ),
        );
        c.script_app("script", &script(second), outputs);
        c.run().expect(expected);
        let failures = c.failures();
        assert_eq!(
            failures.len(),
            usize::from(expected != 0),
            "{name}: {failures:?}"
        );
        if let Some((cause, detail)) = failures.first() {
            let total = 600_000 + second;
            assert_eq!(cause, "application", "{name}: {detail}");
            assert!(
                detail.contains(&format!("have {total} bytes together"))
                    && detail.contains("995000 to 1005000"),
                "{name}: {detail}"
            );
        }
    }
}

/// A small tmpfs; unmounted at the end, even if the test fails.
struct Tmpfs(std::path::PathBuf);

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_fails_its_runs_and_the_others_go_on() {
    require!(Tool::Mpich, Tool::Tmpfs);
    let place = tempfile::tempdir().expect("a directory");
    let text = format!(
        "[sites.local]\nkind = \"local\"\nstorage.small = {{ path = \"{}\" }}\nstorage.run = {{}}\n[matrix]\napp = [\"writer\"]\nprocesses = 1\nmpi = \"mpich\"\n\
         storage = [\"small\", \"run\"]\n[run]\nrepeats = 2\nretries = 0\nquarantine_after = 9\norder = \"interleaved\"\n",
        place.path().display()
    );
    let c = campaign("full", &text);
    c.script_app(
        "writer",
        "dd if=/dev/zero of=out bs=64k count=64 || exit 1; echo SUCCESS",
        "",
    );
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "cvc-test"])
        .arg(place.path())
        .status();
    assert!(mounted.is_ok_and(|s| s.success()), "mount");
    let tmpfs = Tmpfs(place.path().to_owned());
    c.run().expect(10);
    let failures = c.failures();
    assert!(
        failures.len() == 2 && failures.iter().all(|(cause, _)| cause == "disk-full"),
        "{failures:?}"
    );
    assert!(
        failures[0]
            .1
            .contains(place.path().to_str().expect("UTF-8")),
        "it says where: {failures:?}"
    );
    assert_eq!(
        c.run_names().iter().filter(|n| !n.contains('.')).count(),
        2,
        "the runs elsewhere succeeded"
    );
    c.assert_nothing_left();
    let left: Vec<_> = fs::read_dir(place.path().join("full"))
        .map(|d| d.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    assert_eq!(
        left,
        Vec::<std::path::PathBuf>::new(),
        "what was written there is removed"
    );

    // the same with a program that does not check its writes
    let c = campaign(
        "hidden",
        &text
            .replace("\"writer\"", "\"content\"")
            .replace("repeats = 2", "repeats = 1"),
    );
    let outputs = "[[outputs]]\nfiles = [\"out\"]\nsize = '^Written: (\\d+)'\n";
    c.script_app(
        "content",
        "dd if=/dev/zero of=out bs=64k count=64 2>/dev/null; echo Written: 4194304; echo SUCCESS",
        outputs,
    );
    c.run().expect(10);
    let failures = c.failures();
    assert!(
        failures.len() == 1
            && failures[0].0 == "disk-full"
            && failures[0].1.contains("says that it wrote 4194304"),
        "{failures:?}"
    );
    drop(tmpfs);
}

#[test]
fn output_without_end_ends_its_run() {
    require!(Tool::Mpich);
    let c = scripted(
        "endless",
        "while :; do echo 'and on and on and on'; done",
        "repeats = 1\nretries = 0\nmax_output_mib = 1",
    );
    let (cause, detail) = failure(&c);
    assert!(
        cause == "output" && detail.contains("more than 1 MiB"),
        "{cause}: {detail}"
    );
    let run = c.run_names().into_iter().next().expect("the attempt");
    let written = |name: &str| {
        fs::metadata(c.run_dir(&run).join(name))
            .expect("its output")
            .len()
    };
    assert!(written("stdout") + written("stderr") <= 1 << 20);
    c.assert_nothing_left();
}

#[test]
fn output_that_fills_the_disk_of_the_campaign_fails_its_run_alone() {
    require!(Tool::Mpich, Tool::Tmpfs);
    let text = format!(
        "{SITE}[matrix]\napp = [\"filler\", \"good\"]\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 2\nretries = 0\nquarantine_after = 9\ntimeout_s = 60\n"
    );
    let c = campaign("filled", &text);
    c.script_app("filler", "head -c 40000000 /dev/zero; echo SUCCESS", "");
    c.script_app("good", "echo SUCCESS", "");
    let place = c.dir().join("campaigns");
    fs::create_dir(&place).expect("makes");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8m", "cvc-test"])
        .arg(&place)
        .status();
    assert!(mounted.is_ok_and(|s| s.success()), "mount");
    let _tmpfs = Tmpfs(place);
    c.run().expect(10);
    let failures = c.failures();
    assert!(
        failures.len() == 2 && failures.iter().all(|(cause, _)| cause == "disk-full"),
        "{failures:?}"
    );
    assert_eq!(
        c.run_names().iter().filter(|n| !n.contains('.')).count(),
        2,
        "the other runs succeeded"
    );
    c.assert_nothing_left();
}

#[test]
fn a_figure_that_is_not_finite_is_missing() {
    require!(Tool::Mpich);
    let figure = |required: bool| {
        format!(
            "[[figures]]\nname = \"rate\"\npattern = '^rate = (\\S+)'\nunit = \"Mop/s\"\nbetter = \"higher\"\nrequired = {required}\n"
        )
    };
    for value in ["NaN", "inf", "-Infinity", "1E+400"] {
        let script = format!("sleep 0.1; echo 'rate = {value}'; echo SUCCESS");
        let c = scripted("infinite", &script, "repeats = 1\nretries = 0");
        c.script_app("script", &script, &figure(true));
        let (cause, detail) = failure(&c);
        assert!(
            cause == "application" && detail.contains("no finite rate"),
            "{value}: {cause}: {detail}"
        );

        let c = scripted("infinite", &script, "repeats = 1\nretries = 0");
        c.script_app("script", &script, &figure(false));
        c.run().expect(0);
        c.assert_whole(1);
        let run = c.run_names().into_iter().next().expect("a run");
        assert!(
            c.records(&run)
                .iter()
                .all(|r| r["name"] != "rate" && r["value"].is_f64()),
            "{value}: {:?}",
            c.records(&run)
        );
    }
}
