//! Files that only grow, by whole lines of JSON with a checksum. What was written stays readable whatever fails: a line that could not be
//! written is cut off again, or nothing is written behind it.
//!
//! The checksum is the last field of a line, `"sum"`: the first 16 hexadecimal digits of the BLAKE3 digest of the line before it. It tells a
//! line that was torn while it was written (which can only be the end of the file) from one that was damaged later.

use super::error::StoreError;
use crate::ids::{DIGITS, short_digest};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::{disk, regular};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read},
    ops::Range,
    os::unix::fs::MetadataExt,
};

/// Largest end without a line feed that counts as one line which was torn while it was written. Lines are much shorter, but a set of nodes may
/// have a hundred thousand names.
const MAX_TORN_BYTES: u64 = 4 << 20;

/// What stands between a line's content and its checksum.
const SUM: &[u8] = br#","sum":""#;
/// What stands behind it.
const END: &[u8] = br#""}"#;

/// A line with its checksum and its line feed, from a JSON object.
///
/// # Errors
/// When the JSON is no object with at least one field, or too long.
pub fn with_sum(mut json: Vec<u8>) -> io::Result<Vec<u8>> {
    if json.len() < 3 || json.pop() != Some(b'}') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a line must be a JSON object with a field",
        ));
    }
    // nobody would read it
    if json.len() as u64 + 64 > MAX_LINE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a line may not be that long",
        ));
    }
    let sum = short_digest(&json);
    json.extend_from_slice(SUM);
    json.extend_from_slice(sum.as_bytes());
    json.extend_from_slice(END);
    json.push(b'\n');
    Ok(json)
}

/// What a line's checksum says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The line is as it was written.
    Right,
    /// It is not.
    Wrong,
    /// It has none, as in files of earlier versions.
    Missing,
}

/// Checks the checksum of a line without its line feed.
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

/// The checksum that a line has, without checking it; `None` if it has none.
pub fn sum_of(line: &[u8]) -> Option<&str> {
    let content = line.trim_ascii_end().strip_suffix(END)?;
    let (rest, sum) = content.split_at_checked(content.len().checked_sub(DIGITS)?)?;
    rest.ends_with(SUM)
        .then_some(std::str::from_utf8(sum).ok()?)
}

/// A line that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: usize,
    /// Its bytes in the file, line feed included.
    pub bytes: Range<u64>,
    /// What is wrong.
    pub problem: String,
}

/// What a file has beside its good lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Good lines.
    pub good: usize,
    /// Lines that were damaged after they had been written.
    pub damaged: Vec<BadLine>,
    /// Lines at the end that are none: an append that was torn, or some that were not synced.
    pub torn: Vec<BadLine>,
    /// Bytes up to the end of the last line that is whole.
    pub whole_bytes: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Scan {
    /// Bytes at the end that are no whole line: an append that was torn.
    pub fn torn_bytes(&self) -> u64 {
        self.bytes - self.whole_bytes
    }

    /// Of a file whose lines are synced one by one or by twos, at most the last two can be torn: more at the end are damaged, and so is an end
    /// that is longer than a line can be.
    pub fn with_synced_lines(mut self) -> Self {
        let unended = self.bytes
            - self
                .torn
                .last()
                .map_or(self.whole_bytes, |last| last.bytes.end);
        if unended > MAX_TORN_BYTES {
            let number = self.good + self.damaged.len() + self.torn.len() + 1;
            let problem = format!(
                "{unended} bytes at the end are no line, and too many for one that was torn"
            );
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

    /// The first damaged line as an error.
    ///
    /// # Errors
    /// When there is one.
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

/// Reads the next line with its line feed, and returns its length; of one that is too long, only the length is right.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    let mut length = Read::take(&mut *reader, MAX_LINE_BYTES + 1).read_until(b'\n', line)? as u64;
    if length > MAX_LINE_BYTES && !line.ends_with(b"\n") {
        length += reader.skip_until(b'\n')? as u64;
    }
    Ok(length)
}

/// Reads lines one after the other. `take` gets the number of each whole line, its JSON, and says what is wrong with it, if anything is.
///
/// # Errors
/// When reading fails.
pub fn scan(
    file: impl io::Read,
    mut take: impl FnMut(usize, &[u8]) -> Result<(), String>,
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
            // no append was that long: what stands there is no torn one
            let problem = format!(
                "the line has {length} bytes, and none that cvc writes has more than {MAX_LINE_BYTES}"
            );
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
            Sum::Missing => Some("the line has no checksum, as the lines before it have"),
            Sum::Wrong => Some("the line does not agree with its checksum"),
        };
        let is_json =
            sum == Sum::Right || serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok();
        if !is_json {
            let problem = problem.unwrap_or("the line is not JSON").to_owned();
            // damaged if a whole one follows
            scan.torn.push(BadLine {
                number,
                bytes,
                problem,
            });
            continue;
        }
        // no torn write leaves JSON: what is wrong with it is damage, and so is what stands before it
        scan.damaged.append(&mut scan.torn);
        scan.whole_bytes = bytes.end;
        summed |= sum == Sum::Right;
        match problem.map_or_else(|| take(number, json), |problem| Err(problem.to_owned())) {
            Ok(()) => scan.good += 1,
            Err(problem) => scan.damaged.push(BadLine {
                number,
                bytes,
                problem,
            }),
        }
    }
}

/// A file to which lines are appended. One writer at a time: the caller holds a lock.
#[derive(Debug)]
pub struct LineFile {
    path: Utf8PathBuf,
    /// Name of its failpoints.
    point: String,
    file: File,
    /// Bytes of whole lines.
    length: u64,
    /// What somebody else did with the file: from then on it is theirs.
    fenced: Option<String>,
    /// Why nothing more is written.
    refused: Option<(io::ErrorKind, String)>,
}

