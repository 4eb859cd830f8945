//! Handles events of sites: lost nodes, sites that no longer work, and the end of sites.

use super::{
    super::observe::SessionProgress,
    OWNER_CHECK,
    clouds::SiteChange,
    fleet_end,
    record::Abandoned,
    resources::{Phase, Resources},
};
use cvc_core::ids::RunId;
use cvc_core::plan::PlannedRun;
use cvc_core::stop::StopRequest;
use cvc_engine::attempt::RunError;
use cvc_sites::error::CampaignError;
use cvc_sites::progress::SiteEvent;
use cvc_sites::remote::Remote;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tracing::Instrument;

/// Time limit for lost nodes to return when nothing else can run, as a multiple of `lost_after_s`.
const NODES_PATIENCE: f64 = 8.0;

impl Resources<'_> {
    /// Waits for a future; meanwhile handles events of sites, and ends costly resources when the budget ends. Stops waiting soon after another
    /// controller has taken the campaign: a wait for a head node may last a day, and the resources now belong to the other controller.
    pub(super) async fn while_listening<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, CampaignError> {
        tokio::pin!(work);
        let mut owner_check = tokio::time::interval(OWNER_CHECK);
        loop {
            let lasts = self.budget_end();
            tokio::select! {
                biased;
                Some(event) = self.sites.events.recv() => self.listen(event)?,
                done = &mut work => {
                    // the last events of the sites
                    while let Ok(event) = self.sites.events.try_recv() {
                        self.listen(event)?;
                    }
                    return Ok(done);
                }
                () = tokio::time::sleep(lasts.unwrap_or_default()), if lasts.is_some() => self.budget_exhausted()?,
                _ = owner_check.tick() => self.record.journal.check_owner()?,
            }
        }
    }

    /// Returns the time after which costly resources must be ended; `None` if the budget suffices, or if there is nothing to end.
    fn budget_end(&self) -> Option<Duration> {
        self.budget.limit()?;
        let can_end = self
            .sites
            .fleets
            .keys()
            .any(|site| self.sites.is_open(site))
            || !self.record.scheduler.under_way().is_empty();
        if !can_end || self.stops.paid_runs.now() == StopRequest::StopNow {
            return None;
        }
        self.budget.lasts(&self.budget_view())
    }

    /// Handles an event of a site. Journals an action that a site announces before the site carries it out.
    pub(super) fn listen(&mut self, event: SiteEvent) -> Result<(), CampaignError> {
        match event {
            SiteEvent::Note(what) => self.record.say(what),
            SiteEvent::Install(event) => self.record.observer.on(&SessionProgress::Install(event)),
            SiteEvent::Write(event, written) => {
                let changes_means = fleet_end::changes_means(&event);
                self.record.journal.write(event)?;
                if changes_means {
                    self.share_budget();
                }
                // the site may have stopped waiting for the acknowledgement
                let _ = written.send(());
            }
            // the open sites must still be closed
            SiteEvent::Panicked(panic) if matches!(self.phase, Phase::Closing(_)) => {
                tracing::error!(panic, "a task of a site panicked")
            }
            SiteEvent::Panicked(panic) => return Err(CampaignError::internal(panic)),
        }
        Ok(())
    }

    /// Waits for lost nodes to return when nothing is active and nothing can start. If none returns in time, gives up the points that need them. Both
    /// count as a change.
    pub(super) async fn wait_for_nodes(&mut self) -> Result<SiteChange, CampaignError> {
        let waiting = self.record.open_runs(|_| true);
        let sites: BTreeSet<String> = waiting
            .iter()
            .filter_map(|r| Some(self.record.scheduler.point(&r.point)?.site.clone()))
            .collect();
        let remotes: Vec<Arc<Remote>> = sites.iter().filter_map(|s| self.sites.remote(s)).collect();
        if remotes.is_empty() {
            return Ok(SiteChange::Unchanged);
        }
        let counted: Vec<(Arc<Remote>, usize)> = remotes
            .iter()
            .map(|r| (Arc::clone(r), r.nodes().len()))
            .collect();
        let sites: Vec<String> = sites.into_iter().collect();
        if self.repair_fleets(&sites, false).await? == SiteChange::Changed {
            return Ok(SiteChange::Changed);
        }
        // counted again, because a node may have returned meanwhile
        if self
            .record
            .scheduler
            .next(self.record.state(), &self.sites)
            .is_some()
            || self.wait_for_change(counted).await? == SiteChange::Changed
        {
            return Ok(SiteChange::Changed);
        }
        // the cloud shows these instances as running, but their agent receives no signs of life
        if self.repair_fleets(&sites, true).await? == SiteChange::Changed {
            return Ok(SiteChange::Changed);
        }
        let reason = self.reason_for_too_few_nodes(&remotes, &waiting);
        self.record.give_up(
            &waiting,
            format!("{reason}; the next `cvc run` tries again"),
        )?;
        Ok(SiteChange::Changed)
    }

    /// Waits until the nodes of sites change, the user wants to stop, or the time limit passes.
    async fn wait_for_change(
        &mut self,
        counted: Vec<(Arc<Remote>, usize)>,
    ) -> Result<SiteChange, CampaignError> {
        let missed_s = counted
            .iter()
            .map(|(r, _)| r.lost_after_s())
            .fold(0.0, f64::max);
        let patience = Duration::from_secs_f64(NODES_PATIENCE * missed_s);
        let limit_s = patience.as_secs();
        self.record
            .say(format!("waiting for lost nodes, {limit_s} s at most"));
        let mut changes = JoinSet::new();
        for (remote, before) in counted {
            changes.spawn(async move { remote.nodes_changed(before).await }.in_current_span());
        }
        let mut stop_signal = self.stops.user.clone();
        let end = tokio::time::Instant::now() + patience;
        let mut owner_check = tokio::time::interval(OWNER_CHECK);
        loop {
            let lasts = self.budget_end();
            tokio::select! {
                biased;
                Some(event) = self.sites.events.recv() => self.listen(event)?,
                _ = changes.join_next() => return Ok(SiteChange::Changed),
                // an error means that no further request to stop can arrive
                Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Ok(SiteChange::Changed),
                () = tokio::time::sleep_until(end) => return Ok(SiteChange::Unchanged),
                _ = owner_check.tick() => self.record.journal.check_owner()?,
                () = tokio::time::sleep(lasts.unwrap_or_default()), if lasts.is_some() => {
                    self.budget_exhausted()?;
                    return Ok(SiteChange::Changed);
                }
            }
        }
    }

    /// Returns the reason why runs have too few nodes.
    fn reason_for_too_few_nodes(&self, remotes: &[Arc<Remote>], waiting: &[&PlannedRun]) -> String {
        let lost: Vec<String> = remotes
            .iter()
            .flat_map(|r| r.lost())
            .map(|(node, why)| format!("{node}: {why}"))
            .collect();
        if !lost.is_empty() {
            return format!(
                "too few nodes of the site are left; lost: {}",
                lost.join("; ")
            );
        }
        let has = remotes.iter().map(|r| r.nodes().len()).max().unwrap_or(0);
        let needs = waiting
            .iter()
            .filter_map(|r| self.record.scheduler.point(&r.point))
            .map(|p| p.mapping.nodes())
            .min()
            .unwrap_or(0);
        format!("the site has {has} nodes, and the mapping needs {needs}")
    }

    /// Handles an attempt that could not be carried out because its site no longer works. The remaining runs of the site are skipped; if the campaign
    /// has no other site, it ends.
    pub(super) fn site_failed(
        &mut self,
        run: &RunId,
        error: CampaignError,
    ) -> Result<(), CampaignError> {
        let of_site = matches!(
            error,
            CampaignError::Site { .. }
                | CampaignError::Slurm(_)
                | CampaignError::Provider { .. }
                | CampaignError::Run(RunError::Host(_) | RunError::Crew(_))
                | CampaignError::Leftover { .. }
        );
        let Some(task) = self.record.scheduler.end(run).filter(|_| of_site) else {
            return Err(error);
        };
        let site = task.point.site.as_str();
        // the next session repeats the run
        self.record.abandon(run, task.attempt, Abandoned::CutOff)?;
        let what = error.to_string();
        self.record.say(what.clone());
        let waiting = self.record.open_runs(|s| s == site);
        if self.record.scheduler.is_only_site(site) {
            // other active runs finish first
            self.problems.failure.get_or_insert(error);
        } else if matches!(error, CampaignError::Leftover { .. }) {
            self.problems.leftover.get_or_insert(error);
        }
        self.record
            .give_up(&waiting, format!("{what}; the next `cvc run` tries again"))
    }
}
