//! Writing to a path that a user named: the common code of every output option.
//!
//! A regular file appears only when it is complete ([`atomic_file`](crate::atomic_file)). Symbolic links are followed. Other objects (a device, a
//! pipe, a socket, a descriptor such as `/dev/fd/3` or `/dev/stdout`) are written to directly, because a rename would replace them by a file.

use crate::atomic_file::{self, Durability};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, OpenOptionsExt},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
};

/// Maximum number of symbolic links followed; the kernel's limit is the same.
const MAX_LINKS: usize = 40;

/// Target of an output.
#[derive(Debug)]
pub enum Target {
    /// A regular file at this path, with links resolved. It need not exist; it is replaced by a complete file.
    File(PathBuf),
    /// An existing object, opened for writing, which is not replaced.
    Stream(File),
}

/// Finds the target of an output, and opens it unless it is a regular file. Opening a pipe waits for a reader.
///
/// # Errors
/// The path is a directory, its links are broken or circular, or it cannot be opened.
pub fn target(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(found) = fs::symlink_metadata(&path) else {
            // creating the file will report why this is impossible
            return Ok(Target::File(path));
        };
        let kind = found.file_type();
        if kind.is_symlink() {
            if let Some(parent) = process_files(&path) {
                return descriptor(&parent, &path).map(Target::Stream);
            }
            path = atomic_file::directory(&path).join(fs::read_link(&path)?);
        } else if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        } else if kind.is_socket() {
            let stream = UnixStream::connect(&path)?;
            return Ok(Target::Stream(File::from(OwnedFd::from(stream))));
        } else if kind.is_file() && process_files(&path).is_none() {
            return Ok(Target::File(path));
        } else {
            return open(&path).map(Target::Stream);
        }
    }
    Err(io::Error::from_raw_os_error(nix::libc::ELOOP))
}

/// Returns the directory of a path if it is in `/proc`. Links there lead to open files, which may have no name.
fn process_files(path: &Path) -> Option<PathBuf> {
    let parent = atomic_file::directory(path).canonicalize().ok()?;
    parent.starts_with("/proc").then_some(parent)
}

/// Opens the file behind a link in `/proc`. If this process has the file open, its descriptor is duplicated, so that all writes share one position.
fn descriptor(parent: &Path, path: &Path) -> io::Result<File> {
    let own = ["self", "thread-self"].map(|name| Path::new("/proc").join(name).join("fd"));
    let is_own = own
        .iter()
        .any(|own| own.canonicalize().is_ok_and(|own| own == parent));
    let number = path
        .file_name()
        .and_then(|name| name.to_str()?.parse::<i32>().ok())
        .filter(|_| is_own);
    match number {
        Some(number) => {
            #[expect(
                unsafe_code,
                reason = "the number is of an open descriptor: its link exists"
            )]
            let open = unsafe { BorrowedFd::borrow_raw(number) };
            Ok(File::from(open.as_fd().try_clone_to_owned()?))
        }
        None => open(path),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(nix::libc::O_NOCTTY)
        .open(path)
}

/// Writes an output completely.
///
/// # Errors
/// The output cannot be written. A regular file is then unchanged.
pub fn write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    match target(path)? {
        Target::File(path) => atomic_file::write(&path, bytes, durability),
        Target::Stream(mut stream) => stream.write_all(bytes),
    }
}

/// Writes an output piece by piece; see [`write()`].
///
/// # Errors
/// The output cannot be written, or `write` fails. A regular file is then unchanged.
pub fn write_by(
    path: &Path,
    durability: Durability,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    match target(path)? {
        Target::File(path) => atomic_file::write_by(&path, durability, write),
        Target::Stream(mut stream) => write(&mut stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::{Mode, SFlag, mknod};
    use std::{io::Read, os::unix::fs::symlink, os::unix::net::UnixListener};

    fn written(path: &Path) -> io::Result<()> {
        write(path, b"content", Durability::Synced)
    }

    #[test]
    fn a_pipe_a_device_a_socket_and_a_descriptor_are_written_to_and_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let kind = |name: &str| {
            fs::symlink_metadata(at(name))
                .expect("still there")
                .file_type()
        };
        nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).expect("a pipe");
        symlink("pipe", at("link")).expect("a link");
        for name in ["pipe", "link"] {
            let pipe = at("pipe");
            let reader = std::thread::spawn(move || fs::read_to_string(pipe).expect("text"));
            written(&at(name)).expect("written");
            assert_eq!(reader.join().expect("a reader"), "content");
        }
        assert!(kind("pipe").is_fifo() && kind("link").is_symlink());

        let listener = UnixListener::bind(at("socket")).expect("a socket");
        written(&at("socket")).expect("written");
        let mut text = String::new();
        let (mut end, _) = listener.accept().expect("a connection");
        end.read_to_string(&mut text).expect("text");
        assert_eq!(text, "content");
        assert!(kind("socket").is_socket());

        // a descriptor of an unnamed file, which no other process can open
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"before ").expect("written");
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        for fds in ["/dev/fd", "/proc/self/fd"] {
            written(&Path::new(fds).join(number.to_string())).expect("written");
        }
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).expect("its beginning");
        file.read_to_string(&mut text).expect("text");
        assert_eq!(text, "before contentcontent");

        // only root can create devices
        let null = nix::sys::stat::makedev(1, 3);
        if mknod(&at("device"), SFlag::S_IFCHR, Mode::S_IRWXU, null).is_ok()
            && OpenOptions::new().write(true).open(at("device")).is_ok()
        {
            written(&at("device")).expect("written");
            assert!(kind("device").is_char_device());
        }
    }

    #[test]
    fn links_are_followed_to_files_and_stay_and_directories_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("below")).expect("a directory");
        symlink("below/file", at("one")).expect("a link");
        symlink("one", at("two")).expect("a link");
        // at the first time there is no file yet
        for _ in 0..2 {
            written(&at("two")).expect("written");
            assert!(at("two").is_symlink() && at("one").is_symlink());
            assert_eq!(fs::read(at("below/file")).expect("bytes"), b"content");
        }
        assert_eq!(fs::read_dir(at("below")).expect("entries").count(), 1);
        symlink("round", at("round")).expect("a link");
        assert!(written(&at("round")).is_err());
        let refused = written(&at("below")).expect_err("a directory");
        assert_eq!(refused.kind(), io::ErrorKind::IsADirectory);
    }
}
