//! Paths in a campaign's directory.

use crate::ids::{RunId, below};
use crate::outcome::Cause;
use camino::{Utf8Path, Utf8PathBuf};

/// The directory of a campaign, `campaigns/<name>/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignDir {
    root: Utf8PathBuf,
}

impl CampaignDir {
    /// Returns the directory of the campaign with this name below `campaigns`.
    pub fn new(campaigns: &Utf8Path, name: &str) -> Self {
        Self {
            root: below(campaigns, name),
        }
    }

    /// Returns the campaign directory at this path.
    pub fn at(root: &Utf8Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Returns the path of the directory itself.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// Returns the path of the stored campaign file, from which the runs were made.
    pub fn campaign_file(&self) -> Utf8PathBuf {
        self.root.join("campaign.toml")
    }

    /// Returns the path of the list of hosts, for sites with an inventory, as of the last session.
    pub fn hosts(&self) -> Utf8PathBuf {
        self.root.join("hosts.json")
    }

    /// Returns the path of the plan.
    pub fn plan(&self) -> Utf8PathBuf {
        self.root.join("plan.json")
    }

    /// Returns the path of the journal.
    pub fn journal(&self) -> Utf8PathBuf {
        self.root.join("journal.jsonl")
    }

    /// Returns the path of the lock file.
    pub fn lock(&self) -> Utf8PathBuf {
        self.root.join("lock")
    }

    /// Returns the directory that contains all run directories.
    pub fn runs(&self) -> Utf8PathBuf {
        self.root.join("runs")
    }

    /// Returns the working directory of a run whose point has no storage area of its own.
    pub fn work(&self, run: &RunId) -> Utf8PathBuf {
        below(&self.root.join("work"), run.as_str())
    }

    /// Returns the directory of a run that succeeded.
    pub fn run(&self, run: &RunId) -> Utf8PathBuf {
        below(&self.runs(), run.as_str())
    }

    /// Returns the directory of an active run, which is renamed when its outcome is known.
    pub fn partial(&self, run: &RunId) -> Utf8PathBuf {
        below(&self.runs(), &format!("{run}.partial"))
    }

    /// Returns the file with the last output of a failed attempt's program: its standard error, or its standard output if that is empty. If the
    /// restart failed, returns the output of the restarted program. `None` if there is no output.
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

    /// Returns the directory of a failed attempt, with its logs.
    pub fn failed(&self, run: &RunId, attempt: u32) -> Utf8PathBuf {
        below(&self.runs(), &format!("{run}.failed-{attempt}"))
    }
}
