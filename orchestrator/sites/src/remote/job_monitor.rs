//! Asks Slurm about all jobs of a site at once, because an agent cannot report that its job was cancelled.

use super::agent_state::{AgentEnd, AgentState};
use crate::progress::SiteReporter;
use crate::slurm::{Client, End, JobInfo, JobLookup, Stage};
use cvc_core::outcome::Cause;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Delay between queries.
const TICK: Duration = Duration::from_secs(3);
/// Time limit for an agent's last events to arrive after the end of its job is known.
const FLUSH: Duration = Duration::from_millis(1500);
/// Silence of its agent after which a job that Slurm does not know counts as over, seconds.
const SILENT_S: f64 = 45.0;

/// Watches jobs of one site.
pub(super) struct JobMonitor {
    jobs: Arc<Jobs>,
    _task: AbortOnDropHandle<()>,
}

/// Stops watching a job when it is dropped.
pub(super) struct Watch {
    jobs: Arc<Jobs>,
    number: u64,
}

/// Jobs that are watched.
struct Jobs {
    watched: Mutex<BTreeMap<u64, Job>>,
    next: AtomicU64,
    added: Notify,
}

/// A job that is watched.
#[derive(Clone)]
struct Job {
    name: String,
    agent_state: Arc<AgentState>,
}

/// The meaning of an answer for a job.
#[derive(Debug)]
enum Finding {
    /// It runs, according to Slurm or to its agent's heartbeats.
    Alive,
    /// It was requeued.
    Requeued(Box<JobInfo>),
    /// It is over.
    Over(AgentEnd),
}

impl JobMonitor {
    pub(super) fn new(client: Client, reporter: SiteReporter) -> Self {
        let jobs = Arc::new(Jobs {
            watched: Mutex::default(),
            next: AtomicU64::new(0),
            added: Notify::new(),
        });
        let task = reporter.spawn(work(client, reporter.clone(), Arc::clone(&jobs)));
        Self { jobs, _task: task }
    }

    /// Watches a job until its end is known, and records the end in the state of its agent.
    pub(super) fn watch(&self, name: &str, agent_state: &Arc<AgentState>) -> Watch {
        let number = self.jobs.next.fetch_add(1, Ordering::Relaxed);
        let job = Job {
            name: name.to_owned(),
            agent_state: Arc::clone(agent_state),
        };
        self.jobs.watched.lock().insert(number, job);
        self.jobs.added.notify_one();
        Watch {
            jobs: Arc::clone(&self.jobs),
            number,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.jobs.remove(self.number);
    }
}

impl Jobs {
    fn watched(&self) -> BTreeMap<u64, Job> {
        self.watched.lock().clone()
    }

    fn remove(&self, number: u64) {
        self.watched.lock().remove(&number);
    }
}

async fn work(client: Client, reporter: SiteReporter, jobs: Arc<Jobs>) {
    // the last report about each job, and about Slurm itself
    let mut told: BTreeMap<Option<u64>, String> = BTreeMap::new();
    let mut tell = |of: Option<u64>, what: String| {
        if told.get(&of) != Some(&what) {
            reporter.note(what.clone());
            told.insert(of, what);
        }
    };
    loop {
        tokio::time::sleep(TICK).await;
        let watched = jobs.watched();
        if watched.is_empty() {
            jobs.added.notified().await;
            continue;
        }
        let names: Vec<&str> = watched.values().map(|j| j.name.as_str()).collect();
        let found = match client.query(&names).await {
            Ok(found) => found,
            Err(error) => {
                tell(None, error.to_string());
                continue;
            }
        };
        let mut over = Vec::new();
        for (number, job) in &watched {
            let silent_s = job.agent_state.state().silent_s;
            match judge(&job.name, found.get(&job.name), silent_s) {
                Finding::Alive => {}
                Finding::Requeued(info) => {
                    job.agent_state.change(|s| s.requeued = true);
                    let why = client.why_waiting(&info).await;
                    tell(
                        Some(*number),
                        format!("job {} was requeued: {why}", info.id),
                    );
                }
                Finding::Over(end) => over.push((*number, job, end)),
            }
        }
        if !over.is_empty() {
            tokio::time::sleep(FLUSH).await;
        }
        for (number, job, end) in over {
            jobs.remove(number);
            job.agent_state.change(|s| s.over = Some(end));
        }
    }
}

/// Decides what an answer means for a job whose agent has been silent for this long.
fn judge(name: &str, found: Option<&JobLookup>, silent_s: f64) -> Finding {
    match found {
        Some(JobLookup::Known(info)) => match info.stage() {
            Stage::Ended(end) => Finding::Over(AgentEnd {
                cause: cause(end),
                detail: describe_end(&info.id.to_string(), &info.state.to_string(), end),
            }),
            Stage::Waiting => Finding::Requeued(info.clone()),
            Stage::Running | Stage::Ending => Finding::Alive,
        },
        // a controller that crashed may have forgotten a running job: its agent's heartbeats tell
        Some(JobLookup::Unknown) | None if silent_s < SILENT_S => Finding::Alive,
        Some(JobLookup::Unknown) | None => Finding::Over(AgentEnd {
            cause: None,
            detail: format!("Slurm no longer knows the job {name}, and its agent is silent"),
        }),
    }
}

/// The meaning of a job's end for the runs under way in it. They fail only if they caused it.
fn cause(end: End) -> Option<Cause> {
    match end {
        // the agent ended by itself
        End::Completed | End::Failed | End::LaunchFailed => None,
        // it was preempted or requeued for another job
        End::Preempted => None,
        // the agent usually reports this itself; if it could not, it is unknown whether the run had the whole time
        End::Timeout => None,
        End::Cancelled | End::OutOfMemory | End::NodeFailed => end.cause(),
    }
}

fn describe_end(id: &str, state: &str, end: End) -> String {
    let what = match end {
        End::Cancelled => "was cancelled by somebody else",
        End::Timeout => "reached its time limit (slurm.time_limit_s)",
        End::OutOfMemory => "was ended because it ran out of memory",
        End::NodeFailed => "ended because a node failed",
        End::Preempted => "was preempted by another job",
        End::Completed | End::Failed | End::LaunchFailed => "ended",
    };
    format!("job {id} {what} ({state})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_slurm_has_forgotten_lives_as_long_as_its_agent_is_heard() {
        for found in [None, Some(JobLookup::Unknown)] {
            assert!(matches!(
                judge("j", found.as_ref(), SILENT_S - 1.0),
                Finding::Alive
            ));
            let Finding::Over(over) = judge("j", found.as_ref(), SILENT_S) else {
                panic!("it is over")
            };
            assert_eq!(
                (
                    over.cause,
                    over.detail.contains("no longer knows the job j")
                ),
                (None, true)
            );
        }
    }

    #[test]
    fn ends_are_described_in_whole_sentences() {
        assert_eq!(
            describe_end("7", "OUT_OF_MEMORY", End::OutOfMemory),
            "job 7 was ended because it ran out of memory (OUT_OF_MEMORY)"
        );
        assert_eq!(
            describe_end("7", "COMPLETED", End::Completed),
            "job 7 ended (COMPLETED)"
        );
    }
}
