//! Active attempts, and the resources that they hold on each site.

use cvc_core::ids::RunId;
use cvc_engine::attempt::Task;
use std::collections::{BTreeSet, HashMap};

/// The active attempts.
#[derive(Default)]
pub(super) struct UnderWay {
    tasks: HashMap<RunId, Task>,
    held: HashMap<String, Held>,
}

/// The resources that the active attempts on a site hold.
#[derive(Default)]
struct Held {
    attempts: usize,
    /// Number of nodes that the mappings of the attempts need.
    mapped: u32,
    nodes: BTreeSet<String>,
    /// For each node, how many further attempts hold it. Only runs of an earlier controller can share a node.
    again: HashMap<String, u32>,
}

impl UnderWay {
    pub(super) fn add(&mut self, task: Task) {
        let held = self.held.entry(task.point.site.clone()).or_default();
        held.attempts += 1;
        held.mapped = held.mapped.saturating_add(task.point.mapping.nodes());
        for node in &task.nodes {
            if !held.nodes.insert(node.clone()) {
                *held.again.entry(node.clone()).or_default() += 1;
            }
        }
        self.tasks.insert(task.planned.id.clone(), task);
    }

    /// Removes an attempt that has ended; `None` if it was not under way.
    pub(super) fn remove(&mut self, run: &RunId) -> Option<Task> {
        let task = self.tasks.remove(run)?;
        if let Some(held) = self.held.get_mut(&task.point.site) {
            held.attempts = held.attempts.saturating_sub(1);
            held.mapped = held.mapped.saturating_sub(task.point.mapping.nodes());
            for node in &task.nodes {
                match held.again.get_mut(node) {
                    Some(further) if *further > 1 => *further -= 1,
                    Some(_) => drop(held.again.remove(node)),
                    None => drop(held.nodes.remove(node)),
                }
            }
        }
        Some(task)
    }

    pub(super) fn tasks(&self) -> &HashMap<RunId, Task> {
        &self.tasks
    }

    pub(super) fn has(&self, run: &RunId) -> bool {
        self.tasks.contains_key(run)
    }

    /// Returns the sites with active attempts.
    pub(super) fn sites(&self) -> impl Iterator<Item = &str> {
        let busy = self.held.iter().filter(|(_, held)| held.attempts > 0);
        busy.map(|(site, _)| site.as_str())
    }

    /// Returns the number of nodes that the mappings of the attempts on a site need.
    pub(super) fn mapped_nodes(&self, site: &str) -> u32 {
        self.held.get(site).map_or(0, |held| held.mapped)
    }

    /// Returns the nodes of a site that are in use.
    pub(super) fn nodes(&self, site: &str) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.held.get(site).map_or(&NONE, |held| &held.nodes)
    }
}
