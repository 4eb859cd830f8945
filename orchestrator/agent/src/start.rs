//! Starts an agent that continues to run after its starter has ended.

use super::spool::Spool;
use camino::Utf8Path;
use cvc_core::store::StoreError;
use cvc_os::proc::ProcessId;
use std::{
    fs::{self, OpenOptions},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Time limit for an agent to identify itself.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts the agent of a spool, unless one is alive. Returns the agent's process.
///
/// # Errors
/// The spool cannot be written, or the agent ends immediately.
pub fn start(program: &Utf8Path, root: &Utf8Path) -> Result<ProcessId, StoreError> {
    let spool = Spool::at(root);
    if let Some(id) = spool.agent() {
        return Ok(id);
    }
    if let Some(host) = spool.agent_elsewhere() {
        return Err(spool.not_here(&host));
    }
    spool.make()?;
    let log = spool.log();
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .map_err(StoreError::io("open", &log))?;
    let before = fs::metadata(&log).map(|m| m.len()).unwrap_or(0);
    // a login shell provides the user's modules and PATH; the user's language is removed, because the agent parses messages
    let mut child = Command::new("setsid")
        .args([
            "bash",
            "-lc",
            "LC_ALL=C exec \"$0\" agent \"$1\"",
            program.as_str(),
            root.as_str(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .current_dir(root)
        .spawn()
        .map_err(StoreError::io("start the agent of", root))?;
    let begin = Instant::now();
    loop {
        if let Some(id) = spool.agent() {
            return Ok(id);
        }
        let ended = child.try_wait().ok().flatten();
        if ended.is_some() || begin.elapsed() > LIMIT {
            // another start may have been faster
            if let Some(id) = spool.agent() {
                return Ok(id);
            }
            let text = fs::read(&log).unwrap_or_default();
            let message = String::from_utf8_lossy(text.get(before as usize..).unwrap_or_default())
                .trim()
                .to_owned();
            let how = ended.map_or_else(
                || format!("did not identify itself within {} s", LIMIT.as_secs()),
                |s| format!("ended at once ({s})"),
            );
            return Err(StoreError::damaged(
                &log,
                0,
                format!("the agent {how}: {message}"),
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
