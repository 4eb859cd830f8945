//! The connection between an agent and a sentinel, seen from the sentinel.

use super::{
    answer::{Sentinel, now_ns},
    error::SentinelError,
    facts,
    request::{Answer, Request},
};
use cvc_os::proc::refuse_anothers_proc;
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
pub const PROTOCOL: u32 = 4;
/// Maximum length of a request. Those that write files are the long ones.
const MAX_REQUEST: u64 = 64 << 20;
/// Number of unread lines from which heartbeats are left out, because the agent is not reading.
const MAX_WAITING: usize = 16;
/// Additional time to listen before silence counts as loss.
const LAST_POLL: Duration = Duration::from_millis(200);
/// Delay between the end of input and the exit, to send answers that are nearly ready.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A line of a sentinel. Exactly one of its parts is present.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SentinelMessage {
    /// Number of the request that this answers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u64>,
    /// The answer, if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ok: Option<Answer>,
    /// The problem, if it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// The answer to `hello`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hello: Option<Hello>,
    /// Number of a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beat: Option<u64>,
    /// Time of the heartbeat, nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at_ns: Option<i64>,
}

/// The identity of a sentinel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sentinel.
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
    /// The node's own name.
    pub host: String,
    /// The sentinel's process.
    pub pid: u32,
}

impl Hello {
    /// This process as a sentinel.
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

/// The first line of an agent: `{"hello":{"beat_s":1,"silence_s":10}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentHello {
    /// Seconds between heartbeats.
    pub beat_s: f64,
    /// Silence, without even `{"ping":1}`, after which the agent counts as gone; `None`: it may be silent while the connection is open.
    pub silence_s: Option<f64>,
}

/// An event of a sentinel.
enum Event {
    Line(Vec<u8>),
    Closed,
}

/// Serves a connection until it closes, the agent falls silent, or a signal arrives; then ends everything guarded.
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

/// Entry point of the sentinel's process. TERM, INT and HUP act like the end of the connection.
///
/// # Errors
/// When `/proc` is that of another PID namespace, signals cannot be waited for, or no thread can be started.
pub fn main(beat_s: f64) -> io::Result<()> {
    // it would look for the processes of runs among others
    refuse_anothers_proc()?;
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        mask.add(signal);
    }
    // before any thread starts, so that all of them leave these signals to the one that waits
    mask.thread_block()?;
    let (events, happens) = mpsc::channel();
    let closer = events.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            while mask.wait().is_err() {}
            // without a reader the sentinel is ending already
            let _ = closer.send(Event::Closed);
        })?;
    serve_events(io::stdin(), io::stdout(), beat_s, events, &happens)
}

/// A time that somebody else wrote.
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
            // after a pause (the machine slept) heartbeats continue from now on
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
            // if this process itself was stopped for a while, allow a moment to read what has arrived
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

/// Answers in a thread of its own, so that heartbeats and other answers continue.
fn work(
    sentinel: &Arc<Sentinel>,
    at_work: &Arc<AtomicUsize>,
    voice: &MessageWriter,
    id: u64,
    request: Request,
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

/// Reads lines until there are no more.
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
                // without a reader the sentinel is ending already
                let _ = events.send(Event::Closed);
                return;
            }
        }
    }
}

/// What a line of an agent means.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentMessage {
    /// It is alive.
    Nothing,
    /// Its first line.
    Hello(AgentHello),
    /// A request with its number.
    Request(u64, Request),
    /// It cannot be understood: its number, if it has one, and the problem.
    Wrong(Option<u64>, String),
}

/// Reads a line of an agent.
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
    /// Lines that are not written yet.
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
                        // the agent is gone
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
            // a path that is not UTF-8 is the one thing that JSON cannot hold
            let told = SentinelMessage {
                id: message.id,
                error: Some(format!("cannot encode the answer: {error}")),
                ..SentinelMessage::default()
            };
            serde_json::to_vec(&told).unwrap_or_default()
        });
        line.push(b'\n');
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // the thread has ended only if the agent is gone
        let _ = self.lines.send(line);
    }
}
