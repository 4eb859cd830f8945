//! Starts an agent in a Slurm job: submits the job or finds it again, and waits until it has its nodes.

use super::{
    agent_handle::{AgentHandle, CLOSE_LIMIT, OLD_FIRST},
    agent_state::AttemptEnd,
    setting::{RemoteSetting, SpoolState},
};
use crate::error::CampaignError;
use crate::slurm::{Client, JobId, JobInfo, JobRequest, SlurmError};
use camino::Utf8Path;
use cvc_core::ids::{LeaseId, SiteName};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::units::counted;
use cvc_journal::{Acquired, Event};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Maximum number of times that a job is submitted again because Slurm forgot the job before it started.
const MAX_FORGOTTEN: u32 = 2;

/// How a job relates to earlier jobs of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Submission {
    /// The first job of this name. The journal records the request before Slurm receives it.
    Fresh,
    /// An earlier controller submitted and journaled the job, which may have ended since.
    Adopted,
    /// An earlier job of this name has ended and is ignored.
    After(JobId),
}

impl Submission {
    /// Returns [`Self::After`] if Slurm has an earlier job of this name (`past`), otherwise [`Self::Fresh`].
    fn after(past: Option<JobId>) -> Self {
        past.map_or(Self::Fresh, Self::After)
    }

    fn past(&self) -> Option<&JobId> {
        match self {
            Self::Fresh | Self::Adopted => None,
            Self::After(past) => Some(past),
        }
    }
}

/// How waiting for a job ended.
#[derive(Debug)]
enum WaitEnd {
    /// The job has its nodes.
    Running(Box<JobInfo>),
    /// The job will never have its nodes, or Slurm cannot be queried.
    Failed(SlurmError),
    /// The user stopped the campaign.
    Stopped,
}

/// What to do after waiting for a job.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Connect to the agent.
    Attach,
    /// The job ended while no controller was running: its results are in its spool.
    ReadSpool,
    /// Slurm's controller crashed and forgot the job just submitted.
    SubmitAgain,
    /// Release the nodes, for this reason.
    GiveBack(&'static str),
}

/// Returns what to do after waiting for a job.
fn classify(submission: &Submission, forgotten: u32, waited: &WaitEnd) -> Verdict {
    match waited {
        WaitEnd::Running(_) => Verdict::Attach,
        WaitEnd::Failed(SlurmError::Ended { .. }) if *submission == Submission::Adopted => {
            Verdict::ReadSpool
        }
        WaitEnd::Failed(SlurmError::Unknown(_)) if forgotten < MAX_FORGOTTEN => {
            Verdict::SubmitAgain
        }
        WaitEnd::Failed(_) => Verdict::GiveBack("it never ran"),
        WaitEnd::Stopped => Verdict::GiveBack("the user stopped"),
    }
}

/// What to do after one submission.
enum Next {
    /// The job runs: connect to its agent.
    Attach,
    /// The job has ended, and its results are useful.
    Fetch(Box<AgentHandle>),
    /// Another submission is needed.
    Submit(Submission),
    /// The user stopped the campaign, and nothing remains on the site.
    Stopped,
}

/// A job with an agent.
struct AgentJob<'a> {
    setting: &'a Arc<RemoteSetting>,
    client: &'a Client,
    root: &'a Utf8Path,
    request: JobRequest,
    limit: Option<Duration>,
    /// Whether runs that an earlier controller requested from the agent are still needed.
    wants_old: bool,
    /// Whether the agent was started before the campaign file was changed.
    has_old_orders: AtomicBool,
}

/// Submits a job with an agent, or finds the job of this name. Waits until the job has its nodes and the agent is ready. Returns `None` if the user
/// stops the campaign meanwhile; then nothing remains on the site.
pub(super) async fn by_job(
    setting: &Arc<RemoteSetting>,
    root: &Utf8Path,
    job: &str,
    nodes: u32,
    resumed: bool,
    wants_old: bool,
    stop_signal: &mut StopSignal,
) -> Result<Option<AgentHandle>, CampaignError> {
    let (Some(client), Some(slurm)) = (&setting.slurm, &setting.cluster.slurm) else {
        return Err(CampaignError::internal("a job without Slurm"));
    };
    let request = JobRequest {
        name: job.to_owned(),
        nodes,
        // if nodes are shared with other jobs, cores must be requested
        tasks_per_node: (!slurm.exclusive).then(|| setting.max_ranks_per_node()),
        cpus_per_task: setting.cores_of_a_rank().filter(|_| !slurm.exclusive),
        dir: root.to_owned(),
        argv: vec![
            "bash".into(),
            "-lc".into(),
            "exec \"$0\" agent \"$1\"".into(),
            setting.program.to_string(),
            root.to_string(),
        ],
        settings: slurm.clone(),
    };
    let limit = slurm.queue_limit_s.map(Duration::from_secs_f64);
    let job = AgentJob {
        setting,
        client,
        root,
        request,
        limit,
        wants_old,
        has_old_orders: AtomicBool::new(false),
    };
    let mut submission = job.first(resumed).await?;
    loop {
        match job.submit(&submission, stop_signal).await? {
            Next::Attach => {
                let mut agent = AgentHandle::new(setting, root, Some(job.request.name.clone()));
                agent.has_old_orders = job.has_old_orders.load(Ordering::Relaxed);
                return agent.get_ready(stop_signal).await;
            }
            Next::Fetch(mut agent) => {
                agent.has_old_orders = job.has_old_orders.load(Ordering::Relaxed);
                return Ok(Some(*agent));
            }
            Next::Submit(next) => submission = next,
            Next::Stopped => return Ok(None),
        }
    }
}

