//! The system calls that are evaluated, and the meaning of their arguments.

/// The position at which a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPlace {
    /// At the file's position, which the call then moves.
    Here,
    /// At the offset in the argument with this index.
    At(usize),
    /// At the offset in the argument with this index, or at the file's position if the offset is -1.
    AtOrHere(usize),
}

/// A call that is evaluated. Numbers are indices of arguments, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Opens a file. The fields are the indices of the directory's descriptor (if there is one), of the path, and of the flags.
    Open {
        dir: Option<usize>,
        path: usize,
        flags: usize,
    },
    Creat,
    Close,
    CloseRange,
    /// Copies a descriptor. `named` is whether an argument gives the number of the new one.
    Dup {
        named: bool,
    },
    Fcntl,
    Read(CallPlace),
    Write(CallPlace),
    Seek,
    LlSeek,
    Sync,
    Msync,
    Truncate,
    Ftruncate,
    Fallocate,
    Map,
    Unmap,
    Rename {
        at: bool,
    },
    Link {
        at: bool,
    },
    Symlink {
        at: bool,
    },
    Remove {
        at: bool,
    },
    /// Queries a path.
    StatPath {
        dir: Option<usize>,
        path: usize,
    },
    StatFd,
    OtherPath {
        dir: Option<usize>,
        path: usize,
    },
    OtherFd,
    Sendfile,
    CopyRange,
    Fork,
    Exec {
        path: usize,
    },
    Unshare,
    Chdir,
    Fchdir,
    Getcwd,
    /// Creates two descriptors, whose numbers are shown in an argument.
    Pair {
        argument: usize,
        name: &'static str,
    },
    /// Creates a descriptor that is not of a file.
    Stream(&'static str),
    /// Moves bytes of files in a way that the trace does not show; the text says how.
    Invisible(&'static str),
}

/// Returns the evaluated call with this name; `None` for other calls.
pub(crate) fn call(name: &[u8]) -> Option<Call> {
    use Call as C;
    use CallPlace::{At, AtOrHere, Here};
    Some(match name {
        b"openat" => C::Open {
            dir: Some(0),
            path: 1,
            flags: 2,
        },
        b"openat2" => C::Open {
            dir: Some(0),
            path: 1,
            flags: 2,
        },
        b"open" => C::Open {
            dir: None,
            path: 0,
            flags: 1,
        },
        b"creat" => C::Creat,
        b"close" => C::Close,
        b"close_range" => C::CloseRange,
        b"dup" => C::Dup { named: false },
        b"dup2" | b"dup3" => C::Dup { named: true },
        b"fcntl" | b"fcntl64" => C::Fcntl,
        b"read" | b"readv" | b"recvfrom" | b"recvmsg" | b"recv" => C::Read(Here),
        b"write" | b"writev" | b"sendto" | b"sendmsg" | b"send" => C::Write(Here),
        b"pread64" | b"pread" | b"preadv" => C::Read(At(3)),
        b"pwrite64" | b"pwrite" | b"pwritev" => C::Write(At(3)),
        b"preadv2" => C::Read(AtOrHere(3)),
        b"pwritev2" => C::Write(AtOrHere(3)),
        b"lseek" => C::Seek,
        b"_llseek" => C::LlSeek,
        b"fsync" | b"fdatasync" | b"sync_file_range" | b"sync_file_range2" | b"syncfs" => C::Sync,
        b"msync" => C::Msync,
        b"truncate" | b"truncate64" => C::Truncate,
        b"ftruncate" | b"ftruncate64" => C::Ftruncate,
        b"fallocate" => C::Fallocate,
        b"mmap" | b"mmap2" => C::Map,
        b"munmap" => C::Unmap,
        b"rename" => C::Rename { at: false },
        b"renameat" | b"renameat2" => C::Rename { at: true },
        b"link" => C::Link { at: false },
        b"linkat" => C::Link { at: true },
        b"symlink" => C::Symlink { at: false },
        b"symlinkat" => C::Symlink { at: true },
        b"unlink" | b"rmdir" => C::Remove { at: false },
        b"unlinkat" => C::Remove { at: true },
        b"stat" | b"lstat" | b"stat64" | b"lstat64" | b"access" | b"readlink" | b"statfs"
        | b"statfs64" => C::StatPath { dir: None, path: 0 },
        b"newfstatat" | b"fstatat64" | b"statx" | b"faccessat" | b"faccessat2" | b"readlinkat" => {
            C::StatPath {
                dir: Some(0),
                path: 1,
            }
        }
        b"fstat" | b"fstat64" | b"fstatfs" | b"fstatfs64" => C::StatFd,
        b"mkdir" | b"mknod" | b"chmod" | b"chown" | b"lchown" | b"utime" | b"utimes"
        | b"setxattr" | b"getxattr" => C::OtherPath { dir: None, path: 0 },
        b"mkdirat" | b"mknodat" | b"fchmodat" | b"fchmodat2" | b"fchownat" | b"utimensat"
        | b"futimesat" => C::OtherPath {
            dir: Some(0),
            path: 1,
        },
        b"getdents" | b"getdents64" | b"fchmod" | b"fchown" | b"flock" | b"fadvise64"
        | b"fadvise64_64" | b"readahead" => C::OtherFd,
        b"sendfile" | b"sendfile64" => C::Sendfile,
        b"copy_file_range" | b"splice" => C::CopyRange,
        b"fork" | b"vfork" | b"clone" | b"clone3" => C::Fork,
        b"execve" => C::Exec { path: 0 },
        b"execveat" => C::Exec { path: 1 },
        b"unshare" => C::Unshare,
        b"chdir" => C::Chdir,
        b"fchdir" => C::Fchdir,
        b"getcwd" => C::Getcwd,
        b"pipe" | b"pipe2" => C::Pair {
            argument: 0,
            name: "<pipe>",
        },
        b"socketpair" => C::Pair {
            argument: 3,
            name: "<socket>",
        },
        b"socket" | b"accept" | b"accept4" => C::Stream("<socket>"),
        b"eventfd" | b"eventfd2" => C::Stream("<eventfd>"),
        b"epoll_create" | b"epoll_create1" => C::Stream("<epoll>"),
        b"inotify_init" | b"inotify_init1" => C::Stream("<inotify>"),
        b"signalfd" | b"signalfd4" => C::Stream("<signalfd>"),
        b"timerfd_create" => C::Stream("<timerfd>"),
        b"memfd_create" => C::Stream("<memfd>"),
        b"pidfd_open" => C::Stream("<pidfd>"),
        b"io_uring_setup" | b"io_uring_enter" => C::Invisible("io_uring"),
        b"io_submit" => C::Invisible("aio"),
        _ => return None,
    })
}
