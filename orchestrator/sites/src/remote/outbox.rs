//! Requests to an agent that are not yet confirmed to be in its spool. Each request is sent once per connection, until the relay confirms it. After a
//! reconnection, confirmed requests are not sent again.

use cvc_agent::{Named, Request};
use std::collections::{BTreeMap, HashMap};

/// Unconfirmed requests, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: BTreeMap<u64, Named>,
    numbers: HashMap<String, u64>,
    /// Number of the next request.
    next: u64,
    /// Number of the first request that was not sent over the current connection.
    unsent: u64,
}

impl Outbox {
    /// Adds a request, unless a request of the same name is waiting.
    pub(super) fn add(&mut self, name: String, request: Request) {
        if !self.numbers.contains_key(&name) {
            self.numbers.insert(name.clone(), self.next);
            self.waiting.insert(self.next, Named { name, request });
            self.next += 1;
        }
    }

    /// Removes a request that is in the spool, or is no longer needed.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(number) = self.numbers.remove(name) {
            self.waiting.remove(&number);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.numbers.is_empty()
    }

    /// Returns the next request to send, with its number; `None` if all were sent over the current connection.
    pub(super) fn unsent(&self) -> Option<(u64, &Named)> {
        self.waiting
            .range(self.unsent..)
            .next()
            .map(|(number, named)| (*number, named))
    }

    /// Records that the request of this number was sent.
    pub(super) fn sent(&mut self, number: u64) {
        self.unsent = self.unsent.max(number + 1);
    }

    /// Records that there is a new connection, over which no request was sent yet.
    pub(super) fn begin_anew(&mut self) {
        self.unsent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends all pending requests, and returns their names.
    fn send(outbox: &mut Outbox) -> Vec<String> {
        let mut sent = Vec::new();
        while let Some((number, named)) = outbox.unsent() {
            sent.push(named.name.clone());
            outbox.sent(number);
        }
        sent
    }

    #[test]
    fn after_a_reconnection_only_what_is_not_known_to_have_arrived_is_sent_again() {
        let mut outbox = Outbox::default();
        for number in 0..1000 {
            outbox.add(format!("r{number}"), Request::Close);
            outbox.add(format!("r{number}"), Request::Close);
        }
        assert_eq!(send(&mut outbox).len(), 1000);
        (0..998).for_each(|number| outbox.remove(&format!("r{number}")));
        outbox.add("later".into(), Request::Close);
        assert_eq!(send(&mut outbox), ["later"]);
        outbox.begin_anew();
        assert_eq!(send(&mut outbox), ["r998", "r999", "later"]);
        ["r998", "r999", "later"]
            .iter()
            .for_each(|name| outbox.remove(name));
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_is_removed_before_it_was_sent_is_not_sent() {
        let mut outbox = Outbox::default();
        outbox.add("a".into(), Request::Close);
        outbox.add("b".into(), Request::Close);
        outbox.remove("a");
        assert_eq!(send(&mut outbox), ["b"]);
    }
}
