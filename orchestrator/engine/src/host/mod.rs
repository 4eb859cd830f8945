//! Machines that run programs and store files. Commands are argument vectors, never shell strings.

mod error;
mod local;
mod tool;

pub use error::{ChangedKey, HostError, Obstacle};
pub use local::{LocalHost, bounded};

pub use tool::{log_tool, output_within, tool};

use async_trait::async_trait;
use camino::Utf8Path;
use std::{collections::BTreeMap, time::Duration};

/// Name of this machine in errors and logs.
pub const THIS_MACHINE: &str = "localhost";

/// The result of a program that ran to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output, at most [`MAX_OUTPUT`] bytes of it.
    pub stdout: String,
    /// Standard error, at most [`MAX_OUTPUT`] bytes of it.
    pub stderr: String,
}

/// Maximum number of bytes kept of each stream.
pub const MAX_OUTPUT: usize = 1 << 20;

/// One machine.
#[async_trait]
pub trait Host: Send + Sync {
    /// Returns the machine's name for messages.
    fn name(&self) -> &str;
    /// Runs a program to its end, or ends it when the time limit is reached. `env` is added to a minimal environment.
    async fn run(
        &self,
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Output, HostError>;
    /// Writes a file on the machine atomically.
    async fn put(&self, content: &[u8], to: &Utf8Path) -> Result<(), HostError>;
    /// Reads a file on the machine.
    async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError>;
}
