//! The spool: the directory through which controller and agent exchange messages.

use super::{
    error_tolerance::{ErrorTolerance, is_missing},
    protocol::{Event, Numbered, Orders, Request},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::below;
use cvc_core::store::{CampaignDir, CampaignLock, LineFile, StoreError, write_whole};
use cvc_os::proc::ProcessId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeSet, VecDeque},
    fs, io,
    time::{Duration, SystemTime},
};

/// Name of the agent's log, in the spool and in the directory of each run.
pub const TRACE: &str = "agent-trace.log";

/// An agent is assumed to be alive if its heartbeat file was touched within this time. The agent touches the file every three seconds; shared storage
/// may show the change late.
const FRESH: Duration = Duration::from_secs(60);

/// An error that makes the spool unusable.
pub type SpoolError = StoreError;

/// The directory through which an agent and its controller exchange messages.
#[derive(Clone, Debug)]
pub struct Spool {
    root: Utf8PathBuf,
}

impl Spool {
    /// Creates a handle of the spool at this path.
    pub fn at(root: &Utf8Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Returns the path of the spool.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// Returns the spool as a campaign's directory, which contains runs.
    pub fn campaign(&self) -> CampaignDir {
        CampaignDir::at(&self.root)
    }

    /// Returns the path of the file that names the agent's process.
    pub fn agent_file(&self) -> Utf8PathBuf {
        self.root.join("agent.json")
    }

    /// Returns the path of the file with the agent's standard error.
    pub fn log(&self) -> Utf8PathBuf {
        self.root.join("agent.log")
    }

    /// Returns the path of the agent's log.
    pub fn trace(&self) -> Utf8PathBuf {
        self.root.join(TRACE)
    }

    /// Returns the path of the file that is touched while a controller is connected.
    pub fn controller(&self) -> Utf8PathBuf {
        self.root.join("controller")
    }

    /// Returns the path of the agent's heartbeat file.
    pub fn beat(&self) -> Utf8PathBuf {
        self.root.join("beat")
    }

    /// Returns the path of the file with the events.
    pub fn events(&self) -> Utf8PathBuf {
        self.root.join("events.jsonl")
    }

    /// Returns the path of the directory with the requests.
    pub(super) fn requests(&self) -> Utf8PathBuf {
        self.root.join("in")
    }

    /// Creates the spool's directories.
    pub(super) fn make(&self) -> Result<(), SpoolError> {
        for dir in [self.requests(), self.campaign().runs()] {
            fs::create_dir_all(&dir).map_err(StoreError::io("make", &dir))?;
        }
        Ok(())
    }

    /// Takes the lock that the spool's only agent holds while it runs.
    pub(super) fn lock(&self) -> Result<CampaignLock, SpoolError> {
        CampaignLock::take_by_system(&self.root.join("agent.lock"), "cvc-node agent")
    }

    /// Returns the process of the spool's agent if it is alive. The answer is valid only on the agent's machine.
    pub fn agent(&self) -> Option<ProcessId> {
        let id: ProcessId = serde_json::from_slice(&fs::read(self.agent_file()).ok()?).ok()?;
        id.is_alive().then_some(id)
    }

    /// Returns the other machine on which an agent runs, according to its heartbeat; `None` if no agent runs on another machine. Several machines
    /// behind one login name may share the spool.
    pub fn agent_elsewhere(&self) -> Option<String> {
        let holder = self.holder().ok()?;
        let beaten = fs::metadata(self.beat()).and_then(|m| m.modified()).ok()?;
        // a heartbeat in the future, from another clock, counts as fresh
        let is_fresh = SystemTime::now().duration_since(beaten).unwrap_or_default() < FRESH;
        let is_other = cvc_core::paths::host_name().is_none_or(|me| me != holder.host);
        // after a renaming of this machine the agent's process is still here
        (is_fresh && is_other && !holder.process.is_alive()).then_some(holder.host)
    }

    /// Returns the error that no agent may be started here because an agent runs on the machine `host`.
    pub(super) fn not_here(&self, host: &str) -> SpoolError {
        let me = cvc_core::paths::host_name().unwrap_or_default();
        let what = format!(
            "one works on `{host}`, but this machine is `{me}`: the head node's name resolves to several machines; name one of them in the campaign file"
        );
        StoreError::io("start the agent of", &self.root)(io::Error::other(what))
    }

    /// Reads which agent owns the spool.
    fn holder(&self) -> Result<Holder, SpoolError> {
        read_json(&self.agent_file())
    }

    /// Reads the agent's orders.
    pub(super) fn orders(&self) -> Result<Orders, SpoolError> {
        read_json(&self.root.join("orders.json"))
    }

    /// Reads the protocol version of the controller that wrote the orders. If this version differs from the agent's own version, the rest of the
    /// orders may be unreadable.
    pub(super) fn protocol(&self) -> Result<u32, SpoolError> {
        #[derive(serde::Deserialize)]
        struct Version {
            protocol: u32,
        }
        read_json(&self.root.join("orders.json")).map(|Version { protocol }| protocol)
    }

    /// Adds a request, unless the spool already has a request of this name.
    pub fn ask(&self, name: &str, request: &Request) -> Result<(), SpoolError> {
        let path = below(&self.requests(), &format!("{name}.json"));
        if path.exists() {
            Ok(())
        } else {
            put_json(&path, request)
        }
    }

    /// Returns the names of all requests in the spool.
    pub(super) fn names(&self) -> Result<BTreeSet<String>, SpoolError> {
        let dir = self.requests();
        let entries = dir.read_dir_utf8().map_err(StoreError::io("list", &dir))?;
        Ok(entries
            .flatten()
            .filter_map(|e| e.file_name().strip_suffix(".json").map(str::to_owned))
            .collect())
    }

    /// Reads a request.
    pub(super) fn request(&self, name: &str) -> Result<Request, SpoolError> {
        read_json(&below(&self.requests(), &format!("{name}.json")))
    }

    /// Returns whether a request of this name exists.
    pub(super) fn has_request(&self, name: &str) -> bool {
        self.requests().join(format!("{name}.json")).exists()
    }

    /// Moves an unreadable request to another directory for inspection, so that a new request may use its name. Returns the new path.
    pub(super) fn put_request_aside(&self, name: &str) -> Result<Utf8PathBuf, SpoolError> {
        let (from, aside) = (
            self.requests().join(format!("{name}.json")),
            self.requests().join("unreadable"),
        );
        fs::create_dir_all(&aside).map_err(StoreError::io("make", &aside))?;
        let to = aside.join(format!("{name}.json"));
        fs::rename(&from, &to).map_err(StoreError::io("put aside", &from))?;
        Ok(to)
    }

    /// Removes a handled request.
    pub(super) fn drop_request(&self, name: &str) {
        // the request may have been removed already
        let _ = fs::remove_file(below(&self.requests(), &format!("{name}.json")));
    }
}

fn read_json<T: DeserializeOwned>(path: &Utf8Path) -> Result<T, SpoolError> {
    let text = fs::read(path).map_err(StoreError::io("read", path))?;
    serde_json::from_slice(&text).map_err(|e| StoreError::damaged(path, e.line(), e.to_string()))
}

pub(super) fn put_json<T: Serialize>(path: &Utf8Path, value: &T) -> Result<(), SpoolError> {
    let text =
        serde_json::to_vec(value).map_err(|e| StoreError::damaged(path, 0, e.to_string()))?;
    write_whole(path, &text)
}

/// The first event of a restarted agent gets the next multiple of this number, plus 1. Numbers of the earlier agent must not be reused: a controller
/// may have received events that a loss of power then removed from the log, because they were not synced.
const LIFE: u64 = 1 << 20;
/// Maximum difference between consecutive event numbers. A larger difference means that the line is damaged. Accepting its number would leave no room
/// for later numbers.
const MAX_GAP: u64 = 1 << 40;

/// The agent that owns a spool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Holder {
    /// Process of the agent, on its machine.
    #[serde(flatten)]
    pub process: ProcessId,
    /// Host name of the agent's machine.
    pub host: String,
    /// Number of the agent: higher than the numbers of the spool's earlier agents.
    pub epoch: u64,
}

