//! Writing where a user says: the one way of every output option.
//!
//! A regular file appears whole ([`atomic_file`](crate::atomic_file)); a symbolic link is followed. What is no regular file (a device, a pipe, a
//! socket, a descriptor as in `/dev/fd/3` or `/dev/stdout`) is written to as it is: a rename would put a file in its place.

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

/// Links that are followed at most, as the system does.
const MAX_LINKS: usize = 40;

/// Where an output goes.
#[derive(Debug)]
pub enum Target {
    /// A regular file of this name, which links lead to; it need not exist. It is replaced by one that is whole.
    File(PathBuf),
    /// Open for writing: it is there already and stays.
    Stream(File),
}

/// Finds where an output goes, and opens what is no regular file. Opening a pipe waits for its reader.
///
/// # Errors
/// When it is a directory, its links lead nowhere or in circles, or it cannot be opened.
pub fn target(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(found) = fs::symlink_metadata(&path) else {
            // the one who creates it says why that is impossible
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

/// The directory of a file if it is one of `/proc`, whose links lead to open files, which need no name.
fn process_files(path: &Path) -> Option<PathBuf> {
    let parent = atomic_file::directory(path).canonicalize().ok()?;
    parent.starts_with("/proc").then_some(parent)
}

/// An open file by its link in `/proc`: the very one if it is ours, so that what both write follows each other.
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

/// Writes an output.
///
/// # Errors
/// When it cannot be written; a regular file is then untouched.
pub fn write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    match target(path)? {
        Target::File(path) => atomic_file::write(&path, bytes, durability),
        Target::Stream(mut stream) => stream.write_all(bytes),
    }
}

/// The same with a content that is written piece by piece.
///
/// # Errors
/// When it cannot be written, and those of `write`; a regular file is then untouched.
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

        // a descriptor of a file that has no name any more: nothing else reaches it
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

        // only root makes devices
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
        // the first time there is no file yet
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
