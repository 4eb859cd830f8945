//! Runs jobs side by side: as many as there are processors, and more as long as those have time to spare, since most tests wait.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

/// At most so many jobs for each processor.
const WIDEST: usize = 4;

/// Delay between looks at the load.
const LOOK: Duration = Duration::from_millis(100);

/// How many jobs run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// So many in any case.
    pub least: usize,
    /// So many while processors are idle.
    pub most: usize,
}

impl Width {
    /// A fixed number, or what this machine bears.
    pub fn new(fixed: Option<usize>) -> Self {
        let processors = thread::available_parallelism().map_or(2, std::num::NonZero::get);
        match fixed {
            Some(count) => Self { least: count, most: count },
            None => Self { least: processors, most: processors * WIDEST },
        }
    }
}

/// Runs all jobs; they start in their order. `spare` says whether the machine has time to spare for more than the least width; `ended` is
/// called for each result, one at a time, and says whether to go on. Returns the largest number that ran at once.
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
        while goes_on && running < width.most && !waiting.is_empty() && (running < width.least || spare()) {
            let Some(job) = waiting.pop_front() else { break };
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
    fn every_job_runs_once_and_never_more_than_the_width_at_once() {
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

    /// The most of six jobs that run at once: each waits for the width that is expected, or for ever.
    fn most(spare: bool, expected: usize) -> usize {
        let meet = Arc::new((Mutex::new(0), Condvar::new()));
        let work = move |(): &()| {
            let (count, changed) = &*meet;
            let mut running = count.lock().expect("a count");
            *running += 1;
            changed.notify_all();
            drop(changed.wait_while(running, |running| *running < expected).expect("a count"));
        };
        run(vec![(); 6], Width { least: 2, most: 5 }, || spare, work, |()| true).expect("jobs")
    }

    #[test]
    fn more_than_the_least_run_at_once_only_while_the_machine_has_time_to_spare() {
        assert_eq!(most(false, 2), 2);
        assert_eq!(most(true, 5), 5);
    }

    #[test]
    fn nothing_is_started_once_the_caller_says_so() {
        let mut seen = 0;
        let ended = |()| {
            seen += 1;
            false
        };
        let most = run(vec![(); 50], Width::new(Some(2)), || true, |()| (), ended);
        assert!(seen <= 2 && most.is_ok(), "{seen}");
    }
}
