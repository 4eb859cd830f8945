//! A machine reached by the user's own OpenSSH: one connection for all commands, restored when it is lost.
//!
//! Commands use the control socket directly (the crate's native-mux) instead of one ssh process each: that gives real exit codes, needs no
//! process, and never falls back to a direct connection without time limits, as ssh does once its master has died.

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

pub use notice::Notice;
pub use pins::file_of as pinned_file;
pub use pipe::Pipe;
pub use target::{Hop, Target};
pub use transfer::{Progress, unpack};

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

/// Delay between checks of how long to wait for a host.
const LOOK: Duration = Duration::from_millis(500);

/// How long to try to connect.
#[derive(Clone, Copy)]
enum Patience {
    /// Once.
    None,
    /// As long as the host's patience at that time allows.
    OfHost,
    /// For this time.
    For(Duration),
}

/// Time to wait for a lost host, unless [`SshHost::set_patience`] says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of commands at the same time through one connection: sshd allows ten (MaxSessions), of which the connection itself takes
/// one.
const MAX_AT_ONCE: usize = 8;
/// Time limit for retries at an sshd without a free session.
const FULL: Duration = Duration::from_secs(30);
/// Time for the far side to end a program before this side gives up.
const GRACE: Duration = Duration::from_secs(4);
/// Time limit for small questions and single files.
const SHORT: Duration = Duration::from_secs(60);
/// Maximum number of attempts at operations that may be repeated.
const ATTEMPTS: usize = 4;

type Listener = Arc<dyn Fn(Notice) + Send + Sync>;

struct Inner {
    target: Target,
    master: Mutex<Option<Arc<Master>>>,
    permits: Arc<Semaphore>,
    home: OnceCell<Utf8PathBuf>,
    patience_ms: AtomicU64,
    /// Whether it was ever reached; a host that never was is not waited for.
    reached: AtomicBool,
    tell: Listener,
}

/// A machine over ssh. Clones share the connection, which ends with the last of them.
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
    pub fn new(target: Target) -> Self {
        Self::with_listener(target, Arc::new(|_| ()))
    }

    /// Creates a host that reports its notices to `tell`.
    pub fn with_listener(target: Target, tell: Listener) -> Self {
        Self(Arc::new(Inner {
            target,
            master: Mutex::new(None),
            permits: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            home: OnceCell::new(),
            patience_ms: AtomicU64::new(u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX)),
            reached: AtomicBool::new(false),
            tell,
        }))
    }

    /// Its target.
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// Sets how long operations wait for a host that was reached before, including those that already wait.
    pub fn set_patience(&self, patience: Duration) {
        self.0.patience_ms.store(
            u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    /// Connects, if it is not connected. A host that was never reached gets one attempt, so that a wrong name is reported at once; one that
    /// was reached before is waited for.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub async fn connect(&self) -> Result<(), HostError> {
        self.up().await.map(|_| ())
    }

    /// Connects, trying again within a time limit.
    ///
    /// # Errors
    /// The last reason why it could not be reached.
    pub async fn connect_within(&self, patience: Duration) -> Result<(), HostError> {
        self.up_within(Patience::For(patience)).await.map(|_| ())
    }

    /// The process of the connection on this machine, for tests that end it.
    pub async fn connection_pid(&self) -> Option<u32> {
        self.0.master.lock().await.as_ref().and_then(|m| m.pid())
    }

    /// Ends the connection; the next operation makes a new one.
    pub async fn disconnect(&self) {
        *self.0.master.lock().await = None;
    }

    /// An argument vector of ssh to this host for others to use: the same rules, and nothing but pinned keys.
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
            Patience::OfHost
        } else {
            Patience::None
        })
        .await
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.0.patience_ms.load(Ordering::Relaxed))
    }

    async fn up_within(&self, patience: Patience) -> Result<Arc<Master>, HostError> {
        let inner = &self.0;
        // others that come while the connection is being made wait for the same one
        let mut current = inner.master.lock().await;
        if let Some(master) = &*current {
            if master.is_up().await {
                return Ok(Arc::clone(master));
            }
            (inner.tell)(Notice::Lost {
                host: inner.target.name.clone(),
                message: master.stderr_tail(),
            });
            *current = None;
        }
        let again = inner.reached.load(Ordering::Relaxed);
        let begin = Instant::now();
        let made = match patience {
            Patience::None => self.connect_once().await,
            Patience::OfHost => self.with_patience(|| self.patience()).await,
            Patience::For(time) => self.with_patience(|| time).await,
        };
        let master = Arc::new(made?);
        if again {
            (inner.tell)(Notice::Back {
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
        let made = master::connect(&inner.target, &*inner.tell).await;
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
                // each reason is reported once
                if last
                    .as_ref()
                    .is_none_or(|l: &HostError| l.to_string() != message)
                {
                    (inner.tell)(Notice::Lost {
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
        // it may shrink meanwhile, for a machine that turns out to be gone
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

    /// Starts a command there.
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
            // sshd counts sessions until it has cleaned up after them; a refused command has not started
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

    /// The error of a failed command: `Lost` if the connection is lost.
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
