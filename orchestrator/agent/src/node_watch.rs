//! The nodes of an agent: which are lost, which the cloud is about to reclaim, and attempts to reach lost ones again.

use super::{head::Workplace, protocol::Event, spot_interruption::NodeNotice};
use camino::Utf8Path;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tracing::Instrument;

/// Delay between attempts to reach lost nodes again.
const REVIVE: Duration = Duration::from_secs(5);
/// Time limit of the last of them.
const REVIVE_LAST: Duration = Duration::from_secs(8);

/// An attempt to reach lost nodes again.
enum Revival {
    Running(JoinHandle<()>),
    /// The last one ended then.
    Resting(Instant),
}

/// The nodes of an agent.
pub(super) struct NodeWatch {
    pub(super) workplace: Arc<dyn Workplace>,
    lost: BTreeSet<String>,
    /// Nodes that the cloud is about to reclaim.
    leaving: BTreeSet<String>,
    revival: Revival,
}

impl NodeWatch {
    pub(super) fn new(workplace: Arc<dyn Workplace>) -> Self {
        Self {
            workplace,
            lost: BTreeSet::new(),
            leaving: BTreeSet::new(),
            revival: Revival::Resting(Instant::now()),
        }
    }

    /// Returns the events that report lost and returned nodes since the last call.
    pub(super) fn lost_and_back(&mut self) -> Vec<Event> {
        let now = self.workplace.lost().borrow().clone();
        let mut events = Vec::new();
        for (node, reason) in &now {
            if self.lost.insert(node.clone()) {
                let (node, reason) = (node.clone(), reason.clone());
                events.push(Event::NodeLost { node, reason });
            }
        }
        // leftovers on returned nodes are still being removed
        if matches!(self.revival, Revival::Resting(_)) {
            let back = self.lost.extract_if(.., |node| !now.contains_key(node));
            events.extend(back.map(|node| Event::NodeBack { node }));
        }
        events
    }

    /// Returns the events that report the cloud's notices since the last call.
    pub(super) fn cloud_notices(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(notice) = self.workplace.notice() {
            events.push(match notice {
                NodeNotice::Leaving(node, notice) => {
                    self.leaving.insert(node.clone());
                    Event::NodeLeaving {
                        node,
                        leaves_at: notice.time.parse().ok(),
                        action: notice.action,
                    }
                }
                NodeNotice::Silent(node, why) => Event::Note {
                    what: format!("spot interruptions of {node} cannot be seen in advance: {why}"),
                },
            });
        }
        events
    }

    /// Returns the reason why an attempt on these nodes cannot begin, if there is one.
    pub(super) fn obstacle(&self, nodes: &[String]) -> Option<String> {
        let all = self.workplace.nodes();
        if let Some(node) = nodes.iter().find(|n| self.lost.contains(*n)) {
            return Some(format!("{node} was lost before it began"));
        }
        // an earlier controller chose it, and the site has other nodes now
        if let Some(node) = nodes.iter().find(|n| !all.contains(n)) {
            return Some(format!("its node {node} no longer exists"));
        }
        nodes
            .iter()
            .map(String::as_str)
            .chain([self.workplace.head()])
            .find(|n| self.leaving.contains(*n))
            .map(|node| format!("the cloud is reclaiming {node}, and the run had not begun"))
    }

    /// Tries now and then to reach lost nodes, except those in use, whose attempts are about to fail.
    pub(super) fn revive(&mut self, used: &BTreeSet<&String>) {
        if let Revival::Running(task) = &self.revival
            && task.is_finished()
        {
            self.revival = Revival::Resting(Instant::now());
        }
        let Revival::Resting(since) = self.revival else {
            return;
        };
        let wanted: BTreeSet<String> = self
            .lost
            .iter()
            .filter(|n| !used.contains(n))
            .cloned()
            .collect();
        if wanted.is_empty() || since.elapsed() < REVIVE {
            return;
        }
        let workplace = Arc::clone(&self.workplace);
        self.revival = Revival::Running(tokio::spawn(
            async move { workplace.bring_back(wanted).await }.in_current_span(),
        ));
    }

    /// Removes, before the end, leftovers on nodes that are back or nearly so.
    async fn last_revival(&mut self) {
        let workplace = Arc::clone(&self.workplace);
        let revival = std::mem::replace(&mut self.revival, Revival::Resting(Instant::now()));
        let last = async move {
            if let Revival::Running(task) = revival {
                // a failed attempt to reconnect has no result
                let _ = task.await;
            }
            let lost: Vec<String> = workplace.lost().borrow().keys().cloned().collect();
            let mut last = JoinSet::new();
            // each by itself: a node that hangs delays no other
            for node in lost {
                let workplace = Arc::clone(&workplace);
                last.spawn(
                    async move { workplace.bring_back([node].into()).await }.in_current_span(),
                );
            }
            while last.join_next().await.is_some() {}
        };
        // a node that does not even answer by then is off
        let _ = tokio::time::timeout(REVIVE_LAST, last).await;
    }

    /// Lets all nodes go, and returns notes on what stays there. `spool` is the directory of the agent.
    pub(super) async fn close(&mut self, spool: &Utf8Path) -> Vec<String> {
        self.last_revival().await;
        let mut notes = self.workplace.clear().await;
        notes.extend(self.workplace.lost().borrow().keys().map(|node| {
            format!("{node} is lost: what runs left there in {spool} and /tmp/cvc-* is not removed")
        }));
        self.workplace.close().await;
        notes
    }
}
