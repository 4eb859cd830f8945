//! Files that only grow, by whole lines of JSON with a checksum. Written lines stay readable after any failure: a partly written line is removed, or
//! nothing is written after it.
//!
//! The checksum is the last field of a line, `"sum"`: the first 16 hexadecimal digits of the BLAKE3 digest of the line without this field. It
//! distinguishes a torn line, one that was written only in part and can only be at the end of the file, from a line that was damaged later.

use super::error::StoreError;
use crate::ids::{DIGITS, short_digest};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::{disk, regular};
use std::{
    fmt::Display,
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read},
    ops::Range,
    os::unix::fs::MetadataExt,
};

/// Maximum length of an incomplete last line, bytes; anything longer counts as damage. Lines are usually much shorter, but a set of nodes may have a
/// hundred thousand names.
const MAX_TORN_BYTES: u64 = 4 << 20;

/// Separator between a line's content and its checksum.
const SUM: &[u8] = br#","sum":""#;
/// Terminator of a line.
const END: &[u8] = br#""}"#;

/// Returns a JSON object as a line, with its checksum and a line feed.
///
/// # Errors
/// The JSON is not an object with at least one field, or is too long.
pub fn with_sum(mut json: Vec<u8>) -> io::Result<Vec<u8>> {
    if json.len() < 3 || json.pop() != Some(b'}') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a line must be a JSON object with a field",
        ));
    }
    // readers would refuse the line
    if json.len() as u64 + 64 > MAX_LINE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the line is too long",
        ));
    }
    let sum = short_digest(&json);
    json.extend_from_slice(SUM);
    json.extend_from_slice(sum.as_bytes());
    json.extend_from_slice(END);
    json.push(b'\n');
    Ok(json)
}

/// Result of verifying a line's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The line is unchanged.
    Right,
    /// The line does not match its checksum.
    Wrong,
    /// The line has no checksum, as in files of earlier versions.
    Missing,
}

/// Verifies the checksum of a line without its line feed.
pub fn check_sum(line: &[u8]) -> Sum {
    let Some(at) = line.len().checked_sub(SUM.len() + DIGITS + END.len()) else {
        return Sum::Missing;
    };
    let (content, rest) = line.split_at(at);
    match rest
        .strip_prefix(SUM)
        .and_then(|rest| rest.strip_suffix(END))
    {
        Some(sum) if sum == short_digest(content).as_bytes() => Sum::Right,
        Some(_) => Sum::Wrong,
        None => Sum::Missing,
    }
}

/// Returns the checksum of a line without verifying it; `None` if the line has none.
pub fn sum_of(line: &[u8]) -> Option<&str> {
    let content = line.trim_ascii_end().strip_suffix(END)?;
    let (rest, sum) = content.split_at_checked(content.len().checked_sub(DIGITS)?)?;
    rest.ends_with(SUM)
        .then_some(std::str::from_utf8(sum).ok()?)
}

/// A line that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Number of the line, from 1.
    pub number: usize,
    /// Position of the line in the file, bytes, including the line feed.
    pub bytes: Range<u64>,
    /// The problem.
    pub problem: String,
}

/// Result of reading a file: everything except the content of the good lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Number of good lines.
    pub good: usize,
    /// Lines that were damaged after they had been written.
    pub damaged: Vec<BadLine>,
    /// Incomplete lines at the end, from an interrupted append, or from lines that were not synced.
    pub torn: Vec<BadLine>,
    /// Bytes up to the end of the last complete line.
    pub whole_bytes: u64,
    /// Size of the file, bytes.
    pub bytes: u64,
}

impl Scan {
    /// Returns the number of bytes after the last complete line, which an interrupted append left.
    pub fn torn_bytes(&self) -> u64 {
        self.bytes - self.whole_bytes
    }

