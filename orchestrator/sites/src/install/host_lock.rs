//! Limits each host to one installation at a time, regardless of which user starts it from which machine. A process on the host holds the lock; its
//! input is connected to cvc. The process ends with the connection or with cvc, so no stale lock remains.

use super::{InstallError, inventory};
use crate::ssh::{Pipe, SshHost, SshTarget};
use camino::Utf8Path;
use cvc_core::campaign::Site;
use cvc_engine::host::{Host, tool};
use std::{
    collections::BTreeSet,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin},
    sync::oneshot,
    task::JoinHandle,
};
use tracing::Instrument;

/// Runs the script in its first argument as root, if this user is root or may use sudo without a password. All users who can install system-wide
/// therefore use the same lock.
const AS_ROOT: &str = "r=; [ \"$(id -u)\" = 0 ] || { command -v sudo >/dev/null && sudo -n true </dev/null >/dev/null 2>&1 && r='sudo -n'; }; \
    exec $r sh -c \"$0\" cvc \"$1\"";
/// Takes the lock, and prints `held` or `taken` (by another process) with the identity of the machine; prints nothing if locking is impossible. Holds
/// the lock as long as it receives heartbeats, because a server may notice only after hours that a connection was cut. The lock file belongs to root,
/// or to the user in a private directory: any user could lock a file that all users can open, and never release it.
const HOLD: &str = "command -v flock >/dev/null && command -v timeout >/dev/null || exit 0; u=$(id -u); d=/run; \
    [ \"$u\" = 0 ] || d=/run/user/$u; [ \"$u\" = 0 ] || [ -O \"$d\" ] || { d=/tmp/.cvc-$u; mkdir -m 700 \"$d\" 2>/dev/null; }; \
    [ -d \"$d\" ] && [ ! -h \"$d\" ] && [ -O \"$d\" ] || exit 0; umask 077; f=$d/cvc-install.lock; exec 9>>\"$f\" || exit 0; flock -n 9; got=$?; \
    id=$(cat /proc/sys/kernel/random/boot_id):$(stat -L -c %d:%i \"$f\"); \
    case $got in 0) echo \"held $id\"; while [ \"$(timeout \"$1\" head -c 1 | wc -c)\" = 1 ]; do :; done;; 1) echo \"taken $id\";; esac";
/// Time limit for the answer of a host.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Interval between heartbeats to a host; and the time without a heartbeat after which the host releases its lock, seconds.
const BEAT: Duration = Duration::from_secs(4);
const SILENCE_S: &str = "15";
/// Time without a heartbeat after which this machine releases its lock, seconds: longer than any installation, because the lock's process notices the
/// end of cvc at once here.
const SILENCE_HERE_S: &str = "864000";
/// Time limit for waiting for a lock: a little longer than [`SILENCE_S`], after which a host releases the lock of an installation whose connection
/// was cut. The wait is limited because two installations may wait for each other's hosts.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between attempts to take a lock.
const AGAIN: Duration = Duration::from_secs(2);

/// The locks of the hosts of a site. Dropping this value also releases them.
#[derive(Debug, Default)]
pub(super) struct HostLocks {
    here: Option<Here>,
    held: Vec<HeldLock>,
}

/// The lock of this machine; closing the input of the process releases it.
#[derive(Debug)]
struct Here {
    _line: ChildStdin,
    _process: Child,
}

/// The lock of a host reached by ssh.
#[derive(Debug)]
struct HeldLock {
    /// Name of the host.
    host: String,
    /// Releases the lock when used or dropped.
    release: oneshot::Sender<()>,
    /// Returns why the lock is no longer held.
    ended: JoinHandle<LockEnd>,
}

impl HeldLock {
    fn begin(host: SshHost, pipe: Pipe) -> Self {
        let (release, released) = oneshot::channel();
        let name = host.name().to_owned();
        Self {
            host: name,
            release,
            ended: tokio::spawn(hold(host, pipe, released).in_current_span()),
        }
    }
}

