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
    time::{Duration, Instant},
};

/// Delay between checks for new events that the kernel does not tell of: those that an agent on another machine writes.
const PACE: Pace = Pace { shortest: Duration::from_millis(5), longest: Duration::from_millis(250) };
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
    let numbered = serde_json::from_slice::<Numbered>(line).ok().filter(|_| check_sum(line.trim_ascii_end()) != Sum::Wrong);
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
    let spool = Spool::at(root);
    // a byte for each request; its end is that of standard input
    let (mut requests, asked) = UnixStream::pair().map_err(StoreError::io("wait for requests to", root))?;
    requests.set_nonblocking(true).map_err(StoreError::io("wait for requests to", root))?;
    let reader = {
        let (spool, mut asked) = (spool.clone(), asked);
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                let Ok(named) = serde_json::from_str::<Named>(&line) else { continue };
                let name = named.name;
                say(&match spool.ask(&name, &named.request) {
                    Ok(()) => RelayMessage::Written { name },
                    Err(error) => RelayMessage::Refused { name, problem: error.to_string() },
                });
                // a full buffer wakes it as well
                let _ = asked.write(b".");
            }
        })
    };
    let changes = Changes::of(root, GROWTH).filter(|_| agent_is_here);
    let mut active = Instant::now();
    let path = spool.events();
    let mut follow = Follow { offset: 0, from, partial: Vec::new() };
    let mut last: Option<Instant> = None;
    let mut beat = LastChange::new(Instant::now());
    loop {
        while follow.tell(&path).map_err(StoreError::io("tell", &path))? {
            active = Instant::now();
        }
        if last.is_none_or(|at| at.elapsed() > ALIVE) {
            let alive = spool.controller();
            std::fs::write(&alive, b"").map_err(StoreError::io("write", &alive))?;
            let agent = agent_is_here.then(|| spool.agent().is_some());
            let now = Instant::now();
            beat.look(std::fs::metadata(spool.beat()).and_then(|m| m.modified()).ok(), now);
            if !say(&RelayMessage::Alive { agent, silent_s: beat.age(now).as_secs_f64() }) {
                break;
            }
            last = Some(now);
        }
        let pause = if changes.is_some() { TICK } else { PACE.delay(active.elapsed()) };
        match wait_for_news(&mut requests, changes.as_ref(), pause).map_err(StoreError::io("wait for changes in", root))? {
            Woken::Closed => break,
            Woken::Asked => active = Instant::now(),
            Woken::Other => {}
        }
    }
    // it waits for input that will never come
    drop(reader);
    Ok(())
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
fn wait_for_news(requests: &mut UnixStream, changes: Option<&Changes>, pause: Duration) -> io::Result<Woken> {
    if !wait(requests, changes, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX))? {
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
    let Ok(mut line) = serde_json::to_vec(what) else { return true };
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).is_ok()
}

/// Reads a growing file by whole lines.
struct Follow {
    offset: u64,
    from: u64,
    partial: Vec<u8>,
}

impl Follow {
    /// Tells what is new. Returns whether anything was.
    fn tell(&mut self, path: &Utf8Path) -> io::Result<bool> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            // the agent has not started
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        let length = file.metadata()?.len();
        if length < self.offset {
            // a new agent has cut off a line that was torn, of which the beginning was read: from the beginning
            (self.offset, self.partial) = (0, Vec::new());
        }
        if length <= self.offset {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        file.take(4 << 20).read_to_end(&mut new)?;
        self.offset += new.len() as u64;
        self.partial.extend_from_slice(&new);
        let whole = self.partial.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let partial = std::mem::take(&mut self.partial);
        let mut out = io::stdout().lock();
        for line in partial[..whole].split_inclusive(|b| *b == b'\n') {
            #[derive(Deserialize)]
            struct Seq {
                seq: u64,
            }
            let seq = serde_json::from_slice::<Seq>(line).ok().map(|s| s.seq);
            if seq.is_none_or(|seq| seq > self.from) {
                out.write_all(line)?;
            }
            // a number in a line that is damaged is none
            if check_sum(line.trim_ascii_end()) != Sum::Wrong {
                self.from = self.from.max(seq.unwrap_or(0));
            }
        }
        out.flush()?;
        self.partial = partial[whole..].to_vec();
        Ok(true)
    }
}
