//! Access to the head node, which stores the spools: by ssh, or directly if sbatch runs on this machine.

use crate::ssh::{Pipe, SshHost, TransferProgress};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::{StoreError, copy_tree};
use cvc_engine::host::{Host, HostError, LocalHost, Output, THIS_MACHINE, tool};
use std::{collections::BTreeMap, io, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout},
};

/// Time limit of short queries.
pub(super) const SHORT: Duration = Duration::from_secs(60);

/// Maximum length of a line from a remote program, bytes. Events are far shorter; a longer line does not come from cvc and would fill this machine's
/// memory.
const MAX_LINE: usize = 16 << 20;

/// Function that receives messages about the progress of a copy.
pub type ProgressReport<'a> = &'a mut (dyn FnMut(String) + Send);

/// The machine with a site's spools, on which its agents work.
#[async_trait]
pub trait HeadNode: Send + Sync {
    /// Returns the name of the machine for messages.
    fn name(&self) -> String;

    /// Returns the machine as a host.
    fn host(&self) -> Arc<dyn Host>;

    /// Connects to the machine.
    ///
    /// # Errors
    /// The machine cannot be reached.
    async fn connect(&self) -> Result<(), HostError> {
        Ok(())
    }

    /// Sets how long operations wait for the machine while it does not answer.
    fn set_patience(&self, _patience: Duration) {}

    /// Closes the connection, because the machine is lost.
    async fn disconnect(&self) {}

    /// Runs a program that is safe to repeat; it may run twice if the connection is lost meanwhile.
    ///
    /// # Errors
    /// The program cannot be run, or does not end within the limit.
    async fn run(&self, argv: &[&str], limit: Duration) -> Result<Output, HostError>;

    /// Resolves a path on the machine.
    ///
    /// # Errors
    /// The machine cannot be queried.
    async fn expand(&self, path: &str) -> Result<Utf8PathBuf, HostError>;

    /// Copies a file to the machine. Reports the progress if the copy takes long.
    ///
    /// # Errors
    /// The file cannot be copied.
    async fn upload(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        report: ProgressReport<'_>,
    ) -> Result<(), HostError>;

    /// Copies a directory from the machine. If the copy goes over a network, the directory may have at most `max_bytes`. Adds the number of bytes
    /// received over the network to `bytes`.
    ///
    /// # Errors
    /// The directory cannot be copied, or has more than `max_bytes`.
    async fn download(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        max_bytes: u64,
        report: ProgressReport<'_>,
        bytes: &mut u64,
    ) -> Result<(), HostError>;

    /// Starts a program on the machine. The caller exchanges lines with the program.
    ///
    /// # Errors
    /// The program cannot be started.
    async fn channel(&self, argv: &[String]) -> Result<Box<dyn Channel>, HostError>;
}

/// A program on a head node that exchanges lines.
#[async_trait]
pub trait Channel: Send {
    /// Sends a line.
    ///
    /// # Errors
    /// The program has ended, or the connection is lost.
    async fn send(&mut self, line: &[u8]) -> io::Result<()>;

