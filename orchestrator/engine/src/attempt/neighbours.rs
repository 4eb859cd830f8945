//! Detects whether another campaign measured on the same machine during an attempt. That is recorded, but is not a failure of the run.

use cvc_os::measuring::Measuring;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// Interval between checks; a check takes microseconds.
const PAUSE: Duration = Duration::from_secs(2);
/// Name of the fact that is recorded with a run.
const FACT: &str = "beside";

/// Watches for other campaigns from the beginning of an attempt to its end.
pub(super) struct Neighbours {
    measuring: Option<Arc<Measuring>>,
    seen: Arc<AtomicBool>,
    watch: Option<JoinHandle<()>>,
}

impl Neighbours {
    /// Begins to watch, and makes this process visible to others.
    pub(super) fn watch() -> Self {
        let (measuring, seen) = (Measuring::begin(), Arc::new(AtomicBool::new(false)));
        let watch = measuring.clone().map(|measuring| {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                while !measuring.has_others() {
                    tokio::time::sleep(PAUSE).await;
                }
                seen.store(true, Ordering::Relaxed);
            })
        });
        Self {
            measuring,
            seen,
            watch,
        }
    }

    /// Records in the facts of a run whether another campaign measured.
    pub(super) fn note(&self, facts: &mut Value) {
        let now = self
            .measuring
            .as_ref()
            .is_some_and(|measuring| measuring.has_others());
        if let (true, Value::Object(facts)) = (now || self.seen.load(Ordering::Relaxed), facts) {
            facts.insert(FACT.to_owned(), json!("another campaign"));
        }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}
