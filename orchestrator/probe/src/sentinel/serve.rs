//! The sentinel's end of the connection to an agent.

use super::{
    answer::{Sentinel, now_ns},
    error::SentinelError,
    facts,
    request::{SentinelAnswer, SentinelRequest},
};
use cvc_os::proc::refuse_foreign_proc;
use nix::sys::signal::{SigSet, Signal};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

/// Version of the protocol; both ends must have the same.
pub const PROTOCOL: u32 = 8;
/// Maximum length of a request, bytes; requests that write files are the longest.
const MAX_REQUEST: u64 = 64 << 20;
/// Number of unread lines above which heartbeats are omitted, because the agent is not reading.
const MAX_WAITING: usize = 16;
/// Additional time to listen before a silent agent counts as lost.
const LAST_POLL: Duration = Duration::from_millis(200);
/// Delay between the end of input and the exit, to send answers that are nearly complete.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A line that a sentinel sends: an answer, an error, the answer to `hello`, or a heartbeat.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SentinelMessage {
    /// Number of the request that this line answers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u64>,
    /// The answer to a request that succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ok: Option<SentinelAnswer>,
    /// The error message of a request that failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// The answer to `hello`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hello: Option<Hello>,
    /// Number of the heartbeat, if the line is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beat: Option<u64>,
    /// Time of the heartbeat, nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at_ns: Option<i64>,
}

/// The identity of a sentinel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of this sentinel.
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
    /// The node's own name.
    pub host: String,
    /// The sentinel's process.
    pub pid: u32,
}

impl Hello {
    /// Returns the identity of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: facts::host(),
            pid: std::process::id(),
        }
    }
}

/// The first line that an agent sends: `{"hello":{"beat_s":1,"silence_s":10}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentHello {
    /// Seconds between heartbeats.
    pub beat_s: f64,
    /// Seconds without a line, even `{"ping":1}`, after which the agent counts as lost. `None`: the agent may be silent while the connection is open.
    pub silence_s: Option<f64>,
}

/// An event that the sentinel's main loop handles.
enum Event {
    Line(Vec<u8>),
    Closed,
}

/// Serves a connection until it closes, the agent is silent too long, or a signal arrives. Then ends all guarded runs.
///
/// # Errors
/// None at present: the end of the connection is not an error.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    beat_s: f64,
) -> io::Result<()> {
    let (events, happens) = mpsc::channel();
    serve_events(input, output, beat_s, events, &happens)
}

/// Entry point of the sentinel's process. TERM, INT and HUP have the effect of a closed connection.
///
/// # Errors
/// `/proc` belongs to another PID namespace, signals cannot be waited for, or no thread can be started.
pub fn main(beat_s: f64) -> io::Result<()> {
    // with a foreign /proc the sentinel would look for runs among other processes
    refuse_foreign_proc()?;
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        mask.add(signal);
    }
    // block the signals before any thread starts, so that only the waiting thread receives them
    mask.thread_block()?;
    let (events, happens) = mpsc::channel();
    let closer = events.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            while mask.wait().is_err() {}
            // a failed send means that the sentinel is ending already
            let _ = closer.send(Event::Closed);
        })?;
    serve_events(io::stdin(), io::stdout(), beat_s, events, &happens)
}

/// Converts a number of seconds received from another machine; invalid numbers are limited.
fn seconds(given: f64) -> Duration {
    Duration::from_secs_f64(if given.is_finite() {
        given.clamp(0.02, 86_400.0)
    } else {
        1.0
    })
}

