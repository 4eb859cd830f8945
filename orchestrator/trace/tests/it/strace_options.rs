//! Traces a real program with every option of strace that changes lines. The result has the same operations, or an error that names the option.

use crate::collected::Collected;
use cvc_testkit::{Tool, require};
use cvc_trace::{TraceError, read_strace_files};
use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

/// A shell program that appends through copied descriptors, in children and at offsets, and that fails to open, and removes, files.
const PROGRAM: &str = "echo abc > log; echo de >> log; exec 3>>log; exec 4>&3; echo f >&4; \
    (echo gh >&3; /bin/echo i >&4); dd if=/dev/zero of=data bs=100 count=3 seek=2 conv=notrunc,fsync status=none; \
    cat data >> log; mv data moved; cat missing 2>/dev/null; exec 3>&- 4>&-; dd if=moved of=log bs=7 count=2 status=none; rm log";

/// Operations on the files of the program, in order: name, kind, offset, bytes, and whether the operation failed.
type Done = Vec<(String, &'static str, Option<u64>, u64, bool)>;

fn done(found: &Collected) -> Done {
    found
        .events
        .iter()
        .filter_map(|event| {
            let path = String::from_utf8_lossy(&found.files[&event.file.0]).into_owned();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let is_ours = ["log", "data", "moved", "missing"].contains(&name.as_str());
            is_ours.then(|| {
                (
                    name,
                    event.op.word(),
                    event.offset,
                    event.bytes,
                    event.failed,
                )
            })
        })
        .collect()
}

/// Traces the program with these options, into a file or, without `-o`, to standard error. Returns an error if the trace cannot be read.
fn record(options: &str, without_file: bool) -> Result<Collected, TraceError> {
    let dir = tempfile::tempdir().unwrap();
    let (work, trace) = (dir.path().join("work"), dir.path().join("trace"));
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(&trace).unwrap();
    let mut strace = Command::new("strace");
    strace
        .args(options.split(' '))
        .current_dir(&work)
        .stdout(Stdio::null());
    let out = trace.join("out");
    if without_file {
        strace.stderr(File::create(&out).unwrap());
    } else {
        strace.arg("-o").arg(&out).stderr(Stdio::null());
    }
    assert!(
        strace
            .args(["sh", "-c", PROGRAM])
            .status()
            .unwrap()
            .success(),
        "{options}"
    );
    let mut found = Collected::default();
    read_strace_files(&[trace], &mut found).map(|_| found)
}

const USUAL: &str = "-f -ttt -T -y";

/// Options that change how calls are shown, but not which calls are shown.
const SAME: [&str; 44] = [
    "-f -ttt -T",
    "-f -ttt -y",
    "-f -tt -T -y",
    "-f -tt -r -T -y",
    "-f -ttt -T -y -r",
    "-f -ttt -T -y -C",
    "-f -ttt -T -y -C -w",
    "-f -ttt -T -y -C -U name,calls,max-time",
    "-f -ttt -T -y -i",
    "-f -ttt -T -y -n",
    "-f -ttt -T -y -n -i -r -C",
    "-f -ttt -T -y -v",
    "-f -ttt -T -y -x",
    "-f -ttt -T -y -xx",
    "-f -ttt -T -yy",
    "-f -ttt -T -y -Y",
    "-f -ttt -T -yy -Y -v",
    "-f -ttt -T -y -s 0",
    "-f -ttt -T -y -s 9999",
    "-f -ttt -T -y -a 1",
    "-f -ttt -T -y -a 200",
    "-f -ttt -T -y -q",
    "-f -ttt -T -y -qq",
    "-f -ttt -T -y -qqq",
    "-f -ttt -T -y --decode-pids=pidns",
    "-f -ttt -T -y --decode-pids=comm,pidns",
    "-f -ttt -T -y -e write=all",
    "-f -ttt -T -y -e read=all -e write=all",
    "-f -ttt -T -y -X raw",
    "-f -ttt -T -y -X verbose",
    "-f -ttt -T -y -X abbrev",
    "-f -ttt -T -X raw",
    "-f -ttt -T -y --strings-in-hex=non-ascii-chars",
    "-f -ttt -T -y -e abbrev=none",
    "-f -ttt -T -y -e signal=none",
    "-f -ttt -T -y -e inject=fsync:delay_exit=1000",
    "-f -ttt -T --decode-fds=path,dev",
    "-f -ttt -T -e decode-fds=none",
    "-f --absolute-timestamps=unix,s -T -y",
    "-f --absolute-timestamps=unix,ns --syscall-times=ns -y",
    "-f --absolute-timestamps=unix,ms -T -y",
    "-f -ttt --syscall-times=s -y",
    "-f -t -T -y",
    "-ff -ttt -T -y",
];

/// Traces the program again if strace missed the beginning of a call, which may happen when it has just begun to follow a process.
fn record_whole(options: &str, without_file: bool) -> Result<Collected, TraceError> {
    let mut found = record(options, without_file)?;
    for _ in 0..3 {
        if !found.misses("calls", "only the end") {
            break;
        }
        found = record(options, without_file)?;
    }
    Ok(found)
}

#[test]
fn options_that_change_lines_do_not_change_operations() {
    require!(Tool::Strace);
    let usual = done(&record(USUAL, false).unwrap());
    assert!(
        usual.iter().filter(|one| one.1 == "write").count() >= 12,
        "{usual:?}"
    );
    let mut wrong = Vec::new();
    let stacks = Command::new("strace").arg("-V").output().unwrap().stdout;
    let has_stacks = String::from_utf8_lossy(&stacks).contains("stack-trace=lib");
    let stacks = has_stacks.then_some("-f -ttt -T -y -k -e trace=all");
    for options in SAME.iter().copied().chain(stacks) {
        for without_file in [false, true] {
            // with -qq strace does not report which process is left, whose lines then have no number
            if without_file && (options.starts_with("-ff") || options.contains("-qq")) {
                continue;
            }
            let found = match record_whole(options, without_file) {
                Ok(found) => found,
                Err(error) => {
                    wrong.push(format!("{options}: {error}"));
                    continue;
                }
            };
            let these = done(&found);
            if let Some(at) =
                (0..usual.len().max(these.len())).find(|&at| usual.get(at) != these.get(at))
            {
                wrong.push(format!(
                    "{options} ({without_file}): {at}: {:?} instead of {:?}",
                    these.get(at),
                    usual.get(at)
                ));
            }
            if found.misses("line", "") || found.misses("calls", "") {
                wrong.push(format!("{options} ({without_file}): {:?}", found.missing));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn options_that_hide_something_are_named() {
    require!(Tool::Strace);
    for (options, part, problem) in [
        ("-f -ttt -y", "durations", "-T"),
        ("-f -t -T -y", "times", "-ttt"),
        ("-f -ttt -T -e raw=all", "paths", "-e raw"),
        ("-f -ttt -T -y -Z", "calls", "-Z"),
    ] {
        let found = record(options, false).unwrap();
        assert!(
            found.misses(part, problem),
            "{options}: {:?}",
            found.missing
        );
    }
    for (options, word) in [("-f -T -y", "-ttt"), ("-f -T -y -r", "-r"), ("-f -c", "-c")] {
        match record(options, false) {
            Err(TraceError::NotATrace { problem, .. }) => {
                assert!(problem.contains(word), "{options}: {problem}");
            }
            other => panic!("{options}: {other:?}"),
        }
    }
}

#[test]
fn without_names_all_bytes_are_still_counted() {
    require!(Tool::Strace);
    let sum = |found: &Collected, writes: bool| {
        let of = found
            .events
            .iter()
            .filter(|e| e.op.is_data() && (e.op.word() == "write") == writes);
        of.fold((0, 0), |(n, bytes), e| (n + 1, bytes + e.bytes))
    };
    let usual = record(USUAL, false).unwrap();
    for options in [
        "-f -ttt -T -e raw=all",
        "-f -ttt -T -y -e raw=write,openat,dup2,fcntl",
        "-f -ttt -T -y -e verbose=none",
    ] {
        let found = record(options, false).unwrap();
        for writes in [true, false] {
            assert_eq!(
                sum(&found, writes),
                sum(&usual, writes),
                "{options}: {:?}",
                found.missing
            );
        }
    }
}

/// `-o FILE -A` appends a trace and its table to another trace; without `-o`, the same file has the output of the program.
#[test]
fn what_is_not_of_strace_in_a_file_does_not_hide_calls() {
    let text = "\
1795255706.000001 openat(AT_FDCWD, \"/d/a\", O_RDWR|O_CREAT|O_APPEND, 0644) = 3 <0.000001>\n\
1795255706.000002 write(2, \"it's (bad\\n\", 10it's (bad\n\
) = 10 <0.000001>\n\
1795255706.000003 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLDstrace: Process 9 attached\n \
<unfinished ...>\n\
[pid     9] 1795255706.000004 write(3, \"a\", 1) = 1 <0.000001>\n\
[pid     7] 1795255706.000005 <... clone resumed>, child_tidptr=0x7f) = 9 <0.000001>\n\
[pid     7] 1795255706.000006 write(3, \"bc\", 2) = 2 <0.000001>\n\
[pid     7] [u:r:t:s0:c1,c2] 1795255706.000007 openat(AT_FDCWD, \"/d/b\" [u:r:t:s0], O_RDONLY) = 4</d/b> [u:r:t:s0] <0.000001>\n\
% time     seconds  usecs/call     calls    errors syscall\n\
------ ----------- ----------- --------- --------- ----------------\n\
 50.00    0.123439       24687         5         1 read\n\
100.00    0.000000           0        74         2 total\n\
[pid     7] 1795255706.000008 read(4</d/b>, \"\", 9) = 3 <0.000001>\n";
    let mut found = Collected::default();
    cvc_trace::read_strace(text.as_bytes(), Path::new("trace"), &mut found).unwrap();
    assert_eq!(found.missing, [], "{:?}", found.missing);
    assert_eq!(
        found.extents("/d/a", cvc_trace::Op::Write),
        [(None, 1), (None, 2)]
    );
    assert_eq!(found.extents("/d/b", cvc_trace::Op::Read), [(Some(0), 3)]);
    assert_eq!(found.extents("<fd 2>", cvc_trace::Op::Write), [(None, 10)]);
    assert_eq!(found.processes.len(), 2);
}