/// Stops an agent from writing after another agent has taken over its spool. Locks are not enough: some file systems do not share them between
/// machines, and Slurm may start a job again while its first node is merely disconnected.
struct Fence {
    spool: Spool,
    holder: Holder,
    tolerance: ErrorTolerance,
}

impl Fence {
    /// Returns whether this agent may write; `false` while the owner of the spool cannot be read.
    fn is_open(&mut self) -> Result<bool, SpoolError> {
        match self.tolerance.tolerate(self.spool.holder())? {
            None => Ok(false),
            Some(holder) if holder == self.holder => Ok(true),
            Some(other) => {
                let what = format!(
                    "another agent has taken over, on {} (number {})",
                    other.host, other.epoch
                );
                Err(StoreError::io("write to", self.spool.events())(
                    io::Error::other(what),
                ))
            }
        }
    }
}

/// Writes the event log.
pub struct EventLog {
    lines: LineFile,
    next: u64,
    fence: Option<Fence>,
    /// Events that wait until the owner of the spool can be read again; shared storage may fail for a moment.
    held: VecDeque<(jiff::Timestamp, Event)>,
}

/// The content of an event log when it was opened.
#[derive(Debug)]
pub struct OldEvents {
    /// The readable events of the log.
    pub events: Vec<Numbered>,
    /// Description of the file's damage, if any.
    pub damage: Option<String>,
}

