//! A long-lived channel to a program on the other side.

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

/// Maximum number of bytes of standard error that are kept: the last ones.
const MOST_SAID: usize = 16 << 10;
/// Time limit for reading standard error after the end of a program, whose children may hold it open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program there whose standard streams are here. When it is dropped, the program's input ends; what it does then is its own affair.
#[derive(Debug)]
pub struct Pipe {
    /// Its input; dropping it ends it.
    pub stdin: Option<ChildStdin>,
    /// Its output, to be read by lines.
    pub stdout: BufReader<ChildStdout>,
    host: SshHost,
    child: Child<Arc<Session>>,
    master: Arc<Master>,
    said: Arc<Mutex<String>>,
    hearing: JoinHandle<()>,
    during: String,
    _permit: OwnedSemaphorePermit,
}

impl Pipe {
    /// Ends its input and waits for its end, its further output unread: the exit code, `None` when a signal ended it, and the last of its standard error.
    ///
    /// # Errors
    /// When the connection was lost.
    pub async fn wait(mut self) -> Result<(Option<i32>, String), HostError> {
        drop(self.stdin.take());
        // who waits does not read any more, and the program must not stand still for that
        let _ = tokio::io::copy(&mut self.stdout, &mut tokio::io::sink()).await;
        let code = self.host.end(self.child, &self.master, &self.during).await?;
        // what was said last is still on its way
        let _ = tokio::time::timeout(LAST_WORDS, self.hearing).await;
        let said = self.said.lock().clone();
        if code == Some(127) && said.trim_end().ends_with(remote::NO_PROGRAM) {
            return Err(HostError::NoProgram { host: self.host.name().to_owned(), program: self.during });
        }
        Ok((code, said))
    }

    /// The last of its standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().clone()
    }
}

impl SshHost {
    /// Starts a program there and keeps its streams. There is no time limit: the line is watched, and ends when the other side is silent.
    ///
    /// # Errors
    /// When it cannot be started; that its program is missing shows at its end.
    pub async fn pipe(&self, argv: &[String]) -> Result<Pipe, HostError> {
        let during = argv.first().cloned().unwrap_or_default();
        let line = remote::program(argv, &BTreeMap::new(), None);
        let (mut child, master, permit) = self.start(&line, &format!("while `{during}` was started")).await?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) = (child.stdin().take(), child.stdout().take(), child.stderr().take()) else {
            return Err(HostError::Ssh { host: self.name().to_owned(), said: "a channel without streams".into() });
        };
        let said = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&said);
        let hearing = tokio::spawn(async move {
            let mut buffer = [0u8; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
                let mut kept = kept.lock();
                kept.push_str(&String::from_utf8_lossy(&buffer[..n]));
                if kept.len() > MOST_SAID {
                    let from = (kept.len() - MOST_SAID..=kept.len()).find(|i| kept.is_char_boundary(*i)).unwrap_or(kept.len());
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
            said,
            hearing,
            during,
            _permit: permit,
        })
    }
}
