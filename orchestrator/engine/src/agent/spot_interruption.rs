//! Nodes that the cloud takes back: it says so in their metadata services, two minutes before.

use crate::{
    attempt::Nodes,
    crew::{Crew, CrewError},
};
use cvc_core::campaign::Market;
use cvc_probe::sentinel::Notice;
use std::{collections::BTreeSet, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};

/// Delay between questions, as the cloud recommends.
const TICK: Duration = Duration::from_secs(5);
/// Longer than a sentinel waits for the service.
const LIMIT: Duration = Duration::from_secs(10);
/// Instead of the usual address of the service: the name that all of the cloud's own programs know.
const SERVICE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

/// Where the metadata service is, if not where it always is.
pub(super) fn service() -> Option<String> {
    std::env::var(SERVICE).ok().filter(|s| !s.is_empty())
}

/// What was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The cloud takes this node back.
    Leaving(String, Notice),
    /// Its service does not answer: nothing will be heard before it goes.
    Deaf(String, String),
}

/// Asks all nodes again and again. Ends with whoever holds it.
#[derive(Debug)]
pub(super) struct Watch {
    heard: mpsc::UnboundedReceiver<Heard>,
    asking: JoinHandle<()>,
}

impl Watch {
    /// Of nodes that are of this market; `None` where the cloud takes nothing back.
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

    /// What was heard since the last time.
    pub fn next(&mut self) -> Option<Heard> {
        self.heard.try_recv().ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

async fn ask(crew: Crew, mut names: BTreeSet<String>, tell: mpsc::UnboundedSender<Heard>) {
    let service = service();
    let mut deaf: BTreeSet<String> = BTreeSet::new();
    while !names.is_empty() {
        let lost = crew.lost().borrow().clone();
        let asked: Vec<&str> = names.iter().map(String::as_str).filter(|n| !lost.contains_key(*n)).collect();
        for (node, answer) in crew.notices(&asked, service.as_deref(), LIMIT).await {
            let heard = match answer {
                Ok(None) => {
                    deaf.remove(&node);
                    continue;
                }
                Ok(Some(notice)) => {
                    names.remove(&node);
                    Heard::Leaving(node, notice)
                }
                // those who wait for nodes are told of it otherwise
                Err(CrewError::Lost { .. }) => continue,
                Err(error) if deaf.insert(node.clone()) => Heard::Deaf(node, error.to_string()),
                Err(_) => continue,
            };
            if tell.send(heard).is_err() {
                return;
            }
        }
        tokio::time::sleep(TICK).await;
    }
}
