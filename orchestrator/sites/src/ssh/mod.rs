//! A machine reached by the user's own OpenSSH. All commands share one connection; a lost connection is restored.
//!
//! Commands use the control socket directly (the crate's native-mux), not one ssh process each. This gives real exit codes, needs no process, and
//! never falls back to a direct connection without time limits, as ssh does after its master has died.

mod config;
pub mod diagnostics;
mod hops;
mod master;
mod notice;
mod pins;
mod pipe;
mod remote;
mod run;
mod target;
mod transfer;

pub use notice::HostNotice;
pub use pins::file_of as pinned_file;
pub use pipe::Pipe;
pub use target::{Hop, SshTarget};
pub use transfer::{TransferProgress, unpack};

use backon::{ExponentialBuilder, Retryable};
use camino::Utf8PathBuf;
use cvc_core::log::{Ended, command_event};
use cvc_engine::host::HostError;
use master::Master;
use openssh::{Child, Session, Stdio};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, OnceCell, OwnedSemaphorePermit, Semaphore};

/// Interval at which the time limit for a host is checked again while waiting.
const LOOK: Duration = Duration::from_millis(500);

/// Time limit for repeated attempts to connect.
#[derive(Clone, Copy)]
enum ConnectLimit {
    /// A single attempt.
    None,
    /// The host's current patience, see [`SshHost::set_patience`].
    OfHost,
    /// Repeated attempts until this time has passed.
    For(Duration),
}

/// Default time to wait for a lost host; [`SshHost::set_patience`] changes it.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of concurrent commands on one connection: sshd allows ten sessions (MaxSessions), and the connection itself uses one of these
/// sessions.
const MAX_AT_ONCE: usize = 8;
/// Time limit for retries while sshd has no free session.
const FULL: Duration = Duration::from_secs(30);
/// Additional time for the remote side to end a program before this side gives up.
const GRACE: Duration = Duration::from_secs(4);
/// Time limit for short queries and single files.
const SHORT: Duration = Duration::from_secs(60);
/// Maximum number of attempts at an operation that is safe to repeat.
const ATTEMPTS: usize = 4;

type Listener = Arc<dyn Fn(HostNotice) + Send + Sync>;

struct Inner {
    target: SshTarget,
    master: Mutex<Option<Arc<Master>>>,
    permits: Arc<Semaphore>,
    home: OnceCell<Utf8PathBuf>,
    patience_ms: AtomicU64,
    /// Whether the host was ever reached. Connecting to a host that was never reached is not retried.
    reached: AtomicBool,
    report: Listener,
}

/// A machine reached over ssh. Clones share one connection, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct SshHost(Arc<Inner>);

impl fmt::Debug for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshHost")
            .field("target", &self.0.target)
            .finish_non_exhaustive()
    }
}

impl SshHost {
    /// Creates a host without connecting to it.
    pub fn new(target: SshTarget) -> Self {
        Self::with_listener(target, Arc::new(|_| ()))
    }

