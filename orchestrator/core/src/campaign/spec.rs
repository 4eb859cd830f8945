//! A whole campaign file after all checks.

use super::{
    ec2::Budget,
    grid::Grid,
    model::{CheckpointSettings, ReportSettings, RunSettings, Site, SiteKind, TraceSettings},
    predict::PredictSettings,
};
use crate::app::LoadedApp;
use camino::Utf8Path;
use indexmap::IndexMap;
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

/// A checked campaign.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Path of the campaign file.
    pub path: PathBuf,
    /// Text of the campaign file. It names the variant, so that the stored copy is read as the same campaign.
    pub text: Arc<str>,
    /// Name of the campaign; with a variant, `NAME-VARIANT`.
    pub name: String,
    /// The variant that was applied to the file, if any.
    pub variant: Option<String>,
    /// All variants of the file, in its order.
    pub variants: Vec<String>,
    /// Keys of sections that the file gives, as in `checkpoint.moment`; other keys have their defaults.
    pub given: BTreeSet<String>,
    /// Keys for which the variant gives the same value as the file.
    pub unchanged: Vec<String>,
    /// One-line description for display; may be empty.
    pub description: String,
    /// Sites, by name, in the order of the file.
    pub sites: IndexMap<String, Site>,
    /// The applications that the matrix and the extra points name, in the order of first use.
    pub apps: IndexMap<String, LoadedApp>,
    /// Repeats, order, limits.
    pub run: RunSettings,
    /// When and how checkpoints are taken.
    pub checkpoint: CheckpointSettings,
    /// Settings of tracing.
    pub trace: TraceSettings,
    /// Settings of reports.
    pub report: ReportSettings,
    /// The budget, if any.
    pub budget: Option<Budget>,
    /// The division of points for predictions, if any.
    pub predict: Option<PredictSettings>,
    /// The matrix, then each extra point.
    pub grids: Vec<Grid>,
}

impl Spec {
    /// Returns the directory of the campaign file, to which its relative paths refer; empty for the working directory.
    pub fn directory(&self) -> &Utf8Path {
        Utf8Path::from_path(&self.path)
            .and_then(Utf8Path::parent)
            .unwrap_or(Utf8Path::new(""))
    }

    /// Returns whether runs of two sites may be active at the same time, because by the campaign file they do not disturb each other. No other site
    /// may run while a site on this machine runs, because cvc fetches and checks the other site's results here.
    pub fn are_apart(&self, one: &str, other: &str) -> bool {
        let (Some(a), Some(b)) = (self.sites.get(one), self.sites.get(other)) else {
            return false;
        };
        let is_here = |site: &Site| site.kind == SiteKind::Local;
        !self.run.sites_in_turn
            && one != other
            && !is_here(a)
            && !is_here(b)
            && a.machines(one).is_disjoint(&b.machines(other))
    }

    /// Renames the campaign after its variant. If the title of the report was the campaign's name, renames it, too.
    pub fn into_variant(self, variant: &str, text: &str) -> Self {
        let name = format!("{}-{variant}", self.name);
        let title = if self.report.title == self.name {
            name.clone()
        } else {
            self.report.title
        };
        Self {
            text: text.into(),
            name,
            variant: Some(variant.to_owned()),
            report: ReportSettings {
                title,
                ..self.report
            },
            ..self
        }
    }
}
