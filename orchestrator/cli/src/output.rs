//! Everything that cvc prints: the only place that touches standard output and standard error.
//!
//! Output never ends a command that changes something, such as `cvc run`: machines may have to be given back. What such a command tells goes
//! to [`told`], [`tell`] and [`note`], which go on without a reader and on a full disk. A command that only shows something writes to
//! [`shown`], and ends with the first error.

#![expect(clippy::disallowed_methods, reason = "here, and nowhere else")]

use nix::unistd::{dup2_stderr, dup2_stdout};
use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, StdoutLock, Write},
    os::fd::AsFd,
    sync::OnceLock,
};

/// The first error of [`told`].
static LOST: OnceLock<(ErrorKind, String)> = OnceLock::new();

/// Standard output of a command that only shows something.
pub fn shown() -> StdoutLock<'static> {
    io::stdout().lock()
}

/// Standard output of a command that does something: what cannot be written is left out.
pub struct Told(());

/// Standard output of a command that does something.
pub const fn told() -> Told {
    Told(())
}

impl Write for Told {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if let Err(error) = io::stdout().write_all(text) {
            LOST.get_or_init(|| (error.kind(), error.to_string()));
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Err(error) = io::stdout().flush() {
            LOST.get_or_init(|| (error.kind(), error.to_string()));
        }
        Ok(())
    }
}

/// Writes a line to standard output, if that is possible.
pub fn tell(line: impl Display) {
    // never fails
    let _ = told().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line to standard error, if that is possible; the exit code still tells.
pub fn note(line: impl Display) {
    // in one piece: others write there too
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Whether standard error is a terminal.
pub fn is_stderr_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Writes what is still in memory.
///
/// # Errors
/// When something that was told could not be written.
pub fn check() -> io::Result<()> {
    told().flush()?;
    LOST.get().map_or(Ok(()), |(kind, text)| Err(io::Error::new(*kind, text.clone())))
}

/// Warns if something that was told could not be written although somebody wanted to read it.
pub fn warn_of_loss() {
    match check() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            tracing::warn!(%error, "standard output is incomplete");
            note(format_args!("warning: standard output is incomplete: {error}"));
        }
        Ok(()) | Err(_) => {}
    }
}

/// Shows the help, the version, or what is wrong with the command line.
///
/// # Errors
/// When it cannot be written.
pub fn show_usage(usage: &clap::Error) -> io::Result<()> {
    usage.print()?;
    io::stdout().flush()
}

/// Redirects output from a terminal that is gone. Files and pipes are written as before.
pub fn speak_to_nobody() {
    let Ok(null) = std::fs::File::options().write(true).open("/dev/null") else { return };
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
