//! Resolves untrusted names beneath a directory: whatever the name and the directory's content, nothing outside the directory is opened or created.

use crate::regular::{explain, require};
use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

/// Flags for opening the directories of a path, which are traversed but not read.
const WAY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags for opening files.
const FILE: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// An open directory. Names of files in it must be plain ([`is_plain`]), and no part of a name may be a symbolic link.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
}

/// Returns whether a name leads only downwards and is written in its resolved form: without `..`, `.`, empty parts, or a slash at either end. Two
/// plain names refer to the same file only if they are the same text.
pub fn is_plain(name: &Path) -> bool {
    let mut parts = name.components();
    let resolved: PathBuf = name.components().collect();
    !name.as_os_str().is_empty()
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && resolved.as_os_str() == name.as_os_str()
        && !name.as_os_str().as_bytes().contains(&0)
}

impl Beneath {
    /// Opens a directory. Its own path may contain symbolic links.
    ///
    /// # Errors
    /// The path is not a directory, or cannot be opened.
    pub fn at(directory: &Path) -> io::Result<Self> {
        let root = fs::open(directory, WAY.difference(OFlags::NOFOLLOW), Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// The name is not plain or leads through a link, the file is not regular, or it cannot be opened.
    pub fn open(&self, name: &Path) -> io::Result<File> {
        self.open_as(name, OFlags::RDONLY)
    }

    /// Opens a regular file for reading and writing.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn open_to_write(&self, name: &Path) -> io::Result<File> {
        self.open_as(name, OFlags::RDWR)
    }

    /// Creates a new file for reading and writing, and the directories above it.
    ///
    /// # Errors
    /// The file exists, its name is not plain or leads through a link, or it cannot be created.
    pub fn create_new(&self, name: &Path) -> io::Result<File> {
        let (dir, last) = self.make_parents(name)?;
        let flags = FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        Ok(fs::openat(dir, last, flags, Mode::from_raw_mode(0o666))?.into())
    }

    /// Creates a symbolic link, and the directories above it. The link is not followed.
    ///
    /// # Errors
    /// See [`Self::create_new`].
    pub fn symlink(&self, target: &Path, name: &Path) -> io::Result<()> {
        let (dir, last) = self.make_parents(name)?;
        Ok(fs::symlinkat(target, dir, last)?)
    }

    /// Creates the directories above a name. Returns the lowest directory, and the last part of the name.
    ///
    /// # Errors
    /// The name is not plain, or leads through a link or a file.
    pub fn make_parents<'n>(&self, name: &'n Path) -> io::Result<(OwnedFd, &'n OsStr)> {
        let last = plain(name)?.file_name().ok_or_else(not_plain)?;
        let parent = name.parent().unwrap_or(Path::new(""));
        let dir = match self.resolve(parent, WAY) {
            Err(Errno::NOENT) => self.walk(parent, true),
            // the existing object is a file, or a link to a directory
            Err(Errno::NOTDIR) => self.walk(parent, false),
            other => other,
        };
        Ok((dir.map_err(|error| explain(error.into()))?, last))
    }

    fn open_as(&self, name: &Path, access: OFlags) -> io::Result<File> {
        let opened = self.resolve(plain(name)?, FILE | access);
        require(opened.map_err(|error| explain(error.into()))?.into())
    }

    /// Opens the object with a plain name; the directory itself if the name is empty.
    fn resolve(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        if name.as_os_str().is_empty() {
            return rustix::io::fcntl_dupfd_cloexec(&self.root, 0);
        }
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match fs::openat2(&self.root, name, flags, Mode::empty(), beneath) {
            // kernels before 5.6 do not have `openat2`, and containers may forbid it
            Err(Errno::NOSYS | Errno::PERM) => self.resolve_by_steps(name, flags),
            other => other,
        }
    }

    /// Like [`Self::resolve`], but opens the name part by part.
    fn resolve_by_steps(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let last = name.file_name().ok_or(Errno::INVAL)?;
        let dir = self.walk(name.parent().unwrap_or(Path::new("")), false)?;
        fs::openat(dir, last, flags, Mode::empty())
    }

