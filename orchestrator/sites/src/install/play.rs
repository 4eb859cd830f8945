//! Runs ansible-playbook in a separate process group, and reads its events as they are written. When it ends, all of its processes are ended.

use super::{
    InstallError,
    ansible::Ansible,
    playbook::PlaybookReader,
    report::{InstallEvent, InstallReport},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::StoreError;
use cvc_engine::host::{log_tool, tool};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
};

/// Environment variable that marks the processes of an installation.
const MARK: &str = "CVC_INSTALL";
/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum number of bytes of standard error that are kept.
const MAX_MESSAGE: usize = 64 << 10;

/// A run of ansible-playbook.
#[derive(Clone, Debug)]
pub(super) struct Play<'a> {
    pub site: &'a str,
    pub hosts: &'a [String],
    pub ansible: &'a Ansible,
    /// Directory that contains site.yml, roles and plugins.
    pub roles: &'a Utf8Path,
    /// Name of the playbook in this directory.
    pub playbook: &'static str,
    pub inventory: Utf8PathBuf,
    pub vars: Utf8PathBuf,
    pub check: bool,
    pub tags: &'a [String],
    pub only: Option<&'a str>,
    pub limit: Duration,
}

impl Play<'_> {
    fn command(&self, mark: &str, sockets: &Utf8Path) -> Command {
        let mut command = tool(&self.ansible.playbook);
        command
            .arg("--inventory")
            .arg(&self.inventory)
            .arg("--extra-vars")
            .arg(format!("@{}", self.vars));
        if self.check {
            command.arg("--check");
        }
        if !self.tags.is_empty() {
            command.arg("--tags").arg(self.tags.join(","));
        }
        if let Some(hosts) = self.only {
            command.arg("--limit").arg(hosts);
        }
        command
            .arg(self.roles.join(self.playbook))
            .current_dir(self.roles)
            .env("ANSIBLE_CONFIG", self.roles.join("ansible.cfg"))
            .env(
                "ANSIBLE_CALLBACK_PLUGINS",
                self.roles.join("callback_plugins"),
            )
            .env("ANSIBLE_STDOUT_CALLBACK", "cvc_events")
            .env("ANSIBLE_SSH_CONTROL_PATH_DIR", sockets)
            .env("ANSIBLE_NOCOLOR", "1")
            .env("ANSIBLE_DEPRECATION_WARNINGS", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Ansible refuses any other encoding
            .env("LC_ALL", "C.UTF-8")
            .env(MARK, mark)
            // nothing is written to this pipe: its end shows the callback that cvc has ended, for whatever reason
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Runs the playbook, and passes its events on.
    pub(super) async fn run(
        &self,
        stop_signal: &mut StopSignal,
        on: &mut (dyn FnMut(InstallEvent) + Send),
    ) -> Result<InstallReport, InstallError> {
        // a short path, because the paths of sockets have a maximum length
        let sockets = tempfile::Builder::new()
            .prefix("cvc-")
            .tempdir()
            .map_err(StoreError::io("make a directory in", std::env::temp_dir()))?;
        let directory = Utf8Path::from_path(sockets.path()).ok_or_else(|| InstallError::Path {
            path: sockets.path().display().to_string().into(),
        })?;
        let mark = format!(
            "{}-{}",
            std::process::id(),
            directory.file_name().unwrap_or_default()
        );
        let mut command = self.command(&mark, directory);
        let began = Instant::now();
        let mut child = command.spawn().map_err(|e| InstallError::NoAnsible {
            what: format!("cannot start {}: {e}", self.ansible.playbook),
            hint: "install ansible-core again".into(),
        })?;
        // take the pipe, because waiting for the child would close it
        let _line = child.stdin.take();
        let mut reader = PlaybookReader::new(self.site, self.check, self.hosts);
        let ended = tokio::select! {
            ended = follow(&mut child, &mut reader, on) => Ok(ended),
            () = stopped(stop_signal) => Err(InstallError::Interrupted { site: self.site.into() }),
            () = tokio::time::sleep(self.limit) => Err(InstallError::Timeout { site: self.site.into(), limit_s: self.limit.as_secs_f64() }),
        };
        if ended.is_err() {
            end(&mut child, &mark).await;
        }
        close(directory).await;
        log_tool(
            &command,
            began,
            &ended
                .as_ref()
                .map(|(code, message)| as_output(*code, message)),
        );
        let (status, message) = ended?;
        let whole = reader.is_whole;
        let report = reader.finish();
        if !report.failed.is_empty() {
            return Err(InstallError::Failed(Box::new(report)));
        }
        // code 2: a task failed, code 4: a host does not answer; the events have reported both
        if !whole || status != Some(0) {
            let how = status.map_or("was ended by a signal".to_owned(), |code| {
                format!("ended with code {code}")
            });
            let lines: Vec<&str> = message
                .lines()
                .filter(|l| !l.trim().is_empty() && !l.starts_with("[WARNING]"))
                .collect();
            return Err(InstallError::Playbook {
                how,
                message: lines[lines.len().saturating_sub(15)..].join("\n  "),
            });
        }
        Ok(report)
    }
}

/// Returns the end of the program as [`Output`], for the log.
fn as_output(code: Option<i32>, message: &str) -> Output {
    let status = ExitStatus::from_raw(code.map_or(Signal::SIGKILL as i32, |code| code << 8));
    Output {
        status,
        stdout: Vec::new(),
        stderr: message.as_bytes().to_vec(),
    }
}

/// Reads the program's events and messages until it ends.
async fn follow(
    child: &mut Child,
    reader: &mut PlaybookReader,
    on: &mut (dyn FnMut(InstallEvent) + Send),
) -> (Option<i32>, String) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let events = async {
        let Some(stdout) = stdout else { return };
        let mut lines = BufReader::new(stdout).split(b'\n');
        while let Ok(Some(line)) = lines.next_segment().await {
            if let Some(event) = reader.line(&String::from_utf8_lossy(&line)) {
                on(event);
            }
        }
    };
    let message = async {
        let mut kept = Vec::new();
        if let Some(mut stderr) = stderr {
            let mut buffer = vec![0u8; 8 << 10];
            while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
                kept.extend_from_slice(&buffer[..n]);
                // keep the end, which is the relevant part
                let surplus = kept.len().saturating_sub(MAX_MESSAGE);
                kept.drain(..surplus);
            }
        }
        String::from_utf8_lossy(&kept).into_owned()
    };
    // do not wait for the end of standard error, which an ssh control master holds open for a minute: the end of ansible-playbook counts
    let streams = async { tokio::join!(events, message) };
    tokio::pin!(streams);
    let mut status = None;
    let mut text = String::new();
    tokio::select! {
        ended = child.wait() => status = ended.ok(),
        ((), message) = &mut streams => text = message,
    }
    match status {
        Some(_) => {
            if let Ok(((), message)) =
                tokio::time::timeout(Duration::from_millis(500), &mut streams).await
            {
                text = message;
            }
        }
        None => status = child.wait().await.ok(),
    }
    (status.and_then(|s| s.code()), text)
}

