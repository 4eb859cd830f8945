//! Starts shepherds, the processes that supervise runs, and communicates with them.

use super::error::RunError;
use crate::host::THIS_MACHINE;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::log::{Ended, command_event};
use cvc_os::proc::ProcessId;
use cvc_probe::shepherd::{self, Exit, Job};
use parking_lot::Mutex;
use std::{
    io,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take},
    process::{Child, ChildStdin, ChildStdout},
    task::JoinHandle,
};

/// Time limit for a shepherd to identify itself, even on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of bytes read of a shepherd's answers.
const ANSWER_BYTES: u64 = 4096;

/// Answers of a shepherd: its process, and later the end of the run.
type Answers = BufReader<Take<ChildStdout>>;

/// A running shepherd. Dropping this value closes the shepherd's input; the shepherd then ends the run.
#[derive(Debug)]
pub struct Shepherd {
    child: Child,
    /// The shepherd's standard input. It is kept separately from the child, because waiting for a child closes the child's input, which would end the
    /// run.
    line: ChildStdin,
    answers: Answers,
    /// Process of the shepherd.
    pub id: ProcessId,
    exit_file: Utf8PathBuf,
    /// The command that the shepherd starts; `None` once its end is logged.
    argv: Option<Vec<String>>,
    began: Instant,
    stderr: Utf8PathBuf,
}

/// Starts shepherds. A spare shepherd already waits for the next job, so that no run waits for the start of a program.
#[derive(Debug)]
pub struct Shepherds {
    /// Program and arguments of a shepherd.
    program: Vec<String>,
    spare: Mutex<Option<JoinHandle<io::Result<Child>>>>,
}

impl Shepherds {
    /// Creates a starter of shepherds, with this program and its arguments.
    pub fn new(program: Vec<String>) -> Self {
        Self {
            program,
            spare: Mutex::default(),
        }
    }

    /// Starts a spare shepherd that waits for the next job, unless a spare one exists. The spare shepherd ends together with this process.
    pub(crate) fn prepare(&self) {
        let mut spare = self.spare.lock();
        if spare.is_none() {
            let program = self.program.clone();
            *spare = Some(tokio::task::spawn_blocking(move || spawn(&program)));
        }
    }

    /// Returns a shepherd that waits for a job: the spare one, or a new one.
    async fn take(&self) -> io::Result<Child> {
        let spare = self.spare.lock().take();
        if let Some(spare) = spare
            && let Ok(Ok(mut child)) = spare.await
            // the spare shepherd may have ended meanwhile
            && matches!(child.try_wait(), Ok(None))
        {
            return Ok(child);
        }
        spawn(&self.program)
    }

    /// Sends a job to a shepherd, and waits until the shepherd has identified itself.
    pub(crate) async fn start(&self, job: &Job, job_file: &Utf8Path) -> Result<Shepherd, RunError> {
        let fail = |problem: String| RunError::Shepherd {
            program: self.program.join(" "),
            problem,
        };
        let json = serde_json::to_vec_pretty(job).map_err(|e| fail(e.to_string()))?;
        std::fs::write(job_file, json).map_err(|e| fail(format!("{job_file}: {e}")))?;
        let order = shepherd::order(job_file.as_std_path()).map_err(|e| fail(e.to_string()))?;
        let mut child = self.take().await.map_err(|e| fail(e.to_string()))?;
        let (Some(mut line), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail(
                "internal error (please report): it was started without standard streams".into(),
            ));
        };
        // if the shepherd has ended, reading its answer shows that
        let _ = line.write_all(&order).await;
        let _ = line.flush().await;
        let (mut answers, mut first) = (BufReader::new(out.take(ANSWER_BYTES)), String::new());
        let answer = tokio::time::timeout(READY_LIMIT, answers.read_line(&mut first)).await;
        if let Ok(id) = serde_json::from_str(&first) {
            let exit_file = Utf8PathBuf::from(job.exit_file.to_string_lossy().into_owned());
            let stderr = Utf8PathBuf::from(job.stderr.to_string_lossy().into_owned());
            let (argv, began) = (Some(job.argv.clone()), Instant::now());
            return Ok(Shepherd {
                child,
                line,
                answers,
                id,
                exit_file,
                argv,
                began,
                stderr,
            });
        }
        if answer.is_err() {
            let _ = child.kill().await;
            return Err(fail(format!(
                "it did not identify itself within {} s",
                READY_LIMIT.as_secs()
            )));
        }
        drop(line);
        let status = child.wait().await.map_err(|e| fail(e.to_string()))?;
        let message = std::fs::read_to_string(shepherd::error_file(job_file.as_std_path()))
            .unwrap_or_default();
        Err(fail(format!(
            "it ended at once ({status}): {}",
            message.trim()
        )))
    }
}

/// Starts a shepherd process, which waits for its job.
fn spawn(program: &[String]) -> io::Result<Child> {
    let (command, args) = program
        .split_first()
        .ok_or_else(|| io::Error::other("it has no name"))?;
    tokio::process::Command::new(command)
        .args(args)
        // so that the shepherd has no private data of the caller
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // once it has a job, the shepherd writes to a file next to the job
        .stderr(Stdio::null())
        // a Ctrl-C on the terminal is for the controller only
        .process_group(0)
        .spawn()
}

