//! All output of cvc: no other module uses standard output or standard error.
//!
//! A command that changes something, such as `cvc run`, is neither ended nor delayed by its output: while a reader such as `less` pauses, runs may
//! need attention and machines may have to be released. The messages of such a command go through [`message_output`], [`emit`] and [`note`]. A thread
//! writes them, and ignores a closed pipe and a full disk. At the end [`warn_of_loss`] waits for the thread. A command that only shows something
//! writes to [`shown`], and ends with the first error.
//!
//! All output passes [`visible`], so that texts from programs, other machines and file names cannot control the terminal. The only escape sequences
//! that reach the terminal are those of bars ([`Bar`]), of clap, and the colours of [`paint`], which are added afterwards.

#![expect(clippy::disallowed_methods, reason = "here, and nowhere else")]

use crate::{
    paint::{is_coloured, paint},
    signals,
};
use cvc_core::visible::{Form, Visible, visible, visible_json, visible_styled};
use cvc_show::{Blocks, terminal_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use nix::unistd::{dup2_stderr, dup2_stdout};
use parking_lot::Mutex;
use serde::Serialize;
use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, StdoutLock, Write},
    os::fd::AsFd,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

/// Maximum bytes queued for a slow reader; further output is dropped.
const WAITING: usize = 16 << 20;
/// Maximum redraws of a bar, per second.
const FRAMES_HZ: u8 = 8;

/// The first error of the writing thread.
static LOST: OnceLock<(ErrorKind, String)> = OnceLock::new();
/// The writing thread; `None` if it could not be started.
static WRITER: LazyLock<Option<Writer>> = LazyLock::new(|| {
    let (sender, texts) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&waiting);
    let thread = std::thread::Builder::new()
        .name("output".into())
        .spawn(move || write_all(&texts, &left));
    thread.ok().map(|_| Writer { sender, waiting })
});

/// Input of the writing thread.
enum Text {
    ToStdout(Vec<u8>),
    ToStderr(Vec<u8>),
    /// A request to answer when everything queued before it is written.
    Flush(mpsc::SyncSender<()>),
}

impl Text {
    fn len(&self) -> usize {
        match self {
            Self::ToStdout(text) | Self::ToStderr(text) => text.len(),
            Self::Flush(_) => 0,
        }
    }

    fn write(self) {
        match self {
            Self::ToStdout(text) => {
                let written = io::stdout()
                    .write_all(&text)
                    .and_then(|()| io::stdout().flush());
                if let Err(error) = written {
                    LOST.get_or_init(|| (error.kind(), error.to_string()));
                }
            }
            // an error is ignored: the exit code still shows the outcome
            Self::ToStderr(text) => drop(io::stderr().write_all(&text)),
            // an error means that the requester no longer waits
            Self::Flush(done) => drop(done.send(())),
        }
    }
}

struct Writer {
    sender: mpsc::Sender<Text>,
    waiting: Arc<AtomicUsize>,
}

fn write_all(texts: &mpsc::Receiver<Text>, waiting: &AtomicUsize) {
    for text in texts {
        let length = text.len();
        text.write();
        waiting.fetch_sub(length, Ordering::Relaxed);
    }
}

/// Queues a text for the writing thread.
fn put(text: Text) {
    let Some(writer) = WRITER.as_ref() else {
        return text.write();
    };
    let length = text.len();
    if writer.waiting.fetch_add(length, Ordering::Relaxed) > WAITING && length > 0 {
        writer.waiting.fetch_sub(length, Ordering::Relaxed);
        LOST.get_or_init(|| (ErrorKind::WouldBlock, "its reader is too slow".to_owned()));
    } else if let Err(mpsc::SendError(text)) = writer.sender.send(text) {
        text.write();
    }
}

/// Returns standard output for text of a command that only shows something.
pub fn shown() -> Visible<StdoutLock<'static>> {
    shown_as(false)
}

/// Returns standard output for unmodified binary data; `None` if it is a terminal.
pub fn shown_bytes() -> Option<StdoutLock<'static>> {
    let out = io::stdout().lock();
    (!out.is_terminal()).then_some(out)
}

/// Returns standard output for JSON or for text of a command that only shows something.
pub fn shown_as(is_json: bool) -> Visible<StdoutLock<'static>> {
    Visible::new(
        io::stdout().lock(),
        if is_json { Form::Json } else { Form::Text },
    )
}

