//! Converts lines to calls: joins calls that strace wrote in several parts, and identifies tasks by the numbers at the beginning of lines.

use super::{
    calls::call,
    run::{CompletedCall, Run},
    state::TaskId,
    syntax::{CallArguments, Prefix, outcome},
};
use memchr::memmem;
use std::io;

/// Maximum number of bytes kept of an unfinished call. There can be as many unfinished calls as tasks.
const MAX_BEGUN_BYTES: usize = 256 << 10;

const RESUMED: &[u8] = b"<... ";

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParsedLine {
    /// A call, or a part of one.
    Call,
    /// Other output of strace.
    Remark,
    /// Not output of strace.
    Noise,
}

/// A call in whose line other output was written: a message of strace, or output of the program to the same file.
struct Interrupted {
    space: u32,
    /// The task, if the call is one that is evaluated.
    task: Option<TaskId>,
    start_ns: u64,
    /// Whether a message of strace interrupted the call. If not, and if no line continues the call, its line is damaged.
    by_strace: bool,
}

/// Processes one line after another.
pub(super) struct Reader<'s> {
    pub(super) run: Run<'s>,
    /// Buffer for a call joined from its parts.
    joined: Vec<u8>,
    interrupted: Option<Interrupted>,
    /// Number of lines that end within a call and that no later line continues.
    pub(super) cut: u64,
}

impl<'s> Reader<'s> {
    pub(super) fn new(run: Run<'s>) -> Self {
        Self {
            run,
            joined: Vec::new(),
            interrupted: None,
            cut: 0,
        }
    }

    /// Processes a line. `number` is the task number, used if the line itself has none.
    pub(super) fn line(
        &mut self,
        space: u32,
        number: Option<u64>,
        prefix: Prefix,
        line: &[u8],
        start_ns: u64,
    ) -> io::Result<ParsedLine> {
        let body = &line[prefix.body..];
        let number = prefix.pid.or(number);
        if let Some(call) = self.interrupted.take_if(|call| call.space == space) {
            if prefix.time.is_some() {
                self.give_up(&call);
            } else if self.resumes_later(&call, line)? {
                return Ok(ParsedLine::Call);
            } else {
                self.interrupted = Some(call);
            }
        }
        match body.first() {
            None => return Ok(ParsedLine::Remark),
            Some(b'a'..=b'z' | b'_') => {}
            Some(b'<') if body.starts_with(RESUMED) && prefix.time.is_some() => {
                return self.resumed(space, number, body);
            }
            // stack traces of -k, data of -e read and -e write
            Some(b'<' | b'>') => return Ok(ParsedLine::Remark),
            Some(b'|' | b'*' | b'=') if is_dump(body) => return Ok(ParsedLine::Remark),
            Some(b'+') if body.starts_with(b"+++ ") => {
                return self.ended(space, number, body);
            }
            Some(b'-') if body.starts_with(b"--- ") => return Ok(ParsedLine::Remark),
            Some(_) => {
                return self.attached(space, body);
            }
        }
        let Some(bracket) = memchr::memchr(b'(', body) else {
            return self.attached(space, body);
        };
        let name = &body[..bracket];
        if !name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        {
            return self.attached(space, body);
        }
        if prefix.time.is_none() {
            return Ok(ParsedLine::Noise);
        }
        let message = match memmem::rfind(body, b"strace: Process ") {
            Some(at) if memmem::find(&body[at..], b" attached").is_some() => Some(at),
            _ => None,
        };
        let mut interrupted = Interrupted {
            space,
            task: None,
            start_ns,
            by_strace: message.is_some(),
        };
        let Some(call) = call(name) else {
            if let Some(message) = message {
                self.interrupted = Some(interrupted);
                self.attached(space, &body[message..])?;
            }
            return Ok(ParsedLine::Call);
        };
        let id = self.run.task(space, number)?;
        if let Some(text) = unfinished(body) {
            self.begin(id, text, start_ns)?;
            return Ok(ParsedLine::Call);
        }
        let Some(arguments) = CallArguments::split(&body[bracket + 1..]) else {
            self.begin(id, &body[..message.unwrap_or(body.len())], start_ns)?;
            interrupted.task = Some(id);
            self.interrupted = Some(interrupted);
            if let Some(message) = message {
                self.attached(space, &body[message..])?;
            }
            return Ok(ParsedLine::Call);
        };
        let Some(outcome) = outcome(arguments.rest) else {
            return Ok(ParsedLine::Noise);
        };
        let Some(who) = self.run.who(id) else {
            return Ok(ParsedLine::Noise);
        };
        let done = CompletedCall {
            id,
            who,
            arguments: &arguments,
            outcome,
            start_ns,
        };
        self.run.apply(call, &done)?;
        Ok(ParsedLine::Call)
    }

    /// Processes a line that may be the continuation of a call. Returns whether it is one.
    fn resumes_later(&mut self, call: &Interrupted, line: &[u8]) -> io::Result<bool> {
        let torn = unfinished(line);
        let Some(id) = call.task else {
            return Ok(torn.is_some() || memmem::find(line, b") ").is_some());
        };
        let Some(begun) = self.run.begun(id) else {
            return Ok(torn.is_some());
        };
        if let Some(more) = torn {
            begun.text.extend_from_slice(more.trim_ascii());
            return Ok(true);
        }
        let Some(bracket) = memchr::memchr(b'(', &begun.text) else {
            return Ok(false);
        };
        self.joined.clear();
        self.joined.extend_from_slice(&begun.text);
        let name = &begun.text[..bracket];
        let Some(kind) = super::calls::call(name) else {
            return Ok(false);
        };
        // output of the program can end the arguments anywhere; after a message of strace they continue
        let arguments = match line.split_first() {
            Some((b')', rest)) => CallArguments::interrupted(&self.joined[bracket + 1..], rest),
            _ => {
                self.joined.extend_from_slice(line);
                match CallArguments::split(&self.joined[bracket + 1..]) {
                    Some(arguments) => arguments,
                    None => return Ok(false),
                }
            }
        };
        let (Some(outcome), Some(who)) = (outcome(arguments.rest), self.run.who(id)) else {
            return Ok(false);
        };
        self.run.end(id);
        let done = CompletedCall {
            id,
            who,
            arguments: &arguments,
            outcome,
            start_ns: call.start_ns,
        };
        self.run.apply(kind, &done)?;
        Ok(true)
    }

