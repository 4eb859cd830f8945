//! Errors of an installation. Exit code 5.

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
    #[error(
        "ssh's configuration cannot hold the path {path}: it has a quotation mark, a backslash or a line feed"
    )]
    Path {
        /// Which.
        path: Utf8PathBuf,
    },
    /// ansible-core is not installed and could not be installed.
    #[error("{what}")]
    NoAnsible {
        /// What is missing, and the messages of the tools.
        what: String,
        /// How to fix it.
        hint: String,
    },
    /// ansible-playbook ended before its first task.
    #[error("ansible-playbook {how} before its first task: {message}")]
    Playbook {
        /// How it ended.
        how: String,
        /// The end of its output.
        message: String,
    },
    /// Another installation, of any campaign and from any machine, is at work on hosts.
    #[error("site {site}: another installation is at work on {}", hosts.join(", "))]
    Busy {
        /// Which site.
        site: String,
        /// Which hosts.
        hosts: Vec<String>,
    },
    /// Hosts failed; the others are done.
    #[error("{0}")]
    Failed(Box<InstallReport>),
    /// The hosts differ.
    #[error("site {site}: the hosts differ in {component}: {}", values.iter().map(|(host, value)| format!("{host} has {value}")).collect::<Vec<_>>().join(", "))]
    Differ {
        /// Which site.
        site: String,
        /// Which component.
        component: String,
        /// What each host has.
        values: Vec<(String, String)>,
    },
    /// A site differs from the lock.
    #[error("site {site} differs from the software of the earlier runs, recorded in {file}: {}", differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Changed {
        /// Which site.
        site: String,
        /// The lock.
        file: Utf8PathBuf,
        /// In what.
        differences: Vec<Difference>,
    },
    /// It exceeded its time limit and was ended.
    #[error("the installation of site {site} did not end within {limit_s:.0} s and was ended")]
    Timeout {
        /// Which site.
        site: String,
        /// The limit.
        limit_s: f64,
    },
    /// The user stopped it.
    #[error(
        "the installation of site {site} was interrupted; finished work stays and is not repeated"
    )]
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
            Self::Playbook { .. } => "see the message; `cvc install SITE --inventory-only DIR` writes the files that ansible-playbook was given".into(),
            Self::Busy { .. } => "wait for its end, then repeat the command; `fuser -v /run` on the host shows who holds its lock".into(),
            Self::Failed(report) => return report.hint(),
            Self::Differ { component, .. } => {
                format!(
                    "make the hosts equal: remove the odd {component}, or give a prefix or module that all of them have, then `cvc install` again"
                )
            }
            Self::Changed { .. } => {
                "`cvc install SITE` restores the locked versions where they are available; `--update-lock` accepts the present ones, and later runs then differ from earlier ones"
                    .into()
            }
            Self::Timeout { .. } => "see which task it was, then repeat the command: finished work is not repeated".into(),
        })
    }
}