impl Shepherd {
    /// Waits for the end of the run. Returns how the launcher ended; `None` if the shepherd left no exit file.
    pub async fn exit(&mut self) -> Option<Exit> {
        // the shepherd's next answer confirms the exit file; if there is none, the shepherd has ended. Waiting for its process would take longer
        let _ = self.answers.fill_buf().await;
        let exit: Option<Exit> = std::fs::read(&self.exit_file)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(argv) = self.argv.take() {
            self.log_end(&argv, exit.as_ref());
        }
        exit
    }

    /// Logs how the launcher of the run ended.
    fn log_end(&self, argv: &[String], exit: Option<&Exit>) {
        let message = std::fs::read(&self.stderr)
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .unwrap_or_default();
        let why = exit.and_then(|e| {
            e.start_error
                .clone()
                .or_else(|| e.ended_by.map(|by| format!("ended by {by:?}; {message}")))
        });
        match (exit, &why) {
            (Some(_), Some(why)) => {
                command_event(THIS_MACHINE, argv, self.began.elapsed(), Ended::Failed(why))
            }
            (Some(exit), None) => command_event(
                THIS_MACHINE,
                argv,
                self.began.elapsed(),
                Ended::Exit(exit.code, &message),
            ),
            (None, _) => command_event(
                THIS_MACHINE,
                argv,
                self.began.elapsed(),
                Ended::Failed(&"its shepherd was lost"),
            ),
        }
    }

    /// Returns whether the shepherd is still running.
    pub fn at_work(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the run, and waits for its end.
    pub async fn end(&mut self) -> Option<Exit> {
        // if the shepherd has ended by itself, nobody reads this
        let _ = self.line.write_all(b"kill\n").await;
        let _ = self.line.flush().await;
        match tokio::time::timeout(Duration::from_secs(20), self.exit()).await {
            Ok(exit) => exit,
            Err(_) => {
                let mut all = cvc_os::proc::descendants(self.id.pid);
                all.push(self.id);
                cvc_os::proc::kill_all(&all);
                self.exit().await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    use std::collections::BTreeMap;

    /// A script that answers a job as a shepherd does, and then waits for the line that ends it.
    const FAKE: &str =
        "read -r order && echo \"{\\\"pid\\\":$$,\\\"start_ticks\\\":1}\" && read -r word";

    fn shepherds(script: &str) -> Shepherds {
        Shepherds::new(["sh", "-c", script].map(str::to_owned).into())
    }

    fn job(dir: &Utf8Path) -> Job {
        Job {
            argv: vec!["true".into()],
            env: BTreeMap::new(),
            cwd: dir.into(),
            private_dir: None,
            stdout: dir.join("stdout").into(),
            stderr: dir.join("stderr").into(),
            pid_file: dir.join("shepherd.json").into(),
            exit_file: dir.join("exit.json").into(),
            timeout_s: 60.0,
            max_output_bytes: 1 << 20,
            ends_with_controller: true,
        }
    }

    /// Returns the process number of the spare shepherd.
    async fn waiting(shepherds: &Shepherds) -> u32 {
        shepherds.prepare();
        let child = shepherds.take().await.expect("starts");
        let pid = child.id().expect("runs");
        *shepherds.spare.lock() = Some(tokio::spawn(async { Ok(child) }));
        pid
    }

    #[tokio::test]
    async fn the_shepherd_that_waits_gets_the_next_job() {
        let temporary = temporary_dir();
        let (dir, shepherds) = (temporary.1.as_path(), shepherds(FAKE));
        let first = waiting(&shepherds).await;
        shepherds.prepare();
        let mut started = shepherds
            .start(&job(dir), &dir.join("job.json"))
            .await
            .expect("starts");
        assert_eq!(started.id.pid, first);
        let mut second = shepherds
            .start(&job(dir), &dir.join("job.json"))
            .await
            .expect("starts without one that waits");
        assert_ne!(second.id.pid, first);
        started.end().await;
        second.end().await;
    }

    #[tokio::test]
    async fn one_that_was_ended_while_it_waited_is_replaced() {
        let temporary = temporary_dir();
        let (dir, shepherds) = (temporary.1.as_path(), shepherds(FAKE));
        let first = waiting(&shepherds).await;
        kill(Pid::from_raw(first as i32), Signal::SIGKILL).expect("is there");
        // the parent notices the end later
        while cvc_os::proc::ProcessId::of(first).is_some_and(|p| p.is_alive()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut started = shepherds
            .start(&job(dir), &dir.join("job.json"))
            .await
            .expect("starts");
        assert_ne!(started.id.pid, first);
        started.end().await;
    }

    #[tokio::test]
    async fn a_program_that_is_no_shepherd_is_reported_with_its_exit() {
        let temporary = temporary_dir();
        let dir = temporary.1.as_path();
        let failed = shepherds("exit 3")
            .start(&job(dir), &dir.join("job.json"))
            .await
            .expect_err("no shepherd")
            .to_string();
        assert!(failed.contains("exit status: 3"), "{failed}");
        let missing = Shepherds::new(vec!["/nonexistent/cvc".into()])
            .start(&job(dir), &dir.join("job.json"))
            .await;
        assert!(
            missing
                .expect_err("no program")
                .to_string()
                .contains("No such file")
        );
    }

    fn temporary_dir() -> (tempfile::TempDir, Utf8PathBuf) {
        let temporary = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(temporary.path().to_owned()).expect("UTF-8");
        (temporary, path)
    }
}
