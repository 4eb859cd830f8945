//! The state of a campaign: a fold over its journal.

use super::event::{Entry, Event};
use crate::outcome::{Cause, Outcome};
use crate::{
    ids::{PointId, RunId},
    lease::LaunchOrder,
};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where a run stands. A run that does not occur has not been tried.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// Intended or started, and no end is known: under way, or cut off with its controller.
    Open {
        /// Attempt under way.
        attempt: u32,
        /// Its shepherd, if it was started: process id and start ticks.
        shepherd: Option<(u32, u64)>,
    },
    /// Cut off with its controller and cleaned up; to be done again. Attempts that count so far.
    Abandoned {
        /// Attempts that ended by themselves before it.
        attempts: u32,
    },
    /// Ended.
    Finished {
        /// The attempt that ended.
        attempt: u32,
        /// How.
        outcome: Outcome,
        /// Digest of its records.
        records: Option<String>,
    },
}

/// One attempt at a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// From 1; one that was cut off is followed by another of the same number.
    pub number: u32,
    /// When it was intended.
    pub started: Option<Timestamp>,
    /// When its end was written down.
    pub ended: Option<Timestamp>,
    /// How it ended; `None` while it runs and when it was cut off.
    pub outcome: Option<Outcome>,
    /// Cut off by the end of the controller.
    pub abandoned: bool,
    /// Nodes that it was given; none on this machine.
    pub nodes: Vec<String>,
}

/// What the journal says of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunHistory {
    /// Where it stands.
    pub state: RunState,
    /// Its attempts, first one first.
    pub attempts: Vec<Attempt>,
}

impl RunHistory {
    /// Cause and detail, if the last attempt to finish failed.
    pub fn failure(&self) -> Option<(Cause, &str)> {
        match self.attempts.iter().rev().find_map(|a| a.outcome.as_ref())? {
            Outcome::Failed { cause, detail } => Some((*cause, detail)),
            Outcome::Succeeded => None,
        }
    }

    /// The attempt of this number that is under way; a new one if there is none.
    fn under_way(&mut self, number: u32) -> &mut Attempt {
        let at = match self.attempts.iter().rposition(|a| a.number == number && a.outcome.is_none() && !a.abandoned) {
            Some(at) => at,
            None => {
                self.attempts.push(Attempt { number, started: None, ended: None, outcome: None, abandoned: false, nodes: Vec::new() });
                self.attempts.len() - 1
            }
        };
        &mut self.attempts[at]
    }
}

/// What the journal says of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignState {
    /// Every run that was tried.
    pub runs: HashMap<RunId, RunHistory>,
    /// Points that are not tried any more.
    pub quarantined: BTreeSet<PointId>,
    /// Points that the last controller could not run, with the reason.
    pub skipped: BTreeMap<PointId, String>,
    /// Whether the last controller came to the end of its plan.
    pub completed: bool,
    /// Digest of the last plan that was started.
    pub plan: Option<String>,
    /// First and last line.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Versions of cvc that began the journal.
    pub cvc: Vec<String>,
    /// How often a controller began or resumed work.
    pub sessions: u64,
    /// Sites on whose machines something of cvc's may be.
    pub open_sites: BTreeSet<String>,
    /// How often it was interrupted by the user.
    pub interruptions: u64,
    /// What schedulers were asked for, in order.
    pub leases: Vec<Lease>,
}

/// Nodes that a scheduler was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Its name: that of the job.
    pub name: String,
    /// For which site.
    pub site: String,
    /// The scheduler's number of it, once it has said it.
    pub job: Option<String>,
    /// What a cloud was asked for.
    pub order: Option<Box<LaunchOrder>>,
    /// When it was asked for, and since when it was there.
    pub intended: Timestamp,
    /// When it was there.
    pub acquired: Option<Timestamp>,
    /// Instances of it that are gone, and since when.
    pub lost: BTreeMap<String, Timestamp>,
    /// Until when it is kept for a next campaign, which may have taken it over.
    pub kept_until: Option<Timestamp>,
    /// When its instances end by themselves, as far as that was moved on since they were launched.
    pub deadline: Option<Timestamp>,
    /// Whether it is known to be over.
    pub released: bool,
    /// Since when.
    pub ended: Option<Timestamp>,
}

