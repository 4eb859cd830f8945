//! Traces system calls with strace.

use super::{
    contract::{Instrumentation, NODE, Tracer},
    totals::Totals,
};
use crate::{
    host,
    mpi::{Launcher, Missing},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::paths;
use cvc_trace::read_strace_files;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Directory of the traces.
const TRACE: &str = "trace";

/// System calls that `cvc_trace::read_strace` evaluates: all that affect files, descriptors, or the sharing of descriptors between processes. Calls
/// on sockets, of which MPI libraries make many, and waiting are excluded; descriptors of sockets are identified by `-y`. Calls marked `?` do not
/// exist on every system.
const CALLS: &[&str] = &[
    // opening and closing
    "?open",
    "openat",
    "?openat2",
    "?creat",
    "close",
    "?close_range",
    "dup",
    "?dup2",
    "dup3",
    "fcntl",
    "?fcntl64",
    // data
    "read",
    "readv",
    "pread64",
    "preadv",
    "?preadv2",
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "?pwritev2",
    "?sendfile",
    "?sendfile64",
    "?copy_file_range",
    "splice",
    "?io_uring_setup",
    "io_submit",
    // places, lengths, the disk
    "lseek",
    "?_llseek",
    "fsync",
    "fdatasync",
    "?sync_file_range",
    "?sync_file_range2",
    "?syncfs",
    "msync",
    "truncate",
    "?truncate64",
    "ftruncate",
    "?ftruncate64",
    "fallocate",
    "?fadvise64",
    "?fadvise64_64",
    "readahead",
    "?mmap",
    "?mmap2",
    "munmap",
    // names and attributes
    "?rename",
    "?renameat",
    "?renameat2",
    "?link",
    "linkat",
    "?symlink",
    "symlinkat",
    "?unlink",
    "?rmdir",
    "unlinkat",
    "?mkdir",
    "mkdirat",
    "?mknod",
    "mknodat",
    "?chmod",
    "fchmod",
    "fchmodat",
    "?fchmodat2",
    "?chown",
    "?lchown",
    "fchown",
    "fchownat",
    "?utime",
    "?utimes",
    "?utimensat",
    "?futimesat",
    "setxattr",
    "getxattr",
    "flock",
    "?stat",
    "?stat64",
    "?lstat",
    "?lstat64",
    "?fstat",
    "?fstat64",
    "?newfstatat",
    "?fstatat64",
    "?statx",
    "statfs",
    "?statfs64",
    "fstatfs",
    "?fstatfs64",
    "?access",
    "faccessat",
    "?faccessat2",
    "?readlink",
    "readlinkat",
    "?getdents",
    "getdents64",
    // owners of descriptors, and starting points of relative paths
    "?fork",
    "?vfork",
    "clone",
    "?clone3",
    "execve",
    "?execveat",
    "unshare",
    "chdir",
    "fchdir",
    "getcwd",
];

/// strace as a tracer.
pub(super) struct Strace;

impl Tracer for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn title(&self) -> &'static str {
        "strace"
    }

    fn find(&self) -> Result<Utf8PathBuf, Missing> {
        paths::on_path(&["strace"], &std::env::var("PATH").unwrap_or_default()).ok_or_else(|| {
            Missing {
                what: "strace is not installed".into(),
                hint: "Debian, Ubuntu: apt-get install strace".into(),
            }
        })
    }

    fn instrument(&self, tool: &Utf8Path, work: &Utf8Path, _: &dyn Launcher) -> Instrumentation {
        let traces = work.join(TRACE);
        // if all nodes share the directory, processes on two nodes may have the same number
        let output = traces.join(format!("strace{NODE}"));
        let calls = format!("trace={}", CALLS.join(","));
        let mut prefix = vec![tool.as_str()];
        // calls that are not traced then run at full speed: waiting ranks make millions of them
        if supports_filters(tool) {
            prefix.push("--seccomp-bpf");
        }
        prefix.extend([
            "-ff",
            "-ttt",
            "-T",
            "-y",
            // written data are not needed, and would be most of the trace
            "-s",
            "0",
            "-e",
            &calls,
            "-o",
            output.as_str(),
        ]);
        Instrumentation {
            prefix: prefix.into_iter().map(String::from).collect(),
            dirs: vec![traces],
            ..Instrumentation::default()
        }
    }

    fn trace(&self) -> Option<&'static str> {
        Some(TRACE)
    }

    fn add_up(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
    ) -> Result<(), cvc_trace::TraceError> {
        read_strace_files(&[trace.into()], totals).map(drop)
    }

    fn cost_of_absence(&self) -> &'static str {
        "tracer = \"strace\" cannot be used"
    }
}

/// Returns whether strace can let the kernel select the traced calls: since version 5.3.
fn supports_filters(tool: &Utf8Path) -> bool {
    static KNOWN: Mutex<BTreeMap<Utf8PathBuf, bool>> = Mutex::new(BTreeMap::new());
    *KNOWN.lock().entry(tool.to_owned()).or_insert_with(|| {
        let output = host::tool(tool.as_str())
            .as_std_mut()
            .arg("--help")
            .output();
        output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("--seccomp-bpf"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_testkit::{Tool, require};
    use std::process::Command;

    #[test]
    fn strace_knows_all_calls_of_the_filter() {
        require!(Tool::Strace);
        let output = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-e"])
            .arg(format!("trace={}", CALLS.join(",")))
            .arg("true")
            .output()
            .expect("starts");
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn no_call_is_listed_twice_and_none_is_of_sockets() {
        let mut calls: Vec<&str> = CALLS
            .iter()
            .map(|call| call.trim_start_matches('?'))
            .collect();
        calls.sort_unstable();
        assert!(calls.windows(2).all(|pair| pair[0] != pair[1]), "{calls:?}");
        for absent in [
            "socket",
            "sendto",
            "recvfrom",
            "poll",
            "epoll_wait",
            "wait4",
            "futex",
        ] {
            assert!(!calls.contains(&absent), "{absent}");
        }
    }
}
