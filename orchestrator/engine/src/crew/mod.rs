//! The agent's side of the sentinels: one on every node of a site, asked side by side, lost as soon as it falls silent.
//!
//! A [`Crew`] starts the sentinels of all members at the same time and keeps their connections. Whoever waits for a run waits for
//! [`Crew::wait_lost`] as well: no launcher says reliably that a node is gone.

mod error;
mod line;
mod member;
mod typed;

pub use error::{CrewError, NotStarted};
pub use line::read_sentinel_line;
pub use member::{Member, Settings};
pub use typed::{Skew, whole};

use cvc_probe::sentinel::{Answer, Hello, Request, Sentinel};
use line::Line;
use parking_lot::Mutex;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

/// Maximum number of sentinels that are started at the same time: each start is a key exchange on this machine.
const STARTS_AT_ONCE: usize = 32;

/// Time between TERM and KILL for what a killed sentinel had guarded, seconds.
const LEFT_GRACE_S: f64 = 1.5;
/// Time limit for ending that: longer than a sentinel waits for processes to vanish.
const LEFT_LIMIT: Duration = Duration::from_secs(20);

/// The sentinels of some nodes. Cloning it is cheap, and gives the same crew. When the last clone is dropped the connections close, and
/// every sentinel ends what it guards; [`Crew::close`] waits for that.
#[derive(Clone, Debug)]
pub struct Crew(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    slots: Vec<MemberSlot>,
    lost: Arc<watch::Sender<BTreeMap<String, String>>>,
}

/// A member and its connection.
#[derive(Debug)]
struct MemberSlot {
    member: Member,
    presence: Mutex<Presence>,
    /// What its sentinel guards, by the runs' markers, because a killed sentinel cannot end it.
    guarded: Mutex<BTreeMap<String, Guarded>>,
}

/// What to end and remove of a run on a node.
#[derive(Clone, Debug)]
struct Guarded {
    dirs: Vec<PathBuf>,
    remove: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
enum Presence {
    /// This process answers.
    Here(Arc<Sentinel>),
    /// A line to another process; a lost one stays until it is replaced.
    Line(Arc<Line>),
    /// Closed.
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

    /// Notes what the sentinel is asked to guard, before its answer, which may be lost.
    fn note_guarded(&self, request: &Request) {
        if let Request::Guard {
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

    /// Ends and removes through a new sentinel what the lost one guarded, which may have been killed before it could.
    async fn end_left(&self, line: &Line) -> Result<(), CrewError> {
        let guarded = self.guarded.lock().clone();
        for (marker, Guarded { dirs, remove }) in guarded {
            let end = Request::End {
                marker: marker.clone(),
                dirs,
                grace_s: LEFT_GRACE_S,
            };
            line.ask(&self.member.name, &end, LEFT_LIMIT).await?;
            if !remove.is_empty() {
                line.ask(
                    &self.member.name,
                    &Request::Remove {
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

impl Crew {
    /// Starts the sentinels of all members, side by side.
    ///
    /// # Errors
    /// When one of them does not answer in time: all that failed, each with its message and a hint. Those that did start are ended.
    pub async fn start(members: Vec<Member>, settings: Settings) -> Result<Self, CrewError> {
        let (crew, failed) = Self::start_some(members, settings).await;
        if failed.is_empty() {
            return Ok(crew);
        }
        crew.close().await;
        Err(CrewError::Start(failed))
    }

    /// Starts the sentinels of all members, side by side; those that do not answer in time are lost, and returned with hints.
    pub async fn start_some(members: Vec<Member>, settings: Settings) -> (Self, Vec<NotStarted>) {
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
        }));
        let failed: Vec<NotStarted> = failed.into_iter().map(|(_, failure)| failure).collect();
        crew.0
            .lost
            .send_modify(|lost| lost.extend(failed.iter().map(|f| (f.host.clone(), f.reason()))));
        (crew, failed)
    }

    /// A crew of one in this process, for sites without other nodes.
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
            settings: Settings::default(),
            slots: vec![slot],
            lost: Arc::new(watch::channel(BTreeMap::new()).0),
        }))
    }

    /// Opens lines, side by side; each with the number that it was given.
    async fn open(
        members: Vec<(usize, Member)>,
        settings: Settings,
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
                // it is never closed
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
                    // only a panic ends such a task without an answer, and it must be seen
                    if let Ok(panic) = panicked.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        failed.sort_by_key(|(i, _)| *i);
        (presences, failed)
    }

    /// Names of the members, in the order that they were given in.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.0
            .slots
            .iter()
            .map(|s| s.member.name.as_str())
            .collect()
    }

