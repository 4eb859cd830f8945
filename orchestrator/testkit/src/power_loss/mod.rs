//! What a loss of power may leave of the files that a program writes: its writes and syncs are recorded with strace, and put together anew
//! with everything that was synced and any part of the rest.
//!
//! A file system promises what POSIX does, and nothing else: a sync of a file puts its content on disk, one of a directory its names, and
//! what was not synced may be lost in any order. Real ones promise more, each something else.

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

/// What a program did to its files.
#[derive(Debug)]
pub struct Recording {
    history: History,
    last: Tree,
}

/// The files at a moment at which a file was changed.
#[derive(Debug)]
pub struct Moment {
    /// As the program sees them.
    pub seen: Tree,
    /// What of them is on disk for certain.
    pub synced: Tree,
}

impl Recording {
    /// Runs a command to its end under strace, and records what it and its children do below `root`, to `name` there and all below that. Panics
    /// unless it ends with 0, and unless what was recorded is what is there at the end.
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

    /// The files as the program left them.
    pub fn last(&self) -> &Tree {
        &self.last
    }

    /// The files at each change of this one.
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

    /// Up to `count` different states of the files that a loss of power may leave, the most telling first; which of the others is chosen follows
    /// from `seed`. Of files that are `dull`, no single change is left out.
    pub fn states(&self, count: usize, seed: u64, dull: impl Fn(&Path) -> bool) -> Vec<State> {
        states::choose(&self.history, count, seed, dull)
    }

    /// The changes that these syncs have put on disk.
    fn synced(&self, is_done: impl Fn(&history::Sync) -> bool) -> BTreeSet<usize> {
        self.history
            .syncs
            .iter()
            .filter(|sync| is_done(sync))
            .flat_map(|sync| sync.covers.iter().copied())
            .collect()
    }
}

/// The mask of this process for the modes of new files.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .expect("a mask");
    u32::from_str_radix(mask.trim(), 8).expect("octal")
}
