//! Everything that cvc prints: the only place that touches standard output and standard error.
//!
//! Output never ends a command that changes something, such as `cvc run`, nor makes it wait: machines may have to be given back, and what runs
//! on them to be looked after, while a reader such as `less` rests. What such a command tells goes to [`told`], [`tell`] and [`note`]: a thread
//! writes it, without a reader and on a full disk as well, and [`warn_of_loss`] waits for the thread at the end. A command that only shows
//! something writes to [`shown`], and ends with the first error.
//!
//! Whatever is written passes [`visible`] here: what programs, other machines and names of files say cannot steer the terminal. The only codes
//! that reach it are those of bars ([`Bar`]) and of clap.

#![expect(clippy::disallowed_methods, reason = "here, and nowhere else")]

use crate::signals;
use cvc_core::visible::{Form, Visible, visible, visible_json, visible_styled};
use cvc_show::Blocks;
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

/// Bytes that wait for a reader at most; what comes when there are as many is lost.
const WAITING: usize = 16 << 20;
/// How often a bar is drawn at most, each second.
const FRAMES_HZ: u8 = 8;

/// The first error of [`told`].
static LOST: OnceLock<(ErrorKind, String)> = OnceLock::new();
/// The thread that writes; `None` if none could be started.
static WRITER: LazyLock<Option<Writer>> = LazyLock::new(|| {
    let (sender, texts) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&waiting);
    let thread = std::thread::Builder::new()
        .name("output".into())
        .spawn(move || write_all(&texts, &left));
    thread.ok().map(|_| Writer { sender, waiting })
});

/// What is told to the thread that writes.
enum Text {
    ToStdout(Vec<u8>),
    ToStderr(Vec<u8>),
    /// To be answered when everything before it is written.
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
            // the exit code still tells
            Self::ToStderr(text) => drop(io::stderr().write_all(&text)),
            // who asked does not wait any more
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

/// Has a text written, in the order in which texts come.
fn put(text: Text) {
    let Some(writer) = WRITER.as_ref() else {
        return text.write();
    };
    let length = text.len();
    if writer.waiting.fetch_add(length, Ordering::Relaxed) > WAITING && length > 0 {
        writer.waiting.fetch_sub(length, Ordering::Relaxed);
        LOST.get_or_init(|| (ErrorKind::WouldBlock, "nobody reads it".to_owned()));
    } else if let Err(mpsc::SendError(text)) = writer.sender.send(text) {
        text.write();
    }
}

/// Standard output of a command that only shows something.
pub fn shown() -> Visible<StdoutLock<'static>> {
    shown_as(false)
}

/// Where a command writes bytes that are no text, as they are; none if a terminal would show them.
pub fn shown_bytes() -> Option<StdoutLock<'static>> {
    let out = io::stdout().lock();
    (!out.is_terminal()).then_some(out)
}

/// The same, for a command that was asked for JSON or for text.
pub fn shown_as(is_json: bool) -> Visible<StdoutLock<'static>> {
    Visible::new(
        io::stdout().lock(),
        if is_json { Form::Json } else { Form::Text },
    )
}

/// Prints the answer of a command that only shows something.
pub fn print(answer: &Blocks) -> io::Result<()> {
    let mut out = shown();
    out.write_all(cvc_show::text(&answer.0).as_bytes())?;
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

/// Writes blocks to standard output, if that is possible.
pub fn tell_blocks(blocks: &Blocks) {
    let text = cvc_show::text(&blocks.0);
    put(Text::ToStdout(visible(&text).into_owned().into_bytes()));
}

/// Prints the answer as JSON.
pub fn print_json(answer: &impl Serialize) -> io::Result<()> {
    let mut out = shown_as(true);
    let text = serde_json::to_string_pretty(answer).map_err(io::Error::from)?;
    writeln!(out, "{text}")?;
    out.flush()
}

/// Writes to the thread that writes.
pub struct Told(());

/// Standard output of a command that does something: what cannot be written is left out.
pub const fn told() -> Visible<Told> {
    Visible::new(Told(()), Form::Text)
}

impl Write for Told {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        put(Text::ToStdout(text.to_vec()));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (sender, done) = mpsc::sync_channel(1);
        put(Text::Flush(sender));
        // an error: it was answered without the thread
        let _ = done.recv();
        Ok(())
    }
}

