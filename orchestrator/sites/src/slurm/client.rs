//! A client of Slurm that runs Slurm's own tools where they are.

use super::{
    clock::Clock,
    error::SlurmError,
    info::{self, AnswerError, JobId, JobInfo},
    job::JobRequest,
    nodes::{self, NodeInfo},
    reason,
    shared::Shared,
    state::Stage,
};
use crate::backoff::Delays;
use cvc_engine::host::{Host, HostError, MAX_OUTPUT, Output};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::OnceCell;

/// Time limit for one call of a tool: the tools themselves give up on a silent controller after some tens of seconds.
const CALL_LIMIT: Duration = Duration::from_secs(120);
/// Time limit for a controller that does not answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Delay between the first two questions; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest delay between questions.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Maximum number of jobs in one question.
const MAX_NAMES: usize = 1000;
/// Time after which the reason why a job waits is reported.
const REPORT_AFTER: Duration = Duration::from_secs(3);

/// The answer to a question about a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobLookup {
    /// Slurm knows it.
    Known(Box<JobInfo>),
    /// Neither the controller nor the accounting knows it: not submitted, long ended, or forgotten. Only its files tell.
    Unknown,
}

/// A client of one cluster. Clones are the same client.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    host: Arc<dyn Host>,
    patience: Duration,
    clock: OnceCell<Clock>,
    /// `squeue --json` did not work, or says more than is kept.
    no_json: AtomicBool,
    /// Whose jobs are ours.
    user: OnceCell<String>,
    /// The only accounting is the list of completed jobs.
    no_accounting: AtomicBool,
    /// Questions about jobs.
    queries: Shared<BTreeMap<String, JobLookup>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("host", &self.0.host.name())
            .finish_non_exhaustive()
    }
}

fn words(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|w| (*w).to_owned()).collect()
}

