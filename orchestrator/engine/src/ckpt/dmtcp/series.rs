//! A series of checkpoints: what differs between them, measured before the next one overwrites them.

use super::{deltas::Deltas, dmtcp_run::DmtcpRun, images::lost};
use crate::ckpt::moments::no_checkpoint;
use crate::crew::CrewError;
use crate::{
    ckpt::series::{self, Measured},
    crew,
    run::{Findings, LATER, RunFailure, SOON},
};
use cvc_probe::sentinel::SeriesState;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Mutex;

/// Nothing yet of a checkpoint after so many others.
fn nothing(at_s: f64, earlier: usize) -> Measured {
    Measured {
        number: earlier as u64 + 1,
        at_s,
        bytes: 0,
        changed: vec![0; earlier],
        parts: BTreeMap::new(),
        hash_s: 0.0,
    }
}

/// Adds what was measured of the images of a node.
fn put(all: &mut Measured, node: &SeriesState) {
    all.bytes += node.bytes;
    for (sum, own) in all.changed.iter_mut().zip(&node.changed) {
        *sum += own;
    }
    if let Some(previous) = all.changed.len().checked_sub(1) {
        let since_first = (previous > 0).then_some((0, &node.since_first));
        for (since, parts) in since_first
            .into_iter()
            .chain([(previous, &node.since_previous)])
        {
            let sums = all.parts.entry(since).or_default();
            for (part, bytes) in parts {
                *sums.entry(*part).or_default() += bytes;
            }
        }
    }
    // nodes read side by side
    all.hash_s = all.hash_s.max(node.hash_s);
}

/// Why a checkpoint was not compared. A node that reads it for too long is alive.
fn not_compared(number: usize, error: CrewError) -> RunFailure {
    let what = format!("what changed until checkpoint {number} cannot be told");
    if let CrewError::Timeout { host, limit_s, .. } = &error {
        return no_checkpoint(format!(
            "{what}: {host} has read and hashed its images for {limit_s} s, and was not ready: choose a faster storage area, a smaller workload or more \
             nodes, or write `compare = false` in the moment"
        ));
    }
    let mut failure = lost(error);
    failure.detail = format!("{what}: {}", failure.detail);
    failure
}

/// The checkpoints of a run that were measured. Their hashes are where their images lie: with the sentinels of the nodes.
#[derive(Debug, Default)]
pub(super) struct Series {
    measured: Vec<Measured>,
    /// The checkpoints themselves, as deltas, if they are stored. What is done with them goes on, and has them, when whoever waits for it does not any
    /// more.
    pub deltas: Option<Arc<Mutex<Deltas>>>,
}

impl Series {
    /// A series of which no checkpoint was taken yet.
    pub fn new(deltas: Option<Deltas>) -> Self {
        Self {
            deltas: deltas.map(|deltas| Arc::new(Mutex::new(deltas))),
            ..Self::default()
        }
    }

    /// Measures the checkpoint that lies in the run's directories of images, which was asked for at `at_s` seconds of computation: on all nodes
    /// that have images of their own, side by side.
    ///
    /// # Errors
    /// When its images cannot be read.
    pub async fn add(&mut self, of: &DmtcpRun<'_>, at_s: f64) -> Result<(), RunFailure> {
        let number = self.measured.len() + 1;
        let used = &of.run.used;
        let dir = of.layout.ckptdir.as_std_path();
        let ckpt = u32::try_from(number).unwrap_or(u32::MAX);
        let answers = used
            .crew
            .series(&used.places(), &used.marker, dir, ckpt, LATER)
            .await;
        let states = crew::whole(answers).map_err(|error| not_compared(number, error))?;
        let mut measured = nothing(at_s, number - 1);
        for (_, state) in &states {
            put(&mut measured, state);
        }
        self.measured.push(measured);
        Ok(())
    }

    /// Lets sentinels forget the hashes of the checkpoints. One that does not answer has nothing to forget.
    pub async fn forget(&self, of: &DmtcpRun<'_>) {
        let used = &of.run.used;
        let _ = used
            .crew
            .series_end(&used.places(), &used.marker, SOON)
            .await;
    }

    /// Records what was measured of a series of so many planned checkpoints, and what each method would store of it.
    pub fn record(&self, planned: u32, to: &mut Findings) {
        series::record(&self.measured, planned.into(), to);
        // nothing is done with them once the session has finished
        if let Some(deltas) = self
            .deltas
            .as_ref()
            .and_then(|deltas| deltas.try_lock().ok())
            && !self.measured.is_empty()
        {
            deltas.record(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::outcome::Cause;
    use cvc_image::Part;

    #[test]
    fn a_node_that_hashes_too_long_is_not_lost() {
        let timeout = CrewError::Timeout {
            host: "n2".into(),
            request: "series",
            limit_s: 1800.0,
        };
        let failure = not_compared(3, timeout);
        assert_eq!(failure.cause, Cause::Checkpoint);
        for part in ["checkpoint 3", "n2", "1800 s", "`compare = false`"] {
            assert!(failure.detail.contains(part), "{}", failure.detail);
        }
        let gone = CrewError::Lost {
            host: "n2".into(),
            reason: "silent".into(),
        };
        assert_eq!(not_compared(3, gone).cause, Cause::NodeLost);
    }

    #[test]
    fn what_several_nodes_have_measured_is_added_and_their_times_are_not() {
        let node = |bytes, since_first, since_previous, hash_s| SeriesState {
            bytes,
            changed: vec![since_first, since_previous],
            since_first: [(Part::Heap, since_first)].into(),
            since_previous: [(Part::Heap, since_previous), (Part::Files, 1)].into(),
            hash_s,
        };
        let mut all = nothing(1.0, 2);
        put(&mut all, &node(100, 30, 20, 0.5));
        put(&mut all, &node(200, 50, 10, 0.25));
        assert_eq!((all.bytes, all.changed.as_slice()), (300, &[80, 30][..]));
        assert_eq!(all.parts[&0], [(Part::Heap, 80)].into());
        assert_eq!(all.parts[&1], [(Part::Heap, 30), (Part::Files, 2)].into());
        assert_eq!(all.hash_s, 0.5);
    }
}
