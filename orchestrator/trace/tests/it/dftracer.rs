//! Traces of `tests/data/dftracer/program.c` written by DFTracer 2.2, and lines of other versions.

use crate::collected::Collected;
use cvc_trace::{Api, Op, TraceError, read_dftracer, read_dftracer_files};
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/dftracer")
        .join(name)
}

fn read_text(text: &str) -> Collected {
    let mut found = Collected::default();
    read_dftracer(text.as_bytes(), Path::new("trace"), &mut found).unwrap();
    found
}

/// Returns a line of version 1 for a call on `/f` by process 7.
fn line(name: &str, ts: u64, args: &str) -> String {
    format!(
        "{{\"id\":1,\"name\":\"{name}\",\"cat\":\"POSIX\",\"pid\":7,\"tid\":8,\"ts\":{ts},\"dur\":2,\"ph\":\"X\",\"args\":{{\"fname\":\"/f\"{args}}}}}\n"
    )
}

#[test]
fn a_program_and_its_child_are_one_trace() {
    for directory in ["plain", "gzip"] {
        let mut found = Collected::default();
        read_dftracer_files(&[data(directory)], &mut found).unwrap();
        // as in the source of the program
        assert_eq!(found.extents("/stream", Op::Write), [(Some(0), 30)]);
        assert_eq!(found.extents("/stream", Op::Read), [(Some(5), 8)]);
        let mut writes = found.extents("/file", Op::Write);
        writes.sort_unstable();
        // the offset of the child's write is unknown, because it shares the position with its parent
        assert_eq!(writes, [(None, 3), (Some(0), 100), (Some(1000), 50)]);
        assert_eq!(
            found.extents("/file", Op::Read),
            [(Some(1040), 10), (Some(3), 7)]
        );
        assert_eq!(
            found.extents("/log", Op::Write),
            [(Some(0), 8), (Some(8), 9)]
        );
        assert_eq!(found.extents("/file", Op::Resize), [(None, 5)]);
        assert_eq!(found.on("/file", Op::Sync).len(), 1);
        assert_eq!(found.on("/log", Op::Rename).len(), 1);
        assert_eq!(found.on("/old", Op::Remove).len(), 1);
        assert_eq!(found.on("/stream", Op::Write)[0].api, Api::Stdio);
        assert_eq!(found.processes.len(), 2);
        for process in found.processes.values() {
            assert_eq!(process.program.as_deref(), Some("./program"));
            assert!(process.host.is_some() && process.pid.is_some());
        }
        assert!(found.missing.is_empty(), "{:?}", found.missing);
    }
}

#[test]
fn lines_of_a_list_are_read() {
    let text = format!(
        "[\n{}{}]\n",
        line("open64", 1_795_255_706_000_010, ",\"flags\":66").replace("}}\n", "}},\n"),
        line("write", 1_795_255_706_000_020, ",\"ret\":\"5\",\"count\":9")
    );
    let found = read_text(&text);
    assert_eq!(found.extents("/f", Op::Write), [(Some(0), 5)]);
    let write = found.on("/f", Op::Write)[0];
    assert_eq!((write.start_ns, write.duration_ns), (10_000, 2000));
    assert_eq!((write.thread, found.processes[&0].pid), (8, Some(7)));
    assert!(found.missing.is_empty());
}

#[test]
fn a_file_that_is_open_twice_has_no_positions() {
    let text = [
        line("open", 1, ",\"flags\":0"),
        line("read", 2, ",\"ret\":5"),
        line("open", 3, ",\"flags\":0"),
        line("read", 4, ",\"ret\":5"),
        line("pread", 5, ",\"ret\":5,\"offset\":9"),
        line("close", 6, ",\"ret\":0"),
        line("close", 7, ",\"ret\":0"),
        line("open", 8, ",\"flags\":0"),
        line("read", 9, ",\"ret\":6"),
    ];
    assert_eq!(
        read_text(&text.concat()).extents("/f", Op::Read),
        [(Some(0), 5), (None, 5), (Some(9), 5), (Some(0), 6)]
    );
}

#[test]
fn failed_calls_move_nothing() {
    let text = [
        line("open", 1, ",\"flags\":577,\"ret\":3"),
        line("write", 2, ",\"ret\":-1"),
        line("write", 3, ",\"ret\":4"),
    ];
    let found = read_text(&text.concat());
    assert_eq!(found.extents("/f", Op::Write), [(Some(0), 4)]);
    assert!(found.on("/f", Op::Write)[0].failed);
}

