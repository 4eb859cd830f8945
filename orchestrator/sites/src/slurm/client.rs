//! A client of Slurm, which runs Slurm's own tools on the host where they are installed.

use super::{
    clock::SlurmClock,
    error::SlurmError,
    info::{self, AnswerError, JobId, JobInfo},
    job::JobRequest,
    nodes::{self, NodeInfo},
    reason,
    shared::SharedClient,
    state::JobStage,
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

/// Time limit for one call of a tool. The tools give up by themselves when the controller has not answered for some tens of seconds.
const CALL_LIMIT: Duration = Duration::from_secs(120);
/// Default time to retry while the controller does not answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Delay between the first two queries; it doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum delay between queries.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Maximum number of job names in one query.
const MAX_NAMES: usize = 1000;
/// Time that a job waits before the reason for waiting is reported to the user.
const REPORT_AFTER: Duration = Duration::from_secs(3);

/// The result of a query for a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobLookup {
    /// The job, as Slurm reports it.
    Known(Box<JobInfo>),
    /// Neither the controller nor the accounting has the job: it was not submitted, ended long ago, or was forgotten. Only its files show its state.
    Unknown,
}

/// A client of one cluster. Clones share their state.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    host: Arc<dyn Host>,
    patience: Duration,
    clock: OnceCell<SlurmClock>,
    /// Whether `squeue --json` failed, or its output is too long.
    no_json: AtomicBool,
    /// The user whose jobs are queried.
    user: OnceCell<String>,
    /// Whether the list of completed jobs is the only accounting.
    no_accounting: AtomicBool,
    /// Merges concurrent queries for jobs.
    queries: SharedClient<BTreeMap<String, JobLookup>>,
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
    let mut lines: Vec<&str> = Vec::new();
    for line in message.lines().map(str::trim).filter(|l| !l.is_empty()) {
        // tools repeat their messages when they retry
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("; ")
}

