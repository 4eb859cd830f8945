//! The ssh master process, whose connection all commands share. The process runs in the foreground, with a standard input that cvc holds open, so
//! that the process ends with cvc.

use super::{
    config, diagnostics, hops,
    notice::HostNotice,
    pins::{self, Pinned},
    target::{Hop, SshTarget},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_engine::host::{ChangedKey, HostError, THIS_MACHINE, tool};
use openssh::Session;
use parking_lot::Mutex;
use std::{
    fs, io::ErrorKind, os::unix::net::UnixStream, path::Path, process::Stdio, sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStdin},
    time::timeout,
};

/// Time limit from the start of ssh to the first output of the host, over all jumps.
const LIMIT: Duration = Duration::from_secs(3 * config::CONNECT_S);
/// Maximum number of bytes kept of the beginning, and of the end, of ssh's messages.
const MAX_LOG: usize = 64 << 10;
/// Line that the remote shell prints once it is ready, after any output of its start-up files.
const READY: &str = "cvc-ready";
/// Prefix of the names of directories with control sockets.
const PREFIX: &str = "cvc-ssh-";
/// Name of the control socket in its directory.
const SOCKET: &str = "master";
/// Maximum length of this directory's path, bytes: the path of a socket has at most 107 bytes, and ssh first creates the socket with a name that is
/// 17 bytes longer.
const MAX_DIR: usize = 60;

/// An established connection.
#[derive(Debug)]
pub(super) struct Master {
    /// The session through which commands are sent.
    pub(super) session: Arc<Session>,
    child: Mutex<Child>,
    log: Arc<Mutex<String>>,
    // fields are dropped in this order, which ends the connection
    _line: ChildStdin,
    _dir: TempDir,
}

impl Master {
    /// Returns whether the connection still answers.
    pub(super) async fn is_up(&self) -> bool {
        let runs = matches!(self.child.lock().try_wait(), Ok(None));
        runs && matches!(
            timeout(Duration::from_secs(5), self.session.check()).await,
            Ok(Ok(()))
        )
    }

    /// Returns the last lines of ssh's messages.
    pub(super) fn stderr_tail(&self) -> String {
        diagnostics::last(&self.log.lock())
    }

    /// Returns the number of the ssh process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.lock().id()
    }
}

/// Makes one attempt to connect.
pub(super) async fn connect(
    target: &SshTarget,
    report: &(dyn Fn(HostNotice) + Send + Sync),
) -> Result<Master, HostError> {
    let dir = directory()?;
    let path = Utf8Path::from_path(dir.path()).ok_or_else(|| HostError::Ssh {
        host: target.name.clone(),
        message: format!(
            "the path of the directory for its socket, {}, is not UTF-8",
            dir.path().display()
        ),
    })?;
    let hops = hops::resolve(target, path).await?;
    let (fresh, file) = (path.join("fresh"), path.join("config"));
    let here = |source| HostError::File {
        host: THIS_MACHINE.into(),
        action: "write",
        path: file.to_string(),
        source,
    };
    fs::write(&file, config::text(&target.ssh, &hops, &fresh)).map_err(here)?;
    let mut argv: Vec<String> = [
        "ssh",
        "-T",
        "-M",
        "-S",
        path.join(SOCKET).as_str(),
        "-F",
        file.as_str(),
    ]
    .map(str::to_owned)
    .to_vec();
    argv.extend(target.place());
    argv.extend([
        "--".to_owned(),
        target.destination().to_owned(),
        format!("echo {READY}; exec cat >/dev/null"),
    ]);
    let start = |source| HostError::Start {
        host: THIS_MACHINE.into(),
        argv: argv.clone(),
        source,
    };
    // a separate process group: Ctrl-C is sent to cvc only, which may still need the connection
    let mut child = tool(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let (Some(line), Some(out), Some(err)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(start(std::io::Error::other(
            "internal error (please report): ssh was started without standard streams",
        )));
    };
    let log = Arc::new(Mutex::new(String::new()));
    let listener = tokio::spawn(listen(err, Arc::clone(&log)));
    if !matches!(timeout(LIMIT, ready(out)).await, Ok(true)) {
        let gave_up = child.try_wait().is_ok_and(|s| s.is_none());
        // wait a moment for all messages of ssh, which may be about to end by itself
        if timeout(Duration::from_millis(500), child.wait())
            .await
            .is_err()
        {
            let _ = child.start_kill();
        }
        let _ = timeout(Duration::from_millis(500), listener).await;
        let log = log.lock().clone();
        return Err(why(target, &hops, &log, gave_up).await);
    }
    let seen = log.lock().clone();
    pin(target, &hops, &seen, &fresh, report).await?;
    let socket = dir.path().join(SOCKET).into_boxed_path();
    let session = Arc::new(Session::resume_mux(socket, None));
    Ok(Master {
        session,
        child: Mutex::new(child),
        log,
        _line: line,
        _dir: dir,
    })
}

/// Waits until the remote shell is ready; returns false if the output ends before.
async fn ready(out: tokio::process::ChildStdout) -> bool {
    // start-up files of the shell may print without end
    let mut lines = BufReader::new(out.take(1 << 20)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.trim_end() == READY {
            return true;
        }
    }
    false
}

/// Reads ssh's messages, and keeps their beginning and their end in `log`.
async fn listen(err: tokio::process::ChildStderr, log: Arc<Mutex<String>>) {
    let mut lines = BufReader::new(err).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line);
        let mut log = log.lock();
        if log.len() + line.len() > 2 * MAX_LOG {
            let cut = (MAX_LOG..=log.len())
                .find(|i| log.is_char_boundary(*i))
                .unwrap_or(log.len());
            *log = log.split_off(cut);
        }
        log.push_str(line.trim_end_matches('\r'));
        log.push('\n');
    }
}

