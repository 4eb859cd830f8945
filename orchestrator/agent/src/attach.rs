//! The relay between a controller's connection and a spool: while the connection lasts, it stores requests and sends events.

use super::{
    protocol::{Numbered, Request},
    spool::Spool,
    wake::{Awaited, GROWTH, LastChange, PollInterval, WakeChanges, wait},
};
use camino::Utf8Path;
use cvc_core::store::{
    StoreError,
    line_file::{Sum, check_sum},
};
use nix::poll::PollTimeout;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufRead, Read, Seek, SeekFrom, Write},
    os::unix::net::UnixStream,
    time::Duration,
};
use tokio::time::Instant;

/// Interval between checks for new events that the kernel does not announce because an agent on another machine writes them.
const POLL_INTERVAL: PollInterval = PollInterval {
    shortest: Duration::from_millis(5),
    longest: Duration::from_millis(250),
};
/// Interval between additional checks for new events if the kernel announces them: the kernel may lose an announcement.
const TICK: Duration = Duration::from_secs(1);
/// Interval between touches of the file that shows a controller's presence to the agent, and between heartbeats to the controller.
const ALIVE: Duration = Duration::from_secs(2);

/// A request with its name, as sent over the connection.
#[derive(Debug, Serialize, Deserialize)]
pub struct Named {
    /// Name of the request; a request is carried out once per name.
    pub name: String,
    /// The request.
    pub request: Request,
}

/// A message of the relay itself, sent between events.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "relay", rename_all = "kebab-case")]
pub enum RelayMessage {
    /// A heartbeat of the relay, with the state of the agent.
    Alive {
        /// Whether an agent is alive; `None` if the agent is on another machine.
        agent: Option<bool>,
        /// Time since the agent's last heartbeat, seconds.
        silent_s: f64,
        /// Number of the last event in the spool. All readable events up to it were sent before this message.
        #[serde(default)]
        last: u64,
    },
    /// A request was stored in the spool, and need not be sent again.
    Written {
        /// Name of the request.
        name: String,
    },
    /// A request could not be written to the spool.
    Refused {
        /// Name of the request.
        name: String,
        /// The reason.
        problem: String,
    },
}

/// The content of a line from the relay.
#[derive(Debug)]
pub enum RelayLine {
    /// An event of the agent.
    Event(Box<Numbered>),
    /// The relay's own message.
    Message(RelayMessage),
    /// A damaged event.
    Damaged,
    /// No message, but a login banner or a fragment.
    Noise,
}

/// Parses a line from the relay.
pub fn read_relay_line(line: &[u8]) -> RelayLine {
    let numbered = serde_json::from_slice::<Numbered>(line)
        .ok()
        .filter(|_| check_sum(line.trim_ascii_end()) != Sum::Wrong);
    if let Some(numbered) = numbered {
        RelayLine::Event(Box::new(numbered))
    } else if let Ok(message) = serde_json::from_slice(line) {
        RelayLine::Message(message)
    } else if line.starts_with(b"{\"seq\":") {
        RelayLine::Damaged
    } else {
        RelayLine::Noise
    }
}

/// Relays until standard input ends. Sends the events with numbers after `from`, beginning with the oldest.
///
/// # Errors
/// The spool does not exist, or the connection is lost.
pub fn attach(root: &Utf8Path, from: u64, agent_is_here: bool) -> Result<(), StoreError> {
    // one byte wakes the main loop for each request; the stream ends when standard input ends
    let (mut requests, asked) =
        UnixStream::pair().map_err(StoreError::io("wait for requests to", root))?;
    requests
        .set_nonblocking(true)
        .map_err(StoreError::io("wait for requests to", root))?;
    let mut relay = Relay::new(root, from);
    let reader = {
        let (spool, mut asked) = (relay.spool.clone(), asked);
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                let Some(answer) = Relay::take(&spool, line.as_bytes()) else {
                    continue;
                };
                let _ = say(&answer);
                // if the buffer is full, the main loop is already woken
                let _ = asked.write(b".");
            }
        })
    };
    let changes = WakeChanges::of(root, GROWTH).filter(|_| agent_is_here);
    let mut active = Instant::now();
    loop {
        while relay.send_new(&mut io::stdout().lock())? == NewEvents::Sent {
            active = Instant::now();
        }
        if let Some(alive) =
            relay.beat(|spool| if agent_is_here { is_alive(spool) } else { None })?
            && say(&alive).is_err()
        {
            break;
        }
        let pause = if changes.is_some() {
            TICK
        } else {
            POLL_INTERVAL.delay(active.elapsed())
        };
        match wait_for_news(&mut requests, changes.as_ref(), pause)
            .map_err(StoreError::io("wait for changes in", root))?
        {
            Woken::Closed => break,
            Woken::Asked => active = Instant::now(),
            Woken::Other => {}
        }
    }
    // dropped, not joined: the reader thread may wait for input that never comes
    drop(reader);
    Ok(())
}

/// Returns whether an agent is alive; `None` if it runs on another machine that shares the spool.
fn is_alive(spool: &Spool) -> Option<bool> {
    let is_here = spool.agent().is_some();
    (is_here || spool.agent_elsewhere().is_none()).then_some(is_here)
}

/// A relay, independent of its connection.
pub struct Relay {
    spool: Spool,
    follow: Follow,
    agent: LastChange,
    /// Time of the relay's last heartbeat; `None` before the first.
    beaten: Option<Instant>,
}