/// Prints the answer of a command that only shows something.
pub fn print(answer: &Blocks) -> io::Result<()> {
    let text = cvc_show::text(&answer.0, terminal_width());
    let mut out = io::stdout().lock();
    out.write_all(&painted(&visible(&text), &out))?;
    out.flush()
}

/// Prints the answer of a command as JSON or as text.
pub fn answer(
    is_json: bool,
    json: &impl Serialize,
    text: impl FnOnce(&mut Blocks),
) -> io::Result<()> {
    if is_json {
        return print_json(json);
    }
    let mut answer = Blocks::default();
    text(&mut answer);
    print(&answer)
}

/// Prints blocks to standard output; errors are ignored.
pub fn emit_blocks(blocks: &Blocks) {
    let text = cvc_show::text(&blocks.0, terminal_width());
    put(Text::ToStdout(painted(&visible(&text), &io::stdout())));
}

/// Returns the text for a stream, with colours if the stream supports them.
fn painted(text: &str, stream: &impl IsTerminal) -> Vec<u8> {
    match is_coloured(stream) {
        true => paint(text).into_owned().into_bytes(),
        false => text.as_bytes().to_vec(),
    }
}

/// A JSON document with the version of its format as the first key. `cvc schema` prints the formats.
#[derive(Serialize)]
pub struct Versioned<T> {
    schema: u32,
    #[serde(flatten)]
    document: T,
}

/// Returns a JSON document with version 1 of its format.
pub fn versioned<T: Serialize>(document: T) -> Versioned<T> {
    Versioned {
        schema: 1,
        document,
    }
}

/// Prints a JSON document.
pub fn print_json(answer: &impl Serialize) -> io::Result<()> {
    let mut out = shown_as(true);
    let text = serde_json::to_string_pretty(answer).map_err(io::Error::from)?;
    writeln!(out, "{text}")?;
    out.flush()
}

/// Standard output that the writing thread writes.
pub struct MessageOutput(());

/// Returns standard output for a command that changes something: output that cannot be written is dropped.
pub const fn message_output() -> Visible<MessageOutput> {
    Visible::new(MessageOutput(()), Form::Text)
}

impl Write for MessageOutput {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        put(Text::ToStdout(text.to_vec()));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (sender, done) = mpsc::sync_channel(1);
        put(Text::Flush(sender));
        // an error means that the request was answered without the thread
        let _ = done.recv();
        Ok(())
    }
}

/// Prints a line to standard output; errors are ignored.
pub fn emit(line: impl Display) {
    let text = format!("{line}\n");
    put(Text::ToStdout(painted(&visible(&text), &io::stdout())));
}

/// Prints a line of JSON to standard output; errors are ignored.
pub fn emit_json(line: impl Display) {
    put(Text::ToStdout(
        visible_json(&format!("{line}\n")).into_owned().into_bytes(),
    ));
}

/// Prints a line to standard error. Errors are ignored, since the exit code shows the outcome.
pub fn note(line: impl Display) {
    // one write, because other processes write there too
    let text = format!("{line}\n");
    put(Text::ToStderr(painted(&visible(&text), &io::stderr())));
}

/// Clears the terminal and moves the cursor to its top; without a terminal has no effect.
pub fn clear_screen() {
    if io::stdout().is_terminal() {
        put(Text::ToStdout(b"\x1b[H\x1b[J".to_vec()));
    }
}

/// Returns whether standard error is a terminal.
pub fn is_stderr_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The terminal of standard error, for a bar. The writing thread writes to it, so that a terminal stopped by Ctrl-S blocks nothing else.
#[derive(Debug, Default)]
struct Terminal(Mutex<Vec<u8>>);

impl Terminal {
    fn add(&self, text: impl Display) -> io::Result<()> {
        write!(self.0.lock(), "{text}")
    }

    /// Adds an ECMA-48 control sequence with a numeric parameter. Adds nothing if the number is 0.
    fn control(&self, number: usize, function: char) -> io::Result<()> {
        if number == 0 {
            Ok(())
        } else {
            self.add(format_args!("\x1b[{number}{function}"))
        }
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        console::Term::stderr().size().1
    }