impl Client {
    /// Creates a client that runs the tools on this host: a login node, a node of a job, or this machine.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self::with_patience(host, PATIENCE)
    }

    /// Creates a client that retries for this time while the controller does not answer.
    pub fn with_patience(host: Arc<dyn Host>, patience: Duration) -> Self {
        Self(Arc::new(Inner {
            host,
            patience,
            clock: OnceCell::new(),
            user: OnceCell::new(),
            no_json: AtomicBool::new(false),
            no_accounting: AtomicBool::new(false),
            queries: SharedClient::default(),
        }))
    }

    /// Checks once whether the controller answers this user.
    ///
    /// # Errors
    /// The controller does not answer; the error has the message of Slurm's tool.
    pub async fn ping(&self) -> Result<(), SlurmError> {
        let argv = words(&["squeue", "--me", "--noheader", "--format=%i"]);
        let output = self.run(&argv).await?;
        if output.code == Some(0) {
            Ok(())
        } else {
            Err(self.tool_error(&argv, &output))
        }
    }

    fn host(&self) -> String {
        self.0.host.name().to_owned()
    }

    async fn run(&self, argv: &[String]) -> Result<Output, HostError> {
        self.0.host.run(argv, &BTreeMap::new(), CALL_LIMIT).await
    }

    fn tool_error(&self, argv: &[String], output: &Output) -> SlurmError {
        let message = message(output);
        SlurmError::Tool {
            host: self.host(),
            tool: argv.join(" "),
            hint: reason::hint_for_tool(&message),
            message,
        }
    }

    /// Runs a read-only tool, and repeats it while the controller does not answer. If the tool fails for another reason, returns its output.
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

    async fn clock(&self) -> Result<&SlurmClock, SlurmError> {
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
                Ok(SlurmClock::new(name, offset).unwrap_or_default())
            })
            .await
    }

    /// Returns the user whose jobs are queried. Job names are public, so another user may have jobs of the same name.
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

    /// Submits a job, unless a job of its name exists already. After an error the caller can call this again; the job is not submitted twice.
    pub async fn submit(&self, request: &JobRequest) -> Result<JobId, SlurmError> {
        self.submit_after(request, None).await
    }

    /// Like [`Self::submit`], but ignores jobs of this name whose number is at most that of `past`, because they have ended.
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

    /// Like [`Self::submit_after`], but without a query for a job of this name. The caller has just found that none is later than `past`.
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
                // the request may have reached Slurm before the connection was lost
                Err(error @ HostError::Lost { .. }) => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            delays.pause().await;
            // the controller may have accepted the job although its answer did not arrive
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

    /// Queries the jobs of these names. Concurrent queries are merged into one call of squeue for the jobs in the controller's memory, and one more
    /// call for jobs that have ended.
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
        // an argument of a program is limited to 128 KiB
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

    /// Returns the latest job of this name, if Slurm has one.
    pub async fn find(&self, name: &str) -> Result<Option<JobInfo>, SlurmError> {
        match self.query(&[name]).await?.remove(name) {
            Some(JobLookup::Known(job)) => Ok(Some(*job)),
            Some(JobLookup::Unknown) | None => Ok(None),
        }
    }

    /// Queries the jobs in the controller's memory.
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
            // older versions ignore the arguments and list all jobs of all users: a long list is truncated
            let whole = output.code == Some(0) && output.stdout.len() < MAX_OUTPUT;
            match info::read_squeue_json(&output.stdout) {
                // older versions also list jobs of other users
                Ok(jobs) if whole => {
                    return Ok(jobs
                        .into_iter()
                        .filter(|j| j.user.as_deref().is_none_or(|u| u == user))
                        .collect());
                }
                // the controller may not have answered, which also gives an empty list and exit code 0: the text format distinguishes the two
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

    /// Queries ended jobs in the accounting, or in the list of completed jobs.
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
            // many sites have no such list or hide it from users: then the job is unknown
            return Ok(Vec::new());
        }
        info::read_sacct(&output.stdout, self.clock().await?)
            .map_err(|e| self.answer_error("sacct -c", e))
    }

    /// Cancels the jobs of this name and waits until they have disappeared. Succeeds if there are none.
    pub async fn cancel(&self, name: &str, limit: Duration) -> Result<(), SlurmError> {
        let (begin, mut delays) = (Instant::now(), Delays::doubling(FIRST_PAUSE, MAX_PAUSE));
        loop {
            let there: Vec<JobInfo> = self
                .in_memory(&[name])
                .await?
                .into_iter()
                .filter(|j| j.name == name && !matches!(j.stage(), JobStage::Ended(_)))
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
                .filter(|j| j.stage() != JobStage::Ending)
                .map(|j| j.id.to_string())
                .collect();
            if !live.is_empty() {
                let argv: Vec<String> = [vec!["scancel".to_owned()], live].concat();
                let output = self.ask(&argv).await?;
                // ignore a job that has ended meanwhile
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

    /// Waits until a job has its nodes; without `limit`, there is no time limit. Returns an error soon if the job can never start. Reports the reason
    /// for waiting from time to time.
    pub async fn wait_running(
        &self,
        name: &str,
        limit: Option<Duration>,
        mut report: impl FnMut(String) + Send,
    ) -> Result<JobInfo, SlurmError> {
        let (begin, mut delays, mut unknown) =
            (Instant::now(), Delays::doubling(FIRST_PAUSE, MAX_PAUSE), 0);
        loop {
            match self.query(&[name]).await?.remove(name) {
                Some(JobLookup::Known(job)) => {
                    unknown = 0;
                    match job.stage() {
                        JobStage::Running => return Ok(*job),
                        JobStage::Ended(end) => {
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
                        JobStage::Waiting | JobStage::Ending => {}
                    }
                    let late = limit.is_some_and(|l| begin.elapsed() >= l);
                    let hopeless = job
                        .reason
                        .as_deref()
                        .and_then(reason::explain)
                        .is_some_and(|e| e.hopeless)
                        || job.state.is_held();
                    // Slurm may not have considered the job yet: wait 10 s before trusting a reason that can never be resolved
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
                    // do not report a short wait
                    if begin.elapsed() >= REPORT_AFTER && job.stage() == JobStage::Waiting {
                        report(self.why_waiting(&job).await);
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

    /// Explains in plain words why a job waits, with a hint and the unavailable nodes.
    pub async fn why_waiting(&self, job: &JobInfo) -> String {
        let word = job.reason.as_deref().unwrap_or("Slurm gives no reason");
        let mut text = match reason::explain(word) {
            Some(explanation) => format!("{word}: {}; {}", explanation.means, explanation.hint),
            None => word.to_owned(),
        };
        // unavailable nodes are a further possible reason
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

    /// Returns all nodes. A node of several partitions is listed once for each.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, SlurmError> {
        let argv = words(&["sinfo", "-N", "--noheader", "-o", nodes::SINFO_FORMAT]);
        let output = self.ask(&argv).await?;
        if output.code != Some(0) {
            return Err(self.tool_error(&argv, &output));
        }
        Ok(nodes::read_sinfo(&output.stdout))
    }

    /// Returns Slurm's version, from `sinfo`.
    pub async fn version(&self) -> Result<String, SlurmError> {
        let argv = words(&["sinfo", "--version"]);
        let output = self.run(&argv).await?;
        // `slurm 23.11.4`; the word before the version varies between distributions
        match output.stdout.split_whitespace().last() {
            Some(version) if output.code == Some(0) => Ok(version.to_owned()),
            _ => Err(self.tool_error(&argv, &output)),
        }
    }
}

/// Parses the last line of sbatch's output: the job number and, after a semicolon, the cluster. The lines before may be a greeting of the site.
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

/// Adds jobs to the result. If several jobs have the same name, keeps the latest one. If several lines describe the same job, keeps the last line.
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

    /// A simulated login node. Two users have a job of one name, and one of the users also has an earlier one. Its squeue lists the jobs of all users
    /// and ignores the arguments.
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
        assert_eq!((found.id.number, found.stage()), (7, JobStage::Running));
    }

    /// The same login node, on which cancelled jobs are recorded and have then ended.
    #[derive(Default)]
    struct TwoUsersCancelling {
        cancelled: parking_lot::Mutex<Vec<String>>,
        is_announced_gone: std::sync::atomic::AtomicBool,
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
                self.is_announced_gone.store(true, Ordering::Relaxed);
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
        assert!(login.is_announced_gone.load(Ordering::Relaxed));
    }

    /// A simulated login node whose connection is lost while sbatch runs, and restored afterwards.
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
