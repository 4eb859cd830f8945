//! Opens files that others may have created. Only regular files are opened: a link could lead to another file, opening a pipe could wait forever, and
//! a device may have no end.

use nix::libc::{ELOOP, ENXIO, O_NOFOLLOW, O_NONBLOCK};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// Maximum size of a file that is read into memory, bytes.
pub const MAX_BYTES: u64 = 1 << 30;

/// Opens a regular file for reading.
///
/// # Errors
/// The file cannot be opened, or is a link, a pipe, a device, a socket or a directory.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(File::options().read(true), path)
}

/// Opens a regular file that the user named, for reading. Symbolic links are followed, but opening never waits for another process.
///
/// # Errors
/// See [`open`], except for links.
pub fn open_named(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let opened = options.read(true).custom_flags(O_NONBLOCK).open(path);
    opened.map_err(explain).and_then(require)
}

/// Opens a regular file with these options.
///
/// # Errors
/// See [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path)
        .map_err(explain)
        .and_then(require)
}

/// Reads a regular file of at most [`MAX_BYTES`].
///
/// # Errors
/// See [`open`]; or the file is too long, or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_all(open(path)?)
}

/// Reads a regular file of at most [`MAX_BYTES`] as text.
///
/// # Errors
/// See [`read`]; or the content is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Returns whether the path refers to an object other than a regular file. The error of [`open`] then says which kind of object it is.
pub fn is_other(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

/// Reads a file to its end, up to [`MAX_BYTES`].
///
/// # Errors
/// The file is longer or cannot be read.
pub fn read_all(file: File) -> io::Result<Vec<u8>> {
    read_up_to(file, MAX_BYTES)
}

/// Reads a file to its end, up to `max_bytes` bytes.
///
/// # Errors
/// The file is longer or cannot be read.
pub fn read_up_to(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {} MiB", max_bytes >> 20),
        ));
    }
    Ok(bytes)
}

/// Converts the system's error about a file that had to be regular into a clearer one.
pub(crate) fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(ELOOP) => other_than_file("a symbolic link, or reached through one"),
        Some(ENXIO) => other_than_file("a socket, a pipe or a device"),
        _ => error,
    }
}

/// Returns the file if it is regular, otherwise an error.
pub(crate) fn require(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        Ok(file)
    } else if kind.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else if kind.is_fifo() {
        Err(other_than_file("a pipe"))
    } else {
        Err(other_than_file("a device"))
    }
}

fn other_than_file(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("it is {what}, not a regular file"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{fs::symlink, net::UnixListener};

    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").expect("writes");
        symlink(at("file"), at("link")).expect("links");
        symlink("/dev/zero", at("zero")).expect("links");
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let _socket = UnixListener::bind(at("socket")).expect("a socket");
        fs::create_dir(at("dir")).expect("makes");
        assert_eq!(read_text(&at("file")).expect("reads"), "text");
        open_named(&at("link")).expect("it leads to a file");
        for name in ["zero", "pipe", "socket", "dir"] {
            open_named(&at(name)).expect_err(name);
        }
        assert!(!is_other(&at("file")) && !is_other(&at("none")));
        for (name, what) in [
            ("link", "symbolic link"),
            ("zero", "symbolic link"),
            ("pipe", "a pipe"),
            ("socket", "a socket"),
            ("dir", "directory"),
        ] {
            let error = read(&at(name)).expect_err(name).to_string();
            assert!(error.contains(what), "{name}: {error}");
            assert!(is_other(&at(name)), "{name}");
        }
        // also a pipe that is opened for writing
        open_with(File::options().read(true).append(true), &at("pipe")).expect_err("a pipe");
        let error = read(Path::new("/dev/zero"))
            .expect_err("no end")
            .to_string();
        assert!(error.contains("a device"), "{error}");
        let error = read(&at("none")).expect_err("nothing is there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
