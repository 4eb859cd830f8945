//! Opens the sites on which something is to be run or removed. Decides without side effects which sites are opened and in which order, and whether
//! each may be opened now. Sites are opened concurrently, also while runs of open sites are active. Handles the result of each opening.

use super::{
    CampaignRunner,
    clouds::kept_until,
    forward_stop_requests,
    left_behind::SiteEnd,
    openings::{Admitted, EndOfOpening, OpenPlan, Opened, Purpose},
    resources::{Phase, Resources},
};
use cvc_cloud::provider::FleetRequest;
use cvc_core::ids::RunId;
use cvc_core::plan::Plan;
use cvc_core::point::PlannedPoint;
use cvc_core::stop::{StopRequest, StopRequests, StopSignal};
use cvc_engine::{
    attempt::{RunError, SiteContext},
    host::HostError,
};
use cvc_journal::{CampaignState, Event, RunState, SitePlace};
use cvc_sites::error::{CampaignError, OverBudget};
use cvc_sites::install::Lock;
use cvc_sites::remote::{Opening, Remote, StandingMachines};
use std::{collections::BTreeSet, pin::Pin, sync::Arc};
use tokio::task::JoinSet;
use tracing::Instrument;

/// Whether a site may be opened now.
enum Admission {
    /// The site may be opened.
    Open(Box<SiteContext>),
    /// The site's instances are kept until this time for the next campaign, and the user has not requested to end them.
    Kept(jiff::Timestamp),
    /// The budget does not pay for the site's instances.
    Unaffordable(OverBudget),
    /// The site is no longer in the campaign file.
    Forgotten,
}

/// Whether runs of other sites are wanted, too. If they are, the session continues when a site cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Wanted,
    Unwanted,
}

