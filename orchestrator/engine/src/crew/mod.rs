//! The agent's connections to sentinels. A sentinel runs on every node of a site, and is queried concurrently with the others; a node counts as lost
//! when its sentinel stops answering.
//!
//! A [`Crew`] starts the sentinels of all members concurrently and keeps the connections to them. Code that waits for a run must also wait for
//! [`Crew::wait_lost`]: no launcher reports a lost node reliably.

mod error;
mod line;
mod member;
mod typed;

pub use error::{CrewError, NotStarted};
pub use line::read_sentinel_line;
pub use member::{CrewSettings, Member};
pub use typed::{Skew, whole};

use cvc_probe::sentinel::{Hello, Sentinel, SentinelAnswer, SentinelRequest};
use line::Line;
use parking_lot::Mutex;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

/// Maximum number of sentinels that are started at the same time. Each start is a key exchange of ssh on this machine.
const STARTS_AT_ONCE: usize = 32;

/// Time between TERM and KILL for processes that a killed sentinel guarded, seconds.
const LEFT_GRACE_S: f64 = 1.5;
/// Time limit for ending processes that a killed sentinel guarded: longer than a sentinel waits for processes to disappear.
const LEFT_LIMIT: Duration = Duration::from_secs(20);

/// The sentinels of some nodes. A clone is cheap, and refers to the same sentinels. When the last clone is dropped the connections close, and every
/// sentinel ends the processes that it guards; [`Crew::close`] waits for that.
#[derive(Clone, Debug)]
pub struct Crew(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: CrewSettings,
    slots: Vec<MemberSlot>,
    lost: Arc<watch::Sender<BTreeMap<String, String>>>,
    leaving: watch::Sender<BTreeMap<String, Leaving>>,
}

/// The notice that a node will be reclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Time of the reclaim, if the notice contains it.
    pub at: Option<jiff::Timestamp>,
    /// Who reclaims the node, and how, as display text.
    pub why: String,
}

/// A member and its connection.
#[derive(Debug)]
struct MemberSlot {
    member: Member,
    presence: Mutex<Presence>,
    /// Runs that the member's sentinel guards, by their markers: a killed sentinel cannot end their processes itself.
    guarded: Mutex<BTreeMap<String, Guarded>>,
}

/// For one guarded run: directories in which its processes work, and directories to remove from the node.
#[derive(Clone, Debug)]
struct Guarded {
    dirs: Vec<PathBuf>,
    remove: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
enum Presence {
    /// This process itself acts as the sentinel.
    Here(Arc<Sentinel>),
    /// The connection to a sentinel process. The connection of a lost sentinel stays until it is replaced.
    Line(Arc<Line>),
    /// The member is closed.
    Gone,
}

impl MemberSlot {
    fn new(member: Member, presence: Presence) -> Self {
        Self {
            member,
            presence: Mutex::new(presence),
            guarded: Mutex::default(),
        }
    }

    /// If this is a request to guard a run, records what the sentinel must guard. Call this before the request is sent, because the answer may be
    /// lost.
    fn note_guarded(&self, request: &SentinelRequest) {
        if let SentinelRequest::Guard {
            marker,
            dirs,
            remove,
        } = request
        {
            self.guarded.lock().insert(
                marker.clone(),
                Guarded {
                    dirs: dirs.clone(),
                    remove: remove.clone(),
                },
            );
        }
    }

    /// Requests that the new sentinel end the processes that the lost sentinel guarded, and remove their files. The lost sentinel may have been
    /// killed before it ended them.
    async fn end_left(&self, line: &Line) -> Result<(), CrewError> {
        let guarded = self.guarded.lock().clone();
        for (marker, Guarded { dirs, remove }) in guarded {
            let end = SentinelRequest::End {
                marker: marker.clone(),
                dirs,
                grace_s: LEFT_GRACE_S,
            };
            line.ask(&self.member.name, &end, LEFT_LIMIT).await?;
            if !remove.is_empty() {
                line.ask(
                    &self.member.name,
                    &SentinelRequest::Remove {
                        dirs: remove,
                        files: Vec::new(),
                    },
                    LEFT_LIMIT,
                )
                .await?;
            }
            self.guarded.lock().remove(&marker);
        }
        Ok(())
    }