/// Waits for a request to stop, of any kind: an installation has no run to finish first.
pub(super) async fn stopped(stop_signal: &mut StopSignal) {
    if stop_signal
        .wait_for(|w| *w != StopRequest::GoOn)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Ends the process group, and the worker processes of newer Ansible versions, which are in other sessions.
async fn end(child: &mut Child, mark: &str) {
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    let marker = format!("{MARK}={mark}");
    for (signal, patience) in [(Signal::SIGTERM, GRACE), (Signal::SIGKILL, GRACE)] {
        if let Some(group) = group {
            // ignore errors: the group may have ended already
            let _ = killpg(group, signal);
        }
        for process in cvc_os::proc::marked(&marker) {
            cvc_os::proc::signal(process.pid, signal);
        }
        let all_gone = async {
            let _ = child.wait().await;
            while !cvc_os::proc::marked(&marker).is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(patience, all_gone).await.is_ok() {
            return;
        }
    }
}

/// Ends the ssh connections that Ansible keeps open for a later run.
async fn close(sockets: &Utf8Path) {
    for entry in std::fs::read_dir(sockets).into_iter().flatten().flatten() {
        let mut ssh = tool("ssh");
        ssh.args(["-F", "none", "-O", "exit", "-o"])
            .arg(format!("ControlPath={}", entry.path().display()))
            .arg("cvc");
        ssh.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        // ignore errors: the connection may have ended already
        if let Ok(mut ssh) = ssh.spawn() {
            let _ = tokio::time::timeout(GRACE, ssh.wait()).await;
        }
    }
}
