//! The parts of a campaign that the runs of one site depend on, which is everything that an engine needs on this machine or on a head node.

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
    /// Settings of the site.
    pub site: Site,
    /// The applications, by name.
    pub apps: IndexMap<String, LoadedApp>,
    /// Settings of runs: repeats, limits, retention.
    pub run: RunSettings,
    /// When and how checkpoints are taken.
    pub checkpoint: CheckpointSettings,
    /// Settings of tracing.
    pub trace: TraceSettings,
    /// Directory in which the site's relative paths start: the campaign file's directory or, on a cluster, the agent's.
    pub base: Utf8PathBuf,
    /// Price of a node of the site, if a cloud reported it at launch. A price from the user is in `site`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<NodeRate>,
}

impl SiteContext {
    /// Returns the context of a campaign's site; `None` if it has no site of this name.
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