fn serve_events(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    beat_s: f64,
    events: Sender<Event>,
    happens: &Receiver<Event>,
) -> io::Result<()> {
    let voice = MessageWriter::start(output, events.clone())?;
    std::thread::Builder::new()
        .name("line".into())
        .spawn(move || listen(input, &events))?;
    let sentinel = Arc::new(Sentinel::default());
    let at_work = Arc::new(AtomicUsize::new(0));
    let mut beat = seconds(beat_s);
    let mut silence: Option<Duration> = None;
    let mut heard = Instant::now();
    let mut next_beat = Instant::now();
    let mut beats = 0u64;
    loop {
        let now = Instant::now();
        let silent = silence.is_some_and(|limit| now.duration_since(heard) > limit);
        if now >= next_beat {
            if voice.waiting.load(Ordering::Relaxed) < MAX_WAITING {
                voice.say(&SentinelMessage {
                    beat: Some(beats),
                    at_ns: Some(now_ns()),
                    ..SentinelMessage::default()
                });
            }
            beats += 1;
            // after a pause (the machine slept) schedule the next heartbeat from now, without making up for missed ones
            next_beat = (next_beat + beat).max(now);
        }
        let silent_at = silence.map(|limit| heard + limit + Duration::from_millis(1));
        let until = silent_at.map_or(next_beat, |at| at.min(next_beat));
        let wait = if silent {
            LAST_POLL
        } else {
            until.saturating_duration_since(Instant::now())
        };
        match happens.recv_timeout(wait) {
            // if this process itself was stopped for a while, allow a moment to read data that have arrived
            Err(RecvTimeoutError::Timeout) if silent => break,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::Line(line)) => {
                heard = Instant::now();
                match read_agent_line(&line) {
                    AgentMessage::Nothing => {}
                    AgentMessage::Hello(terms) => {
                        beat = seconds(terms.beat_s);
                        silence = terms.silence_s.map(seconds);
                        voice.say(&SentinelMessage {
                            hello: Some(Hello::of_this_process()),
                            ..SentinelMessage::default()
                        });
                    }
                    AgentMessage::Wrong(id, problem) => voice.say(&SentinelMessage {
                        id,
                        error: Some(problem),
                        ..SentinelMessage::default()
                    }),
                    AgentMessage::Request(id, request) => {
                        work(&sentinel, &at_work, &voice, id, request)
                    }
                }
            }
        }
    }
    sentinel.end_guarded();
    let begin = Instant::now();
    while (at_work.load(Ordering::Acquire) > 0 || voice.waiting.load(Ordering::Acquire) > 0)
        && begin.elapsed() < LAST_ANSWERS
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Answers a request on a separate thread, so that heartbeats and other answers continue.
fn work(
    sentinel: &Arc<Sentinel>,
    at_work: &Arc<AtomicUsize>,
    voice: &MessageWriter,
    id: u64,
    request: SentinelRequest,
) {
    at_work.fetch_add(1, Ordering::AcqRel);
    let (sentinel, done, mouth) = (Arc::clone(sentinel), Arc::clone(at_work), voice.clone());
    let started = std::thread::Builder::new()
        .name(request.name().into())
        .spawn(move || {
            let answer = catch_unwind(AssertUnwindSafe(|| sentinel.answer(&request)));
            let answer = answer.unwrap_or_else(|_| Err(SentinelError::Panicked(request.name())));
            mouth.say(&match answer {
                Ok(answer) => SentinelMessage {
                    id: Some(id),
                    ok: Some(answer),
                    ..SentinelMessage::default()
                },
                Err(problem) => SentinelMessage {
                    id: Some(id),
                    error: Some(problem.to_string()),
                    ..SentinelMessage::default()
                },
            });
            done.fetch_sub(1, Ordering::AcqRel);
        });
    if let Err(error) = started {
        at_work.fetch_sub(1, Ordering::AcqRel);
        voice.say(&SentinelMessage {
            id: Some(id),
            error: Some(format!("cannot start a thread: {error}")),
            ..SentinelMessage::default()
        });
    }
}

/// Reads lines from the agent to the end of input, and sends them as events.
fn listen(input: impl Read, events: &Sender<Event>) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        match input
            .by_ref()
            .take(MAX_REQUEST)
            .read_until(b'\n', &mut line)
        {
            Ok(n) if n > 0 && (line.ends_with(b"\n") || (n as u64) < MAX_REQUEST) => {
                if events.send(Event::Line(line)).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => {
                // a failed send means that the sentinel is ending already
                let _ = events.send(Event::Closed);
                return;
            }
        }
    }
}

/// The meaning of a line of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentMessage {
    /// The line only shows that the agent is alive.
    Nothing,
    /// The first line of an agent.
    Hello(AgentHello),
    /// A request with its number.
    Request(u64, SentinelRequest),
    /// A line that cannot be parsed: the number of the request, if the line has one, and the problem.
    Wrong(Option<u64>, String),
}

/// Parses a line of an agent.
#[must_use]
pub fn read_agent_line(line: &[u8]) -> AgentMessage {
    if line.iter().all(u8::is_ascii_whitespace) {
        return AgentMessage::Nothing;
    }
    let mut value: serde_json::Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return AgentMessage::Wrong(None, format!("not a request: {error}")),
    };
    if value.get("ping").is_some() {
        return AgentMessage::Nothing;
    }
    if let Some(terms) = value.get_mut("hello") {
        return match serde_json::from_value(terms.take()) {
            Ok(terms) => AgentMessage::Hello(terms),
            Err(error) => AgentMessage::Wrong(None, format!("not a hello: {error}")),
        };
    }
    let Some(id) = value.get("id").and_then(serde_json::Value::as_u64) else {
        return AgentMessage::Wrong(None, "not a request: it has no `id`".into());
    };
    match serde_json::from_value(value) {
        Ok(request) => AgentMessage::Request(id, request),
        Err(error) => AgentMessage::Wrong(Some(id), format!("not a request: {error}")),
    }
}

/// Writes all lines of a sentinel on one thread, so that a full pipe blocks only that thread.
#[derive(Clone)]
struct MessageWriter {
    lines: Sender<Vec<u8>>,
    /// Number of lines that are not written yet.
    waiting: Arc<AtomicUsize>,
}

impl MessageWriter {
    fn start(mut output: impl Write + Send + 'static, events: Sender<Event>) -> io::Result<Self> {
        let (lines, to_say) = mpsc::channel::<Vec<u8>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let message = Arc::clone(&waiting);
        std::thread::Builder::new()
            .name("voice".into())
            .spawn(move || {
                for line in to_say {
                    if output
                        .write_all(&line)
                        .and_then(|()| output.flush())
                        .is_err()
                    {
                        // the agent has disconnected
                        let _ = events.send(Event::Closed);
                        return;
                    }
                    message.fetch_sub(1, Ordering::AcqRel);
                }
            })?;
        Ok(Self { lines, waiting })
    }

    fn say(&self, message: &SentinelMessage) {
        let mut line = serde_json::to_vec(message).unwrap_or_else(|error| {
            // JSON cannot represent a path that is not UTF-8
            let replacement = SentinelMessage {
                id: message.id,
                error: Some(format!("cannot encode the answer: {error}")),
                ..SentinelMessage::default()
            };
            serde_json::to_vec(&replacement).unwrap_or_default()
        });
        line.push(b'\n');
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // sending fails only if the thread has ended because the agent has disconnected
        let _ = self.lines.send(line);
    }
}
