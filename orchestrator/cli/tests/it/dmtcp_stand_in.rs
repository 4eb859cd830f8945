//! Tests of failures under DMTCP and their causes. Scripts replace DMTCP's programs, and answer at the moments that a test needs. The launched
//! programs are real; the checkpoints are images of the fixtures.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// The image of one rank, which is used for each checkpoint.
const IMAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../image/tests/fixtures/dmtcp/mpich-btW-np1-rank0.dmtcp.gz"
);
/// Port of the first coordinator; the coordinator of the restart has the next port.
const PORT: u16 = 4001;
/// Message of DMTCP 4.2.0 for a failed assertion, with its colours; the backtrace is truncated.
const ASSERTION: &str = r"\033[0;31m[2026-11-25T09:00:00.000, 41000, 41000, Error] at sysvipc.cpp:77 in refill; REASON='JASSERT(_realId != -1) failed; (_id = 3);    bt: Terminating...\n    Backtrace:\n        1 refill in libdmtcp_svipc.so 0x7f00\n\n\033[0m\n";

/// The behaviour of the replacement for DMTCP.
pub(crate) struct StandIn {
    /// Script that replaces a checkpoint; `whole` is the command for a complete one.
    pub checkpoint: &'static str,
    /// Script that replaces the request to kill the ranks after their checkpoint.
    pub kill: &'static str,
    /// The restart script.
    pub restart: String,
    /// Answer of the restart's coordinator to a status request: `peers N yes|no`, or exit code 1 without an answer.
    pub status: &'static str,
}

impl Default for StandIn {
    fn default() -> Self {
        Self {
            checkpoint: "whole",
            kill: ":",
            restart: ":".into(),
            status: "exit 1",
        }
    }
}

impl StandIn {
    /// Returns a replacement whose restart prints these errors and hangs.
    fn hanging(errors: &str, status: &'static str) -> Self {
        Self {
            restart: format!("printf '%b' \"{}\" >&2\nexec sleep 300", errors),
            status,
            ..Self::default()
        }
    }

    /// Writes the programs below `root`, where they also store their state.
    pub(crate) fn install(&self, root: &Path) {
        let at = root.display();
        let program = |name: &str, text: &str| {
            let path = root.join("bin").join(name);
            fs::create_dir_all(root.join("bin")).expect("makes");
            fs::write(&path, format!("#!/bin/bash\ncd {at} || exit 1\n{text}\n")).expect("writes");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        };
        // before version 4 the restart script shows that a checkpoint is complete
        program(
            "dmtcp_launch",
            "[ \"$1\" != --version ] || { echo 'dmtcp_launch (DMTCP) 3.2.0'; exit; }\necho $$ >launched\n\
             until [ \"$1\" = -p ]; do shift; done\nshift 2\ncd \"$OLDPWD\" && exec \"$@\"",
        );
        program(
            "dmtcp_coordinator",
            &format!(
                "while [ $# -gt 0 ]; do case $1 in --port-file) file=$2 ;; --ckptdir) dir=$2 ;; esac; shift; done\n\
                 port={PORT}\ncase $file in */restart.port) port=$((port + 1)) ;; *) echo \"$dir\" >ckptdir ;; esac\necho $port >\"$file\""
            ),
        );
        fs::write(
            root.join("restart"),
            format!("cd {at} || exit 1\n{}\n", self.restart),
        )
        .expect("writes");
        program(
            "dmtcp_command",
            &format!(
                "peers() {{ printf '  NUM_PEERS=%s\\n  RUNNING=%s\\n' $1 $2; }}\n\
                 alive() {{ kill -0 \"$(cat launched)\" 2>/dev/null; }}\n\
                 whole() {{ d=$(cat ckptdir) && cp {IMAGE} \"$d\"/ckpt_bt_1-40000-1.dmtcp && \
                 {{ echo \"# :: $(hostname) :bg: $d/ckpt_bt_1-40000-1.dmtcp\"; cat restart; }} >script && mv script \"$d\"/dmtcp_restart_script.sh; }}\n\
                 case $4:$5 in\n{PORT}:-s) alive && peers 3 yes ;;\n{PORT}:-c) {} ;;\n{PORT}:-k) {} ;;\n*:-s) {} ;;\nesac",
                self.checkpoint, self.kill, self.status
            ),
        );
    }

    /// Runs this script, which must fail; returns the cause, the detail, and the campaign.
    fn failure(
        &self,
        name: &str,
        script: &str,
        run: &str,
        checkpoint: &str,
    ) -> (String, String, Campaign) {
        let c = self.prepare(name, script, run, checkpoint);
        c.run().expect(10);
        c.assert_nothing_left();
        let (cause, detail) = c.failures().pop().expect("a failure");
        (cause, detail, c)
    }

