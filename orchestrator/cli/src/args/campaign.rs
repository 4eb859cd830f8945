//! Arguments that select a campaign.

use super::values::directory;
use crate::complete;
use camino::Utf8PathBuf;
use clap::Args;
use clap_complete::ArgValueCompleter;

/// The parent directory of campaigns.
#[derive(Args, Clone)]
pub struct Where {
    /// Parent directory of campaigns
    #[arg(long, env = "CVC_CAMPAIGNS", default_value = "campaigns", value_name = "DIR", value_parser = directory)]
    pub campaigns: Utf8PathBuf,
}

/// The campaign of a file.
#[derive(Args, Clone)]
pub struct Which {
    /// Campaign variant, [variants.NAME] in its file
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::variants))]
    pub variant: Option<String>,
}
