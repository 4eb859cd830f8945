//! How a file was used in a trace, and by which processes.

use super::{intervals::Intervals, sizes::SizeBins, stream::Stream};
use crate::{
    event::{Api, Event, FileId, Op, ProcessId},
    files::UNKNOWN_FILE,
};
use std::collections::BTreeMap;

/// Maximum number of separate extents of a process in a file.
const MAX_EXTENTS: usize = 1024;

/// Operations on a file that move no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Number of opens.
    pub opens: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Number of seeks.
    pub seeks: u64,
    /// Number of queries of attributes.
    pub stats: u64,
    /// Number of all operations that moved no bytes, including those above.
    pub operations: u64,
    /// Their total duration, nanoseconds.
    pub duration_ns: u64,
    /// Number of these operations that failed.
    pub failed: u64,
}

/// Operations of one process on a file, through one interface.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Its reads.
    pub reads: Stream,
    /// Its writes.
    pub writes: Stream,
    /// Operations that move no bytes.
    pub metadata: Metadata,
}

/// A file and its use.
#[derive(Clone, Debug)]
pub struct FileUse {
    /// ID of the file.
    pub id: FileId,
    /// Path as recorded in the trace.
    pub path: Vec<u8>,
    /// Operations by process and interface.
    pub uses: BTreeMap<(ProcessId, Api), Box<Usage>>,
    /// Whether the file contains data of the run. False for sockets, pipes, files of the kernel (`/proc`, `/sys`, `/dev`), and files in system
    /// directories (`/usr`, `/lib*`, `/etc`, `/run`).
    pub is_of_run: bool,
    /// Ranges that each process wrote, by the lowest interface that recorded them.
    extents: BTreeMap<ProcessId, Box<Intervals>>,
}

impl FileUse {
    pub(super) fn new(id: FileId, path: &[u8]) -> Self {
        Self {
            id,
            path: path.to_vec(),
            is_of_run: is_of_run(path),
            uses: BTreeMap::new(),
            extents: BTreeMap::new(),
        }
    }

    pub(super) fn name_it(&mut self, path: &[u8]) {
        self.path = path.to_vec();
        self.is_of_run = is_of_run(path);
    }

    pub(super) fn add(&mut self, event: &Event) {
        let usage = self.uses.entry((event.process, event.api)).or_default();
        match event.op {
            Op::Read if !event.failed => usage.reads.add(event),
            Op::Write if !event.failed => {
                usage.writes.add(event);
                if let (Api::Posix, Some(offset)) = (event.api, event.offset) {
                    self.extents
                        .entry(event.process)
                        .or_insert_with(|| Box::new(Intervals::new(0, MAX_EXTENTS)))
                        .add(offset, offset.saturating_add(event.bytes), event.bytes);
                }
            }
            op => {
                let of = &mut usage.metadata;
                of.operations += 1;
                of.duration_ns = of.duration_ns.saturating_add(event.duration_ns);
                of.failed += u64::from(event.failed);
                match op {
                    Op::Open => of.opens += 1,
                    Op::Sync => of.syncs += 1,
                    Op::Seek => of.seeks += 1,
                    Op::Stat => of.stats += 1,
                    _ => {}
                }
            }
        }
    }

    /// Returns the path as text; bytes that are not UTF-8 are replaced.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }

    /// Returns the role of the file: its name with numbers replaced, so that it does not depend on process, step or run.
    pub fn role(&self) -> String {
        role_of(&self.name())
    }

    /// Returns the operations through one interface, by process.
    pub fn by(&self, api: Api) -> impl Iterator<Item = (ProcessId, &Usage)> {
        self.uses
            .iter()
            .filter(move |((_, of), _)| *of == api)
            .map(|((process, _), usage)| (*process, &**usage))
    }

    /// Returns the lowest interface through which bytes of the file were moved: the one closest to the file system that the trace records.
    pub fn lowest(&self) -> Option<Api> {
        [Api::Posix, Api::Stdio, Api::MpiIo, Api::Other]
            .into_iter()
            .find(|api| {
                self.by(*api)
                    .any(|(_, u)| u.reads.operations + u.writes.operations > 0)
            })
    }

    /// Returns the bytes read and written, by the lowest interface that recorded any.
    pub fn moved(&self) -> (u64, u64) {
        let Some(api) = self.lowest() else {
            return (0, 0);
        };
        self.by(api).fold((0, 0), |(read, written), (_, usage)| {
            (
                read.saturating_add(usage.reads.bytes),
                written.saturating_add(usage.writes.bytes),
            )
        })
    }