/// Whether waiting events were written, or still wait because it is unknown whether this agent may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldEvents {
    Written,
    Waiting,
}

/// Why a line of the log is not a valid event.
#[derive(Debug, thiserror::Error)]
enum NotAnEvent {
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    #[error("no event has the number {0}")]
    Number(u64),
}

impl EventLog {
    /// Opens the log, truncates an incomplete last line, and returns the events. Damaged lines are skipped. If a damaged line reported the end of a
    /// run, the run's directory in the spool still shows that end.
    ///
    /// # Errors
    /// The log cannot be opened, read or truncated.
    pub fn open(path: &Utf8Path) -> Result<(Self, OldEvents), SpoolError> {
        let mut events: Vec<Numbered> = Vec::new();
        let mut last = 0u64;
        let (mut lines, scan) = LineFile::open(path, false, |_, json| {
            let numbered: Numbered = serde_json::from_slice(json)?;
            if numbered.seq.saturating_sub(last) > MAX_GAP {
                return Err(NotAnEvent::Number(numbered.seq));
            }
            last = last.max(numbered.seq);
            events.push(numbered);
            Ok(())
        })?;
        if scan.bytes == 0
            && let Some(directory) = path.parent()
        {
            // the log's name must survive a loss of power too, or the next agent would number its events from the beginning
            cvc_os::disk::sync_directory("events.jsonl.sync-directory", directory.as_std_path())
                .map_err(StoreError::io("sync the directory of", path))?;
        }
        let damage = scan.undamaged(path).err().map(|error| error.to_string());
        if damage.is_some() {
            lines.go_on_behind_damage()?;
        }
        let next = if events.is_empty() {
            1
        } else {
            (last / LIFE + 1) * LIFE + 1
        };
        Ok((
            Self {
                lines,
                next,
                fence: None,
                held: VecDeque::new(),
            },
            OldEvents { events, damage },
        ))
    }