    /// Creates a host that passes its notices to `report`.
    pub fn with_listener(target: SshTarget, report: Listener) -> Self {
        Self(Arc::new(Inner {
            target,
            master: Mutex::new(None),
            permits: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            home: OnceCell::new(),
            patience_ms: AtomicU64::new(u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX)),
            reached: AtomicBool::new(false),
            report,
        }))
    }

    /// Returns the machine and how to reach it.
    pub fn target(&self) -> &SshTarget {
        &self.0.target
    }

    /// Sets how long operations wait for a host that was reached before. Applies to operations that are waiting already, too.
    pub fn set_patience(&self, patience: Duration) {
        self.0.patience_ms.store(
            u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    /// Connects, if not connected. A host that was never reached gets a single attempt, so that a wrong name is reported at once. For a host that was
    /// reached before, attempts are repeated.
    ///
    /// # Errors
    /// The reason why the host cannot be reached.
    pub async fn connect(&self) -> Result<(), HostError> {
        self.up().await.map(|_| ())
    }

    /// Connects, repeating attempts within this time limit.
    ///
    /// # Errors
    /// The reason why the last attempt failed.
    pub async fn connect_within(&self, patience: Duration) -> Result<(), HostError> {
        self.up_within(ConnectLimit::For(patience))
            .await
            .map(|_| ())
    }

    /// Returns the process number of ssh on this machine, so that tests can end the process.
    pub async fn connection_pid(&self) -> Option<u32> {
        self.0.master.lock().await.as_ref().and_then(|m| m.pid())
    }

    /// Ends the connection; the next operation connects again.
    pub async fn disconnect(&self) {
        *self.0.master.lock().await = None;
    }

    /// Returns the command line with which another program runs ssh to this host. It has cvc's rules for ssh, and accepts only pinned keys.
    pub fn command_line(&self) -> Vec<String> {
        let target = &self.0.target;
        let mut argv = vec!["ssh".to_owned()];
        if target.ssh.config.is_some() {
            argv.extend(["-F".to_owned(), config::of_user(&target.ssh).to_string()]);
        }
        argv.extend(config::options(&target.pinned, &target.ssh));
        argv.extend(target.place());
        argv.extend(["--".to_owned(), target.destination().to_owned()]);
        argv
    }

    async fn up(&self) -> Result<Arc<Master>, HostError> {
        self.up_within(if self.0.reached.load(Ordering::Relaxed) {
            ConnectLimit::OfHost
        } else {
            ConnectLimit::None
        })
        .await
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.0.patience_ms.load(Ordering::Relaxed))
    }

    async fn up_within(&self, patience: ConnectLimit) -> Result<Arc<Master>, HostError> {
        let inner = &self.0;
        // concurrent callers wait here and use the same new connection
        let mut current = inner.master.lock().await;
        if let Some(master) = &*current {
            if master.is_up().await {
                return Ok(Arc::clone(master));
            }
            (inner.report)(HostNotice::Lost {
                host: inner.target.name.clone(),
                message: master.stderr_tail(),
            });
            *current = None;
        }
        let again = inner.reached.load(Ordering::Relaxed);
        let begin = Instant::now();
        let made = match patience {
            ConnectLimit::None => self.connect_once().await,
            ConnectLimit::OfHost => self.with_patience(|| self.patience()).await,
            ConnectLimit::For(time) => self.with_patience(|| time).await,
        };
        let master = Arc::new(made?);
        if again {
            (inner.report)(HostNotice::Back {
                host: inner.target.name.clone(),
                away_s: begin.elapsed().as_secs_f64(),
            });
        }
        inner.reached.store(true, Ordering::Relaxed);
        *current = Some(Arc::clone(&master));
        Ok(master)
    }

    async fn connect_once(&self) -> Result<Master, HostError> {
        let (inner, began) = (&self.0, Instant::now());
        let made = master::connect(&inner.target, &*inner.report).await;
        let ended = match &made {
            Ok(_) => Ended::Exit(Some(0), ""),
            Err(error) => Ended::Failed(error),
        };
        command_event(
            &inner.target.name,
            &self.command_line(),
            began.elapsed(),
            ended,
        );
        made
    }

    async fn with_patience(&self, patience: impl Fn() -> Duration) -> Result<Master, HostError> {
        let inner = &self.0;
        let last = parking_lot::Mutex::new(None);
        let delays = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(250))
            .with_max_delay(Duration::from_secs(5))
            .without_max_times()
            .with_jitter();
        let attempts = (|| self.connect_once())
            .retry(delays)
            .when(HostError::is_transient)
            .notify(|error, _| {
                let message = error.to_string();
                let mut last = last.lock();
                // report each reason once
                if last
                    .as_ref()
                    .is_none_or(|l: &HostError| l.to_string() != message)
                {
                    (inner.report)(HostNotice::Lost {
                        host: inner.target.name.clone(),
                        message,
                    });
                }
                *last = Some(HostError::Lost {
                    host: inner.target.name.clone(),
                    during: "for good".into(),
                    message: error.to_string(),
                });
            });
        // the patience may be reduced meanwhile, when the machine is found to be lost
        let begin = Instant::now();
        let at_its_end = async {
            while let Some(rest) = patience()
                .checked_sub(begin.elapsed())
                .filter(|rest| !rest.is_zero())
            {
                tokio::time::sleep(rest.min(LOOK)).await;
            }
        };
        tokio::select! {
            made = attempts => made,
            () = at_its_end => Err(last.into_inner().unwrap_or_else(|| HostError::Unreachable {
                host: inner.target.name.clone(),
                cause: cvc_engine::host::Obstacle::Silence,
                message: format!("no connection within {} s", patience().as_secs()),
            })),
        }
    }

    /// Starts a command on the host.
    async fn start(
        &self,
        line: &str,
        during: &str,
    ) -> Result<(Child<Arc<Session>>, Arc<Master>, OwnedSemaphorePermit), HostError> {
        let permit = Arc::clone(&self.0.permits)
            .acquire_owned()
            .await
            .map_err(|e| self.lost(during, e.to_string()))?;
        let begin = Instant::now();
        loop {
            let master = self.up().await?;
            let mut command = Arc::clone(&master.session).arc_raw_command(line);
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let error = match command.spawn().await {
                Ok(child) => return Ok((child, master, permit)),
                Err(error) => error,
            };
            let message = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), ToString::to_string);
            // sshd counts a session until it has cleaned up after it: a refused command was not started and can be retried
            if message.contains("refused") && begin.elapsed() < FULL && master.is_up().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            return Err(self.ended(&master, during, message).await);
        }
    }

    fn lost(&self, during: &str, message: String) -> HostError {
        HostError::Lost {
            host: self.0.target.name.clone(),
            during: during.to_owned(),
            message,
        }
    }

    /// Returns the error of a failed command: `Lost` if the connection is lost, otherwise an error with this message.
    async fn ended(&self, master: &Master, during: &str, message: String) -> HostError {
        if master.is_up().await {
            HostError::Ssh {
                host: self.0.target.name.clone(),
                message: format!("{message} {during}"),
            }
        } else {
            self.lost(during, master.stderr_tail())
        }
    }
}
