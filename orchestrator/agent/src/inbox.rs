//! The requests in a spool, and how far each is handled.

use super::{
    patience::{Patience, is_missing},
    protocol::{DispatchId, Request},
    spool::Spool,
};
use cvc_core::store::StoreError;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// How far a request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handling {
    /// Its attempt is under way. It stays in the spool: an agent after this one reads it.
    UnderWay,
    /// It was carried out; one of this name is a repetition.
    Done,
}

/// The requests in a spool.
pub(super) struct Inbox {
    pub(super) spool: Spool,
    handled: HashMap<String, Handling>,
    /// Time for which what cannot be read is read again.
    limit: Duration,
    listing: Patience,
    /// Requests that could not be read yet.
    unread: HashMap<String, Patience>,
}

/// The result of reading a request.
pub(super) enum Reading {
    Whole(Box<Request>),
    /// It cannot be read at the moment.
    Later,
    /// It is no longer there.
    Gone,
    /// It cannot be read at all, and is out of the way.
    Unreadable {
        note: String,
        /// The attempt that it requested, if that was not begun.
        lost: Option<DispatchId>,
    },
}

/// A listed request.
pub(super) enum Listed {
    /// It was not handled before.
    New,
    /// It is requested once more after its end, of which the report may have been damaged.
    Repeated,
}

impl Inbox {
    pub(super) fn new(spool: Spool, limit: Duration) -> Self {
        Self {
            spool,
            handled: HashMap::new(),
            limit,
            listing: Patience::of(limit),
            unread: HashMap::new(),
        }
    }

    /// Lists requests that need attention; `None` while they cannot be listed.
    pub(super) fn list(&mut self) -> Result<Option<BTreeSet<String>>, StoreError> {
        self.listing.bear(self.spool.names())
    }

    /// Classifies a listed request; `None` if its attempt is under way.
    pub(super) fn classify(&self, name: &str) -> Option<Listed> {
        match self.handled.get(name) {
            None => Some(Listed::New),
            Some(Handling::Done) => Some(Listed::Repeated),
            Some(Handling::UnderWay) => None,
        }
    }

    pub(super) fn is_handled(&self, name: &str) -> bool {
        self.handled.contains_key(name)
    }

    /// Notes that a request is carried out, or is being so.
    pub(super) fn note_done(&mut self, name: String) {
        self.handled.insert(name, Handling::Done);
    }

    /// Notes that an attempt begins.
    pub(super) fn note_begun(&mut self, id: &DispatchId) {
        self.handled.insert(id.request_name(), Handling::UnderWay);
    }

    /// Removes a request from the spool.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(handling) = self.handled.get_mut(name) {
            *handling = Handling::Done;
        }
        self.spool.drop_request(name);
    }

    /// Reads a request. One that cannot be read blocks no other: it is put aside.
    pub(super) fn read(&mut self, name: &str) -> Reading {
        let limit = self.limit;
        let read = match self.spool.request(name) {
            // no second attempt makes it whole
            Err(error @ StoreError::Damaged { .. }) => Err(error),
            read => self
                .unread
                .entry(name.to_owned())
                .or_insert_with(|| Patience::of(limit))
                .bear(read),
        };
        if !matches!(read, Ok(None)) {
            self.unread.remove(name);
        }
        match read {
            Ok(None) => Reading::Later,
            Ok(Some(request)) => Reading::Whole(Box::new(request)),
            Err(error) if is_missing(&error) => Reading::Gone,
            Err(error) => self.put_aside(name, &error),
        }
    }

    fn put_aside(&mut self, name: &str, error: &StoreError) -> Reading {
        let was_handled = self.is_handled(name);
        let note = match self.spool.put_request_aside(name) {
            Ok(to) => format!("a request cannot be read, and was put aside as {to}: {error}"),
            Err(refused) => {
                self.note_done(name.to_owned());
                format!("a request cannot be read ({error}), nor put aside: {refused}")
            }
        };
        let lost = DispatchId::from_request_name(name).filter(|_| !was_handled);
        Reading::Unreadable { note, lost }
    }

    /// Whether a later attempt at the same run is among these requests.
    pub(super) fn has_later(requests: &BTreeSet<String>, id: &DispatchId) -> bool {
        requests
            .iter()
            .filter_map(|name| DispatchId::from_request_name(name))
            .any(|other| other.run == id.run && other.dispatch > id.dispatch)
    }
}
