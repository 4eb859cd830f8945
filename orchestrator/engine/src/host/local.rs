//! This machine.

use super::{Host, HostError, MAX_OUTPUT, Output, THIS_MACHINE, tool::log_run};
use async_trait::async_trait;
use camino::Utf8Path;
use cvc_os::atomic_file::Durability;
use std::{
    collections::BTreeMap,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{io::AsyncReadExt, process::Command};

/// Variables of the caller that are passed on to programs. All others are kept out of logs and images. The caller's language is not passed on,
/// because it would change the output of programs, including the format of numbers.
const PASSED_ON: [&str; 7] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LD_LIBRARY_PATH",
    "MODULEPATH",
    "SLURM_CONF",
];

/// This machine.
#[derive(Clone, Debug, Default)]
pub struct LocalHost;

impl LocalHost {
    async fn run_unlogged(
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Output, HostError> {
        let start_error = |source| HostError::Start {
            host: THIS_MACHINE.into(),
            argv: argv.to_vec(),
            source,
        };
        let (program, args) = argv.split_first().ok_or_else(|| {
            start_error(std::io::Error::other(
                "internal error (please report): no program to run",
            ))
        })?;
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(Self::base_env())
            // cvc parses the programs' messages
            .env("LC_ALL", "C")
            .envs(env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(start_error)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let whole = async { tokio::join!(bounded(out), bounded(err), child.wait()) };
        match tokio::time::timeout(limit, whole).await {
            Ok((stdout, stderr, status)) => Ok(Output {
                code: status.map_err(start_error)?.code(),
                stdout,
                stderr,
            }),
            Err(_) => Err(HostError::Timeout {
                host: THIS_MACHINE.into(),
                argv: argv.to_vec(),
                limit_s: limit.as_secs_f64(),
            }),
        }
    }

    /// Returns the minimal environment with which programs start, without a locale.
    pub fn base_env() -> BTreeMap<String, String> {
        PASSED_ON
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect()
    }
}

/// Reads a stream to its end, and returns at most [`MAX_OUTPUT`] bytes of it.
pub async fn bounded(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        let mut buffer = vec![0u8; 16 << 10];
        // a read error ends the output too
        while let Ok(n @ 1..) = stream.read(&mut buffer).await {
            let room = MAX_OUTPUT.saturating_sub(kept.len());
            kept.extend_from_slice(&buffer[..n.min(room)]);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[async_trait]
impl Host for LocalHost {
    fn name(&self) -> &str {
        THIS_MACHINE
    }

    async fn run(
        &self,
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Output, HostError> {
        let began = Instant::now();
        let ran = Self::run_unlogged(argv, env, limit).await;
        log_run(self.name(), argv, began, &ran);
        ran
    }

    async fn put(&self, content: &[u8], to: &Utf8Path) -> Result<(), HostError> {
        cvc_os::atomic_file::write(to.as_std_path(), content, Durability::Visible).map_err(
            |source| HostError::File {
                host: THIS_MACHINE.into(),
                action: "write",
                path: to.to_string(),
                source,
            },
        )
    }

    async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError> {
        std::fs::read(from).map_err(|source| HostError::File {
            host: THIS_MACHINE.into(),
            action: "read",
            path: from.to_string(),
            source,
        })
    }
}
