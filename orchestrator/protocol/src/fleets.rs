//! One fleet in a cloud, which the first of two campaigns orders and may keep, and the second may take over, and a sweep. Each campaign runs,
//! and is then taken down; a session that was killed is repeated.

use crate::rules::{Bound, Rules};
use stateright::{Model, Property};

/// The model.
#[derive(Clone, Debug)]
pub struct Fleets {
    /// The rules.
    pub rules: Rules,
    /// How far to go.
    pub bound: Bound,
}

/// The campaign that orders the fleet, and may keep it.
pub const KEEPER: usize = 0;
/// The campaign that may take it over.
pub const TAKER: usize = 1;

/// The instances of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instances {
    /// They were never launched.
    Never,
    /// They are alive.
    Alive {
        /// Whether the cloud shows them, with their tags.
        shown: bool,
    },
    /// They have ended: by their deadline, or because somebody terminated them.
    Ended,
}

/// What the journal of a campaign says about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    /// Nothing.
    None,
    /// `lease-intended`.
    Intended,
    /// `lease-acquired`.
    Acquired,
    /// `lease-kept`.
    Kept,
    /// `lease-released`.
    Released,
}

/// Where the record of the kept fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// There is none.
    None,
    /// On the shelf.
    Shelf {
        /// Who put it there.
        by: usize,
    },
    /// In the directory of a campaign that took it.
    With {
        /// The campaign.
        taker: usize,
    },
}

/// The command that a session carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// `cvc run`.
    Run,
    /// `cvc down`.
    Down,
    /// None any more.
    Done,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// There is none.
    Away,
    /// It has the campaign's lock, and looks for what there is.
    Looks,
    /// It takes its fleet back from the shelf.
    TakesBack,
    /// It has written a note for the keeper, and takes the fleet from the shelf.
    Takes,
    /// It writes that what it took is its own: intended.
    Adopts,
    /// It places the order, or repeats it.
    Launches,
    /// It writes down what it has.
    Acquires,
    /// It uses the fleet.
    Uses,
    /// It puts the fleet on the shelf.
    Shelves,
    /// It writes that the fleet is kept.
    WritesKept,
    /// It terminates what it knows and what it finds by tags.
    Ends,
    /// It writes that the lease is released.
    Releases,
    /// It ends its fleet although it cannot write.
    EndsMute,
}

/// A campaign.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Campaign {
    lease: Lease,
    command: Command,
    at: At,
    /// Whether this session has put the fleet on the shelf.
    shelved: bool,
    /// Whether `down` has said that nothing is left.
    says_nothing_left: bool,
}

/// Where the sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sweep {
    /// It is not there.
    Away,
    /// It has found the fleet, which nobody seemed to use.
    Found,
    /// It has taken the locks that were free.
    Locked,
    /// It has read the shelf.
    ReadShelf {
        /// Whether the fleet was on it.
        kept: bool,
    },
    /// It is about to remove.
    Removes,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    instances: Instances,
    campaigns: [Campaign; 2],
    record: Record,
    /// Whether the directory of a campaign has a note of the other one, which took over what it had kept.
    notes: [bool; 2],
    sweep: Sweep,
    /// The locks that the sweep has.
    swept: [bool; 2],
    sweeps: u8,
    faults: u8,
    /// Whether somebody has terminated the instances that another campaign was using.
    robbed: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A session starts.
    Start(usize),
    /// The user wants no more runs.
    GiveUp(usize),
    /// It does its next step.
    Step(usize),
    /// It begins to keep the fleet instead of giving it back.
    Keep(usize),
    /// It is killed.
    Kill(usize),
    /// The entry that it writes next cannot be written.
    FailToWrite(usize),
    /// The cloud shows what was launched.
    Show,
    /// Time passes, and the instances end by their deadline.
    Expire,
    /// The sweep does its next step.
    Sweep,
}

impl State {
    fn is_alive(&self) -> bool {
        matches!(self.instances, Instances::Alive { .. })
    }