    /// Corrects the result for a file that is synced after every second line at the latest. At most the last two lines of such a file can be torn. If
    /// there are more incomplete lines at the end, or a longer end than any line, all of them count as damaged.
    pub fn with_synced_lines(mut self) -> Self {
        let unended = self.bytes
            - self
                .torn
                .last()
                .map_or(self.whole_bytes, |last| last.bytes.end);
        if unended > MAX_TORN_BYTES {
            let number = self.good + self.damaged.len() + self.torn.len() + 1;
            let problem =
                format!("the last {unended} bytes are not a line, and too many for a torn one");
            self.torn.push(BadLine {
                number,
                bytes: self.bytes - unended..self.bytes,
                problem,
            });
        }
        if self.torn.len() > 2 || unended > MAX_TORN_BYTES {
            self.whole_bytes = self
                .torn
                .last()
                .map_or(self.whole_bytes, |last| last.bytes.end);
            self.damaged.append(&mut self.torn);
        }
        self
    }

    /// Checks that no line is damaged.
    ///
    /// # Errors
    /// A line is damaged; the error describes the first one.
    pub fn undamaged(&self, path: &Utf8Path) -> Result<(), StoreError> {
        match self.damaged.as_slice() {
            [] => Ok(()),
            [only] => Err(StoreError::damaged(path, only.number, only.problem.clone())),
            [first, more @ ..] => Err(StoreError::damaged(
                path,
                first.number,
                format!("{} (and {} further lines)", first.problem, more.len()),
            )),
        }
    }
}

/// Maximum length of a line, bytes.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Reads the next line with its line feed, and returns its length in bytes. If the line is too long, `line` does not contain all of it.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    let mut length = Read::take(&mut *reader, MAX_LINE_BYTES + 1).read_until(b'\n', line)? as u64;
    if length > MAX_LINE_BYTES && !line.ends_with(b"\n") {
        length += reader.skip_until(b'\n')? as u64;
    }
    Ok(length)
}

/// Reads all lines in order. `take` is called with the number and the JSON of each complete line; a line that it rejects counts as damaged.
///
/// # Errors
/// The file cannot be read.
pub fn scan<E: Display>(
    file: impl io::Read,
    mut take: impl FnMut(usize, &[u8]) -> Result<(), E>,
) -> io::Result<Scan> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut scan, mut line, mut number, mut summed) = (Scan::default(), Vec::new(), 0, false);
    loop {
        let length = next_line(&mut reader, &mut line)?;
        if length == 0 {
            return Ok(scan);
        }
        let bytes = scan.bytes..scan.bytes + length;
        scan.bytes = bytes.end;
        number += 1;
        if length > MAX_LINE_BYTES {
            // no line is ever written that long, so the line is not torn but damaged
            let problem =
                format!("the line has {length} bytes; lines of cvc have at most {MAX_LINE_BYTES}");
            scan.damaged.append(&mut scan.torn);
            scan.whole_bytes = bytes.end;
            scan.damaged.push(BadLine {
                number,
                bytes,
                problem,
            });
            continue;
        }
        let Some(json) = line.strip_suffix(b"\n") else {
            return Ok(scan);
        };
        let sum = check_sum(json);
        let problem = match sum {
            Sum::Right => None,
            Sum::Missing if !summed => None,
            Sum::Missing => Some("the line has no checksum, unlike the lines before it"),
            Sum::Wrong => Some("the line does not match its checksum"),
        };
        let is_json =
            sum == Sum::Right || serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok();
        if !is_json {
            let problem = problem.unwrap_or("the line is not JSON").to_owned();
            // counts as damaged if a complete line follows
            scan.torn.push(BadLine {
                number,
                bytes,
                problem,
            });
            continue;
        }
        // a torn line is never valid JSON: a checksum error in valid JSON is damage, and so are incomplete lines before it
        scan.damaged.append(&mut scan.torn);
        scan.whole_bytes = bytes.end;
        summed |= sum == Sum::Right;
        let problem = match problem {
            Some(problem) => Some(problem.to_owned()),
            None => take(number, json).err().map(|error| error.to_string()),
        };
        match problem {
            None => scan.good += 1,
            Some(problem) => scan.damaged.push(BadLine {
                number,
                bytes,
                problem,
            }),
        }
    }
}

