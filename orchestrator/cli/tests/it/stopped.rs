//! Tests of Ctrl-C: once finishes the runs in progress, twice stops at once.

use crate::common::{scripted, waiting};
use cvc_testkit::{Tool, process, require, wait_until};
use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::Duration,
};

/// Time limit for an event, long enough for a machine that is busy with other work.
const LIMIT: Duration = Duration::from_secs(90);
/// Message after the first signal.
const STOPPING: &str = "stopping after the current run";

/// Returns whether a process has a handler for this signal.
fn catches(pid: i32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status
        .lines()
        .find_map(|l| l.strip_prefix("SigCgt:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

#[test]
fn once_finishes_the_run_under_way_and_leaves_the_rest() {
    require!(Tool::Mpich);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (c, go) = waiting("once", "repeats = 3");
        let controller = c.start(&["run", "campaign.toml"]);
        wait_until("the first run", LIMIT, || {
            !c.events("run-started").is_empty()
        });
        controller.signal(signal);
        wait_until("it to hear the signal", LIMIT, || {
            controller.stderr_so_far().contains(STOPPING)
        });
        std::fs::write(&go, "").expect("writes");
        let output = controller.wait(LIMIT).expect(130);
        assert!(
            output.stderr.contains(STOPPING) && output.stderr.contains("2 runs are left"),
            "{}",
            output.stderr
        );
        c.assert_whole(1);
        c.assert_nothing_left();
        assert_eq!(c.events("interrupted").len(), 1);
        c.run().expect(0);
        c.assert_whole(3);
    }
}

#[test]
fn twice_stops_at_once_and_nothing_lives_on() {
    require!(Tool::Mpich);
    let c = scripted(
        "twice",
        "trap '' TERM INT; echo 'Time step 1'; sleep 600 & wait; sleep 600",
        "repeats = 2",
    );
    let controller = c.start(&["run", "campaign.toml"]);
    wait_until("the program", LIMIT, || {
        c.processes()
            .iter()
            .any(|(_, line)| line.contains("sleep 600"))
    });
    controller.signal(Signal::SIGINT);
    // wait, because two pending signals of one kind would be merged
    wait_until("it to hear the signal", LIMIT, || {
        controller.stderr_so_far().contains(STOPPING)
    });
    // a second signal within this time would count as part of the first
    wait_until("it to hear another", LIMIT, || {
        controller.signal(Signal::SIGINT);
        controller.stderr_so_far().contains("stopping now")
    });
    // the program would continue for much longer
    let output = controller.wait(LIMIT).expect(130);
    assert!(
        output.stderr.contains("stopping now") && output.stderr.contains("2 runs are left"),
        "{}",
        output.stderr
    );
    c.assert_nothing_left();
    assert!(c.finishes().is_empty() && c.events("run-abandoned").len() == 1);
    // the interrupted run is repeated, and the interruption does not count as an attempt
    c.put("bin/script.sh", "sleep 0.05; echo SUCCESS");
    c.run().expect(0);
    c.assert_whole(2);
    assert!(c.events("run-intended").iter().all(|e| e["attempt"] == 1));
}

#[test]
fn before_the_first_run_it_stops_too() {
    require!(Tool::Mpich);
    let c = scripted("early", "sleep 0.2; echo SUCCESS", "repeats = 20");
    for delay_ms in [0, 30, 90] {
        let controller = c.start(&["run", "campaign.toml"]);
        // before cvc has a handler, the signal ends it like any program
        wait_until("it to catch the signal", LIMIT, || {
            catches(controller.pid(), Signal::SIGINT)
        });
        std::thread::sleep(Duration::from_millis(delay_ms));
        controller.signal(Signal::SIGINT);
        controller.wait(LIMIT).expect(130);
        c.assert_nothing_left();
    }
}

#[test]
fn once_the_campaign_has_ended_a_signal_ends_the_writing_of_its_report() {
    require!(Tool::Mpich);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let c = scripted("ended", "", "repeats = 2");
        let (first, go) = (c.dir().join("first"), c.dir().join("go"));
        let wait = format!("until [ -e {} ]; do sleep 0.05; done", go.display());
        c.script_app(
            "script",
            &format!(
                "sleep 0.1\nif [ -e {0} ]; then {wait}; fi\ntouch {0}\necho SUCCESS",
                first.display()
            ),
            "",
        );
        let controller = c.start(&["run", "campaign.toml"]);
        wait_until("the second run", LIMIT, || {
            c.events("run-started").len() == 2
        });
        // a report that never ends, because it reads a pipe that nothing is written to
        let run = c.finishes().into_keys().next().expect("the first run");
        let records = c.run_dir(&run).join("records.jsonl");
        std::fs::remove_file(&records).expect("removes");
        nix::unistd::mkfifo(&records, nix::sys::stat::Mode::S_IRWXU).expect("makes");
        std::fs::write(&go, "").expect("writes");
        wait_until("the end of the campaign", LIMIT, || {
            c.events("completed").len() == 1
        });
        wait_until("nothing to be at stake", LIMIT, || {
            !catches(controller.pid(), signal)
        });
        controller.signal(signal);
        assert_eq!(controller.wait(LIMIT).code, None, "it ends by {signal}");
        c.assert_nothing_left();
    }
}

#[test]
fn once_the_campaign_has_ended_a_signal_ends_the_waiting_for_a_reader() {
    require!(Tool::Mpich);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // more events than a small pipe can hold
        let c = scripted("unread", "echo SUCCESS", "repeats = 24");
        let mut child = c
            .command(&["run", "campaign.toml", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let out = child.stdout.take().expect("a pipe");
        fcntl(&out, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
        let pid = i32::try_from(child.id()).expect("a pid");
        wait_until("the end of the campaign", LIMIT, || {
            c.events("completed").len() == 1
        });
        wait_until("nothing to be at stake", LIMIT, || !catches(pid, signal));
        kill(Pid::from_raw(pid), signal).expect("sends");
        assert_eq!(child.wait().expect("ends").signal(), Some(signal as i32));
        c.assert_nothing_left();
    }
}

#[test]
fn a_campaign_runs_where_children_were_ignored_at_its_start() {
    require!(Tool::Mpich, Tool::Python);
    let c = scripted("ignored", "echo SUCCESS", "repeats = 1");
    let cvc = c.command(&["run", "campaign.toml"]);
    let mut command = Command::new(Tool::Python.find().expect("the test requires it"));
    let ignore = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])";
    command
        .args(["-c", ignore])
        .arg(cvc.get_program())
        .args(cvc.get_args())
        .current_dir(c.dir());
    command.envs(
        cvc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let output = command.output().expect("python3");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    c.assert_whole(1);
}

/// Shutdowns, `systemctl stop`, `scancel` and batch limits send such signals.
#[test]
fn a_signal_to_every_process_fails_no_run() {
    require!(Tool::Mpich);
    let (c, go) = waiting("everybody", "repeats = 2\nretries = 0");
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let before = c.events("run-started").len();
        let controller = c.start(&["run", "campaign.toml"]);
        wait_until("the run", LIMIT, || c.events("run-started").len() > before);
        wait_until("the program", LIMIT, || {
            c.processes()
                .iter()
                .any(|(_, line)| line.contains("script.sh") && !line.contains("mpiexec"))
        });
        // the controller may be the last to receive the signal
        for (pid, _) in c
            .processes()
            .into_iter()
            .filter(|(pid, _)| *pid != controller.pid())
        {
            process::signal(pid, signal);
        }
        controller.signal(signal);
        controller.wait(LIMIT).expect(130);
        assert_eq!(c.failures(), Vec::new());
        c.assert_nothing_left();
    }
    assert_eq!(c.events("run-abandoned").len(), 2);
    std::fs::write(&go, "").expect("writes");
    c.run().expect(0);
    c.assert_whole(2);
    assert!(c.events("run-intended").iter().all(|e| e["attempt"] == 1));
}

#[test]
fn a_signal_to_the_processes_of_a_run_alone_fails_it() {
    require!(Tool::Mpich);
    let (c, _) = waiting("alone", "repeats = 1\nretries = 0");
    let controller = c.start(&["run", "campaign.toml"]);
    wait_until("the run", LIMIT, || !c.events("run-started").is_empty());
    wait_until("the program", LIMIT, || {
        c.processes()
            .iter()
            .any(|(_, line)| line.contains("script.sh") && !line.contains("mpiexec"))
    });
    for (pid, _) in c
        .processes()
        .into_iter()
        .filter(|(pid, _)| *pid != controller.pid())
    {
        process::signal(pid, Signal::SIGTERM);
    }
    controller.wait(LIMIT).expect(10);
    let failures = c.failures();
    assert_eq!(failures.len(), 1, "{:?}", c.events("run-abandoned"));
    let (cause, detail) = &failures[0];
    assert_eq!(cause, "ended-from-outside", "{detail}");
    assert!(
        detail.contains("got SIGTERM") && detail.contains("which cvc did not send"),
        "{detail}"
    );
    c.assert_nothing_left();
}
