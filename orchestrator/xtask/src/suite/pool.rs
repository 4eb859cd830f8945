//! Runs jobs in parallel: one per processor, and more as long as the machine has capacity to spare.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Maximum number of jobs per processor.
const WIDEST: usize = 4;

/// Interval between two measurements of the load.
const LOOK: Duration = Duration::from_millis(100);

/// Number of jobs that run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Number of jobs that run in parallel under any load.
    pub least: usize,
    /// Maximum number of jobs that run in parallel.
    pub most: usize,
}

impl Width {
    /// Returns a fixed number of jobs, or limits for this machine.
    pub fn new(fixed: Option<usize>) -> Self {
        let processors = thread::available_parallelism().map_or(2, std::num::NonZero::get);
        match fixed {
            Some(count) => Self {
                least: count,
                most: count,
            },
            None => Self {
                least: processors,
                most: processors * WIDEST,
            },
        }
    }
}

/// Runs all jobs; they start in the given order. `spare` returns whether the machine has capacity for more than the minimum number of jobs. `ended`
/// receives each result and returns whether further jobs start. Returns the maximum number of jobs that ran at the same time.
pub fn run<J: Send + 'static, R: Send + 'static>(
    jobs: Vec<J>,
    width: Width,
    mut spare: impl FnMut() -> bool,
    work: impl Fn(&J) -> R + Send + Sync + Clone + 'static,
    mut ended: impl FnMut(R) -> bool,
) -> Result<usize, String> {
    let mut waiting: VecDeque<J> = jobs.into();
    let (sender, results) = mpsc::channel();
    let (mut running, mut most, mut goes_on) = (0, 0, true);
    loop {
        while goes_on
            && running < width.most
            && !waiting.is_empty()
            && (running < width.least || spare())
        {
            let Some(job) = waiting.pop_front() else {
                break;
            };
            let (sender, work) = (sender.clone(), work.clone());
            thread::spawn(move || sender.send(catch_unwind(AssertUnwindSafe(|| work(&job)))));
            running += 1;
            most = most.max(running);
        }
        if running == 0 {
            return Ok(most);
        }
        match results.recv_timeout(LOOK) {
            Ok(Ok(result)) => {
                running -= 1;
                goes_on &= ended(result);
            }
            Ok(Err(_)) => return Err("internal error (please report): a job panicked".into()),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    #[test]
    fn every_job_runs_once_and_the_width_is_never_exceeded() {
        let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, highest) = (Arc::clone(&now), Arc::clone(&peak));
        let work = move |job: &usize| {
            highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(5));
            counted.fetch_sub(1, Ordering::SeqCst);
            *job
        };
        let mut done = Vec::new();
        let ended = |job| {
            done.push(job);
            true
        };
        let most = run((0..40).collect(), Width::new(Some(3)), || true, work, ended);
        done.sort_unstable();
        assert_eq!(done, (0..40).collect::<Vec<_>>());
        assert_eq!((most, peak.load(Ordering::SeqCst)), (Ok(3), 3));
    }

    /// Returns how many of six jobs ran at the same time; each job waits until `expected` jobs run.
    fn most(spare: bool, expected: usize) -> usize {
        let meet = Arc::new((Mutex::new(0), Condvar::new()));
        let work = move |(): &()| {
            let (count, changed) = &*meet;
            let mut running = count.lock().expect("a count");
            *running += 1;
            changed.notify_all();
            drop(
                changed
                    .wait_while(running, |running| *running < expected)
                    .expect("a count"),
            );
        };
        run(
            vec![(); 6],
            Width { least: 2, most: 5 },
            || spare,
            work,
            |()| true,
        )
        .expect("jobs")
    }

    #[test]
    fn more_than_the_least_width_runs_only_with_capacity_to_spare() {
        assert_eq!(most(false, 2), 2);
        assert_eq!(most(true, 5), 5);
    }

    #[test]
    fn no_job_starts_after_the_caller_stops() {
        let mut seen = 0;
        let ended = |()| {
            seen += 1;
            false
        };
        let most = run(vec![(); 50], Width::new(Some(2)), || true, |()| (), ended);
        assert!(seen <= 2 && most.is_ok(), "{seen}");
    }
}
