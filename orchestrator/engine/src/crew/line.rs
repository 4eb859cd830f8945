//! The connection to one sentinel.

use super::{CrewError, CrewSettings, NotStarted};
use crate::host::tool;
use cvc_core::log::{Ended, command_event};
use cvc_probe::sentinel::{
    AgentHello, Hello, PROTOCOL, SentinelAnswer, SentinelMessage, SentinelRequest,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, HashMap},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

/// Maximum size of an answer. The answers about memory areas of thousands of images take some hundred megabytes.
const MAX_ANSWER: usize = 1 << 30;
/// Minimum length of lines that are parsed on another thread, so that parsing them does not delay other messages.
const LONG_LINE: usize = 256 << 10;
/// Maximum number of bytes kept of standard error, and of output that is not a message.
const MAX_MESSAGE: usize = 4 << 10;
/// Time limit for a process to end, after its output has ended or it was killed.
const REAP_LIMIT: Duration = Duration::from_secs(5);

/// The requests that still wait for an answer.
#[derive(Debug)]
enum Pending {
    Open(HashMap<u64, oneshot::Sender<Result<SentinelAnswer, Refusal>>>),
    /// The connection is broken, for this reason.
    Broken(String),
}

/// A sentinel's message that it cannot carry out a request.
#[derive(Debug)]
struct Refusal(String);

/// A connection to a sentinel from which the first message, the hello, has been received.
#[derive(Debug)]
pub(super) struct Line {
    pending: Arc<Mutex<Pending>>,
    /// Messages to send. Dropping the sender closes the connection.
    to_say: Mutex<Option<mpsc::UnboundedSender<Vec<u8>>>>,
    next_id: AtomicU64,
    closing: Arc<AtomicBool>,
    /// True when the sentinel's process has ended.
    gone: watch::Receiver<bool>,
    /// Cuts the connection at once.
    cut: mpsc::Sender<()>,
    /// The sentinel's first message.
    pub hello: Hello,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The last [`MAX_MESSAGE`] bytes of the sentinel's standard error and of its output that is not a message.
#[derive(Debug, Default)]
struct StderrTail(Mutex<Vec<u8>>);

impl StderrTail {
    fn add(&self, bytes: &[u8]) {
        let mut kept = lock(&self.0);
        kept.extend_from_slice(bytes);
        let over = kept.len().saturating_sub(MAX_MESSAGE);
        kept.drain(..over);
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&lock(&self.0)).into_owned();
        // a login banner's carriage returns and colours have no place in a message
        text.chars()
            .filter(|c| *c == '\n' || !c.is_control())
            .collect::<String>()
            .trim()
            .to_owned()
    }

    /// Returns the last line, as a one-line reason.
    fn last_line(&self) -> String {
        self.text()
            .lines()
            .last()
            .map(|l| format!(" ({l})"))
            .unwrap_or_default()
    }
}

/// Reads the lines of a stream, each up to a maximum length. A reading future can be dropped without losing bytes.
struct Lines {
    stream: BufReader<ChildStdout>,
    begun: Vec<u8>,
}

/// The result of reading from the stream.
enum Next {
    Line(Vec<u8>),
    /// A part of a line, which shows that the sentinel is alive.
    Part,
    End,
    TooLong,
}

impl Lines {
    async fn next(&mut self) -> Next {
        // a read error ends the stream too
        let Ok(chunk) = self.stream.fill_buf().await else {
            return Next::End;
        };
        if chunk.is_empty() {
            return Next::End;
        }
        let (taken, whole) = match chunk.iter().position(|b| *b == b'\n') {
            Some(at) => (at + 1, true),
            None => (chunk.len(), false),
        };
        self.begun.extend_from_slice(&chunk[..taken]);
        self.stream.consume(taken);
        if whole {
            Next::Line(std::mem::take(&mut self.begun))
        } else if self.begun.len() > MAX_ANSWER {
            Next::TooLong
        } else {
            Next::Part
        }
    }
}

/// Parses a line from a sentinel; `None` if it is not a message.
pub fn read_sentinel_line(line: &[u8]) -> Option<SentinelMessage> {
    let message: SentinelMessage = serde_json::from_slice(line).ok()?;
    (message.id.is_some()
        || message.hello.is_some()
        || message.beat.is_some()
        || message.error.is_some())
    .then_some(message)
}

fn duration(seconds: f64) -> Duration {
    Duration::from_secs_f64(if seconds.is_finite() {
        seconds.clamp(0.02, 86_400.0)
    } else {
        1.0
    })
}

/// Maximum time for which a silent node counts as busy while new connections to the node succeed, as a multiple of `lost_after_s`. A sentinel waits
/// equally long for messages of its agent.
pub(super) const BUSY_FACTOR: f64 = 8.0;

