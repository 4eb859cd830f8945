//! Sites of several machines, as the coordinator opens, hears, waits for, gives up and closes them.

use super::{
    super::observe::Progress,
    CampaignRunner, NODES_PATIENCE, Place,
    clouds::{Opened, kept_until},
};
use crate::error::CampaignError;
use crate::{
    install::Lock,
    progress::SiteEvent,
    remote::{Opening, Remote},
};
use cvc_core::stop::StopRequest;
use cvc_core::{
    ids::{PointId, RunId},
    journal::Event,
    plan::{Plan, PlannedRun},
    point::{PlannedPoint, Point},
};
use cvc_engine::attempt::RunError;
use cvc_engine::attempt::SiteContext;
use cvc_engine::host::HostError;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::task::JoinSet;

impl CampaignRunner<'_> {
    /// Opens the sites of several machines of which something is wanted. One that cannot be opened is in the way of its own points only,
    /// unless there are no others.
    pub(super) async fn open_sites(&mut self, plan: &Plan) -> Result<(), CampaignError> {
        let wanted: BTreeSet<String> = plan
            .runs
            .iter()
            .filter(|r| !self.state.quarantined.contains(&r.point) && self.attempts_before(&r.id).is_some())
            .filter_map(|r| Some(self.points.get(&r.point)?.site.clone()))
            .collect();
        // one where an earlier controller was killed before it had taken everything away
        let only_closed: BTreeSet<String> = self.sites_with_something().into_iter().filter(|s| !wanted.contains(s)).collect();
        // machines of a cloud cost from the moment when they are asked for: they come last
        let mut names: Vec<&String> = wanted.union(&only_closed).collect();
        names.sort_by_key(|name| self.spec.sites.get(*name).is_some_and(|s| s.ec2.is_some()));
        let mut failed = None;
        for name in names {
            if self.places.contains_key(name) {
                continue;
            }
            let only_close = only_closed.contains(name);
            let Some(context) = SiteContext::of(self.spec, name) else {
                // it has left the campaign file, and what a cloud gave for it costs on
                self.close_forgotten(name).await?;
                continue;
            };
            let cloud = context.site.ec2.clone();
            if let Some(until) = kept_until(&self.state.leases_of(name)).filter(|_| only_close && !self.ends_kept) {
                let what = format!("{name}: its instances are kept until {until:.0}, and cost until then; `cvc down` ends them");
                self.observer.on(&Progress::Site { what });
                continue;
            }
            if let Some(reason) = self.unaffordable_fleet(name, plan).filter(|_| !only_close) {
                self.over_budget = true;
                let points = plan.points.iter().filter(|p| p.point.site == *name);
                self.obstacles.extend(points.map(|p| (p.id.clone(), format!("{reason}; raise `budget.usd`, and `cvc run` goes on"))));
                // what an earlier session had there costs on
                if self.state.leases_of(name).iter().any(|l| !l.released) {
                    self.close_forgotten(name).await?;
                }
                continue;
            }
            let was_open = self.state.open_sites.contains(name);
            if !was_open {
                self.write(Event::SiteOpened { site: name.clone() })?;
            }
            let points: Vec<PlannedPoint> = plan.points.iter().filter(|p| p.point.site == *name).cloned().collect();
            let (dir, program, stop_signal) = (self.dir.clone(), self.options.node_program.clone(), self.stop_signal.clone());
            let (site_events, leases) = (self.site_event_sender.clone(), self.state.leases_of(name));
            let opened = match cloud {
                None => {
                    let opening = Opening { context, points: points.clone(), dir, program, only_close, site_events, leases, fleet: None };
                    tokio::spawn(Remote::open(opening, stop_signal))
                }
                Some(settings) => match self.cloud_opening(plan, name, &settings).await {
                    Ok(opening) => tokio::spawn(async move {
                        let opened = if only_close { opening.close_old().await } else { opening.open(stop_signal).await };
                        match opened? {
                            Opened::Ready(remote) => Ok(Some(*remote)),
                            Opened::Closed => Ok(None),
                        }
                    }),
                    Err(error) => tokio::spawn(async move { Err(error) }),
                },
            };
            let opened = self.while_listening(opened).await?.map_err(|e| CampaignError::internal(e.to_string()))?;
            if !matches!(opened, Ok(Some(_))) {
                self.fleets.remove(name);
            }
            match opened {
                Ok(Some(remote)) => {
                    let kept = Lock::keep(&self.dir, name, &remote.ready().found, self.options.update_lock);
                    // also if not: it is to be closed
                    self.places.insert(name.clone(), Place::Remote(Arc::new(remote)));
                    kept?;
                }
                // the user wants to stop, or it was only to be closed: nothing is left there
                Ok(None) => self.write(Event::SiteClosed { site: name.clone() })?,
                Err(error) if only_close => {
                    // what is there stays for the next session, and is no reason not to do what is wanted elsewhere
                    self.observer.on(&Progress::Site { what: error.to_string() });
                    let what = format!("it could not be cleared: {error}");
                    self.leftover.get_or_insert(CampaignError::Leftover { site: name.clone(), what });
                }
                Err(error @ CampaignError::OverBudget { .. }) => {
                    self.over_budget = true;
                    // nothing is left there, or that would be the error
                    self.write(Event::SiteClosed { site: name.clone() })?;
                    self.obstacles
                        .extend(points.into_iter().map(|p| (p.id, format!("{error}; raise `budget.usd`, and `cvc run` goes on"))));
                }
                Err(error) if wanted.len() <= 1 => {
                    let unreached = matches!(
                        error,
                        CampaignError::Run(RunError::Host(
                            HostError::KeyChanged(_)
                                | HostError::KeyUnknown { .. }
                                | HostError::Denied { .. }
                                | HostError::Unreachable { .. }
                        ))
                    );
                    // what could not be launched has left nothing, or it says so
                    let never = matches!(error, CampaignError::Provider { .. }) && self.state.leases_of(name).iter().all(|l| l.released);
                    if (unreached && !was_open) || never {
                        self.write(Event::SiteClosed { site: name.clone() })?;
                    }
                    // what earlier sessions have left elsewhere is cleared all the same
                    self.obstacles.extend(points.into_iter().map(|p| (p.id, error.to_string())));
                    failed = Some(error);
                }
                Err(error) => {
                    self.observer.on(&Progress::Site { what: error.to_string() });
                    self.obstacles.extend(points.into_iter().map(|p| (p.id, error.to_string())));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits for something that sites do, and takes in what they tell meanwhile.
    pub(super) async fn while_listening<T>(&mut self, work: impl Future<Output = T>) -> Result<T, CampaignError> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(site_event) = self.site_events.recv() => self.listen(site_event)?,
                done = &mut work => {
                    // its last site_events
                    while let Ok(site_event) = self.site_events.try_recv() {
                        self.listen(site_event)?;
                    }
                    return Ok(done);
                }
            }
        }
    }

    /// Takes in what a site tells, or writes down what it is about to do, before it does it.
    pub(super) fn listen(&mut self, site_event: SiteEvent) -> Result<(), CampaignError> {
        match site_event {
            SiteEvent::Note(what) => self.observer.on(&Progress::Site { what }),
            SiteEvent::Install(event) => self.observer.on(&Progress::Install(event)),
            SiteEvent::Write(event, written) => {
                self.write(event)?;
                // who asked may have gone meanwhile
                let _ = written.send(());
            }
        }
        Ok(())
    }

    /// Ends what works on other machines, and leaves nothing there. One where that fails is in the way of no other; the first failure is told.
    pub(super) async fn close_sites(&mut self) -> Result<(), CampaignError> {
        let here = |place: &Place| if let Place::Remote(remote) = place { Some(Arc::clone(remote)) } else { None };
        let remotes: Vec<Arc<Remote>> = self.places.values().filter_map(here).filter(|r| !r.is_cloud()).collect();
        let mut first = None;
        let clouds: Vec<String> = self.fleets.keys().cloned().collect();
        for site in clouds {
            match self.close_cloud(&site).await {
                Ok(()) => {}
                Err(error) if first.is_none() => first = Some(error),
                Err(error) => self.observer.on(&Progress::Site { what: error.to_string() }),
            }
        }
        for remote in remotes {
            let site = remote.name().to_owned();
            match self.while_listening(async move { remote.close().await }).await? {
                Ok(()) => self.write(Event::SiteClosed { site })?,
                Err(error) if first.is_none() => first = Some(error),
                Err(error) => self.observer.on(&Progress::Site { what: error.to_string() }),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Nothing is under way and nothing can start, because nodes are lost: waits for them, and gives the points up that need them if none
    /// comes back. Whether there is something to do again.
    pub(super) async fn wait_for_nodes(&mut self, plan: &Plan, from: usize) -> Result<bool, CampaignError> {
        let waiting: Vec<&PlannedRun> = plan.runs[from..].iter().filter(|r| !self.settled(r)).collect();
        let sites: BTreeSet<&str> = waiting.iter().filter_map(|r| Some(self.points.get(&r.point)?.site.as_str())).collect();
        let remotes: Vec<(Arc<Remote>, usize)> = sites
            .iter()
            .filter_map(|s| {
                if let Some(Place::Remote(remote)) = self.places.get(*s) { Some((Arc::clone(remote), remote.nodes().len())) } else { None }
            })
            .collect();
        if remotes.is_empty() {
            return Ok(false);
        }
        let sites: Vec<String> = sites.into_iter().map(str::to_owned).collect();
        if self.repair_fleets(plan, &sites, false).await? {
            return Ok(true);
        }
        // after they were counted: one may have come back since nothing could start
        if self.next(plan, from).is_some() {
            return Ok(true);
        }
        let missed_s = remotes.iter().map(|(r, _)| r.lost_after_s()).fold(0.0, f64::max);
        let patience = Duration::from_secs_f64(NODES_PATIENCE * missed_s);
        self.observer.on(&Progress::Site { what: format!("waiting for lost nodes, {} s at most", patience.as_secs()) });
        let mut changes = JoinSet::new();
        for (remote, before) in remotes.iter().cloned() {
            changes.spawn(async move { remote.nodes_changed(before).await });
        }
        let mut stop_signal = self.stop_signal.clone();
        let end = tokio::time::Instant::now() + patience;
        loop {
            tokio::select! {
                biased;
                Some(site_event) = self.site_events.recv() => self.listen(site_event)?,
                _ = changes.join_next() => return Ok(true),
                // an error means that nobody can stop_request any more
                Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Ok(true),
                () = tokio::time::sleep_until(end) => break,
            }
        }
        // the cloud says that they run, and nobody hears of them
        if self.repair_fleets(plan, &sites, true).await? {
            return Ok(true);
        }
        let lost: Vec<String> = remotes.iter().flat_map(|(r, _)| r.lost()).map(|(node, why)| format!("{node}: {why}")).collect();
        let given_up: BTreeSet<PointId> = waiting.iter().map(|r| r.point.clone()).collect();
        let runs = waiting.len() as u64;
        let why = if lost.is_empty() {
            let has = remotes.iter().map(|(r, _)| r.nodes().len()).max().unwrap_or(0);
            let needs = given_up.iter().filter_map(|p| self.points.get(p)).map(|p| p.mapping.nodes()).min().unwrap_or(0);
            format!("the site has {has} nodes, and the mapping needs {needs}")
        } else {
            format!("too few nodes of the site are left; lost: {}", lost.join("; "))
        };
        self.give_up(given_up, runs, format!("{why}; the next `cvc run` tries again"))?;
        Ok(true)
    }

    /// An attempt could not be carried out, because its site cannot work any more: that is in the way of what is still to be done there. The
    /// campaign ends with it if it has no other site.
    pub(super) fn site_failed(&mut self, plan: &Plan, run: &RunId, error: CampaignError) -> Result<(), CampaignError> {
        let of_site = matches!(
            error,
            CampaignError::Site { .. }
                | CampaignError::Slurm(_)
                | CampaignError::Provider { .. }
                | CampaignError::Run(RunError::Host(_) | RunError::Crew(_))
                | CampaignError::Leftover { .. }
        );
        let Some(task) = self.under_way.remove(run) else { return Err(error) };
        if !of_site {
            return Err(error);
        }
        let site = task.point.site.as_str();
        self.adopted.remove(run);
        // it is done again by the next session
        self.write(Event::RunAbandoned { run: run.clone(), attempt: task.attempt, ended: Vec::new() })?;
        let what = error.to_string();
        self.observer.on(&Progress::Site { what: what.clone() });
        let of_site = |planned: &&PlannedRun| self.points.get(&planned.point).is_some_and(|p| p.site == site);
        let waiting: Vec<&PlannedRun> =
            plan.runs.iter().filter(of_site).filter(|r| !self.settled(r) && !self.under_way.contains_key(&r.id)).collect();
        let given_up: BTreeSet<PointId> = waiting.iter().map(|r| r.point.clone()).collect();
        let runs = waiting.len() as u64;
        if self.points.values().all(|p| p.site == site) {
            // what else is under way comes to its end before
            self.failure.get_or_insert(error);
        } else if matches!(error, CampaignError::Leftover { .. }) {
            self.leftover.get_or_insert(error);
        }
        self.give_up(given_up, runs, format!("{what}; the next `cvc run` tries again"))
    }

    /// Points are not tried in this session any more.
    pub(super) fn give_up(&mut self, given_up: BTreeSet<PointId>, runs: u64, reason: String) -> Result<(), CampaignError> {
        if given_up.is_empty() {
            return Ok(());
        }
        let points: Vec<Point> = given_up.iter().filter_map(|p| self.points.get(p).cloned()).collect();
        self.obstacles.extend(given_up.iter().map(|p| (p.clone(), reason.clone())));
        self.write(Event::PointsSkipped { points: given_up.into_iter().collect(), reason: reason.clone() })?;
        self.observer.on(&Progress::Skipped { reason, points, runs });
        Ok(())
    }
}
