//! Watches for nodes that the cloud is about to reclaim, which their metadata services announce two minutes before.

use cvc_core::campaign::Market;
use cvc_engine::{
    attempt::Nodes,
    crew::{Crew, CrewError},
};
use cvc_probe::sentinel::Notice;
use std::{collections::BTreeSet, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};

/// Delay between queries, as the cloud recommends.
const TICK: Duration = Duration::from_secs(5);
/// Longer than a sentinel waits for the service.
const LIMIT: Duration = Duration::from_secs(10);
/// Variable with the address of the service, which all of the cloud's own programs know.
const SERVICE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

/// Address of the metadata service, if it is not the usual one.
pub(super) fn service() -> Option<String> {
    std::env::var(SERVICE).ok().filter(|s| !s.is_empty())
}

/// An observation about a node.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeNotice {
    /// The cloud takes this node back.
    Leaving(String, Notice),
    /// Its service does not answer: there will be no notice.
    Silent(String, String),
}

/// Queries all nodes repeatedly. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    heard: mpsc::UnboundedReceiver<NodeNotice>,
    asking: JoinHandle<()>,
}

impl Watch {
    /// Starts to watch nodes of this market; `None` if the cloud does not reclaim them.
    pub fn begin(nodes: &Nodes, market: Market) -> Option<Self> {
        match market {
            Market::OnDemand => return None,
            Market::Spot | Market::SpotThenOnDemand => {}
        }
        let (tell, heard) = mpsc::unbounded_channel();
        let mut names: BTreeSet<String> = nodes.all.iter().map(|n| n.name.clone()).collect();
        names.insert(nodes.head.name.clone());
        let asking = tokio::spawn(ask(nodes.crew.clone(), names, tell));
        Some(Self { heard, asking })
    }

    /// The observations since the last call.
    pub fn next(&mut self) -> Option<NodeNotice> {
        self.heard.try_recv().ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

async fn ask(crew: Crew, mut names: BTreeSet<String>, tell: mpsc::UnboundedSender<NodeNotice>) {
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
            let heard = match answer {
                Ok(None) => {
                    deaf.remove(&node);
                    continue;
                }
                Ok(Some(notice)) => {
                    names.remove(&node);
                    NodeNotice::Leaving(node, notice)
                }
                // those who wait for nodes learn of it otherwise
                Err(CrewError::Lost { .. }) => continue,
                Err(error) if deaf.insert(node.clone()) => {
                    NodeNotice::Silent(node, error.to_string())
                }
                Err(_) => continue,
            };
            if tell.send(heard).is_err() {
                return;
            }
        }
        tokio::time::sleep(TICK).await;
    }
}
