//! Where a run works, and what marks it.

use super::context::SiteContext;
use camino::Utf8PathBuf;
use cvc_core::{
    ids::{RunId, below, digest_prefix},
    point::Point,
    store::CampaignDir,
};

/// Directory in the working directory where ranks say on which node they are.
pub(super) const RANKS: &str = ".cvc-ranks";
/// Directory in the working directory that keeps the MPI library's session files for a restart.
pub(super) const SESSION: &str = "session";
/// File in the directory of a run that says which process supervises it.
pub(super) const SHEPHERD: &str = "shepherd.json";

/// What marks every process of a run in its environment.
pub(super) fn marker(campaign: &CampaignDir, run: &RunId) -> String {
    format!("{run}@{}", campaign.root())
}

/// Number of hexadecimal digits that tell the places of campaigns apart in names.
const PLACE_DIGITS: usize = 8;

/// Where a run works: in its storage area, or below the campaign. The name never changes, so that checkpoints can be restarted.
pub(super) fn work_dir(context: &SiteContext, campaign: &CampaignDir, point: &Point, run: &RunId) -> Utf8PathBuf {
    match context.site.storage.get(&point.storage).and_then(|a| a.path.as_ref()) {
        Some(path) => {
            let area = cvc_core::paths::make_absolute(cvc_core::paths::expand_below(&context.base, path));
            below(&below(&area, &area_name(context, campaign)), run.as_str())
        }
        None => campaign.work(run),
    }
}

/// The name of a campaign's directory in a storage area. Other campaigns there may have the same name, so that the lineage of this one is a part
/// of it.
pub fn area_name(context: &SiteContext, campaign: &CampaignDir) -> String {
    match &context.lineage {
        Some(lineage) => format!("{}-{lineage}", context.campaign),
        // no campaign's: what tries a site
        None => format!("{}-{}", context.campaign, digest_prefix(campaign.root().as_str().as_bytes(), PLACE_DIGITS)),
    }
}

/// Short private directory for sockets and session files: their paths have a length limit. Two campaigns may have a run of the same content
/// under way, so the campaign's place is a part of the name.
pub(super) fn tmp_dir(campaign: &CampaignDir, run: &RunId) -> Utf8PathBuf {
    let digest = digest_prefix(marker(campaign, run).as_bytes(), PLACE_DIGITS);
    Utf8PathBuf::from(format!("/tmp/cvc-{}-{digest}", nix::unistd::geteuid()))
}