fn message(output: &Output) -> String {
    let message = if output.stderr.trim().is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    message
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

impl Client {
    /// A client whose tools run on this host: a login node, a node of a job, or this machine.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self::with_patience(host, PATIENCE)
    }

    /// A client with another limit on how long a controller may be away.
    pub fn with_patience(host: Arc<dyn Host>, patience: Duration) -> Self {
        Self(Arc::new(Inner {
            host,
            patience,
            clock: OnceCell::new(),
            user: OnceCell::new(),
            no_json: AtomicBool::new(false),
            no_accounting: AtomicBool::new(false),
            queries: Shared::default(),
        }))
    }

    fn host(&self) -> String {
        self.0.host.name().to_owned()
    }

    async fn run(&self, argv: &[String]) -> Result<Output, HostError> {
        self.0.host.run(argv, &BTreeMap::new(), CALL_LIMIT).await
    }

    fn tool_error(&self, argv: &[String], output: &Output) -> SlurmError {
        SlurmError::Tool {
            host: self.host(),
            tool: argv.join(" "),
            message: message(output),
        }
    }

    /// Runs a read-only tool, and repeats it while the controller does not answer. Other failures are returned.
    async fn ask(&self, argv: &[String]) -> Result<Output, SlurmError> {
        let (begin, mut delays) = (Instant::now(), Delays::doubling(FIRST_PAUSE, MAX_PAUSE));
        loop {
            let message = match self.run(argv).await {
                Ok(output) if output.code == Some(0) => return Ok(output),
                Ok(output) if !reason::is_transient(&message(&output)) => return Ok(output),
                Ok(output) => message(&output),
                Err(HostError::Timeout { limit_s, .. }) => format!("no answer within {limit_s} s"),
                Err(error) => return Err(error.into()),
            };
            if begin.elapsed() >= self.0.patience {
                let waited_s = begin.elapsed().as_secs_f64();
                return Err(SlurmError::Unreachable {
                    host: self.host(),
                    tool: argv.join(" "),
                    message,
                    waited_s,
                });
            }
            delays.pause().await;
        }
    }

    async fn clock(&self) -> Result<&Clock, SlurmError> {
        self.0
            .clock
            .get_or_try_init(|| async {
                let zone = self
                    .run(&words(&[
                        "sh",
                        "-c",
                        "echo ${TZ:-$(readlink -f /etc/localtime)}; date +%z",
                    ]))
                    .await?;
                let (name, offset) = zone
                    .stdout
                    .trim()
                    .rsplit_once('\n')
                    .unwrap_or(("", zone.stdout.trim()));
                Ok(Clock::new(name, offset).unwrap_or_default())
            })
            .await
    }

    /// The user whose jobs are asked for: names of jobs are no secret, and anybody may give his own the same.
    async fn user(&self) -> Result<&str, SlurmError> {
        let user = self.0.user.get_or_try_init(|| async {
            let output = self.run(&words(&["id", "-un"])).await?;
            let user = output
                .stdout
                .trim()
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned();
            if output.code == Some(0) && !user.is_empty() {
                Ok(user)
            } else {
                Err(self.tool_error(&words(&["id", "-un"]), &output))
            }
        });
        user.await.map(String::as_str)
    }

    fn answer_error(&self, tool: &str, problem: AnswerError) -> SlurmError {
        SlurmError::Answer {
            host: self.host(),
            tool: tool.to_owned(),
            problem,
        }
    }

    /// Submits a job, unless one of its name is known already. After any error it may be called again without submitting twice.
    pub async fn submit(&self, request: &JobRequest) -> Result<JobId, SlurmError> {
        self.submit_after(request, None).await
    }

    /// The same, but ignores jobs of this name up to this one, which are over: of an earlier life of the campaign, or of this one.
    pub async fn submit_after(
        &self,
        request: &JobRequest,
        past: Option<&JobId>,
    ) -> Result<JobId, SlurmError> {
        let counts = |job: &JobInfo| past.is_none_or(|past| past.number < job.id.number);
        if let Some(job) = self.find(&request.name).await?.filter(counts) {
            return Ok(job.id);
        }
        self.submit_new(request, past).await
    }

    /// The same where it is known that there is no later job of this name.
    pub async fn submit_new(
        &self,
        request: &JobRequest,
        past: Option<&JobId>,
    ) -> Result<JobId, SlurmError> {
        let script = request.script()?;
        let counts = |job: &JobInfo| past.is_none_or(|past| past.number < job.id.number);
        self.0
            .host
            .put(script.as_bytes(), &request.script_path())
            .await?;
        let mut argv = words(&["sbatch", "--parsable"]);
        argv.extend(request.settings.sbatch_args.iter().cloned());
        argv.push(request.script_path().into_string());
        let (begin, mut delays) = (Instant::now(), Delays::doubling(FIRST_PAUSE, MAX_PAUSE));
        loop {
            let problem = match self.run(&argv).await {
                Ok(output) if output.code == Some(0) => {
                    return read_id(&output.stdout).ok_or_else(|| self.tool_error(&argv, &output));
                }
                Ok(output) if !reason::is_transient(&message(&output)) => {
                    let message = message(&output);
                    let hint = reason::hint_for_refusal(&message);
                    return Err(SlurmError::Refused {
                        host: self.host(),
                        job: request.name.clone(),
                        message,
                        hint,
                    });
                }
                Ok(output) => message(&output),
                Err(HostError::Timeout { limit_s, .. }) => format!("no answer within {limit_s} s"),
                // it may have been on its way to Slurm
                Err(error @ HostError::Lost { .. }) => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            delays.pause().await;
            // the controller may have accepted the job without its answer arriving
            if let Some(job) = self.find(&request.name).await?.filter(counts) {
                return Ok(job.id);
            }
            if begin.elapsed() >= self.0.patience {
                let waited_s = begin.elapsed().as_secs_f64();
                return Err(SlurmError::Unreachable {
                    host: self.host(),
                    tool: argv.join(" "),
                    message: problem,
                    waited_s,
                });
            }
        }
    }

    /// What Slurm knows of the jobs of these names. All who ask at the same time share a call for the jobs that Slurm has in memory, and one
    /// more for those that have ended.
    pub async fn query(&self, names: &[&str]) -> Result<BTreeMap<String, JobLookup>, SlurmError> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let found = self
            .0
            .queries
            .ask(names, |names| self.query_now(names))
            .await?;
        let of = |name: &str| found.get(name).cloned().unwrap_or(JobLookup::Unknown);
        Ok(names
            .iter()
            .map(|name| ((*name).to_owned(), of(name)))
            .collect())
    }

    async fn query_now(
        &self,
        names: Vec<String>,
    ) -> Result<BTreeMap<String, JobLookup>, SlurmError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut found: BTreeMap<String, JobLookup> = names
            .iter()
            .map(|n| ((*n).to_owned(), JobLookup::Unknown))
            .collect();
        // an argument of a program may have 128 KiB
        for names in names.chunks(MAX_NAMES) {
            take(&mut found, self.in_memory(names).await?);
        }
        let missing: Vec<&str> = names
            .iter()
            .copied()
            .filter(|n| found.get(*n) == Some(&JobLookup::Unknown))
            .collect();
        for missing in missing.chunks(MAX_NAMES) {
            take(&mut found, self.ended(missing).await?);
        }
        Ok(found)
    }

    /// The latest job of this name, if Slurm knows one.
    pub async fn find(&self, name: &str) -> Result<Option<JobInfo>, SlurmError> {
        match self.query(&[name]).await?.remove(name) {
            Some(JobLookup::Known(job)) => Ok(Some(*job)),
            Some(JobLookup::Unknown) | None => Ok(None),
        }
    }

    /// Jobs that the controller has in memory.
    async fn in_memory(&self, names: &[&str]) -> Result<Vec<JobInfo>, SlurmError> {
        let user = self.user().await?;
        let common = [
            "squeue",
            "--all",
            "--states=all",
            &format!("--user={user}"),
            &format!("--name={}", names.join(",")),
        ];
        if !self.0.no_json.load(Ordering::Relaxed) {
            let argv = words(&[&common[..], &["--json"]].concat());
            let output = self.ask(&argv).await?;
            // older versions list all jobs of all users whatever is asked: a long list is cut off and incomplete
            let whole = output.code == Some(0) && output.stdout.len() < MAX_OUTPUT;
            match info::read_squeue_json(&output.stdout) {
                // older versions list those of others, too
                Ok(jobs) if whole => {
                    return Ok(jobs
                        .into_iter()
                        .filter(|j| j.user.as_deref().is_none_or(|u| u == user))
                        .collect());
                }
                // if the controller does not answer, the list is empty and the exit code 0: the text form tells them apart
                Err(AnswerError::Reported(_)) => {}
                Ok(_) | Err(_) => self.0.no_json.store(true, Ordering::Relaxed),
            }
        }
        let argv = words(&[&common[..], &["--noheader", "-o", info::SQUEUE_FORMAT]].concat());
        let output = self.ask(&argv).await?;
        if output.code != Some(0) {
            return Err(self.tool_error(&argv, &output));
        }
        info::read_squeue_text(&output.stdout, self.clock().await?)
            .map_err(|e| self.answer_error("squeue", e))
    }

    /// Jobs of the accounting, or of the list of completed jobs.
    async fn ended(&self, names: &[&str]) -> Result<Vec<JobInfo>, SlurmError> {
        let user = format!("--user={}", self.user().await?);
        let common = ["-n", "--parsable2", &user, "-S", "now-7days", "--name"];
        if !self.0.no_accounting.load(Ordering::Relaxed) {
            let mut argv = words(&["sacct", "-X"]);
            argv.extend(words(&common));
            argv.extend([
                names.join(","),
                "-o".to_owned(),
                info::SACCT_FORMAT.to_owned(),
            ]);
            let output = self.ask(&argv).await?;
            if output.code == Some(0)
                && !message(&output).contains("accounting storage is disabled")
            {
                return info::read_sacct(&output.stdout, self.clock().await?)
                    .map_err(|e| self.answer_error("sacct", e));
            }
            self.0.no_accounting.store(true, Ordering::Relaxed);
        }
        let mut argv = words(&["sacct", "-c"]);
        argv.extend(words(&common));
        argv.extend([
            names.join(","),
            "-o".to_owned(),
            info::SACCT_COMPLETION_FORMAT.to_owned(),
        ]);
        let output = self.ask(&argv).await?;
        if output.code != Some(0) {
            // many sites keep no such list or hide it from users: then the job is unknown
            return Ok(Vec::new());
        }
        info::read_sacct(&output.stdout, self.clock().await?)
            .map_err(|e| self.answer_error("sacct -c", e))
    }

    /// Cancels the jobs of this name and waits until they are gone. Succeeds if there are none.
    pub async fn cancel(&self, name: &str, limit: Duration) -> Result<(), SlurmError> {
        let (begin, mut delays) = (Instant::now(), Delays::doubling(FIRST_PAUSE, MAX_PAUSE));
        loop {
            let there: Vec<JobInfo> = self
                .in_memory(&[name])
                .await?
                .into_iter()
                .filter(|j| j.name == name && !matches!(j.stage(), Stage::Ended(_)))
                .collect();
            let Some(first) = there.first() else {
                return Ok(());
            };
            if begin.elapsed() >= limit {
                let state = first.state.to_string();
                return Err(SlurmError::StillThere {
                    name: name.to_owned(),
                    state,
                    limit_s: limit.as_secs_f64(),
                });
            }
            let live: Vec<String> = there
                .iter()
                .filter(|j| j.stage() != Stage::Ending)
                .map(|j| j.id.to_string())
                .collect();
            if !live.is_empty() {
                let argv: Vec<String> = [vec!["scancel".to_owned()], live].concat();
                let output = self.ask(&argv).await?;
                // one that has ended meanwhile is fine
                if output.code != Some(0)
                    && !message(&output).contains("Invalid job id")
                    && !message(&output).contains("already completing")
                {
                    return Err(self.tool_error(&argv, &output));
                }
            }
            delays.pause().await;
        }
    }

    /// Waits until a job has its nodes, without a limit as long as it takes. A job that can never start is an error at once. Reports from
    /// time to time what the job waits for.
    pub async fn wait_running(
        &self,
        name: &str,
        limit: Option<Duration>,
        mut tell: impl FnMut(String) + Send,
    ) -> Result<JobInfo, SlurmError> {
        let (begin, mut delays, mut unknown) =
            (Instant::now(), Delays::doubling(FIRST_PAUSE, MAX_PAUSE), 0);
        loop {
            match self.query(&[name]).await?.remove(name) {
                Some(JobLookup::Known(job)) => {
                    unknown = 0;
                    match job.stage() {
                        Stage::Running => return Ok(*job),
                        Stage::Ended(end) => {
                            let why = job
                                .exit
                                .map(|e| format!(", code {}, signal {}", e.code, e.signal))
                                .unwrap_or_default();
                            let state = job.state.to_string();
                            return Err(SlurmError::Ended {
                                job: job.id.to_string(),
                                name: name.to_owned(),
                                state,
                                end,
                                why,
                            });
                        }
                        Stage::Waiting | Stage::Ending => {}
                    }
                    let late = limit.is_some_and(|l| begin.elapsed() >= l);
                    let hopeless = job
                        .reason
                        .as_deref()
                        .and_then(reason::explain)
                        .is_some_and(|e| e.hopeless)
                        || job.state.is_held();
                    // a job that looks hopeless at first may not have been considered by Slurm yet
                    if late || (hopeless && begin.elapsed() >= Duration::from_secs(10)) {
                        let why = self.why_waiting(&job).await;
                        let limit_s = begin.elapsed().as_secs_f64();
                        return Err(SlurmError::Queue {
                            job: job.id.to_string(),
                            name: name.to_owned(),
                            limit_s,
                            why,
                        });
                    }
                    // a short wait is not worth a report
                    if begin.elapsed() >= REPORT_AFTER && job.stage() == Stage::Waiting {
                        tell(self.why_waiting(&job).await);
                    }
                }
                Some(JobLookup::Unknown) | None => {
                    unknown += 1;
                    if unknown >= 3 {
                        return Err(SlurmError::Unknown(name.to_owned()));
                    }
                }
            }
            delays.pause().await;
        }
    }

    /// The reason why a job waits in plain words, with its unavailable nodes and a hint.
    pub async fn why_waiting(&self, job: &JobInfo) -> String {
        let word = job.reason.as_deref().unwrap_or("Slurm gives no reason");
        let mut text = match reason::explain(word) {
            Some(explanation) => format!("{word}: {}; {}", explanation.means, explanation.hint),
            None => word.to_owned(),
        };
        // unavailable nodes are an additional reason
        if let Ok(nodes) = self.nodes().await {
            let mut away: Vec<String> = nodes
                .iter()
                .filter(|n| !n.is_usable())
                .map(|n| {
                    format!(
                        "{} {}{}",
                        n.name,
                        n.state,
                        n.reason
                            .as_ref()
                            .map(|r| format!(" ({r})"))
                            .unwrap_or_default()
                    )
                })
                .collect();
            away.dedup();
            if !away.is_empty() {
                text = format!(
                    "{text}; unavailable nodes (see `sinfo -R`): {}",
                    away.join(", ")
                );
            }
        }
        text
    }

    /// All nodes, once for each of their partitions.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, SlurmError> {
        let argv = words(&["sinfo", "-N", "--noheader", "-o", nodes::SINFO_FORMAT]);
        let output = self.ask(&argv).await?;
        if output.code != Some(0) {
            return Err(self.tool_error(&argv, &output));
        }
        Ok(nodes::read_sinfo(&output.stdout))
    }

    /// Slurm's version, from `sinfo`.
    pub async fn version(&self) -> Result<String, SlurmError> {
        let argv = words(&["sinfo", "--version"]);
        let output = self.run(&argv).await?;
        // `slurm 23.11.4`; the name before it differs from one distribution to the next
        match output.stdout.split_whitespace().last() {
            Some(version) if output.code == Some(0) => Ok(version.to_owned()),
            _ => Err(self.tool_error(&argv, &output)),
        }
    }

    /// Reserves nodes for this user from now on, if permitted. An existing reservation of this name is fine.
    pub async fn reserve(
        &self,
        name: &str,
        nodes: u32,
        partition: Option<&str>,
        minutes: u64,
    ) -> Result<(), SlurmError> {
        let user = self
            .run(&words(&["id", "-un"]))
            .await?
            .stdout
            .trim()
            .to_owned();
        let mut argv = words(&[
            "scontrol",
            "create",
            "reservation",
            &format!("reservationname={name}"),
            "starttime=now",
        ]);
        argv.extend([
            format!("duration={minutes}"),
            format!("users={user}"),
            format!("nodecnt={nodes}"),
        ]);
        argv.extend(partition.map(|p| format!("partitionname={p}")));
        let output = self.ask(&argv).await?;
        let exists = message(&output).to_lowercase().contains("already exists")
            || message(&output).contains("Duplicate reservation");
        if output.code == Some(0) || exists {
            Ok(())
        } else {
            Err(self.tool_error(&argv, &output))
        }
    }

    /// Removes a reservation, if it exists.
    pub async fn unreserve(&self, name: &str) -> Result<(), SlurmError> {
        let argv = words(&["scontrol", "delete", &format!("reservationname={name}")]);
        let output = self.ask(&argv).await?;
        let gone = message(&output)
            .to_lowercase()
            .contains("reservation is invalid");
        if output.code == Some(0) || gone {
            Ok(())
        } else {
            Err(self.tool_error(&argv, &output))
        }
    }
}