#[test]
fn what_goes_through_a_copied_descriptor_is_missed() {
    let text = [
        line("open", 1, ",\"flags\":66"),
        line("dup2", 2, ""),
        line("dup2", 3, ""),
    ];
    let found = read_text(&text.concat());
    assert!(found.misses("/f", "descriptor of it was copied"));
    assert_eq!(found.missing.len(), 1);
}

#[test]
fn a_hash_without_a_name_stays_a_hash() {
    let found = read_text(
        "{\"name\":\"read\",\"cat\":\"POSIX\",\"pid\":7,\"tid\":7,\"ts\":1,\"dur\":1,\"ph\":1,\"args\":{\"fhash\":\"ab\",\"ret\":1}}\n",
    );
    assert_eq!(found.extents("<fhash ab>", Op::Read), [(None, 1)]);
    assert!(found.misses("names", "hashes"));
}

/// By default (without DFTRACER_INC_METADATA=1), lines of DFTracer have neither a file nor a length.
#[test]
fn calls_without_metadata_are_counted_under_an_unknown_file() {
    let text: String = ["open", "read", "read", "write", "close"]
        .iter()
        .map(|name| format!("{{\"name\":\"{name}\",\"cat\":\"POSIX\",\"pid\":\"7\",\"tid\":\"8\",\"ts\":\"1\",\"dur\":\"2\",\"ph\":\"X\",\"args\":{{\"hostname\":\"n1\"}}}}\n"))
        .collect();
    let found = read_text(&text);
    assert_eq!(
        found.extents("<unknown file>", Op::Read),
        [(None, 0), (None, 0)]
    );
    assert_eq!(found.extents("<unknown file>", Op::Write), [(None, 0)]);
    assert_eq!(found.events.len(), 5);
    assert_eq!(found.processes[&0].host.as_deref(), Some("n1"));
    assert!(found.misses("names", "5 calls") && found.misses("names", "DFTRACER_INC_METADATA=1"));
    assert!(
        found.misses("sizes", "3 reads and writes") && found.misses("sizes", "unknown, not zero")
    );
}

#[test]
fn what_is_no_trace_is_refused() {
    for text in ["", "[\n]\n", "hello\n", "{\"a\":1}\n", "[1,2]\n"] {
        let mut found = Collected::default();
        let result = read_dftracer(text.as_bytes(), Path::new("x"), &mut found);
        assert!(
            matches!(result, Err(TraceError::NotATrace { .. })),
            "{text}"
        );
    }
}

#[test]
fn a_trace_that_ends_or_breaks_anywhere_is_withstood() {
    let text = [
        line("open", 1, ",\"flags\":66"),
        line("lseek", 2, ",\"whence\":2,\"offset\":-3,\"ret\":9"),
        line("write", 3, ",\"ret\":4"),
    ]
    .concat();
    let whole = read_text(&text);
    for at in 0..text.len() {
        let mut found = Collected::default();
        let _ = read_dftracer(&text.as_bytes()[..at], Path::new("x"), &mut found);
        assert_eq!(found.events, whole.events[..found.events.len()], "{at}");
        for byte in [b'"', b'{', b'9', b'-', 0xff, b'\n'] {
            let mut damaged = text.clone().into_bytes();
            damaged[at] = byte;
            let _ = read_dftracer(
                damaged.as_slice(),
                Path::new("x"),
                &mut Collected::default(),
            );
        }
    }
}

#[test]
fn huge_numbers_are_withstood() {
    for number in [
        "18446744073709551615",
        "-9223372036854775808",
        "9223372036854775807",
        "1e300",
        "\"x\"",
        "[[]]",
    ] {
        let args = [
            "ret", "offset", "size", "length", "whence", "flags", "count",
        ]
        .map(|key| format!(",\"{key}\":{number}"))
        .concat();
        let text: String = [
            "open",
            "lseek",
            "fseek",
            "write",
            "fwrite",
            "ftruncate",
            "mmap",
            "ungetc",
        ]
        .iter()
        .flat_map(|name| {
            let posix = line(name, u64::MAX, &args);
            let stdio = posix.replace("POSIX", "STDIO");
            [posix, stdio]
        })
        .collect();
        read_text(&text);
    }
}
