//! Runs commands to their end, and transfers small files.

use super::{ATTEMPTS, GRACE, SHORT, SshHost, remote};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::log::{Ended, command_event};
use cvc_engine::host::{Host, HostError, MAX_OUTPUT, Output, bounded};
use openssh::{Child, Session};
use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Maximum size of a file read into memory, bytes; for larger files use `download`.
const MAX_FILE: u64 = 1 << 30;

/// The result of a command, with its output as bytes.
pub(super) struct Raw {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl SshHost {
    /// Runs a command line with this input, and waits for its end.
    async fn exec(
        &self,
        line: &str,
        input: &[u8],
        most: u64,
        during: &str,
    ) -> Result<Raw, HostError> {
        let began = Instant::now();
        let ran = self.exec_unlogged(line, input, most, during).await;
        let ended = match &ran {
            Ok(raw) => Ended::Exit(raw.code, &raw.stderr),
            Err(error) => Ended::Failed(error),
        };
        command_event(self.name(), &["ssh", line], began.elapsed(), ended);
        ran
    }

    async fn exec_unlogged(
        &self,
        line: &str,
        input: &[u8],
        most: u64,
        during: &str,
    ) -> Result<Raw, HostError> {
        let (mut child, master, _permit) = self.start(line, during).await?;
        let (stdin, stdout, stderr) = (
            child.stdin().take(),
            child.stdout().take(),
            child.stderr().take(),
        );
        let feed = async {
            if let Some(mut stdin) = stdin {
                // ignore write errors: a program that does not read its input reports the reason by its exit code
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let read = async {
            let mut kept = Vec::new();
            if let Some(mut stdout) = stdout {
                let _ = (&mut stdout).take(most).read_to_end(&mut kept).await;
                let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
            }
            kept
        };
        let (stdout, stderr, ()) = tokio::join!(read, bounded(stderr), feed);
        Ok(Raw {
            code: self.end(child, &master, during).await?,
            stdout,
            stderr,
        })
    }

    /// Waits for the end of a command whose output has ended, and discards late output. A signal and a lost connection cannot be distinguished here,
    /// only by testing the connection.
    pub(super) async fn end(
        &self,
        child: Child<Arc<Session>>,
        master: &super::Master,
        during: &str,
    ) -> Result<Option<i32>, HostError> {
        match child.wait().await {
            Ok(status) => Ok(status.code()),
            Err(openssh::Error::Remote(error)) if error.kind() == ErrorKind::NotFound => {
                Ok(Some(127))
            }
            Err(openssh::Error::RemoteProcessTerminated | openssh::Error::Disconnected) => {
                if master.is_up().await {
                    Ok(None)
                } else {
                    Err(self.lost(during, master.stderr_tail()))
                }
            }
            Err(error) => Err(self.ended(master, during, error.to_string()).await),
        }
    }

    /// Runs a program that is safe to repeat, and repeats it if the connection is lost meanwhile.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub async fn ask(
        &self,
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Output, HostError> {
        let mut attempt = 1;
        loop {
            match self.run(argv, env, limit).await {
                Err(HostError::Lost { .. }) if attempt < ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    /// Runs a short script that is safe to repeat, and returns its standard output.
    pub(super) async fn script(
        &self,
        line: &str,
        input: &[u8],
        most: u64,
        during: &str,
    ) -> Result<Raw, HostError> {
        let mut attempt = 1;
        loop {
            let limited = tokio::time::timeout(
                self.patience() + SHORT,
                self.exec(line, input, most, during),
            )
            .await;
            match limited {
                Err(_) => return Err(self.timeout(&[during.to_owned()], SHORT)),
                Ok(Err(HostError::Lost { .. })) if attempt < ATTEMPTS => attempt += 1,
                Ok(other) => return other,
            }
        }
    }

    /// Returns the home directory of the remote user; it is queried once.
    ///
    /// # Errors
    /// The host cannot be reached, or the user has no home directory.
    pub async fn home(&self) -> Result<Utf8PathBuf, HostError> {
        let ask = || async {
            let raw = self
                .script(
                    &remote::shell("printf %s \"$HOME\""),
                    b"",
                    1 << 16,
                    "while its home directory was queried",
                )
                .await?;
            let home = String::from_utf8_lossy(&raw.stdout).into_owned();
            if home.starts_with('/') {
                return Ok(Utf8PathBuf::from(home));
            }
            Err(HostError::Ssh {
                host: self.name().to_owned(),
                message: format!(
                    "the remote user has no home directory (HOME is `{home}`) {}",
                    raw.stderr
                ),
            })
        };
        self.0.home.get_or_try_init(ask).await.cloned()
    }

    /// Resolves a remote path: `~` is the home directory of the remote user.
    ///
    /// # Errors
    /// The home directory cannot be queried.
    pub async fn expand(&self, path: &str) -> Result<Utf8PathBuf, HostError> {
        match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let home = self.home().await?;
                Ok(if rest.is_empty() {
                    home
                } else {
                    home.join(rest.trim_start_matches('/'))
                })
            }
            Some(_) | None => Ok(path.into()),
        }
    }

    /// Returns the error of a script about a file, from its exit code; the code is `None` if the script did not exit by itself.
    pub(super) fn file_error(
        &self,
        action: &'static str,
        path: &str,
        code: Option<i32>,
        message: &str,
    ) -> HostError {
        let message = message.trim();
        let source = io::Error::new(
            remote::kind(code, message),
            if message.is_empty() {
                "it gave no message".to_owned()
            } else {
                message.to_owned()
            },
        );
        HostError::File {
            host: self.name().to_owned(),
            action,
            path: path.to_owned(),
            source,
        }
    }

    fn timeout(&self, argv: &[String], limit: Duration) -> HostError {
        let error = HostError::Timeout {
            host: self.name().to_owned(),
            argv: argv.to_vec(),
            limit_s: limit.as_secs_f64(),
        };
        command_event(self.name(), argv, limit, Ended::Failed(&error));
        error
    }
}

#[async_trait]
impl Host for SshHost {
    fn name(&self) -> &str {
        &self.0.target.name
    }

    /// Runs a program in the environment of a login without terminal, with the variables of `env`. After the error `Lost` it is unknown whether the
    /// program ran or ended.
    async fn run(
        &self,
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Output, HostError> {
        let Some(program) = argv.first() else {
            let source = io::Error::other("internal error (please report): no program to run");
            return Err(HostError::Start {
                host: self.name().to_owned(),
                argv: Vec::new(),
                source,
            });
        };
        // the time to connect is not part of the program's time limit
        self.connect().await?;
        let begin = Instant::now();
        let line = remote::program(argv, env, Some(limit));
        let during = format!("while `{}` ran", short(argv));
        let ran = tokio::time::timeout(
            limit + GRACE,
            self.exec(&line, b"", MAX_OUTPUT as u64, &during),
        )
        .await;
        let raw = ran.map_err(|_| self.timeout(argv, limit))??;
        // exit codes of timeout(1), which ended the program on the remote side
        if matches!(raw.code, Some(124 | 137) | None) && begin.elapsed() >= limit {
            return Err(self.timeout(argv, limit));
        }
        if raw.code == Some(127) && raw.stderr.trim_end().ends_with(remote::NO_PROGRAM) {
            return Err(HostError::NoProgram {
                host: self.name().to_owned(),
                program: program.clone(),
            });
        }
        Ok(Output {
            code: raw.code,
            stdout: String::from_utf8_lossy(&raw.stdout).into_owned(),
            stderr: raw.stderr,
        })
    }

    async fn put(&self, content: &[u8], to: &Utf8Path) -> Result<(), HostError> {
        let path = self.expand(to.as_str()).await?;
        let raw = self
            .script(
                &remote::take(path.as_str(), content.len() as u64, None),
                content,
                1 << 16,
                "while a file was written",
            )
            .await?;
        if raw.code == Some(0) {
            Ok(())
        } else {
            Err(self.file_error("write", path.as_str(), raw.code, &raw.stderr))
        }
    }

    async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError> {
        let path = self.expand(from.as_str()).await?;
        let raw = self
            .script(
                &remote::give(path.as_str()),
                b"",
                MAX_FILE,
                "while a file was read",
            )
            .await?;
        if raw.code == Some(0) {
            Ok(raw.stdout)
        } else {
            Err(self.file_error("read", path.as_str(), raw.code, &raw.stderr))
        }
    }
}

/// Returns a command line, shortened for a message.
fn short(argv: &[String]) -> String {
    let line = argv.join(" ").replace('\n', " ");
    if line.chars().count() > 80 {
        format!("{}…", line.chars().take(79).collect::<String>())
    } else {
        line
    }
}
