//! A whole campaign file, once checked.

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
    /// The campaign file.
    pub path: PathBuf,
    /// Its text; it names the variant, so that the stored copy is read again as the same campaign.
    pub text: Arc<str>,
    /// Name of the campaign; with a variant, `NAME-VARIANT`.
    pub name: String,
    /// The variant that was laid over the file.
    pub variant: Option<String>,
    /// All variants of the file, in its order.
    pub variants: Vec<String>,
    /// Keys of sections that the file gives, as in `checkpoint.moment`; the others have their defaults.
    pub given: BTreeSet<String>,
    /// Keys that the variant gives as the file has them without it.
    pub unchanged: Vec<String>,
    /// One line for people; may be empty.
    pub description: String,
    /// Places where runs happen, by name, in the order of the file.
    pub sites: IndexMap<String, Site>,
    /// The applications that the matrix and the extra points name, in the order of first use.
    pub apps: IndexMap<String, LoadedApp>,
    /// Repeats, order, limits.
    pub run: RunSettings,
    /// When and how checkpoints are taken.
    pub checkpoint: CheckpointSettings,
    /// What is traced.
    pub trace: TraceSettings,
    /// What is reported.
    pub report: ReportSettings,
    /// Its budget.
    pub budget: Option<Budget>,
    /// Its predictions, if any.
    pub predict: Option<PredictSettings>,
    /// The matrix, then each extra point.
    pub grids: Vec<Grid>,
}

impl Spec {
    /// The directory of the campaign file, to which relative paths in it refer; empty for the working directory.
    pub fn directory(&self) -> &Utf8Path {
        Utf8Path::from_path(&self.path)
            .and_then(Utf8Path::parent)
            .unwrap_or(Utf8Path::new(""))
    }

    /// Whether runs of two sites may be under way at the same time: they do not disturb each other, as far as the file says. A site of this
    /// machine is apart from none, because here cvc fetches and checks the results of the others.
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

    /// Renames the campaign after its variant, and the title too if it was the campaign's name.
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
