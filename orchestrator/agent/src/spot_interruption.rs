//! Watches for nodes that the cloud is about to reclaim. The nodes' metadata services announce that two minutes in advance.

use cvc_core::campaign::Market;
use cvc_engine::{
    attempt::Nodes,
    crew::{Crew, CrewError},
};
use cvc_probe::sentinel::MetadataNotice;
use std::{collections::BTreeSet, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};

/// Interval between queries, as recommended by the cloud.
const TICK: Duration = Duration::from_secs(5);
/// Time limit of a query: longer than a sentinel waits for the metadata service.
const LIMIT: Duration = Duration::from_secs(10);
/// Environment variable with the address of the metadata service, which the cloud's own programs use as well.
const SERVICE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

/// Returns the address of the metadata service; `None` for the usual address.
pub(super) fn service() -> Option<String> {
    std::env::var(SERVICE).ok().filter(|s| !s.is_empty())
}

/// An observation about a node.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeNotice {
    /// The cloud will reclaim this node.
    Leaving(String, MetadataNotice),
    /// The metadata service of this node does not answer, for this reason: there will be no notice.
    Silent(String, String),
}

/// Queries all nodes at intervals, until it is dropped.
#[derive(Debug)]
pub(super) struct SpotWatch {
    notices: mpsc::UnboundedReceiver<NodeNotice>,
    asking: JoinHandle<()>,
}

impl SpotWatch {
    /// Starts to watch nodes of this market; `None` if the cloud never reclaims nodes of it.
    pub fn begin(nodes: &Nodes, market: Market) -> Option<Self> {
        match market {
            Market::OnDemand => return None,
            Market::Spot | Market::SpotThenOnDemand => {}
        }
        let (sender, notices) = mpsc::unbounded_channel();
        let mut names: BTreeSet<String> = nodes.all.iter().map(|n| n.name.clone()).collect();
        names.insert(nodes.head.name.clone());
        let asking = tokio::spawn(ask(nodes.crew.clone(), names, sender));
        Some(Self { notices, asking })
    }

    /// Returns the next observation; `None` if there is none.
    pub fn next(&mut self) -> Option<NodeNotice> {
        self.notices.try_recv().ok()
    }
}

impl Drop for SpotWatch {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

async fn ask(crew: Crew, mut names: BTreeSet<String>, sender: mpsc::UnboundedSender<NodeNotice>) {
    let service = service();
    let mut deaf: BTreeSet<String> = BTreeSet::new();
    while !names.is_empty() {
        let lost = crew.lost().borrow().clone();
        let asked: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|n| !lost.contains_key(*n))
            .collect();
        for (node, answer) in crew.notices(&asked, service.as_deref(), LIMIT).await {
            let notice = match answer {
                Ok(None) => {
                    deaf.remove(&node);
                    continue;
                }
                Ok(Some(notice)) => {
                    names.remove(&node);
                    NodeNotice::Leaving(node, notice)
                }
                // other code detects lost nodes
                Err(CrewError::Lost { .. }) => continue,
                Err(error) if deaf.insert(node.clone()) => {
                    NodeNotice::Silent(node, error.to_string())
                }
                Err(_) => continue,
            };
            if sender.send(notice).is_err() {
                return;
            }
        }
        tokio::time::sleep(TICK).await;
    }
}