    /// The hello of a member's sentinel; `None` once it is closed.
    #[must_use]
    pub fn hello(&self, name: &str) -> Option<Hello> {
        match self.slot(name).ok()?.presence() {
            Presence::Here(_) => Some(Hello::of_this_process()),
            Presence::Line(line) => Some(line.hello.clone()),
            Presence::Gone => None,
        }
    }

    /// The host name of a member's machine.
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

    /// Asks one member.
    ///
    /// # Errors
    /// When it is not of this crew, is lost (before or meanwhile), does not answer in time, or could not do it.
    pub async fn ask(
        &self,
        name: &str,
        request: Request,
        limit: Duration,
    ) -> Result<Answer, CrewError> {
        let slot = self.slot(name)?;
        slot.note_guarded(&request);
        let guards = matches!(request, Request::Guard { .. });
        let marker = if let Request::Guard { marker, .. } | Request::Unguard { marker } = &request {
            Some(marker.clone())
        } else {
            None
        };
        let answer = Self::ask_at(slot, request, limit).await;
        // what was refused is not guarded; what was not answered may be
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
        request: Request,
        limit: Duration,
    ) -> Result<Answer, CrewError> {
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

    /// Sends the same request to several members side by side; the answers are in the order of the names.
    pub async fn ask_all(
        &self,
        names: &[&str],
        request: Request,
        limit: Duration,
    ) -> Vec<(String, Result<Answer, CrewError>)> {
        self.ask_each(
            names
                .iter()
                .map(|name| ((*name).to_owned(), request.clone()))
                .collect(),
            limit,
        )
        .await
    }

    /// Sends a request to each of several members side by side; the answers are in the order of the requests.
    pub async fn ask_each(
        &self,
        questions: Vec<(String, Request)>,
        limit: Duration,
    ) -> Vec<(String, Result<Answer, CrewError>)> {
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

    /// Watches which members are lost, and why: silent for longer than [`Settings::lost_after_s`], or the connection broke.
    #[must_use]
    pub fn lost(&self) -> watch::Receiver<BTreeMap<String, String>> {
        self.0.lost.subscribe()
    }

    /// Waits until one of these is lost. Returns the first of them, and why.
    pub async fn wait_lost(&self, names: &[&str]) -> (String, String) {
        let mut lost = self.lost();
        let first = |lost: &BTreeMap<String, String>| {
            names.iter().find_map(|name| {
                lost.get(*name)
                    .map(|reason| ((*name).to_owned(), reason.clone()))
            })
        };
        loop {
            if let Some(found) = first(&lost.borrow_and_update()) {
                return found;
            }
            if lost.changed().await.is_err() {
                // the sender lives as long as this crew does
                std::future::pending::<()>().await;
            }
        }
    }

    /// Tries once to restart the sentinels of lost members. Returns the names of those that came back. They guard nothing: what was guarded
    /// there has been ended, by the old sentinel when its connection closed, or now.
    pub async fn revive(&self) -> Vec<String> {
        self.revive_of(|_| true).await.0
    }

    /// As [`Crew::revive`], of some of them; also why others did not come back.
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
            // it may have been lost again before it was reported as back
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

    /// Ends what the lost sentinels guarded through the new ones, side by side. Returns those where that succeeded; the others stay lost.
    async fn end_left(&self, presences: Vec<(usize, Presence)>) -> Vec<(usize, Presence)> {
        let mut ending = JoinSet::new();
        for (i, presence) in presences {
            let crew = self.clone();
            ending.spawn(async move {
                let (Some(slot), Presence::Line(line)) = (crew.0.slots.get(i), &presence) else { return Some((i, presence)) };
                match slot.end_left(line).await {
                    Ok(()) => Some((i, presence)),
                    Err(error) => {
                        tracing::warn!(node = slot.member.name, %error, "what a lost sentinel guarded could not be ended");
                        None
                    }
                }
            });
        }
        ending.join_all().await.into_iter().flatten().collect()
    }

    /// Tries to start a second sentinel on each of these. A node where that fails counts as lost, because nothing else can be started there
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
                // it may be as far away as the node: nobody waits for it
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

    /// Ends all sentinels, which end what they guard, and waits for them up to a time limit.
    pub async fn close(&self) {
        let limit = self.close_limit();
        let mut closing = JoinSet::new();
        for slot in &self.0.slots {
            match slot.set(Presence::Gone) {
                Presence::Here(sentinel) => {
                    closing.spawn(async move {
                        // a panic there has nobody left who would hear of it
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