    /// Whether a campaign's journal has a lease that is not over.
    fn is_open(&self, of: usize) -> bool {
        match self.campaigns[of].lease {
            Lease::Intended | Lease::Acquired | Lease::Kept => true,
            Lease::None | Lease::Released => false,
        }
    }

    fn is_on_shelf(&self) -> bool {
        matches!(self.record, Record::Shelf { .. })
    }

    fn is_running(&self, of: usize) -> bool {
        self.campaigns[of].at != At::Away
    }

    /// Somebody terminates the instances.
    fn terminate(&mut self, by: Option<usize>) {
        let uses = |of: usize| Some(of) != by && matches!(self.campaigns[of].at, At::Uses | At::Shelves);
        self.robbed |= self.is_alive() && (uses(KEEPER) || uses(TAKER));
        if self.is_alive() {
            self.instances = Instances::Ended;
        }
    }
}

impl Fleets {
    /// A session's next step; `None` if it has to wait.
    fn step(&self, state: &State, of: usize) -> Option<State> {
        let mut next = state.clone();
        let is_down = state.campaigns[of].command == Command::Down;
        let lease = state.campaigns[of].lease;
        let own = Record::With { taker: of };
        let mut written = lease;
        let at = match state.campaigns[of].at {
            At::Away => return None,
            At::Looks if state.is_open(of) => match self.is_given_away(state, of) {
                true => {
                    written = Lease::Released;
                    At::Looks
                }
                false if state.is_on_shelf() => At::TakesBack,
                false => self.go_on(lease, is_down),
            },
            At::Looks if state.record == own => match is_down && self.rules == Rules::DownAsksLeasesOnly {
                true => return Some(end(next, of)),
                false => At::Adopts,
            },
            At::Looks if is_down => return Some(end(next, of)),
            At::Looks => match (lease, state.record) {
                (_, Record::Shelf { by }) => {
                    next.notes[by] |= by != of;
                    At::Takes
                }
                (Lease::None, _) if of == KEEPER => {
                    written = Lease::Intended;
                    At::Launches
                }
                _ => return Some(end(next, of)),
            },
            // the record is read and moved in one step
            At::TakesBack if state.is_on_shelf() && !self.is_given_away(state, of) => {
                next.record = own;
                self.go_on(lease, is_down)
            }
            // somebody quicker has it, and has left a note by then
            At::TakesBack => At::Looks,
            At::Takes => {
                if state.is_on_shelf() {
                    next.record = own;
                } else {
                    next.notes[1 - of] &= state.record == own;
                }
                At::Looks
            }
            At::Adopts => {
                written = Lease::Intended;
                At::Acquires
            }
            At::Launches => {
                // the same token: the same instances
                if state.instances == Instances::Never {
                    next.instances = Instances::Alive { shown: false };
                }
                At::Acquires
            }
            At::Acquires => {
                written = Lease::Acquired;
                if is_down { At::Ends } else { At::Uses }
            }
            At::Uses => At::Ends,
            At::Shelves => {
                next.record = Record::Shelf { by: of };
                next.campaigns[of].shelved = true;
                if self.rules == Rules::JournalBeforeShelf { return Some(end(next, of)) } else { At::WritesKept }
            }
            At::WritesKept => {
                written = Lease::Kept;
                if self.rules == Rules::JournalBeforeShelf {
                    At::Shelves
                } else {
                    next.campaigns[of].lease = written;
                    return Some(end(next, of));
                }
            }
            At::Ends | At::EndsMute => {
                // by their ids, if the journal has them, and by tags until everything that may still show is shown
                let knows = lease == Lease::Acquired;
                if state.instances == (Instances::Alive { shown: false }) && !knows {
                    return None;
                }
                next.terminate(Some(of));
                if state.campaigns[of].at == At::EndsMute { At::Away } else { At::Releases }
            }
            At::Releases => {
                next.campaigns[of].lease = Lease::Released;
                if state.record == own {
                    next.record = Record::None;
                }
                return Some(end(next, of));
            }
        };
        next.campaigns[of].at = at;
        next.campaigns[of].lease = written;
        Some(next)
    }