    /// Returns a campaign with one run of this script.
    fn prepare(&self, name: &str, script: &str, run: &str, checkpoint: &str) -> Campaign {
        let c = campaign(name, "");
        let root = c.dir().join("stand-in");
        self.install(&root);
        c.rewrite(&format!(
            "{SITE}dmtcp.prefix = \"{}\"\n[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\ncheckpointer = \"dmtcp\"\n\
             compression = \"gzip\"\n[run]\nrepeats = 1\nretries = 0\n{run}\n[checkpoint]\n{checkpoint}\n",
            root.display()
        ));
        c.script_app(
            "script",
            &format!("cd {} || exit 1\n{script}", root.display()),
            "",
        );
        c
    }

    /// Like [`Self::failure`], for a run that is restarted after its first step.
    fn restart_failure(&self, name: &str, script: &str) -> (String, String, Campaign) {
        self.failure(
            name,
            script,
            "timeout_s = 120",
            "moment = { after_step = 1 }\nrestart_check = true",
        )
    }
}

/// A script that continues computing after its first step.
const COMPUTES: &str = "echo 'Time step 1'; exec sleep 300";
/// A script that prints its result and then continues computing.
const HAS_PRINTED: &str = "echo SUCCESS; echo 'Time step 1'; exec sleep 300";

#[test]
fn a_result_that_was_printed_before_the_checkpoint_was_whole_is_a_checkpoint_too_late() {
    require!(Tool::Mpich);
    let (cause, detail, c) = StandIn::default().restart_failure("late", HAS_PRINTED);
    assert!(
        cause == "checkpoint" && detail.contains("before checkpoint 1 was complete"),
        "{cause}: {detail}"
    );
    assert!(
        detail.contains("earlier moment") && detail.contains("larger workload"),
        "{detail}"
    );
    let records = c.records(c.run_names().first().expect("a run"));
    assert!(
        records
            .iter()
            .any(|r| r["name"] == "restart_verified" && r["value"] == 0.0),
        "{records:?}"
    );
}

#[test]
fn a_restart_that_hangs_with_nothing_to_verify_is_told_with_the_checkpoint_that_came_too_late() {
    require!(Tool::Mpich);
    let moment = "moment = { after_step = 1 }\nrestart_check = true";
    let (cause, detail, _) =
        StandIn::hanging("", "peers 3 yes").failure("hangs", HAS_PRINTED, "timeout_s = 15", moment);
    assert!(
        cause == "checkpoint" && detail.contains("before checkpoint 1 was complete"),
        "{cause}: {detail}"
    );
    assert!(
        detail.contains("restart, which did not end within 15 s, has nothing to verify"),
        "{detail}"
    );
}

#[test]
fn a_result_that_was_printed_after_the_checkpoint_does_not_excuse_a_restart_without_one() {
    require!(Tool::Mpich);
    // the program continues between its checkpoint and its end
    let stand_in = StandIn {
        kill: "touch go; until [ -e said ]; do sleep 0.02; done",
        ..StandIn::default()
    };
    let script = "echo 'Time step 1'; until [ -e go ]; do sleep 0.02; done; echo SUCCESS; sleep 0.2; touch said; exec sleep 300";
    let (cause, detail, c) = stand_in.restart_failure("after", script);
    let out = fs::read_to_string(
        c.run_dir(c.run_names().first().expect("a run"))
            .join("stdout"),
    )
    .expect("its output");
    assert!(out.contains("SUCCESS"), "{out}");
    assert!(
        cause == "restart" && detail.contains("lacks `^SUCCESS`"),
        "{cause}: {detail}"
    );
}

#[test]
fn a_restart_that_fails_by_what_it_prints_is_no_checkpoint_too_late() {
    require!(Tool::Mpich);
    let prints = StandIn {
        restart: "echo FAILURE of the norm".into(),
        ..StandIn::default()
    };
    let (cause, detail, _) = prints.restart_failure("forbidden", HAS_PRINTED);
    assert!(
        cause == "restart" && detail.contains("it printed `FAILURE"),
        "{cause}: {detail}"
    );
    let asserts = StandIn {
        restart: format!("printf '%b' \"{ASSERTION}\" >&2; exit 99"),
        ..StandIn::default()
    };
    let (cause, detail, _) = asserts.restart_failure("asserted", HAS_PRINTED);
    assert!(
        cause == "restart" && detail.contains("JASSERT(_realId != -1) failed"),
        "{cause}: {detail}"
    );
}

#[test]
fn a_checkpoint_that_fails_because_the_time_limit_ends_the_run_is_a_timeout() {
    require!(Tool::Mpich);
    // DMTCP's command only returns after the run has ended, and then fails
    let stand_in = StandIn {
        checkpoint: "while alive; do sleep 0.02; done; echo 'no coordinator' >&2; exit 2",
        ..StandIn::default()
    };
    let (cause, detail, _) = stand_in.failure(
        "limit",
        COMPUTES,
        "timeout_s = 3",
        "moment = { after_step = 1 }",
    );
    assert!(
        cause == "timeout" && detail.contains("3 s (run.timeout_s)"),
        "{cause}: {detail}"
    );
    // a program that never computes has no failed checkpoint either
    let (cause, detail, _) = StandIn::default().failure(
        "silent",
        "exec sleep 300",
        "timeout_s = 2",
        "moment = \"size-only\"",
    );
    assert!(
        cause == "timeout" && detail.contains("2 s"),
        "{cause}: {detail}"
    );
}

