//! Waits until instances are ready: the cloud shows them as running, ssh answers, and their deadline is set.

use super::loss::LossReason;
use crate::provider::{Health, Instance, InstanceState, Provider, ProviderError};
use cvc_core::hosts::{HostEntry, SshSettings};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::units::counted;
use cvc_engine::host::HostError;
use cvc_sites::error::CampaignError;
use cvc_sites::progress::SiteReporter;
use cvc_sites::ssh::{SshHost, SshTarget};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};
use tracing::Instrument;

/// Delay between two queries of all instances.
const TICK: Duration = Duration::from_secs(2);
/// Delay between two queries of the cloud's status checks. They are queried only if ssh does not reach an instance.
const HEALTH_TICK: Duration = Duration::from_secs(15);
/// Delay between two attempts to log in to one instance.
const LOGIN_PAUSE: Duration = Duration::from_millis(700);
/// Time limit of one attempt to log in.
const LOGIN_LIMIT: Duration = Duration::from_secs(15);
/// Time limit of one connection by ssh, including its second attempt.
const ONE_CONNECT: Duration = Duration::from_secs(10);
/// Maximum number of simultaneous attempts to log in; each is a process on this machine.
const MAX_AT_ONCE: usize = 16;

/// The result of waiting for instances.
pub(super) enum Reached {
    /// All instances are ready.
    All(Vec<Instance>),
    /// These instances failed; the others are ready.
    Without(BTreeMap<String, LossReason>),
    /// The user wants to stop.
    Stopped,
}

/// Progress of an instance towards being usable.
#[derive(Clone, Debug, PartialEq)]
enum Readiness {
    /// The cloud does not show the instance as running yet.
    Waiting,
    /// The instance is running; a task tries to log in.
    Probing(Instance),
    /// The instance answers, and its deadline is set.
    Ready(Instance),
    /// The instance cannot be used.
    Failed(LossReason),
}

impl Readiness {
    /// Returns the state of an instance according to the cloud's answer; `seen` is `None` if the cloud does not show the instance. `late` means that
    /// the time limit `limit` has passed.
    fn of_answer(seen: Option<&Instance>, late: bool, limit: Duration) -> Self {
        match seen {
            Some(i) if i.state == InstanceState::Running && i.address.is_some() => {
                Self::Probing(i.clone())
            }
            Some(i) if !i.state.is_alive() => {
                Self::Failed(LossReason::EndedEarly(i.reason.clone()))
            }
            Some(_) | None if late => Self::Failed(LossReason::NotRunning {
                limit_s: limit.as_secs_f64(),
            }),
            Some(_) | None => Self::Waiting,
        }
    }

    /// Records the result of trying to log in: `None`, or the problem. An instance that has failed in the meantime stays failed.
    fn end_probe(&mut self, problem: Option<String>) {
        if let Self::Probing(instance) = self {
            *self = match problem {
                None => Self::Ready(instance.clone()),
                Some(why) => Self::Failed(LossReason::NoLogin(why)),
            };
        }
    }

    /// Marks an instance as failed because it does not answer and the cloud's checks fail.
    fn fail_checks(&mut self, why: String) {
        if matches!(self, Self::Probing(_)) {
            *self = Self::Failed(LossReason::Impaired(why));
        }
    }

    fn is_decided(&self) -> bool {
        matches!(self, Self::Ready(_) | Self::Failed(_))
    }
}

/// Parameters for waiting until instances of a fleet are ready.
pub(super) struct Wait<'a> {
    pub(super) site: &'a str,
    /// Value of the fleet's tag.
    pub(super) fleet: &'a str,
    pub(super) provider: &'a dyn Provider,
    pub(super) reporter: &'a SiteReporter,
    /// Time limit for the instances to become ready.
    pub(super) limit: Duration,
    /// Function that returns the ssh target of an instance.
    pub(super) target: &'a (dyn Fn(&Instance) -> SshTarget + Send + Sync),
}

