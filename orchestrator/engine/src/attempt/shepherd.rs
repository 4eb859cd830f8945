//! Starts a shepherd, and talks to it.

use super::error::RunError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::log::{Ended, command_event};
use cvc_probe::{
    proc::ProcessId,
    shepherd::{Exit, Job},
};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin},
};

/// Time for a shepherd to identify itself, also on a machine with much other work.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of its answer that are read at most.
const ANSWER_BYTES: u64 = 4096;

/// A running shepherd. Dropping it closes its input, and the shepherd ends the run by itself.
#[derive(Debug)]
pub(super) struct Shepherd {
    child: Child,
    /// Kept separately: waiting for a child closes its standard input, which would end the run.
    line: Option<ChildStdin>,
    /// Its process.
    pub id: ProcessId,
    exit_file: Utf8PathBuf,
    /// The command that it starts, until its end is logged.
    argv: Option<Vec<String>>,
    began: Instant,
    stderr: Utf8PathBuf,
}

impl Shepherd {
    /// Starts a shepherd and waits until it has identified itself.
    pub async fn start(program: &[String], job: &Job, job_file: &Utf8Path) -> Result<Self, RunError> {
        let fail = |problem: String| RunError::Shepherd { program: program.join(" "), problem };
        let json = serde_json::to_vec_pretty(job).map_err(|e| fail(e.to_string()))?;
        std::fs::write(job_file, json).map_err(|e| fail(format!("{job_file}: {e}")))?;
        let (command, args) = program.split_first().ok_or_else(|| fail("it has no name".into()))?;
        let log = std::fs::File::create(job_file.with_extension("err")).map_err(|e| fail(e.to_string()))?;
        let mut child = tokio::process::Command::new(command)
            .args(args)
            .arg(job_file)
            .env_clear()
            .envs(&job.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // a Ctrl-C of the terminal is for the controller
            .process_group(0)
            .spawn()
            .map_err(|e| fail(e.to_string()))?;
        let mut first = String::new();
        let answer = match child.stdout.take() {
            // it reads nothing back: a pipe that is closed does not disturb it
            Some(out) => tokio::time::timeout(READY_LIMIT, BufReader::new(out.take(ANSWER_BYTES)).read_line(&mut first)).await,
            None => Ok(Ok(0)),
        };
        if let Ok(id) = serde_json::from_str(&first) {
            let exit_file = Utf8PathBuf::from(job.exit_file.to_string_lossy().into_owned());
            let line = child.stdin.take();
            let stderr = Utf8PathBuf::from(job.stderr.to_string_lossy().into_owned());
            return Ok(Self { child, line, id, exit_file, argv: Some(job.argv.clone()), began: Instant::now(), stderr });
        }
        if answer.is_err() {
            let _ = child.kill().await;
            return Err(fail(format!("it did not identify itself within {} s", READY_LIMIT.as_secs())));
        }
        let status = child.wait().await.map_err(|e| fail(e.to_string()))?;
        let message = std::fs::read_to_string(job_file.with_extension("err")).unwrap_or_default();
        Err(fail(format!("it ended at once ({status}): {}", message.trim())))
    }

    /// Waits for the end of the run.
    pub async fn exit(&mut self) -> Option<Exit> {
        // the file tells how the run ended, whatever the wait returns
        let _ = self.child.wait().await;
        let exit: Option<Exit> = std::fs::read(&self.exit_file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(argv) = self.argv.take() {
            self.log_end(&argv, exit.as_ref());
        }
        exit
    }

    /// Logs how the launcher of the run ended.
    fn log_end(&self, argv: &[String], exit: Option<&Exit>) {
        let message = std::fs::read(&self.stderr).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
        let why = exit.and_then(|e| e.start_error.clone().or_else(|| e.ended_by.map(|by| format!("ended by {by:?}; {message}"))));
        match (exit, &why) {
            (Some(_), Some(why)) => command_event("localhost", argv, self.began.elapsed(), Ended::Failed(why)),
            (Some(exit), None) => command_event("localhost", argv, self.began.elapsed(), Ended::Exit(exit.code, &message)),
            (None, _) => command_event("localhost", argv, self.began.elapsed(), Ended::Failed(&"its shepherd was lost")),
        }
    }

    /// Whether it is still running.
    pub fn at_work(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the run, and waits for its end.
    pub async fn end(&mut self) -> Option<Exit> {
        if let Some(line) = self.line.as_mut() {
            // it may have ended by itself: then nobody reads
            let _ = line.write_all(b"kill\n").await;
            let _ = line.flush().await;
        }
        match tokio::time::timeout(Duration::from_secs(20), self.exit()).await {
            Ok(exit) => exit,
            Err(_) => {
                let mut all = cvc_probe::proc::descendants(self.id.pid);
                all.push(self.id);
                cvc_probe::proc::kill_all(&all);
                self.exit().await
            }
        }
    }
}
