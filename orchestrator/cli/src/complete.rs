//! Shell completion of the next word: campaigns, variants, sites and applications, in addition to commands and options.

use clap_complete::{
    Shell,
    engine::{CompletionCandidate, PathCompleter, ValueCompleter},
    env::{CompleteEnv, Shells},
};
use cvc_core::app::{embedded, load};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

/// The environment variable with which a shell's script requests completions.
const VARIABLE: &str = "COMPLETE";

/// Answers a shell's completion request and exits; has no effect without a request.
pub fn answer_shell(command: impl Fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Returns the script that makes a shell request completions; `None` for a shell that cannot.
pub fn script(shell: Shell) -> Option<io::Result<Vec<u8>>> {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string())?;
    let mut script = Vec::new();
    let written = completer.write_registration(VARIABLE, "cvc", "cvc", "cvc", &mut script);
    Some(written.map(|()| script))
}

fn starting_with(
    current: &OsStr,
    names: impl IntoIterator<Item = String>,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    names
        .into_iter()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter(|name| name.starts_with(&*current))
        .map(CompletionCandidate::new)
        .collect()
}

fn names_in(directory: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| is_wanted(path))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect()
}

/// Completes campaign files.
pub fn campaign_files(current: &OsStr) -> Vec<CompletionCandidate> {
    PathCompleter::any()
        .filter(|path| path.is_dir() || path.extension() == Some(OsStr::new("toml")))
        .complete(current)
}

/// Completes campaign files, and the names of campaigns that have run.
pub fn campaigns(current: &OsStr) -> Vec<CompletionCandidate> {
    let directory = std::env::var_os("CVC_CAMPAIGNS").unwrap_or_else(|| "campaigns".into());
    let names = names_in(Path::new(&directory), |path| {
        path.join("journal.jsonl").is_file()
    });
    let mut found = starting_with(current, names);
    found.extend(campaign_files(current));
    found
}

/// Returns the names of the tables in a section of the campaign file on the command line, otherwise of all campaign files in this directory.
fn tables_of(section: &str) -> Vec<String> {
    let named: Vec<String> = std::env::args()
        .filter(|word| word.ends_with(".toml") && Path::new(word).is_file())
        .collect();
    let files = if named.is_empty() {
        names_in(Path::new("."), |path| {
            path.extension() == Some(OsStr::new("toml"))
        })
    } else {
        named
    };
    let tables = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.parse::<toml::Table>().ok());
    tables
        .filter_map(|table| Some(table.get(section)?.as_table()?.clone()))
        .flat_map(|tables| tables.into_iter().map(|(name, _)| name))
        .collect()
}

/// Completes variants of the campaign file.
pub fn variants(current: &OsStr) -> Vec<CompletionCandidate> {
    starting_with(current, tables_of("variants"))
}

/// Completes sites of the campaign file.
pub fn sites(current: &OsStr) -> Vec<CompletionCandidate> {
    starting_with(current, tables_of("sites"))
}

/// Completes applications: those that cvc includes, and descriptors in `apps`.
pub fn applications(current: &OsStr) -> Vec<CompletionCandidate> {
    let directories = [PathBuf::from("apps")]
        .into_iter()
        .chain(embedded::directory().ok());
    starting_with(current, load::known(&directories.collect::<Vec<_>>()))
}