impl Wait<'_> {
    /// Waits until each of these instances is ready or has failed.
    pub(super) async fn until_ready(
        &self,
        ids: &[String],
        stop_signal: &mut StopSignal,
    ) -> Result<Reached, CampaignError> {
        let began = Instant::now();
        let mut instances: BTreeMap<String, Readiness> = ids
            .iter()
            .map(|id| (id.clone(), Readiness::Waiting))
            .collect();
        let mut logins: JoinSet<(String, Option<String>)> = JoinSet::new();
        let permits = Arc::new(Semaphore::new(MAX_AT_ONCE));
        let mut asked_health = Instant::now();
        let mut last_ready = 0;
        loop {
            self.query(&mut instances, began, &permits, &mut logins)
                .await?;
            if asked_health.elapsed() > HEALTH_TICK
                && instances
                    .values()
                    .any(|r| matches!(r, Readiness::Probing(_)))
            {
                asked_health = Instant::now();
                for (id, health) in self
                    .provider
                    .health(self.fleet)
                    .await
                    .map_err(|e| self.error(e))?
                {
                    if let (Health::Impaired(why), Some(readiness)) =
                        (health, instances.get_mut(&id))
                    {
                        readiness.fail_checks(why);
                    }
                }
            }
            if instances.values().all(Readiness::is_decided) {
                break;
            }
            let ready = instances
                .values()
                .filter(|r| matches!(r, Readiness::Ready(_)))
                .count();
            if ready != last_ready {
                last_ready = ready;
                self.reporter.note(format!(
                    "{}: {last_ready} of {} ready",
                    self.site,
                    counted(ids.len(), "instance")
                ));
            }
            tokio::select! {
                Some(ended) = logins.join_next(), if !logins.is_empty() => {
                    let (id, problem) = ended.map_err(|e| CampaignError::internal(e.to_string()))?;
                    if let Some(readiness) = instances.get_mut(&id) {
                        readiness.end_probe(problem);
                    }
                }
                () = tokio::time::sleep(TICK) => {}
                // an error means that no request to stop can come any more
                Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Ok(Reached::Stopped),
            }
        }
        Ok(self.reached(ids, instances, began))
    }

    /// Queries the cloud about the instances that are not running yet. Begins to log in to those that are running now.
    async fn query(
        &self,
        instances: &mut BTreeMap<String, Readiness>,
        began: Instant,
        permits: &Arc<Semaphore>,
        logins: &mut JoinSet<(String, Option<String>)>,
    ) -> Result<(), CampaignError> {
        if !instances.values().any(|r| *r == Readiness::Waiting) {
            return Ok(());
        }
        let late = began.elapsed() > self.limit;
        let seen = self
            .provider
            .observe(self.fleet)
            .await
            .map_err(|e| self.error(e))?;
        for (id, readiness) in instances
            .iter_mut()
            .filter(|(_, r)| **r == Readiness::Waiting)
        {
            *readiness = Readiness::of_answer(seen.iter().find(|i| i.id == *id), late, self.limit);
            if let Readiness::Probing(instance) = readiness {
                let (target, id, permits) =
                    ((self.target)(instance), id.clone(), Arc::clone(permits));
                let left = self.limit.saturating_sub(began.elapsed()).max(LOGIN_LIMIT);
                logins.spawn(
                    async move {
                        (
                            id,
                            log_in(target, permits, left)
                                .await
                                .err()
                                .map(|e| e.to_string()),
                        )
                    }
                    .in_current_span(),
                );
            }
        }
        Ok(())
    }

    /// Returns the result of the wait, after each instance has become ready or has failed.
    fn reached(
        &self,
        ids: &[String],
        mut instances: BTreeMap<String, Readiness>,
        began: Instant,
    ) -> Reached {
        let failure = |(id, readiness): (&String, &Readiness)| match readiness {
            Readiness::Failed(why) => Some((id.clone(), why.clone())),
            Readiness::Waiting | Readiness::Probing(_) | Readiness::Ready(_) => None,
        };
        let failed: BTreeMap<String, LossReason> = instances.iter().filter_map(failure).collect();
        if !failed.is_empty() {
            return Reached::Without(failed);
        }
        self.reporter.note(format!(
            "{}: {} ready after {:.0} s",
            self.site,
            counted(ids.len(), "instance"),
            began.elapsed().as_secs_f64()
        ));
        let instance = |id: &String| match instances.remove(id) {
            Some(Readiness::Ready(instance)) => Some(instance),
            Some(Readiness::Waiting | Readiness::Probing(_) | Readiness::Failed(_)) | None => None,
        };
        Reached::All(ids.iter().filter_map(instance).collect())
    }

    fn error(&self, error: ProviderError) -> CampaignError {
        CampaignError::Provider {
            site: self.site.to_owned(),
            error: Box::new(error),
        }
    }
}

/// Tries to log in until it succeeds: an instance that is booting first refuses connections, then users.
async fn log_in(
    target: SshTarget,
    permits: Arc<Semaphore>,
    limit: Duration,
) -> Result<(), LoginError> {
    let until = Instant::now() + limit;
    loop {
        let permit = permits.acquire().await;
        let login = probe(&target).await;
        drop(permit);
        match login {
            Login::Works => return Ok(()),
            Login::NotYet(_) if Instant::now() <= until => {}
            Login::NotYet(message) | Login::Never(message) => {
                return Err(LoginError { limit, message });
            }
        }
        tokio::time::sleep(LOGIN_PAUSE).await;
    }
}

/// An instance could not be used within the time limit.
#[derive(Debug, thiserror::Error)]
#[error("no login by ssh within {:.0} s: {message}", .limit.as_secs_f64())]
struct LoginError {
    limit: Duration,
    message: String,
}

/// The result of one attempt to log in.
enum Login {
    Works,
    NotYet(String),
    /// Further attempts would fail, too, for this reason.
    Never(String),
}