impl Lease {
    /// Instances that a cloud has launched for it.
    pub fn instances(&self) -> Vec<&str> {
        self.job
            .as_deref()
            .filter(|_| self.order.is_some())
            .into_iter()
            .flat_map(|ids| ids.split(','))
            .filter(|id| !id.is_empty())
            .collect()
    }
}

impl CampaignState {
    /// Folds a journal.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut state = Self::default();
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// Where a run stands; `None` if it was not tried.
    pub fn run(&self, run: &RunId) -> Option<&RunState> {
        self.runs.get(run).map(|history| &history.state)
    }

    /// What schedulers were asked for on behalf of a site, in order.
    pub fn leases_of(&self, site: &str) -> Vec<Lease> {
        self.leases.iter().filter(|l| l.site == site).cloned().collect()
    }

    /// Takes in one line.
    pub fn apply(&mut self, Entry { at, event, .. }: &Entry) {
        self.span = Some((self.span.map_or(*at, |s| s.0), *at));
        match event {
            Event::Opened { cvc, .. } => self.cvc.push(cvc.clone()),
            Event::Started { plan, .. } => {
                self.completed = false;
                self.plan = Some(plan.clone());
                self.sessions += 1;
                self.skipped.clear();
            }
            Event::SiteOpened { site } => {
                self.open_sites.insert(site.clone());
            }
            Event::SiteClosed { site } => {
                self.open_sites.remove(site);
            }
            Event::RunIntended { run, attempt, nodes } => {
                let state = RunState::Open { attempt: *attempt, shepherd: None };
                let attempt = self.stands(run, *attempt, state);
                attempt.started = Some(*at);
                attempt.nodes.clone_from(nodes);
            }
            Event::RunStarted { run, attempt, pid, start_ticks } => {
                let state = RunState::Open { attempt: *attempt, shepherd: Some((*pid, *start_ticks)) };
                self.stands(run, *attempt, state).started.get_or_insert(*at);
            }
            Event::RunFinished { run, attempt, outcome, records } => {
                let state = RunState::Finished { attempt: *attempt, outcome: outcome.clone(), records: records.clone() };
                let attempt = self.stands(run, *attempt, state);
                attempt.ended = Some(*at);
                attempt.outcome = Some(outcome.clone());
            }
            Event::RunAbandoned { run, attempt, .. } => {
                let attempt = self.stands(run, *attempt, RunState::Abandoned { attempts: attempt.saturating_sub(1) });
                attempt.ended = Some(*at);
                attempt.abandoned = true;
            }
            Event::PointQuarantined { point, .. } => {
                self.quarantined.insert(point.clone());
            }
            Event::Interrupted { .. } => self.interruptions += 1,
            Event::LeaseIntended { lease, site, order, .. } => {
                self.leases.push(Lease {
                    name: lease.clone(),
                    site: site.clone(),
                    job: None,
                    order: order.clone(),
                    intended: *at,
                    acquired: None,
                    lost: BTreeMap::new(),
                    kept_until: None,
                    deadline: None,
                    released: false,
                    ended: None,
                });
            }
            Event::LeaseAcquired { lease, job } => {
                if let Some(lease) = self.lease(lease) {
                    lease.job = Some(job.clone());
                    lease.acquired.get_or_insert(*at);
                    lease.kept_until = None;
                }
            }
            Event::LeaseExtended { lease, until } => {
                if let Some(lease) = self.lease(lease) {
                    lease.deadline = Some(*until);
                }
            }
            Event::LeaseKept { lease, until } => {
                if let Some(lease) = self.lease(lease) {
                    lease.kept_until = Some(*until);
                    lease.deadline = Some(*until);
                }
            }
            Event::LeaseLost { lease, instances, .. } => {
                if let Some(lease) = self.lease(lease) {
                    lease.lost.extend(instances.iter().map(|id| (id.clone(), *at)));
                }
            }
            Event::LeaseReleased { lease, .. } => {
                if let Some(lease) = self.lease(lease) {
                    lease.released = true;
                    lease.ended = Some(*at);
                }
            }
            Event::PointsSkipped { points, reason } => {
                self.skipped.extend(points.iter().map(|point| (point.clone(), reason.clone())));
            }
            Event::PointReleased { point } => {
                self.quarantined.remove(point);
            }
            Event::Completed { .. } => self.completed = true,
        }
    }