/// Returns the reason why no connection was made.
async fn why(target: &SshTarget, hops: &[Hop], log: &str, gave_up: bool) -> HostError {
    let host = target.name.clone();
    let show = |found: Option<String>| found.unwrap_or_else(|| "an unknown key".to_owned());
    let known = |file: &str, line| {
        let key = pins::key_at(Utf8Path::new(file), line);
        async move {
            match key {
                Some(key) => pins::fingerprint(&key).await,
                None => None,
            }
        }
    };
    if let Some(changed) = diagnostics::changed(log) {
        let known = show(known(&changed.file, changed.line).await);
        let diagnostics::Changed {
            name,
            offered,
            file,
            line,
        } = changed;
        return HostError::KeyChanged(Box::new(ChangedKey {
            host,
            name,
            offered,
            known,
            file,
            line,
        }));
    }
    if let Some(name) = diagnostics::unknown(log) {
        let offered = show(diagnostics::offered(log));
        let hop = hops.iter().find(|h| h.name == name);
        // the host is pinned only with keys of other types: ssh calls the key unknown, but for the user it has changed
        if let Some(file) = hop.and_then(|h| h.pinned.as_ref())
            && let Some(line) = pins::lines_of(file, &name)
                .ok()
                .and_then(|l| l.first().copied())
        {
            let known = show(known(file.as_str(), line).await);
            return HostError::KeyChanged(Box::new(ChangedKey {
                host,
                name,
                offered,
                known,
                file: file.to_string(),
                line,
            }));
        }
        let own = std::iter::once(&target.pinned)
            .chain(hop.map(|h| h.vouching.as_slice()).unwrap_or_default());
        return HostError::KeyUnknown {
            host,
            name,
            offered,
            files: own.map(ToString::to_string).collect(),
        };
    }
    if gave_up && diagnostics::plain(log).is_empty() {
        let message = format!("nothing within {} s", LIMIT.as_secs());
        return HostError::Unreachable {
            host,
            cause: cvc_engine::host::Obstacle::Silence,
            message,
        };
    }
    diagnostics::interpret(&target.name, hops, log)
}

/// Pins the keys of all hosts of the connection that are not pinned yet.
async fn pin(
    target: &SshTarget,
    hops: &[Hop],
    log: &str,
    fresh: &Utf8Path,
    report: &(dyn Fn(HostNotice) + Send + Sync),
) -> Result<(), HostError> {
    for found in diagnostics::recognised(log) {
        // if ssh finds no key for `[host]:port`, it looks for `host`
        let hop = hops
            .iter()
            .find(|h| h.pinned.is_none() && (h.name == found.name || h.hostname == found.name));
        let Some((hop, key)) = hop.zip(pins::key_at(Utf8Path::new(&found.file), found.line)) else {
            continue;
        };
        if pins::pin(&target.pinned, &hop.name, &key)? == Pinned::Now {
            let fingerprint = pins::fingerprint(&key).await.unwrap_or_default();
            report(HostNotice::Pinned {
                host: hop.name.clone(),
                fingerprint,
                vouched_by: Some(found.file),
                file: target.pinned.clone(),
            });
        }
    }
    // accept unknown keys, if the site allows that
    for hop in hops.iter().filter(|h| h.pinned.is_none()) {
        for line in pins::lines_of(fresh, &hop.name)? {
            let Some(key) = pins::key_at(fresh, line) else {
                continue;
            };
            if pins::pin(&target.pinned, &hop.name, &key)? == Pinned::Now {
                let fingerprint = pins::fingerprint(&key).await.unwrap_or_default();
                report(HostNotice::Pinned {
                    host: hop.name.clone(),
                    fingerprint,
                    vouched_by: None,
                    file: target.pinned.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Creates a private directory with a short path, and removes directories left by killed processes of cvc.
fn directory() -> Result<TempDir, HostError> {
    let given = [
        std::env::var("XDG_RUNTIME_DIR").ok().map(Utf8PathBuf::from),
        Utf8PathBuf::from_path_buf(std::env::temp_dir()).ok(),
    ];
    let fits = |dir: &Utf8PathBuf| {
        dir.is_absolute() && dir.is_dir() && dir.as_str().len() <= MAX_DIR - PREFIX.len()
    };
    let place = given
        .into_iter()
        .flatten()
        .find(fits)
        .unwrap_or_else(|| "/tmp".into());
    for old in fs::read_dir(&place).into_iter().flatten().flatten() {
        if old.file_name().to_string_lossy().starts_with(PREFIX)
            && is_dead(&old.path().join(SOCKET))
        {
            // ignore errors: a directory of another user cannot be removed
            let _ = fs::remove_dir_all(old.path());
        }
    }
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place);
    made.map_err(|source| HostError::File {
        host: THIS_MACHINE.into(),
        action: "create a directory in",
        path: place.to_string(),
        source,
    })
}

/// Returns whether the process that listened on this socket has ended. A missing socket does not count as dead, because it may still be created.
fn is_dead(socket: &Path) -> bool {
    UnixStream::connect(socket).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}
