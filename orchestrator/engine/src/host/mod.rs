//! One machine on which things are done: run a program, put and get files. Argument vectors, never shell strings.

mod error;
mod local;
mod tool;

pub use error::{ChangedKey, HostError, Obstacle};
pub use local::{LocalHost, bounded};

pub use tool::{log_tool, output_within, tool};

use async_trait::async_trait;
use camino::Utf8Path;
use std::{collections::BTreeMap, time::Duration};

/// What a program that was run to its end left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output, at most [`MOST_OUTPUT`] bytes of it.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

/// Bytes that are kept of each stream.
pub const MOST_OUTPUT: usize = 1 << 20;

/// One machine.
#[async_trait]
pub trait Host: Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;
    /// Runs a program to its end, or ends it when the time is up. `env` is added to a minimal environment.
    async fn run(&self, argv: &[String], env: &BTreeMap<String, String>, limit: Duration) -> Result<Output, HostError>;
    /// Writes a file there, whole or not at all.
    async fn put(&self, content: &[u8], to: &Utf8Path) -> Result<(), HostError>;
    /// Reads a file there.
    async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError>;
}
