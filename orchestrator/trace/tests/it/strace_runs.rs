//! Traces real programs. The expected results are the operations in the programs' source, and the files that they wrote.

use crate::collected::Collected;
use cvc_testkit::{Tool, require};
use cvc_trace::{Op, read_strace, read_strace_files};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// All option sets with which the same run is traced.
const WAYS: [&[&str]; 5] = [
    &["-f", "-ttt", "-T"],
    &["-f", "-ttt", "-T", "-y"],
    &["-f", "-tt", "-T", "-yy"],
    &["-ff", "-ttt", "-T"],
    &["-ff", "-ttt", "-T", "-y", "-xx", "-s", "4096"],
];

/// Traces a program in a fresh directory, which `prepare` fills, and calls `check` with the trace and the directory.
fn in_every_way(program: &[&str], prepare: impl Fn(&Path), check: impl Fn(&Collected, &Path)) {
    for way in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let (work, trace) = (dir.path().join("work"), dir.path().join("trace"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&trace).unwrap();
        prepare(&work);
        let status = Command::new("strace")
            .args(way)
            .arg("-o")
            .arg(trace.join("out"))
            .args(program)
            .current_dir(&work)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{way:?}");
        let mut found = Collected::default();
        read_strace_files(&[trace], &mut found).unwrap();
        assert!(!found.misses("line", ""), "{way:?}: {:?}", found.missing);
        check(&found, &work);
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn dd_writes_behind_what_it_seeks_over() {
    require!(Tool::Strace);
    in_every_way(
        &[
            "dd", "if=in", "of=out", "bs=100", "count=5", "seek=2", "skip=1",
        ],
        |work| fs::write(work.join("in"), vec![b'x'; 580]).unwrap(),
        |found, work| {
            let places = [
                (Some(200), 100),
                (Some(300), 100),
                (Some(400), 100),
                (Some(500), 100),
                (Some(600), 80),
            ];
            assert_eq!(found.extents("out", Op::Write), places);
            assert_eq!(length(&work.join("out")), 680);
            let places = [
                (Some(100), 100),
                (Some(200), 100),
                (Some(300), 100),
                (Some(400), 100),
                (Some(500), 80),
            ];
            assert_eq!(found.extents("in", Op::Read), places);
            assert!(
                found.processes[&0]
                    .program
                    .as_deref()
                    .unwrap()
                    .ends_with("dd")
            );
        },
    );
}

#[test]
fn a_shell_appends_through_copied_descriptors() {
    require!(Tool::Strace);
    let script = "echo abc > log; echo de >> log; exec 3>>log; exec 4>&3; echo f >&4; echo gh >&3; \
                  (echo i >&3; cat /dev/null >&4; /bin/echo jkl >&4); wait; /bin/echo m >> log";
    in_every_way(
        &["sh", "-c", script],
        |_| {},
        |found, work| {
            let text = "abc\nde\nf\ngh\ni\njkl\nm\n";
            assert_eq!(fs::read_to_string(work.join("log")).unwrap(), text);
            let mut end = 0;
            let lines = text.lines().map(|line| {
                let (place, bytes) = (end, line.len() as u64 + 1);
                end += bytes;
                (Some(place), bytes)
            });
            assert_eq!(found.extents("log", Op::Write), lines.collect::<Vec<_>>());
        },
    );
}

const PYTHON: &str = r"
import mmap, os, threading
fd = os.open('data', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.pwritev(fd, [b'abc', b'defg'], 4096)
os.writev(fd, [b'01', b'234'])
copy = os.dup(fd)
os.write(copy, b'x')
if os.fork() == 0:
    os.write(fd, b'child')
    os._exit(0)
os.wait()
os.write(fd, b'parent')
thread = threading.Thread(target=lambda: os.write(copy, b'\x00\xff\x22<>'))
thread.start()
thread.join()
os.lseek(fd, -3, os.SEEK_END)
os.write(fd, b'z')
os.pread(fd, 10, 4090)
maps = mmap.mmap(fd, 8, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
maps[0:3] = b'MAP'
maps.flush()
os.fdatasync(fd)
out = os.open('copy', os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
os.write(out, b'12')
os.write(out, b'345')
os.rename('data', 'moved')
os.write(fd, b'end')
os.close(fd)
";

#[test]
fn python_writes_through_vectors_threads_children_and_maps() {
    require!(Tool::Strace, Tool::Python);
    // the interpreter itself: the one on PATH may be a script that starts it
    let output = Command::new(Tool::Python.find().unwrap())
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    let python = String::from_utf8(output.stdout).unwrap();
    in_every_way(
        &[python.trim(), "-S", "-c", PYTHON],
        |_| {},
        |found, work| {
            assert_eq!(
                found.extents("data", Op::Write),
                [
                    (Some(4096), 7),
                    (Some(0), 5),
                    (Some(5), 1),
                    (Some(6), 5),
                    (Some(11), 6),
                    (Some(17), 5),
                    (Some(4100), 1),
                ]
            );
            assert_eq!(found.extents("data", Op::Read), [(Some(4090), 10)]);
            assert_eq!(found.extents("moved", Op::Write), [(Some(4101), 3)]);
            assert_eq!(length(&work.join("moved")), 4104);
            assert_eq!(
                found.extents("copy", Op::Write),
                [(Some(0), 2), (Some(2), 3)]
            );
            assert_eq!(found.on("data", Op::Map).len(), 1);
            assert!(found.misses("data", "mapped into memory"));
            // the flush of the map, and fdatasync
            assert_eq!(found.on("data", Op::Sync).len(), 2);
            let writers: std::collections::BTreeSet<_> = found
                .on("data", Op::Write)
                .iter()
                .map(|event| event.process)
                .collect();
            assert_eq!(writers.len(), 2, "a thread is no process");
        },
    );
}

#[test]
fn a_running_program_is_read_through_a_pipe() {
    require!(Tool::Strace);
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("strace")
        .args(["-f", "-ttt", "-T", "-o", "|cat"])
        .args(["sh", "-c", "echo abc > out; exec >> out; echo de"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut found = Collected::default();
    let output = child.stdout.take().unwrap();
    let summary = read_strace(output, Path::new("pipe"), &mut found).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(
        found.extents("out", Op::Write),
        [(Some(0), 4), (Some(4), 3)]
    );
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let began = std::time::Duration::from_nanos(summary.began_unix_ns.unwrap());
    assert!(began <= now && now - began < std::time::Duration::from_secs(600));
}
