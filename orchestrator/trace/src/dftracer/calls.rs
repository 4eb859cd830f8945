//! Effects of the functions that DFTracer records.

use crate::event::Op;

/// Effect of a function on a file and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    Open,
    Close,
    /// Moves bytes at the current position, or at an offset in the arguments.
    Move(Op),
    /// Moves one byte, unless it returned end of file.
    MoveOne(Op),
    /// Moves an unrecorded number of bytes.
    MoveSome(Op),
    Seek,
    /// Returns the position.
    Tell,
    Rewind,
    /// Pushes a byte back.
    Unread,
    Resize,
    Rename,
    Remove,
    Fork,
    Chdir,
    Copy,
    /// An operation that does not change positions.
    Plain(Op),
    /// Has no effect on a file.
    Nothing,
}

/// Returns the effect of the function with this name.
pub(super) fn deed(name: &str) -> Deed {
    let name = name.strip_suffix("64").unwrap_or(name);
    match name {
        "open" | "openat" | "creat" | "fopen" | "fdopen" | "freopen" => Deed::Open,
        "close" | "fclose" => Deed::Close,
        "read" | "readv" | "pread" | "preadv" | "preadv2" | "fread" | "fread_unlocked" => {
            Deed::Move(Op::Read)
        }
        "write" | "writev" | "pwrite" | "pwritev" | "pwritev2" | "fwrite" | "fwrite_unlocked"
        | "fprintf" | "vfprintf" => Deed::Move(Op::Write),
        "getc" | "fgetc" | "getw" => Deed::MoveOne(Op::Read),
        "putc" | "fputc" | "putw" => Deed::MoveOne(Op::Write),
        "fgets" | "getline" | "getdelim" | "fscanf" | "vfscanf" => Deed::MoveSome(Op::Read),
        "fputs" | "sendfile" => Deed::MoveSome(Op::Write),
        "lseek" | "llseek" | "fseek" | "fseeko" => Deed::Seek,
        "ftell" | "ftello" => Deed::Tell,
        "rewind" => Deed::Rewind,
        "ungetc" => Deed::Unread,
        "truncate" | "ftruncate" => Deed::Resize,
        "fallocate" | "posix_fallocate" => Deed::Plain(Op::Resize),
        "fsync" | "fdatasync" | "msync" | "sync" | "sync_file_range" => Deed::Plain(Op::Sync),
        "mmap" => Deed::Plain(Op::Map),
        "rename" | "renameat" | "renameat2" => Deed::Rename,
        "link" | "linkat" => Deed::Plain(Op::Rename),
        "unlink" | "unlinkat" | "remove" | "rmdir" => Deed::Remove,
        "stat" | "lstat" | "fstat" | "fstatat" | "statx" | "__xstat" | "__lxstat" | "__fxstat"
        | "__fxstatat" | "access" | "faccessat" | "readlink" | "readlinkat" | "realpath" => {
            Deed::Plain(Op::Stat)
        }
        "fork" | "vfork" | "clone" => Deed::Fork,
        "chdir" => Deed::Chdir,
        "dup" | "dup2" | "dup3" => Deed::Copy,
        "flockfile" | "funlockfile" | "ftrylockfile" | "wait" | "waitpid" => Deed::Nothing,
        _ => Deed::Plain(Op::Other),
    }
}
