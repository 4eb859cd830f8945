//! One run on a cluster, handed over to an agent on the head, by a controller that dies and comes back, perhaps from a directory that was
//! moved or on a machine that was renamed. Agents are found by the name of their spool, which is the campaign's identity.

use crate::rules::{Bound, Rules};
use stateright::{Model, Property};

/// The number of attempts at which a campaign gives a run up.
const MAX_ATTEMPTS: u8 = 3;

/// The model.
#[derive(Clone, Debug)]
pub struct Attempts {
    /// The rules.
    pub rules: Rules,
    /// How far to go.
    pub bound: Bound,
}

/// What the journal says about the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Run {
    /// It has not begun, or this many attempts were lost.
    Waiting(u8),
    /// This attempt was begun.
    Begun(u8),
    /// It has ended, or was given up.
    Finished,
}

/// A spool on the head, and what its agent does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spool {
    /// Whether its agent is alive.
    agent: bool,
    /// A request that was not acted on yet.
    request: Option<u8>,
    /// The attempt whose processes are alive.
    live: Option<u8>,
    /// The attempts that ended, as bits.
    ended: u8,
    /// The attempts that were lost, as bits.
    lost: u8,
}

/// Where a controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Controller {
    /// There is none.
    Away,
    /// It has read the journal.
    Begun,
    /// It has written that it begins this attempt, and hands it over.
    HandsOver(u8),
    /// It waits for the end of this attempt.
    Waits(u8),
    /// It closes the spool.
    Closes,
    /// It has nothing more to do.
    Done,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    run: Run,
    /// The number of times that the directory or the machine was renamed.
    place: u8,
    controller: Controller,
    /// The spools, by identity.
    spools: Vec<Spool>,
    faults: u8,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A controller starts.
    Start,
    /// It does its next step.
    Step,
    /// Its next entry of the journal cannot be written, and it ends; or it is killed.
    Kill,
    /// The directory is moved, or the machine gets another name.
    Rename,
    /// An agent acts on its request.
    Begin(usize),
    /// An attempt ends.
    End(usize),
    /// An agent dies; the processes of its attempt live on.
    AgentDies(usize),
}

impl Attempts {
    fn identity(&self, state: &State) -> usize {
        if self.rules == Rules::IdentityIsPlace { state.place.into() } else { 0 }
    }

    /// The controller's next step; `None` if it has to wait.
    fn step(&self, state: &State) -> Option<State> {
        let mut next = state.clone();
        let spool = &mut next.spools[self.identity(state)];
        let (bit, run) = (|attempt: u8| 1u8 << attempt, state.run);
        next.controller = match (state.controller, run) {
            // every controller needs an agent: it ends what an earlier one of this spool had under way, and reports that as lost
            (Controller::Begun, Run::Waiting(_) | Run::Begun(_)) if !spool.agent => {
                spool.agent = true;
                if let Some(attempt) = spool.live.take() {
                    spool.lost |= bit(attempt);
                }
                Controller::Begun
            }
            (Controller::Begun, Run::Waiting(MAX_ATTEMPTS)) => {
                next.run = Run::Finished;
                Controller::Closes
            }
            (Controller::Begun, Run::Waiting(before)) => {
                next.run = Run::Begun(before);
                Controller::HandsOver(before)
            }
            (Controller::Begun, Run::Begun(attempt)) => {
                let is_there = spool.request == Some(attempt) || spool.live == Some(attempt) || spool.ended & bit(attempt) != 0;
                if is_there {
                    Controller::Waits(attempt)
                } else {
                    // nothing there knows of it
                    next.run = Run::Waiting(attempt + 1);
                    Controller::Begun
                }
            }
            (Controller::HandsOver(attempt), _) => {
                // a request has a name, and is acted on once
                if spool.live != Some(attempt) && (spool.ended | spool.lost) & bit(attempt) == 0 {
                    spool.request = Some(attempt);
                }
                Controller::Waits(attempt)
            }
            (Controller::Waits(attempt), _) if spool.ended & bit(attempt) != 0 => {
                next.run = Run::Finished;
                Controller::Closes
            }
            (Controller::Waits(attempt), _) if spool.lost & bit(attempt) != 0 => {
                next.run = Run::Waiting(attempt + 1);
                Controller::Begun
            }
            // it starts another agent
            (Controller::Waits(_), _) if !spool.agent => Controller::Begun,
            (Controller::Waits(_) | Controller::Away | Controller::Done, _) => return None,
            (Controller::Begun, Run::Finished) => Controller::Closes,
            (Controller::Closes, _) => {
                *spool = Spool::default();
                Controller::Done
            }
        };
        Some(next)
    }

    fn is_stuck(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        !actions.iter().any(|action| self.next_state(state, *action).is_some())
    }
}

impl Model for Attempts {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let spools = vec![Spool::default(); usize::from(self.bound.others) + 1];
        vec![State { run: Run::Waiting(0), place: 0, controller: Controller::Away, spools, faults: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_away = state.controller == Controller::Away;
        if is_away {
            actions.push(Action::Start);
        } else {
            actions.push(Action::Step);
        }
        let may_fail = state.faults < self.bound.faults;
        if may_fail && !is_away && state.controller != Controller::Done {
            actions.push(Action::Kill);
        }
        if is_away && state.place < self.bound.others {
            actions.push(Action::Rename);
        }
        for (at, spool) in state.spools.iter().enumerate() {
            if spool.agent && spool.request.is_some() {
                actions.push(Action::Begin(at));
            }
            if spool.live.is_some() {
                actions.push(Action::End(at));
            }
            if spool.agent && may_fail {
                actions.push(Action::AgentDies(at));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step => return self.step(state),
            Action::Start => next.controller = Controller::Begun,
            Action::Kill => {
                next.controller = Controller::Away;
                next.faults += 1;
            }
            Action::Rename => next.place += 1,
            Action::Begin(at) => next.spools[at].live = next.spools[at].request.take(),
            Action::End(at) => {
                let spool = &mut next.spools[at];
                if let Some(attempt) = spool.live.take() {
                    // without an agent nobody seals its results
                    let bits = if spool.agent { &mut spool.ended } else { &mut spool.lost };
                    *bits |= 1 << attempt;
                }
            }
            Action::AgentDies(at) => {
                next.spools[at].agent = false;
                next.faults += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one attempt of a run is alive", |_, state: &State| {
                state.spools.iter().filter(|spool| spool.live.is_some()).count() <= 1
            }),
            Property::always("in the end nothing is left on the head", |model: &Self, state: &State| {
                !model.is_stuck(state) || state.spools.iter().all(|spool| *spool == Spool::default())
            }),
            Property::sometimes("an attempt outlives its controller and is adopted", |_, state: &State| {
                state.faults > 0 && state.run == Run::Finished && state.spools.iter().any(|spool| spool.ended == 1)
            }),
        ]
    }
}
