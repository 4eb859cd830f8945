//! The requests in a spool, and their state of handling.

use super::{
    error_tolerance::{ErrorTolerance, is_missing},
    protocol::{DispatchId, Request},
    spool::Spool,
};
use cvc_core::store::StoreError;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// State of handling of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handling {
    /// The request's attempt is running. The request stays in the spool, so that a later agent reads it.
    UnderWay,
    /// The request was carried out. Another request of the same name is a repetition.
    Done,
}

/// The requests in a spool.
pub(super) struct Inbox {
    pub(super) spool: Spool,
    handled: HashMap<String, Handling>,
    /// Time during which reading an unreadable file is retried.
    limit: Duration,
    listing: ErrorTolerance,
    /// Requests that could not be read yet.
    unread: HashMap<String, ErrorTolerance>,
}

/// The result of reading a request.
pub(super) enum InboxReading {
    Whole(Box<Request>),
    /// The request cannot be read at the moment.
    Later,
    /// The request no longer exists.
    Gone,
    /// The request can never be read, and was moved to another directory.
    Unreadable {
        note: String,
        /// The dispatch of the attempt that was requested, if the attempt has not begun.
        lost: Option<DispatchId>,
    },
}

/// A listed request that needs attention.
pub(super) enum Listed {
    /// The request was not handled before.
    New,
    /// The request was carried out, and is requested again: the report of its end may have been damaged.
    Repeated,
}

impl Inbox {
    pub(super) fn new(spool: Spool, limit: Duration) -> Self {
        Self {
            spool,
            handled: HashMap::new(),
            limit,
            listing: ErrorTolerance::of(limit),
            unread: HashMap::new(),
        }
    }

    /// Lists the requests that need attention; `None` while they cannot be listed.
    pub(super) fn list(&mut self) -> Result<Option<BTreeSet<String>>, StoreError> {
        self.listing.tolerate(self.spool.names())
    }

    /// Classifies a listed request; `None` if its attempt is running.
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

    /// Records that a request is being or has been carried out.
    pub(super) fn note_done(&mut self, name: String) {
        self.handled.insert(name, Handling::Done);
    }

    /// Records that an attempt begins.
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

    /// Reads a request. A permanently unreadable request is moved to another directory, so that it does not block others.
    pub(super) fn read(&mut self, name: &str) -> InboxReading {
        let limit = self.limit;
        let read = match self.spool.request(name) {
            // reading again would not help
            Err(error @ StoreError::Damaged { .. }) => Err(error),
            read => self
                .unread
                .entry(name.to_owned())
                .or_insert_with(|| ErrorTolerance::of(limit))
                .tolerate(read),
        };
        if !matches!(read, Ok(None)) {
            self.unread.remove(name);
        }
        match read {
            Ok(None) => InboxReading::Later,
            Ok(Some(request)) => InboxReading::Whole(Box::new(request)),
            Err(error) if is_missing(&error) => InboxReading::Gone,
            Err(error) => self.put_aside(name, &error),
        }
    }

    fn put_aside(&mut self, name: &str, error: &StoreError) -> InboxReading {
        let was_handled = self.is_handled(name);
        let note = match self.spool.put_request_aside(name) {
            Ok(to) => format!("a request cannot be read, and was moved to {to}: {error}"),
            Err(refused) => {
                self.note_done(name.to_owned());
                format!("a request can neither be read ({error}) nor moved: {refused}")
            }
        };
        let lost = DispatchId::from_request_name(name).filter(|_| !was_handled);
        InboxReading::Unreadable { note, lost }
    }

    /// Returns whether these requests include a later dispatch of the same run.
    pub(super) fn has_later(requests: &BTreeSet<String>, id: &DispatchId) -> bool {
        requests
            .iter()
            .filter_map(|name| DispatchId::from_request_name(name))
            .any(|other| other.run == id.run && other.dispatch > id.dispatch)
    }
}