    /// What a session does with a lease that is its own.
    fn go_on(&self, lease: Lease, is_down: bool) -> At {
        match lease {
            // whether it was placed is not known: it is placed again, or what shows is ended
            Lease::Intended if is_down => At::Ends,
            Lease::Intended => At::Launches,
            Lease::Kept | Lease::Acquired | Lease::None | Lease::Released => At::Acquires,
        }
    }

    /// Whether the fleet that a campaign has a lease of counts as another one's.
    fn is_given_away(&self, state: &State, of: usize) -> bool {
        if state.record == (Record::With { taker: of }) {
            return false;
        }
        if self.rules == Rules::JournalBeforeShelf {
            return state.campaigns[of].lease == Lease::Kept && !state.is_on_shelf();
        }
        state.record != (Record::Shelf { by: of }) && state.notes[of]
    }

    /// Whether the fleet may be a campaign's: by its name, its journal, or what it took from the shelf.
    fn is_concerned(&self, state: &State, of: usize) -> bool {
        let has_taken = state.record == (Record::With { taker: of });
        of == KEEPER || state.campaigns[of].lease != Lease::None || has_taken && self.rules != Rules::SweepAsksJournalsOnly
    }

    /// Whether a sweep leaves the fleet alone, by the shelf as it was read, and by everything else as it is now.
    fn spares(&self, state: &State, on_shelf: bool) -> bool {
        let of_campaign = |of: usize| {
            let runs = state.is_running(of) && (of == KEEPER || state.is_open(of));
            let keeps = state.campaigns[of].lease == Lease::Kept && state.is_on_shelf();
            let has_taken = state.is_running(of) && state.record == (Record::With { taker: of });
            // one that could begin or go on meanwhile
            let is_free = state.sweep != Sweep::Away && self.is_concerned(state, of) && !state.swept[of];
            runs || keeps || (self.rules != Rules::SweepAsksJournalsOnly && (has_taken || is_free))
        };
        of_campaign(KEEPER) || of_campaign(TAKER) || (self.rules != Rules::SweepAsksJournalsOnly && on_shelf)
    }

    /// The sweep's next step.
    fn sweep(&self, state: &State) -> Option<State> {
        let mut next = state.clone();
        next.sweep = match state.sweep {
            Sweep::Away if state.sweeps < self.bound.others && state.instances == (Instances::Alive { shown: true }) => {
                next.sweeps += 1;
                if self.spares(state, state.is_on_shelf()) { Sweep::Away } else { Sweep::Found }
            }
            Sweep::Away => return None,
            // the lock was free a moment ago
            Sweep::Found if self.rules == Rules::SweepLetsLockGo => Sweep::Removes,
            Sweep::Found => {
                for of in [KEEPER, TAKER] {
                    next.swept[of] = self.is_concerned(state, of) && !state.is_running(of);
                }
                Sweep::Locked
            }
            Sweep::Locked => Sweep::ReadShelf { kept: state.is_on_shelf() },
            Sweep::ReadShelf { kept } if self.spares(state, kept) => Sweep::Away,
            Sweep::ReadShelf { .. } => Sweep::Removes,
            Sweep::Removes => {
                next.terminate(None);
                Sweep::Away
            }
        };
        if next.sweep == Sweep::Away {
            next.swept = [false; 2];
        }
        Some(next)
    }

    fn is_stuck(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        !actions.iter().any(|action| self.next_state(state, *action).is_some())
    }
}

/// A session has done its command.
fn end(mut state: State, of: usize) -> State {
    let campaign = &mut state.campaigns[of];
    campaign.at = At::Away;
    campaign.shelved = false;
    campaign.command = match campaign.command {
        Command::Run => Command::Down,
        Command::Down => {
            campaign.says_nothing_left = true;
            Command::Done
        }
        Command::Done => Command::Done,
    };
    state
}