impl Line {
    /// Starts a sentinel and waits for its first message. When the sentinel is lost, that is reported to `lost`.
    pub async fn open(
        host: &str,
        argv: &[String],
        settings: CrewSettings,
        lost: Arc<watch::Sender<BTreeMap<String, String>>>,
    ) -> Result<Self, NotStarted> {
        let process = greet(host, argv, settings).await?;
        Ok(Self::keep(host, argv, settings, lost, process))
    }

    fn keep(
        host: &str,
        argv: &[String],
        settings: CrewSettings,
        lost: Arc<watch::Sender<BTreeMap<String, String>>>,
        process: Process,
    ) -> Self {
        let pending = Arc::new(Mutex::new(Pending::Open(HashMap::new())));
        let (to_say, says) = mpsc::unbounded_channel();
        let (left, gone) = watch::channel(false);
        let (cut, cuts) = mpsc::channel(1);
        let closing = Arc::new(AtomicBool::new(false));
        let Process {
            child,
            stdin,
            lines,
            tail,
            hello,
        } = process;
        tokio::spawn(say(stdin, says, duration(settings.beat_s)));
        let keeper = Keeper {
            host: host.to_owned(),
            child,
            lines,
            tail,
            pending: Arc::clone(&pending),
            closing: Arc::clone(&closing),
            argv: argv.to_vec(),
            settings,
            cuts,
        };
        tokio::spawn(async move {
            keeper.run(&lost).await;
            left.send_replace(true);
        });
        Self {
            pending,
            to_say: Mutex::new(Some(to_say)),
            next_id: AtomicU64::new(1),
            closing,
            gone,
            cut,
            hello,
        }
    }

    /// Returns the reason why the connection is broken; `None` if it is not.
    pub fn broken(&self) -> Option<String> {
        match &*lock(&self.pending) {
            Pending::Open(_) => None,
            Pending::Broken(reason) => Some(reason.clone()),
        }
    }

    /// Sends a request and waits for the answer.
    pub async fn ask(
        &self,
        host: &str,
        request: &SentinelRequest,
        limit: Duration,
    ) -> Result<SentinelAnswer, CrewError> {
        let host = || host.to_owned();
        let refused = |problem: String| CrewError::Refused {
            host: host(),
            request: request.name(),
            problem,
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut line = serde_json::to_value(request)
            .map(|mut value| {
                if let Some(object) = value.as_object_mut() {
                    object.insert("id".into(), id.into());
                }
                value.to_string().into_bytes()
            })
            .map_err(|e| {
                refused(format!(
                    "internal error (please report): cannot encode the request: {e}"
                ))
            })?;
        line.push(b'\n');
        let (sender, receiver) = oneshot::channel();
        match &mut *lock(&self.pending) {
            Pending::Open(waiting) => waiting.insert(id, sender),
            Pending::Broken(reason) => {
                return Err(CrewError::Lost {
                    host: host(),
                    reason: reason.clone(),
                });
            }
        };
        // if this future is dropped, the request no longer waits for its answer
        let _forget = Forget {
            pending: &self.pending,
            id,
        };
        if let Some(to_say) = &*lock(&self.to_say) {
            // if the writer has ended, the keeper soon reports the broken connection
            let _ = to_say.send(line);
        }
        match tokio::time::timeout(limit, receiver).await {
            Ok(Ok(answer)) => answer.map_err(|Refusal(problem)| refused(problem)),
            Ok(Err(_)) => {
                let reason = self
                    .broken()
                    .unwrap_or_else(|| "its connection broke".into());
                Err(CrewError::Lost {
                    host: host(),
                    reason,
                })
            }
            Err(_) => Err(CrewError::Timeout {
                host: host(),
                request: request.name(),
                limit_s: limit.as_secs_f64(),
            }),
        }
    }

    /// Closes the connection and waits until the sentinel has ended. After the time limit the connection is cut.
    pub async fn close(&self, limit: Duration) {
        self.closing.store(true, Ordering::Release);
        drop(lock(&self.to_say).take());
        let mut gone = self.gone.clone();
        if tokio::time::timeout(limit, gone.wait_for(|gone| *gone))
            .await
            .is_err()
        {
            // a keeper that has just ended needs no signal
            let _ = self.cut.try_send(());
            let _ = tokio::time::timeout(REAP_LIMIT, gone.wait_for(|gone| *gone)).await;
        }
    }
}

/// Withdraws a request when its caller's future is dropped.
struct Forget<'a> {
    pending: &'a Mutex<Pending>,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Pending::Open(waiting) = &mut *lock(self.pending) {
            waiting.remove(&self.id);
        }
    }
}

