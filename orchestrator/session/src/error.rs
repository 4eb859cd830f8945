//! Why a campaign cannot be opened, or a session not be held.

use camino::Utf8PathBuf;
use cvc_core::source::SourceErrors;
use cvc_core::store::StoreError;
use cvc_sites::error::CampaignError;
use cvc_sites::install::InstallError;

/// Why a campaign cannot be opened, or a session not be held.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The campaign file or a descriptor.
    #[error(transparent)]
    Spec(#[from] SourceErrors),
    /// What stopped a campaign.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// A file of the campaign.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Software on a site.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// What was asked for cannot be.
    #[error("{message}")]
    Asked {
        /// What is wrong.
        message: String,
        /// How to correct it.
        hint: String,
    },
    /// There is no campaign in any of these places.
    #[error("{}", match .0.as_slice() {
        [here, named] => format!("neither the directory {here} nor {named} is a campaign: they have no journal"),
        one => format!("{} is not a campaign: it has no journal", one.first().map_or("", |path| path.as_str())),
    })]
    NoCampaign(Vec<Utf8PathBuf>),
    /// The system does not tell where this program is.
    #[error("cannot find the path of cvc itself")]
    UnknownPath,
    /// This machine lacks something that every session needs.
    #[error("{message}")]
    Machine {
        /// What is wrong.
        message: String,
        /// How to correct it.
        hint: &'static str,
    },
}

impl SessionError {
    /// What was asked for cannot be.
    pub(crate) fn asked(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Asked {
            message: message.into(),
            hint: hint.into(),
        }
    }
}
