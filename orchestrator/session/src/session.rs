//! A campaign that is open for a command.

use crate::{
    campaigns::{Askable, Teller, load_and_ask},
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
pub struct Session {
    /// Its file.
    pub file: Utf8PathBuf,
    /// What the file says.
    pub spec: Spec,
    /// Its whole plan.
    pub plan: Plan,
    /// The points that this session is limited to; `None`: all.
    pub only: Option<HashSet<PointId>>,
    /// Its directory, which need not exist.
    pub dir: CampaignDir,
}

impl Session {
    /// Opens a campaign file to look at it: nothing that the file names is started. Inventories that are texts are read.
    ///
    /// # Errors
    /// When the file, a descriptor or such an inventory is wrong.
    pub fn look(
        file: &Utf8Path,
        variant: Option<&str>,
        campaigns: &Utf8Path,
    ) -> Result<Self, SessionError> {
        let spec = load_and_ask(file, variant, Askable::Texts, &|_| ())?;
        Ok(Self::of(file, spec, campaigns))
    }

    /// Opens a campaign file to carry it out: inventories are asked, also those that are programs.
    ///
    /// # Errors
    /// When the file, a descriptor or an inventory is wrong.
    pub fn open(
        file: &Utf8Path,
        variant: Option<&str>,
        campaigns: &Utf8Path,
        tell: Teller<'_>,
    ) -> Result<Self, SessionError> {
        let spec = load_and_ask(file, variant, Askable::All, tell)?;
        Ok(Self::of(file, spec, campaigns))
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

    /// Limits the session to points with these factors; all, without any.
    ///
    /// # Errors
    /// When they name what no point has.
    pub fn select(&mut self, only: &[String]) -> Result<(), SessionError> {
        if !only.is_empty() {
            let selected = plan::select_points(&self.plan, only);
            self.only = Some(selected.map_err(|error| {
                SessionError::asked(format!("--only: {}", error.message), error.hint)
            })?);
        }
        Ok(())
    }

    /// Returns the part of the plan that the session is limited to; the campaign keeps its whole plan.
    pub fn selected(&self) -> Plan {
        let mut plan = self.plan.clone();
        if let Some(only) = &self.only {
            plan.points.retain(|p| only.contains(&p.id));
            plan.runs.retain(|r| only.contains(&r.point));
        }
        plan
    }

    /// Checks that there is something to run.
    ///
    /// # Errors
    /// When all points are excluded.
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

    /// Returns a warning for each key of the file that changes nothing.
    pub fn without_effect(&self) -> Vec<String> {
        plan::without_effect(&self.spec, &self.plan)
    }

    /// Finds out what this machine has, for every site that is this machine.
    pub async fn ask_sites(
        &self,
        readiness: impl Fn(&str) -> Readiness,
        note: impl FnMut(String),
    ) -> IndexMap<String, ReadySite> {
        ask_sites(&self.spec, readiness, note).await
    }

    /// Returns what is expected of the selected part of the plan.
    pub fn expectations(&self, plan: &Plan, sites: &IndexMap<String, ReadySite>) -> Expectations {
        Expectations::of(&self.spec, plan, sites, &self.dir)
    }
}