impl LineFile {
    /// Opens or creates a file and hands over its whole lines, as [`scan`] does; `is_synced` says that no more than two of its lines
    /// are ever written without a sync. A torn end is cut off, unless lines before it are damaged: then the file stays as it is, and nothing can be appended.
    ///
    /// # Errors
    /// When the file cannot be opened, read or cut.
    pub fn open(
        path: &Utf8Path,
        is_synced: bool,
        take: impl FnMut(usize, &[u8]) -> Result<(), String>,
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

    /// Appends a line with its checksum, and returns it; `json` is an object. If it is synced, the line survives a loss of power when this returns. After a
    /// failure the file has the lines that it had; if that is not sure, nothing more is written to it.
    ///
    /// # Errors
    /// When the line cannot be written, or an earlier failure forbids it.
    pub fn append(&mut self, json: Vec<u8>, synced: bool) -> Result<Vec<u8>, StoreError> {
        self.check_owner()?;
        self.try_append(json, synced)
            .map_err(StoreError::io("append to", &self.path))
    }

    /// Checks that the path still names the file that was opened, and that nobody else has written to it: neither a lock that does not reach
    /// another machine nor one whose file was deleted keeps a second writer away.
    ///
    /// # Errors
    /// When the file is somebody else's by now; then nothing more is written to it.
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
        // what cannot be asked now is no sign of anybody; the append tells
        let mine = self.file.metadata().ok()?;
        match std::fs::metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) != (mine.dev(), mine.ino()) => {
                Some("another file has its name".to_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some("it was moved or deleted".to_owned())
            }
            Ok(_) if mine.len() != self.length => Some(format!(
                "it has {} bytes, and this process left it with {}",
                mine.len(),
                self.length
            )),
            Ok(_) | Err(_) => None,
        }
    }

    /// Takes a lock on the file itself, which holds until this value is dropped.
    ///
    /// # Errors
    /// When another process has it. A file system without locks is no error: [`check_owner`](Self::check_owner) is there too.
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
                format!("{why} (after this nothing more was written to it)"),
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
            // the kernel reports a failed write-back once, and may have dropped pages of earlier lines with this one's: what a later sync says is
            // no longer to be believed
            self.refused = Some((error.kind(), error.to_string()));
            // if the line stays, it is whole
            let _ = self.cut_back();
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(line)
    }

    /// Cuts off what stands behind the last whole line.
    fn cut_back(&mut self) -> io::Result<()> {
        disk::check(&format!("{}.cut", self.point))?;
        self.file.set_len(self.length)?;
        disk::sync_all(&self.file)
    }

    /// Syncs what was appended without it.
    ///
    /// # Errors
    /// When the system refuses, now or earlier: then nothing more is written.
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

    /// Allows to append to a damaged file: for files whose reader does without what is damaged. A torn end is cut off.
    ///
    /// # Errors
    /// When it cannot be cut.
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

    fn line(n: usize) -> Vec<u8> {
        serde_json::to_vec(&json!({ "seq": n, "text": "x".repeat(n) })).expect("JSON")
    }

    /// A file of its own name, so that its failpoints are not those of other tests.
    fn file(name: &str) -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join(name)).expect("UTF-8");
        (dir, path)
    }

    fn open(path: &Utf8Path) -> (LineFile, Scan, Vec<usize>) {
        let mut read = Vec::new();
        let (lines, scan) = LineFile::open(path, true, |_, json| {
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
            Ok(())
        })
        .expect("reads");
        assert_eq!((found.good, read, found.torn.len()), (1, vec![1], 0));
        let begin = first.len() as u64;
        let problem = format!(
            "the line has {} bytes, and none that cvc writes has more than {MAX_LINE_BYTES}",
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
        // what follows it is read
        let endless = io::repeat(0).take(2 * MAX_LINE_BYTES);
        let found = scan(
            endless.chain(b"\n".as_slice()).chain(first.as_slice()),
            |_, _| Ok(()),
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
            // a loss of power may also leave zeros in front of what was written, line feed included
            let mut zeros = text.clone();
            zeros[last..cut].fill(0);
            if cut > last {
                std::fs::write(&path, &zeros).expect("writes");
                assert_eq!(open(&path).2, [1, 2], "zeros up to {cut}");
            }
        }
    }

    #[test]
    fn what_somebody_else_moved_replaced_or_wrote_is_theirs() {
        let told = |harm: &dyn Fn(&Utf8Path)| {
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
        let error =
            told(&|path| std::fs::rename(path, path.with_extension("moved")).expect("renames"));
        assert!(
            error.contains("shared") && error.contains("moved or deleted"),
            "{error}"
        );
        let error = told(&|path| {
            let text = std::fs::read(path).expect("reads");
            std::fs::rename(path, path.with_extension("moved")).expect("renames");
            std::fs::write(path, text).expect("writes");
        });
        assert!(error.contains("another file has its name"), "{error}");
        let error = told(&|path| drop(open(path).0.append(line(2), true).expect("appends")));
        assert!(
            error.contains("bytes, and this process left it with"),
            "{error}"
        );
        let error = told(&|path| std::fs::write(path, "").expect("cuts"));
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
    fn damage_before_the_last_whole_line_is_told_and_nothing_is_cut_or_appended() {
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
        let (_, scan) = LineFile::open(&path, false, |_, _| Ok(())).expect("opens");
        assert_eq!((scan.damaged.len(), scan.torn.len()), (0, 3));
        // two may be written before one sync
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
    fn what_cannot_be_cut_off_again_ends_the_writing() {
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
