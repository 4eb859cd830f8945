//! Targets for I/O traces, which any program may have written.

use cvc_trace::metadata_operations::{
    CounterError, CounterOptions, difference, read_counter_text, since_start,
};
use cvc_trace::{
    Event, FileId, Missing, Process, ProcessId, Sink, TraceError, read_dftracer, read_strace,
};
use std::{collections::HashSet, io, path::Path};

pub(crate) const STRACE_WORDS: &[&str] = &[
    "7 1795255706.000001 ",
    "[pid     8] ",
    " <unfinished ...>\n",
    "<... write resumed>",
    "write(3, \"x\", 1) = 1 <0.000002>\n",
    "openat(AT_FDCWD</w>, \"a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3</w/a>",
    "lseek(3, -9223372036854775808, SEEK_END) = 9223372036854775807\n",
    "pwrite64(3, \"\"..., 1, 18446744073709551615) = 9223372036854775807\n",
    "clone(flags=CLONE_FILES|CLONE_THREAD) = 9\n",
    "vfork( <unfinished ...>\n",
    "dup2(3, 4294967295) = 4294967295\n",
    "close_range(0, 4294967295, CLOSE_RANGE_UNSHARE) = 0\n",
    "execve(\"/x\", [], NULL) = 0\n",
    "+++ exited with 0 +++\n",
    "strace: Process 8 attached",
    " = -1 ENOENT (No such file or directory)",
    " = ? ERESTARTSYS",
    "</a>(deleted)",
    "<TCP:[1->2]>",
    "<char 1:3>",
    "\\377",
    "\\x",
    "\"...",
    "0xffffffffffffffff",
    "([{<",
];

pub(crate) const DFTRACER_WORDS: &[&str] = &[
    "\"cat\":\"POSIX\"",
    "\"cat\":\"STDIO\"",
    "\"cat\":\"dftracer\"",
    "\"name\":\"fwrite\"",
    "\"name\":\"lseek\"",
    "\"name\":\"open\"",
    "\"name\":\"fork\"",
    "\"name\":\"FH\"",
    "\"ph\":\"X\"",
    "\"ret\":9223372036854775807",
    "\"offset\":-9223372036854775808",
    "\"size\":18446744073709551615",
    "\"ts\":1e300",
    "\"value\":\"NS\"",
    "\\u0000",
    "[[[[",
    "}},\n",
];

/// Receives the output of a reader, and checks its guarantees.
#[derive(Default)]
struct Checked {
    processes: HashSet<ProcessId>,
    files: HashSet<FileId>,
}

impl Sink for Checked {
    fn process(&mut self, id: ProcessId, _: &Process) -> io::Result<()> {
        self.processes.insert(id);
        Ok(())
    }

    fn file(&mut self, id: FileId, _: &[u8]) -> io::Result<()> {
        assert!(self.files.insert(id), "{id:?} was reported twice");
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        assert!(self.processes.contains(&event.process), "{event:?}");
        assert!(self.files.contains(&event.file), "{event:?}");
        assert!(!event.failed || event.bytes == 0, "{event:?}");
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        assert!(!missing.part.is_empty() && !missing.problem.ends_with('.'));
        Ok(())
    }
}

fn is_answer<T>(answer: Result<T, TraceError>) {
    match answer {
        Ok(_) | Err(TraceError::NotATrace { .. }) => {}
        Err(error @ (TraceError::Read { .. } | TraceError::Sink(_))) => panic!("{error}"),
    }
}

/// Checks the reader of strace's output.
pub(crate) fn strace(data: &[u8]) {
    is_answer(read_strace(
        data,
        Path::new("trace"),
        &mut Checked::default(),
    ));
}

/// Checks the reader of DFTracer's lines.
pub(crate) fn dftracer(data: &[u8]) {
    is_answer(read_dftracer(
        data,
        Path::new("trace"),
        &mut Checked::default(),
    ));
}

pub(crate) const COUNTER_WORDS: &[&str] = &[
    "Brick: n1:/bricks/v",
    "<hits>18446744073709551615</hits>",
    "<name>CREATE</name>",
    "Cumulative Stats:",
    "fuse_ops.create: ",
    "master.packets_sent: ",
    "device filer:/x mounted on /x with fstype nfs4 statvers=1.1",
    "per-op statistics",
    "mdc.x.md_stats=",
    " samples [usecs] ",
    "[A 11/27 20:10:00.1] r.r@c H=1 S=0x1: create: start",
    "7 1795255706.000001 openat(AT_FDCWD</x>, \"y\", O_CREAT <unfinished ...>\n",
];

/// Checks counters of metadata operations: the difference of a text to itself is zero, and no kind has more operations than the total.
pub(crate) fn counters(data: &[u8]) {
    let options = CounterOptions {
        under: data
            .first()
            .filter(|first| **first < 32)
            .map(|_| b"/x".to_vec()),
    };
    let snapshot = match read_counter_text(data, Path::new("counts"), "node", &options) {
        Ok(snapshot) => snapshot,
        Err(CounterError::Unrecognised { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let same = difference(&snapshot, &snapshot, None);
    // no counter may appear younger than itself, which would hide operations
    assert_eq!(same.total, Some(0), "{same:?}");
    let all = since_start(&snapshot);
    let largest = all.kinds.iter().filter_map(|of| of.count).max();
    assert!(largest <= all.total, "{all:?}");
    assert_eq!(all.sources.len(), snapshot.sources.len());
}
