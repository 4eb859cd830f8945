//! The relay between a controller's connection and a spool: requests in, events out, as long as the connection lasts.

use super::{
    protocol::{Numbered, Request},
    spool::Spool,
    wake::{Changes, GROWTH, LastChange, Pace, wait},
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

/// Delay between checks for new events that the kernel does not tell of: those that an agent on another machine writes.
const PACE: Pace = Pace {
    shortest: Duration::from_millis(5),
    longest: Duration::from_millis(250),
};
/// The same where the kernel tells of them: it may have lost one.
const TICK: Duration = Duration::from_secs(1);
/// Delay between touches of the file that shows that a controller is there, and between heartbeats to it.
const ALIVE: Duration = Duration::from_secs(2);

/// A named request, as it comes over the connection.
#[derive(Debug, Serialize, Deserialize)]
pub struct Named {
    /// Its name: each name is carried out once.
    pub name: String,
    /// The request.
    pub request: Request,
}

/// Messages of the relay itself, between events.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "relay", rename_all = "kebab-case")]
pub enum RelayMessage {
    /// It is alive; and whether an agent is alive, if known.
    Alive {
        /// `None` where the agent is on another machine.
        agent: Option<bool>,
        /// Time since the agent's last heartbeat, seconds.
        silent_s: f64,
        /// Number of the last event in the spool; all that can be read were sent before.
        #[serde(default)]
        last: u64,
    },
    /// A request is in the spool, and needs not be sent again.
    Written {
        /// Name of the request.
        name: String,
    },
    /// A request could not be written to the spool.
    Refused {
        /// Name of the request.
        name: String,
        /// Why.
        problem: String,
    },
}

/// What a line of the relay means.
#[derive(Debug)]
pub enum RelayLine {
    /// An event of the agent.
    Event(Box<Numbered>),
    /// The relay's own message.
    Message(RelayMessage),
    /// An event that was damaged.
    Damaged,
    /// Nothing: a banner, or a part of something.
    Noise,
}

/// Reads a line of the relay.
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

/// Relays until standard input ends. Sends the events after number `from`, old ones first.
///
/// # Errors
/// When the spool does not exist, or the connection is gone.
pub fn attach(root: &Utf8Path, from: u64, agent_is_here: bool) -> Result<(), StoreError> {
    // a byte for each request; its end is that of standard input
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
                say(&answer);
                // a full buffer wakes it as well
                let _ = asked.write(b".");
            }
        })
    };
    let changes = Changes::of(root, GROWTH).filter(|_| agent_is_here);
    let mut active = Instant::now();
    loop {
        while relay.tell(&mut io::stdout().lock())? {
            active = Instant::now();
        }
        if let Some(alive) =
            relay.beat(|spool| if agent_is_here { is_alive(spool) } else { None })?
            && !say(&alive)
        {
            break;
        }
        let pause = if changes.is_some() {
            TICK
        } else {
            PACE.delay(active.elapsed())
        };
        match wait_for_news(&mut requests, changes.as_ref(), pause)
            .map_err(StoreError::io("wait for changes in", root))?
        {
            Woken::Closed => break,
            Woken::Asked => active = Instant::now(),
            Woken::Other => {}
        }
    }
    // it waits for input that will never come
    drop(reader);
    Ok(())
}

/// Whether an agent is alive; unknown where it works on another machine with the same spool.
fn is_alive(spool: &Spool) -> Option<bool> {
    let is_here = spool.agent().is_some();
    (is_here || spool.agent_elsewhere().is_none()).then_some(is_here)
}

/// A relay without its connection.
pub struct Relay {
    spool: Spool,
    follow: Follow,
    agent: LastChange,
    /// When it sent its last heartbeat.
    beaten: Option<Instant>,
}

impl Relay {
    /// A relay of a spool that sends the events after number `from`.
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

    /// Puts a request into a spool. Returns the answer; `None` if the line is no request.
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

    /// Sends new events. Returns whether there were any.
    ///
    /// # Errors
    /// When they cannot be read or sent.
    pub fn tell(&mut self, to: &mut impl Write) -> Result<bool, StoreError> {
        let path = self.spool.events();
        self.follow
            .tell(&path, to)
            .map_err(StoreError::io("tell", &path))
    }

    /// Shows the agent that a controller is there, if it is time to. Returns the heartbeat for the controller then; `is_alive` tells
    /// whether the agent is, if that can be known.
    ///
    /// # Errors
    /// When the spool cannot be written.
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

/// Why a wait ended.
enum Woken {
    /// Standard input has ended.
    Closed,
    /// There was a request.
    Asked,
    /// Something changed, or the time is over.
    Other,
}

/// Waits for a request, a change or the end of standard input, at most this long.
fn wait_for_news(
    requests: &mut UnixStream,
    changes: Option<&Changes>,
    pause: Duration,
) -> io::Result<Woken> {
    if !wait(
        requests,
        changes,
        PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX),
    )? {
        return Ok(Woken::Other);
    }
    match requests.read(&mut [0; 512]) {
        Ok(0) => Ok(Woken::Closed),
        Ok(_) => Ok(Woken::Asked),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Woken::Other),
        Err(e) => Err(e),
    }
}

/// Writes a line to the controller. Returns whether that succeeded.
fn say<T: Serialize>(what: &T) -> bool {
    let Ok(mut line) = serde_json::to_vec(what) else {
        return true;
    };
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).is_ok()
}

/// Reads a growing file by whole lines. Those that are damaged are left out: their numbers tell that they are missing.
struct Follow {
    offset: u64,
    /// Events up to this one are not wanted.
    from: u64,
    /// Number of the last event, and how many lines behind it are damaged.
    seen: u64,
    damaged: u64,
    partial: Vec<u8>,
}

impl Follow {
    /// Number of the last event, also if its line is damaged.
    fn last(&self) -> u64 {
        self.seen.saturating_add(self.damaged)
    }

    /// Tells what is new. Returns whether anything was.
    fn tell(&mut self, path: &Utf8Path, out: &mut impl Write) -> io::Result<bool> {
        let length = match std::fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            // the agent has not started
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        if length < self.offset {
            // a new agent has cut off a line that was torn, of which the beginning was read: from the beginning
            (self.offset, self.partial, self.damaged) = (0, Vec::new(), 0);
        }
        if length <= self.offset {
            return Ok(false);
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
        Ok(true)
    }
}
