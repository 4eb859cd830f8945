//! Builds a campaign in code, without files.

use super::{
    checker::{Checker, KnownHosts},
    factor::{Entry, Factor, Value},
    model::{CheckpointSettings, ReportSettings, RunSettings, Site, TraceSettings},
    raw::{RawCheckpoint, RawRun},
    settings,
    spec::Spec,
    tables::{Tables, with_grids},
};
use crate::{
    app::LoadedApp,
    mapping::Mapping,
    point::CheckpointerKind,
    source::{SourceErrors, SourceText, Step},
};
use indexmap::IndexMap;
use std::{collections::BTreeSet, path::PathBuf};
use toml::de::DeTable;

/// A campaign of one workload on one site.
#[derive(Clone, Debug)]
pub struct SmallCampaign {
    /// Name of the campaign.
    pub name: String,
    /// A file in the directory to which relative paths of the site refer; the file need not exist.
    pub path: PathBuf,
    /// Name of the site.
    pub site_name: String,
    /// The site.
    pub site: Site,
    /// The application.
    pub app: LoadedApp,
    /// Workload of the application; `None` for the only one.
    pub class: Option<String>,
    /// Nodes and processes.
    pub mapping: Mapping,
    /// Names of MPI libraries of the site.
    pub mpi: Vec<String>,
    /// Levels of the factor `checkpointer`.
    pub checkpointers: Vec<CheckpointerKind>,
}

impl SmallCampaign {
    /// Builds the campaign. `adjust` changes its settings, which begin with the defaults of a campaign file.
    ///
    /// # Errors
    /// The application, its workload and the site cannot be combined.
    pub fn into_spec(
        self,
        adjust: impl FnOnce(&mut RunSettings, &mut CheckpointSettings),
    ) -> Result<Spec, SourceErrors> {
        let source = SourceText {
            path: self.path.clone(),
            text: "".into(),
        };
        let (hosts, mut errors) = (KnownHosts::new(), Vec::new());
        let mut check = Checker {
            source: &source,
            hosts: &hosts,
            errors: &mut errors,
        };
        let nowhere = |_: &[Step<'_>]| None;
        let mut run = settings::run(&mut check, &RawRun::default(), &nowhere);
        let mut checkpoint = settings::checkpoint(&mut check, &RawCheckpoint::default(), &nowhere);
        adjust(&mut run, &mut checkpoint);
        let name = |text: &str| Value::Name(text.to_owned());
        let app_name = self.app.descriptor.name.clone();
        let checkpointers = self.checkpointers.into_iter().map(Value::Checkpointer);
        let factors = [
            (Factor::App, vec![name(&app_name)]),
            (Factor::Class, self.class.iter().map(|c| name(c)).collect()),
            (Factor::Mapping, vec![Value::Mapping(self.mapping)]),
            (Factor::Mpi, self.mpi.iter().map(|mpi| name(mpi)).collect()),
            (Factor::Checkpointer, checkpointers.collect()),
        ];
        let given = factors.into_iter().filter(|(_, values)| !values.is_empty());
        let matrix = given.map(|(factor, values)| Entry {
            factor,
            key: 0..0,
            span: 0..0,
            values: values.into_iter().map(|value| (value, 0..0)).collect(),
        });
        let tables = Tables {
            matrix: matrix.collect(),
            ..Tables::default()
        };
        let spec = Spec {
            path: self.path,
            text: source.text.clone(),
            report: settings::report(&mut check, ReportSettings::default(), &self.name, &nowhere),
            name: self.name,
            variant: None,
            variants: Vec::new(),
            given: BTreeSet::new(),
            unchanged: Vec::new(),
            description: String::new(),
            sites: IndexMap::from([(self.site_name, self.site)]),
            apps: IndexMap::from([(app_name, self.app)]),
            run,
            checkpoint,
            trace: TraceSettings::default(),
            budget: None,
            predict: None,
            grids: Vec::new(),
        };
        let spec = with_grids(&mut check, &DeTable::new(), spec, &tables);
        if errors.is_empty() {
            Ok(spec)
        } else {
            Err(SourceErrors(errors))
        }
    }
}
