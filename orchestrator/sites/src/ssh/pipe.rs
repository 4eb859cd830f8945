//! A long-lived connection to a program on a remote machine.

use super::{Master, SshHost, remote};
use cvc_engine::host::{Host, HostError};
use openssh::{Child, ChildStdin, ChildStdout, Session};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, BufReader},
    sync::OwnedSemaphorePermit,
    task::JoinHandle,
};

/// Maximum number of bytes kept of the end of standard error.
const MAX_MESSAGE: usize = 16 << 10;
/// Time limit for reading standard error after a program has ended. Its children may keep the pipe open.
const LAST_OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// A remote program with its standard streams. Dropping it closes the program's input, but does not end the program.
#[derive(Debug)]
pub struct Pipe {
    /// Input of the program; dropping it closes the input.
    pub stdin: Option<ChildStdin>,
    /// Output of the program, to be read by lines.
    pub stdout: BufReader<ChildStdout>,
    host: SshHost,
    child: Child<Arc<Session>>,
    master: Arc<Master>,
    stderr: Arc<Mutex<String>>,
    hearing: JoinHandle<()>,
    during: String,
    _permit: OwnedSemaphorePermit,
}

impl Pipe {
    /// Closes the program's input and waits for its end; further output is discarded. Returns the exit code (`None` if a signal ended it) and the end
    /// of its standard error.
    ///
    /// # Errors
    /// The connection was lost.
    pub async fn wait(mut self) -> Result<(Option<i32>, String), HostError> {
        drop(self.stdin.take());
        // drain the output, so that the program does not block on a full pipe
        let _ = tokio::io::copy(&mut self.stdout, &mut tokio::io::sink()).await;
        let code = self
            .host
            .end(self.child, &self.master, &self.during)
            .await?;
        // the last output may not have arrived yet
        let _ = tokio::time::timeout(LAST_OUTPUT_LIMIT, self.hearing).await;
        let message = self.stderr.lock().clone();
        if code == Some(127) && message.trim_end().ends_with(remote::NO_PROGRAM) {
            return Err(HostError::NoProgram {
                host: self.host.name().to_owned(),
                program: self.during,
            });
        }
        Ok((code, message))
    }

    /// Returns the end of the standard error received until now.
    pub fn stderr_tail(&self) -> String {
        self.stderr.lock().clone()
    }
}

impl SshHost {
    /// Starts a remote program and returns its streams. There is no time limit, but the connection ends if the remote machine stops answering.
    ///
    /// # Errors
    /// The program cannot be started. A missing program is reported only by [`Pipe::wait`].
    pub async fn pipe(&self, argv: &[String]) -> Result<Pipe, HostError> {
        let during = argv.first().cloned().unwrap_or_default();
        let line = remote::program(argv, &BTreeMap::new(), None);
        let (mut child, master, permit) = self
            .start(&line, &format!("while `{during}` was started"))
            .await?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) = (
            child.stdin().take(),
            child.stdout().take(),
            child.stderr().take(),
        ) else {
            return Err(HostError::Ssh {
                host: self.name().to_owned(),
                message: "a channel without streams".into(),
            });
        };
        let stderr_text = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&stderr_text);
        let hearing = tokio::spawn(async move {
            let mut buffer = [0u8; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
                let mut kept = kept.lock();
                kept.push_str(&String::from_utf8_lossy(&buffer[..n]));
                if kept.len() > MAX_MESSAGE {
                    let from = (kept.len() - MAX_MESSAGE..=kept.len())
                        .find(|i| kept.is_char_boundary(*i))
                        .unwrap_or(kept.len());
                    *kept = kept.split_off(from);
                }
            }
        });
        Ok(Pipe {
            stdin: Some(stdin),
            stdout: BufReader::new(stdout),
            host: self.clone(),
            child,
            master,
            stderr: stderr_text,
            hearing,
            during,
            _permit: permit,
        })
    }
}
