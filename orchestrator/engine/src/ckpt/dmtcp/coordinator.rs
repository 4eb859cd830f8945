//! Sends commands to the DMTCP coordinator of a run or of its restart.

use super::{
    dmtcp_run::DmtcpRun,
    install::{DmtcpLayout, Status, has_json, parse_status},
};
use crate::{
    ckpt::{contract::Install, moments::no_checkpoint},
    host::{Host, HostError, LocalHost},
    run::{RunFailure, Shepherd},
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Interval between checks for the coordinator's port.
const TICK: Duration = Duration::from_millis(25);
/// Time limit from the start until the coordinator's port is known.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a command to the coordinator.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);

/// Ends the ranks through the coordinator. This is faster than a signal for a program that ignores SIGTERM, and prevents the program's clean-up.
pub(super) async fn kill(of: &DmtcpRun<'_>) {
    if let Ok(port) = std::fs::read_to_string(&of.layout.portfile) {
        // if the coordinator has ended, the ranks have ended as well
        let _ = DmtcpClient {
            install: &of.install,
            port: port.trim().to_owned(),
        }
        .say("-k")
        .await;
    }
}

/// A coordinator's answer about the state of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coordinator {
    /// The coordinator answered with this state.
    Answers(Status),
    /// There is no coordinator, or it has ended.
    Gone,
    /// The coordinator did not answer in time.
    Late,
}

impl Coordinator {
    pub fn answer(self) -> Option<Status> {
        match self {
            Self::Answers(status) => Some(status),
            Self::Gone | Self::Late => None,
        }
    }
}

/// Queries the coordinator of a restart.
pub(super) async fn ask_restart(of: &DmtcpRun<'_>) -> Coordinator {
    // the coordinator removes this file when it ends
    let Ok(port) = std::fs::read_to_string(&of.layout.portfile) else {
        return Coordinator::Gone;
    };
    DmtcpClient {
        install: &of.install,
        port: port.trim().to_owned(),
    }
    .status()
    .await
}

/// Sends commands to the coordinator of one run.
pub(super) struct DmtcpClient<'a> {
    pub install: &'a Install,
    pub port: String,
}

impl DmtcpClient<'_> {
    pub async fn say(&self, letter: &str) -> Result<String, RunFailure> {
        self.ask(&[letter]).await
    }

    async fn ask(&self, words: &[&str]) -> Result<String, RunFailure> {
        self.command(words)
            .await
            .map_err(|e| no_checkpoint(e.to_string()))
    }

    async fn command(&self, words: &[&str]) -> Result<String, HostError> {
        let mut argv = vec![
            self.install.program("dmtcp_command"),
            "-h".into(),
            "127.0.0.1".into(),
            "-p".into(),
            self.port.clone(),
        ];
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        let message = LocalHost
            .run(&argv, &BTreeMap::new(), COMMAND_LIMIT)
            .await?;
        Ok(format!("{}\n{}", message.stdout, message.stderr))
    }

    pub async fn status(&self) -> Coordinator {
        let words: &[&str] = if has_json(self.install) {
            &["--json", "-s"]
        } else {
            &["-s"]
        };
        match self.command(words).await {
            Ok(answer) => parse_status(&answer).map_or(Coordinator::Gone, Coordinator::Answers),
            Err(HostError::Timeout { .. }) => Coordinator::Late,
            Err(_) => Coordinator::Gone,
        }
    }
}

/// Waits for the coordinator's port.
pub(super) async fn port(
    layout: &DmtcpLayout,
    shepherd: &mut Shepherd,
) -> Result<String, RunFailure> {
    let begin = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(&layout.portfile)
            && text.trim().parse::<u16>().is_ok()
        {
            return Ok(text.trim().to_owned());
        }
        if !shepherd.at_work() {
            return Err(no_checkpoint(
                "the run ended before DMTCP's coordinator was ready: see coordinator.out",
            ));
        }
        if begin.elapsed() > START_LIMIT {
            return Err(no_checkpoint(format!(
                "DMTCP's coordinator did not report its port within {} s",
                START_LIMIT.as_secs()
            )));
        }
        tokio::time::sleep(TICK).await;
    }
}