impl Model for Fleets {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let campaign = Campaign { lease: Lease::None, command: Command::Run, at: At::Away, shelved: false, says_nothing_left: false };
        vec![State {
            instances: Instances::Never,
            campaigns: [campaign.clone(), campaign],
            record: Record::None,
            notes: [false; 2],
            sweep: Sweep::Away,
            swept: [false; 2],
            sweeps: 0,
            faults: 0,
            robbed: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for of in [KEEPER, TAKER] {
            let campaign = &state.campaigns[of];
            match campaign.at {
                At::Away if campaign.command == Command::Done || state.swept[of] => continue,
                At::Away => {
                    actions.push(Action::Start(of));
                    if campaign.command == Command::Run {
                        actions.push(Action::GiveUp(of));
                    }
                    continue;
                }
                At::Uses if campaign.command == Command::Run && state.instances == (Instances::Alive { shown: true }) => {
                    actions.push(Action::Keep(of));
                }
                _ => {}
            }
            actions.push(Action::Step(of));
            if state.faults < self.bound.faults {
                actions.push(Action::Kill(of));
                if campaign.at != At::EndsMute {
                    actions.push(Action::FailToWrite(of));
                }
            }
        }
        match state.instances {
            Instances::Alive { shown } => {
                actions.push(Action::Expire);
                if !shown {
                    actions.push(Action::Show);
                }
            }
            Instances::Never | Instances::Ended => {}
        }
        actions.push(Action::Sweep);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Start(of) => next.campaigns[of].at = At::Looks,
            Action::GiveUp(of) => next.campaigns[of].command = Command::Down,
            Action::Step(of) => return self.step(state, of),
            Action::Keep(of) => {
                next.campaigns[of].at = if self.rules == Rules::JournalBeforeShelf { At::WritesKept } else { At::Shelves };
            }
            Action::Kill(of) => {
                next.faults += 1;
                next.campaigns[of].at = At::Away;
                next.campaigns[of].shelved = false;
            }
            Action::FailToWrite(of) => {
                // only steps that write can fail so
                let stepped = self.step(state, of)?;
                if stepped.campaigns[of].lease == state.campaigns[of].lease {
                    return None;
                }
                next.faults += 1;
                let has = state.is_open(of) || state.record == Record::With { taker: of };
                let may_be_others = state.campaigns[of].shelved || self.is_given_away(state, of);
                let leaves = !has || may_be_others && self.rules != Rules::MuteEndsShelved;
                next.campaigns[of].at = if leaves { At::Away } else { At::EndsMute };
                next.campaigns[of].shelved = false;
            }
            Action::Show => next.instances = Instances::Alive { shown: true },
            Action::Expire => next.instances = Instances::Ended,
            Action::Sweep => return self.sweep(state),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what is alive is in a journal or a record, or shown with its tags", |_, state: &State| {
                let is_found = state.instances == (Instances::Alive { shown: true }) || state.record != Record::None;
                !state.is_alive() || is_found || state.is_open(KEEPER) || state.is_open(TAKER)
            }),
            Property::always("nobody ends instances that another campaign uses", |_, state: &State| !state.robbed),
            Property::always("when `down` has said that nothing is left, nothing is", |_, state: &State| {
                // what another campaign took over is that one's
                let is_others = |of: usize| state.is_open(1 - of) || state.record == (Record::With { taker: 1 - of });
                !state.is_alive() || [KEEPER, TAKER].iter().all(|of| !state.campaigns[*of].says_nothing_left || is_others(*of))
            }),
            Property::always("in the end nothing is left", |model: &Self, state: &State| {
                let is_clean = || !state.is_alive() && !state.is_open(KEEPER) && !state.is_open(TAKER) && state.record == Record::None;
                !model.is_stuck(state) || is_clean()
            }),
            Property::sometimes("a fleet is taken over", |_, state: &State| state.campaigns[TAKER].at == At::Uses),
            Property::sometimes("a sweep removes something", |_, state: &State| state.sweep == Sweep::Removes && state.is_alive()),
        ]
    }
}
