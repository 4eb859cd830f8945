//! The connection to one sentinel.

use super::{CrewError, NotStarted, Settings};
use crate::host::tool;
use cvc_core::log::{Ended, command_event};
use cvc_probe::sentinel::{AgentHello, Answer, Hello, PROTOCOL, Request, SentinelMessage};
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

/// Maximum size of an answer. The areas of thousands of images take some hundred megabytes.
const MAX_ANSWER: usize = 1 << 30;
/// Length from which lines are parsed on another thread, so that parsing does not delay other messages.
const LONG_LINE: usize = 256 << 10;
/// Maximum number of bytes kept of standard error and noise.
const MAX_MESSAGE: usize = 4 << 10;
/// Time limit for a process to end after its output has ended or it was killed.
const REAP_LIMIT: Duration = Duration::from_secs(5);

/// The requests that wait for an answer.
#[derive(Debug)]
enum Pending {
    Open(HashMap<u64, oneshot::Sender<Result<Answer, String>>>),
    /// The reason why the connection is broken.
    Broken(String),
}

/// A connection to a sentinel that has said hello.
#[derive(Debug)]
pub(super) struct Line {
    pending: Arc<Mutex<Pending>>,
    /// Messages to send; dropping it closes the connection.
    to_say: Mutex<Option<mpsc::UnboundedSender<Vec<u8>>>>,
    next_id: AtomicU64,
    closing: Arc<AtomicBool>,
    /// True when its process is gone.
    gone: watch::Receiver<bool>,
    /// Signals to cut the connection at once.
    cut: mpsc::Sender<()>,
    /// The sentinel's hello.
    pub hello: Hello,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The last kilobytes of output.
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
        // carriage returns and colours of a login banner have no place in a message
        text.chars()
            .filter(|c| *c == '\n' || !c.is_control())
            .collect::<String>()
            .trim()
            .to_owned()
    }

    /// The last line, for a reason in one line.
    fn last_line(&self) -> String {
        self.text()
            .lines()
            .last()
            .map(|l| format!(" ({l})"))
            .unwrap_or_default()
    }
}

/// Lines of a stream, each bounded; it may be given up at any wait without losing bytes.
struct Lines {
    stream: BufReader<ChildStdout>,
    begun: Vec<u8>,
}

/// What comes next on a stream.
enum Next {
    Line(Vec<u8>),
    /// A part of a line: it is alive.
    Part,
    End,
    TooLong,
}

