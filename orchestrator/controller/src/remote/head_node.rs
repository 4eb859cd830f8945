//! Access to the machine with the spool: by ssh, or directly if sbatch runs on this machine.

use crate::ssh::{Pipe, Progress, SshHost};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::copy_tree;
use cvc_engine::host::{Host, HostError, LocalHost, Output, tool};
use std::{collections::BTreeMap, io, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

/// Time limit of small questions.
pub(super) const SHORT: Duration = Duration::from_secs(60);

/// Access to a machine.
#[derive(Clone, Debug)]
pub(super) enum HeadNode {
    /// This one.
    Here,
    /// Another.
    Ssh(SshHost),
}

/// A program there that exchanges lines.
pub(super) enum Channel {
    Here { stdin: ChildStdin, lines: Lines<BufReader<ChildStdout>>, _child: Box<Child> },
    Ssh(Box<Pipe>),
}

impl Channel {
    /// Sends a line.
    pub async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Here { stdin, .. } => {
                stdin.write_all(line).await?;
                stdin.flush().await
            }
            Self::Ssh(pipe) => {
                let Some(stdin) = pipe.stdin.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
                stdin.write_all(line).await?;
                stdin.flush().await
            }
        }
    }

    /// Reads the next line; `None` at the end. Cancel-safe: a partial line is kept.
    pub async fn line(&mut self, begun: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Here { lines, .. } => Ok(lines.next_line().await?.map(String::into_bytes)),
            Self::Ssh(pipe) => {
                pipe.stdout.read_until(b'\n', begun).await?;
                let line = std::mem::take(begun);
                Ok(if line.is_empty() { None } else { Some(line) })
            }
        }
    }

    /// The end of the program's standard error so far.
    pub fn stderr_tail(&self) -> String {
        match self {
            Self::Here { .. } => String::new(),
            Self::Ssh(pipe) => pipe.stderr_tail(),
        }
    }
}

impl HeadNode {
    /// The machine as a host.
    pub fn host(&self) -> Arc<dyn Host> {
        match self {
            Self::Here => Arc::new(LocalHost),
            Self::Ssh(host) => Arc::new(host.clone()),
        }
    }

    /// Runs a program that may be run twice if the connection is lost meanwhile.
    pub async fn run(&self, argv: &[&str], limit: Duration) -> Result<Output, HostError> {
        let argv: Vec<String> = argv.iter().map(|a| (*a).to_owned()).collect();
        match self {
            Self::Here => LocalHost.run(&argv, &BTreeMap::new(), limit).await,
            Self::Ssh(host) => host.ask(&argv, &BTreeMap::new(), limit).await,
        }
    }

    /// Resolves a path there.
    pub async fn expand(&self, path: &str) -> Result<Utf8PathBuf, HostError> {
        match self {
            Self::Here => Ok(cvc_core::paths::expand(path)),
            Self::Ssh(host) => host.expand(path).await,
        }
    }

    /// Writes a file there.
    pub async fn put(&self, content: &[u8], to: &Utf8Path) -> Result<(), HostError> {
        self.host().put(content, to).await
    }

    /// Reads a file there; `None` if there is none.
    pub async fn get(&self, from: &Utf8Path) -> Result<Option<Vec<u8>>, HostError> {
        match self.host().get(from).await {
            Ok(content) => Ok(Some(content)),
            Err(HostError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Copies a program there, and reports the progress if it takes long.
    pub async fn upload(&self, from: &Utf8Path, to: &Utf8Path, mut tell: impl FnMut(String) + Send) -> Result<(), HostError> {
        let name = to.file_name().unwrap_or_default().to_owned();
        match self {
            Self::Here => {
                let error = |source| HostError::File { host: "localhost".into(), action: "write", path: to.to_string(), source };
                let staging = Utf8PathBuf::from(format!("{to}.{}", std::process::id()));
                std::fs::copy(from, &staging).and_then(|_| std::fs::rename(&staging, to)).map_err(error)
            }
            Self::Ssh(host) => host.upload(from, to.as_str(), 0o755, &mut |at| tell(format!("{name}: {} MiB there", at.done >> 20))).await,
        }
    }

    /// Copies a directory from there; over ssh, `max_bytes` at most. Adds the bytes that came over the network to `bytes`.
    pub async fn download(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        max_bytes: u64,
        mut tell: impl FnMut(String) + Send,
        bytes: &mut u64,
    ) -> Result<(), HostError> {
        match self {
            Self::Here => copy_tree(from, to).map_err(|e| HostError::File {
                host: "localhost".into(),
                action: "copy",
                path: from.to_string(),
                source: io::Error::other(e.to_string()),
            }),
            Self::Ssh(host) => {
                let mut tell = |at: Progress| tell(format!("{} MiB brought", at.done >> 20));
                host.download_counted(from.as_str(), to, &[], max_bytes, &mut tell, bytes).await
            }
        }
    }

    /// Starts a program there that exchanges lines.
    pub async fn channel(&self, argv: &[String]) -> Result<Channel, HostError> {
        match self {
            Self::Here => {
                let error = |source| HostError::Start { host: "localhost".into(), argv: argv.to_vec(), source };
                let (program, args) =
                    argv.split_first().ok_or_else(|| error(io::Error::other("internal error (please report): no program to run")))?;
                let mut child = tool(program)
                    .args(args)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .process_group(0)
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(error)?;
                match (child.stdin.take(), child.stdout.take()) {
                    (Some(stdin), Some(stdout)) => {
                        Ok(Channel::Here { stdin, lines: BufReader::new(stdout).lines(), _child: Box::new(child) })
                    }
                    _ => Err(error(io::Error::other("internal error (please report): ssh was started without standard streams"))),
                }
            }
            Self::Ssh(host) => Ok(Channel::Ssh(Box::new(host.pipe(argv).await?))),
        }
    }

    /// Its name for messages.
    pub fn name(&self) -> String {
        match self {
            Self::Here => "this machine".to_owned(),
            Self::Ssh(host) => host.name().to_owned(),
        }
    }
}
