//! Errors of opening a campaign and of carrying out its sessions.

use camino::Utf8PathBuf;
use cvc_core::source::SourceErrors;
use cvc_core::store::StoreError;
use cvc_sites::error::CampaignError;
use cvc_sites::install::InstallError;

/// Why a campaign cannot be opened, or a session cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// An error in the campaign file or a descriptor.
    #[error(transparent)]
    Spec(#[from] SourceErrors),
    /// The error that stopped a campaign.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// A file of the campaign cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Software cannot be installed on a site.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The user's request is impossible.
    #[error("{message}")]
    ImpossibleRequest {
        /// The problem.
        message: String,
        /// How to correct it.
        hint: String,
    },
    /// There is no campaign at any of these places.
    #[error("{}", match .0.as_slice() {
        [here, named] => format!("neither the directory {here} nor {named} is a campaign: they have no journal"),
        one => format!("{} is not a campaign: it has no journal", one.first().map_or("", |path| path.as_str())),
    })]
    NoCampaign(Vec<Utf8PathBuf>),
    /// The system does not report the path of this program.
    #[error("cannot find the path of cvc itself")]
    UnknownPath,
    /// This machine lacks something that every session needs.
    #[error("{message}")]
    Machine {
        /// The problem.
        message: String,
        /// How to correct it.
        hint: &'static str,
    },
}

impl SessionError {
    /// Creates an error for an impossible request.
    pub(crate) fn asked(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::ImpossibleRequest {
            message: message.into(),
            hint: hint.into(),
        }
    }
}