    /// Returns how the file was used: `read only`, `write only`, `read and written`, or `touched` if no bytes were moved.
    pub fn access(&self) -> &'static str {
        match self.moved() {
            (0, 0) => "touched",
            (_, 0) => "read only",
            (0, _) => "write only",
            _ => "read and written",
        }
    }

    /// Returns the processes that wrote through an interface, each with the bytes that it wrote.
    pub fn writers(&self, api: Api) -> Vec<(ProcessId, u64)> {
        self.by(api)
            .filter(|(_, usage)| usage.writes.operations > 0)
            .map(|(process, usage)| (process, usage.writes.bytes))
            .collect()
    }

    /// Returns the sizes of all reads and of all writes through an interface.
    pub fn sizes(&self, api: Api) -> (SizeBins, SizeBins) {
        let mut sizes = (SizeBins::default(), SizeBins::default());
        for (_, usage) in self.by(api) {
            sizes.0.merge(&usage.reads.sizes);
            sizes.1.merge(&usage.writes.sizes);
        }
        sizes
    }

    /// Returns the number of bytes that more than one process wrote, at any time, and how often the writer changes along the file. `None` for fewer
    /// than two writers, or if adjacent extents were joined because there were too many.
    pub fn shared_extents(&self) -> Option<(u64, usize)> {
        let exact = |of: &Intervals| of.gap() == 0;
        if self.extents.len() < 2 || !self.extents.values().all(|of| exact(of)) {
            return None;
        }
        let mut ends: Vec<(u64, bool)> = Vec::new();
        let mut starts: Vec<(u64, ProcessId)> = Vec::new();
        for (process, extents) in &self.extents {
            for (start, end, _) in extents.iter() {
                if start < end {
                    ends.extend([(start, true), (end, false)]);
                }
                starts.push((start, *process));
            }
        }
        // at the same offset, ends are sorted before starts
        ends.sort_unstable();
        let (mut open, mut since, mut shared) = (0u32, 0u64, 0u64);
        for (at, starts) in ends {
            if open > 1 {
                shared += at - since;
            }
            since = at;
            open = if starts { open + 1 } else { open - 1 };
        }
        starts.sort_unstable();
        let changes = starts.windows(2).filter(|w| w[0].1 != w[1].1).count();
        Some((shared, changes))
    }
}

/// Directories of the kernel and of the system.
const SYSTEM: [&[u8]; 9] = [
    b"/proc/", b"/sys/", b"/dev/", b"/usr/", b"/lib/", b"/lib64/", b"/lib32/", b"/etc/", b"/run/",
];

/// Returns whether a path is that of a file with data of the run, and not of a system file, a socket or a pipe.
pub(crate) fn is_of_run(path: &[u8]) -> bool {
    // names of objects that are not files: `socket:[7]`, `anon_inode:[eventpoll]`, `<fd 0>`
    let is_file = !path.starts_with(b"<") && !path.windows(2).any(|w| w == b":[");
    path == UNKNOWN_FILE
        || path.starts_with(b"<fhash ")
        || is_file && !SYSTEM.iter().any(|of| path.starts_with(of))
}

/// Returns a name with its numbers replaced by `#`; equal for files of the same role.
pub fn role_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut role = String::with_capacity(name.len());
    let mut word = String::new();
    let flush = |word: &mut String, role: &mut String| {
        // a word is a hexadecimal number if it contains a digit and is long
        let is_number = word.chars().any(|c| c.is_ascii_digit())
            && (word.chars().all(|c| c.is_ascii_digit())
                || word.len() >= 6 && word.chars().all(|c| c.is_ascii_hexdigit()));
        if is_number {
            role.push('#');
        } else {
            role.push_str(word);
        }
        word.clear();
    };
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            word.push(c);
        } else {
            flush(&mut word, &mut role);
            role.push(c);
        }
    }
    flush(&mut word, &mut role);
    role
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(process: u32, offset: u64, bytes: u64) -> Event {
        Event {
            process: ProcessId(process),
            thread: 0,
            file: FileId(0),
            op: Op::Write,
            api: Api::Posix,
            offset: Some(offset),
            bytes,
            start_ns: 0,
            duration_ns: 1,
            failed: false,
        }
    }

    #[test]
    fn files_of_one_role_have_one_name() {
        for (path, role) in [
            (
                "/x/ckpt_bt.W.4_1b69d09fb3238b30-42000-65a1b2c3.dmtcp.temp",
                "ckpt_bt.W.#_#-#-#.dmtcp.temp",
            ),
            ("btio.full.out", "btio.full.out"),
            ("/tmp/step-00012.h5", "step-#.h5"),
            ("<STDOUT>", "<STDOUT>"),
            ("feed", "feed"),
        ] {
            assert_eq!(role_of(path), role);
        }
    }

    #[test]
    fn bytes_of_two_writers_and_changes_of_the_writer_are_counted() {
        let mut file = FileUse::new(FileId(0), b"shared");
        for event in [write(0, 0, 100), write(1, 100, 100), write(0, 200, 50)] {
            file.add(&event);
        }
        assert_eq!(file.shared_extents(), Some((0, 2)));
        file.add(&write(1, 90, 20));
        assert_eq!(file.shared_extents(), Some((10, 2)));
        assert_eq!(file.access(), "write only");
        assert_eq!(
            file.writers(Api::Posix),
            [(ProcessId(0), 150), (ProcessId(1), 120)]
        );
    }

    #[test]
    fn files_of_the_run_and_of_the_system_are_separated() {
        for (path, is) in [
            ("/scratch/ckpt_1.dmtcp", true),
            ("btio.out", true),
            ("/home/x/usr/data", true),
            ("/usr/lib/libc.so.6", false),
            ("/proc/self/maps", false),
            ("/dev/shm/x", false),
            ("socket:[17]", false),
            ("<fd 3>", false),
        ] {
            assert_eq!(is_of_run(path.as_bytes()), is, "{path}");
        }
    }

    #[test]
    fn one_writer_shares_nothing() {
        let mut file = FileUse::new(FileId(0), b"own");
        file.add(&write(0, 0, 100));
        assert_eq!(file.shared_extents(), None);
    }
}
