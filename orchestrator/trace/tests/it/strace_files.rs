//! Files of strace: several files of one run, gzip-compressed files, damaged files.

use crate::collected::Collected;
use cvc_trace::{Op, TraceError, read_strace, read_strace_files};
use flate2::{Compression, write::GzEncoder};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/strace")
        .join(name)
}

fn read_files(paths: &[PathBuf]) -> Collected {
    let mut found = Collected::default();
    read_strace_files(paths, &mut found).unwrap();
    found
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Reads the task of `gzip` while DMTCP wrote an image through it. It was recorded with a filter, so the calls that opened its descriptors are
/// missing.
#[test]
fn the_writes_of_a_gzipped_image_add_up_to_its_size() {
    let found = read_files(&[data("gzip-of-image.2708.strace.gz")]);
    let writes = found.extents(".dmtcp.temp", Op::Write);
    assert_eq!(writes.len(), 14);
    assert_eq!(writes.iter().map(|write| write.1).sum::<u64>(), 3_602_053);
    assert!(writes.iter().all(|write| write.0.is_none()));
    assert_eq!(found.processes[&0].pid, Some(2708));
    assert!(found.misses("mappings", "2 files"));
    assert_eq!(found.missing.len(), 1, "{:?}", found.missing);
}

#[test]
fn files_of_tasks_are_merged_by_time() {
    let paths: Vec<_> = [2453, 2440, 2452]
        .map(|task| data(&format!("run.{task}.strace.gz")))
        .into();
    let found = read_files(&paths);
    let starts: Vec<_> = found.events.iter().map(|event| event.start_ns).collect();
    assert!(starts.is_sorted());
    assert_eq!(starts[0], 122_000, "the first event is the second line");
    let mut pids: Vec<_> = found.processes.values().map(|p| p.pid.unwrap()).collect();
    pids.sort_unstable();
    assert_eq!(pids, [2440, 2452, 2453]);
    let opened = found.events.iter().filter(|event| event.op == Op::Open);
    assert_eq!(opened.count(), 44 + 3 + 1);
    let writes = found.events.iter().filter(|event| event.op == Op::Write);
    assert_eq!(writes.count(), 217);
}

#[test]
fn a_child_inherits_across_files_whatever_their_order() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("out.5"),
        "1795255706.000003 write(3, \"x\", 1) = 1 <0.1>\n",
    )
    .unwrap();
    fs::write(
        dir.path().join("out.9"),
        "1795255706.000001 open(\"a\", O_RDWR|O_CREAT, 0644) = 3 <0.1>\n\
         1795255706.000002 clone(child_stack=NULL, flags=SIGCHLD) = 5 <0.1>\n\
         1795255706.000004 write(3, \"x\", 1) = 1 <0.1>\n",
    )
    .unwrap();
    let found = read_files(&[dir.path().to_owned()]);
    assert_eq!(found.extents("a", Op::Write), [(Some(0), 1), (Some(1), 1)]);
}

#[test]
fn a_thread_that_executes_a_program_goes_on_in_the_file_of_its_process() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("out.7"),
        "1795255706.000001 open(\"a\", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3 <0.1>\n\
         1795255706.000002 clone(flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 8 <0.1>\n\
         1795255706.000004 +++ superseded by execve in pid 8 +++\n\
         1795255706.000005 <... execve resumed>) = 0 <0.1>\n\
         1795255706.000006 write(3, \"x\", 1) = 1 <0.1>\n",
    )
    .unwrap();
    fs::write(
        dir.path().join("out.8"),
        "1795255706.000003 execve(\"/bin/new\", [\"new\"], 0x7f /* 1 var */ <pid changed to 7 ...>\n",
    )
    .unwrap();
    let found = read_files(&[dir.path().to_owned()]);
    assert!(found.on("a", Op::Write).is_empty(), "O_CLOEXEC");
    assert_eq!(found.processes[&0].program.as_deref(), Some("/bin/new"));
    assert!(found.missing.is_empty(), "{:?}", found.missing);
}

#[test]
fn the_same_number_in_another_run_is_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let line = "7 1795255706.000001 open(\"a\", O_RDWR|O_CREAT, 0644) = 3 <0.1>\n";
    fs::write(dir.path().join("node1"), line).unwrap();
    fs::write(dir.path().join("node2"), line).unwrap();
    assert_eq!(read_files(&[dir.path().to_owned()]).processes.len(), 2);
}