/// Returns the sites to open, in batches; the sites of a batch are opened concurrently. Clouds come last, because instances cost as soon as they are
/// launched. With a budget, clouds are opened one after another, because each decision needs the cost of the previous cloud.
fn batches(
    wanted: &BTreeSet<String>,
    left: &BTreeSet<String>,
    is_cloud: impl Fn(&str) -> bool,
    has_budget: bool,
) -> Vec<Vec<OpenPlan>> {
    let plan = |site: &String| {
        let purpose = if wanted.contains(site) {
            Purpose::Run
        } else {
            Purpose::Clear
        };
        OpenPlan {
            site: site.clone(),
            purpose,
        }
    };
    let (clouds, others): (Vec<OpenPlan>, Vec<OpenPlan>) = wanted
        .union(left)
        .map(plan)
        .partition(|p| is_cloud(&p.site));
    let mut batches = vec![others];
    if has_budget {
        batches.extend(clouds.into_iter().map(|plan| vec![plan]));
    } else {
        batches.push(clouds);
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

impl CampaignRunner<'_> {
    /// Opens the sites of several machines that have work to do. If runs wait for several sites, returns as soon as all openings have begun, because
    /// the first open site can already take runs. If runs wait for one site, returns when that site is open. If a site cannot be opened, the points
    /// of that site are skipped; if it is the only site, the campaign ends.
    pub(super) async fn open_sites(&mut self) -> Result<(), CampaignError> {
        let wanted = self
            .resources
            .record
            .scheduler
            .wanted_sites(self.resources.record.state());
        let left: BTreeSet<String> = self.resources.sites_with_leftovers().into_iter().collect();
        let is_cloud = |site: &str| {
            self.resources
                .record
                .spec
                .sites
                .get(site)
                .is_some_and(|s| s.ec2.is_some())
        };
        if wanted
            .iter()
            .filter(|site| !self.resources.sites.is_open(site))
            .count()
            > 1
        {
            let batches = batches(&wanted, &left, is_cloud, false);
            return self
                .begin_to_open(batches.into_iter().flatten().collect())
                .await;
        }
        let others = if wanted.len() <= 1 {
            Others::Unwanted
        } else {
            Others::Wanted
        };
        let mut failed = None;
        for batch in batches(
            &wanted,
            &left,
            is_cloud,
            self.resources.record.spec.budget.is_some(),
        ) {
            let of_batch = self.resources.open_side_by_side(batch, others).await?;
            failed = failed.or(of_batch);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Begins to open sites. Clouds come last; with a budget, one cloud is opened after another.
    async fn begin_to_open(&mut self, plans: Vec<OpenPlan>) -> Result<(), CampaignError> {
        self.openings.forward = Some(forward_stop_requests(
            self.resources.stops.user.clone(),
            vec![Arc::clone(&self.openings.halt)],
        ));
        for plan in plans {
            let is_cloud = self
                .resources
                .record
                .spec
                .sites
                .get(&plan.site)
                .is_some_and(|s| s.ec2.is_some());
            if is_cloud && self.resources.record.spec.budget.is_some() {
                self.openings.waiting.push_back(plan);
            } else {
                self.begin_one(plan).await?;
            }
        }
        self.begin_next_cloud().await
    }

    /// Begins to open the next cloud, if the cost of the previous one is known.
    pub(super) async fn begin_next_cloud(&mut self) -> Result<(), CampaignError> {
        while self.openings.awaited.is_none()
            && let Some(plan) = self.openings.waiting.pop_front()
        {
            let (site, before) = (plan.site.clone(), self.openings.tasks.len());
            self.begin_one(plan).await?;
            // the opening may have been refused or unnecessary
            self.openings.awaited = (self.openings.tasks.len() > before).then_some(site);
        }
        Ok(())
    }

    async fn begin_one(&mut self, plan: OpenPlan) -> Result<(), CampaignError> {
        let stop_signal = self.openings.halt.subscribe();
        self.resources
            .begin_opening(plan, stop_signal, &mut self.openings.tasks)
            .await
    }

    /// Handles the result of an opening that took place while runs were active.
    pub(super) fn settle_opening(&mut self, ended: EndOfOpening) -> Result<(), CampaignError> {
        let (admitted, opened) = ended.map_err(CampaignError::of_task)?;
        let site = admitted.site.clone();
        self.openings.awaited.take_if(|awaited| *awaited == site);
        self.resources.settle(admitted, opened, Others::Wanted)?;
        self.resources.find_obstacles(Some(&site))
    }

    /// Waits until the next opening ends. Called when there is no other event to wait for. If no run is left, stops all openings.
    pub(super) async fn next_opened(&mut self) -> Result<Option<EndOfOpening>, CampaignError> {
        if self.resources.record.scheduler.is_done() || !self.resources.continues() {
            self.openings.halt.request(StopRequest::StopNow);
            self.openings.waiting.clear();
        }
        self.resources.while_listening(self.openings.next()).await
    }

    /// Stops all openings, and handles their results. Returns the first failure.
    pub(super) async fn end_openings(&mut self) -> Result<(), CampaignError> {
        let mut first = Ok(());
        self.openings.halt.request(StopRequest::StopNow);
        self.openings.waiting.clear();
        while let Some(ended) = self.next_opened().await? {
            let settled = ended
                .map_err(CampaignError::of_task)
                .and_then(|(admitted, opened)| {
                    self.resources.settle(admitted, opened, Others::Wanted)
                });
            first = first.and(settled.map(drop));
        }
        first
    }
}

impl Resources<'_> {
    /// Opens the sites of a batch concurrently. Returns the failure of a site if no other site is wanted. After an error that concerns the whole
    /// campaign, the remaining openings stop; the caller closes the sites that are already open.
    async fn open_side_by_side(
        &mut self,
        batch: Vec<OpenPlan>,
        others: Others,
    ) -> Result<Option<CampaignError>, CampaignError> {
        let halt = Arc::new(StopRequests::default());
        let _forward = forward_stop_requests(self.stops.user.clone(), vec![Arc::clone(&halt)]);
        let mut opening: JoinSet<(Admitted, Opened)> = JoinSet::new();
        let (mut failed, mut first) = (None, Ok(()));
        for plan in batch {
            if let Err(error) = self
                .begin_opening(plan, halt.subscribe(), &mut opening)
                .await
            {
                first = Err(error);
                break;
            }
        }
        while !opening.is_empty() {
            if first.is_err() {
                halt.request(StopRequest::StopNow);
            }
            // nothing may continue without a journal: dropping the set ends the openings in progress
            let Some(ended) = self.while_listening(opening.join_next()).await? else {
                break;
            };
            let settled = match ended {
                Ok((admitted, opened)) => self.settle(admitted, opened, others),
                Err(error) => Err(CampaignError::of_task(error)),
            };
            match settled {
                Ok(of_site) => failed = failed.or(of_site),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first.map(|()| failed)
    }

    /// Returns whether a site may be opened now.
    fn admission(&self, plan: &OpenPlan) -> Admission {
        let state = self.record.state();
        let Some(mut context) = SiteContext::of(self.record.spec, &plan.site) else {
            return Admission::Forgotten;
        };
        context.lineage.clone_from(&self.record.state().lineage);
        match plan.purpose {
            Purpose::Clear => {
                match kept_until(&state.leases_of(&plan.site))
                    .filter(|_| self.phase == Phase::Running)
                {
                    Some(until) => Admission::Kept(until),
                    None => Admission::Open(Box::new(context)),
                }
            }
            Purpose::Run => match self
                .budget
                .unaffordable_fleet(&self.budget_view(), &plan.site)
            {
                Some(over) => Admission::Unaffordable(over),
                None => Admission::Open(Box::new(context)),
            },
        }
    }

    /// Begins to open a site if it may be opened. The opening is journaled first.
    async fn begin_opening(
        &mut self,
        plan: OpenPlan,
        stop_signal: StopSignal,
        opening: &mut JoinSet<(Admitted, Opened)>,
    ) -> Result<(), CampaignError> {
        if self.sites.is_open(&plan.site) {
            return Ok(());
        }
        if self.is_left_elsewhere(&plan.site)
            && self.close_where_opened(&plan.site).await? == SiteEnd::Leftover
        {
            // a run that is still under way there must not be started a second time
            let reason = format!(
                "the remains of {} from an earlier session cannot be ended where it was opened",
                plan.site
            );
            let points: Vec<_> = points_of(self.record.plan, &plan.site)
                .map(|p| p.id.clone())
                .collect();
            self.record.scheduler.obstruct(points, &reason);
            return Ok(());
        }
        let context = match self.admission(&plan) {
            Admission::Open(context) => *context,
            Admission::Kept(until) => {
                let site = &plan.site;
                let what = format!(
                    "{site}: its instances are kept until {until:.0}, and cost until then; `cvc down` ends them"
                );
                self.record.say(what);
                return Ok(());
            }
            Admission::Unaffordable(over) => {
                self.budget.note_exceeded();
                let points = points_of(self.record.plan, &plan.site).map(|p| p.id.clone());
                self.record
                    .scheduler
                    .obstruct(points, &format!("{over}; {}", OverBudget::hint("cvc run")));
                // resources of an earlier session there still cost
                if self
                    .record
                    .state()
                    .leases_of(&plan.site)
                    .iter()
                    .any(|l| !l.released)
                {
                    self.close_where_opened(&plan.site).await?;
                }
                return Ok(());
            }
            // a forgotten site was closed above
            Admission::Forgotten => return Ok(()),
        };
        let was_open = self.record.state().open_sites.contains(plan.site.as_str());
        let place = SitePlace::of(&context.site, &context.base);
        if !was_open || self.record.state().places.get(plan.site.as_str()) != Some(&place) {
            self.record.journal.write(Event::SiteOpened {
                site: plan.site.clone().into(),
                place: Some(Box::new(place)),
            })?;
        }
        let work = self.opening(&plan, context, stop_signal).await;
        let points = points_of(self.record.plan, &plan.site).cloned().collect();
        let admitted = Admitted {
            site: plan.site,
            purpose: plan.purpose,
            was_open,
            points,
        };
        opening.spawn(async move { (admitted, work.await) }.in_current_span());
        Ok(())
    }

    /// Returns the future that opens a site, to be run as a separate task.
    async fn opening(
        &mut self,
        plan: &OpenPlan,
        context: SiteContext,
        stop_signal: StopSignal,
    ) -> Pin<Box<dyn Future<Output = Opened> + Send>> {
        let only_close = plan.purpose == Purpose::Clear;
        let Some(request) = context.site.ec2.as_ref().map(FleetRequest::of) else {
            let opening = Opening {
                context,
                handed_over: self.handed_over(&plan.site),
                points: points_of(self.record.plan, &plan.site).cloned().collect(),
                dir: self.record.dir.clone(),
                program: self.record.options.node_program.clone(),
                only_close,
                site_events: self.sites.sender(),
                leases: self.record.state().leases_of(&plan.site),
                machines: Arc::new(StandingMachines),
                reach: Arc::clone(&self.record.options.reach),
            };
            return Box::pin(Remote::open(opening, stop_signal));
        };
        match self.cloud_opening(&plan.site, &request).await {
            Ok(opening) if only_close => Box::pin(opening.close_old()),
            Ok(opening) => Box::pin(opening.open(stop_signal)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// Returns the runs that an earlier controller submitted to the agent of a site and that are still in the plan.
    pub(super) fn handed_over(&self, site: &str) -> BTreeSet<RunId> {
        let is_there = |run: &RunId| {
            self.record
                .scheduler
                .point_of(run)
                .is_some_and(|point| point.site == site)
        };
        let runs = self.record.state().runs.iter().filter(|(run, history)| {
            matches!(history.state, RunState::Open { .. }) && is_there(run)
        });
        runs.map(|(run, _)| run.clone()).collect()
    }

    /// Handles the result of an opening. Returns the failure of the site if the campaign cannot continue without it.
    fn settle(
        &mut self,
        admitted: Admitted,
        opened: Opened,
        others: Others,
    ) -> Result<Option<CampaignError>, CampaignError> {
        let Admitted {
            site,
            purpose,
            was_open,
            points,
        } = admitted;
        let points = points.into_iter().map(|p| p.id);
        if !matches!(opened, Ok(Some(_))) {
            self.sites.fleets.remove(&site);
        }
        match opened {
            Ok(Some(remote)) => {
                let kept = Lock::keep(
                    &self.record.dir,
                    &site,
                    &remote.ready().found,
                    self.record.options.update_lock,
                );
                // after an error the site must be closed, too
                self.sites.add(&site, remote);
                kept?;
            }
            // the user wants to stop, or the site was only to be cleared: nothing is left there
            Ok(None) => self.record.site_closed(&site)?,
            Err(error) if purpose == Purpose::Clear => {
                // its leftovers stay for the next session, and do not affect other sites
                self.record.say(&error);
                let what = format!("cannot clear it: {error}");
                self.problems
                    .leftover
                    .get_or_insert(CampaignError::Leftover { site, what });
            }
            Err(error @ CampaignError::OverBudget { .. }) => {
                self.budget.note_exceeded();
                // nothing is left there, otherwise the error would be a leftover
                self.record.site_closed(&site)?;
                self.record
                    .scheduler
                    .obstruct(points, &format!("{error}; {}", OverBudget::hint("cvc run")));
            }
            Err(error) => {
                self.record.scheduler.obstruct(points, &error.to_string());
                if others == Others::Unwanted {
                    if has_left_nothing(&error, self.record.state(), &site, was_open) {
                        self.record.site_closed(&site)?;
                    }
                    // leftovers of earlier sessions on other sites are cleared nevertheless
                    return Ok(Some(error));
                }
                self.record.say(&error);
            }
        }
        Ok(None)
    }
}

/// Returns the points of a plan on a site.
fn points_of<'p>(plan: &'p Plan, site: &str) -> impl Iterator<Item = &'p PlannedPoint> {
    plan.points.iter().filter(move |p| p.point.site == site)
}

/// Returns whether an opening that failed certainly left nothing on the machines of its site.
fn has_left_nothing(
    error: &CampaignError,
    state: &CampaignState,
    site: &str,
    was_open: bool,
) -> bool {
    let unreached = matches!(
        error,
        CampaignError::Run(RunError::Host(
            HostError::KeyChanged(_)
                | HostError::KeyUnknown { .. }
                | HostError::Denied { .. }
                | HostError::Unreachable { .. }
        ))
    );
    // a failed launch leaves nothing, or reports a leftover
    let never = matches!(error, CampaignError::Provider { .. })
        && state.leases_of(site).iter().all(|l| l.released);
    (unreached && !was_open) || never
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sites: &[&str]) -> BTreeSet<String> {
        sites.iter().map(|s| (*s).to_owned()).collect()
    }

    fn shown(batches: &[Vec<OpenPlan>]) -> Vec<String> {
        let show = |p: &OpenPlan| {
            if p.purpose == Purpose::Run {
                p.site.clone()
            } else {
                format!("-{}", p.site)
            }
        };
        batches
            .iter()
            .map(|b| b.iter().map(show).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn clouds_come_last_and_mere_leftovers_are_cleared() {
        let is_cloud = |site: &str| site.starts_with("ec2");
        let (wanted, left) = (
            names(&["alpha", "ec2-a", "zeta"]),
            names(&["ec2-old", "old", "zeta"]),
        );
        assert_eq!(
            shown(&batches(&wanted, &left, is_cloud, false)),
            ["alpha -old zeta", "ec2-a -ec2-old"]
        );
    }

    #[test]
    fn with_a_budget_each_cloud_knows_the_cost_of_the_previous_ones() {
        let is_cloud = |site: &str| site.starts_with("ec2");
        let wanted = names(&["ec2-a", "ec2-b"]);
        assert_eq!(
            shown(&batches(&wanted, &names(&[]), is_cloud, true)),
            ["ec2-a", "ec2-b"]
        );
        assert_eq!(
            shown(&batches(&wanted, &names(&[]), is_cloud, false)),
            ["ec2-a ec2-b"]
        );
        assert!(batches(&names(&[]), &names(&[]), is_cloud, false).is_empty());
    }
}
