//! Paths in a campaign's directory.

use crate::ids::{RunId, below};
use crate::outcome::Cause;
use camino::{Utf8Path, Utf8PathBuf};

/// `campaigns/<name>/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignDir {
    root: Utf8PathBuf,
}

impl CampaignDir {
    /// The directory of this campaign below `campaigns`.
    pub fn new(campaigns: &Utf8Path, name: &str) -> Self {
        Self {
            root: below(campaigns, name),
        }
    }

    /// An existing directory of a campaign.
    pub fn at(root: &Utf8Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The directory itself.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// The copy of the campaign file that the runs were made from.
    pub fn campaign_file(&self) -> Utf8PathBuf {
        self.root.join("campaign.toml")
    }

    /// The hosts of sites with an inventory, as they were when it last ran.
    pub fn hosts(&self) -> Utf8PathBuf {
        self.root.join("hosts.json")
    }

    /// The plan.
    pub fn plan(&self) -> Utf8PathBuf {
        self.root.join("plan.json")
    }

    /// The journal.
    pub fn journal(&self) -> Utf8PathBuf {
        self.root.join("journal.jsonl")
    }

    /// The lock.
    pub fn lock(&self) -> Utf8PathBuf {
        self.root.join("lock")
    }

    /// All run directories.
    pub fn runs(&self) -> Utf8PathBuf {
        self.root.join("runs")
    }

    /// Where runs work that have no storage area of their own.
    pub fn work(&self, run: &RunId) -> Utf8PathBuf {
        below(&self.root.join("work"), run.as_str())
    }

    /// A run that succeeded.
    pub fn run(&self, run: &RunId) -> Utf8PathBuf {
        below(&self.runs(), run.as_str())
    }

    /// A run that is under way; renamed when its outcome is decided.
    pub fn partial(&self, run: &RunId) -> Utf8PathBuf {
        below(&self.runs(), &format!("{run}.partial"))
    }

    /// The file with what the program of a failed attempt said last: its standard error, or its standard output if that is empty; of the restart
    /// where that failed. `None` without any.
    pub fn output_of(&self, run: &RunId, attempt: u32, cause: Cause) -> Option<Utf8PathBuf> {
        let of_restart = ["restart.stderr", "restart.stdout"];
        let names = of_restart
            .into_iter()
            .filter(|_| cause == Cause::Restart)
            .chain(["stderr", "stdout"]);
        let dir = self.failed(run, attempt);
        names.map(|name| dir.join(name)).find(|file| {
            let found = file.symlink_metadata();
            found.is_ok_and(|m| m.is_file() && m.len() > 0)
        })
    }

    /// An attempt that failed, with its logs.
    pub fn failed(&self, run: &RunId, attempt: u32) -> Utf8PathBuf {
        below(&self.runs(), &format!("{run}.failed-{attempt}"))
    }
}