const LINES: &str = "7 1795255706.000001 openat(AT_FDCWD</w>, \"a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3</w/a> <0.000002>\n\
    7 1795255706.000003 clone(child_stack=NULL, flags=CLONE_VM|SIGCHLD <unfinished ...>\n\
    8 1795255706.000004 pwritev2(3</w/a>, [{iov_base=\"\\0\\377\\\"\"..., iov_len=100}], 1, 4096, 0) = 100 <0.000002>\n\
    7 1795255706.000005 <... clone resumed>, child_tidptr=0x7f) = 8 <0.000002>\n\
    8 1795255706.000006 sendfile(3</w/a>, 4<UNIX-STREAM:[1->2]>, [0] => [3], 3) = 3 <0.000002>\n\
    7 1795255706.000007 lseek(3</w/a>, -1, SEEK_END) = 4195 <0.000002>\n\
    8 1795255706.000008 +++ exited with 0 +++\n";

/// Reads bytes that may not be a trace.
fn withstand(text: &[u8]) -> Collected {
    let mut found = Collected::default();
    match read_strace(text, Path::new("damaged"), &mut found) {
        Ok(_) | Err(TraceError::NotATrace { .. }) => found,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_trace_that_ends_anywhere_gives_what_it_has() {
    let whole = withstand(LINES.as_bytes());
    assert_eq!(
        whole.extents("/w/a", Op::Write),
        [(Some(4096), 100), (Some(0), 3)]
    );
    for end in 0..LINES.len() {
        let found = withstand(&LINES.as_bytes()[..end]);
        assert_eq!(found.events, whole.events[..found.events.len()], "{end}");
    }
}

#[test]
fn a_damaged_byte_anywhere_is_withstood() {
    for at in 0..LINES.len() {
        for byte in [b'\n', b'"', b'\\', b'<', b')', b'9', 0, 0xff] {
            let mut text = LINES.as_bytes().to_vec();
            text[at] = byte;
            withstand(&text);
        }
    }
}

#[test]
fn hostile_lines_are_withstood() {
    let deep = format!("7 1.5 read({}", "[(".repeat(10_000));
    let numbers = "9".repeat(40);
    for call in [
        "read(4294967296, \"\", 1) = 9223372036854775807",
        "pwrite64(3, \"\", 1, 18446744073709551615) = 9223372036854775807",
        "pwrite64(3, \"\", 1, 9223372036854775807) = 9223372036854775807",
        "lseek(3, -9223372036854775808, SEEK_END) = 9223372036854775807",
        "mmap(NULL, 9223372036854775807, PROT_WRITE, MAP_SHARED, 3, 0) = 0xffffffffffffffff",
        "munmap(0xffffffffffffffff, 9223372036854775807) = 0",
        "munmap(0, 0) = 0",
        "msync(0xffffffffffffffff, 1, MS_SYNC) = 0",
        "close_range(9, 3, 0) = 0",
        "fallocate(3, 0, 9223372036854775807, 9223372036854775807) = 0",
        "clone(flags=CLONE_THREAD|CLONE_FILES) = 7",
        "clone(flags=CLONE_THREAD|CLONE_FILES) = 0",
        "fork() = 18446744073709551615",
        "dup2(3, 3) = 3",
        "rename(\"a\", \"a\") = 0",
        "execve(NULL, NULL, NULL) = 0",
        "open(\"\", O_RDONLY) = 3</>",
        "open(\"\\",
        "read(3<",
        "read(3</",
        "() = 0",
        "<... read resumed>) = 1",
        "<... resumed>",
        "+++",
        "pipe([3",
        "pipe([3]) = 0",
        "socketpair(1, 2, 3, ) = 0",
        deep.as_str(),
        numbers.as_str(),
    ] {
        let mut text = String::from("7 1795255706.000001 open(\"a\", O_RDWR|O_TRUNC) = 3 <0.1>\n");
        for time in [
            "1795255706.000002",
            "18446744073709551615.999999999",
            "99:99:99.9",
            "",
        ] {
            text += &format!("7 {time} {call} <99999999999.9>\n[pid 7] {time} {call}\n");
        }
        withstand(text.as_bytes());
    }
}

#[test]
fn gzip_of_several_members_is_read_and_a_torn_one_is_told_of() {
    let (first, second) = LINES.split_at(LINES.find("8 1795").unwrap());
    let mut packed = gzipped(first.as_bytes());
    packed.extend(gzipped(second.as_bytes()));
    assert_eq!(withstand(&packed), withstand(LINES.as_bytes()));
    let torn = withstand(&packed[..packed.len() - 12]);
    assert!(
        torn.misses("after line", "cannot be unpacked"),
        "{:?}",
        torn.missing
    );
    assert_eq!(torn.on("/w/a", Op::Open).len(), 1);
}
