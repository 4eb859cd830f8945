//! Handles events of sites, lost nodes, sites that no longer work, and the end of sites.

use super::{
    super::observe::Progress,
    OWNER_CHECK, fleet_end,
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

/// Time limit for lost nodes when nothing else can run, as a multiple of `lost_after_s`.
const NODES_PATIENCE: f64 = 8.0;

impl Resources<'_> {
    /// Waits for a future, handles events of sites meanwhile, and ends what costs when the money does. Not for long when another controller has
    /// the campaign: a head node may be waited for for a day, and what is being closed is the other's.
    pub(super) async fn while_listening<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, CampaignError> {
        tokio::pin!(work);
        let mut owner_check = tokio::time::interval(OWNER_CHECK);
        loop {
            let lasts = self.money_lasts();
            tokio::select! {
                biased;
                Some(event) = self.sites.events.recv() => self.listen(event)?,
                done = &mut work => {
                    // its last events
                    while let Ok(event) = self.sites.events.try_recv() {
                        self.listen(event)?;
                    }
                    return Ok(done);
                }
                () = tokio::time::sleep(lasts.unwrap_or_default()), if lasts.is_some() => self.out_of_money()?,
                _ = owner_check.tick() => self.record.journal.check_owner()?,
            }
        }
    }

    /// Time at which what costs must be ended; `None` if the money lasts, or if there is nothing that could be ended.
    fn money_lasts(&self) -> Option<Duration> {
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

    /// Handles an event of a site; journals what the site is about to do before it does it.
    pub(super) fn listen(&mut self, event: SiteEvent) -> Result<(), CampaignError> {
        match event {
            SiteEvent::Note(what) => self.record.say(what),
            SiteEvent::Install(event) => self.record.observer.on(&Progress::Install(event)),
            SiteEvent::Write(event, written) => {
                let changes_means = fleet_end::changes_means(&event);
                self.record.journal.write(event)?;
                if changes_means {
                    self.share_budget();
                }
                // the site may have stopped waiting
                let _ = written.send(());
            }
            // what is open must be closed nevertheless
            SiteEvent::Panicked(panic) if matches!(self.phase, Phase::Closing(_)) => {
                tracing::error!(panic, "a task of a site panicked")
            }
            SiteEvent::Panicked(panic) => return Err(CampaignError::internal(panic)),
        }
        Ok(())
    }

    /// Waits for lost nodes when nothing is under way and nothing can start; gives up the points that need them if none comes back. Returns
    /// whether there is something to do again.
    pub(super) async fn wait_for_nodes(&mut self) -> Result<bool, CampaignError> {
        let waiting = self.record.open_runs(|_| true);
        let sites: BTreeSet<String> = waiting
            .iter()
            .filter_map(|r| Some(self.record.scheduler.point(&r.point)?.site.clone()))
            .collect();
        let remotes: Vec<Arc<Remote>> = sites.iter().filter_map(|s| self.sites.remote(s)).collect();
        if remotes.is_empty() {
            return Ok(false);
        }
        let counted: Vec<(Arc<Remote>, usize)> = remotes
            .iter()
            .map(|r| (Arc::clone(r), r.nodes().len()))
            .collect();
        let sites: Vec<String> = sites.into_iter().collect();
        if self.repair_fleets(&sites, false).await? {
            return Ok(true);
        }
        // count again: a node may have come back meanwhile
        if self
            .record
            .scheduler
            .next(self.record.state(), &self.sites)
            .is_some()
        {
            return Ok(true);
        }
        if self.wait_for_change(counted).await? {
            return Ok(true);
        }
        // the cloud shows them as running, but their agent does not hear from them
        if self.repair_fleets(&sites, true).await? {
            return Ok(true);
        }
        let reason = self.why_too_few(&remotes, &waiting);
        self.record.give_up(
            &waiting,
            format!("{reason}; the next `cvc run` tries again"),
        )?;
        Ok(true)
    }

    /// Waits until the nodes of sites change or the user wants to stop; `false` if nothing changes for too long.
    async fn wait_for_change(
        &mut self,
        counted: Vec<(Arc<Remote>, usize)>,
    ) -> Result<bool, CampaignError> {
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
            let lasts = self.money_lasts();
            tokio::select! {
                biased;
                Some(event) = self.sites.events.recv() => self.listen(event)?,
                _ = changes.join_next() => return Ok(true),
                // an error means that nobody can ask for a stop any more
                Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Ok(true),
                () = tokio::time::sleep_until(end) => return Ok(false),
                _ = owner_check.tick() => self.record.journal.check_owner()?,
                () = tokio::time::sleep(lasts.unwrap_or_default()), if lasts.is_some() => {
                    self.out_of_money()?;
                    return Ok(true);
                }
            }
        }
    }

    /// The reason why runs have too few nodes.
    fn why_too_few(&self, remotes: &[Arc<Remote>], waiting: &[&PlannedRun]) -> String {
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

    /// Handles an attempt that could not be carried out because its site no longer works: its remaining runs are skipped. The campaign ends
    /// if it has no other site.
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
        // the next session repeats it
        self.record.abandon(run, task.attempt, Abandoned::CutOff)?;
        let what = error.to_string();
        self.record.say(what.clone());
        let waiting = self.record.open_runs(|s| s == site);
        if self.record.scheduler.is_only_site(site) {
            // other runs under way finish first
            self.problems.failure.get_or_insert(error);
        } else if matches!(error, CampaignError::Leftover { .. }) {
            self.problems.leftover.get_or_insert(error);
        }
        self.record
            .give_up(&waiting, format!("{what}; the next `cvc run` tries again"))
    }
}
