//! The state of a campaign: a fold over its journal.

use crate::{
    ids::{PointId, RunId},
    journal::event::{Cause, Entry, Event, Outcome},
};
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Not tried yet, or cut off and to be tried again.
    #[default]
    Pending,
    /// Started, and nothing heard of its end.
    Running,
    /// It succeeded, by evidence.
    Succeeded,
    /// Its last attempt failed.
    Failed,
    /// Not tried, because its point failed too often.
    Quarantined,
}

impl RunState {
    /// The word in the index and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Quarantined => "quarantined",
        }
    }
}

/// One attempt at a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// When it was intended.
    pub started: Option<Timestamp>,
    /// When its end was written down.
    pub ended: Option<Timestamp>,
    /// How it ended; `None` while it runs and when it was cut off.
    pub outcome: Option<Outcome>,
    /// Cut off by the end of the controller.
    pub abandoned: bool,
}

/// What the journal says of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunHistory {
    /// Where it stands.
    pub state: RunState,
    /// Its attempts, first one first.
    pub attempts: Vec<Attempt>,
    /// Digest of its records, of the attempt that finished last.
    pub records: Option<String>,
}

impl RunHistory {
    /// Cause and detail, if the last attempt to finish failed.
    pub fn failure(&self) -> Option<(Cause, &str)> {
        match self.attempts.iter().rev().find_map(|a| a.outcome.as_ref())? {
            Outcome::Failed { cause, detail } => Some((*cause, detail)),
            Outcome::Succeeded => None,
        }
    }

    fn attempt(&mut self, number: u32) -> &mut Attempt {
        let at = match self.attempts.iter().rposition(|a| a.number == number && a.outcome.is_none() && !a.abandoned) {
            Some(at) => at,
            None => {
                self.attempts.push(Attempt { number, started: None, ended: None, outcome: None, abandoned: false });
                self.attempts.len() - 1
            }
        };
        &mut self.attempts[at]
    }
}

/// What the journal says of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Campaign {
    /// Every run that the journal names.
    pub runs: HashMap<RunId, RunHistory>,
    /// Points that failed too often.
    pub quarantined: HashSet<PointId>,
    /// First and last line.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Versions of cvc that wrote it, in order.
    pub cvc: Vec<String>,
    /// Digest of the plan that was last worked on.
    pub plan: Option<String>,
    /// How often a controller began or resumed work.
    pub sessions: u64,
    /// How often it was interrupted by the user.
    pub interruptions: u64,
    /// Whether the last word is that all runs are done.
    pub completed: bool,
}

/// Folds the entries of a journal, in their order.
pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Campaign {
    let mut c = Campaign::default();
    for Entry { at, event, .. } in entries {
        c.span = Some((c.span.map_or(*at, |s| s.0), *at));
        match event {
            Event::Opened { cvc, .. } => c.cvc.push(cvc.clone()),
            Event::Started { plan, .. } => {
                c.plan = Some(plan.clone());
                c.sessions += 1;
                c.completed = false;
            }
            Event::RunIntended { run, attempt } => {
                let history = c.runs.entry(run.clone()).or_default();
                history.state = RunState::Running;
                history.attempt(*attempt).started = Some(*at);
            }
            Event::RunStarted { run, attempt, .. } => {
                let history = c.runs.entry(run.clone()).or_default();
                history.state = RunState::Running;
                history.attempt(*attempt).started.get_or_insert(*at);
            }
            Event::RunFinished { run, attempt, outcome, records } => {
                let history = c.runs.entry(run.clone()).or_default();
                history.state = match outcome {
                    Outcome::Succeeded => RunState::Succeeded,
                    Outcome::Failed { .. } => RunState::Failed,
                };
                history.records = records.clone();
                let attempt = history.attempt(*attempt);
                attempt.ended = Some(*at);
                attempt.outcome = Some(outcome.clone());
            }
            Event::RunAbandoned { run, attempt, .. } => {
                let history = c.runs.entry(run.clone()).or_default();
                history.state = RunState::Pending;
                let attempt = history.attempt(*attempt);
                attempt.ended = Some(*at);
                attempt.abandoned = true;
            }
            Event::PointQuarantined { point, .. } => {
                c.quarantined.insert(point.clone());
            }
            Event::PointReleased { point } => {
                c.quarantined.remove(point);
            }
            Event::Interrupted { .. } => c.interruptions += 1,
            Event::Completed { .. } => c.completed = true,
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(events: Vec<Event>) -> Vec<Entry> {
        (1..).zip(events).map(|(seq, event)| Entry { seq, at: Timestamp::from_second(seq as i64).expect("a time"), event }).collect()
    }

    #[test]
    fn the_last_finish_wins_and_a_cut_off_run_is_pending() {
        let (a, b) = (RunId::from_written("a"), RunId::from_written("b"));
        let failed = Outcome::Failed { cause: Cause::Timeout, detail: "too slow".to_owned() };
        let finished = |run: &RunId, attempt, outcome: &Outcome| Event::RunFinished {
            run: run.clone(),
            attempt,
            outcome: outcome.clone(),
            records: None,
        };
        let c = fold(&entries(vec![
            Event::RunIntended { run: a.clone(), attempt: 1 },
            finished(&a, 1, &failed),
            Event::RunIntended { run: a.clone(), attempt: 2 },
            finished(&a, 2, &Outcome::Succeeded),
            Event::RunIntended { run: b.clone(), attempt: 1 },
            Event::RunAbandoned { run: b.clone(), attempt: 1, ended: vec![] },
            Event::RunIntended { run: b.clone(), attempt: 1 },
            Event::RunAbandoned { run: b.clone(), attempt: 1, ended: vec![] },
        ]));
        assert_eq!((c.runs[&a].state, c.runs[&a].attempts.len(), c.runs[&a].failure()), (RunState::Succeeded, 2, None));
        assert_eq!((c.runs[&b].state, c.runs[&b].attempts.len()), (RunState::Pending, 2));
    }
}