/// Why the lock of a host is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockEnd {
    Released,
    /// The connection was lost.
    Lost,
}

/// Holds the lock of a host until it is released or the connection breaks.
async fn hold(host: SshHost, mut pipe: Pipe, mut released: oneshot::Receiver<()>) -> LockEnd {
    let mut beats = tokio::time::interval(BEAT);
    let end = loop {
        tokio::select! {
            biased;
            _ = &mut released => break LockEnd::Released,
            _ = beats.tick() => {
                let Some(line) = pipe.stdin.as_mut() else { break LockEnd::Lost };
                // if the connection is lost, the host has released the lock
                if line.write_all(b".").await.is_err() || line.flush().await.is_err() {
                    break LockEnd::Lost;
                }
            }
        }
    };
    let _ = tokio::time::timeout(ANSWER_LIMIT, pipe.wait()).await;
    host.disconnect().await;
    end
}

/// The answer of a host to an attempt to lock it.
enum Answer {
    Held { held: HeldLock, id: String },
    Taken { host: SshHost, id: String },
}

impl HostLocks {
    /// Takes the locks of all hosts, and waits for locks that another installation holds, up to a time limit. A host that cannot be reached or locked
    /// is skipped; the installation itself reports hosts that cannot be reached. Relative paths of ssh's files refer to `base`. `note` receives the
    /// reason for waiting.
    ///
    /// # Errors
    /// Another installation still holds the lock of a host.
    pub(super) async fn take(
        name: &str,
        site: &Site,
        base: &Utf8Path,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<Self, InstallError> {
        let until = Instant::now() + PATIENCE;
        let mut is_reported = false;
        loop {
            match Self::take_now(name, site, base).await {
                Err(InstallError::Busy { hosts, .. }) if Instant::now() < until => {
                    if !std::mem::replace(&mut is_reported, true) {
                        note(format!(
                            "another installation is running on {}: waiting {} s for it",
                            hosts.join(", "),
                            PATIENCE.as_secs()
                        ));
                    }
                }
                taken => return taken,
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn take_now(name: &str, site: &Site, base: &Utf8Path) -> Result<Self, InstallError> {
        let mut locks = Self::default();
        let mut taken = Vec::new();
        // one machine may have two names in a site
        let mut ids = BTreeSet::new();
        if inventory::hosts(site)
            .iter()
            .any(|host| host == inventory::LOCAL)
        {
            match lock_here().await {
                Some((Some(here), id)) => {
                    locks.here = Some(here);
                    ids.insert(id);
                }
                Some((None, _)) => taken.push(inventory::LOCAL.to_owned()),
                None => {}
            }
        }
        let mut others = Vec::new();
        let asked: Vec<_> = targets(name, site, base)
            .map(|target| tokio::spawn(ask(target).in_current_span()))
            .collect();
        for answer in asked {
            match answer.await {
                Ok(Some(Answer::Held { held, id })) => {
                    ids.insert(id);
                    locks.held.push(held);
                }
                Ok(Some(Answer::Taken { host, id })) => others.push((host, id)),
                Ok(None) | Err(_) => {}
            }
        }
        for (host, id) in others {
            if !ids.contains(&id) {
                taken.push(host.name().to_owned());
            }
            host.disconnect().await;
        }
        if taken.is_empty() {
            return Ok(locks);
        }
        let _ = locks.release().await;
        Err(InstallError::Busy {
            site: name.to_owned(),
            hosts: taken,
        })
    }

    /// Releases all locks. Returns the hosts whose lock was lost earlier.
    pub(super) async fn release(self) -> Vec<String> {
        let ended: Vec<_> = self
            .held
            .into_iter()
            .map(|held| (held.host, held.release.send(()), held.ended))
            .collect();
        let mut lost = Vec::new();
        for (host, _, ended) in ended {
            if ended.await.unwrap_or(LockEnd::Lost) == LockEnd::Lost {
                lost.push(host);
            }
        }
        lost
    }
}

/// Returns the hosts that are reached by ssh.
pub(super) fn targets<'s>(
    name: &'s str,
    site: &'s Site,
    base: &'s Utf8Path,
) -> impl Iterator<Item = SshTarget> + 's {
    site.cluster.iter().flat_map(move |cluster| {
        let ssh = cluster.ssh.below(base);
        let head = cluster
            .head
            .iter()
            .filter(|head| cluster.hosts.iter().all(|host| host.name != head.name));
        cluster
            .hosts
            .iter()
            .chain(head)
            .map(move |entry| SshTarget::new(name, &entry.below(base), &ssh))
    })
}

/// Locks this machine. Returns the lock (`None` if another process holds it) and the identity of the machine. Returns `None` instead of this pair if
/// locking is impossible.
async fn lock_here() -> Option<(Option<Here>, String)> {
    let mut command = tool("sh");
    command
        .args(["-c", AS_ROOT, HOLD, SILENCE_HERE_S])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // a separate process group: Ctrl-C is for cvc, which releases the lock when it ends
    let mut process = command.process_group(0).spawn().ok()?;
    let (here, stdout) = (process.stdin.take()?, process.stdout.take()?);
    let mut line = String::new();
    let _ = tokio::time::timeout(ANSWER_LIMIT, BufReader::new(stdout).read_line(&mut line)).await;
    match line.trim().split_once(' ') {
        Some(("held", id)) => Some((
            Some(Here {
                _line: here,
                _process: process,
            }),
            id.to_owned(),
        )),
        Some(("taken", id)) => Some((None, id.to_owned())),
        _ => None,
    }
}

/// Makes one attempt to take the lock of a host.
async fn ask(target: SshTarget) -> Option<Answer> {
    let host = SshHost::new(target);
    host.connect().await.ok()?;
    let argv = ["sh", "-c", AS_ROOT, HOLD, SILENCE_S].map(str::to_owned);
    let mut pipe = host.pipe(&argv).await.ok()?;
    let mut line = String::new();
    let _ = tokio::time::timeout(ANSWER_LIMIT, pipe.stdout.read_line(&mut line)).await;
    match line.trim().split_once(' ') {
        // send heartbeats at once: other hosts may take longer to answer than this host waits for a heartbeat
        Some(("held", id)) => Some(Answer::Held {
            id: id.to_owned(),
            held: HeldLock::begin(host, pipe),
        }),
        Some(("taken", id)) => Some(Answer::Taken {
            id: id.to_owned(),
            host,
        }),
        _ => {
            host.disconnect().await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_exclusive_until_it_is_dropped() {
        // a lock file for this test only: an installation may hold that of the machine
        let dir = tempfile::tempdir().expect("a directory");
        let script = HOLD.replace(
            "$d/cvc-install.lock",
            &format!("{}/lock", dir.path().display()),
        );
        let ask = async || {
            let mut command = tool("sh");
            command
                .args(["-c", &script, "cvc", SILENCE_HERE_S])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut process = command.spawn().expect("starts");
            let (line, mut answer) = (process.stdin.take().expect("input"), String::new());
            BufReader::new(process.stdout.take().expect("output"))
                .read_line(&mut answer)
                .await
                .expect("answers");
            (answer, line, process)
        };
        let (first, line, mut process) = ask().await;
        let (second, ..) = ask().await;
        let id = first.trim().strip_prefix("held ").expect("it has the lock");
        assert_eq!(second.trim(), format!("taken {id}"));
        use std::os::unix::fs::PermissionsExt;
        let mode = dir
            .path()
            .join("lock")
            .metadata()
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "no other user can open it, and so lock it");
        drop(line);
        process.wait().await.expect("ends");
        assert_eq!(ask().await.0, first, "it was given back");
    }
}
