//! The record of the job: when and where it ran, its program, and the mounted file systems.

use super::header::{ByteOrder, WIDE};

/// Length of the record including its text, bytes.
pub(super) const JOB_BYTES: usize = 4096;
const METADATA_BYTES: usize = 1024;

/// A file system that was mounted on the node of rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanMount {
    /// Mount point.
    pub path: Vec<u8>,
    /// Type of the file system, such as `lustre`.
    pub fs_type: Vec<u8>,
}

/// The job that a log describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanJob {
    /// Numeric ID of the user.
    pub uid: i64,
    /// Job ID of the batch system, or else the PID of the first process.
    pub job_id: i64,
    /// Number of ranks.
    pub ranks: i64,
    /// Start: seconds since 1970, and nanoseconds within that second (0 before version 3.41).
    pub start: (i64, i64),
    /// End, in the same units. `None`: the job did not end normally.
    pub end: Option<(i64, i64)>,
    /// Keys and values that Darshan or the user added, such as `lib_ver`.
    pub metadata: Vec<(Vec<u8>, Vec<u8>)>,
    /// The command with its arguments, possibly truncated.
    pub command: Vec<u8>,
    /// Mounts, longest path first: a file is on the first one whose path is a prefix of the file's path.
    pub mounts: Vec<DarshanMount>,
    minor: u32,
}

impl DarshanJob {
    /// Parses the record from the available `bytes`. Returns `None` if even the numbers are incomplete.
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

    /// Returns the run time, seconds. Before version 3.41 a log has whole seconds, and Darshan rounds up.
    #[must_use]
    pub fn run_time_s(&self) -> Option<f64> {
        let end = self.end?;
        Some(if self.minor >= WIDE {
            seconds(end) - seconds(self.start)
        } else {
            seconds(end) - seconds(self.start) + 1.0
        })
    }

    /// Returns the file system of a file: the first mount whose path is a prefix of the file's path.
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

/// Parses a line with the type, a tab, and the path of a mount.
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