impl Lines {
    async fn next(&mut self) -> Next {
        // an error ends the stream like its end does
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

/// Reads a line of a sentinel; `None` is noise.
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

/// How many times longer than `lost_after_s` a silent node may be busy while new connections to it answer. Its sentinel waits as long for its
/// agent.
pub(super) const BUSY_FACTOR: f64 = 8.0;

impl Line {
    /// Starts a sentinel and waits for its hello. Its loss is reported to `lost`.
    pub async fn open(
        host: &str,
        argv: &[String],
        settings: Settings,
        lost: Arc<watch::Sender<BTreeMap<String, String>>>,
    ) -> Result<Self, NotStarted> {
        let process = greet(host, argv, settings).await?;
        Ok(Self::keep(host, argv, settings, lost, process))
    }

    fn keep(
        host: &str,
        argv: &[String],
        settings: Settings,
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
            heard,
            hello,
        } = process;
        tokio::spawn(say(stdin, says, duration(settings.beat_s)));
        let keeper = Keeper {
            host: host.to_owned(),
            child,
            lines,
            heard,
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

    /// The reason why it is broken, if it is.
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
        request: &Request,
        limit: Duration,
    ) -> Result<Answer, CrewError> {
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
        let (tell, told) = oneshot::channel();
        match &mut *lock(&self.pending) {
            Pending::Open(waiting) => waiting.insert(id, tell),
            Pending::Broken(reason) => {
                return Err(CrewError::Lost {
                    host: host(),
                    reason: reason.clone(),
                });
            }
        };
        // given up at any point, nobody waits for the answer any more
        let _forget = Forget {
            pending: &self.pending,
            id,
        };
        if let Some(to_say) = &*lock(&self.to_say) {
            // where nobody writes any more, the keeper says so soon
            let _ = to_say.send(line);
        }
        match tokio::time::timeout(limit, told).await {
            Ok(Ok(answer)) => answer.map_err(refused),
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

    /// Closes the line and waits until the sentinel is gone; after the limit it is cut off.
    pub async fn close(&self, limit: Duration) {
        self.closing.store(true, Ordering::Release);
        drop(lock(&self.to_say).take());
        let mut gone = self.gone.clone();
        if tokio::time::timeout(limit, gone.wait_for(|gone| *gone))
            .await
            .is_err()
        {
            // a keeper that has just ended needs no telling
            let _ = self.cut.try_send(());
            let _ = tokio::time::timeout(REAP_LIMIT, gone.wait_for(|gone| *gone)).await;
        }
    }
}

/// Withdraws a request whose asker is gone.
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

/// A sentinel that has said hello.
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Lines,
    heard: Arc<StderrTail>,
    hello: Hello,
}

/// Starts a sentinel and waits for its hello.
async fn greet(host: &str, argv: &[String], settings: Settings) -> Result<Process, NotStarted> {
    let heard = Arc::new(StderrTail::default());
    let fail = |problem: String| NotStarted {
        host: host.to_owned(),
        argv: argv.to_vec(),
        problem,
        message: heard.text(),
    };
    let (program, args) = argv.split_first().ok_or_else(|| {
        fail("internal error (please report): no command to start its sentinel".into())
    })?;
    let mut child = tool(program)
        .args(args)
        // an agent that is a part of a run itself must not pass the run's mark on to what ends runs
        .env_remove(cvc_os::proc::MARK)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // a Ctrl-C of the terminal is for the controller
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| fail(format!("cannot start {program}: {e}")))?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(fail("its pipes are missing".into()));
    };
    let noise = tokio::spawn(listen(stderr, Arc::clone(&heard)));
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
        // one that has ended already says why on standard error
        let _ = stdin.write_all(&hello).await;
        let _ = stdin.flush().await;
        handshake(&mut lines, &heard).await
    };
    let (limit, began) = (duration(settings.start_limit_s), Instant::now());
    let problem = match tokio::time::timeout(limit, greeting).await {
        Ok(Some(hello)) if hello.protocol == PROTOCOL => {
            command_event(host, argv, began.elapsed(), Ended::Exit(Some(0), ""));
            return Ok(Process {
                child,
                stdin,
                lines,
                heard,
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
    // what it said last may still be in the pipe
    let _ = tokio::time::timeout(Duration::from_millis(200), noise).await;
    command_event(host, argv, began.elapsed(), Ended::Failed(&problem));
    Err(fail(problem))
}

/// Waits for the hello. What comes before it is noise: banners, messages of the day, what a start-up file prints.
async fn handshake(lines: &mut Lines, heard: &StderrTail) -> Option<Hello> {
    loop {
        match lines.next().await {
            Next::Line(line) => match read_sentinel_line(&line) {
                Some(SentinelMessage {
                    hello: Some(hello), ..
                }) => return Some(hello),
                Some(_) => {}
                None => heard.add(&line),
            },
            Next::Part => {}
            Next::End => {
                heard.add(&lines.begun);
                return None;
            }
            Next::TooLong => return None,
        }
    }
}

async fn listen(mut stderr: ChildStderr, heard: Arc<StderrTail>) {
    let mut buffer = [0u8; 1024];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        heard.add(&buffer[..n]);
    }
}

/// Writes messages, and pings in between. Ends, and with it the connection, once all senders are gone.
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
        // the whole group: ssh may have a proxy command below it
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
    heard: Arc<StderrTail>,
    pending: Arc<Mutex<Pending>>,
    closing: Arc<AtomicBool>,
    argv: Vec<String>,
    settings: Settings,
    cuts: mpsc::Receiver<()>,
}

impl Keeper {
    async fn run(mut self, lost: &watch::Sender<BTreeMap<String, String>>) {
        let (ended, mut reason) = self.listen().await;
        let was_closing = self.closing.load(Ordering::Acquire);
        if ended && let Ok(Ok(status)) = tokio::time::timeout(REAP_LIMIT, self.child.wait()).await {
            reason = format!(
                "its sentinel's connection ended ({status}){}",
                self.heard.last_line()
            );
        }
        let waiting = std::mem::replace(&mut *lock(&self.pending), Pending::Broken(reason.clone()));
        // those who wait are told by this
        drop(waiting);
        if !was_closing {
            lost.send_modify(|lost| {
                lost.insert(self.host.clone(), reason);
            });
        }
        kill(&mut self.child).await;
    }

    /// Reads until the connection ends. Returns whether it ended by itself, and why.
    ///
    /// Silence alone does not make a node a lost one: while a checkpoint fills its network and disk, heartbeats are late. A second sentinel over a
    /// new connection is asked first, again and again, for at most [`BUSY_FACTOR`] times `lost_after_s`.
    async fn listen(&mut self) -> (bool, String) {
        let lost_after = duration(self.settings.lost_after_s);
        let mut heard = Instant::now();
        let mut next_question = heard + lost_after;
        let mut witness = None;
        loop {
            tokio::select! {
                // read what has arrived first: this process may itself have been stopped for a while
                biased;
                next = self.lines.next() => {
                    heard = Instant::now();
                    (next_question, witness) = (heard + lost_after, None);
                    match next {
                        Next::Line(line) if line.len() > LONG_LINE => {
                            let (pending, heard) = (Arc::clone(&self.pending), Arc::clone(&self.heard));
                            tokio::task::spawn_blocking(move || take(&line, &pending, &heard));
                        }
                        Next::Line(line) => take(&line, &self.pending, &self.heard),
                        Next::Part => {}
                        Next::End => return (true, "its sentinel's connection ended".into()),
                        Next::TooLong => return (false, format!("its sentinel sent a line of more than {MAX_ANSWER} bytes")),
                    }
                }
                // without a sender the line closes by itself: the sentinel gets the time to end what it guards
                Some(()) = self.cuts.recv() => return (false, "its connection was cut".into()),
                answer = answer_of(&mut witness) => {
                    let silence_s = heard.elapsed().as_secs_f64();
                    if let Err(problem) = answer {
                        return (false, format!("no heartbeat for {silence_s:.0} s, and a new connection fails: {problem}"));
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

/// Starts a second sentinel there and ends it again, or says why that fails.
async fn answers(host: &str, argv: &[String], settings: Settings) -> Result<(), String> {
    let mut process = greet(host, argv, settings)
        .await
        .map_err(|failure| failure.reason())?;
    kill(&mut process.child).await;
    Ok(())
}

/// The answer of the witness, once there is one.
async fn answer_of<F: Future + Unpin>(witness: &mut Option<F>) -> F::Output {
    match witness {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

/// Passes an answer to the request that waits for it.
fn take(line: &[u8], pending: &Mutex<Pending>, heard: &StderrTail) {
    let Some(message) = read_sentinel_line(line) else {
        heard.add(line);
        return;
    };
    let Some(id) = message.id else { return };
    let asker = match &mut *lock(pending) {
        Pending::Open(waiting) => waiting.remove(&id),
        Pending::Broken(_) => None,
    };
    // an answer that comes too late is of no use
    let Some(asker) = asker else { return };
    let answer = match (message.ok, message.error) {
        (Some(answer), _) => Ok(answer),
        (None, Some(problem)) => Err(problem),
        (None, None) => Err("the answer is empty".into()),
    };
    // the asker may have given up just now
    let _ = asker.send(answer);
}