#[test]
fn a_series_ends_with_its_program_and_says_how_many_checkpoints_it_has() {
    require!(Tool::Mpich);
    // the third checkpoint is requested, but the program ends before it exists
    let stand_in = StandIn {
        checkpoint: "n=$(cat taken 2>/dev/null || echo 0); if [ $n -lt 2 ]; then whole; echo $((n + 1)) >taken; else touch asked; while alive; do sleep 0.02; done; exit 2; fi",
        ..StandIn::default()
    };
    let script = "echo 'Time step 1'; until [ -e asked ]; do sleep 0.02; done; echo SUCCESS";
    let c = stand_in.prepare(
        "series",
        script,
        "timeout_s = 120",
        "moment = { every_s = 0.3, count = 5 }",
    );
    c.run().expect(0);
    c.assert_nothing_left();
    let records = c.records(c.run_names().first().expect("a run"));
    let of = |name: &str, labels: &[(&str, &str)]| {
        let found = records
            .iter()
            .find(|r| r["name"] == name && labels.iter().all(|(k, v)| r["labels"][*k] == *v));
        found
            .and_then(|r| r["value"].as_f64())
            .unwrap_or_else(|| panic!("no {name} {labels:?}: {records:?}"))
    };
    assert_eq!(of("series_checkpoints", &[("planned", "5")]), 2.0);
    // the replacement stores the same image twice
    let bytes = of("series_bytes", &[("ckpt", "2")]);
    assert!(bytes > 0.0, "{records:?}");
    assert_eq!(
        of("series_changed_bytes", &[("ckpt", "2"), ("since", "1")]),
        0.0
    );
    assert_eq!(of("series_total_bytes", &[("method", "full")]), 2.0 * bytes);
    assert_eq!(
        of("series_total_bytes", &[("method", "incremental")]),
        bytes
    );
    assert!(of("series_at_s", &[("ckpt", "2")]) >= 0.6, "{records:?}");
    let report = fs::read_to_string(c.dir().join("reports/series/report.md")).expect("a report");
    assert!(report.contains("## Similarity of checkpoints"), "{report}");
    assert!(report.contains("every 0.3 s, 5 times"), "{report}");
}

#[test]
fn a_series_of_a_program_that_ends_before_the_first_is_a_failure() {
    require!(Tool::Mpich);
    let (cause, detail, _) = StandIn::default().failure(
        "early",
        "echo 'Time step 1'; sleep 0.2; echo SUCCESS",
        "timeout_s = 60",
        "moment = { every_s = 5, count = 3 }",
    );
    assert!(
        cause == "checkpoint" && detail.contains("before its checkpoint at 5 s"),
        "{cause}: {detail}"
    );
}

/// Checks that the restart of the only run was ended before its time limit.
fn assert_ended_early(c: &Campaign) {
    let exit = read_json(
        &c.run_dir(c.run_names().first().expect("a run"))
            .join("restart.exit.json"),
    );
    assert_ne!(exit["ended_by"], "timeout", "{exit}");
}

#[test]
fn a_restart_that_an_assertion_has_ended_is_not_waited_for_and_its_line_is_quoted() {
    require!(Tool::Mpich);
    let (cause, detail, c) =
        StandIn::hanging(ASSERTION, "peers 2 no").restart_failure("assertion", COMPUTES);
    assert_eq!(cause, "restart", "{detail}");
    let line = "[2026-11-25T09:00:00.000, 41000, 41000, Error] at sysvipc.cpp:77 in refill; REASON='JASSERT(_realId != -1) failed; (_id = 3);";
    assert!(
        detail.contains(line) && !detail.contains('\u{1b}'),
        "{detail:?}"
    );
    assert_ended_early(&c);
}

#[test]
fn a_restart_whose_processes_are_all_gone_is_not_waited_for() {
    require!(Tool::Mpich);
    let status = "if [ -e seen ]; then exit 1; fi; touch seen; peers 3 yes";
    let (cause, detail, c) =
        StandIn::hanging("something went wrong", status).restart_failure("gone", COMPUTES);
    assert!(
        cause == "restart" && detail.contains("all its processes have ended"),
        "{cause}: {detail}"
    );
    assert!(
        detail.contains("something went wrong"),
        "its last words: {detail}"
    );
    assert_ended_early(&c);
}

#[test]
fn a_restart_that_lost_a_process_before_it_computed_is_not_waited_for() {
    require!(Tool::Mpich);
    let status = "if [ -e seen ]; then peers 2 no; else touch seen; peers 3 no; fi";
    let (cause, detail, c) = StandIn::hanging("", status).restart_failure("lost", COMPUTES);
    assert!(
        cause == "restart" && detail.contains("2 of 3 processes are left"),
        "{cause}: {detail}"
    );
    assert_ended_early(&c);
}
