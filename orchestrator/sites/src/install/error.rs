//! Errors of an installation. Exit code 5.

use super::{difference::VersionDifference, report::InstallReport};
use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_engine::render::RenderError;

/// Software could not be installed, or differs from the requested one. Exit code 5.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A file could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A template that is part of cvc could not be filled in.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A path that cannot be written in ssh's configuration.
    #[error(
        "ssh's configuration cannot hold the path {path}: it has a quotation mark, a backslash or a line feed"
    )]
    Path {
        /// The path.
        path: Utf8PathBuf,
    },
    /// ansible-core is not installed and could not be installed.
    #[error("{what}")]
    NoAnsible {
        /// The missing software, and the messages of the tools.
        what: String,
        /// How to correct it.
        hint: String,
    },
    /// ansible-playbook ended before its first task, so that there are no failed tasks to report.
    #[error("ansible-playbook {how} before its first task: {message}")]
    Playbook {
        /// How ansible-playbook ended.
        how: String,
        /// The end of its output.
        message: String,
    },
    /// Another installation, of any campaign and from any machine, is in progress on hosts.
    #[error("site {site}: another installation is at work on {}", hosts.join(", "))]
    Busy {
        /// The site.
        site: String,
        /// The hosts with that installation.
        hosts: Vec<String>,
    },
    /// Hosts failed; all other hosts are finished.
    #[error("{0}")]
    Failed(Box<InstallReport>),
    /// The hosts have different software.
    #[error("site {site}: the hosts differ in {component}: {}", values.iter().map(|(host, value)| format!("{host} has {value}")).collect::<Vec<_>>().join(", "))]
    Differ {
        /// The site.
        site: String,
        /// The component.
        component: String,
        /// The value on each host.
        values: Vec<(String, String)>,
    },
    /// The software of a site differs from the lock.
    #[error("site {site} differs from the software of the earlier runs, recorded in {file}: {}", differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Changed {
        /// The site.
        site: String,
        /// File of the lock.
        file: Utf8PathBuf,
        /// The differences.
        differences: Vec<VersionDifference>,
    },
    /// The installation exceeded its time limit and was ended.
    #[error("the installation of site {site} did not end within {limit_s:.0} s and was ended")]
    Timeout {
        /// The site.
        site: String,
        /// The time limit, seconds.
        limit_s: f64,
    },
    /// The user stopped the installation.
    #[error(
        "the installation of site {site} was interrupted; finished work stays and is not repeated"
    )]
    Interrupted {
        /// The site.
        site: String,
    },
}

impl InstallError {
    /// Returns how to correct the error, if that is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Store(_) | Self::Render(_) | Self::Interrupted { .. } => return None,
            Self::Path { .. } => "move the file to another path".into(),
            Self::NoAnsible { hint, .. } => hint.clone(),
            Self::Playbook { .. } => "see the message; `cvc install SITE --inventory-only DIR` writes the files that ansible-playbook was given".into(),
            Self::Busy { .. } => "wait until it ends, then repeat the command; `fuser -v /run` on the host shows which process holds its lock".into(),
            Self::Failed(report) => return report.hint(),
            Self::Differ { component, .. } => {
                format!(
                    "make the hosts equal: remove the differing {component}, or give a prefix or module that all hosts have, then run `cvc install` again"
                )
            }
            Self::Changed { .. } => {
                "`cvc install SITE` restores the locked versions if they are available; `--update-lock` accepts the present ones, and later runs then differ from earlier ones"
                    .into()
            }
            Self::Timeout { .. } => "see which task it was, then repeat the command: finished work is not repeated".into(),
        })
    }
}
