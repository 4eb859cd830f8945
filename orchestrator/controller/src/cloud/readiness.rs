//! Waiting until instances can be worked with: the cloud says that they run, ssh answers, and they know their deadline.

use super::Fleet;
use crate::error::CampaignError;
use crate::provider::{Health, Instance, InstanceState};
use crate::ssh::{SshHost, Target};
use cvc_core::{
    hosts::{HostEntry, SshSettings},
    stop::{StopRequest, StopSignal},
};
use cvc_engine::host::HostError;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};

/// Between questions about all instances.
const TICK: Duration = Duration::from_secs(2);
/// Between looks at what the cloud's own checks say, and only of instances that ssh does not reach.
const HEALTH_TICK: Duration = Duration::from_secs(15);
/// Between attempts at one instance.
const KNOCK: Duration = Duration::from_millis(700);
/// One attempt.
const KNOCK_LIMIT: Duration = Duration::from_secs(15);
/// Time for one connection, a second attempt included.
const ONE_CONNECT: Duration = Duration::from_secs(10);
/// Logins at the same time: each is a process here.
const MOST_AT_ONCE: usize = 16;

/// How waiting for instances ended.
pub(super) enum Reached {
    /// All are there.
    All(Vec<Instance>),
    /// These are not, and why; the others are.
    Without(BTreeMap<String, String>),
    /// The user wants to stop.
    Stopped,
}

impl Fleet {
    /// Waits for these instances.
    pub(super) async fn reach(&self, ids: &[String], stop_signal: &mut StopSignal) -> Result<Reached, CampaignError> {
        let limit = Duration::from_secs_f64(self.settings.ready_limit_s);
        let began = Instant::now();
        let mut logins: JoinSet<Result<String, (String, String)>> = JoinSet::new();
        let permits = Arc::new(Semaphore::new(MOST_AT_ONCE));
        let mut ready: BTreeMap<String, Instance> = BTreeMap::new();
        let mut knocking: BTreeMap<String, Instance> = BTreeMap::new();
        let mut failed: BTreeMap<String, String> = BTreeMap::new();
        let mut asked_health = Instant::now();
        let mut told = 0;
        loop {
            let late = began.elapsed() > limit;
            let open = ids.iter().any(|id| !ready.contains_key(id) && !failed.contains_key(id) && !knocking.contains_key(id));
            if open {
                let seen = self.observed().await?;
                for id in ids {
                    if ready.contains_key(id) || failed.contains_key(id) || knocking.contains_key(id) {
                        continue;
                    }
                    match seen.get(id) {
                        Some(i) if i.state == InstanceState::Running && i.address.is_some() => {
                            let target = Target::new(&self.name, &self.entry(i), &self.place.ssh());
                            let (id, permits) = (id.clone(), Arc::clone(&permits));
                            let left = limit.saturating_sub(began.elapsed()).max(KNOCK_LIMIT);
                            knocking.insert(id.clone(), i.clone());
                            logins.spawn(async move { login(target, permits, left).await.map(|()| id.clone()).map_err(|why| (id, why)) });
                        }
                        Some(i) if !i.state.is_alive() => {
                            let why = i.reason.clone().unwrap_or_else(|| "it ended while it was waited for".into());
                            failed.insert(id.clone(), why);
                        }
                        Some(_) | None if late => {
                            failed.insert(id.clone(), format!("it was not running after {:.0} s", limit.as_secs_f64()));
                        }
                        Some(_) | None => {}
                    }
                }
            }
            if asked_health.elapsed() > HEALTH_TICK && !knocking.is_empty() {
                asked_health = Instant::now();
                for (id, health) in self.provider.health(&self.tags.fleet).await.map_err(|e| self.error(e))? {
                    if let Health::Impaired(why) = health
                        && knocking.remove(&id).is_some()
                    {
                        failed.insert(id, format!("its status checks fail: {why}"));
                    }
                }
            }
            if ready.len() + failed.len() >= ids.len() {
                break;
            }
            if ready.len() != told {
                told = ready.len();
                self.reporter.note(format!("{}: {told} of {} instances answer", self.name, ids.len()));
            }
            tokio::select! {
                Some(ended) = logins.join_next(), if !logins.is_empty() => match ended {
                    Ok(Ok(id)) => {
                        if let Some(instance) = knocking.remove(&id) {
                            ready.insert(id, instance);
                        }
                    }
                    Ok(Err((id, why))) => {
                        if knocking.remove(&id).is_some() {
                            failed.insert(id, why);
                        }
                    }
                    Err(error) => return Err(CampaignError::internal(error.to_string())),
                },
                () = tokio::time::sleep(TICK) => {}
                // an error means that nobody can stop_request any more
                Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Ok(Reached::Stopped),
            }
        }
        if !failed.is_empty() {
            return Ok(Reached::Without(failed));
        }
        self.reporter.note(format!("{}: {} instances answer after {:.0} s", self.name, ids.len(), began.elapsed().as_secs_f64()));
        Ok(Reached::All(ids.iter().filter_map(|id| ready.remove(id)).collect()))
    }

