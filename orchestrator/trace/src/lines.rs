//! Reads lines of text files of any size, plain or gzip-compressed, in bounded memory.

use flate2::read::MultiGzDecoder;
use memchr::memchr;
use std::{
    fs::{self, File},
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
};

/// Initial size of the buffer, and the step by which it grows, bytes.
const BLOCK_BYTES: usize = 128 << 10;
/// Maximum length of a line that is kept, bytes. `strace -s` writes the data of a call into its line, with four characters per byte.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Result of [`Lines::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineStep {
    /// A line that ends with a line feed.
    Line,
    /// A line longer than [`MAX_LINE_BYTES`], which was skipped.
    TooLong,
    /// The text after the last line feed: a complete line without its line feed, or an incomplete line.
    Torn,
    /// The end of the text.
    End,
}

/// Iterates over the lines of a text.
pub(crate) struct Lines<R> {
    inner: R,
    buffer: Vec<u8>,
    /// Range of the current line in the buffer, without the line feed.
    line: std::ops::Range<usize>,
    next: usize,
    filled: usize,
    ended: bool,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            buffer: Vec::new(),
            line: 0..0,
            next: 0,
            filled: 0,
            ended: false,
            number: 0,
        }
    }

    /// Advances to the next line.
    pub(crate) fn advance(&mut self) -> io::Result<LineStep> {
        self.line = 0..0;
        let mut searched = self.next;
        let mut skipping = false;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[searched..self.filled]) {
                let end = searched + at;
                let line = self.next..end;
                self.next = end + 1;
                self.number += 1;
                if skipping {
                    return Ok(LineStep::TooLong);
                }
                self.set(line);
                return Ok(LineStep::Line);
            }
            if self.filled - self.next > MAX_LINE_BYTES {
                skipping = true;
            }
            if skipping {
                self.next = self.filled;
            }
            if self.ended {
                let rest = self.next..self.filled;
                self.next = self.filled;
                if skipping {
                    self.number += 1;
                    return Ok(LineStep::TooLong);
                }
                if rest.is_empty() {
                    return Ok(LineStep::End);
                }
                self.number += 1;
                self.set(rest);
                return Ok(LineStep::Torn);
            }
            searched = self.fill()?;
        }
    }

    fn set(&mut self, line: std::ops::Range<usize>) {
        let cut = usize::from(self.buffer[line.clone()].ends_with(b"\r"));
        self.line = line.start..line.end - cut;
    }

    /// Reads once. Returns the offset of the new bytes in the buffer.
    fn fill(&mut self) -> io::Result<usize> {
        if self.next > 0 {
            self.buffer.copy_within(self.next..self.filled, 0);
            self.filled -= self.next;
            self.next = 0;
        }
        if self.filled == self.buffer.len() {
            let more = self.buffer.len().max(BLOCK_BYTES);
            self.buffer.resize(self.buffer.len() + more, 0);
        }
        let begin = self.filled;
        loop {
            match self.inner.read(&mut self.buffer[begin..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // data before the damage are still returned
                    self.ended = true;
                    return Err(error);
                }
            }
            return Ok(begin);
        }
    }

    /// Returns the current line.
    pub(crate) fn line(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    /// Returns the number of the current line, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// A text that is read once, from beginning to end.
pub(crate) type Text<'a> = Box<dyn Read + Send + 'a>;

/// Decompresses gzip with one or several members; other data pass through unchanged.
pub(crate) fn unpacked<'a>(mut inner: impl Read + Send + 'a) -> io::Result<Text<'a>> {
    let mut head = [0; 2];
    let mut length = 0;
    while length < head.len() {
        match inner.read(&mut head[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let whole = Cursor::new(head).take(length as u64).chain(inner);
    Ok(if head == GZIP_MAGIC && length == head.len() {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(whole)
    })
}

/// Opens a file; decompresses it if it is gzip-compressed.
pub(crate) fn open(path: &Path) -> io::Result<Text<'static>> {
    unpacked(File::open(path)?)
}

/// Returns whether a read error means that the data are damaged, and not that the system cannot read them.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
    )
}

/// Returns the files in a directory, sorted by name; for any other path, the path itself.
pub(crate) fn files_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Returns one byte per read, like a slow pipe.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = usize::from(!self.0.is_empty());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn all(text: impl Read) -> Vec<(LineStep, Vec<u8>)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        loop {
            match lines.advance().unwrap() {
                LineStep::End => return found,
                step => found.push((step, lines.line().to_vec())),
            }
        }
    }

    #[test]
    fn lines_of_a_slow_pipe_are_put_together() {
        let expected = vec![
            (LineStep::Line, b"ab".to_vec()),
            (LineStep::Line, Vec::new()),
            (LineStep::Line, b"c".to_vec()),
            (LineStep::Torn, b"d".to_vec()),
        ];
        assert_eq!(all(Drops(b"ab\r\n\nc\nd")), expected);
        assert_eq!(all(&b"ab\r\n\nc\nd"[..]), expected);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_in_bounded_memory() {
        let long = io::repeat(b'x').take(3 * MAX_LINE_BYTES as u64);
        let mut lines = Lines::new((&b"a\n"[..]).chain(long).chain(&b"\nb\n"[..]));
        assert_eq!(lines.advance().unwrap(), LineStep::Line);
        assert_eq!(lines.advance().unwrap(), LineStep::TooLong);
        assert_eq!(lines.advance().unwrap(), LineStep::Line);
        assert_eq!(lines.line(), b"b");
        assert!(lines.buffer.len() <= 3 * MAX_LINE_BYTES);
    }
}