impl AgentJob<'_> {
    fn name(&self) -> &str {
        &self.request.name
    }

    fn note(&self, what: &str) {
        self.setting
            .reporter
            .note(format!("{}: {what}", self.setting.name));
    }

    /// Creates the spool, and returns how the job is first submitted. `resumed`: an earlier controller submitted the job.
    async fn first(&self, resumed: bool) -> Result<Submission, CampaignError> {
        match self.setting.make(self.root).await? {
            SpoolState::TheseOrders => {}
            SpoolState::OtherOrders if resumed && self.wants_old => {
                self.note(&format!("the campaign was changed; {OLD_FIRST}"));
                self.has_old_orders.store(true, Ordering::Relaxed);
            }
            found @ (SpoolState::OtherOrders | SpoolState::OtherProtocol) => {
                self.note("the campaign was changed; its old job is cancelled");
                self.client.cancel(self.name(), CLOSE_LIMIT).await?;
                let past = self.client.find(self.name()).await?.map(|info| info.id);
                if found == SpoolState::OtherProtocol {
                    self.setting.put_aside(self.root).await?;
                }
                self.restart_fresh(resumed, "the campaign was changed")
                    .await?;
                return Ok(Submission::after(past));
            }
        }
        if resumed {
            return Ok(Submission::Adopted);
        }
        // the journal does not record this job: an older copy of the journal may have been restored
        let past = self.client.find(self.name()).await?;
        if let Some(job) = &past {
            self.note(&format!(
                "job {} has this job's name but is not in the journal; ignoring it",
                job.id
            ));
            self.client.cancel(self.name(), CLOSE_LIMIT).await?;
            self.restart_fresh(false, "it belongs to an earlier life of the campaign")
                .await?;
        }
        Ok(Submission::after(past.map(|job| job.id)))
    }

    /// Submits the job and waits for its nodes. Submits it again if Slurm forgets it.
    async fn submit(
        &self,
        submission: &Submission,
        stop_signal: &mut StopSignal,
    ) -> Result<Next, CampaignError> {
        let lease = LeaseId::from(self.name());
        if *submission != Submission::Adopted {
            let (site, nodes) = (SiteName::from(&self.setting.name), self.request.nodes);
            self.setting
                .reporter
                .write(Event::LeaseIntended {
                    lease: lease.clone(),
                    site,
                    nodes,
                    order: None,
                })
                .await;
        }
        let mut forgotten = 0;
        loop {
            // for jobs that are not resumed, no job of this name was found just before
            let id = if forgotten == 0 && *submission != Submission::Adopted {
                self.client
                    .submit_new(&self.request, submission.past())
                    .await?
            } else {
                self.client
                    .submit_after(&self.request, submission.past())
                    .await?
            };
            self.setting
                .reporter
                .write(Event::LeaseAcquired {
                    lease: lease.clone(),
                    by: Acquired::Job(id.to_string().into()),
                })
                .await;
            self.note(&format!(
                "job {id} ({lease}) requests {}",
                counted(self.request.nodes, "node")
            ));
            let waited = self.wait(&id, stop_signal).await;
            match (classify(submission, forgotten, &waited), waited) {
                (Verdict::Attach, WaitEnd::Running(info)) => {
                    self.note(&format!(
                        "job {id} has {}",
                        cvc_core::nodelist::compress(&info.nodes)
                    ));
                    return Ok(Next::Attach);
                }
                (Verdict::ReadSpool, WaitEnd::Failed(error)) => {
                    return self.read_spool(id, &error).await;
                }
                (Verdict::SubmitAgain, _) => {
                    forgotten += 1;
                    self.note(&format!(
                        "Slurm no longer knows job {id}; submitting it again"
                    ));
                }
                (Verdict::GiveBack(how), waited) => {
                    self.release(how).await?;
                    return match waited {
                        WaitEnd::Failed(error) => Err(error.into()),
                        WaitEnd::Stopped | WaitEnd::Running(_) => Ok(Next::Stopped),
                    };
                }
                (Verdict::Attach | Verdict::ReadSpool, _) => {
                    return Err(CampaignError::internal(
                        "a job that neither waits nor has ended",
                    ));
                }
            }
        }
    }

    async fn wait(&self, id: &JobId, stop_signal: &mut StopSignal) -> WaitEnd {
        let mut last_reason = String::new();
        let report = |why: String| {
            if last_reason != why {
                self.note(&format!("job {id} waits: {why}"));
                last_reason = why;
            }
        };
        tokio::select! {
            waited = self.client.wait_running(self.name(), self.limit, report) => match waited {
                Ok(info) => WaitEnd::Running(Box::new(info)),
                Err(error) => WaitEnd::Failed(error),
            },
            _ = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => WaitEnd::Stopped,
        }
    }

    /// Reads the results of a job that has ended. If there are none, another submission is needed.
    async fn read_spool(&self, id: JobId, error: &SlurmError) -> Result<Next, CampaignError> {
        let state = if let SlurmError::Ended { state, .. } = error {
            state.clone()
        } else {
            error.to_string()
        };
        let agent = AgentHandle::new(self.setting, self.root, Some(self.name().to_owned()));
        let over = tokio::time::timeout(CLOSE_LIMIT, agent.agent_state.wait(|s| s.over.clone()));
        let of_use = over.await.is_ok()
            && agent
                .agent_state
                .state()
                .ended
                .values()
                .any(|e| matches!(e, AttemptEnd::Finished(_)));
        if of_use {
            self.note(&format!(
                "job {id} has ended ({state}); fetching its results"
            ));
            return Ok(Next::Fetch(Box::new(agent.with_what_was_ready())));
        }
        self.note(&format!("job {id} has ended ({state}); submitting another"));
        self.restart_fresh(true, &state).await?;
        Ok(Next::Submit(Submission::After(id)))
    }

    /// Creates a new spool for the next job of this name. With `leased`, also records in the journal that the old job was released.
    async fn restart_fresh(&self, leased: bool, how: &str) -> Result<(), CampaignError> {
        self.has_old_orders.store(false, Ordering::Relaxed);
        self.setting.clean(self.root).await?;
        if leased {
            self.setting
                .reporter
                .write(Event::LeaseReleased {
                    lease: self.name().into(),
                    how: how.to_owned(),
                })
                .await;
        }
        self.setting.make(self.root).await?;
        Ok(())
    }

    /// Cancels a job whose nodes were not used, and removes its spool.
    async fn release(&self, how: &str) -> Result<(), CampaignError> {
        self.client.cancel(self.name(), CLOSE_LIMIT).await?;
        self.setting.clean(self.root).await?;
        self.setting
            .reporter
            .write(Event::LeaseReleased {
                lease: self.name().into(),
                how: how.to_owned(),
            })
            .await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::End;

    fn ended() -> WaitEnd {
        let text = || "7".to_owned();
        WaitEnd::Failed(SlurmError::Ended {
            job: text(),
            name: text(),
            state: text(),
            end: End::Cancelled,
            why: String::new(),
        })
    }

    fn forgotten() -> WaitEnd {
        WaitEnd::Failed(SlurmError::Unknown("j".into()))
    }

    fn past() -> JobId {
        JobId {
            number: 7,
            cluster: None,
        }
    }

    #[test]
    fn only_a_job_of_an_earlier_controller_may_have_ended_with_something_done() {
        assert_eq!(
            classify(&Submission::Adopted, 0, &ended()),
            Verdict::ReadSpool
        );
        assert_eq!(
            classify(&Submission::Fresh, 0, &ended()),
            Verdict::GiveBack("it never ran")
        );
        assert_eq!(
            classify(&Submission::After(past()), 0, &ended()),
            Verdict::GiveBack("it never ran")
        );
    }

    #[test]
    fn a_forgotten_job_is_submitted_again_twice() {
        let verdicts: Vec<Verdict> = (0..3)
            .map(|times| classify(&Submission::Fresh, times, &forgotten()))
            .collect();
        assert_eq!(
            verdicts,
            [
                Verdict::SubmitAgain,
                Verdict::SubmitAgain,
                Verdict::GiveBack("it never ran")
            ]
        );
        assert_eq!(
            classify(&Submission::Adopted, 0, &forgotten()),
            Verdict::SubmitAgain
        );
    }

    #[test]
    fn nodes_are_given_back_when_the_user_stops() {
        assert_eq!(
            classify(&Submission::Adopted, 0, &WaitEnd::Stopped),
            Verdict::GiveBack("the user stopped")
        );
    }

    #[test]
    fn an_earlier_job_of_the_name_does_not_count_if_slurm_knows_one() {
        assert_eq!(Submission::after(None), Submission::Fresh);
        assert_eq!(Submission::after(Some(past())).past(), Some(&past()));
        assert_eq!(Submission::Adopted.past(), None);
    }
}