    /// An instance as a host of the site.
    pub(super) fn entry(&self, instance: &Instance) -> HostEntry {
        let internal = instance.internal.clone();
        let name = internal.as_deref().map_or_else(|| instance.id.clone(), |a| format!("ip-{}", a.replace(['.', ':'], "-")));
        HostEntry {
            name,
            address: instance.address.clone(),
            internal,
            user: Some(self.user()),
            port: None,
            identity_file: Some(self.place.key().into_string()),
        }
    }
}

/// Logs in, again and again: an instance that boots refuses connections, then users.
async fn login(target: Target, permits: Arc<Semaphore>, limit: Duration) -> Result<(), String> {
    let until = Instant::now() + limit;
    loop {
        let permit = permits.acquire().await;
        let (said, changed) = knock(&target).await;
        drop(permit);
        let Some(said) = said else { return Ok(()) };
        if changed || Instant::now() > until {
            return Err(format!("ssh did not let cvc in within {:.0} s: {said}", limit.as_secs_f64()));
        }
        tokio::time::sleep(KNOCK).await;
    }
}

/// What stands against work there; and whether that stays so.
async fn knock(target: &Target) -> (Option<String>, bool) {
    let host = SshHost::new(target.clone());
    let argv = ["sh", "-c", "test -s /etc/cvc-deadline"].map(String::from);
    let asked = async {
        host.connect_within(ONE_CONNECT).await?;
        host.ask(&argv, &BTreeMap::new(), KNOCK_LIMIT).await
    };
    let answer = tokio::time::timeout(KNOCK_LIMIT, asked).await;
    host.disconnect().await;
    match answer {
        Ok(Ok(output)) if output.code == Some(0) => (None, false),
        Ok(Ok(_)) => (Some("it has not set its deadline (/etc/cvc-deadline): did its image run the user data?".into()), false),
        Ok(Err(error)) => (Some(error.to_string()), matches!(error, HostError::KeyChanged(_))),
        Err(_) => (Some(format!("no answer within {} s", KNOCK_LIMIT.as_secs())), false),
    }
}

/// Moves the deadline of instances: from now on so many seconds, by their own clocks.
pub(super) async fn set_deadline(name: &str, hosts: &[HostEntry], ssh: &SshSettings, seconds: u64) -> Result<(), HostError> {
    let script = format!(
        "d=$(($(date +%s) + {seconds})); if [ \"$(id -u)\" = 0 ]; then as=; else as='sudo -n'; fi; \
         echo $d | $as tee /etc/cvc-deadline.new >/dev/null && $as mv /etc/cvc-deadline.new /etc/cvc-deadline"
    );
    let mut all = JoinSet::new();
    let permits = Arc::new(Semaphore::new(MOST_AT_ONCE));
    for entry in hosts {
        let host = SshHost::new(Target::new(name, entry, ssh));
        let argv = ["sh".to_owned(), "-c".to_owned(), script.clone()];
        let permits = Arc::clone(&permits);
        all.spawn(async move {
            let _permit = permits.acquire().await;
            let output = host.ask(&argv, &BTreeMap::new(), KNOCK_LIMIT).await?;
            host.disconnect().await;
            if output.code == Some(0) {
                return Ok(());
            }
            Err(HostError::Ssh {
                host: host.target().name.clone(),
                said: format!("its deadline cannot be moved: {}", output.stderr.trim()),
            })
        });
    }
    // one that does not answer is in the way of no other
    let mut first = Ok(());
    while let Some(done) = all.join_next().await {
        if let Ok(Err(error)) = done {
            first = first.and(Err(error));
        }
    }
    first
}