    /// Takes over the spool: from now on no earlier agent writes to it. If the owner of the spool cannot be read, tries again for `tolerance`.
    pub(super) fn take_over(
        &mut self,
        spool: &Spool,
        process: ProcessId,
        tolerance: Duration,
    ) -> Result<(), SpoolError> {
        let epoch = match spool.holder() {
            Ok(before) => before.epoch,
            // invalid content was written by no live agent
            Err(StoreError::Damaged { .. }) => 0,
            Err(error) if is_missing(&error) => 0,
            // continuing would use the owner's number twice
            Err(error) => return Err(error),
        } + 1;
        let holder = Holder {
            process,
            host: cvc_core::paths::host_name().unwrap_or_default(),
            epoch,
        };
        put_json(&spool.agent_file(), &holder)?;
        self.fence = Some(Fence {
            spool: spool.clone(),
            holder,
            tolerance: ErrorTolerance::of(tolerance),
        });
        Ok(())
    }

    /// Checks whether this agent may still write, and if so writes the waiting events.
    ///
    /// # Errors
    /// Another agent has taken over the spool, the spool is missing, its owner could not be read for too long, or events cannot be written.
    pub(super) fn check_fence(&mut self) -> Result<HeldEvents, SpoolError> {
        if !self.fence.as_mut().map_or(Ok(true), Fence::is_open)? {
            return Ok(HeldEvents::Waiting);
        }
        while let Some((at, event)) = self.held.front().cloned() {
            self.append(at, event)?;
            self.held.pop_front();
        }
        Ok(HeldEvents::Written)
    }

    /// Returns whether events wait until it is known that this agent may write.
    pub(super) fn holds_events(&self) -> bool {
        !self.held.is_empty()
    }

    /// Appends an event. Events that a controller acts upon are synced; all others are dropped if they cannot be written. While it is unknown whether
    /// this agent may write, events wait. After a failure the log is unchanged.
    ///
    /// # Errors
    /// An event that must not be lost cannot be written.
    pub fn write(&mut self, event: Event) -> Result<(), SpoolError> {
        let now = cvc_core::clock::wall();
        // earlier events may wait: this one must not overtake them
        if (is_lasting(&event) || self.holds_events()) && self.check_fence()? == HeldEvents::Waiting
        {
            self.held.push_back((now, event));
            return Ok(());
        }
        self.append(now, event)
    }