impl Relay {
    /// Creates a relay of this spool. It sends the events with numbers after `from`.
    pub fn new(root: &Utf8Path, from: u64) -> Self {
        let follow = Follow {
            offset: 0,
            from,
            seen: 0,
            damaged: 0,
            partial: Vec::new(),
        };
        Self {
            spool: Spool::at(root),
            follow,
            agent: LastChange::new(Instant::now()),
            beaten: None,
        }
    }

    /// Stores the request in this line in the spool. Returns the answer; `None` if the line is not a request.
    pub fn take(spool: &Spool, line: &[u8]) -> Option<RelayMessage> {
        let Named { name, request } = serde_json::from_slice(line).ok()?;
        Some(match spool.ask(&name, &request) {
            Ok(()) => RelayMessage::Written { name },
            Err(error) => RelayMessage::Refused {
                name,
                problem: error.to_string(),
            },
        })
    }

    /// Sends the next part of the new events.
    ///
    /// # Errors
    /// The events cannot be read or sent.
    pub fn send_new(&mut self, to: &mut impl Write) -> Result<NewEvents, StoreError> {
        let path = self.spool.events();
        self.follow
            .send_new(&path, to)
            .map_err(StoreError::io("send", &path))
    }

    /// Touches the file that shows the controller's presence to the agent, if due, and then returns the heartbeat for the controller. `is_alive` is
    /// the state of the agent, if known.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn beat(
        &mut self,
        is_alive: impl FnOnce(&Spool) -> Option<bool>,
    ) -> Result<Option<RelayMessage>, StoreError> {
        let now = Instant::now();
        if self
            .beaten
            .is_some_and(|at| now.duration_since(at) <= ALIVE)
        {
            return Ok(None);
        }
        self.beaten = Some(now);
        let controller = self.spool.controller();
        std::fs::write(&controller, b"").map_err(StoreError::io("write", &controller))?;
        self.agent.look(
            std::fs::metadata(self.spool.beat())
                .and_then(|m| m.modified())
                .ok(),
            now,
        );
        let silent_s = self.agent.age(now).as_secs_f64();
        Ok(Some(RelayMessage::Alive {
            agent: is_alive(&self.spool),
            silent_s,
            last: self.follow.last(),
        }))
    }
}

/// Whether unsent events existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewEvents {
    /// Some existed, and at least a part of them was sent.
    Sent,
    /// There were none.
    None,
}

/// Why a wait ended.
enum Woken {
    /// Standard input has ended.
    Closed,
    /// A request arrived.
    Asked,
    /// The event file changed, or the time is over.
    Other,
}

/// Waits until a request arrives, the event file changes, standard input ends, or `pause` is over.
fn wait_for_news(
    requests: &mut UnixStream,
    changes: Option<&WakeChanges>,
    pause: Duration,
) -> io::Result<Woken> {
    let limit = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
    if wait(requests, changes, limit)? == Awaited::Change {
        return Ok(Woken::Other);
    }
    match requests.read(&mut [0; 512]) {
        Ok(0) => Ok(Woken::Closed),
        Ok(_) => Ok(Woken::Asked),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Woken::Other),
        Err(e) => Err(e),
    }
}

/// Writes a message to the controller, as one line of JSON.
fn say<T: Serialize>(what: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Reads complete lines of a growing event file. Damaged lines are skipped; gaps in the numbers of events show where.
struct Follow {
    offset: u64,
    /// Events with numbers up to this one are skipped.
    from: u64,
    /// Number of the last event, and the number of damaged lines after it.
    seen: u64,
    damaged: u64,
    partial: Vec<u8>,
}

impl Follow {
    /// Returns the number of the last event, even if its line is damaged.
    fn last(&self) -> u64 {
        self.seen.saturating_add(self.damaged)
    }

    /// Sends the next part of the new lines.
    fn send_new(&mut self, path: &Utf8Path, out: &mut impl Write) -> io::Result<NewEvents> {
        let length = match std::fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            // the agent has not started yet
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(NewEvents::None),
            Err(e) => return Err(e),
        };
        if length < self.offset {
            // a new agent has truncated an incomplete line that was partly read here: restart from the beginning
            (self.offset, self.partial, self.damaged) = (0, Vec::new(), 0);
        }
        if length <= self.offset {
            return Ok(NewEvents::None);
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        file.take(4 << 20).read_to_end(&mut new)?;
        self.offset += new.len() as u64;
        self.partial.extend_from_slice(&new);
        let whole = self
            .partial
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let partial = std::mem::take(&mut self.partial);
        for line in partial[..whole].split_inclusive(|b| *b == b'\n') {
            #[derive(Deserialize)]
            struct Seq {
                seq: u64,
            }
            let seq = serde_json::from_slice::<Seq>(line)
                .ok()
                .filter(|_| check_sum(line.trim_ascii_end()) != Sum::Wrong);
            let Some(Seq { seq }) = seq else {
                self.damaged += 1;
                continue;
            };
            (self.seen, self.damaged) = (self.seen.max(seq), 0);
            if seq > self.from {
                out.write_all(line)?;
                self.from = seq;
            }
        }
        out.flush()?;
        self.partial = partial[whole..].to_vec();
        Ok(NewEvents::Sent)
    }
}