/// A file to which lines are appended. It has a single writer, which holds a lock.
#[derive(Debug)]
pub struct LineFile {
    path: Utf8PathBuf,
    /// Name of the file's failpoints, the places where tests make writing fail.
    point: String,
    file: File,
    /// Total length of the complete lines, bytes.
    length: u64,
    /// How another process changed the file. After that the file belongs to the other process.
    fenced: Option<String>,
    /// The error after which nothing more is written to the file.
    refused: Option<(io::ErrorKind, String)>,
}

impl LineFile {
    /// Opens or creates a file, and passes its complete lines to `take`, as [`scan`] does. `is_synced` means that at most two lines are ever written
    /// between two syncs. Removes a torn end. If lines before the end are damaged, the file stays unchanged, and nothing can be appended.
    ///
    /// # Errors
    /// The file cannot be opened, read or truncated.
    pub fn open<E: Display>(
        path: &Utf8Path,
        is_synced: bool,
        take: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(Self, Scan), StoreError> {
        let fail = |action| StoreError::io(action, path);
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let file = regular::open_with(options, path.as_std_path()).map_err(fail("open"))?;
        let scan = scan(&file, take).map_err(fail("read"))?;
        let scan = if is_synced {
            scan.with_synced_lines()
        } else {
            scan
        };
        let point = path.file_name().unwrap_or_default().to_owned();
        let mut lines = Self {
            path: path.to_owned(),
            point,
            file,
            length: scan.whole_bytes,
            fenced: None,
            refused: None,
        };
        if !scan.damaged.is_empty() {
            lines.refused = Some((io::ErrorKind::InvalidData, "the file is damaged".to_owned()));
        } else if scan.torn_bytes() > 0 {
            lines
                .cut_back()
                .map_err(fail("cut the torn last line of"))?;
        }
        Ok((lines, scan))
    }

    /// Appends a JSON object as a line with a checksum, and returns the line. If `synced`, the line survives a power loss when this returns. If
    /// appending fails, the file has its previous lines; if that is not certain, nothing more is written to the file.
    ///
    /// # Errors
    /// The line cannot be written, or an earlier failure prevents writing.
    pub fn append(&mut self, json: Vec<u8>, synced: bool) -> Result<Vec<u8>, StoreError> {
        self.check_owner()?;
        self.try_append(json, synced)
            .map_err(StoreError::io("append to", &self.path))
    }

    /// Checks that the path still refers to the opened file, and that no other process has written to the file. A lock that does not reach other
    /// machines, or whose file was deleted, would not prevent a second writer.
    ///
    /// # Errors
    /// The file belongs to another process. From then on nothing more is written.
    pub fn check_owner(&mut self) -> Result<(), StoreError> {
        if self.fenced.is_none() && self.refused.is_none() {
            self.fenced = self.changed_by_others();
        }
        match &self.fenced {
            Some(what) => Err(StoreError::Fenced {
                path: self.path.clone().into(),
                what: what.clone(),
            }),
            None => Ok(()),
        }
    }

    fn changed_by_others(&self) -> Option<String> {
        // an error of this query does not indicate another writer; the next append reports it
        let mine = self.file.metadata().ok()?;
        match std::fs::metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) != (mine.dev(), mine.ino()) => {
                Some("another file has its name".to_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some("it was moved or deleted".to_owned())
            }
            Ok(_) if mine.len() != self.length => Some(format!(
                "it has {} bytes, but this process left it with {}",
                mine.len(),
                self.length
            )),
            Ok(_) | Err(_) => None,
        }
    }