    fn append(&mut self, at: jiff::Timestamp, event: Event) -> Result<(), SpoolError> {
        let lasting = is_lasting(&event);
        let numbered = Numbered {
            seq: self.next,
            at,
            event,
        };
        let json = serde_json::to_vec(&numbered)
            .map_err(|e| StoreError::damaged("events.jsonl", 0, e.to_string()))?;
        match self.lines.append(json, lasting) {
            Ok(_) => self.next += 1,
            // a full disk must not end runs because of events for display only; the partial line is truncated
            Err(_) if !lasting => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns whether a controller acts upon the event.
fn is_lasting(event: &Event) -> bool {
    !matches!(event, Event::Stage { .. } | Event::Note { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(old: &OldEvents) -> Vec<u64> {
        old.events.iter().map(|e| e.seq).collect()
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn an_agent_on_another_machine_is_none_here_and_is_not_dead() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool::at(Utf8Path::from_path(dir.path()).expect("UTF-8"));
        let me = ProcessId::of(std::process::id()).expect("this process");
        // another process that now has the same number
        let other = ProcessId {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        let hold = |process, host: &str| {
            put_json(
                &spool.agent_file(),
                &Holder {
                    process,
                    host: host.into(),
                    epoch: 1,
                },
            )
            .expect("writes")
        };
        hold(other, "login2.invalid");
        assert_eq!(spool.agent_elsewhere(), None, "there is no heartbeat");
        let beat = fs::File::create(spool.beat()).expect("a heartbeat");
        assert_eq!(
            (spool.agent(), spool.agent_elsewhere().as_deref()),
            (None, Some("login2.invalid"))
        );
        let error = crate::start("/nonexistent/cvc-node".into(), spool.root())
            .expect_err("not a second one")
            .to_string();
        assert!(
            error.contains("one works on `login2.invalid`")
                && error.contains("resolves to several machines"),
            "{error}"
        );
        // this machine, with another host name
        hold(me, "login2.invalid");
        assert_eq!((spool.agent(), spool.agent_elsewhere()), (Some(me), None));
        hold(other, &cvc_core::paths::host_name().expect("a name"));
        assert_eq!(spool.agent_elsewhere(), None, "it is dead");
        hold(other, "login2.invalid");
        beat.set_modified(SystemTime::now() - 2 * FRESH)
            .expect("a time");
        assert_eq!(spool.agent_elsewhere(), None, "its machine is gone");
    }

    #[test]
    fn events_wait_while_the_owner_of_the_spool_is_unknown() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool::at(Utf8Path::from_path(dir.path()).expect("UTF-8"));
        let me = ProcessId::of(std::process::id()).expect("this process");
        let (mut log, _) = EventLog::open(&spool.events()).expect("opens");
        log.take_over(&spool, me, LONG).expect("takes over");
        // unreadable, but neither missing nor owned by another agent
        let away = spool.root().join("away");
        fs::rename(spool.agent_file(), &away).expect("renames");
        fs::create_dir(spool.agent_file()).expect("makes");
        log.write(Event::NodeBack { node: "one".into() })
            .expect("waits");
        log.write(note("two")).expect("waits behind it");
        assert!(log.holds_events());
        assert_eq!(
            log.check_fence().expect("is tolerated"),
            HeldEvents::Waiting
        );
        assert_eq!(fs::read_to_string(spool.events()).expect("reads"), "");
        fs::remove_dir(spool.agent_file()).expect("removes");
        fs::rename(&away, spool.agent_file()).expect("renames");
        log.write(Event::NodeBack {
            node: "three".into(),
        })
        .expect("writes");
        assert!(!log.holds_events());
        assert_eq!(
            numbers(&EventLog::open(&spool.events()).expect("opens").1),
            [1, 2, 3]
        );
        // without a tolerance
        log.take_over(&spool, me, Duration::ZERO)
            .expect("takes over");
        fs::remove_file(spool.agent_file()).expect("removes");
        fs::create_dir(spool.agent_file()).expect("makes");
        log.write(Event::NodeBack {
            node: "four".into(),
        })
        .expect_err("for too long");
    }

    fn note(what: &str) -> Event {
        Event::Note { what: what.into() }
    }

    #[test]
    fn a_write_that_falls_short_leaves_a_log_that_another_agent_opens() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8Path::from_path(dir.path())
            .expect("UTF-8")
            .join("short-events.jsonl");
        let (mut log, _) = EventLog::open(&path).expect("opens");
        log.write(note("one")).expect("writes");
        for bytes in [0, 1, 20, 60] {
            fail::cfg(
                "short-events.jsonl.append",
                &format!("1*return(short:{bytes})"),
            )
            .expect("a fault");
            log.write(Event::NodeBack {
                node: "lost".into(),
            })
            .expect_err("no space");
            fail::cfg(
                "short-events.jsonl.append",
                &format!("1*return(short:{bytes})"),
            )
            .expect("a fault");
            log.write(note("lost"))
                .expect("what is only shown may be lost");
            // the last event of an agent that ends because it cannot continue
            log.write(Event::Closed {
                reason: "no space".into(),
            })
            .expect("writes");
        }
        let (_, old) = EventLog::open(&path).expect("opens");
        assert_eq!((numbers(&old), old.damage), (vec![1, 2, 3, 4, 5], None));
    }

    #[test]
    fn an_agent_whose_spool_was_taken_over_or_removed_writes_nothing_more() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool::at(Utf8Path::from_path(dir.path()).expect("UTF-8"));
        let me = || ProcessId::of(std::process::id()).expect("this process");
        let end = || Event::Closed { reason: "r".into() };
        let (mut first, _) = EventLog::open(&spool.events()).expect("opens");
        first.take_over(&spool, me(), LONG).expect("takes over");
        first.write(end()).expect("writes");
        // on another machine, where the first agent's lock is invisible
        let (mut second, _) = EventLog::open(&spool.events()).expect("opens");
        second.take_over(&spool, me(), LONG).expect("takes over");
        let error = first.write(end()).expect_err("fenced off").to_string();
        assert!(error.contains("another agent has taken over"), "{error}");
        second.write(end()).expect("writes");
        assert_eq!(
            EventLog::open(&spool.events())
                .expect("opens")
                .1
                .events
                .len(),
            2
        );
        fs::remove_file(spool.agent_file()).expect("removes");
        second.write(end()).expect_err("the spool is gone");
    }

    #[test]
    fn a_damaged_line_is_skipped_and_the_log_continues() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8Path::from_path(dir.path())
            .expect("UTF-8")
            .join("events.jsonl");
        let (mut log, _) = EventLog::open(&path).expect("opens");
        for what in ["one", "two", "three"] {
            log.write(note(what)).expect("writes");
        }
        let text = fs::read_to_string(&path).expect("reads");
        fs::write(&path, text.replace("two", "TWO")).expect("writes");
        let (mut log, old) = EventLog::open(&path).expect("opens");
        assert_eq!(numbers(&old), [1, 3]);
        assert!(
            old.damage
                .is_some_and(|d| d.contains("line 2") && d.contains("checksum"))
        );
        log.write(note("four")).expect("writes");
        assert_eq!(
            numbers(&EventLog::open(&path).expect("opens").1),
            [1, 3, LIFE + 1]
        );
    }

    #[test]
    fn a_number_that_no_event_has_is_damage() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8Path::from_path(dir.path())
            .expect("UTF-8")
            .join("events.jsonl");
        let line = |seq: u64| {
            format!(
                "{{\"seq\":{seq},\"at\":\"2026-01-02T03:04:05Z\",\"event\":\"note\",\"what\":\"w\"}}\n"
            )
        };
        fs::write(&path, line(1) + &line(u64::MAX)).expect("writes");
        let (mut log, old) = EventLog::open(&path).expect("opens");
        assert_eq!(numbers(&old), [1]);
        assert!(
            old.damage
                .is_some_and(|d| d.contains("no event has the number"))
        );
        log.write(note("two")).expect("writes");
        assert_eq!(
            numbers(&EventLog::open(&path).expect("opens").1),
            [1, LIFE + 1]
        );
    }

    #[test]
    fn events_are_numbered_on_after_a_torn_line_and_requests_are_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool::at(Utf8Path::from_path(dir.path()).expect("UTF-8"));
        spool.make().expect("makes");
        let (mut log, _) = EventLog::open(&spool.events()).expect("opens");
        log.write(Event::Note { what: "one".into() })
            .expect("writes");
        log.write(Event::Closed {
            reason: "two".into(),
        })
        .expect("writes");
        let mut text = fs::read(spool.events()).expect("reads");
        text.extend_from_slice(b"{\"seq\":3,\"at\"");
        fs::write(spool.events(), &text).expect("writes");
        let (mut log, old) = EventLog::open(&spool.events()).expect("opens");
        assert_eq!(numbers(&old), [1, 2]);
        log.write(Event::Note {
            what: "three".into(),
        })
        .expect("writes");
        assert_eq!(
            numbers(&EventLog::open(&spool.events()).expect("opens").1),
            [1, 2, LIFE + 1]
        );

        spool.ask("a", &Request::Close).expect("asks");
        spool
            .ask(
                "a",
                &Request::Stop {
                    run: cvc_core::ids::RunId::of(b"r"),
                },
            )
            .expect("asks");
        assert!(matches!(spool.request("a").expect("reads"), Request::Close));
        assert_eq!(
            spool
                .names()
                .expect("lists")
                .into_iter()
                .collect::<Vec<_>>(),
            ["a"]
        );
    }
}
