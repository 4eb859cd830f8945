//! Transfers of large files and of directories.

use super::{ATTEMPTS, SshHost, remote};
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use cvc_core::log::{Ended, command_event};
use cvc_engine::host::{Host, HostError, THIS_MACHINE, bounded};
use cvc_os::beneath::Beneath;
use cvc_os::space::free_bytes;
use std::{
    fs::{File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};
use tar::EntryType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Duration below which a transfer is not reported.
const QUIET: Duration = Duration::from_secs(2);
/// Interval between progress messages.
const EVERY: Duration = Duration::from_millis(250);
/// Time limit for transferring one block, after which the remote side counts as stuck.
const STUCK: Duration = Duration::from_secs(120);
const BLOCK: usize = 256 << 10;
/// Free space that a transfer leaves on a disk, bytes, because the journal must still be written. It is checked after every interval of
/// [`ROOM_INTERVAL_BYTES`].
const MIN_ROOM_BYTES: u64 = 1 << 30;
const ROOM_INTERVAL_BYTES: u64 = 256 << 20;
/// Permissions of the owner that a file needs so that it can be verified and reported.
const OWNER_RW: u32 = 0o600;

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferProgress {
    /// Bytes transferred so far.
    pub done: u64,
    /// Total bytes, if known.
    pub total: Option<u64>,
}

/// Reports the progress of a transfer that takes longer than [`QUIET`].
struct TransferReporter<'a> {
    begin: Instant,
    last: Instant,
    report: &'a mut (dyn FnMut(TransferProgress) + Send),
}

impl<'a> TransferReporter<'a> {
    fn new(report: &'a mut (dyn FnMut(TransferProgress) + Send)) -> Self {
        Self {
            begin: Instant::now(),
            last: Instant::now(),
            report,
        }
    }

    fn at(&mut self, done: u64, total: Option<u64>) {
        if self.begin.elapsed() >= QUIET && self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            (self.report)(TransferProgress { done, total });
        }
    }
}

