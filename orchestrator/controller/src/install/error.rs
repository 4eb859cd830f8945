//! What can go wrong with an installation. Exit code 5.

use super::{difference::Difference, report::InstallReport};
use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_engine::render::RenderError;

/// Software could not be installed, or is not what it should be. Exit code 5.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A template of cvc's own.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A path that ssh's configuration cannot hold.
    #[error("the path {path} cannot be given to ssh: it has a quotation mark, a backslash or a line feed")]
    Path {
        /// Which.
        path: Utf8PathBuf,
    },
    /// ansible-core is not there and could not be brought.
    #[error("{what}")]
    NoAnsible {
        /// What is missing, and what the tools said.
        what: String,
        /// How to fix it.
        hint: String,
    },
    /// ansible-playbook ended without having done anything.
    #[error("ansible-playbook {how} before any task: {said}")]
    Playbook {
        /// How it ended.
        how: String,
        /// The end of what it said.
        said: String,
    },
    /// Hosts failed; the others are done.
    #[error("{0}")]
    Failed(Box<InstallReport>),
    /// The hosts do not have the same.
    #[error("site {site}: the hosts do not have the same {component}: {}", values.iter().map(|(host, value)| format!("{host} has {value}")).collect::<Vec<_>>().join(", "))]
    Differ {
        /// Which site.
        site: String,
        /// Which component.
        component: String,
        /// What each host has.
        values: Vec<(String, String)>,
    },
    /// A site has not what the lock says.
    #[error("site {site} has not what the runs before were made with ({file}): {}", differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Changed {
        /// Which site.
        site: String,
        /// The lock.
        file: Utf8PathBuf,
        /// In what.
        differences: Vec<Difference>,
    },
    /// It took too long and was ended.
    #[error("the installation of site {site} did not end within {limit_s:.0} s and was ended")]
    Timeout {
        /// Which site.
        site: String,
        /// The limit.
        limit_s: f64,
    },
    /// The user stopped it.
    #[error("the installation of site {site} was interrupted: what was done stays, and is not done twice")]
    Interrupted {
        /// Which site.
        site: String,
    },
}

impl InstallError {
    /// How to fix it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Store(_) | Self::Render(_) | Self::Interrupted { .. } => return None,
            Self::Path { .. } => "move the file to another path".into(),
            Self::NoAnsible { hint, .. } => hint.clone(),
            Self::Playbook { .. } => "see the message; `cvc install SITE --inventory-only DIR` writes what ansible-playbook got".into(),
            Self::Failed(report) => return report.hint(),
            Self::Differ { component, .. } => {
                format!(
                    "make the hosts alike: remove the odd {component}, or give a prefix or module that all have, then `cvc install` again"
                )
            }
            Self::Changed { .. } => {
                "`cvc install SITE` brings the locked versions back where they can be had; `--update-lock` goes on with what is there now, \
                 and later runs are no longer like the earlier ones"
                    .into()
            }
            Self::Timeout { .. } => "see which task it was; type the command again: what is done is not done twice".into(),
        })
    }
}
