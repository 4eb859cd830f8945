//! The options of `cvc metadata`.

use camino::Utf8PathBuf;
use clap::Args;
use cvc_model::metadata::{Layout, MetadataSetting};

#[derive(Args)]
pub struct MetadataArgs {
    /// Counts before and after a run (files, or directories by node), or one count or trace
    #[arg(required = true, num_args = 1..=2, value_name = "BEFORE AFTER")]
    pub counts: Vec<Utf8PathBuf>,
    /// Counts of the idle file system over an equal time, to subtract
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"])]
    pub idle: Vec<Utf8PathBuf>,
    /// Only system calls on files below this directory
    #[arg(long, value_name = "DIR")]
    pub under: Option<Utf8PathBuf>,
    /// Layout, clients, checkpoints and servers of the run (e.g. delegated,8,9,1): prints CSV for `cvc predict --operations`
    #[arg(long, value_name = "LAYOUT,C,N,M", value_parser = counted_setting, requires = "csv")]
    pub setting: Option<(Layout, MetadataSetting)>,
    /// Print CSV: source, kind, count
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses a layout with the numbers of clients, checkpoints and servers.
fn counted_setting(text: &str) -> Result<(Layout, MetadataSetting), String> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let &[layout, clients, checkpoints, servers] = &words[..] else {
        return Err("write layout, clients, checkpoints and servers, as in delegated,8,9,1".into());
    };
    let layout = Layout::from_word(layout).ok_or_else(|| {
        let words = Layout::ALL.map(Layout::word);
        format!(
            "unknown layout `{layout}`; layouts are {}",
            words.join(", ")
        )
    })?;
    let number = |text: &str| {
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("`{text}` is not a whole number from 1"))
    };
    Ok((
        layout,
        MetadataSetting {
            clients: number(clients)?,
            checkpoints: number(checkpoints)?,
            servers: number(servers)?,
        },
    ))
}