impl SshHost {
    /// Copies a file to the host atomically; its parent directories must exist. `~` is the remote home directory. If the copy takes more than 2 s,
    /// `report` is called with the progress.
    ///
    /// # Errors
    /// The file cannot be read here or written on the host. If the connection is lost, cvc restores it and sends the whole file again.
    pub async fn upload(
        &self,
        from: &Utf8Path,
        to: &str,
        mode: u32,
        report: &mut (dyn FnMut(TransferProgress) + Send),
    ) -> Result<(), HostError> {
        let to = self.expand(to).await?;
        let mut reporter = TransferReporter::new(report);
        let mut attempt = 1;
        loop {
            let began = Instant::now();
            let sent = self.upload_once(from, &to, mode, &mut reporter).await;
            self.log_transfer(&["upload", from.as_str(), to.as_str()], began, &sent);
            match sent {
                Err(HostError::Lost { .. }) if attempt < ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    fn log_transfer(&self, words: &[&str], began: Instant, done: &Result<(), HostError>) {
        let ended = match done {
            Ok(()) => Ended::Exit(Some(0), ""),
            Err(error) => Ended::Failed(error),
        };
        command_event(self.name(), words, began.elapsed(), ended);
    }

    async fn upload_once(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        mode: u32,
        reporter: &mut TransferReporter<'_>,
    ) -> Result<(), HostError> {
        let here = |source| HostError::File {
            host: "localhost".into(),
            action: "read",
            path: from.to_string(),
            source,
        };
        let mut file = tokio::fs::File::open(from).await.map_err(here)?;
        let total = file.metadata().await.map_err(here)?.len();
        let during = format!("while {from} was sent");
        let (mut child, master, _permit) = self
            .start(&remote::take(to.as_str(), total, Some(mode)), &during)
            .await?;
        let (stdin, stdout, stderr) = (
            child.stdin().take(),
            child.stdout().take(),
            child.stderr().take(),
        );
        let feed = async {
            let Some(mut stdin) = stdin else {
                return Ok(());
            };
            let (mut buffer, mut done) = (vec![0u8; BLOCK], 0u64);
            loop {
                let n = file.read(&mut buffer).await.map_err(here)?;
                if n == 0 {
                    return Ok(());
                }
                match tokio::time::timeout(STUCK, stdin.write_all(&buffer[..n])).await {
                    Ok(Ok(())) => {}
                    // ignore the write error: a program that stops reading reports the reason by its exit code
                    Ok(Err(_)) => return Ok(()),
                    Err(_) => {
                        return Err(self.file_error(
                            "write",
                            to.as_str(),
                            None,
                            &format!("no data was accepted for {} s", STUCK.as_secs()),
                        ));
                    }
                }
                done += n as u64;
                reporter.at(done, Some(total));
            }
        };
        let whole = async {
            let (message, _) = tokio::join!(bounded(stderr), bounded(stdout));
            (self.end(child, &master, &during).await, message)
        };
        tokio::pin!(whole);
        // the program may end before it has read everything
        let (code, message) = tokio::select! {
            ended = &mut whole => ended,
            fed = feed => {
                fed?;
                let stuck = |_| self.file_error("write", to.as_str(), None, &format!("it did not end within {} s", STUCK.as_secs()));
                tokio::time::timeout(STUCK, whole).await.map_err(stuck)?
            }
        };
        match code? {
            Some(0) => Ok(()),
            code => Err(self.file_error("write", to.as_str(), code, &message)),
        }
    }

    /// Copies a directory of at most `max_bytes` from the host, except files that match `exclude` (patterns of tar, relative to the directory).
    /// Overwrites existing files in `to`.
    ///
    /// # Errors
    /// The directory cannot be read on the host or written here, has more than `max_bytes`, or has an entry that would be outside `to`. If the
    /// connection is lost, cvc restores it and copies the whole directory again.
    pub async fn download(
        &self,
        from: &str,
        to: &Utf8Path,
        exclude: &[&str],
        max_bytes: u64,
        report: &mut (dyn FnMut(TransferProgress) + Send),
    ) -> Result<(), HostError> {
        self.download_counted(from, to, exclude, max_bytes, report, &mut 0)
            .await
    }

    /// Like [`Self::download`], and adds the bytes received from the host, including those of failed attempts, to `bytes`.
    ///
    /// # Errors
    /// As [`Self::download`].
    pub async fn download_counted(
        &self,
        from: &str,
        to: &Utf8Path,
        exclude: &[&str],
        max_bytes: u64,
        report: &mut (dyn FnMut(TransferProgress) + Send),
        bytes: &mut u64,
    ) -> Result<(), HostError> {
        let from = self.expand(from).await?;
        let mut reporter = TransferReporter::new(report);
        let mut attempt = 1;
        loop {
            let began = Instant::now();
            let brought = self
                .download_once(&from, to, exclude, max_bytes, &mut reporter, bytes)
                .await;
            self.log_transfer(&["download", from.as_str(), to.as_str()], began, &brought);
            match brought {
                Err(HostError::Lost { .. }) if attempt < ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    async fn download_once(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        exclude: &[&str],
        max_bytes: u64,
        reporter: &mut TransferReporter<'_>,
        bytes: &mut u64,
    ) -> Result<(), HostError> {
        let during = format!("while {from} was fetched");
        let (mut child, master, _permit) = self
            .start(&remote::give_tree(from.as_str(), exclude), &during)
            .await?;
        drop(child.stdin().take());
        let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
        let Some(stdout) = stdout else {
            return Err(self.lost(
                &during,
                "internal error (please report): a channel without output".into(),
            ));
        };
        let stdout = stdout
            .into_owned_fd()
            .map_err(|e| self.file_error("read", from.as_str(), None, &e.to_string()))?;
        let (done, mut updates) = tokio::sync::watch::channel(0u64);
        let (host, place) = (self.name().to_owned(), to.to_owned());
        let unpack = tokio::task::spawn_blocking(move || {
            let incoming = Counted {
                inner: File::from(stdout),
                bytes: 0,
                max_bytes,
                place: place.clone(),
                checked: 0,
                done,
            };
            unpack(&host, incoming, &place, max_bytes)
        });
        let reporting = async {
            while updates.changed().await.is_ok() {
                let bytes = *updates.borrow_and_update();
                reporter.at(bytes, None);
            }
            *updates.borrow()
        };
        let (message, unpacked, came) = tokio::join!(bounded(stderr), unpack, reporting);
        *bytes = bytes.saturating_add(came);
        let code = self.end(child, &master, &during).await;
        let mut unpacked = unpacked.map_err(|e| self.lost(&during, e.to_string()))?;
        if *updates.borrow() > max_bytes {
            let problem = format!("it has more than {} MiB, its limit", max_bytes >> 20);
            unpacked = Err(HostError::Refused {
                host: self.name().to_owned(),
                path: from.to_string(),
                problem,
            });
        }
        match code? {
            // exit code 1: a file changed while tar read it, which can happen to any file of a running program
            Some(0 | 1) => unpacked,
            code => Err(match unpacked {
                Err(refused @ HostError::Refused { .. }) => refused,
                // the remote tar failed because unpacking stopped here
                Err(HostError::File {
                    host,
                    action,
                    path,
                    source,
                }) if cannot_be_of_archive(&source) => HostError::File {
                    host,
                    action,
                    path,
                    source,
                },
                Err(_) | Ok(()) => self.file_error("read", from.as_str(), code, &message),
            }),
        }
    }
}

/// Returns whether an error of unpacking concerns this machine's files. A truncated or damaged archive, or names that are too long, cause other kinds
/// of error.
fn cannot_be_of_archive(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidFilename, InvalidInput, Other, UnexpectedEof};
    !matches!(
        error.kind(),
        InvalidData | InvalidFilename | InvalidInput | Other | UnexpectedEof
    )
}

/// A reader that counts bytes. Reading fails when more than `max_bytes` were read, or when the disk of `place` is nearly full.
struct Counted {
    inner: File,
    bytes: u64,
    max_bytes: u64,
    /// Directory into which the bytes are unpacked.
    place: Utf8PathBuf,
    /// Number of bytes that had been read at the last check of free space.
    checked: u64,
    done: tokio::sync::watch::Sender<u64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.bytes += n as u64;
        self.done.send_replace(self.bytes);
        if self.bytes > self.max_bytes {
            return Err(io::Error::other("too large"));
        }
        if self.bytes - self.checked > ROOM_INTERVAL_BYTES {
            self.checked = self.bytes;
            let free = free_bytes(self.place.as_std_path()).unwrap_or(u64::MAX);
            if free < MIN_ROOM_BYTES {
                let problem = format!("only {} MiB are left on its disk", free >> 20);
                return Err(io::Error::new(io::ErrorKind::StorageFull, problem));
            }
        }
        Ok(n)
    }
}

/// Unpacks an untrusted archive of files, directories and links; other entries are skipped. No entry can be written or linked outside the directory.
/// All files together have at most `max_bytes`: the limit is needed because a few bytes of an archive can describe a huge sparse file.
///
/// # Errors
/// The archive cannot be read or unpacked here, its files have more than `max_bytes`, or an entry would be outside `to`.
pub fn unpack(
    host: &str,
    reader: impl Read,
    to: &Utf8Path,
    max_bytes: u64,
) -> Result<(), HostError> {
    let here = |source: io::Error| {
        let host = if cannot_be_of_archive(&source) {
            THIS_MACHINE
        } else {
            host
        };
        HostError::File {
            host: host.to_owned(),
            action: "unpack into",
            path: to.to_string(),
            source,
        }
    };
    let refused = |path: &str, problem: &str| HostError::Refused {
        host: host.to_owned(),
        path: path.to_owned(),
        problem: problem.to_owned(),
    };
    std::fs::create_dir_all(to).map_err(here)?;
    let root = Beneath::at(to.as_std_path()).map_err(here)?;
    let mut archive = tar::Archive::new(reader);
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(true);
    archive.set_overwrite(true);
    let mut left = max_bytes;
    for entry in archive.entries().map_err(here)? {
        let mut entry = entry.map_err(here)?;
        let path = Utf8PathBuf::from_path_buf(entry.path().map_err(here)?.into_owned())
            .map_err(|p| refused(&p.to_string_lossy(), "its name is not UTF-8"))?;
        let climbs = path
            .components()
            .any(|part| part == Utf8Component::ParentDir);
        if climbs || !stays(Utf8Path::new(""), &path) {
            return Err(refused(path.as_str(), "it would be written outside"));
        }
        // remove `.` and empty components
        let path: Utf8PathBuf = path
            .components()
            .filter(|part| matches!(part, Utf8Component::Normal(_)))
            .collect();
        if path.as_str().is_empty() {
            continue;
        }
        // tar itself never writes through a link, so that an entry below a link was made to leave the directory
        match root.make_parents(path.as_std_path()) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(refused(path.as_str(), "it would be written through a link"));
            }
            made => made.map_err(here)?,
        };
        left = left.checked_sub(entry.size()).ok_or_else(|| {
            let problem = format!(
                "with it the total would exceed the limit of {} MiB",
                max_bytes >> 20
            );
            refused(path.as_str(), &problem)
        })?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::Directory => {
                // create with this machine's default permissions: with the archive's, the directory might not be writable, readable or removable here
                std::fs::create_dir_all(to.join(&path)).map_err(here)?;
                continue;
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {}
            EntryType::Symlink | EntryType::Link => {
                let link = entry.link_name().map_err(here)?;
                let link = link.map(|l| l.to_string_lossy().into_owned());
                let link = link.unwrap_or_default();
                match link_goal(kind, to, &path, &link) {
                    LinkGoal::Within => {}
                    LinkGoal::Outside => {
                        let problem = format!("it links to {link}, which is outside");
                        return Err(refused(path.as_str(), &problem));
                    }
                    LinkGoal::Unclear => {
                        tracing::warn!(host, %path, link, "left out a link that may lead outside");
                        continue;
                    }
                }
            }
            // skip pipes, sockets, devices
            _ => continue,
        }
        // an existing entry must be removed before a link can be created
        match std::fs::remove_file(to.join(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(here(error)),
            Ok(()) | Err(_) => {}
        }
        if !entry.unpack_in(to).map_err(here)? {
            return Err(refused(path.as_str(), "it would be written outside"));
        }
        if !matches!(kind, EntryType::Symlink | EntryType::Link) {
            make_readable(&to.join(&path)).map_err(here)?;
        }
    }
    // read the padding at the end, so that the remote side can finish writing
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(here)?;
    Ok(())
}

/// Where a link of an archive points.
enum LinkGoal {
    Within,
    Outside,
    /// Through another link, so that the target cannot be checked.
    Unclear,
}

fn link_goal(kind: EntryType, to: &Utf8Path, path: &Utf8Path, link: &str) -> LinkGoal {
    let is_symlink = kind == EntryType::Symlink;
    let base = path.parent().filter(|_| is_symlink);
    if !stays(base.unwrap_or(Utf8Path::new("")), Utf8Path::new(link)) {
        return LinkGoal::Outside;
    }
    // a chain of links can point elsewhere than each link does, and so can a hard link to a symbolic link: no program needs such links, so reject
    // them
    let is_chain = if is_symlink {
        climbs_after_descent(link)
    } else {
        goes_through_link(to, link)
    };
    if is_chain {
        LinkGoal::Unclear
    } else {
        LinkGoal::Within
    }
}

/// Gives the owner read and write permission for a file, whatever its mode on the other machine.
fn make_readable(path: &Utf8Path) -> io::Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & OWNER_RW == OWNER_RW {
        Ok(())
    } else {
        std::fs::set_permissions(path, Permissions::from_mode(mode | OWNER_RW))
    }
}

/// Returns whether a path has a `..` after a normal component. The component may be a link, and `..` then does not lead back to the directory before
/// the component. The target of a link with such a path cannot be checked.
fn climbs_after_descent(path: &str) -> bool {
    let mut components = Utf8Path::new(path).components();
    components.any(|c| matches!(c, Utf8Component::Normal(_)))
        && components.any(|c| c == Utf8Component::ParentDir)
}

/// Returns whether a path relative to a directory is a symbolic link, or passes through one.
fn goes_through_link(directory: &Utf8Path, path: &str) -> bool {
    climbs_after_descent(path)
        || Utf8Path::new(path)
            .ancestors()
            .any(|a| !a.as_str().is_empty() && directory.join(a).is_symlink())
}

/// Returns whether `path` stays in the directory to which `base` is relative. `path` is relative to `base`.
fn stays(base: &Utf8Path, path: &Utf8Path) -> bool {
    let mut depth = 0i32;
    for component in base.components().chain(path.components()) {
        match component {
            Utf8Component::CurDir => {}
            Utf8Component::Normal(_) => depth += 1,
            Utf8Component::ParentDir => depth -= 1,
            Utf8Component::RootDir | Utf8Component::Prefix(_) => return false,
        }
        if depth < 0 {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an archive of these entries: a link if an entry has a target, otherwise a file.
    fn archive(entries: &[(&str, Option<&str>)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, target) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            match target {
                Some(target) => {
                    header.set_entry_type(if target.starts_with("hard:") {
                        EntryType::Link
                    } else {
                        EntryType::Symlink
                    });
                    header.set_size(0);
                    archive
                        .append_link(&mut header, path, target.trim_start_matches("hard:"))
                        .expect("an entry");
                }
                None => {
                    header.set_size(1);
                    archive
                        .append_data(&mut header, path, &b"x"[..])
                        .expect("an entry");
                }
            }
        }
        archive.into_inner().expect("an archive")
    }

    /// Unpacks an archive of these entries next to a file called `secret`. Returns the parent directory and the unpacked one.
    fn unpacked(entries: &[(&str, Option<&str>)]) -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8PathBuf::from_path_buf(dir.path().to_owned()).expect("UTF-8");
        std::fs::write(root.join("secret"), "secret").expect("writes");
        let to = root.join("runs/run");
        let _ = unpack("head", archive(entries).as_slice(), &to, 1 << 20);
        (dir, to)
    }

    #[test]
    fn no_chain_of_links_leads_outside() {
        let chains: [&[(&str, Option<&str>)]; 5] = [
            &[
                ("a/b/c/up", Some("../../..")),
                ("stdout", Some("a/b/c/up/../../secret")),
            ],
            &[
                ("stdout", Some("a/b/c/up/../../secret")),
                ("a/b/c/up", Some("../../..")),
            ],
            &[
                ("a/b/up", Some("../..")),
                ("up", Some("hard:a/b/up")),
                ("stdout", Some("up/secret")),
            ],
            &[
                ("a/b", None),
                ("up", Some("a/../..")),
                ("stdout", Some("up/secret")),
            ],
            &[
                ("a/d/x", None),
                ("a/b/c/up", Some("../../../a")),
                ("stdout", Some("hard:a/b/c/up/d/x")),
            ],
        ];
        for chain in chains {
            let (_dir, to) = unpacked(chain);
            let root = to.canonicalize_utf8().expect("a directory");
            for name in ["stdout", "up"] {
                // also check access through a link to a directory
                for path in [to.join(name), to.join(name).join("secret")] {
                    if let Ok(real) = path.canonicalize_utf8() {
                        assert!(real.starts_with(&root), "{chain:?}: {path} is {real}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_would_be_outside_is_refused_and_nothing_is_written_there() {
        let leaving: [(&[(&str, Option<&str>)], &str); 4] = [
            (&[("up", Some("../.."))], "which is outside"),
            (&[("secret", Some("/etc/passwd"))], "which is outside"),
            (&[("secret", Some("hard:../../secret"))], "which is outside"),
            (
                &[("a/b", None), ("to", Some("a")), ("to/b", None)],
                "through a link",
            ),
        ];
        for (entries, problem) in leaving {
            let dir = tempfile::tempdir().expect("a directory");
            let to = Utf8PathBuf::from_path_buf(dir.path().join("runs/run")).expect("UTF-8");
            let refused = unpack("head", archive(entries).as_slice(), &to, 1 << 20)
                .expect_err("it leaves the directory")
                .to_string();
            assert!(refused.contains(problem), "{entries:?}: {refused}");
        }
    }

    #[test]
    fn a_sparse_file_is_no_larger_than_what_may_come() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = Utf8PathBuf::from_path_buf(dir.path().join("run")).expect("UTF-8");
        let mut header = tar::Header::new_gnu();
        header.set_path("core").expect("a name");
        header.set_entry_type(EntryType::GNUSparse);
        header.set_mode(0o644);
        header.set_size(0);
        let gnu = header.as_gnu_mut().expect("a header of GNU");
        for (field, value) in [
            (&mut gnu.realsize, 1_u64 << 32),
            (&mut gnu.sparse[0].offset, 1 << 32),
            (&mut gnu.sparse[0].numbytes, 0),
        ] {
            field.copy_from_slice(format!("{value:011o}\0").as_bytes());
        }
        header.set_cksum();
        let bytes = [header.as_bytes().as_slice(), &[0; 1024]].concat();
        let error = unpack("head", bytes.as_slice(), &to, 1 << 20)
            .expect_err("too large")
            .to_string();
        assert!(
            error.contains("core") && error.contains("exceed the limit of 1 MiB"),
            "{error}"
        );
        assert!(!to.join("core").exists());
        unpack("head", bytes.as_slice(), &to, 1 << 33).expect("unpacks");
        assert_eq!(to.join("core").metadata().expect("a file").len(), 1 << 32);
    }

    #[test]
    fn what_has_no_rights_there_is_filled_read_and_removed_here() {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, kind, mode) in [
            ("closed/", EntryType::Directory, 0o000),
            ("closed/file", EntryType::Regular, 0o000),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(0);
            archive
                .append_data(&mut header, path, io::empty())
                .expect("an entry");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let to = Utf8PathBuf::from_path_buf(dir.path().join("run")).expect("UTF-8");
        unpack(
            "head",
            archive.into_inner().expect("an archive").as_slice(),
            &to,
            u64::MAX,
        )
        .expect("unpacks");
        let owner = |path: &str| {
            std::fs::metadata(to.join(path))
                .expect("metadata")
                .permissions()
                .mode()
                & 0o700
        };
        assert_eq!((owner("closed"), owner("closed/file")), (0o700, 0o600));
    }

    #[test]
    fn ordinary_links_are_kept() {
        let (_dir, to) = unpacked(&[
            ("a/b", None),
            ("a/c/l", Some("../b")),
            ("l", Some("a/c/l")),
            ("h", Some("hard:a/b")),
        ]);
        for name in ["a/c/l", "l", "h"] {
            assert_eq!(
                std::fs::read_to_string(to.join(name)).expect("a file"),
                "x",
                "{name}"
            );
        }
    }
}
