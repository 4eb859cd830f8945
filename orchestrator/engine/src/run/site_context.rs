//! The parts of a campaign that the runs of one site depend on: all that an engine needs, here or on the head node of a cluster.

use camino::Utf8PathBuf;
use cvc_core::app::LoadedApp;
use cvc_core::campaign::{CheckpointSettings, RunSettings, Site, Spec, TraceSettings};
use cvc_journal::Lineage;
use cvc_journal::price::NodeRate;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// The parts of a campaign that the runs of one site depend on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SiteContext {
    /// Name of the campaign.
    pub campaign: String,
    /// Identity of the campaign; `None` until its journal is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// Name of the site.
    pub name: String,
    /// The site.
    pub site: Site,
    /// The applications.
    pub apps: IndexMap<String, LoadedApp>,
    /// Repeats, limits, what is kept.
    pub run: RunSettings,
    /// When and how checkpoints are taken.
    pub checkpoint: CheckpointSettings,
    /// What is traced.
    pub trace: TraceSettings,
    /// Base of the site's relative paths: the directory of the campaign file or, on a cluster, of the agent.
    pub base: Utf8PathBuf,
    /// Price of one of its nodes, if a cloud gave it at launch. The user's price is in the site itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<NodeRate>,
}

impl SiteContext {
    /// The context of a site of this campaign.
    pub fn of(spec: &Spec, name: &str) -> Option<Self> {
        let base = spec.directory().to_owned();
        Some(Self {
            campaign: spec.name.clone(),
            lineage: None,
            name: name.to_owned(),
            site: spec.sites.get(name)?.clone(),
            apps: spec.apps.clone(),
            run: spec.run.clone(),
            checkpoint: spec.checkpoint.clone(),
            trace: spec.trace.clone(),
            base,
            rate: None,
        })
    }
}
