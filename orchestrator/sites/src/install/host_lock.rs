//! One installation at a time on a host, whoever begins it and from where. The lock lies on the host and belongs to a process there whose
//! input is held open from here: it goes with the connection or with cvc, and leaves no file that could grow old.

use super::{InstallError, inventory};
use crate::ssh::{Pipe, SshHost, Target};
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

/// Runs the script that is its name, as root where this user may without a password: all who can install for everybody share one lock.
const AS_ROOT: &str = "r=; [ \"$(id -u)\" = 0 ] || { command -v sudo >/dev/null && sudo -n true </dev/null >/dev/null 2>&1 && r='sudo -n'; }; \
    exec $r sh -c \"$0\" cvc \"$1\"";
/// Says whether it has the lock, with the identity of what is locked, and holds it as long as it hears from here: a server may notice only
/// after hours that a connection was cut. Where nothing can be locked it says nothing. The file is root's, or the user's in a directory of the user's:
/// what everybody can open, everybody can lock for ever.
const HOLD: &str = "command -v flock >/dev/null && command -v timeout >/dev/null || exit 0; u=$(id -u); d=/run; \
    [ \"$u\" = 0 ] || d=/run/user/$u; [ \"$u\" = 0 ] || [ -O \"$d\" ] || { d=/tmp/.cvc-$u; mkdir -m 700 \"$d\" 2>/dev/null; }; \
    [ -d \"$d\" ] && [ ! -h \"$d\" ] && [ -O \"$d\" ] || exit 0; umask 077; f=$d/cvc-install.lock; exec 9>>\"$f\" || exit 0; flock -n 9; got=$?; \
    id=$(cat /proc/sys/kernel/random/boot_id):$(stat -L -c %d:%i \"$f\"); \
    case $got in 0) echo \"held $id\"; while [ \"$(timeout \"$1\" head -c 1 | wc -c)\" = 1 ]; do :; done;; 1) echo \"taken $id\";; esac";
/// Time limit for the answer of a host.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Delay between signs of life to a host, and the time after which one without them gives its lock back, in seconds.
const BEAT: Duration = Duration::from_secs(4);
const SILENCE_S: &str = "15";
/// The same on this machine, where the end of cvc is noticed at once: longer than any installation.
const SILENCE_HERE_S: &str = "864000";
/// How long a lock is waited for: a little longer than that of an installation whose connection was cut. Not without end, because two may wait
/// for each other's hosts.
const PATIENCE: Duration = Duration::from_secs(20);
/// Delay between questions for a lock.
const AGAIN: Duration = Duration::from_secs(2);

/// The locks of the hosts of a site. They are given back when it is dropped, too.
#[derive(Debug, Default)]
pub(super) struct HostLocks {
    here: Option<Here>,
    held: Vec<Held>,
}

/// The lock of this machine: the end of the process's input gives it back.
#[derive(Debug)]
struct Here {
    _line: ChildStdin,
    _process: Child,
}

/// The lock of a host that is reached by ssh.
#[derive(Debug)]
struct Held {
    /// Name of the host.
    host: String,
    /// Ends it, also when dropped.
    release: oneshot::Sender<()>,
    /// Whether it was held until then.
    ended: JoinHandle<bool>,
}

impl Held {
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

/// Holds the lock of a host until it is released or the connection breaks. Returns whether it was held until then.
async fn hold(host: SshHost, mut pipe: Pipe, mut released: oneshot::Receiver<()>) -> bool {
    let mut beats = tokio::time::interval(BEAT);
    let held = loop {
        tokio::select! {
            biased;
            _ = &mut released => break true,
            _ = beats.tick() => {
                let Some(line) = pipe.stdin.as_mut() else { break false };
                // a connection that broke has given its lock back
                if line.write_all(b".").await.is_err() || line.flush().await.is_err() {
                    break false;
                }
            }
        }
    };
    let _ = tokio::time::timeout(ANSWER_LIMIT, pipe.wait()).await;
    host.disconnect().await;
    held
}

/// The answer of a host.
enum Answer {
    Held { held: Held, id: String },
    Taken { host: SshHost, id: String },
}

impl HostLocks {
    /// Takes the locks of all hosts, and waits a while for those that another installation has. A host that cannot be reached or cannot lock
    /// is left out: the installation itself reports the former. `base` is the directory that paths of ssh's files are relative to; `note` is
    /// told what is waited for.
    ///
    /// # Errors
    /// When another installation is still at work on one of them.
    pub(super) async fn take(
        name: &str,
        site: &Site,
        base: &Utf8Path,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<Self, InstallError> {
        let until = Instant::now() + PATIENCE;
        let mut is_told = false;
        loop {
            match Self::take_now(name, site, base).await {
                Err(InstallError::Busy { hosts, .. }) if Instant::now() < until => {
                    if !std::mem::replace(&mut is_told, true) {
                        note(format!(
                            "another installation is at work on {}: waiting {} s for it",
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

    /// Gives all of them back. Returns the hosts whose lock was lost before.
    pub(super) async fn release(self) -> Vec<String> {
        let ended: Vec<_> = self
            .held
            .into_iter()
            .map(|held| (held.host, held.release.send(()), held.ended))
            .collect();
        let mut lost = Vec::new();
        for (host, _, ended) in ended {
            if !ended.await.unwrap_or(false) {
                lost.push(host);
            }
        }
        lost
    }
}

/// The hosts that are reached by ssh.
pub(super) fn targets<'s>(
    name: &'s str,
    site: &'s Site,
    base: &'s Utf8Path,
) -> impl Iterator<Item = Target> + 's {
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
            .map(move |entry| Target::new(name, &entry.below(base), &ssh))
    })
}

/// Locks this machine. Returns the lock, unless somebody else has it, with the identity of what is locked; nothing if it cannot be locked.
async fn lock_here() -> Option<(Option<Here>, String)> {
    let mut command = tool("sh");
    command
        .args(["-c", AS_ROOT, HOLD, SILENCE_HERE_S])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // a Ctrl-C of the terminal is for cvc, which gives the lock back at its end
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

/// Asks a host for its lock.
async fn ask(target: Target) -> Option<Answer> {
    let host = SshHost::new(target);
    host.connect().await.ok()?;
    let argv = ["sh", "-c", AS_ROOT, HOLD, SILENCE_S].map(str::to_owned);
    let mut pipe = host.pipe(&argv).await.ok()?;
    let mut line = String::new();
    let _ = tokio::time::timeout(ANSWER_LIMIT, pipe.stdout.read_line(&mut line)).await;
    match line.trim().split_once(' ') {
        // at once, because another host may take longer to answer than this one waits for a sign of life
        Some(("held", id)) => Some(Answer::Held {
            id: id.to_owned(),
            held: Held::begin(host, pipe),
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
    async fn a_lock_is_held_until_it_is_dropped_and_nobody_else_can_hold_it() {
        // a lock of this test's own: that of the machine may be held by an installation
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
        assert_eq!(mode & 0o077, 0, "nobody else can open it, and so lock it");
        drop(line);
        process.wait().await.expect("ends");
        assert_eq!(ask().await.0, first, "it was given back");
    }
}