/// A started sentinel process whose first message has been received.
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Lines,
    tail: Arc<StderrTail>,
    hello: Hello,
}

/// Starts a sentinel and waits for its first message.
async fn greet(host: &str, argv: &[String], settings: CrewSettings) -> Result<Process, NotStarted> {
    let tail = Arc::new(StderrTail::default());
    let fail = |problem: String| NotStarted {
        host: host.to_owned(),
        argv: argv.to_vec(),
        problem,
        message: tail.text(),
    };
    let (program, args) = argv.split_first().ok_or_else(|| {
        fail("internal error (please report): no command to start its sentinel".into())
    })?;
    let mut child = tool(program)
        .args(args)
        // an agent that is itself in a run must not pass on that run's marker: the sentinel ends processes with it
        .env_remove(cvc_os::proc::MARK)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // a Ctrl-C on the terminal is for the controller only
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| fail(format!("cannot start {program}: {e}")))?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(fail("its pipes are missing".into()));
    };
    let noise = tokio::spawn(listen(stderr, Arc::clone(&tail)));
    let terms = AgentHello {
        beat_s: settings.beat_s,
        silence_s: Some(settings.lost_after_s * BUSY_FACTOR),
    };
    let mut lines = Lines {
        stream: BufReader::with_capacity(64 << 10, stdout),
        begun: Vec::new(),
    };
    let greeting = async {
        let mut hello =
            serde_json::to_vec(&serde_json::json!({ "hello": terms })).unwrap_or_default();
        hello.push(b'\n');
        // if the sentinel has already ended, it has written the reason to standard error
        let _ = stdin.write_all(&hello).await;
        let _ = stdin.flush().await;
        handshake(&mut lines, &tail).await
    };
    let (limit, began) = (duration(settings.start_limit_s), Instant::now());
    let problem = match tokio::time::timeout(limit, greeting).await {
        Ok(Some(hello)) if hello.protocol == PROTOCOL => {
            command_event(host, argv, began.elapsed(), Ended::Exit(Some(0), ""));
            return Ok(Process {
                child,
                stdin,
                lines,
                tail,
                hello,
            });
        }
        Ok(Some(hello)) => format!(
            "cvc-node there has version {}, and this is {}",
            hello.version,
            env!("CARGO_PKG_VERSION")
        ),
        Ok(None) => match tokio::time::timeout(REAP_LIMIT, child.wait()).await {
            Ok(Ok(status)) => format!("its sentinel ended before its first message ({status})"),
            Ok(Err(_)) | Err(_) => "its sentinel closed its output".into(),
        },
        Err(_) => format!(
            "its sentinel did not answer within {} s",
            settings.start_limit_s
        ),
    };
    kill(&mut child).await;
    // the sentinel's last message may still be in the pipe
    let _ = tokio::time::timeout(Duration::from_millis(200), noise).await;
    command_event(host, argv, began.elapsed(), Ended::Failed(&problem));
    Err(fail(problem))
}

/// Waits for the sentinel's first message. Output before it is kept as noise: banners, messages of the day, output of start-up files.
async fn handshake(lines: &mut Lines, tail: &StderrTail) -> Option<Hello> {
    loop {
        match lines.next().await {
            Next::Line(line) => match read_sentinel_line(&line) {
                Some(SentinelMessage {
                    hello: Some(hello), ..
                }) => return Some(hello),
                Some(_) => {}
                None => tail.add(&line),
            },
            Next::Part => {}
            Next::End => {
                tail.add(&lines.begun);
                return None;
            }
            Next::TooLong => return None,
        }
    }
}

async fn listen(mut stderr: ChildStderr, tail: Arc<StderrTail>) {
    let mut buffer = [0u8; 1024];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        tail.add(&buffer[..n]);
    }
}

/// Writes messages, and heartbeats in between. Ends, which closes the connection, once all senders are dropped.
async fn say(mut stdin: ChildStdin, mut says: mpsc::UnboundedReceiver<Vec<u8>>, beat: Duration) {
    loop {
        let line = match tokio::time::timeout(beat, says.recv()).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(_) => b"{\"ping\":1}\n".to_vec(),
        };
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn kill(child: &mut Child) {
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) {
        // kill the whole group: ssh may have started a proxy command
        let _ = nix::sys::signal::killpg(
            nix::unistd::Pid::from_raw(group),
            nix::sys::signal::Signal::SIGKILL,
        );
    }
    let _ = child.start_kill();
    let _ = tokio::time::timeout(REAP_LIMIT, child.wait()).await;
}

/// Reads answers and heartbeats.
struct Keeper {
    host: String,
    child: Child,
    lines: Lines,
    tail: Arc<StderrTail>,
    pending: Arc<Mutex<Pending>>,
    closing: Arc<AtomicBool>,
    argv: Vec<String>,
    settings: CrewSettings,
    cuts: mpsc::Receiver<()>,
}

