//! History of a spool's earlier agents, derived from their events.

use super::{
    head::{Head, ThisHead},
    protocol::{DispatchId, Event, Orders, Request},
    spool::{EventLog, OldEvents, Spool},
};
use camino::Utf8Path;
use cvc_core::store::StoreError;
use cvc_engine::attempt::remove_kept;
use cvc_os::proc::ProcessId;
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

/// Time limit for a closing agent to disappear.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// History of the spool's earlier agents.
#[derive(Default)]
pub(super) struct History {
    /// Dispatches of attempts whose end was reported.
    ended: HashSet<DispatchId>,
    shepherds: HashMap<DispatchId, ProcessId>,
    /// Whether the last agent with nodes was killed, so that its unfinished attempts may still be running.
    pub(super) has_left_something: bool,
    /// Whether any earlier agent had nodes.
    pub(super) had_nodes: bool,
}

impl History {
    pub(super) fn from_events(events: OldEvents) -> Self {
        let mut history = Self::default();
        for numbered in events.events {
            match numbered.event {
                Event::Finished { id, .. } | Event::Interrupted { id } | Event::Lost { id, .. } => {
                    history.ended.insert(id);
                }
                Event::Started { id, shepherd } => {
                    history.shepherds.insert(id, shepherd);
                }
                Event::Ready { .. } => {
                    history.has_left_something = true;
                    history.had_nodes = true;
                }
                // the agent cut off its own attempts: requests without an end arrived later, and are for this agent
                Event::Closed { .. } => history.has_left_something = false,
                Event::Began { .. }
                | Event::Note { .. }
                | Event::Unable { .. }
                | Event::Stage { .. }
                | Event::NodeLost { .. }
                | Event::NodeLeaving { .. }
                | Event::NodeBack { .. }
                | Event::Closing { .. } => {}
            }
        }
        history
    }

    /// Returns the names of the requests for attempts whose end was reported.
    pub(super) fn ended_requests(&self) -> impl Iterator<Item = String> {
        self.ended.iter().map(DispatchId::request_name)
    }

    pub(super) fn shepherd(&self, id: &DispatchId) -> Option<ProcessId> {
        self.shepherds.get(id).copied()
    }

    /// Ends processes of unfinished attempts on this machine, without reporting the attempts. An attempt whose directory is complete is reported when
    /// it is requested again.
    pub(super) fn end_leftovers(
        &self,
        head: &dyn Head,
        spool: &Spool,
        orders: &Orders,
    ) -> Result<(), StoreError> {
        if !self.has_left_something {
            return Ok(());
        }
        for name in spool.names()? {
            // an unreadable request was never carried out
            let Ok(Request::Run(task)) = spool.request(&name) else {
                continue;
            };
            let id = DispatchId::of_task(&task);
            if !self.ended.contains(&id) {
                head.end_leftovers(spool, orders, &task, self.shepherd(&id))?;
            }
        }
        Ok(())
    }
}

/// Ends processes that killed agents' attempts left on this machine.
///
/// # Errors
/// An agent works in the spool, or the processes cannot be ended.
pub fn end_leftovers(root: &Utf8Path) -> Result<(), StoreError> {
    let spool = Spool::at(root);
    if !root.exists() {
        return Ok(());
    }
    if let Some(host) = spool.agent_elsewhere() {
        return Err(spool.not_here(&host));
    }
    // an agent that has announced its end may still be running for a moment
    let begun = Instant::now();
    let _lock = loop {
        match spool.lock() {
            Err(StoreError::Locked { .. }) if begun.elapsed() < LOCK_LIMIT => {
                std::thread::sleep(Duration::from_millis(50))
            }
            taken => break taken?,
        }
    };
    let (_, old) = EventLog::open(&spool.events())?;
    // without orders there were no attempts
    let Ok(orders) = spool.orders() else {
        return Ok(());
    };
    let head = ThisHead {
        program: orders.program.clone(),
    };
    History::from_events(old).end_leftovers(&head, &spool, &orders)?;
    remove_kept(&spool.campaign()).map(drop)
}