    fn presence(&self) -> Presence {
        self.presence.lock().clone()
    }

    fn set(&self, presence: Presence) -> Presence {
        std::mem::replace(&mut *self.presence.lock(), presence)
    }
}

/// Waits until `known` has an entry for one of these nodes. Returns the node's name and the entry; if there are several, those of the first node in
/// `names`.
async fn wait_first<T: Clone>(
    mut known: watch::Receiver<BTreeMap<String, T>>,
    names: &[&str],
) -> (String, T) {
    let first = |known: &BTreeMap<String, T>| {
        names.iter().find_map(|name| {
            let value = known.get(*name)?;
            Some(((*name).to_owned(), value.clone()))
        })
    };
    loop {
        if let Some(found) = first(&known.borrow_and_update()) {
            return found;
        }
        if known.changed().await.is_err() {
            // the sender lives as long as the crew does
            std::future::pending::<()>().await;
        }
    }
}

impl Crew {
    /// Starts the sentinels of all members concurrently.
    ///
    /// # Errors
    /// Sentinels that do not answer in time: the error lists each with its message and a hint. The other sentinels are ended.
    pub async fn start(members: Vec<Member>, settings: CrewSettings) -> Result<Self, CrewError> {
        let (crew, failed) = Self::start_some(members, settings).await;
        if failed.is_empty() {
            return Ok(crew);
        }
        crew.close().await;
        Err(CrewError::Start(failed))
    }

    /// Starts the sentinels of all members concurrently. Members that do not answer in time are lost, and are returned with hints.
    pub async fn start_some(
        members: Vec<Member>,
        settings: CrewSettings,
    ) -> (Self, Vec<NotStarted>) {
        let lost = Arc::new(watch::channel(BTreeMap::new()).0);
        let (presences, failed) = Self::open(
            members.iter().cloned().enumerate().collect(),
            settings,
            &lost,
        )
        .await;
        let mut presences: BTreeMap<usize, Presence> = presences.into_iter().collect();
        let slots = members.into_iter().enumerate().map(|(i, member)| {
            MemberSlot::new(member, presences.remove(&i).unwrap_or(Presence::Gone))
        });
        let crew = Self(Arc::new(Inner {
            settings,
            slots: slots.collect(),
            lost,
            leaving: watch::Sender::default(),
        }));
        let failed: Vec<NotStarted> = failed.into_iter().map(|(_, failure)| failure).collect();
        crew.0
            .lost
            .send_modify(|lost| lost.extend(failed.iter().map(|f| (f.host.clone(), f.reason()))));
        (crew, failed)
    }

    /// Creates a crew with one member, which is this process itself, for sites without other nodes.
    #[must_use]
    pub fn here(name: &str) -> Self {
        let slot = MemberSlot::new(
            Member {
                name: name.to_owned(),
                argv: None,
            },
            Presence::Here(Arc::new(Sentinel::default())),
        );
        Self(Arc::new(Inner {
            settings: CrewSettings::default(),
            slots: vec![slot],
            lost: Arc::new(watch::channel(BTreeMap::new()).0),
            leaving: watch::Sender::default(),
        }))
    }

