//! The record of the job: when and where it ran, its program, and what was mounted.

use super::header::{ByteOrder, WIDE};

/// The length of the record with all of its text, in bytes.
pub(super) const JOB_BYTES: usize = 4096;
const METADATA_BYTES: usize = 1024;

/// A file system that was mounted where rank 0 ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanMount {
    /// Where.
    pub path: Vec<u8>,
    /// Its type, such as `lustre`.
    pub fs_type: Vec<u8>,
}

/// The run of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanJob {
    /// Who ran it.
    pub uid: i64,
    /// The number of the job for the batch system, or of the first process.
    pub job_id: i64,
    /// How many ranks it had.
    pub ranks: i64,
    /// When it began, in seconds since 1970, and the nanoseconds of that second: 0 before version 3.41.
    pub start: (i64, i64),
    /// When it ended, in the same units. `None`: it never came to its end.
    pub end: Option<(i64, i64)>,
    /// Keys and values that Darshan or the user added, such as `lib_ver`.
    pub metadata: Vec<(Vec<u8>, Vec<u8>)>,
    /// The command with its arguments, possibly cut off.
    pub command: Vec<u8>,
    /// What was mounted, longest path first: the first that a path of a file begins with is its file system.
    pub mounts: Vec<DarshanMount>,
    minor: u32,
}

impl DarshanJob {
    /// Reads the record, of which `bytes` are there. `None`: not even its numbers are.
    pub(super) fn parse(bytes: &[u8], minor: u32, order: ByteOrder) -> Option<Self> {
        let numbers = if minor >= WIDE { 7 } else { 5 };
        let mut fields = [0; 7];
        let (words, text) = bytes.split_at_checked(numbers * 8)?;
        for (field, word) in fields.iter_mut().zip(words.chunks_exact(8)) {
            *field = order.integer(word);
        }
        let (start, end, [ranks, job_id]) = if minor >= WIDE {
            (
                (fields[1], fields[2]),
                (fields[3], fields[4]),
                [fields[5], fields[6]],
            )
        } else {
            ((fields[1], 0), (fields[2], 0), [fields[3], fields[4]])
        };
        let (metadata, text) = text.split_at(text.len().min(METADATA_BYTES));
        let mut lines = until_nul(text).split(|&byte| byte == b'\n');
        let command = lines.next().unwrap_or_default().to_vec();
        let mut mounts: Vec<_> = lines.filter_map(mount).collect();
        mounts.sort_by_key(|mount| usize::MAX - mount.path.len());
        Some(Self {
            uid: fields[0],
            job_id,
            ranks,
            start,
            end: (end.0 > 0).then_some(end),
            metadata: until_nul(metadata)
                .split(|&byte| byte == b'\n')
                .filter_map(|line| {
                    let at = line.iter().position(|&byte| byte == b'=')?;
                    Some((line[..at].to_vec(), line[at + 1..].to_vec()))
                })
                .collect(),
            command,
            mounts,
            minor,
        })
    }

    /// How long it ran, in seconds. Before version 3.41 a log has whole seconds, and Darshan counts one that has begun as one.
    #[must_use]
    pub fn run_time_s(&self) -> Option<f64> {
        let end = self.end?;
        Some(if self.minor >= WIDE {
            seconds(end) - seconds(self.start)
        } else {
            seconds(end) - seconds(self.start) + 1.0
        })
    }

    /// The file system of a file: the first of its mounts that its path begins with.
    #[must_use]
    pub fn mount_of(&self, path: &[u8]) -> Option<&DarshanMount> {
        self.mounts
            .iter()
            .find(|mount| path.starts_with(&mount.path))
    }
}

fn seconds((seconds, nanoseconds): (i64, i64)) -> f64 {
    seconds as f64 + nanoseconds as f64 / 1e9
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Reads `TYPE` tabulator `PATH`.
fn mount(line: &[u8]) -> Option<DarshanMount> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let fs_type = words.next()?.to_vec();
    Some(DarshanMount {
        path: words.next()?.to_vec(),
        fs_type,
    })
}