/// Logs in to an instance once, and reads the deadline that the instance has set for itself.
async fn probe(target: &SshTarget) -> Login {
    let host = SshHost::new(target.clone());
    let argv = ["sh", "-c", "test -s /etc/cvc-deadline"].map(String::from);
    let asked = async {
        host.connect_within(ONE_CONNECT).await?;
        host.ask(&argv, &BTreeMap::new(), LOGIN_LIMIT).await
    };
    let answer = tokio::time::timeout(LOGIN_LIMIT, asked).await;
    host.disconnect().await;
    match answer {
        Ok(Ok(output)) if output.code == Some(0) => Login::Works,
        Ok(Ok(_)) => Login::NotYet(
            "it has not set its deadline (/etc/cvc-deadline); check that its image runs user data"
                .into(),
        ),
        Ok(Err(error @ HostError::KeyChanged(_))) => Login::Never(error.to_string()),
        Ok(Err(error)) => Login::NotYet(error.to_string()),
        Err(_) => Login::NotYet(format!("no answer within {} s", LOGIN_LIMIT.as_secs())),
    }
}

/// Sets the deadline of instances to `seconds` from now. Each instance computes it by its own clock.
pub(super) async fn set_deadline(
    name: &str,
    hosts: &[HostEntry],
    ssh: &SshSettings,
    seconds: u64,
) -> Result<(), HostError> {
    let script = format!(
        "d=$(($(date +%s) + {seconds})); if [ \"$(id -u)\" = 0 ]; then as=; else as='sudo -n'; fi; \
         echo $d | $as dd of=/etc/cvc-deadline.new conv=fsync 2>/dev/null && $as mv /etc/cvc-deadline.new /etc/cvc-deadline"
    );
    let mut all = JoinSet::new();
    let permits = Arc::new(Semaphore::new(MAX_AT_ONCE));
    for entry in hosts {
        let host = SshHost::new(SshTarget::new(name, entry, ssh));
        let argv = ["sh".to_owned(), "-c".to_owned(), script.clone()];
        let permits = Arc::clone(&permits);
        let extend = async move {
            let _permit = permits.acquire().await;
            let output = host.ask(&argv, &BTreeMap::new(), LOGIN_LIMIT).await?;
            host.disconnect().await;
            if output.code == Some(0) {
                return Ok(());
            }
            Err(HostError::Ssh {
                host: host.target().name.clone(),
                message: format!("cannot extend its deadline: {}", output.stderr.trim()),
            })
        };
        all.spawn(extend.in_current_span());
    }
    // an instance that does not answer does not delay the others
    let mut first = Ok(());
    while let Some(done) = all.join_next().await {
        if let Ok(Err(error)) = done {
            first = first.and(Err(error));
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(state: InstanceState, address: Option<&str>, reason: Option<&str>) -> Instance {
        Instance {
            id: "i-1".into(),
            lease: "l".into(),
            state,
            address: address.map(Into::into),
            internal: None,
            zone: "z".into(),
            instance_type: "t".into(),
            spot: false,
            launched: None,
            reason: reason.map(Into::into),
        }
    }

    const LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn an_instance_is_probed_once_it_runs_and_has_an_address() {
        let of = |seen: Option<&Instance>, late| Readiness::of_answer(seen, late, LIMIT);
        let pending = instance(InstanceState::Pending, None, None);
        let nameless = instance(InstanceState::Running, None, None);
        let running = instance(InstanceState::Running, Some("a"), None);
        assert_eq!(of(None, false), Readiness::Waiting);
        assert_eq!(of(Some(&pending), false), Readiness::Waiting);
        assert_eq!(of(Some(&nameless), false), Readiness::Waiting);
        assert_eq!(
            of(Some(&running), false),
            Readiness::Probing(running.clone())
        );
        // an instance that appeared just before the limit is still tried
        assert_eq!(
            of(Some(&running), true),
            Readiness::Probing(running.clone())
        );
    }

    #[test]
    fn an_instance_that_ends_or_is_late_fails_with_its_reason() {
        let of = |seen: Option<&Instance>| match Readiness::of_answer(seen, true, LIMIT) {
            Readiness::Failed(why) => why.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(None), "it was not running after 300 s");
        assert_eq!(
            of(Some(&instance(InstanceState::Pending, None, None))),
            "it was not running after 300 s"
        );
        assert_eq!(
            of(Some(&instance(
                InstanceState::Terminated,
                None,
                Some("Server.InternalError")
            ))),
            "Server.InternalError"
        );
        assert_eq!(
            of(Some(&instance(InstanceState::Stopped, None, None))),
            "it ended before it was ready"
        );
    }

    #[test]
    fn what_has_failed_its_checks_does_not_become_ready_by_a_late_login() {
        let mut readiness = Readiness::Probing(instance(InstanceState::Running, Some("a"), None));
        readiness.fail_checks("impaired".into());
        readiness.end_probe(None);
        assert_eq!(
            readiness,
            Readiness::Failed(LossReason::Impaired("impaired".into()))
        );
        // status checks do not matter once the instance is ready
        let mut readiness = Readiness::Probing(instance(InstanceState::Running, Some("a"), None));
        readiness.end_probe(None);
        readiness.fail_checks("impaired".into());
        assert!(matches!(readiness, Readiness::Ready(_)) && readiness.is_decided());
    }
}