    /// Reads the next line; `None` at the end of the output. The future may be dropped before the line is complete: `begun` keeps the beginning of
    /// the line for the next call.
    ///
    /// # Errors
    /// The connection is lost.
    async fn line(&mut self, begun: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>>;

    /// Returns the end of the program's standard error until now.
    fn stderr_tail(&self) -> String;
}

/// Reads the next line, or the rest without a line feed; `None` at the end. The future may be dropped before the line is complete: `begun` keeps the
/// beginning of the line for the next call.
async fn next_line(
    from: &mut (impl AsyncBufRead + Unpin + Send),
    begun: &mut Vec<u8>,
    max_bytes: usize,
) -> io::Result<Option<Vec<u8>>> {
    let room = (max_bytes + 1).saturating_sub(begun.len());
    from.take(room as u64).read_until(b'\n', begun).await?;
    if begun.len() > max_bytes {
        let what = format!(
            "a line of more than {} MiB: the other end is not an agent of cvc",
            max_bytes >> 20
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let line = std::mem::take(begun);
    Ok(if line.is_empty() { None } else { Some(line) })
}

/// Reads a file on the head node; `None` if it does not exist.
pub(super) async fn get(
    head_node: &dyn HeadNode,
    from: &Utf8Path,
) -> Result<Option<Vec<u8>>, HostError> {
    match head_node.host().get(from).await {
        Ok(content) => Ok(Some(content)),
        Err(HostError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// This machine as head node, if sbatch runs on it.
pub(super) struct ThisMachine;

struct LocalChannel {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _child: Child,
}

#[async_trait]
impl HeadNode for ThisMachine {
    fn name(&self) -> String {
        "this machine".to_owned()
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::new(LocalHost)
    }

    async fn run(&self, argv: &[&str], limit: Duration) -> Result<Output, HostError> {
        LocalHost.run(&owned(argv), &BTreeMap::new(), limit).await
    }

    async fn expand(&self, path: &str) -> Result<Utf8PathBuf, HostError> {
        Ok(cvc_core::paths::expand(path))
    }

    async fn upload(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        _report: ProgressReport<'_>,
    ) -> Result<(), HostError> {
        let error = |source| HostError::File {
            host: THIS_MACHINE.into(),
            action: "write",
            path: to.to_string(),
            source,
        };
        let staging = Utf8PathBuf::from(format!("{to}.{}", std::process::id()));
        std::fs::copy(from, &staging)
            .and_then(|_| std::fs::rename(&staging, to))
            .map_err(error)
    }

    async fn download(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        _max: u64,
        _report: ProgressReport<'_>,
        _bytes: &mut u64,
    ) -> Result<(), HostError> {
        copy_tree(from, to).map_err(|error| {
            let kind = if let StoreError::Io { source, .. } = &error {
                source.kind()
            } else {
                io::ErrorKind::Other
            };
            // if the disk is not full, the error may concern the copied file, as on another machine
            let host = if error.is_full_disk() {
                THIS_MACHINE.to_owned()
            } else {
                self.name()
            };
            HostError::File {
                host,
                action: "copy",
                path: from.to_string(),
                source: io::Error::new(kind, error.to_string()),
            }
        })
    }

    async fn channel(&self, argv: &[String]) -> Result<Box<dyn Channel>, HostError> {
        let error = |source| HostError::Start {
            host: THIS_MACHINE.into(),
            argv: argv.to_vec(),
            source,
        };
        let broken = |what: &str| {
            error(io::Error::other(format!(
                "internal error (please report): {what}"
            )))
        };
        let (program, args) = argv
            .split_first()
            .ok_or_else(|| broken("no program to run"))?;
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
            (Some(stdin), Some(stdout)) => Ok(Box::new(LocalChannel {
                stdin,
                stdout: BufReader::new(stdout),
                _child: child,
            })),
            _ => Err(broken("a program was started without standard streams")),
        }
    }
}

#[async_trait]
impl Channel for LocalChannel {
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.stdin.write_all(line).await?;
        self.stdin.flush().await
    }

    async fn line(&mut self, begun: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        next_line(&mut self.stdout, begun, MAX_LINE).await
    }

    fn stderr_tail(&self) -> String {
        String::new()
    }
}

#[async_trait]
impl HeadNode for SshHost {
    fn name(&self) -> String {
        Host::name(self).to_owned()
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::new(self.clone())
    }

    async fn connect(&self) -> Result<(), HostError> {
        SshHost::connect(self).await
    }

    fn set_patience(&self, patience: Duration) {
        SshHost::set_patience(self, patience);
    }

    async fn disconnect(&self) {
        SshHost::disconnect(self).await;
    }

    async fn run(&self, argv: &[&str], limit: Duration) -> Result<Output, HostError> {
        self.ask(&owned(argv), &BTreeMap::new(), limit).await
    }

    async fn expand(&self, path: &str) -> Result<Utf8PathBuf, HostError> {
        SshHost::expand(self, path).await
    }

    async fn upload(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        report: ProgressReport<'_>,
    ) -> Result<(), HostError> {
        let name = to.file_name().unwrap_or_default();
        SshHost::upload(self, from, to.as_str(), 0o755, &mut |at| {
            report(format!("{name}: {} MiB copied", at.done >> 20))
        })
        .await
    }

    async fn download(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        max_bytes: u64,
        report: ProgressReport<'_>,
        bytes: &mut u64,
    ) -> Result<(), HostError> {
        let mut report = |at: TransferProgress| report(format!("{} MiB fetched", at.done >> 20));
        self.download_counted(from.as_str(), to, &[], max_bytes, &mut report, bytes)
            .await
    }

    async fn channel(&self, argv: &[String]) -> Result<Box<dyn Channel>, HostError> {
        Ok(Box::new(self.pipe(argv).await?))
    }
}

#[async_trait]
impl Channel for Pipe {
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(stdin) = self.stdin.as_mut() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        stdin.write_all(line).await?;
        stdin.flush().await
    }

    async fn line(&mut self, begun: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        next_line(&mut self.stdout, begun, MAX_LINE).await
    }

    fn stderr_tail(&self) -> String {
        Pipe::stderr_tail(self)
    }
}

fn owned(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|a| (*a).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_of_a_head_has_a_limit() {
        let read =
            async |text: &[u8], begun: &mut Vec<u8>| next_line(&mut &text[..], begun, 8).await;
        let mut begun = Vec::new();
        assert_eq!(
            read(b"1234567\nrest", &mut begun).await.expect("reads"),
            Some(b"1234567\n".to_vec())
        );
        assert_eq!(read(b"", &mut begun).await.expect("reads"), None);
        // a part of the line was received before
        begun = b"1234".to_vec();
        assert_eq!(
            read(b"567\n", &mut begun).await.expect("reads"),
            Some(b"1234567\n".to_vec())
        );
        for (before, then) in [
            (&b""[..], &b"123456789\n"[..]),
            (b"1234", b"56789"),
            (b"123456789", b""),
        ] {
            begun = before.to_vec();
            let error = read(then, &mut begun).await.expect_err("too long");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
            assert!(begun.len() <= 9, "no more is kept");
        }
    }
}