impl Keeper {
    async fn run(mut self, lost: &watch::Sender<BTreeMap<String, String>>) {
        let (ended, mut reason) = self.listen().await;
        let was_closing = self.closing.load(Ordering::Acquire);
        if ended && let Ok(Ok(status)) = tokio::time::timeout(REAP_LIMIT, self.child.wait()).await {
            reason = format!(
                "its sentinel's connection ended ({status}){}",
                self.tail.last_line()
            );
        }
        let waiting = std::mem::replace(&mut *lock(&self.pending), Pending::Broken(reason.clone()));
        // this wakes the waiting requests with an error
        drop(waiting);
        if !was_closing {
            lost.send_modify(|lost| {
                lost.insert(self.host.clone(), reason);
            });
        }
        kill(&mut self.child).await;
    }

    /// Reads until the connection ends. Returns whether the other side ended the connection, and the reason.
    ///
    /// A missing heartbeat alone does not make a node lost: while a checkpoint fills the node's network and disk, heartbeats are late. First a second
    /// sentinel is started over a new connection, repeatedly, for at most [`BUSY_FACTOR`] times `lost_after_s`.
    async fn listen(&mut self) -> (bool, String) {
        let lost_after = duration(self.settings.lost_after_s);
        let mut last_heard = Instant::now();
        let mut next_question = last_heard + lost_after;
        let mut witness = None;
        loop {
            tokio::select! {
                // first read data that have arrived: this process may itself have been stopped for a while
                biased;
                next = self.lines.next() => {
                    last_heard = Instant::now();
                    (next_question, witness) = (last_heard + lost_after, None);
                    match next {
                        Next::Line(line) if line.len() > LONG_LINE => {
                            let (pending, tail) = (Arc::clone(&self.pending), Arc::clone(&self.tail));
                            tokio::task::spawn_blocking(move || take(&line, &pending, &tail));
                        }
                        Next::Line(line) => take(&line, &self.pending, &self.tail),
                        Next::Part => {}
                        Next::End => return (true, "its sentinel's connection ended".into()),
                        Next::TooLong => return (false, format!("its sentinel sent a line of more than {MAX_ANSWER} bytes")),
                    }
                }
                // once all senders are dropped, the connection closes by itself, so that the sentinel has time to end the processes that it guards
                Some(()) = self.cuts.recv() => return (false, "its connection was cut".into()),
                answer = answer_of(&mut witness) => {
                    let silence_s = last_heard.elapsed().as_secs_f64();
                    if let Err(problem) = answer {
                        return (false, format!("no heartbeat for {silence_s:.0} s, and a new connection fails: {}", NotStarted::reason(&problem)));
                    }
                    if silence_s >= self.settings.lost_after_s * BUSY_FACTOR {
                        return (false, format!("no heartbeat for {silence_s:.0} s, though new connections answer"));
                    }
                    tracing::warn!(node = self.host, silence_s, "no heartbeat, but a new connection answers: the node is busy");
                    (next_question, witness) = (Instant::now() + lost_after, None);
                }
                () = tokio::time::sleep_until(next_question), if witness.is_none() => {
                    let (host, argv, settings) = (self.host.clone(), self.argv.clone(), self.settings);
                    witness = Some(Box::pin(async move { answers(&host, &argv, settings).await }));
                }
            }
        }
    }
}

/// Starts a second sentinel on the host and ends it again; returns the error if it cannot be started.
async fn answers(host: &str, argv: &[String], settings: CrewSettings) -> Result<(), NotStarted> {
    let mut process = greet(host, argv, settings).await?;
    kill(&mut process.child).await;
    Ok(())
}

/// Waits for the result of the second sentinel's start; never returns if none is being started.
async fn answer_of<F: Future + Unpin>(witness: &mut Option<F>) -> F::Output {
    match witness {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

/// Parses an answer, and passes it to the request that waits for it.
fn take(line: &[u8], pending: &Mutex<Pending>, tail: &StderrTail) {
    let Some(message) = read_sentinel_line(line) else {
        tail.add(line);
        return;
    };
    let Some(id) = message.id else { return };
    let asker = match &mut *lock(pending) {
        Pending::Open(waiting) => waiting.remove(&id),
        Pending::Broken(_) => None,
    };
    // nobody waits any more for a late answer
    let Some(asker) = asker else { return };
    let answer = match (message.ok, message.error) {
        (Some(answer), _) => Ok(answer),
        (None, Some(problem)) => Err(Refusal(problem)),
        (None, None) => Err(Refusal("the answer is empty".into())),
    };
    // the caller may have stopped waiting just now
    let _ = asker.send(answer);
}
