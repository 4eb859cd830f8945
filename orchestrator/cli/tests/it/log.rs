//! Tests of the log of a session: it suffices to find why a run failed, and it contains no secret.

use crate::{cluster_faults::steps, common::scripted};
use cvc_testkit::{Campaign, Tool, require};
use std::fs;

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY";
const PRINTED: &str = "correct-horse-battery";

/// Returns the logs of all sessions of a campaign.
fn logs(c: &Campaign) -> Vec<String> {
    let directory = c.root().join("logs");
    let mut files: Vec<_> = fs::read_dir(&directory)
        .expect("logs/")
        .map(|e| e.expect("an entry").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|f| fs::read_to_string(f).expect("a log"))
        .collect()
}

#[test]
fn the_log_alone_tells_why_a_run_failed() {
    require!(Tool::Mpich);
    let c = scripted(
        "log-fails",
        "echo 'no mesh of that name: cube17' >&2; exit 3",
        "repeats = 1\nretries = 0",
    );
    c.cvc(&["run", "campaign.toml"]).expect(10);
    let logs = logs(&c);
    assert_eq!(logs.len(), 1);
    let log = &logs[0];
    let line = |parts: &[&str]| log.lines().find(|l| parts.iter().all(|p| l.contains(p)));
    // start and end of the session
    assert!(
        line(&["session began", "run campaign.toml"]).is_some()
            && line(&["session ended", "failed: 1"]).is_some(),
        "{log}"
    );
    // the failed command, with its run, duration, exit code and output
    let launch = line(&["command failed", "mpiexec"]).unwrap_or_else(|| panic!("{log}"));
    for part in [
        "campaign{name=log-fails}",
        "run{run=",
        "site=local",
        "attempt{",
        "number=1",
        "seconds=",
        "exit=3",
        "output=\"no mesh of that name: cube17",
    ] {
        assert!(launch.contains(part), "{part} in {launch}");
    }
    // the outcome of the run
    assert!(
        line(&["run failed", "cause=", "detail="]).is_some(),
        "{log}"
    );
    // each session has a separate log
    c.cvc(&["run", "campaign.toml", "--retry-failed"])
        .expect(10);
    assert_eq!(self::logs(&c).len(), 2);
}

/// Sites are opened by separate tasks, whose commands must name the campaign and site, too.
#[test]
fn on_a_cluster_every_command_names_its_campaign_and_site() {
    require!(Tool::Lab, Tool::Mpich5);
    let script = "echo 'no mesh of that name: cube17' >&2; exit 3";
    let on = steps::scripted(
        2,
        "log-cluster",
        "",
        script,
        "mpi = \"mpich5\"\nmapping = \"2Nx1P\"",
        "repeats = 1\nretries = 0",
    );
    on.start(&["run", "campaign.toml"])
        .wait(crate::common::cluster::LIMIT)
        .expect(10);
    let log = logs(&on.campaign).concat();
    let commands: Vec<&str> = log.lines().filter(|l| l.contains("command=")).collect();
    assert!(commands.len() > 5, "{log}");
    for line in commands {
        assert!(
            line.contains("campaign{name=log-cluster}:") && line.contains("site=lab"),
            "{line}"
        );
    }
    // the agent's log: what it started on which node, and the program's output
    let runs = fs::read_dir(on.campaign.root().join("runs"))
        .expect("runs/")
        .map(|e| e.expect("an entry").path());
    let failed = runs
        .filter(|p| p.to_string_lossy().ends_with(".failed-1"))
        .collect::<Vec<_>>();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let trace = fs::read_to_string(failed[0].join("agent-trace.log")).expect("the agent's log");
    let launch = trace
        .lines()
        .find(|l| l.contains("mpiexec"))
        .unwrap_or_else(|| panic!("{trace}"));
    assert!(
        launch.contains("run{run=")
            && launch.contains("exit=3")
            && launch.contains("no mesh of that name: cube17"),
        "{launch}"
    );
}

#[test]
fn no_secret_is_in_the_log_nor_on_the_terminal() {
    require!(Tool::Mpich);
    let mut c = scripted(
        "log-secrets",
        &format!("echo 'cannot log in: password={PRINTED}' >&2; exit 1"),
        "repeats = 1\nretries = 0",
    );
    c.env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("SITE_TOKEN", SECRET)
        .env("CVC_LOG", "debug");
    let output = c.cvc(&["run", "campaign.toml"]).expect(10);
    assert!(
        output.stderr.contains("command failed") && output.stderr.contains("password=[redacted]"),
        "{}",
        output.stderr
    );
    for log in logs(&c) {
        assert!(log.contains("password=[redacted]"), "{log}");
        for secret in [KEY, SECRET, PRINTED] {
            assert!(!log.contains(secret), "{secret} in {log}");
        }
    }
    let terminal: String = output
        .stderr
        .lines()
        .filter(|l| l.contains("cvc_"))
        .collect();
    for secret in [KEY, SECRET, PRINTED] {
        assert!(!terminal.contains(secret), "{secret} in {terminal}");
    }
}
