//! A campaign that is open for a command.

use crate::{
    campaigns::{Askable, ReportFn, campaign_file, load_and_ask},
    error::SessionError,
    expectations::Expectations,
    machine::ask_sites,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Spec;
use cvc_core::ids::PointId;
use cvc_core::plan::{self, Plan};
use cvc_core::store::CampaignDir;
use cvc_core::units::counted;
use cvc_engine::attempt::{Readiness, ReadySite};
use indexmap::IndexMap;
use std::collections::HashSet;

/// A campaign that is open for a command.
#[derive(Debug)]
pub struct CampaignSession {
    /// The campaign file.
    pub file: Utf8PathBuf,
    /// The checked content of the file.
    pub spec: Spec,
    /// The whole plan of the campaign.
    pub plan: Plan,
    /// The points that this session is limited to; `None` for all points.
    pub only: Option<HashSet<PointId>>,
    /// Directory of the campaign, which need not exist.
    pub dir: CampaignDir,
}

impl CampaignSession {
    /// Opens a campaign file for reading only: starts no program that the file names, but reads inventories that are text files.
    ///
    /// # Errors
    /// The file, a descriptor or an inventory that is a text file is wrong.
    pub fn look(
        file: &Utf8Path,
        variant: Option<&str>,
        campaigns: &Utf8Path,
    ) -> Result<Self, SessionError> {
        let file = campaign_file(file)?;
        let spec = load_and_ask(&file, variant, Askable::Texts, &|_| ())?;
        Ok(Self::of(&file, spec, campaigns))
    }

    /// Opens a campaign file to carry it out: inventories are queried, including those that are programs.
    ///
    /// # Errors
    /// The file, a descriptor or an inventory is wrong.
    pub fn open(
        file: &Utf8Path,
        variant: Option<&str>,
        campaigns: &Utf8Path,
        report: ReportFn<'_>,
    ) -> Result<Self, SessionError> {
        let file = campaign_file(file)?;
        let spec = load_and_ask(&file, variant, Askable::All, report)?;
        Ok(Self::of(&file, spec, campaigns))
    }

    fn of(file: &Utf8Path, spec: Spec, campaigns: &Utf8Path) -> Self {
        let plan = plan::build(&spec);
        Self {
            file: file.to_owned(),
            dir: CampaignDir::new(campaigns, &plan.campaign),
            spec,
            plan,
            only: None,
        }
    }

    /// Limits the session to the points that have the factor levels in `only`; to all points if `only` is empty.
    ///
    /// # Errors
    /// `only` names a level that no point has.
    pub fn select(&mut self, only: &[String]) -> Result<(), SessionError> {
        if !only.is_empty() {
            let selected = plan::select_points(&self.plan, only);
            self.only = Some(selected.map_err(|error| {
                SessionError::asked(format!("--only: {}", error.message), error.hint)
            })?);
        }
        Ok(())
    }

    /// Returns the part of the plan to which the session is limited; the campaign keeps its whole plan.
    pub fn selected(&self) -> Plan {
        let mut plan = self.plan.clone();
        if let Some(only) = &self.only {
            plan.points.retain(|p| only.contains(&p.id));
            plan.runs.retain(|r| only.contains(&r.point));
        }
        plan
    }

    /// Checks that the plan has runs.
    ///
    /// # Errors
    /// All points are excluded.
    pub fn has_runs(&self) -> Result<(), SessionError> {
        if !self.plan.runs.is_empty() {
            return Ok(());
        }
        let excluded = counted(self.plan.excluded.len(), "point");
        Err(SessionError::asked(
            format!("{}: nothing to run: {excluded}, all excluded", self.file),
            "`cvc plan` shows each with its reason",
        ))
    }

    /// Returns a warning for each key of the campaign file that has no effect.
    pub fn without_effect(&self) -> Vec<String> {
        plan::without_effect(&self.spec, &self.plan)
    }

    /// Queries the software of this machine, for every site that is this machine.
    pub async fn ask_sites(
        &self,
        readiness: impl Fn(&str) -> Readiness,
        note: impl FnMut(String),
    ) -> IndexMap<String, ReadySite> {
        ask_sites(&self.spec, readiness, note).await
    }

    /// Returns the expected time, space and cost of the selected part of the plan.
    pub fn expectations(&self, plan: &Plan, sites: &IndexMap<String, ReadySite>) -> Expectations {
        Expectations::of(&self.spec, plan, sites, &self.dir)
    }
}
