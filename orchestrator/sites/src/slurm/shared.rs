//! One question for all who ask at the same time: a site with many jobs asks Slurm no more often than one with a few.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Time between questions for each further name in the last one.
const FOR_EACH_NAME: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST: Duration = Duration::from_secs(5);

/// Those who wait for an answer of this kind.
pub(super) struct Shared<A> {
    waiting: parking_lot::Mutex<Vec<Waiting<A>>>,
    /// Held by who asks. The last question, and the number of its names.
    turn: tokio::sync::Mutex<Option<(Instant, usize)>>,
}

struct Waiting<A> {
    names: Vec<String>,
    answer: oneshot::Sender<Arc<A>>,
}

impl<A> Default for Shared<A> {
    fn default() -> Self {
        Self {
            waiting: parking_lot::Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

/// Time that must pass after a question with so many names.
fn pause(names: usize) -> Duration {
    let further = u32::try_from(names.saturating_sub(1)).unwrap_or(u32::MAX);
    FOR_EACH_NAME.saturating_mul(further).min(LONGEST)
}

impl<A> Shared<A> {
    /// Asks for these names together with all who wait by then. The answer is never older than the call. If who asks fails or is
    /// cancelled, another one asks.
    ///
    /// # Errors
    /// Those of `ask`.
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
                    // dropped with everyone's sender if it fails
                    let waiting = std::mem::take(&mut *self.waiting.lock());
                    let all: BTreeSet<String> = waiting.iter().flat_map(|w| &w.names).cloned().collect();
                    *last = Some((Instant::now(), all.len()));
                    let answer = Arc::new(ask(all.into_iter().collect()).await?);
                    for waiting in waiting {
                        // it may have been cancelled
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
            Arc::new(Shared::<Vec<String>>::default()),
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
        let shared = Shared::<usize>::default();
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