    /// Opens a directory part by part. With `make`, creates missing directories.
    fn walk(&self, name: &Path, make: bool) -> Result<OwnedFd, Errno> {
        let mut dir = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        for part in name {
            dir = match fs::openat(&dir, part, WAY, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    match fs::mkdirat(&dir, part, Mode::from_raw_mode(0o777)) {
                        // another thread may have created the directory meanwhile
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error),
                    }
                    fs::openat(&dir, part, WAY, Mode::empty())?
                }
                // the system also reports "not a directory" for a symbolic link to a directory
                Err(Errno::NOTDIR) if is_link(&dir, part) => return Err(Errno::LOOP),
                other => other?,
            };
        }
        Ok(dir)
    }
}

fn is_link(dir: &OwnedFd, name: &OsStr) -> bool {
    let found = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

fn plain(name: &Path) -> io::Result<&Path> {
    if is_plain(name) {
        Ok(name)
    } else {
        Err(not_plain())
    }
}

fn not_plain() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "its name is not a plain path below the directory",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs as files, io::Write, os::unix::fs::symlink};

    /// Creates a directory with a file, links that lead out of it and a pipe, and a directory outside.
    fn made() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        files::create_dir_all(inside.join("d/e")).expect("makes");
        files::create_dir(&outside).expect("makes");
        files::write(inside.join("d/e/f"), "inside").expect("writes");
        files::write(outside.join("f"), "outside").expect("writes");
        symlink(&outside, inside.join("link")).expect("links");
        symlink("../../out", inside.join("d/up")).expect("links");
        symlink(outside.join("f"), inside.join("file")).expect("links");
        nix::unistd::mkfifo(&inside.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        (dir, inside, outside)
    }

    /// Names that lead out of the directory, lead through links, or are not in their resolved form.
    const HOSTILE: [&str; 18] = [
        "",
        ".",
        "..",
        "/",
        "/etc/passwd",
        "../out/f",
        "d/../../out/f",
        "d/./e/f",
        "d//e/f",
        "./d/e/f",
        "d/e/f/",
        "a\0b",
        "link/f",
        "link/new",
        "d/up/f",
        "file",
        "d/e/f/x",
        "d/up",
    ];

    #[test]
    fn no_name_is_resolved_outside_with_openat2_and_without() {
        let (_dir, inside, outside) = made();
        let root = Beneath::at(&inside).expect("opens");
        let text = io::read_to_string(root.open(Path::new("d/e/f")).expect("opens"));
        assert_eq!(text.expect("reads"), "inside");
        for name in HOSTILE.map(Path::new) {
            root.open(name).expect_err("hostile");
            root.open_to_write(name).expect_err("hostile");
            if is_plain(name) {
                root.resolve_by_steps(name, FILE).expect_err("hostile");
            }
            root.create_new(name).expect_err("hostile");
            // an existing last part is not replaced
            root.symlink(Path::new("x"), name).expect_err("hostile");
        }
        root.open(Path::new("pipe"))
            .expect_err("it is not waited for");
        let left: Vec<_> = files::read_dir(&outside)
            .expect("lists")
            .flatten()
            .collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(files::read(outside.join("f")).expect("reads"), b"outside");
    }

    #[test]
    fn files_links_and_directories_are_made_beneath() {
        let (_dir, inside, _) = made();
        let root = Beneath::at(&inside).expect("opens");
        let mut file = root.create_new(Path::new("new/a/b")).expect("makes");
        file.write_all(b"one").expect("writes");
        root.symlink(Path::new("../../out"), Path::new("new/l"))
            .expect("links");
        assert_eq!(files::read(inside.join("new/a/b")).expect("reads"), b"one");
        root.create_new(Path::new("new/l/x")).expect_err("a link");
        root.create_new(Path::new("new/a/b"))
            .expect_err("it exists");
        let mut again = root.open_to_write(Path::new("new/a/b")).expect("opens");
        again.write_all(b"two").expect("writes");
        assert_eq!(files::read(inside.join("new/a/b")).expect("reads"), b"two");
    }
}