    /// Discards an interrupted call that has no continuation.
    fn give_up(&mut self, call: &Interrupted) {
        if !call.by_strace {
            self.cut += 1;
            if let Some(id) = call.task {
                self.run.end(id);
            }
        }
    }

    /// Processes the end of the input.
    pub(super) fn finish(&mut self) {
        if let Some(call) = self.interrupted.take() {
            self.give_up(&call);
        }
    }

    fn begin(&mut self, id: TaskId, text: &[u8], start_ns: u64) -> io::Result<()> {
        if text.len() > MAX_BEGUN_BYTES {
            return self.run.miss_once(
                "long calls",
                "calls whose arguments are longer than 256 KiB are read only where they are on one line; record with a smaller -s",
            );
        }
        self.run.begin(id, text.trim_ascii_end(), start_ns);
        Ok(())
    }

    fn resumed(&mut self, space: u32, number: Option<u64>, body: &[u8]) -> io::Result<ParsedLine> {
        let rest = &body[RESUMED.len()..];
        let Some(end) = memmem::find(rest, b" resumed>") else {
            return Ok(ParsedLine::Noise);
        };
        let name = &rest[..end];
        let tail = &rest[end + b" resumed>".len()..];
        let Some(call) = call(name) else {
            return Ok(ParsedLine::Call);
        };
        let id = self.run.task(space, number)?;
        let Some(begun) = self.run.end(id) else {
            self.run.halves.1 += 1;
            return Ok(ParsedLine::Call);
        };
        let is_same = begun
            .text
            .strip_prefix(name)
            .is_some_and(|rest| rest.first() == Some(&b'('));
        if !is_same {
            self.run.halves.1 += 1;
            return Ok(ParsedLine::Call);
        }
        self.joined.clear();
        self.joined.extend_from_slice(&begun.text[name.len() + 1..]);
        self.joined.extend_from_slice(tail);
        let Some(arguments) = CallArguments::split(&self.joined) else {
            return Ok(ParsedLine::Noise);
        };
        let (Some(outcome), Some(who)) = (outcome(arguments.rest), self.run.who(id)) else {
            return Ok(ParsedLine::Noise);
        };
        let done = CompletedCall {
            id,
            who,
            arguments: &arguments,
            outcome,
            start_ns: begun.start_ns,
        };
        self.run.apply(call, &done)?;
        Ok(ParsedLine::Call)
    }

    /// Processes a line such as `+++ exited with 0 +++`, `+++ killed by SIGKILL +++` or `+++ superseded by execve in pid 7 +++`.
    fn ended(&mut self, space: u32, number: Option<u64>, body: &[u8]) -> io::Result<ParsedLine> {
        let id = self.run.task(space, number)?;
        match body.strip_prefix(b"+++ superseded by execve in pid ") {
            Some(rest) => {
                let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
                if let Some(by) = super::syntax::number(&rest[..end]) {
                    self.run.superseded(id, by)?;
                }
            }
            None => self.run.exited(id)?,
        }
        Ok(ParsedLine::Remark)
    }

    /// Processes messages of `strace` on its standard error, to which it also writes the trace without `-o`.
    fn attached(&mut self, space: u32, body: &[u8]) -> io::Result<ParsedLine> {
        let words = body.strip_prefix(b"strace: ").unwrap_or(body);
        let Some(rest) = words.strip_prefix(b"Process ") else {
            return Ok(if words.len() < body.len() {
                ParsedLine::Remark
            } else {
                ParsedLine::Noise
            });
        };
        let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        match (super::syntax::number(&rest[..end]), &rest[end..]) {
            (Some(number), rest) if rest.starts_with(b" attached") => {
                self.run.attached(space, number)?;
                Ok(ParsedLine::Remark)
            }
            (Some(_), _) => Ok(ParsedLine::Remark),
            (None, _) => Ok(ParsedLine::Noise),
        }
    }
}

/// Returns the beginning of a call whose end is in a later line; `None` if the line is not one.
fn unfinished(body: &[u8]) -> Option<&[u8]> {
    let inner = body.trim_ascii_end().strip_suffix(b" ...>")?;
    let begin = memchr::memrchr(b'<', inner)?;
    // with -ff, `execve` in a thread continues in the file of the process
    let is_torn = &inner[begin..] == b"<unfinished" || inner[begin..].starts_with(b"<pid changed ");
    is_torn.then(|| &inner[..begin])
}

/// Returns whether a line is data that `-e read` and `-e write` print below a call: `| 00000  61 ...`, `* 9 bytes in buffer 0`, `= 2 buffers in
/// vector 0`.
fn is_dump(body: &[u8]) -> bool {
    let Some((mark, rest)) = body.split_first() else {
        return false;
    };
    let rest = rest.trim_ascii_start();
    let is_number = rest.len() >= 5 && rest[..5].iter().all(u8::is_ascii_hexdigit);
    *mark == b'|' && is_number
        || memmem::find(rest, b" in buffer ").is_some()
        || memmem::find(rest, b" in vector ").is_some()
}
