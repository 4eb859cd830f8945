//! Waits until Slurm starts steps in the agent's job.
//!
//! A Slurm controller that has just been started (slurmctld 22.05) refuses every step on named nodes until the nodes have registered with it again,
//! some seconds later: `srun: error: Unable to create step for job 1: Memory required by task is not available`. Launchers name the nodes and srun
//! does not retry, so Hydra waits for its proxies forever. Therefore no run begins before a test step has started.

use super::prepare::Prepared;
use crate::{host::output_within, run::SOON, transport::Transport};
use parking_lot::Mutex;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::process::Command;

/// Time limit for Slurm's controller to start steps.
const PATIENCE: Duration = Duration::from_secs(180);
/// Delay between attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Why Slurm starts no steps.
#[derive(Debug, thiserror::Error)]
#[error("Slurm starts no steps on {}: {reason}", nodes.join(", "))]
pub(super) struct NoSteps {
    nodes: Vec<String>,
    reason: ToolError,
}

/// Why a tool of Slurm failed.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    /// The tool reports an error.
    #[error("{0}")]
    Refused(String),
    #[error("cannot start {tool}: {source}")]
    NotStarted {
        tool: &'static str,
        source: std::io::Error,
    },
    #[error("{tool} did not answer within {} s", SOON.as_secs())]
    NoAnswer { tool: &'static str },
}

impl ToolError {
    /// Returns whether retrying is useless because the job itself is over.
    fn is_final(&self) -> bool {
        match self {
            Self::Refused(message) => [
                "Invalid job id",
                "already completing or completed",
                "Job has expired",
            ]
            .iter()
            .any(|end| message.contains(end)),
            Self::NotStarted { .. } | Self::NoAnswer { .. } => false,
        }
    }
}

/// Start time of Slurm's controller, as the controller reported it when it last started a step for cvc; `None` before.
#[derive(Debug, Default)]
pub struct Steps(Mutex<Option<String>>);

impl Steps {
    /// Waits until a run's launcher can start a step on each of its nodes. This costs one query of Slurm's controller and, if the controller has
    /// restarted since the last query, one step.
    ///
    /// # Errors
    /// The job is over, or Slurm starts no steps for too long.
    pub(super) async fn wait(
        &self,
        prepared: &Prepared,
        mut report: impl FnMut(&str),
    ) -> Result<(), NoSteps> {
        if !matches!(prepared.request.transport, Transport::Slurm(_)) {
            return Ok(());
        }
        let mut nodes: Vec<&str> = Vec::new();
        for node in &prepared.run.used.ranks {
            if !nodes.contains(&node.among.as_str()) {
                nodes.push(&node.among);
            }
        }
        let begin = Instant::now();
        loop {
            let controller = controller_began().await;
            if controller.is_some() && controller == *self.0.lock() {
                return Ok(());
            }
            match start_step(&nodes).await {
                Ok(()) => {
                    *self.0.lock() = controller;
                    return Ok(());
                }
                Err(reason) if reason.is_final() || begin.elapsed() >= PATIENCE => {
                    return Err(NoSteps {
                        nodes: nodes.into_iter().map(str::to_owned).collect(),
                        reason,
                    });
                }
                Err(_) => report("waiting for Slurm to start steps"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns the start time of Slurm's controller; `None` if it does not answer.
async fn controller_began() -> Option<String> {
    let message = run("scontrol", &["show".into(), "config".into()])
        .await
        .ok()?;
    boot_time(&message).map(str::to_owned)
}

fn boot_time(configuration: &str) -> Option<&str> {
    let line = configuration
        .lines()
        .find_map(|l| l.strip_prefix("BOOT_TIME"))?;
    line.split_once('=')
        .map(|(_, time)| time.trim())
        .filter(|time| !time.is_empty())
}

/// Starts an empty step, with the options that launchers use.
async fn start_step(nodes: &[&str]) -> Result<(), ToolError> {
    let count = nodes.len();
    let mut argv: Vec<String> = vec![
        format!("--nodes={count}"),
        format!("--ntasks={count}"),
        format!("--nodelist={}", nodes.join(",")),
    ];
    argv.extend(
        [
            "--overlap",
            "--cpu-bind=none",
            "--mpi=none",
            "--quiet",
            "true",
        ]
        .map(String::from),
    );
    run("srun", &argv).await.map(|_| ())
}

/// Runs a tool of Slurm, and returns its output.
async fn run(tool: &'static str, argv: &[String]) -> Result<String, ToolError> {
    let mut command = Command::new(tool);
    command.args(argv).stdin(Stdio::null());
    match output_within(&mut command, SOON).await {
        Ok(Ok(output)) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(Ok(output)) => Err(ToolError::Refused(
            String::from_utf8_lossy(&output.stderr)
                .trim()
                .replace('\n', "; "),
        )),
        Ok(Err(source)) => Err(ToolError::NotStarted { tool, source }),
        Err(_) => Err(ToolError::NoAnswer { tool }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_identified_by_its_start_time() {
        let configuration = "Configuration data as of 2026-11-22T09:22:27\nAuthType                = auth/munge\n\
                             BOOT_TIME               = 2026-11-22T09:22:25\nBurstBufferType         = (null)\n";
        assert_eq!(boot_time(configuration), Some("2026-11-22T09:22:25"));
        assert_eq!(boot_time("AuthType = auth/munge\n"), None);
    }

    #[test]
    fn only_the_end_of_the_job_is_final() {
        let is_final = |message: &str| ToolError::Refused(message.to_owned()).is_final();
        assert!(is_final(
            "srun: error: Unable to create step for job 1: Invalid job id specified"
        ));
        assert!(!is_final(
            "srun: error: Unable to create step for job 1: Memory required by task is not available"
        ));
        assert!(!is_final(
            "srun: error: Unable to create step for job 1: Unable to contact slurm controller (connect failure)"
        ));
        assert!(!ToolError::NoAnswer { tool: "srun" }.is_final());
    }
}
