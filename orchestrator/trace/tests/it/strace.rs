//! Lines of strace, each of which tests one property. Expected results are from the manual pages of the system calls.

use crate::collected::Collected;
use cvc_trace::{Op, TraceError, read_strace};
use std::path::Path;

/// Reads lines, after adding a time and a duration to each that does not begin with a number.
fn read(lines: &[&str]) -> Collected {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        let (pid, call) = match digits {
            0 => ("7", *line),
            _ => line.split_once(' ').unwrap(),
        };
        text += &format!("{pid} 1795255706.{index:06} {call}");
        if !call.ends_with("...>") && !call.ends_with("+++") {
            text += " <0.000002>";
        }
        text.push('\n');
    }
    read_text(text.as_bytes())
}

fn read_text(text: &[u8]) -> Collected {
    let mut found = Collected::default();
    read_strace(text, Path::new("trace"), &mut found).unwrap();
    found
}

fn refusal(text: &str) -> String {
    let mut found = Collected::default();
    match read_strace(text.as_bytes(), Path::new("trace"), &mut found) {
        Err(error @ TraceError::NotATrace { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

const W: Op = Op::Write;
const R: Op = Op::Read;

#[test]
fn writes_follow_one_another() {
    let found = read(&[
        r#"openat(AT_FDCWD, "a", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3"#,
        r#"write(3, "abc", 3) = 3"#,
        r#"writev(3, [{iov_base="a, (", iov_len=4}, {iov_base="\"", iov_len=1}], 2) = 5"#,
        r#"close(3) = 0"#,
    ]);
    assert_eq!(found.extents("a", W), [(Some(0), 3), (Some(3), 5)]);
    let opened = found.on("a", Op::Open)[0];
    assert_eq!((opened.start_ns, opened.duration_ns), (0, 2000));
    assert_eq!(found.on("a", Op::Close)[0].start_ns, 3000);
    assert_eq!(found.processes[&0].pid, Some(7));
    assert!(found.missing.is_empty(), "{:?}", found.missing);
}

#[test]
fn calls_with_a_place_do_not_move_the_position() {
    let found = read(&[
        r#"openat(AT_FDCWD, "a", O_RDWR) = 3"#,
        r#"pwrite64(3, "abc", 3, 100) = 3"#,
        r#"pread64(3, "abc", 3, 4294967296) = 3"#,
        r#"preadv(3, [{iov_base="abc", iov_len=3}], 1, 50) = 3"#,
        r#"pwritev2(3, [{iov_base="abc", iov_len=3}], 1, 60, 0) = 3"#,
        r#"pwritev2(3, [{iov_base="abc", iov_len=3}], 1, -1, 0) = 3"#,
        r#"read(3, "x", 10) = 1"#,
    ]);
    assert_eq!(
        found.extents("a", W),
        [(Some(100), 3), (Some(60), 3), (Some(0), 3)]
    );
    assert_eq!(
        found.extents("a", R),
        [(Some(4_294_967_296), 3), (Some(50), 3), (Some(3), 1)]
    );
}

#[test]
fn a_seek_sets_the_position_that_it_returned() {
    let found = read(&[
        r#"openat(AT_FDCWD, "a", O_RDWR) = 3"#,
        r#"lseek(3, -10, SEEK_END) = 90"#,
        r#"write(3, "x", 1) = 1"#,
        r#"lseek(3, -200, SEEK_CUR) = -1 EINVAL (Invalid argument)"#,
        r#"write(3, "x", 1) = 1"#,
        r#"_llseek(3, 7, [7], SEEK_SET) = 0"#,
        r#"write(3, "x", 1) = 1"#,
    ]);
    assert_eq!(
        found.extents("a", W),
        [(Some(90), 1), (Some(91), 1), (Some(7), 1)]
    );
    let seeks = found.on("a", Op::Seek);
    assert_eq!(seeks[0].offset, Some(90));
    assert!(seeks[1].failed);
}

#[test]
fn copies_of_a_descriptor_share_the_position() {
    let found = read(&[
        r#"open("a", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3"#,
        r#"dup(3) = 4"#,
        r#"dup2(3, 5) = 5"#,
        r#"dup3(3, 6, O_CLOEXEC) = 6"#,
        r#"fcntl(3, F_DUPFD, 10) = 10"#,
        r#"write(3, "x", 1) = 1"#,
        r#"write(4, "x", 1) = 1"#,
        r#"write(5, "x", 1) = 1"#,
        r#"close(3) = 0"#,
        r#"write(6, "x", 1) = 1"#,
        r#"write(10, "x", 1) = 1"#,
        r#"execve("/bin/x", ["x"], 0x1 /* 1 var */) = 0"#,
        r#"write(10, "x", 1) = 1"#,
        r#"write(6, "x", 1) = 1"#,
    ]);
    let places: Vec<_> = found.extents("a", W).iter().map(|w| w.0).collect();
    assert_eq!(places, (0..6).map(Some).collect::<Vec<_>>());
    // execve has closed the descriptor with O_CLOEXEC, so 6 is another file
    assert_eq!(found.extents("<fd 6>", W), [(None, 1)]);
    assert_eq!(found.processes[&0].program.as_deref(), Some("/bin/x"));
}

#[test]
fn two_openings_of_a_file_have_positions_of_their_own() {
    let found = read(&[
        r#"open("a", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3"#,
        r#"open("a", O_RDONLY) = 4"#,
        r#"write(3, "abc", 3) = 3"#,
        r#"read(4, "a", 1) = 1"#,
        r#"read(4, "b", 1) = 1"#,
    ]);
    assert_eq!(found.extents("a", R), [(Some(0), 1), (Some(1), 1)]);
    assert_eq!(found.files.len(), 1);
}

#[test]
fn processes_copy_descriptors_and_threads_share_them() {
    let found = read(&[
        r#"7 open("a", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3"#,
        r#"7 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 8"#,
        r#"8 write(3, "x", 1) = 1"#,
        r#"7 write(3, "x", 1) = 1"#,
        r#"8 close(3) = 0"#,
        r#"7 write(3, "x", 1) = 1"#,
        r#"7 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, stack=0x7f} => {parent_tid=[9]}, 88) = 9"#,
        r#"9 open("b", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4"#,
        r#"7 write(4, "xy", 2) = 2"#,
        r#"9 write(4, "xy", 2) = 2"#,
    ]);
    let writes = found.on("a", W);
    let places: Vec<_> = writes.iter().map(|w| (w.process.0, w.offset)).collect();
    assert_eq!(places, [(1, Some(0)), (0, Some(1)), (0, Some(2))]);
    let writes = found.on("b", W);
    let places: Vec<_> = writes
        .iter()
        .map(|w| (w.process.0, w.thread, w.offset))
        .collect();
    assert_eq!(places, [(0, 7, Some(0)), (0, 9, Some(2))]);
    assert_eq!(found.processes[&1].pid, Some(8));
    assert_eq!(found.processes.len(), 2);
}

#[test]
fn a_child_that_is_heard_before_its_clone_returns_has_its_descriptors() {
    let found = read(&[
        r#"7 open("a", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3"#,
        r#"7 vfork( <unfinished ...>"#,
        r#"8 write(3, "x", 1) = 1"#,
        r#"8 +++ exited with 0 +++"#,
        r#"7 <... vfork resumed>) = 8"#,
        r#"7 write(3, "x", 1) = 1"#,
    ]);
    let places: Vec<_> = found.on("a", W).iter().map(|w| w.offset).collect();
    assert_eq!(places, [Some(0), Some(1)]);
}

#[test]
fn a_thread_that_executes_a_program_goes_on_as_its_process() {
    let found = read(&[
        r#"7 open("a", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3"#,
        r#"7 open("b", O_RDWR|O_CREAT|O_TRUNC|O_CLOEXEC, 0644) = 4"#,
        r#"7 clone(flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 8"#,
        r#"8 write(3, "x", 1) = 1"#,
        r#"8 execve("/bin/new", ["new"], 0x7f /* 1 var */ <unfinished ...>"#,
        r#"7 +++ superseded by execve in pid 8 +++"#,
        r#"7 <... execve resumed>) = 0"#,
        r#"7 write(3, "x", 1) = 1"#,
        r#"7 write(4, "x", 1) = 1"#,
    ]);
    assert_eq!(found.extents("a", W), [(Some(0), 1), (Some(1), 1)]);
    assert!(found.extents("b", W).is_empty());
    assert_eq!(found.processes.len(), 1);
    assert_eq!(found.processes[&0].program.as_deref(), Some("/bin/new"));
    assert!(found.missing.is_empty(), "{:?}", found.missing);
}

#[test]
fn a_damaged_time_costs_its_line_only() {
    let found = read_text(
        b"1795255706.000001 open(\"a\", O_RDWR) = 3 <0.1>\n\
          5706.000002 write(3, \"x\", 1) = 1 <0.1>\n\
          1795255706.000003 write(3, \"x\", 1) = 1 <0.1>\n",
    );
    assert_eq!(found.on("a", W).len(), 1);
    assert!(found.misses("line 2 of trace", ""));
}

#[test]
fn halves_of_calls_are_joined() {
    let found = read(&[
        r#"7 openat(AT_FDCWD, "a", O_RDWR <unfinished ...>"#,
        r#"8 openat(AT_FDCWD, "b", O_RDWR <unfinished ...>"#,
        r#"7 <... openat resumed>) = 3"#,
        r#"8 <... openat resumed>) = 3"#,
        r#"7 read(3,  <unfinished ...>"#,
        r#"8 pwrite64(3, "x, 3) = 9", 8, 40 <unfinished ...>"#,
        r#"7 <... read resumed>"abc", 100) = 3"#,
        r#"8 <... pwrite64 resumed> ) = 8"#,
        r#"7 write(3, "z", 1 <unfinished ...>"#,
        r#"7 +++ killed by SIGKILL +++"#,
    ]);
    assert_eq!(found.extents("a", R), [(Some(0), 3)]);
    assert_eq!(found.on("a", R)[0].start_ns, 4000);
    assert_eq!(found.extents("b", W), [(Some(40), 8)]);
    assert!(found.misses("calls", "1 calls have no end in the trace"));
}

#[test]
fn what_appends_goes_to_the_end_where_that_is_known() {
    let found = read(&[
        r#"open("new", O_WRONLY|O_CREAT|O_EXCL|O_APPEND, 0644) = 3"#,
        r#"open("old", O_WRONLY|O_CREAT|O_APPEND, 0644) = 4"#,
        r#"write(3, "abc", 3) = 3"#,
        r#"pwrite64(3, "abc", 3, 0) = 3"#,
        r#"write(4, "abc", 3) = 3"#,
        r#"fstat(4, {st_mode=S_IFREG|0644, st_size=1000, ...}) = 0"#,
        r#"write(4, "abc", 3) = 3"#,
        r#"ftruncate(4, 10) = 0"#,
        r#"write(4, "abc", 3) = 3"#,
        r#"fcntl(4, F_SETFL, O_WRONLY) = 0"#,
        r#"lseek(4, 2, SEEK_SET) = 2"#,
        r#"write(4, "abc", 3) = 3"#,
    ]);
    assert_eq!(found.extents("new", W), [(Some(0), 3), (Some(3), 3)]);
    assert_eq!(
        found.extents("old", W),
        [(None, 3), (Some(1000), 3), (Some(10), 3), (Some(2), 3)]
    );
    assert_eq!(found.extents("old", Op::Resize), [(None, 10)]);
}

#[test]
fn an_inherited_file_has_no_place_before_a_seek() {
    let found = read(&[
        r#"write(1, "x", 1) = 1"#,
        r#"lseek(1, 0, SEEK_CUR) = 41"#,
        r#"write(1, "x", 1) = 1"#,
        r#"write(2</tmp/err>, "x", 1) = 1"#,
    ]);
    assert_eq!(found.extents("<fd 1>", W), [(None, 1), (Some(41), 1)]);
    assert_eq!(found.extents("/tmp/err", W), [(None, 1)]);
}

#[test]
fn failed_and_interrupted_calls_move_nothing() {
    let found = read(&[
        r#"open("a", O_RDWR) = 3"#,
        r#"write(3, "abc", 3) = -1 ENOSPC (No space left on device)"#,
        r#"read(3, 0x7ffc, 100) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)"#,
        r#"write(3, "abc", 3) = 2"#,
        r#"open("none", O_RDONLY) = -1 ENOENT (No such file or directory)"#,
        r#"close(99) = -1 EBADF (Bad file descriptor)"#,
    ]);
    let all: Vec<_> = found
        .events
        .iter()
        .map(|e| (e.op, e.failed, e.offset, e.bytes))
        .collect();
    assert_eq!(
        all,
        [
            (Op::Open, false, None, 0),
            (W, true, Some(0), 0),
            (R, true, Some(0), 0),
            (W, false, Some(0), 2),
            (Op::Open, true, None, 0),
        ]
    );
}

#[test]
fn paths_are_made_absolute_where_the_directory_is_known() {
    let found = read(&[
        r#"open("a", O_RDONLY) = 3"#,
        r#"chdir("/tmp") = 0"#,
        r#"open("./b\303\251", O_RDONLY) = 4"#,
        r#"openat(AT_FDCWD</home/x>, "c", O_RDONLY) = 5"#,
        r#"stat("d", 0x7f) = -1 ENOENT (No such file or directory)"#,
        r#"openat(AT_FDCWD, "/var/dir", O_RDONLY|O_DIRECTORY) = 6"#,
        r#"openat(6, "e", O_RDONLY) = 7"#,
        r#"fchdir(6) = 0"#,
        r#"access("f", R_OK) = 0"#,
    ]);
    let paths: Vec<_> = found
        .files
        .values()
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "a",
            "/tmp/bé",
            "/home/x/c",
            "/home/x/d",
            "/var/dir",
            "/var/dir/e",
            "/var/dir/f"
        ]
    );
}

#[test]
fn a_name_behind_a_descriptor_tells_of_an_opening_that_is_not_in_the_trace() {
    let found = read(&[
        r#"openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0644) = 3</w/a>"#,
        r#"write(3</w/a>, "x", 1) = 1"#,
        r#"write(3</w/b>, "x", 1) = 1"#,
        r#"write(3</w/b>(deleted), "x", 1) = 1"#,
        r#"write(3</w/a\74\76b>, "x", 1) = 1"#,
    ]);
    assert_eq!(found.extents("/w/a", W), [(Some(0), 1)]);
    assert_eq!(found.extents("/w/b", W), [(None, 1), (None, 1)]);
    assert_eq!(found.extents("/w/a<>b", W), [(None, 1)]);
}

#[test]
fn a_renamed_or_removed_file_keeps_its_position() {
    let found = read(&[
        r#"openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT|O_EXCL, 0644) = 3</w/a>"#,
        r#"write(3</w/a>, "xyz", 3) = 3"#,
        r#"rename("a", "b") = 0"#,
        r#"write(3</w/b>, "x", 1) = 1"#,
        r#"unlink("b") = 0"#,
        r#"write(3</w/b>(deleted), "x", 1) = 1"#,
        r#"openat(AT_FDCWD</w>, "b", O_RDWR|O_CREAT|O_APPEND, 0644) = 4</w/b>"#,
        r#"write(4</w/b>, "x", 1) = 1"#,
    ]);
    assert_eq!(found.extents("/w/a", W), [(Some(0), 3)]);
    assert_eq!(
        found.extents("/w/b", W),
        [(Some(3), 1), (Some(4), 1), (None, 1)]
    );
    assert_eq!(found.on("/w/a", Op::Rename).len(), 1);
    assert_eq!(found.on("/w/b", Op::Remove).len(), 1);
}

#[test]
fn bytes_that_the_kernel_copies_are_read_and_written() {
    let found = read(&[
        r#"open("a", O_RDONLY) = 3"#,
        r#"open("b", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 4"#,
        r#"sendfile(4, 3, NULL, 100) = 100"#,
        r#"sendfile(4, 3, [7] => [12], 5) = 5"#,
        r#"copy_file_range(3, NULL, 4, [1000], 10, 0) = 10"#,
        r#"splice(3, [3], 9<pipe:[4]>, NULL, 10, 0) = 10"#,
        r#"read(3, "", 1) = 0"#,
    ]);
    assert_eq!(
        found.extents("a", R),
        [
            (Some(0), 100),
            (Some(7), 5),
            (Some(100), 10),
            (Some(3), 10),
            (Some(110), 0)
        ]
    );
    assert_eq!(
        found.extents("b", W),
        [(Some(0), 100), (Some(100), 5), (Some(1000), 10)]
    );
    assert_eq!(found.extents("pipe:[4]", W), [(None, 10)]);
}

#[test]
fn what_the_trace_cannot_show_is_named_once() {
    let found = read(&[
        r#"open("/w/a", O_RDWR) = 3"#,
        r#"mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0x1000) = 0x7f0000000000"#,
        r#"mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000010000"#,
        r#"msync(0x7f0000000000, 8192, MS_SYNC) = 0"#,
        r#"munmap(0x7f0000000000, 8192) = 0"#,
        r#"msync(0x7f0000000000, 8192, MS_SYNC) = -1 ENOMEM (Cannot allocate memory)"#,
        r#"io_uring_setup(8, {flags=0}) = 4"#,
        r#"io_uring_enter(4, 1, 1, 0, NULL, 8) = 1"#,
        r#"io_submit(0x7f, 1, [{aio_fildes=3}]) = 1"#,
        r#"mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000020000"#,
    ]);
    assert_eq!(
        found.extents("a", Op::Map),
        [(Some(4096), 8192), (Some(0), 8192)]
    );
    assert_eq!(found.on("a", Op::Sync).len(), 1);
    let parts: Vec<_> = found.missing.iter().map(|gap| gap.part.as_str()).collect();
    assert_eq!(parts, ["file /w/a", "io_uring", "aio"]);
}

#[test]
fn ranges_of_descriptors_are_closed() {
    let found = read(&[
        r#"open("a", O_RDWR) = 3"#,
        r#"dup2(3, 9) = 9"#,
        r#"dup2(3, 20) = 20"#,
        r#"close_range(4, 4294967295, CLOSE_RANGE_CLOEXEC) = 0"#,
        r#"close_range(0, 10, 0) = 0"#,
        r#"write(20, "x", 1) = 1"#,
        r#"execve("/bin/x", ["x"], 0x1 /* 1 var */) = 0"#,
        r#"write(20, "x", 1) = 1"#,
    ]);
    assert_eq!(found.on("a", Op::Close).len(), 2);
    assert_eq!(found.extents("a", W), [(Some(0), 1)]);
}

#[test]
fn pipes_and_sockets_have_no_places() {
    let found = read(&[
        r#"pipe2([3, 4], O_CLOEXEC) = 0"#,
        r#"write(4, "x", 1) = 1"#,
        r#"socketpair(AF_UNIX, SOCK_STREAM, 0, [5<UNIX-STREAM:[1->2]>, 6<UNIX-STREAM:[2->1]>]) = 0"#,
        r#"sendto(5<UNIX-STREAM:[1->2]>, "x", 1, 0, NULL, 0) = 1"#,
        r#"socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 7"#,
        r#"write(7, "x", 1) = 1"#,
    ]);
    for name in ["<pipe>", "UNIX-STREAM:[1->2]", "<socket>"] {
        assert_eq!(found.extents(name, W), [(None, 1)], "{name}");
    }
}

#[test]
fn lines_that_are_none_of_straces_are_named_and_counted() {
    let mut lines = vec![r#"open("a", O_RDWR) = 3"#];
    lines.extend([
        "!what",
        "write(3, \"ab",
        "write(3, \"ab\", 2) = x",
        "write 3",
        "9 ?",
        "y",
        "z",
    ]);
    lines.push(r#"--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---"#);
    lines.push(r#"write(3, "x", 1) = 1"#);
    let found = read(&lines);
    assert_eq!(found.extents("a", W), [(Some(0), 1)]);
    assert_eq!(found.missing.len(), 6, "{:?}", found.missing);
    assert!(found.misses("line 2 of trace", "not a line of strace"));
    assert!(found.misses("lines", "2 more lines"));
}

#[test]
fn a_torn_last_line_is_not_taken_for_a_shorter_result() {
    let found = read_text(
        b"1795255706.000001 open(\"a\", O_RDWR) = 3 <0.1>\n1795255706.000002 write(3, \"abc\", 30) = 3",
    );
    assert!(found.on("a", W).is_empty());
    assert!(found.misses("line 2 of trace", "cut off"));
}

#[test]
fn durations_that_were_not_recorded_are_missed() {
    let found = read_text(b"1795255706.000001 open(\"a\", O_RDWR) = 3\n");
    assert_eq!(found.on("a", Op::Open)[0].duration_ns, 0);
    assert!(found.misses("durations", "-T"));
}

#[test]
fn times_of_the_day_go_on_after_midnight() {
    let found = read_text(
        b"7 23:59:59.500000 open(\"a\", O_RDWR) = 3\n7 00:00:01.000000 write(3, \"x\", 1) = 1\n",
    );
    assert_eq!(found.on("a", W)[0].start_ns, 1_500_000_000);
}

#[test]
fn a_trace_without_times_or_with_relative_ones_is_refused_with_a_hint() {
    for text in [
        "open(\"a\", O_RDWR) = 3\n",
        "7 open(\"a\", O_RDWR) = 3\n",
        "     0.000000 open(\"a\", O_RDWR) = 3\n",
        "something else\n",
    ] {
        let problem = refusal(text);
        assert!(problem.contains("strace -f -ttt -T -y"), "{problem}");
    }
}

#[test]
fn lines_on_standard_error_are_read() {
    let found = read_text(
        b"1795255706.000001 open(\"a\", O_RDWR) = 3\n\
          1795255706.000002 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLDstrace: Process 8 attached\n \
          <unfinished ...>\n\
          [pid     8] 1795255706.000003 write(3, \"x\", 1) = 1\n\
          [pid     7] 1795255706.000004 <... clone resumed>, child_tidptr=0x7f) = 8\n\
          [pid     7] 1795255706.000005 write(3, \"x\", 1) = 1\n\
          [pid     8] 1795255706.000006 +++ exited with 0 +++\n\
          1795255706.000007 write(3, \"x\", 1) = 1\n",
    );
    let writes: Vec<_> = found
        .on("a", W)
        .iter()
        .map(|w| (w.thread, w.offset))
        .collect();
    assert_eq!(writes, [(8, Some(0)), (7, Some(1)), (7, Some(2))]);
    assert_eq!(found.processes.len(), 2);
}
