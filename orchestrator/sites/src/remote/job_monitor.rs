//! Queries Slurm about all jobs of a site at once, because an agent cannot report that its own job was cancelled.

use super::agent_state::{AgentEnd, AgentState};
use crate::progress::SiteReporter;
use crate::slurm::{Client, End, JobInfo, JobLookup, JobStage};
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

/// Interval between queries.
const TICK: Duration = Duration::from_secs(3);
/// Time limit for the last events of an agent to arrive after Slurm has reported the end of its job.
const FLUSH: Duration = Duration::from_millis(1500);
/// Time without a heartbeat after which a job unknown to Slurm counts as ended, seconds.
const SILENT_S: f64 = 45.0;

/// Monitors the jobs of one site.
pub(super) struct JobMonitor {
    jobs: Arc<Jobs>,
    _task: AbortOnDropHandle<()>,
}

/// Stops monitoring a job when it is dropped.
pub(super) struct JobWatch {
    jobs: Arc<Jobs>,
    number: u64,
}

/// Jobs that are monitored.
struct Jobs {
    watched: Mutex<BTreeMap<u64, Job>>,
    next: AtomicU64,
    added: Notify,
}

/// A job that is monitored.
#[derive(Clone)]
struct Job {
    name: String,
    agent_state: Arc<AgentState>,
}

/// The interpretation of Slurm's answer about a job.
#[derive(Debug)]
enum Finding {
    /// The job runs, according to Slurm or to its agent's heartbeats.
    Alive,
    /// The job was requeued.
    Requeued(Box<JobInfo>),
    /// The job has ended.
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

    /// Monitors a job until it ends, and records the end in the state of its agent.
    pub(super) fn watch(&self, name: &str, agent_state: &Arc<AgentState>) -> JobWatch {
        let number = self.jobs.next.fetch_add(1, Ordering::Relaxed);
        let job = Job {
            name: name.to_owned(),
            agent_state: Arc::clone(agent_state),
        };
        self.jobs.watched.lock().insert(number, job);
        self.jobs.added.notify_one();
        JobWatch {
            jobs: Arc::clone(&self.jobs),
            number,
        }
    }
}

impl Drop for JobWatch {
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
    // the last message about each job, and about Slurm itself
    let mut reported: BTreeMap<Option<u64>, String> = BTreeMap::new();
    let mut report = |of: Option<u64>, what: String| {
        if reported.get(&of) != Some(&what) {
            reporter.note(what.clone());
            reported.insert(of, what);
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
                report(None, error.to_string());
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
                    report(
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

/// Interprets Slurm's answer about a job whose agent was last heard `silent_s` seconds ago.
fn judge(name: &str, found: Option<&JobLookup>, silent_s: f64) -> Finding {
    match found {
        Some(JobLookup::Known(info)) => match info.stage() {
            JobStage::Ended(end) => Finding::Over(AgentEnd {
                cause: cause(end),
                detail: describe_end(&info.id.to_string(), &info.state.to_string(), end),
            }),
            JobStage::Waiting => Finding::Requeued(info.clone()),
            JobStage::Running | JobStage::Ending => Finding::Alive,
        },
        // a controller that crashed may have forgotten a running job, so the agent's heartbeats decide
        Some(JobLookup::Unknown) | None if silent_s < SILENT_S => Finding::Alive,
        Some(JobLookup::Unknown) | None => Finding::Over(AgentEnd {
            cause: None,
            detail: format!("Slurm no longer knows the job {name}, and its agent is silent"),
        }),
    }
}

/// Returns the cause of failure for the runs that were under way when their job ended. Returns `None` if the end does not count as a failure of these
/// runs, so that they are repeated.
fn cause(end: End) -> Option<Cause> {
    match end {
        // the agent ended by itself
        End::Completed | End::Failed | End::LaunchFailed => None,
        // the job was preempted or requeued in favour of another job
        End::Preempted => None,
        // the agent usually reports this itself; if it could not, it is unknown whether the run had the whole time
        End::Timeout => None,
        End::Cancelled | End::OutOfMemory | End::NodeFailed => end.cause(),
    }
}

fn describe_end(id: &str, state: &str, end: End) -> String {
    let what = match end {
        End::Cancelled => "was cancelled by another user",
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
