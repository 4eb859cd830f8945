//! Possible states of a program's files after a power loss. The program's writes and syncs are recorded with strace. They are then replayed with all
//! synced changes and any part of the others.
//!
//! Only the guarantees of POSIX are assumed: a sync of a file puts its content on disk, a sync of a directory its names, and unsynced changes may be
//! lost in any order. Real file systems guarantee more, each in a different way.

mod history;
mod states;
mod trace;
mod tree;

pub use states::State;
pub use tree::{Node, Tree, read_tree, write_tree};

use history::{History, Recorder};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The file operations of a program.
#[derive(Debug)]
pub struct Recording {
    history: History,
    last: Tree,
}

/// The files at a moment when a file was changed.
#[derive(Debug)]
pub struct Moment {
    /// The files as the program sees them.
    pub seen: Tree,
    /// The files that are certainly on disk.
    pub synced: Tree,
}

impl Recording {
    /// Runs a command to its end under strace, and records the file operations of the command and its children on `root`/`name` and on everything
    /// below. Panics if the exit code is not 0, or if the recorded files differ from the files at the end.
    pub fn of(command: &Command, root: &Path, name: &str) -> Self {
        let output = tempfile::tempdir().expect("a directory");
        let file = output.path().join("trace");
        let mut traced = Command::new("strace");
        traced
            .args(trace::arguments(&file))
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => traced.env(variable, value),
                None => traced.env_remove(variable),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            traced.current_dir(dir);
        }
        let ended = traced
            .output()
            .unwrap_or_else(|e| panic!("{traced:?}: {e}"));
        assert!(
            ended.status.success(),
            "{command:?}: {}\n{}",
            ended.status,
            String::from_utf8_lossy(&ended.stderr)
        );
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let (history, files) = Recorder::new(root, name, umask()).follow(&trace::read(&text));
        let last = Tree::of(&history, &files);
        let there = read_tree(root, name);
        let differ: Vec<&PathBuf> = last
            .keys()
            .chain(there.keys())
            .filter(|path| last.get(*path) != there.get(*path))
            .collect();
        assert!(differ.is_empty(), "something was not recorded: {differ:?}");
        Self { history, last }
    }

    /// Returns the files at the end of the program.
    pub fn last(&self) -> &Tree {
        &self.last
    }

    /// Returns the files at each change of the file at this path.
    pub fn moments(&self, path: &Path) -> Vec<Moment> {
        let changes = self
            .history
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.path == path);
        changes
            .map(|(at, _)| Moment {
                seen: Tree::after(&self.history, |step| step <= at),
                synced: {
                    let synced = self.synced(|sync| sync.at <= at);
                    Tree::after(&self.history, |step| synced.contains(&step))
                },
            })
            .collect()
    }

    /// Returns up to `count` different states of the files after a power loss. The most important states come first; `seed` determines the choice of
    /// the others. A state is skipped if it lacks only one change, and this change is to a file for which `dull` returns true.
    pub fn states(&self, count: usize, seed: u64, dull: impl Fn(&Path) -> bool) -> Vec<State> {
        states::choose(&self.history, count, seed, dull)
    }

    /// Returns the changes that are on disk after the syncs that satisfy `is_done`.
    fn synced(&self, is_done: impl Fn(&history::Sync) -> bool) -> BTreeSet<usize> {
        self.history
            .syncs
            .iter()
            .filter(|sync| is_done(sync))
            .flat_map(|sync| sync.covers.iter().copied())
            .collect()
    }
}

/// Returns this process's umask.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .expect("a mask");
    u32::from_str_radix(mask.trim(), 8).expect("octal")
}
