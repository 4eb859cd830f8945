//! One run of ansible-playbook, in a process group of its own. Its events are read as they come; nothing of it survives its end.

use super::{
    InstallError,
    ansible::Ansible,
    playbook::Reader,
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

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Play<'a> {
    pub site: &'a str,
    pub hosts: &'a [String],
    pub ansible: &'a Ansible,
    /// Directory with site.yml, roles and plugins.
    pub roles: &'a Utf8Path,
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
            .arg(self.roles.join("site.yml"))
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
            // it refuses to work in any other encoding
            .env("LC_ALL", "C.UTF-8")
            .env(MARK, mark)
            // nothing is said: its end tells that cvc is gone, however that happened
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Runs it.
    pub(super) async fn run(
        &self,
        stop_signal: &mut StopSignal,
        on: &mut (dyn FnMut(InstallEvent) + Send),
    ) -> Result<InstallReport, InstallError> {
        // short, because paths of sockets are limited
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
        // waiting would close it
        let _line = child.stdin.take();
        let mut reader = Reader::new(self.site, self.check, self.hosts);
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
        // 2: a task failed, 4: a host does not answer: both have said so above
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

/// Its end, in the form that the log takes.
fn as_output(code: Option<i32>, message: &str) -> Output {
    let status = ExitStatus::from_raw(code.map_or(Signal::SIGKILL as i32, |code| code << 8));
    Output {
        status,
        stdout: Vec::new(),
        stderr: message.as_bytes().to_vec(),
    }
}

/// Reads its output to the end.
async fn follow(
    child: &mut Child,
    reader: &mut Reader,
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
                // the end is what counts
                let surplus = kept.len().saturating_sub(MAX_MESSAGE);
                kept.drain(..surplus);
            }
        }
        String::from_utf8_lossy(&kept).into_owned()
    };
    // a control master holds standard error open for a minute: what counts is the end of ansible-playbook itself
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

/// Waits for any request to stop: an installation has no run to finish first.
pub(super) async fn stopped(stop_signal: &mut StopSignal) {
    if stop_signal
        .wait_for(|w| *w != StopRequest::GoOn)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Ends its process group, and the workers of newer versions, which start sessions of their own.
async fn end(child: &mut Child, mark: &str) {
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    let marker = format!("{MARK}={mark}");
    for (signal, patience) in [(Signal::SIGTERM, GRACE), (Signal::SIGKILL, GRACE)] {
        if let Some(group) = group {
            // a group that is already gone is fine
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

/// Ends the ssh connections that Ansible keeps open for its next run.
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
        // one that is already gone is fine
        if let Ok(mut ssh) = ssh.spawn() {
            let _ = tokio::time::timeout(GRACE, ssh.wait()).await;
        }
    }
}
