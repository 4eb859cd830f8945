//! Watches an agent's nodes: which are lost, and which the cloud is about to reclaim. Also tries to reach lost nodes again.

use super::{
    head::Workplace,
    protocol::{Event, REHEARSED},
    spot_interruption::NodeNotice,
};
use camino::Utf8Path;
use cvc_engine::crew::Leaving;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tracing::Instrument;

/// Interval between attempts to reach lost nodes.
const REVIVE: Duration = Duration::from_secs(5);
/// Time limit of the last attempt, when the agent ends.
const REVIVE_LAST: Duration = Duration::from_secs(8);

/// An attempt to reach lost nodes again.
enum Revival {
    Running(JoinHandle<()>),
    /// No attempt is running; the time is the end of the previous one.
    Resting(Instant),
}

/// The nodes of an agent.
pub(super) struct NodeWatch {
    pub(super) workplace: Arc<dyn Workplace>,
    lost: BTreeSet<String>,
    /// Nodes that the cloud is about to reclaim.
    leaving: BTreeSet<String>,
    /// Nodes that a rehearsal will take away, with the times.
    rehearsed: Vec<(Instant, String)>,
    /// Nodes that a rehearsal should have taken away, but did not because the agent runs there.
    stayed: Vec<String>,
    revival: Revival,
}

impl NodeWatch {
    pub(super) fn new(workplace: Arc<dyn Workplace>) -> Self {
        Self {
            workplace,
            lost: BTreeSet::new(),
            leaving: BTreeSet::new(),
            rehearsed: Vec::new(),
            stayed: Vec::new(),
            revival: Revival::Resting(Instant::now()),
        }
    }

    /// Returns the events that report nodes lost or returned since the last call.
    pub(super) fn lost_and_back(&mut self) -> Vec<Event> {
        let now = self.workplace.lost().borrow().clone();
        let mut events = Vec::new();
        for (node, reason) in &now {
            if self.lost.insert(node.clone()) {
                let (node, reason) = (node.clone(), reason.clone());
                events.push(Event::NodeLost { node, reason });
            }
        }
        // while an attempt is running, files on returned nodes are still being removed
        if matches!(self.revival, Revival::Resting(_)) {
            let back: Vec<String> = self
                .lost
                .extract_if(.., |node| !now.contains_key(node))
                .collect();
            for node in back.into_iter().chain(self.stayed.drain(..)) {
                // the node answers again, so it was not reclaimed
                self.leaving.remove(&node);
                self.workplace.forget_notice(&node);
                events.push(Event::NodeBack { node });
            }
        }
        events
    }

    /// Announces that a node will be reclaimed after this time. Returns the event that reports it. `takes` says whether the agent then takes the node
    /// away.
    pub(super) fn rehearse(&mut self, node: &str, notice: Duration, takes: bool) -> Event {
        let now = jiff::Timestamp::now();
        let at = jiff::SignedDuration::try_from(notice)
            .ok()
            .and_then(|notice| now.checked_add(notice).ok());
        self.leaving.insert(node.to_owned());
        let why = "it is taken (rehearsed)".to_owned();
        self.workplace.announce(node, Leaving { at, why });
        if takes {
            self.rehearsed
                .push((Instant::now() + notice, node.to_owned()));
        }
        Event::NodeLeaving {
            node: node.to_owned(),
            leaves_at: at,
            action: REHEARSED.to_owned(),
        }
    }

    /// Takes away the nodes whose rehearsed notice has expired, or on which no attempt runs any more. `used` are the nodes of running attempts.
    pub(super) fn take_rehearsed(&mut self, used: &BTreeSet<&String>) {
        let now = Instant::now();
        let head = self.workplace.head().to_owned();
        let is_idle = |node: &String| match *node == head {
            true => used.is_empty(),
            false => !used.contains(node),
        };
        let due: Vec<String> = self
            .rehearsed
            .extract_if(.., |(at, node)| *at <= now || is_idle(node))
            .map(|(_, node)| node)
            .collect();
        for node in due {
            if node == head {
                self.stayed.push(node);
            } else {
                self.workplace.take(&node);
            }
        }
    }

    /// Returns the events that report the cloud's notices since the last call.
    pub(super) fn cloud_notices(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(notice) = self.workplace.notice() {
            events.push(match notice {
                NodeNotice::Leaving(node, notice) => {
                    self.leaving.insert(node.clone());
                    let at = notice.time.parse().ok();
                    let why = format!("the cloud reclaims it ({})", notice.action);
                    self.workplace.announce(&node, Leaving { at, why });
                    Event::NodeLeaving {
                        node,
                        leaves_at: at,
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

    /// Returns the reason why an attempt on these nodes cannot begin; `None` if it can.
    pub(super) fn obstacle(&self, nodes: &[String]) -> Option<String> {
        let all = self.workplace.nodes();
        if let Some(node) = nodes.iter().find(|n| self.lost.contains(*n)) {
            return Some(format!("{node} was lost before it began"));
        }
        // an earlier controller chose the node, and the site has different nodes now
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

    /// Tries at intervals to reach lost nodes, except the nodes in use, whose attempts are about to fail.
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

    /// Tries a last time, before the agent ends, to reach lost nodes, and removes files on them.
    async fn last_revival(&mut self) {
        let workplace = Arc::clone(&self.workplace);
        let revival = std::mem::replace(&mut self.revival, Revival::Resting(Instant::now()));
        let last = async move {
            if let Revival::Running(task) = revival {
                // a failed attempt returns nothing
                let _ = task.await;
            }
            let lost: Vec<String> = workplace.lost().borrow().keys().cloned().collect();
            let mut last = JoinSet::new();
            // one task for each, so that a node that does not answer delays no other
            for node in lost {
                let workplace = Arc::clone(&workplace);
                last.spawn(
                    async move { workplace.bring_back([node].into()).await }.in_current_span(),
                );
            }
            while last.join_next().await.is_some() {}
        };
        // a node that has not answered by then is off
        let _ = tokio::time::timeout(REVIVE_LAST, last).await;
    }

    /// Releases all nodes, and returns messages about files that remain on them. `spool` is the agent's directory.
    pub(super) async fn close(&mut self, spool: &Utf8Path) -> Vec<String> {
        self.last_revival().await;
        let mut notes = self.workplace.clear().await;
        notes.extend(self.workplace.lost().borrow().keys().map(|node| {
            format!("{node} is lost: files of runs in {spool} and /tmp/cvc-* there are not removed")
        }));
        self.workplace.close().await;
        notes
    }
}
