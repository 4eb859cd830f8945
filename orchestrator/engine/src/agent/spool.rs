//! The spool: the directory through which controller and agent exchange messages.

use super::protocol::{Event, Numbered, Orders, Request};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::{CampaignDir, CampaignLock, StoreError, write_whole};
use cvc_probe::proc::ProcessId;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
};

/// Name of the agent's log, in the spool and in the directory of each run.
pub const TRACE: &str = "agent-trace.log";

/// The spool cannot be used.
pub type SpoolError = StoreError;

/// The directory of an agent.
#[derive(Clone, Debug)]
pub struct Spool {
    root: Utf8PathBuf,
}

impl Spool {
    /// The spool at this path.
    pub fn at(root: &Utf8Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Its path.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// The spool as a campaign's directory, which holds runs.
    pub fn campaign(&self) -> CampaignDir {
        CampaignDir::at(&self.root)
    }

    /// File with the agent's process.
    pub fn agent_file(&self) -> Utf8PathBuf {
        self.root.join("agent.json")
    }

    /// File with the agent's standard error.
    pub fn log(&self) -> Utf8PathBuf {
        self.root.join("agent.log")
    }

    /// The agent's log.
    pub fn trace(&self) -> Utf8PathBuf {
        self.root.join(TRACE)
    }

    /// File that is touched while a controller is there.
    pub fn controller(&self) -> Utf8PathBuf {
        self.root.join("controller")
    }

    /// File that the agent touches regularly.
    pub fn beat(&self) -> Utf8PathBuf {
        self.root.join("beat")
    }

    /// File with the events.
    pub fn events(&self) -> Utf8PathBuf {
        self.root.join("events.jsonl")
    }

    fn requests(&self) -> Utf8PathBuf {
        self.root.join("in")
    }

    /// Makes its directories.
    pub(super) fn make(&self) -> Result<(), SpoolError> {
        for dir in [self.requests(), self.campaign().runs()] {
            fs::create_dir_all(&dir).map_err(StoreError::io("make", &dir))?;
        }
        Ok(())
    }

    /// Lock that the spool's only agent holds while it lives.
    pub(super) fn lock(&self) -> Result<CampaignLock, SpoolError> {
        CampaignLock::take(&self.root.join("agent.lock"))
    }

    /// Whether an agent is alive; only meaningful on the machine where it runs.
    pub fn agent(&self) -> Option<ProcessId> {
        let id: ProcessId = serde_json::from_slice(&fs::read(self.agent_file()).ok()?).ok()?;
        id.is_alive().then_some(id)
    }

    /// Reads the agent's orders.
    pub(super) fn orders(&self) -> Result<Orders, SpoolError> {
        read_json(&self.root.join("orders.json"))
    }

    /// The protocol of the controller that wrote the orders, which may be so different that they cannot be read otherwise.
    pub(super) fn protocol(&self) -> Result<u32, SpoolError> {
        #[derive(serde::Deserialize)]
        struct Version {
            protocol: u32,
        }
        read_json(&self.root.join("orders.json")).map(|Version { protocol }| protocol)
    }

    /// Adds a request. An existing one of the same name is kept.
    pub fn ask(&self, name: &str, request: &Request) -> Result<(), SpoolError> {
        let path = self.requests().join(format!("{name}.json"));
        if path.exists() { Ok(()) } else { put_json(&path, request) }
    }

    /// Names of the present requests, in their order.
    pub(super) fn names(&self) -> Result<BTreeSet<String>, SpoolError> {
        let dir = self.requests();
        let entries = dir.read_dir_utf8().map_err(StoreError::io("list", &dir))?;
        Ok(entries.flatten().filter_map(|e| e.file_name().strip_suffix(".json").map(str::to_owned)).collect())
    }

    /// Reads a request.
    pub(super) fn request(&self, name: &str) -> Result<Request, SpoolError> {
        read_json(&self.requests().join(format!("{name}.json")))
    }

    /// Removes handled requests.
    pub(super) fn drop_request(&self, name: &str) {
        // already gone is fine
        let _ = fs::remove_file(self.requests().join(format!("{name}.json")));
    }
}

fn read_json<T: DeserializeOwned>(path: &Utf8Path) -> Result<T, SpoolError> {
    let text = fs::read(path).map_err(StoreError::io("read", path))?;
    serde_json::from_slice(&text).map_err(|e| StoreError::damaged(path, e.line(), e.to_string()))
}

pub(super) fn put_json<T: Serialize>(path: &Utf8Path, value: &T) -> Result<(), SpoolError> {
    let text = serde_json::to_vec(value).map_err(|e| StoreError::damaged(path, 0, e.to_string()))?;
    write_whole(path, &text)
}

/// Writes events.
pub(super) struct EventLog {
    path: Utf8PathBuf,
    file: File,
    next: u64,
}

impl EventLog {
    /// Opens the log, cuts off a torn last line, and returns its events.
    pub fn open(path: &Utf8Path) -> Result<(Self, Vec<Numbered>), SpoolError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(StoreError::io("open", path))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(StoreError::io("read", path))?;
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let mut events = Vec::new();
        for (number, line) in text[..whole].split(|b| *b == b'\n').filter(|l| !l.is_empty()).enumerate() {
            let event: Numbered = serde_json::from_slice(line).map_err(|e| StoreError::damaged(path, number + 1, e.to_string()))?;
            events.push(event);
        }
        file.set_len(whole as u64).map_err(StoreError::io("cut the torn last line of", path))?;
        file.seek(SeekFrom::Start(whole as u64)).map_err(StoreError::io("seek in", path))?;
        let next = events.last().map_or(1, |e| e.seq + 1);
        Ok((Self { path: path.to_owned(), file, next }, events))
    }

    /// Appends an event; those that a controller acts upon are synced.
    pub fn write(&mut self, event: Event) -> Result<(), SpoolError> {
        let lasting = !matches!(event, Event::Stage { .. } | Event::Note { .. });
        let numbered = Numbered { seq: self.next, at: jiff::Timestamp::now(), event };
        let mut line = serde_json::to_vec(&numbered).map_err(|e| StoreError::damaged(&self.path, 0, e.to_string()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(StoreError::io("append to", &self.path))?;
        if lasting {
            self.file.sync_data().map_err(StoreError::io("sync", &self.path))?;
        }
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_on_after_a_torn_line_and_requests_are_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool::at(Utf8Path::from_path(dir.path()).expect("UTF-8"));
        spool.make().expect("makes");
        let (mut log, _) = EventLog::open(&spool.events()).expect("opens");
        log.write(Event::Note { what: "one".into() }).expect("writes");
        log.write(Event::Closed { reason: "two".into() }).expect("writes");
        let mut text = fs::read(spool.events()).expect("reads");
        text.extend_from_slice(b"{\"seq\":3,\"at\"");
        fs::write(spool.events(), &text).expect("writes");
        let (mut log, events) = EventLog::open(&spool.events()).expect("opens");
        assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2]);
        log.write(Event::Note { what: "three".into() }).expect("writes");
        assert_eq!(EventLog::open(&spool.events()).expect("opens").1.len(), 3);

        spool.ask("a", &Request::Close).expect("asks");
        spool.ask("a", &Request::Stop { run: cvc_core::ids::RunId::of(b"r") }).expect("asks");
        assert!(matches!(spool.request("a").expect("reads"), Request::Close));
        assert_eq!(spool.names().expect("lists").into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
