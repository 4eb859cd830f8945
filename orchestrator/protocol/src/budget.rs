//! Fleets that share a budget, with the deadlines of their instances, by which they end without a controller. Time and money are whole
//! numbers: each fleet costs one for each unit of time.

use crate::rules::{Bound, Rules};
use stateright::{Model, Property};

/// The model.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The rules.
    pub rules: Rules,
    /// How far to go.
    pub bound: Bound,
    /// The number of fleets.
    pub fleets: usize,
    /// The budget.
    pub limit: u8,
    /// The time that instances get from their controller if the budget is large.
    pub lifetime: u8,
}

/// A fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fleet {
    /// It was not launched yet.
    Wanted,
    /// It was ordered, with this end in the journal.
    Ordered {
        /// The end.
        promised: u8,
    },
    /// It is there.
    Alive {
        /// The latest end in the journal.
        promised: u8,
        /// The end that its instances know.
        deadline: u8,
    },
    /// It has ended.
    Ended,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    cost: u8,
    fleets: Vec<Fleet>,
    /// Whether there is a controller.
    is_there: bool,
    faults: u8,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The controller writes the order of a fleet down.
    Order(usize),
    /// It, or a later one, launches it.
    Launch(usize),
    /// It writes a later end of a fleet down.
    Promise(usize),
    /// It tells the instances what the journal says.
    Tell(usize),
    /// It gives a fleet back.
    Release(usize),
    /// It dies, or cannot write any more.
    Kill,
    /// The next one starts.
    Start,
}

impl Fleet {
    /// Until when it may cost if nobody does anything; `None` if it does not exist.
    fn costs_until(self) -> Option<u8> {
        match self {
            Self::Ordered { promised } => Some(promised),
            Self::Alive { promised, deadline } => Some(promised.max(deadline)),
            Self::Wanted | Self::Ended => None,
        }
    }
}

impl Budget {
    /// The latest end of a fleet that the budget pays for.
    fn until(&self, state: &State, at: usize) -> u8 {
        let now = u16::from(state.now);
        let is_paid = |until: u8| {
            let others = state.fleets.iter().enumerate().filter(|(other, _)| *other != at);
            let others: u16 = others
                .map(|(_, fleet)| match (self.rules, fleet) {
                    (Rules::WholeAllowanceEach, _) | (_, Fleet::Ended) => 0,
                    // it is to have the same end
                    (_, Fleet::Wanted) => u16::from(until) - now,
                    (_, fleet) => u16::from(fleet.costs_until().unwrap_or(0).max(until)) - now,
                })
                .sum();
            u16::from(state.cost) + others + u16::from(until) - now <= u16::from(self.limit)
        };
        (state.now..=state.now + self.lifetime).rev().find(|until| is_paid(*until)).unwrap_or(state.now)
    }
}

impl Model for Budget {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State { now: 0, cost: 0, fleets: vec![Fleet::Wanted; self.fleets], is_there: true, faults: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.fleets.iter().any(|fleet| fleet.costs_until().is_some()) {
            actions.push(Action::Tick);
        }
        if state.is_there {
            actions.extend(
                (0..self.fleets)
                    .flat_map(|at| [Action::Order(at), Action::Launch(at), Action::Promise(at), Action::Tell(at), Action::Release(at)]),
            );
            if state.faults < self.bound.faults {
                actions.push(Action::Kill);
            }
        } else {
            actions.push(Action::Start);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick => {
                next.now += 1;
                for fleet in &mut next.fleets {
                    match *fleet {
                        Fleet::Alive { deadline, .. } => {
                            next.cost += 1;
                            if deadline <= next.now {
                                *fleet = Fleet::Ended;
                            }
                        }
                        // an order whose end has passed is not repeated
                        Fleet::Ordered { promised } if promised <= next.now => *fleet = Fleet::Ended,
                        Fleet::Wanted | Fleet::Ordered { .. } | Fleet::Ended => {}
                    }
                }
            }
            Action::Order(at) => {
                let promised = self.until(state, at);
                if state.fleets[at] != Fleet::Wanted || promised <= state.now {
                    return None;
                }
                next.fleets[at] = Fleet::Ordered { promised };
            }
            Action::Launch(at) => match state.fleets[at] {
                Fleet::Ordered { promised } => next.fleets[at] = Fleet::Alive { promised, deadline: promised },
                Fleet::Wanted | Fleet::Alive { .. } | Fleet::Ended => return None,
            },
            // the journal first: what it says must never be earlier than what the instances know
            Action::Promise(at) => match state.fleets[at] {
                Fleet::Alive { promised, deadline } if self.until(state, at) > promised => {
                    next.fleets[at] = Fleet::Alive { promised: self.until(state, at), deadline };
                }
                Fleet::Wanted | Fleet::Ordered { .. } | Fleet::Alive { .. } | Fleet::Ended => return None,
            },
            Action::Tell(at) => match state.fleets[at] {
                Fleet::Alive { promised, deadline } if promised != deadline => {
                    next.fleets[at] = Fleet::Alive { promised, deadline: promised };
                }
                Fleet::Wanted | Fleet::Ordered { .. } | Fleet::Alive { .. } | Fleet::Ended => return None,
            },
            Action::Release(at) => match state.fleets[at] {
                Fleet::Ordered { .. } | Fleet::Alive { .. } => next.fleets[at] = Fleet::Ended,
                Fleet::Wanted | Fleet::Ended => return None,
            },
            Action::Kill => {
                next.is_there = false;
                next.faults += 1;
            }
            Action::Start => next.is_there = true,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the cost is within the budget", |model: &Self, state: &State| state.cost <= model.limit),
            Property::always("no instance outlives what the journal says", |_, state: &State| {
                state.fleets.iter().all(|fleet| !matches!(fleet, Fleet::Alive { promised, deadline } if promised < deadline))
            }),
            Property::sometimes("the budget is used up", |model: &Self, state: &State| state.cost == model.limit),
        ]
    }
}
