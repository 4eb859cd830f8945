//! Ends everything that a campaign has on other machines, without running anything.

use super::{
    CampaignRunner, Options, StopSignal,
    campaign_lock::take_campaign_lock,
    resources::{Phase, ResourceExtent},
};
use crate::observe::Observer;
use cvc_core::campaign::Spec;
use cvc_core::plan::Plan;
use cvc_core::store::{CampaignDir, StoreError};
use cvc_sites::error::CampaignError;
use std::collections::HashMap;

/// Ends everything that a campaign has on the machines of its sites, including instances kept for the next campaign, and gives everything back.
/// Results that have not been fetched are lost with the machines. Sites in `forget` cannot be queried; the user states that nothing is left there.
/// Returns the sites that were open.
///
/// # Errors
/// Something is left, or a site cannot be queried. The campaign is then unchanged, and the call can be repeated.
pub async fn close_campaign(
    spec: &Spec,
    dir: &CampaignDir,
    options: &Options,
    forget: &[String],
    stop_signal: StopSignal,
    observer: &mut dyn Observer,
) -> Result<Vec<String>, CampaignError> {
    let root = dir
        .root()
        .canonicalize_utf8()
        .map_err(StoreError::io("resolve", dir.root()))?;
    let dir = CampaignDir::at(&root);
    let _lock = take_campaign_lock(&dir, "cvc down", &stop_signal, observer).await?;
    // an empty plan: nothing is run
    let plan = Plan {
        runs: Vec::new(),
        ..cvc_core::plan::build(spec)
    };
    let mut runner = CampaignRunner::begin(
        spec,
        &plan,
        |_, _| HashMap::new(),
        dir,
        options,
        stop_signal,
        observer,
    )?;
    runner.resources.phase = Phase::Clearing;
    runner.recover()?;
    runner.resources.forget(forget)?;
    let open: Vec<String> = runner.resources.sites_with_leftovers();
    runner.open_sites().await?;
    runner.close_everything(ResourceExtent::Everything).await?;
    let leftover = runner.resources.problems.leftover.take();
    leftover.map_or(Ok(open), Err)
}
