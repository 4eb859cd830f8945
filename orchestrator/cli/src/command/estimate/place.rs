//! Runs on a site, with one MPI library and one storage area, in a temporary directory.

use crate::{
    args::EstimateArgs,
    command::temporary::{self, problem_of},
    failure::Failure,
};
use cvc_controller::runner::Options;
use cvc_core::app::LoadedApp;
use cvc_core::campaign::{MpiFamily, Site, SiteKind, SmallCampaign, Spec};
use cvc_core::mapping::Mapping;
use cvc_core::plan;
use cvc_core::point::CheckpointerKind;
use cvc_core::source::SourceErrors;
use cvc_core::stop::StopSignal;
use cvc_session::{Scratch, Trial};
use std::time::Duration;

/// A place of a trial: a site with one of its MPI libraries and one of its storage areas.
pub struct TrialPlace<'s> {
    pub name: &'s str,
    site: &'s Site,
    pub mpi: &'s str,
    pub storage: &'s str,
}

/// Outcome of a run: the parsed output, or why there is none.
pub enum RunEnd<T> {
    Printed(T),
    Failed(String),
    /// The user stopped the run.
    Interrupted,
}

/// The settings of all trial runs.
pub struct TrialRuns<'a> {
    pub spec: &'a Spec,
    pub mapping: Mapping,
    pub timeout_s: f64,
    base: Options,
    interrupted: StopSignal,
}

impl TrialPlace<'_> {
    /// Returns the family of the place's MPI library.
    pub fn family(&self) -> Option<MpiFamily> {
        self.site.mpi.get(self.mpi).map(|library| library.family)
    }
}

impl<'a> TrialRuns<'a> {
    pub fn of(spec: &'a Spec, mapping: Mapping, timeout_s: f64) -> Result<Self, Failure> {
        let (base, interrupted) = temporary::begin(spec)?;
        Ok(Self {
            spec,
            mapping,
            timeout_s,
            base,
            interrupted,
        })
    }

    /// Returns the places of the campaign that match the options.
    pub fn places(&self, args: &'a EstimateArgs) -> Vec<TrialPlace<'a>> {
        let wanted = |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|a| a == name);
        let mut places = Vec::new();
        for (name, site) in &self.spec.sites {
            if site.kind == SiteKind::Ec2 || !wanted(&args.site, name) {
                continue;
            }
            for mpi in site.mpi.keys().filter(|mpi| wanted(&args.mpi, mpi)) {
                let areas = site.storage.keys().filter(|s| wanted(&args.storage, s));
                places.extend(areas.map(|storage| TrialPlace {
                    name,
                    site,
                    mpi,
                    storage,
                }));
            }
        }
        places
    }

    /// Runs a program once at a place, and parses its output.
    pub async fn run<T>(
        &self,
        place: &TrialPlace<'_>,
        (app, class): (LoadedApp, &str),
        read: impl FnOnce(&Trial) -> T,
    ) -> RunEnd<T> {
        let spec = match self.campaign(place, app, class) {
            Ok(spec) => spec,
            Err(errors) => return RunEnd::Failed(errors.to_string()),
        };
        let plan = plan::build(&spec);
        if let Some(excluded) = plan.excluded.first() {
            return RunEnd::Failed(excluded.reason.to_string());
        }
        let scratch = match Scratch::new("cvc-estimate-") {
            Ok(scratch) => scratch,
            Err(error) => return RunEnd::Failed(error.to_string()),
        };
        let name = format!("{} in {} of {}", place.mpi, place.storage, place.name);
        let limit = Duration::from_secs_f64(self.timeout_s + 60.0);
        let campaign = (&spec, &plan);
        let interrupted = &self.interrupted;
        let trial =
            temporary::carry_out(campaign, &scratch, &name, &self.base, limit, interrupted).await;
        if trial.is_interrupted {
            return RunEnd::Interrupted;
        }
        let end = match problem_of(&trial) {
            Some(problem) => RunEnd::Failed(problem),
            None => RunEnd::Printed(read(&trial)),
        };
        match scratch.close() {
            Ok(()) => end,
            Err(error) => RunEnd::Failed(error.to_string()),
        }
    }

    /// Returns the campaign of a run: the site's settings with only one library and one storage area, and one run.
    fn campaign(
        &self,
        place: &TrialPlace<'_>,
        app: LoadedApp,
        class: &str,
    ) -> Result<Spec, SourceErrors> {
        let mut site = place.site.clone();
        site.mpi.retain(|n, _| n == place.mpi);
        site.storage.retain(|n, _| n == place.storage);
        site.oversubscribe |= site.cluster.is_none();
        let campaign = SmallCampaign {
            name: "estimate".into(),
            path: self.spec.path.clone(),
            site_name: place.name.to_owned(),
            site,
            app,
            class: Some(class.to_owned()),
            mapping: self.mapping.clone(),
            mpi: vec![place.mpi.to_owned()],
            checkpointers: vec![CheckpointerKind::None],
        };
        campaign.into_spec(|run, _| {
            run.repeats = 1;
            run.retries = 0;
            run.timeout_s = self.timeout_s;
        })
    }
}