    /// Connects to these members concurrently. Returns connections and failures, each with the number that was passed with its member.
    async fn open(
        members: Vec<(usize, Member)>,
        settings: CrewSettings,
        lost: &Arc<watch::Sender<BTreeMap<String, String>>>,
    ) -> (Vec<(usize, Presence)>, Vec<(usize, NotStarted)>) {
        let room = Arc::new(Semaphore::new(STARTS_AT_ONCE));
        let mut starting = JoinSet::new();
        for (i, member) in members {
            let (room, lost) = (Arc::clone(&room), Arc::clone(lost));
            starting.spawn(async move {
                let Some(argv) = member.argv else {
                    return (i, Ok(Presence::Here(Arc::new(Sentinel::default()))));
                };
                // the semaphore is never closed
                let _permit = room.acquire_owned().await;
                let opened = Line::open(&member.name, &argv, settings, lost).await;
                (i, opened.map(|line| Presence::Line(Arc::new(line))))
            });
        }
        let (mut presences, mut failed) = (Vec::new(), Vec::new());
        while let Some(ended) = starting.join_next().await {
            match ended {
                Ok((i, Ok(presence))) => presences.push((i, presence)),
                Ok((i, Err(failure))) => failed.push((i, failure)),
                Err(panicked) => {
                    // a task ends without an answer only by a panic, which must not be hidden
                    if let Ok(panic) = panicked.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        failed.sort_by_key(|(i, _)| *i);
        (presences, failed)
    }

    /// Returns the names of the members, in the original order.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.0
            .slots
            .iter()
            .map(|s| s.member.name.as_str())
            .collect()
    }

    /// Returns the first message of a member's sentinel; `None` once the member is closed.
    #[must_use]
    pub fn hello(&self, name: &str) -> Option<Hello> {
        match self.slot(name).ok()?.presence() {
            Presence::Here(_) => Some(Hello::of_this_process()),
            Presence::Line(line) => Some(line.hello.clone()),
            Presence::Gone => None,
        }
    }

    /// Returns the host name of a member's machine.
    #[must_use]
    pub fn hostname(&self, name: &str) -> Option<String> {
        self.hello(name).map(|hello| hello.host)
    }

    fn slot(&self, name: &str) -> Result<&MemberSlot, CrewError> {
        self.0
            .slots
            .iter()
            .find(|s| s.member.name == name)
            .ok_or_else(|| CrewError::Unknown {
                host: name.to_owned(),
            })
    }

    /// Sends a request to one member, and returns the answer.
    ///
    /// # Errors
    /// The node is not in this crew, is lost (before or during the request), does not answer in time, or cannot carry out the request.
    pub async fn ask(
        &self,
        name: &str,
        request: SentinelRequest,
        limit: Duration,
    ) -> Result<SentinelAnswer, CrewError> {
        let slot = self.slot(name)?;
        slot.note_guarded(&request);
        let guards = matches!(request, SentinelRequest::Guard { .. });
        let marker = if let SentinelRequest::Guard { marker, .. }
        | SentinelRequest::Unguard { marker } = &request
        {
            Some(marker.clone())
        } else {
            None
        };
        let answer = Self::ask_at(slot, request, limit).await;
        // after a refusal the sentinel does not guard the processes; without an answer it may guard them
        let is_unguarded = if guards {
            matches!(answer, Err(CrewError::Refused { .. }))
        } else {
            answer.is_ok()
        };
        if let Some(marker) = marker.filter(|_| is_unguarded) {
            slot.guarded.lock().remove(&marker);
        }
        answer
    }

    async fn ask_at(
        slot: &MemberSlot,
        request: SentinelRequest,
        limit: Duration,
    ) -> Result<SentinelAnswer, CrewError> {
        let presence = slot.presence();
        let (host, asked) = (slot.member.name.clone(), request.name());
        let answer = match presence {
            Presence::Here(sentinel) => {
                let answering = tokio::task::spawn_blocking(move || sentinel.answer(&request));
                match tokio::time::timeout(limit, answering).await {
                    Ok(Ok(answer)) => answer.map_err(|e| e.to_string()),
                    Ok(Err(failed)) => Err(format!("internal error (please report): {failed}")),
                    Err(_) => {
                        return Err(CrewError::Timeout {
                            host,
                            request: asked,
                            limit_s: limit.as_secs_f64(),
                        });
                    }
                }
            }
            Presence::Line(line) => return line.ask(&host, &request, limit).await,
            Presence::Gone => {
                return Err(CrewError::Lost {
                    host,
                    reason: "its connection is closed".into(),
                });
            }
        };
        answer.map_err(|problem| CrewError::Refused {
            host,
            request: asked,
            problem,
        })
    }

    /// Sends one request to several members concurrently. Returns the answers in the order of `names`.
    pub async fn ask_all(
        &self,
        names: &[&str],
        request: SentinelRequest,
        limit: Duration,
    ) -> Vec<(String, Result<SentinelAnswer, CrewError>)> {
        self.ask_each(
            names
                .iter()
                .map(|name| ((*name).to_owned(), request.clone()))
                .collect(),
            limit,
        )
        .await
    }

    /// Sends different requests to several members concurrently: pairs of a member's name and its request. Returns the answers in the order of the
    /// requests.
    pub async fn ask_each(
        &self,
        questions: Vec<(String, SentinelRequest)>,
        limit: Duration,
    ) -> Vec<(String, Result<SentinelAnswer, CrewError>)> {
        let asking: Vec<_> = questions
            .into_iter()
            .map(|(name, request)| {
                let (crew, host) = (self.clone(), name.clone());
                (
                    host,
                    tokio::spawn(async move { crew.ask(&name, request, limit).await }),
                )
            })
            .collect();
        let mut answers = Vec::with_capacity(asking.len());
        for (host, asked) in asking {
            let answer = asked.await.unwrap_or_else(|failed| {
                let problem = format!("internal error (please report): {failed}");
                Err(CrewError::Refused {
                    host: host.clone(),
                    request: "ask",
                    problem,
                })
            });
            answers.push((host, answer));
        }
        answers
    }

    /// Returns a receiver of the lost members, each with the reason: no message for longer than [`CrewSettings::lost_after_s`], or a broken
    /// connection.
    #[must_use]
    pub fn lost(&self) -> watch::Receiver<BTreeMap<String, String>> {
        self.0.lost.subscribe()
    }

    /// Waits until one of these members is lost. Returns its name and the reason.
    pub async fn wait_lost(&self, names: &[&str]) -> (String, String) {
        wait_first(self.lost(), names).await
    }

    /// Records that a node will be reclaimed.
    pub fn note_leaving(&self, node: &str, leaving: Leaving) {
        self.0.leaving.send_modify(|all| {
            all.insert(node.to_owned(), leaving);
        });
    }

    /// Removes the notice about a node that was replaced by another machine, or that was not reclaimed.
    pub fn forget_leaving(&self, node: &str) {
        self.0
            .leaving
            .send_if_modified(|all| all.remove(node).is_some());
    }

    /// Drops a member as if it were lost for this reason. Its sentinel then ends the processes that it guards.
    pub fn lose(&self, name: &str, reason: &str) {
        let Ok(slot) = self.slot(name) else { return };
        if slot.member.argv.is_none() {
            return;
        }
        let limit = self.close_limit();
        if let Presence::Line(old) = slot.set(Presence::Gone) {
            tokio::spawn(async move { old.close(limit).await });
        }
        self.0.lost.send_modify(|lost| {
            lost.insert(name.to_owned(), reason.to_owned());
        });
    }

    /// Waits for a notice about one of these nodes. Returns the node's name and the notice.
    pub async fn wait_leaving(&self, names: &[&str]) -> (String, Leaving) {
        wait_first(self.0.leaving.subscribe(), names).await
    }

    /// Tries once to restart the sentinels of lost members. Returns the names of the members that came back. Their sentinels guard nothing yet:
    /// previously guarded processes were ended by the old sentinel, or are ended now.
    pub async fn revive(&self) -> Vec<String> {
        self.revive_of(|_| true).await.0
    }

    /// Like [`Crew::revive`], for the members that `wanted` selects. Also returns why the others did not come back.
    pub async fn revive_of(&self, wanted: impl Fn(&str) -> bool) -> (Vec<String>, Vec<NotStarted>) {
        let lost: Vec<String> = self.0.lost.borrow().keys().cloned().collect();
        let members = self.0.slots.iter().enumerate();
        let members = members.filter(|(_, s)| {
            lost.contains(&s.member.name) && wanted(&s.member.name) && s.member.argv.is_some()
        });
        let members = members.map(|(i, s)| (i, s.member.clone())).collect();
        let (presences, still_lost) = Self::open(members, self.0.settings, &self.0.lost).await;
        let mut back = Vec::new();
        for (i, presence) in self.end_left(presences).await {
            let Some(slot) = self.0.slots.get(i) else {
                continue;
            };
            self.0.lost.send_modify(|lost| {
                lost.remove(&slot.member.name);
            });
            // the member may have been lost again before it was reported as back
            if let Presence::Line(line) = &presence
                && let Some(reason) = line.broken()
            {
                self.0.lost.send_modify(|lost| {
                    lost.insert(slot.member.name.clone(), reason);
                });
            }
            slot.set(presence);
            back.push(slot.member.name.clone());
        }
        back.sort();
        (
            back,
            still_lost.into_iter().map(|(_, failure)| failure).collect(),
        )
    }

    /// Ends, concurrently and through the new sentinels, the processes that the lost sentinels guarded. Returns the connections for which that
    /// succeeded; the other members stay lost.
    async fn end_left(&self, presences: Vec<(usize, Presence)>) -> Vec<(usize, Presence)> {
        let mut ending = JoinSet::new();
        for (i, presence) in presences {
            let crew = self.clone();
            ending.spawn(async move {
                let (Some(slot), Presence::Line(line)) = (crew.0.slots.get(i), &presence) else { return Some((i, presence)) };
                match slot.end_left(line).await {
                    Ok(()) => Some((i, presence)),
                    Err(error) => {
                        tracing::warn!(node = slot.member.name, %error, "processes that a lost sentinel supervised could not be ended");
                        None
                    }
                }
            });
        }
        ending.join_all().await.into_iter().flatten().collect()
    }

    /// Tries to start a second sentinel on each of these nodes. If that fails the node counts as lost, because no other program can be started there
    /// either. Returns the failures with their reasons.
    pub async fn probe_starts(&self, names: &[&str]) -> Vec<NotStarted> {
        let members =
            self.0.slots.iter().enumerate().filter(|(_, s)| {
                names.contains(&s.member.name.as_str()) && s.member.argv.is_some()
            });
        let members = members.map(|(i, s)| (i, s.member.clone())).collect();
        let limit = self.close_limit();
        let (presences, failed) = Self::open(members, self.0.settings, &self.0.lost).await;
        for (_, presence) in presences {
            if let Presence::Line(line) = presence {
                line.close(limit).await;
            }
        }
        let mut refused = Vec::new();
        for (i, failure) in failed {
            if let Some(Presence::Line(old)) =
                self.0.slots.get(i).map(|slot| slot.set(Presence::Gone))
            {
                // the old connection may be as unreachable as the node: do not wait for it
                tokio::spawn(async move { old.close(limit).await });
            }
            self.0.lost.send_modify(|lost| {
                lost.insert(failure.host.clone(), failure.reason());
            });
            refused.push(failure);
        }
        refused
    }

    fn close_limit(&self) -> Duration {
        let limit = self.0.settings.close_limit_s;
        Duration::from_secs_f64(if limit.is_finite() {
            limit.clamp(0.0, 86_400.0)
        } else {
            20.0
        })
    }

    /// Ends all sentinels, and waits for them up to a time limit. The sentinels end the processes that they guard.
    pub async fn close(&self) {
        let limit = self.close_limit();
        let mut closing = JoinSet::new();
        for slot in &self.0.slots {
            match slot.set(Presence::Gone) {
                Presence::Here(sentinel) => {
                    closing.spawn(async move {
                        // a panic there can no longer be reported to anyone
                        let _ = tokio::task::spawn_blocking(move || sentinel.end_guarded()).await;
                    });
                }
                Presence::Line(line) => {
                    closing.spawn(async move { line.close(limit).await });
                }
                Presence::Gone => {}
            }
        }
        while closing.join_next().await.is_some() {}
    }
}