/// The number, and the cluster behind a semicolon. Lines before it may be a site's greeting.
fn read_id(answer: &str) -> Option<JobId> {
    let line = answer.lines().map(str::trim).rfind(|l| !l.is_empty())?;
    let (number, cluster) = line
        .split_once(';')
        .map_or((line, None), |(n, c)| (n, Some(c.to_owned())));
    Some(JobId {
        number: number.parse().ok()?,
        cluster,
    })
}

/// Of several jobs of one name the latest counts; of several lines for one job the last.
fn take(found: &mut BTreeMap<String, JobLookup>, jobs: Vec<JobInfo>) {
    for job in jobs {
        if let Some(place) = found.get_mut(&job.name) {
            let newer = match &*place {
                JobLookup::Known(known) => known.id.number <= job.id.number,
                JobLookup::Unknown => true,
            };
            if newer {
                *place = JobLookup::Known(Box::new(job));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8Path;

    /// A login node where two users have a job of one name, one of them an earlier one as well, and whose squeue lists those of all whatever is
    /// asked.
    struct TwoUsers;

    #[async_trait::async_trait]
    impl Host for TwoUsers {
        fn name(&self) -> &str {
            "login"
        }

        async fn run(
            &self,
            argv: &[String],
            _: &BTreeMap<String, String>,
            _: Duration,
        ) -> Result<Output, HostError> {
            let named = |name: &str, id: u64, user: &str, state: &str| serde_json::json!({ "job_id": id, "name": name, "user_name": user, "job_state": state, "nodes": "n1" });
            let job = |id: u64, user: &str, state: &str| named("cvc-demo-1", id, user, state);
            let stdout = match argv[0].as_str() {
                "id" => "ada\n".to_owned(),
                "squeue" => {
                    assert!(argv.iter().any(|word| word == "--user=ada"), "{argv:?}");
                    let others = [
                        job(8, "eve", "COMPLETED"),
                        job(5, "ada", "COMPLETED"),
                        named("cvc-demo-2", 9, "ada", "RUNNING"),
                    ];
                    let jobs = [&[job(7, "ada", "RUNNING")], &others[..]].concat();
                    serde_json::json!({ "jobs": jobs, "errors": [] }).to_string()
                }
                other => panic!("{other} is not asked"),
            };
            Ok(Output {
                code: Some(0),
                stdout,
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

    #[tokio::test]
    async fn neither_a_job_of_another_user_with_the_same_name_counts_nor_an_earlier_one() {
        let client = Client::new(Arc::new(TwoUsers));
        let found = client
            .find("cvc-demo-1")
            .await
            .expect("an answer")
            .expect("a job");
        assert_eq!((found.id.number, found.stage()), (7, Stage::Running));
    }

    /// The same login node; what is cancelled is written down, and has ended then.
    #[derive(Default)]
    struct TwoUsersCancelling {
        cancelled: parking_lot::Mutex<Vec<String>>,
        is_told_gone: std::sync::atomic::AtomicBool,
    }

    #[async_trait::async_trait]
    impl Host for TwoUsersCancelling {
        fn name(&self) -> &str {
            "login"
        }

        async fn run(
            &self,
            argv: &[String],
            env: &BTreeMap<String, String>,
            limit: Duration,
        ) -> Result<Output, HostError> {
            if argv[0] == "scancel" {
                self.cancelled.lock().extend(argv[1..].iter().cloned());
                return Ok(Output {
                    code: Some(0),
                    stdout: String::new(),
                    stderr: String::new(),
                });
            }
            let output = TwoUsers.run(argv, env, limit).await?;
            let stdout = if argv[0] == "squeue" && !self.cancelled.lock().is_empty() {
                self.is_told_gone.store(true, Ordering::Relaxed);
                serde_json::json!({ "jobs": [], "errors": [] }).to_string()
            } else {
                output.stdout.replace("COMPLETED", "RUNNING")
            };
            Ok(Output { stdout, ..output })
        }

        async fn put(&self, _: &[u8], _: &Utf8Path) -> Result<(), HostError> {
            Ok(())
        }

        async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError> {
            panic!("{from} is not read")
        }
    }

    #[tokio::test]
    async fn the_users_jobs_of_a_name_are_cancelled_and_no_others_and_waited_for() {
        let login = Arc::new(TwoUsersCancelling::default());
        let client = Client::new(Arc::clone(&login) as Arc<dyn Host>);
        client
            .cancel("cvc-demo-1", Duration::from_secs(5))
            .await
            .expect("cancelled");
        assert_eq!(
            *login.cancelled.lock(),
            ["7", "5"],
            "the user's own, and no other"
        );
        assert!(login.is_told_gone.load(Ordering::Relaxed));
    }

    /// A login node that is lost while sbatch runs there, and is back after it.
    #[derive(Default)]
    struct LostMeanwhile(parking_lot::Mutex<Vec<String>>);

    #[async_trait::async_trait]
    impl Host for LostMeanwhile {
        fn name(&self) -> &str {
            "login"
        }

        async fn run(
            &self,
            argv: &[String],
            _: &BTreeMap<String, String>,
            _: Duration,
        ) -> Result<Output, HostError> {
            self.0.lock().push(argv[0].clone());
            let stdout = match argv[0].as_str() {
                "id" => "ada\n".to_owned(),
                "sbatch" => {
                    let (during, message) = ("while sbatch ran".into(), "broken pipe".into());
                    return Err(HostError::Lost {
                        host: "login".into(),
                        during,
                        message,
                    });
                }
                "squeue" => {
                    let job = serde_json::json!({ "job_id": 9, "name": "cvc-7f3a", "user_name": "ada", "job_state": "PENDING", "nodes": "" });
                    serde_json::json!({ "jobs": [job], "errors": [] }).to_string()
                }
                other => panic!("{other} is not asked"),
            };
            Ok(Output {
                code: Some(0),
                stdout,
                stderr: String::new(),
            })
        }

        async fn put(&self, _: &[u8], _: &Utf8Path) -> Result<(), HostError> {
            Ok(())
        }

        async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError> {
            panic!("{from} is not read")
        }
    }

    #[tokio::test]
    async fn a_job_that_was_submitted_as_the_connection_broke_is_found_by_its_name() {
        let host = Arc::new(LostMeanwhile::default());
        let client = Client::new(Arc::clone(&host) as Arc<dyn Host>);
        let job = client
            .submit_new(&crate::slurm::job::tests::request(), None)
            .await
            .expect("a job");
        assert_eq!(job.number, 9);
        assert_eq!(
            host.0
                .lock()
                .iter()
                .filter(|program| *program == "sbatch")
                .count(),
            1,
            "not a second one"
        );
    }

    #[test]
    fn the_number_of_a_job_is_read_with_its_cluster() {
        assert_eq!(read_id("1234\n"), Some(JobId::new(1234)));
        assert_eq!(
            read_id("Welcome!\n77;big\n"),
            Some(JobId {
                number: 77,
                cluster: Some("big".into())
            })
        );
        assert_eq!(read_id("Submitted batch job"), None);
    }
}