    fn lease(&mut self, name: &str) -> Option<&mut Lease> {
        self.leases.iter_mut().rfind(|l| l.name == name)
    }

    /// Sets where a run stands, and gives the attempt that is meant.
    fn stands(&mut self, run: &RunId, attempt: u32, state: RunState) -> &mut Attempt {
        let history = self.runs.entry(run.clone()).or_insert_with(|| RunHistory { state: state.clone(), attempts: Vec::new() });
        history.state = state;
        history.under_way(attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(events: Vec<Event>) -> Vec<Entry> {
        (1..).zip(events).map(|(seq, event)| Entry { seq, at: Timestamp::from_second(seq as i64).expect("a time"), event }).collect()
    }

    #[test]
    fn the_last_finish_wins_and_what_was_cut_off_is_no_attempt_that_counts() {
        let (a, b) = (RunId::from_written("a"), RunId::from_written("b"));
        let failed = Outcome::Failed { cause: Cause::Timeout, detail: "too slow".to_owned() };
        let finished = |run: &RunId, attempt, outcome: &Outcome, records: Option<&str>| Event::RunFinished {
            run: run.clone(),
            attempt,
            outcome: outcome.clone(),
            records: records.map(str::to_owned),
        };
        let state = CampaignState::of(&entries(vec![
            Event::RunIntended { run: a.clone(), attempt: 1, nodes: vec![] },
            finished(&a, 1, &failed, None),
            Event::RunIntended { run: a.clone(), attempt: 2, nodes: vec![] },
            finished(&a, 2, &Outcome::Succeeded, Some("digest")),
            Event::RunIntended { run: b.clone(), attempt: 1, nodes: vec![] },
            Event::RunAbandoned { run: b.clone(), attempt: 1, ended: vec![] },
            Event::RunIntended { run: b.clone(), attempt: 1, nodes: vec![] },
            Event::RunAbandoned { run: b.clone(), attempt: 1, ended: vec![] },
        ]));
        let end = RunState::Finished { attempt: 2, outcome: Outcome::Succeeded, records: Some("digest".to_owned()) };
        assert_eq!((state.run(&a), state.runs[&a].attempts.len(), state.runs[&a].failure()), (Some(&end), 2, None));
        assert_eq!((state.run(&b), state.runs[&b].attempts.len()), (Some(&RunState::Abandoned { attempts: 0 }), 2));
    }

    #[test]
    fn a_run_that_began_is_open_and_its_shepherd_is_known() {
        let run = RunId::from_written("a");
        let mut journal = entries(vec![
            Event::Started { plan: "p".to_owned(), runs: 1, pid: 1 },
            Event::RunIntended { run: run.clone(), attempt: 1, nodes: vec![] },
            Event::RunStarted { run: run.clone(), attempt: 1, pid: 7, start_ticks: 9 },
        ]);
        assert_eq!(CampaignState::of(&journal[..2]).run(&run), Some(&RunState::Open { attempt: 1, shepherd: None }));
        let state = CampaignState::of(&journal);
        assert_eq!(state.run(&run), Some(&RunState::Open { attempt: 1, shepherd: Some((7, 9)) }));
        // the intent is the start, and there is one attempt of it
        assert_eq!(state.runs[&run].attempts.len(), 1);
        assert_eq!(state.runs[&run].attempts[0].started, Some(journal[1].at));
        journal.push(Entry { seq: 4, at: journal[2].at, event: Event::Completed { succeeded: 0, failed: 0 } });
        assert!(CampaignState::of(&journal).completed && state.sessions == 1);
    }
}
