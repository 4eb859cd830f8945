//! One query for all concurrent callers, so that a site with many jobs queries Slurm no more often than a site with a few.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Minimum time between a query and the next one, for each name in the first query.
const FOR_EACH_NAME: Duration = Duration::from_millis(100);
/// Upper limit of the minimum time between two queries.
const LONGEST: Duration = Duration::from_secs(5);

/// Merges concurrent queries with this type of answer.
pub(super) struct SharedClient<A> {
    waiting: parking_lot::Mutex<Vec<Waiting<A>>>,
    /// Held by the caller that queries. Contains the time of the last query and the number of its names.
    turn: tokio::sync::Mutex<Option<(Instant, usize)>>,
}

struct Waiting<A> {
    names: Vec<String>,
    answer: oneshot::Sender<Arc<A>>,
}

impl<A> Default for SharedClient<A> {
    fn default() -> Self {
        Self {
            waiting: parking_lot::Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

/// Returns the time that must pass after a query with this number of names.
fn pause(names: usize) -> Duration {
    let further = u32::try_from(names.saturating_sub(1)).unwrap_or(u32::MAX);
    FOR_EACH_NAME.saturating_mul(further).min(LONGEST)
}

impl<A> SharedClient<A> {
    /// Queries these names together with the names of all other waiting callers. The answer is never older than the call. If the caller that runs the
    /// query fails or is cancelled, another caller runs it.
    ///
    /// # Errors
    /// The errors of `ask`.
    pub(super) async fn ask<E, F>(
        &self,
        names: &[&str],
        ask: impl Fn(Vec<String>) -> F,
    ) -> Result<Arc<A>, E>
    where
        F: Future<Output = Result<A, E>>,
    {
        loop {
            let (to, answer) = oneshot::channel();
            self.waiting.lock().push(Waiting {
                names: names.iter().map(|n| (*n).to_owned()).collect(),
                answer: to,
            });
            tokio::select! {
                biased;
                answered = answer => {
                    if let Ok(answer) = answered {
                        return Ok(answer);
                    }
                }
                mut last = self.turn.lock() => {
                    if let Some((at, count)) = *last {
                        tokio::time::sleep(pause(count).saturating_sub(at.elapsed())).await;
                    }
                    // if this caller fails, the list and its senders are dropped, and another caller queries
                    let waiting = std::mem::take(&mut *self.waiting.lock());
                    let all: BTreeSet<String> = waiting.iter().flat_map(|w| &w.names).cloned().collect();
                    *last = Some((Instant::now(), all.len()));
                    let answer = Arc::new(ask(all.into_iter().collect()).await?);
                    for waiting in waiting {
                        // ignore errors: a waiting caller may have been cancelled
                        let _ = waiting.answer.send(Arc::clone(&answer));
                    }
                    return Ok(answer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::JoinSet;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(work)
    }

    #[test]
    fn all_who_ask_at_the_same_time_get_one_answer() {
        let (shared, asked) = (
            Arc::new(SharedClient::<Vec<String>>::default()),
            Arc::new(AtomicUsize::new(0)),
        );
        block_on(async {
            let mut askers = JoinSet::new();
            for number in 0..500 {
                let (shared, asked) = (Arc::clone(&shared), Arc::clone(&asked));
                askers.spawn(async move {
                    let name = format!("j{number}");
                    let asked = &asked;
                    let ask = |names: Vec<String>| async move {
                        asked.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        Ok::<_, ()>(names)
                    };
                    assert!(
                        shared
                            .ask(&[&name], ask)
                            .await
                            .expect("an answer")
                            .contains(&name)
                    );
                });
            }
            while askers
                .join_next()
                .await
                .transpose()
                .expect("no panic")
                .is_some()
            {}
        });
        assert!(asked.load(Ordering::Relaxed) <= 2, "{asked:?} questions");
    }

    #[test]
    fn a_failure_concerns_only_who_asked() {
        let shared = SharedClient::<usize>::default();
        let fails = AtomicUsize::new(1);
        block_on(async {
            let ask = |names: Vec<String>| {
                let fails = &fails;
                async move {
                    tokio::task::yield_now().await;
                    let failure = fails
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                    if failure.is_ok() {
                        Err("no answer")
                    } else {
                        Ok(names.len())
                    }
                }
            };
            let (first, second) = tokio::join!(shared.ask(&["a"], ask), shared.ask(&["b"], ask));
            assert_eq!(
                (first.err(), second.map(|n| *n)),
                (Some("no answer"), Ok(1))
            );
        });
    }

    #[test]
    fn one_job_is_asked_for_at_once_and_many_more_rarely() {
        assert_eq!(
            [0, 1, 2, 11, 1000].map(|names| pause(names).as_millis()),
            [0, 0, 100, 1000, 5000]
        );
    }
}
