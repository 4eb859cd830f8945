//! Targets for the output of Slurm's tools.

use async_trait::async_trait;
use camino::Utf8Path;
use cvc_core::nodelist;
use cvc_engine::host::{Host, HostError, Output};
use cvc_sites::slurm::{
    Client, JobInfo, SlurmClock, read_sacct, read_scontrol, read_sinfo, read_squeue_json,
    read_squeue_text,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The user and the job name that the queries are for.
const USER: &str = "ada";
const NAME: &str = "cvc-run";

/// A simulated login node whose tools print these texts.
struct Login {
    squeue: String,
    sacct: String,
}

#[async_trait]
impl Host for Login {
    fn name(&self) -> &str {
        "login"
    }

    async fn run(
        &self,
        argv: &[String],
        _: &BTreeMap<String, String>,
        _: Duration,
    ) -> Result<Output, HostError> {
        let text = match argv[0].as_str() {
            "id" => USER,
            "squeue" => &self.squeue,
            "sacct" => &self.sacct,
            "sh" => "/usr/share/zoneinfo/UTC\n+0000",
            other => panic!("{other} is not asked"),
        };
        Ok(Output {
            code: Some(0),
            stdout: text.to_owned(),
            stderr: String::new(),
        })
    }

    async fn put(&self, _: &[u8], to: &Utf8Path) -> Result<(), HostError> {
        panic!("{to} is not written")
    }

    async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError> {
        panic!("{from} is not read")
    }
}

/// Returns the job that the client finds in these answers.
fn found(squeue: &str, sacct: &str) -> Option<JobInfo> {
    let login = Login {
        squeue: squeue.to_owned(),
        sacct: sacct.to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let client = Client::with_patience(Arc::new(login), Duration::ZERO);
    let job = runtime.block_on(client.find(NAME)).ok().flatten()?;
    assert_eq!(job.name, NAME);
    assert!(
        job.user.as_deref().is_none_or(|user| user == USER),
        "a job of {:?}",
        job.user
    );
    Some(job)
}

/// Checks the properties that every parsed job must have.
fn sound(job: &JobInfo) {
    assert!(!job.id.to_string().is_empty());
    assert!(
        job.time_limit_s.is_none_or(|limit| limit.is_finite()),
        "{job:?}"
    );
    // call everything that is shown about a job
    let _ = (job.stage(), job.state.to_string(), job.state.is_held());
}

pub(crate) const JSON_WORDS: &[&str] = &[
    "\"jobs\"",
    "\"errors\"",
    "\"job_id\"",
    "\"user_name\": \"eve\"",
    "\"user_name\": \"ada\"",
    "\"name\": \"cvc-run\"",
    "\"job_state\"",
    "{\"set\": true, \"infinite\": false, \"number\": ",
    "\"exit_code\"",
    "\"n[0-4095]\"",
    "\"return_code\"",
    "null",
    "[[[[",
];

/// Checks the parser of `squeue --json`.
pub(crate) fn squeue_json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = read_squeue_json(&text);
    if let Ok(jobs) = &read {
        jobs.iter().for_each(sound);
    }
    if let Some(job) = found(&text, "") {
        let jobs = read.expect("found in an answer that can be read");
        assert!(
            jobs.iter()
                .any(|j| j.id == job.id && j.user.as_deref().is_none_or(|user| user == USER))
        );
    }
}

pub(crate) const TEXT_WORDS: &[&str] = &[
    "|",
    "\n",
    "|RUNNING|",
    "|CANCELLED by 0|",
    "cvc-run",
    "n[1-3,07-10]",
    "[0-4095]",
    "2026-11-21T18:11:58",
    "UNLIMITED",
    "2-03:00:00",
    "(null)",
    "JobId=",
    " JobState=",
    " NodeList=",
    "None assigned",
    "0:15",
    "9999-12-31T23:59:59",
    "-9999-01-01T00:00:00",
];

/// Checks the parser of `squeue -o`.
pub(crate) fn squeue_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(jobs) = read_squeue_text(&text, &SlurmClock::default()) {
        jobs.iter().for_each(sound);
        assert_eq!(
            jobs.len(),
            text.lines().filter(|line| !line.trim().is_empty()).count()
        );
    }
    found(&text, "");
}

/// Checks the parser of `sacct`.
pub(crate) fn sacct(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(jobs) = read_sacct(&text, &SlurmClock::default()) {
        jobs.iter().for_each(sound);
        assert!(jobs.len() <= text.lines().count());
    }
    found("{\"jobs\": [], \"errors\": []}", &text);
}

/// Checks the parser of `scontrol show job`.
pub(crate) fn scontrol(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(jobs) = read_scontrol(&text, &SlurmClock::default()) {
        jobs.iter().for_each(sound);
        assert!(jobs.len() <= text.lines().count());
    }
}

/// Checks the parser of `sinfo`.
pub(crate) fn sinfo(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert!(read_sinfo(&text).len() <= text.lines().count());
}

pub(crate) const LIST_WORDS: &[&str] = &[
    "[",
    "]",
    ",",
    "-",
    "[0-9]",
    "[001-100]",
    "[0-99]",
    "n",
    "18446744073709551615",
    "é",
];

/// Checks the parser of node lists.
pub(crate) fn node_list(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match nodelist::expand(&text) {
        Ok(nodes) => {
            assert!(nodes.len() <= 1 << 20);
            if nodes.len() < 200
                && !nodes
                    .iter()
                    .any(|node| node.contains([',', '[', ']']) || node.trim().is_empty())
            {
                let short = nodelist::compress(&nodes);
                assert_eq!(nodelist::expand(&short).as_ref(), Ok(&nodes), "{short}");
            }
        }
        Err(error) => assert!(
            error.column >= 1 && error.column <= text.len() + 1,
            "{error}"
        ),
    }
}