    fn height(&self) -> u16 {
        console::Term::stderr().size().0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.control(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.control(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.control(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.control(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(format_args!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.add(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        put(Text::ToStderr(std::mem::take(&mut *self.0.lock())));
        Ok(())
    }
}

/// A progress bar on standard error; has no effect without a terminal. Control characters in its texts are made visible.
#[derive(Debug)]
pub struct Bar(ProgressBar);

/// Returns an empty bar.
pub fn bar() -> Bar {
    let target = if is_stderr_terminal() {
        ProgressDrawTarget::term_like_with_hz(Box::new(Terminal::default()), FRAMES_HZ)
    } else {
        ProgressDrawTarget::hidden()
    };
    Bar(ProgressBar::with_draw_target(None, target))
}

impl Bar {
    /// Sets the layout from a template of indicatif. An invalid template is a bug, and leaves the layout unchanged.
    pub fn set_template(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
    }

    /// Redraws the bar at this interval.
    pub fn tick_every(&self, pause: Duration) {
        self.0.enable_steady_tick(pause);
    }

    /// Sets the text next to the bar.
    pub fn set_message(&self, text: &str) {
        self.0.set_message(visible(text).into_owned());
    }

    /// Prints a line above the bar.
    pub fn println(&self, line: &str) {
        let text = visible(line);
        // a visible bar implies that standard error is a terminal
        match is_coloured(&io::stderr()) {
            true => self.0.println(paint(&text)),
            false => self.0.println(text),
        }
    }

    /// Sets the amount that is 100 %.
    pub fn set_length(&self, length: u64) {
        self.0.set_length(length);
    }

    /// Sets the amount done so far.
    pub fn set_position(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Adds to the amount done so far.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    /// Removes the bar. Must be called before anything is printed without the writing thread, since the bar would stay above that output. A terminal
    /// that was stopped by Ctrl-S delays this by a second.
    pub fn finish_and_clear(&self) {
        if self.0.is_hidden() {
            return;
        }
        self.0.finish_and_clear();
        let (sender, done) = mpsc::sync_channel(1);
        put(Text::Flush(sender));
        // an error means that the request was answered without the thread, or not in time
        let _ = done.recv_timeout(Duration::from_secs(1));
    }
}

/// Waits without a time limit until all messages are written.
///
/// # Errors
/// A message could not be written.
pub fn check() -> io::Result<()> {
    message_output().flush()?;
    LOST.get().map_or(Ok(()), |(kind, text)| {
        Err(io::Error::new(*kind, text.clone()))
    })
}

/// Waits until all messages are written. Warns if some are lost, except to a closed pipe.
pub fn warn_of_loss() {
    // nothing is left to clean up, so a signal may end the wait
    signals::let_signals_end_it();
    match check() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            tracing::warn!(%error, "standard output is incomplete");
            note(format_args!(
                "warning: standard output is incomplete: {error}"
            ));
            let _ = message_output().flush();
        }
        Ok(()) | Err(_) => {}
    }
}

/// Prints the help, the version, or an error of the command line.
///
/// # Errors
/// The text cannot be written.
pub fn show_usage(usage: &clap::Error) -> io::Result<()> {
    let text = usage.render();
    if usage.use_stderr() {
        let text = if is_coloured(&io::stderr()) {
            text.ansi().to_string()
        } else {
            text.to_string()
        };
        // clap's word is `tip`; cvc's is `hint`
        write!(
            io::stderr(),
            "{}",
            visible_styled(&text.replace("tip:", "hint:"))
        )
    } else {
        let mut out = io::stdout();
        if is_coloured(&out) {
            write!(out, "{}", text.ansi())?
        } else {
            write!(out, "{text}")?
        }
        out.flush()
    }
}

/// Redirects output to /dev/null if it goes to a closed terminal; files and pipes are kept.
pub fn discard_terminal_output() {
    let Ok(null) = std::fs::File::options().write(true).open("/dev/null") else {
        return;
    };
    // a terminal that has hung up no longer counts as a terminal, but is still a character device
    let is_device = |fd: &dyn AsFd| {
        let stat = nix::sys::stat::fstat(fd.as_fd());
        stat.is_ok_and(|s| s.st_mode & nix::libc::S_IFMT == nix::libc::S_IFCHR)
    };
    if is_device(&io::stdout()) {
        let _ = dup2_stdout(&null);
    }
    if is_device(&io::stderr()) {
        let _ = dup2_stderr(&null);
    }
}