    /// Locks the file itself, until this value is dropped.
    ///
    /// # Errors
    /// Another process has locked it. A file system without locks is not an error, because [`check_owner`](Self::check_owner) also protects the file.
    pub fn lock(&self) -> Result<(), StoreError> {
        match self.file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                path: self.path.clone().into(),
                holder: String::new(),
                beat: None,
            }),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    fn try_append(&mut self, json: Vec<u8>, synced: bool) -> io::Result<Vec<u8>> {
        if let Some((kind, why)) = &self.refused {
            return Err(io::Error::new(
                *kind,
                format!("{why} (nothing was written to it afterwards)"),
            ));
        }
        let line = with_sum(json)?;
        if let Err(error) =
            disk::write_all(&format!("{}.append", self.point), &mut self.file, &line)
        {
            if self.cut_back().is_err() {
                self.refused = Some((error.kind(), error.to_string()));
            }
            return Err(error);
        }
        if synced && let Err(error) = disk::sync_data(&format!("{}.sync", self.point), &self.file) {
            // the kernel reports a failed write-back once, and may have dropped earlier lines together with this one: later syncs cannot be trusted
            self.refused = Some((error.kind(), error.to_string()));
            // if this fails, the line stays, but is complete
            let _ = self.cut_back();
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(line)
    }

    /// Truncates the file after the last complete line.
    fn cut_back(&mut self) -> io::Result<()> {
        disk::check(&format!("{}.cut", self.point))?;
        self.file.set_len(self.length)?;
        disk::sync_all(&self.file)
    }

    /// Syncs lines that were appended without a sync.
    ///
    /// # Errors
    /// Syncing fails, or has failed before. Nothing more is written then.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.check_owner()?;
        let result = match &self.refused {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None => disk::sync_data(&format!("{}.sync", self.point), &self.file),
        };
        result.map_err(|error| {
            self.refused
                .get_or_insert((error.kind(), error.to_string()));
            StoreError::io("sync", &self.path)(error)
        })
    }

    /// Allows appending to a file with damaged lines, for files whose readers skip these lines. Removes a torn end.
    ///
    /// # Errors
    /// The file cannot be truncated.
    pub fn go_on_behind_damage(&mut self) -> Result<(), StoreError> {
        self.cut_back()
            .map_err(StoreError::io("cut the torn last line of", &self.path))?;
        self.refused = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::convert::Infallible;

    fn line(n: usize) -> Vec<u8> {
        serde_json::to_vec(&json!({ "seq": n, "text": "x".repeat(n) })).expect("JSON")
    }

    /// Returns the path of a file with a unique name, so that its failpoints differ from those of other tests.
    fn file(name: &str) -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join(name)).expect("UTF-8");
        (dir, path)
    }

    fn open(path: &Utf8Path) -> (LineFile, Scan, Vec<usize>) {
        let mut read = Vec::new();
        let (lines, scan) = LineFile::open(path, true, |_, json| -> Result<(), String> {
            let value: serde_json::Value =
                serde_json::from_slice(json).map_err(|e| e.to_string())?;
            read.push(value["seq"].as_u64().ok_or("no number")? as usize);
            Ok(())
        })
        .expect("opens");
        (lines, scan, read)
    }

    #[test]
    fn a_line_is_json_whose_last_field_tells_every_changed_byte() {
        let whole = with_sum(line(3)).expect("a line");
        let text = whole.strip_suffix(b"\n").expect("a line feed");
        assert_eq!(check_sum(text), Sum::Right);
        let value: serde_json::Value = serde_json::from_slice(text).expect("JSON");
        assert_eq!(value["seq"], 3);
        for at in 0..text.len() {
            let mut other = text.to_vec();
            other[at] ^= 1;
            assert_ne!(check_sum(&other), Sum::Right, "byte {at}");
        }
        with_sum(b"{}".to_vec()).expect_err("no field");
    }

    #[test]
    fn a_line_without_end_is_damage_and_takes_little_memory() {
        let first = with_sum(line(1)).expect("a line");
        let endless = io::repeat(0).take(3 * MAX_LINE_BYTES);
        let mut read = Vec::new();
        let found = scan(first.as_slice().chain(endless), |number, _| {
            read.push(number);
            Ok::<(), Infallible>(())
        })
        .expect("reads");
        assert_eq!((found.good, read, found.torn.len()), (1, vec![1], 0));
        let begin = first.len() as u64;
        let problem = format!(
            "the line has {} bytes; lines of cvc have at most {MAX_LINE_BYTES}",
            3 * MAX_LINE_BYTES
        );
        assert_eq!(
            found.damaged,
            [BadLine {
                number: 2,
                bytes: begin..begin + 3 * MAX_LINE_BYTES,
                problem
            }]
        );
        // reading continues after the line that is too long
        let endless = io::repeat(0).take(2 * MAX_LINE_BYTES);
        let found = scan(
            endless.chain(b"\n".as_slice()).chain(first.as_slice()),
            |_, _| Ok::<(), Infallible>(()),
        )
        .expect("reads");
        assert_eq!(
            (found.good, found.damaged.len(), found.torn_bytes()),
            (1, 1, 0)
        );
        let mut buffer = Vec::new();
        let length = next_line(
            &mut BufReader::new(io::repeat(0).take(3 * MAX_LINE_BYTES)),
            &mut buffer,
        )
        .expect("reads");
        assert_eq!(length, 3 * MAX_LINE_BYTES);
        assert!(
            buffer.len() as u64 == MAX_LINE_BYTES + 1
                && buffer.capacity() as u64 <= 3 * MAX_LINE_BYTES,
            "{}",
            buffer.capacity()
        );
    }

    #[test]
    fn torn_at_any_byte_or_overwritten_at_its_end_the_last_line_is_cut_off() {
        let (_dir, path) = file("torn");
        let (mut lines, ..) = open(&path);
        for n in 1..4 {
            lines.append(line(n), true).expect("appends");
        }
        let text = std::fs::read(&path).expect("reads");
        let last = text.len() - with_sum(line(3)).expect("a line").len();
        for cut in last..text.len() {
            std::fs::write(&path, &text[..cut]).expect("writes");
            let (mut lines, scan, read) = open(&path);
            assert_eq!(
                (read, scan.torn_bytes()),
                (vec![1, 2], (cut - last) as u64),
                "cut at {cut}"
            );
            lines.append(line(3), true).expect("appends");
            assert_eq!(std::fs::read(&path).expect("reads"), text);
            // after a power loss there may be zeros instead of the written text, including the line feed
            let mut zeros = text.clone();
            zeros[last..cut].fill(0);
            if cut > last {
                std::fs::write(&path, &zeros).expect("writes");
                assert_eq!(open(&path).2, [1, 2], "zeros up to {cut}");
            }
        }
    }

    #[test]
    fn a_file_moved_replaced_or_written_by_others_is_left_alone() {
        let error_after = |harm: &dyn Fn(&Utf8Path)| {
            let (_dir, path) = file("shared");
            let (mut lines, ..) = open(&path);
            lines.append(line(1), true).expect("appends");
            harm(&path);
            let left = std::fs::read(&path).ok();
            let error = lines
                .append(line(2), true)
                .expect_err("somebody else's")
                .to_string();
            assert_eq!(std::fs::read(&path).ok(), left, "nothing was written");
            assert_eq!(lines.sync().expect_err("stays so").to_string(), error);
            error
        };
        let error = error_after(&|path| {
            std::fs::rename(path, path.with_extension("moved")).expect("renames")
        });
        assert!(
            error.contains("shared") && error.contains("moved or deleted"),
            "{error}"
        );
        let error = error_after(&|path| {
            let text = std::fs::read(path).expect("reads");
            std::fs::rename(path, path.with_extension("moved")).expect("renames");
            std::fs::write(path, text).expect("writes");
        });
        assert!(error.contains("another file has its name"), "{error}");
        let error = error_after(&|path| drop(open(path).0.append(line(2), true).expect("appends")));
        assert!(
            error.contains("bytes, but this process left it with"),
            "{error}"
        );
        let error = error_after(&|path| std::fs::write(path, "").expect("cuts"));
        assert!(error.contains("it has 0 bytes"), "{error}");
    }

    #[test]
    fn the_file_itself_is_locked() {
        let (_dir, path) = file("locked");
        let (lines, ..) = open(&path);
        lines.lock().expect("the first");
        let (other, ..) = open(&path);
        assert!(matches!(other.lock(), Err(StoreError::Locked { .. })));
        drop(lines);
        other.lock().expect("the first is gone");
    }

    #[test]
    fn an_end_that_is_longer_than_a_line_is_damage() {
        let (_dir, path) = file("cleared");
        let (mut lines, ..) = open(&path);
        lines.append(line(1), true).expect("appends");
        drop(lines);
        let whole = std::fs::metadata(&path).expect("the file").len();
        let mut grown = OpenOptions::new().write(true).open(&path).expect("opens");
        grown.set_len(whole + MAX_TORN_BYTES + 1).expect("grows");
        io::Write::flush(&mut grown).expect("flushes");
        let (_, scan, read) = open(&path);
        assert_eq!(
            (read.len(), scan.damaged.len(), scan.torn_bytes()),
            (1, 1, 0)
        );
        assert_eq!(scan.damaged[0].number, 2);
        assert_eq!(
            std::fs::metadata(&path).expect("the file").len(),
            whole + MAX_TORN_BYTES + 1,
            "nothing is cut off"
        );
    }

    #[test]
    fn damage_before_the_last_whole_line_is_reported_and_nothing_is_cut_or_appended() {
        let (_dir, path) = file("damaged");
        let (mut lines, ..) = open(&path);
        for n in 1..5 {
            lines.append(line(n), true).expect("appends");
        }
        let text = std::fs::read(&path).expect("reads");
        let second = with_sum(line(1)).expect("a line").len();
        for (at, byte) in [(second, b'['), (second + 8, b'9'), (second + 3, b'\n')] {
            let mut damaged = text.clone();
            damaged[at] = byte;
            std::fs::write(&path, &damaged).expect("writes");
            let (mut lines, scan, read) = open(&path);
            assert_eq!(read, [1, 3, 4]);
            assert!(
                scan.damaged.iter().all(|bad| bad.number >= 2) && !scan.damaged.is_empty(),
                "{scan:?}"
            );
            assert_eq!(scan.torn_bytes(), 0);
            scan.undamaged(&path).expect_err("damaged");
            lines
                .append(line(5), true)
                .expect_err("nothing is written behind damage");
            assert_eq!(std::fs::read(&path).expect("reads"), damaged);
        }
    }

    #[test]
    fn more_than_two_lines_at_the_end_cannot_be_torn_where_they_were_synced() {
        let (_dir, path) = file("several");
        let (mut lines, ..) = open(&path);
        for n in 1..5 {
            lines.append(line(n), true).expect("appends");
        }
        let text = std::fs::read(&path).expect("reads");
        let length = |n| with_sum(line(n)).expect("a line").len();
        let mut damaged = text.clone();
        for n in 2..5 {
            damaged[(1..n).map(length).sum::<usize>()] = b'#';
        }
        std::fs::write(&path, &damaged).expect("writes");
        let (_, scan, read) = open(&path);
        assert_eq!(
            (read, scan.damaged.len(), scan.torn_bytes()),
            (vec![1], 3, 0)
        );
        assert_eq!(std::fs::read(&path).expect("reads"), damaged);
        let (_, scan) =
            LineFile::open(&path, false, |_, _| Ok::<(), Infallible>(())).expect("opens");
        assert_eq!((scan.damaged.len(), scan.torn.len()), (0, 3));
        // two lines may be written before one sync
        damaged[length(1)] = text[length(1)];
        std::fs::write(&path, &damaged).expect("writes");
        let (_, scan, read) = open(&path);
        assert_eq!(
            (read, scan.damaged.len(), scan.torn.len()),
            (vec![1, 2], 0, 2)
        );
        assert_eq!(
            std::fs::read(&path).expect("reads").len(),
            length(1) + length(2)
        );
    }

    #[test]
    fn a_line_that_is_json_is_never_taken_for_a_torn_one() {
        let (_dir, path) = file("edited");
        let (mut lines, ..) = open(&path);
        lines.append(line(1), true).expect("appends");
        let whole = std::fs::read_to_string(&path).expect("reads");
        for edited in [
            "{\"seq\":2}\n".to_owned(),
            whole.replace("\"seq\":1", "\"seq\":2"),
        ] {
            std::fs::write(&path, format!("{whole}{edited}")).expect("writes");
            let (_, scan, read) = open(&path);
            assert_eq!(
                (read, scan.damaged.len(), scan.torn_bytes()),
                (vec![1], 1, 0),
                "{edited}"
            );
        }
    }

    #[test]
    fn lines_without_checksums_are_read_before_the_first_that_has_one() {
        let (_dir, path) = file("older");
        std::fs::write(&path, "{\"seq\":1}\n{\"seq\":2}\n").expect("writes");
        let (mut lines, _, read) = open(&path);
        assert_eq!(read, [1, 2]);
        lines.append(line(3), false).expect("appends");
        assert_eq!(open(&path).2, [1, 2, 3]);
    }

    #[test]
    fn an_append_that_fails_or_falls_short_is_cut_off_again() {
        let (_dir, path) = file("short-append");
        let (mut lines, ..) = open(&path);
        lines.append(line(1), true).expect("appends");
        let before = std::fs::read(&path).expect("reads");
        let length = with_sum(line(2)).expect("a line").len();
        for fault in (0..=length)
            .map(|n| format!("1*return(short:{n})"))
            .chain(["1*return(eio)".into(), "1*return(enospc)".into()])
        {
            fail::cfg("short-append.append", &fault).expect("a fault");
            lines.append(line(2), true).expect_err(&fault);
            assert_eq!(std::fs::read(&path).expect("reads"), before, "{fault}");
        }
        lines.append(line(2), true).expect("appends");
        assert_eq!(open(&path).2, [1, 2]);
    }

    #[test]
    fn a_failed_cut_ends_the_writing() {
        let (_dir, path) = file("uncut");
        let (mut lines, ..) = open(&path);
        lines.append(line(1), true).expect("appends");
        fail::cfg("uncut.append", "1*return(short:5)").expect("a fault");
        fail::cfg("uncut.cut", "1*return(eio)").expect("a fault");
        lines.append(line(2), true).expect_err("no space");
        for _ in 0..2 {
            let error = lines
                .append(line(2), true)
                .expect_err("nothing more")
                .to_string();
            assert!(error.contains("No space left"), "{error}");
        }
        let (mut lines, scan, read) = open(&path);
        assert_eq!((read, scan.torn_bytes()), (vec![1], 5));
        lines.append(line(2), true).expect("appends");
        assert_eq!(open(&path).2, [1, 2]);
    }

    #[test]
    fn after_a_sync_that_failed_nothing_more_is_written() {
        let (_dir, path) = file("unsynced");
        let (mut lines, ..) = open(&path);
        lines.append(line(1), true).expect("appends");
        fail::cfg("unsynced.sync", "1*return(eio)").expect("a fault");
        lines.append(line(2), true).expect_err("not synced");
        lines.append(line(2), true).expect_err("nothing more");
        assert_eq!(open(&path).2, [1]);
    }
}