/// Writes a line to standard output, if that is possible.
pub fn tell(line: impl Display) {
    put(Text::ToStdout(
        visible(&format!("{line}\n")).into_owned().into_bytes(),
    ));
}

/// The same for a line of JSON.
pub fn tell_json(line: impl Display) {
    put(Text::ToStdout(
        visible_json(&format!("{line}\n")).into_owned().into_bytes(),
    ));
}

/// Writes a line to standard error, if that is possible; the exit code still tells.
pub fn note(line: impl Display) {
    // in one piece: others write there too
    put(Text::ToStderr(
        visible(&format!("{line}\n")).into_owned().into_bytes(),
    ));
}

/// Takes what is shown on a terminal away: the next line stands at its top.
pub fn clear_screen() {
    if io::stdout().is_terminal() {
        put(Text::ToStdout(b"\x1b[H\x1b[J".to_vec()));
    }
}

/// Whether standard error is a terminal.
pub fn is_stderr_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The terminal of the messages, for a bar. The thread writes to it: one that was stopped by Ctrl-S holds nothing up.
#[derive(Debug, Default)]
struct Terminal(Mutex<Vec<u8>>);

impl Terminal {
    fn add(&self, text: impl Display) -> io::Result<()> {
        write!(self.0.lock(), "{text}")
    }

    /// A control sequence of ECMA-48 with a number.
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

/// A bar on the terminal of the messages; nothing where that is none. Its texts are made visible like all others.
#[derive(Debug)]
pub struct Bar(ProgressBar);

/// A bar that shows nothing yet.
pub fn bar() -> Bar {
    let target = if is_stderr_terminal() {
        ProgressDrawTarget::term_like_with_hz(Box::new(Terminal::default()), FRAMES_HZ)
    } else {
        ProgressDrawTarget::hidden()
    };
    Bar(ProgressBar::with_draw_target(None, target))
}

impl Bar {
    /// Gives it the form of a template of indicatif. A wrong one is a bug: the form stays.
    pub fn set_template(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
    }

    /// Draws it now and then, also if nothing happens.
    pub fn tick_every(&self, pause: Duration) {
        self.0.enable_steady_tick(pause);
    }

    /// The text beside it.
    pub fn set_message(&self, text: &str) {
        self.0.set_message(visible(text).into_owned());
    }

    /// Writes a line above it.
    pub fn println(&self, line: &str) {
        self.0.println(visible(line));
    }

    /// How much there is to do.
    pub fn set_length(&self, length: u64) {
        self.0.set_length(length);
    }

    /// How much is done.
    pub fn set_position(&self, done: u64) {
        self.0.set_position(done);
    }

    /// More is done.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    /// Takes it away.
    pub fn finish_and_clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Waits until everything that was told is written, as long as its reader takes.
///
/// # Errors
/// When something that was told could not be written.
pub fn check() -> io::Result<()> {
    told().flush()?;
    LOST.get().map_or(Ok(()), |(kind, text)| {
        Err(io::Error::new(*kind, text.clone()))
    })
}

/// Waits until everything that was told is written. Warns if something could not be, although somebody wanted to read it.
pub fn warn_of_loss() {
    // nothing is at stake any more: a signal ends the waiting
    signals::let_signals_end_it();
    match check() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            tracing::warn!(%error, "standard output is incomplete");
            note(format_args!(
                "warning: standard output is incomplete: {error}"
            ));
            let _ = told().flush();
        }
        Ok(()) | Err(_) => {}
    }
}

/// Shows the help, the version, or what is wrong with the command line.
///
/// # Errors
/// When it cannot be written.
pub fn show_usage(usage: &clap::Error) -> io::Result<()> {
    let text = usage.render();
    if usage.use_stderr() {
        let text = if io::stderr().is_terminal() {
            text.ansi().to_string()
        } else {
            text.to_string()
        };
        // clap says `tip`; the word everywhere in cvc is `hint`
        write!(
            io::stderr(),
            "{}",
            visible_styled(&text.replace("tip:", "hint:"))
        )
    } else {
        let mut out = io::stdout();
        if out.is_terminal() {
            write!(out, "{}", text.ansi())?
        } else {
            write!(out, "{text}")?
        }
        out.flush()
    }
}

/// Redirects output from a terminal that is gone. Files and pipes are written as before.
pub fn speak_to_nobody() {
    let Ok(null) = std::fs::File::options().write(true).open("/dev/null") else {
        return;
    };
    // a terminal that has hung up is not a terminal any more, but still a character device
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
