//! Descriptors: determines the file of a call, and evaluates calls that create, copy and close descriptors.

use super::{
    run::{CompletedCall, Run},
    state::{OpenDescriptor, OpenFile},
    syntax::{
        behind_cwd, descriptor, has_flag, integer, is_constant, name_behind, path_of_name, string,
    },
};
use crate::{
    event::{FileId, Op},
    files::{Inode, SharedNumber, UNKNOWN_FILE},
};
use std::{
    borrow::Cow,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Creates an open file whose opening the trace does not show; its position is unknown.
fn found(inode: Arc<Inode>, name: &[u8]) -> Arc<OpenFile> {
    Arc::new(OpenFile {
        inode,
        position: SharedNumber::new(None),
        append: AtomicBool::new(false),
        stream: is_stream(name),
    })
}

/// Returns whether the object that `-y` shows with this name has no position for reads and writes, such as a pipe.
fn is_stream(name: &[u8]) -> bool {
    // with -xx the slash is written as a hexadecimal number
    let is_path = name.starts_with(b"</") || name.starts_with(b"<\\x2f");
    let is_device = memchr::memmem::find(name, b"<char ").is_some();
    !is_path && !name.starts_with(b"<fd ") || is_device
}

impl Run<'_> {
    /// Returns the object to which the descriptor in an argument refers. If the trace does not show its opening, adds it with the name that `-y`
    /// shows.
    pub(super) fn used(
        &mut self,
        done: &CompletedCall<'_>,
        argument: usize,
    ) -> io::Result<Option<Arc<OpenFile>>> {
        let (Some(fd), name) = descriptor(done.argument(argument)) else {
            return Ok(None);
        };
        let known = self.tables.get_mut(done.who.table).get_mut(&fd);
        let open = match (known, name) {
            (Some(known), None) => return Ok(Some(Arc::clone(&known.open))),
            (Some(known), Some(name)) => {
                if known.shown.as_deref() == Some(name) {
                    return Ok(Some(Arc::clone(&known.open)));
                }
                // the file was renamed or removed, or the descriptor is now another file, whose opening is not in the trace
                let file = self.files.number(&path_of_name(name), self.sink)?;
                if file == known.open.inode.file() {
                    known.shown = Some(name.into());
                    return Ok(Some(Arc::clone(&known.open)));
                }
                found(self.files.inode(file), name)
            }
            (None, Some(name)) => {
                let file = self.files.number(&path_of_name(name), self.sink)?;
                found(self.files.inode(file), name)
            }
            (None, None) => {
                let name = format!("<fd {fd}>");
                let file = self.files.number(name.as_bytes(), self.sink)?;
                let open = found(self.files.inode(file), name.as_bytes());
                if !done.succeeded() {
                    return Ok(Some(open));
                }
                open
            }
        };
        let entry = OpenDescriptor {
            open: Arc::clone(&open),
            close_on_exec: false,
            shown: name.map(Into::into),
        };
        self.install(done.who, fd, entry);
        Ok(Some(open))
    }

    /// Returns the path in an argument, made absolute if the directory is known.
    pub(super) fn path(
        &mut self,
        done: &CompletedCall<'_>,
        dir: Option<usize>,
        path: usize,
    ) -> io::Result<Option<FileId>> {
        let Some(path) = string(done.argument(path)) else {
            // newer kernels accept NULL for "" with AT_EMPTY_PATH
            return match dir {
                Some(dir) if done.argument(path) == b"NULL" => {
                    Ok(self.used(done, dir)?.map(|open| open.inode.file()))
                }
                _ if done.argument(path).starts_with(b"0x") => {
                    self.miss_once(
                        "paths",
                        "some are shown as addresses, as `-e raw` does; operations on them are counted under an unknown file",
                    )?;
                    self.files.number(UNKNOWN_FILE, self.sink).map(Some)
                }
                _ => Ok(None),
            };
        };
        let absolute = self.absolute(done, dir, &path);
        self.files.number(&absolute, self.sink).map(Some)
    }

    fn absolute<'p>(
        &mut self,
        done: &CompletedCall<'_>,
        dir: Option<usize>,
        path: &'p [u8],
    ) -> Cow<'p, [u8]> {
        let dir = dir.map(|dir| done.argument(dir)).unwrap_or_default();
        let at_cwd = dir.is_empty() || behind_cwd(dir).is_some();
        self.learn_cwd(done, dir);
        let shown = match at_cwd {
            true => None,
            false => descriptor(dir).1.map(path_of_name),
        };
        if path.starts_with(b"/") {
            return Cow::Borrowed(path);
        }
        let known = match shown {
            Some(_) => None,
            None if at_cwd => self.cwds.get(done.who.cwd).clone(),
            None => descriptor(dir)
                .0
                .and_then(|fd| self.open_file(done.who, fd))
                .map(|open| self.files.path(open.inode.file()).to_vec()),
        };
        match shown.as_deref().or(known.as_deref()) {
            Some(base) if path.is_empty() => Cow::Owned(base.to_vec()),
            Some(base) if base.starts_with(b"/") => Cow::Owned(joined(base, path)),
            _ => Cow::Borrowed(path),
        }
    }

    /// Records the current directory of a task, which `-y` shows after `AT_FDCWD`.
    fn learn_cwd(&mut self, done: &CompletedCall<'_>, dir: &[u8]) {
        if let Some(shown) = behind_cwd(dir)
            .and_then(|name| name_behind(name, 0))
            .map(path_of_name)
            && self.cwds.get(done.who.cwd).as_deref() != Some(&*shown)
        {
            *self.cwds.get_mut(done.who.cwd) = Some(shown.into_owned());
        }
    }

    /// Evaluates `open` and similar calls.
    pub(super) fn open(
        &mut self,
        done: &CompletedCall<'_>,
        (dir, path): (Option<usize>, usize),
        flags: &[u8],
    ) -> io::Result<()> {
        let Some(fd) = done.returned().and_then(|fd| u32::try_from(fd).ok()) else {
            return match self.path(done, dir, path)? {
                Some(file) => self.event(done, Op::Open, file, None, 0),
                None => Ok(()),
            };
        };
        let name = name_behind(done.outcome.text, 0);
        let file = match name {
            Some(name) => {
                if let Some(dir) = dir {
                    self.learn_cwd(done, done.argument(dir));
                }
                Some(self.files.number(&path_of_name(name), self.sink)?)
            }
            // if the path is not shown, the file is identified by its descriptor
            None if done.argument(path).starts_with(b"0x") => {
                self.path(done, dir, path)?;
                let file = self
                    .files
                    .number(format!("<fd {fd}>").as_bytes(), self.sink)?;
                self.files.renew(file, None);
                Some(file)
            }
            None => self.path(done, dir, path)?,
        };
        let Some(file) = file else { return Ok(()) };
        let nameless = has_flag(flags, "O_TMPFILE");
        let inode = if nameless && name.is_none() {
            Inode::new(file, Some(0))
        } else if nameless || has_flag(flags, "O_EXCL") && has_flag(flags, "O_CREAT") {
            self.files.renew(file, Some(0))
        } else {
            self.files.inode(file)
        };
        if has_flag(flags, "O_TRUNC") {
            inode.length.set(Some(0));
        }
        let stream = name.is_some_and(is_stream);
        let open = Arc::new(OpenFile {
            inode,
            position: SharedNumber::new(Some(0).filter(|_| !stream)),
            append: AtomicBool::new(has_flag(flags, "O_APPEND")),
            stream,
        });
        let entry = OpenDescriptor {
            open,
            close_on_exec: has_flag(flags, "O_CLOEXEC"),
            shown: name.map(Into::into),
        };
        self.install(done.who, fd, entry);
        self.event(done, Op::Open, file, None, 0)
    }

    pub(super) fn close(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let (Some(fd), name) = descriptor(done.argument(0)) else {
            return Ok(());
        };
        // a failed close only shows a number, which may be an invalid descriptor
        let is_known = self.open_file(done.who, fd).is_some();
        if !done.succeeded() && !is_known && name.is_none() {
            return Ok(());
        }
        let open = self.used(done, 0)?;
        if done.succeeded() {
            self.tables.get_mut(done.who.table).remove(&fd);
        }
        match open {
            Some(open) => self.event(done, Op::Close, open.inode.file(), None, 0),
            None => Ok(()),
        }
    }

    pub(super) fn close_range(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        if !done.succeeded() {
            return Ok(());
        }
        let first = descriptor(done.argument(0)).0.unwrap_or(u32::MAX);
        let last = descriptor(done.argument(1)).0.unwrap_or(u32::MAX);
        if first > last {
            return Ok(());
        }
        if has_flag(done.argument(2), "CLOSE_RANGE_UNSHARE") {
            self.unshare_table(done.id)?;
        }
        let Some(who) = self.who(done.id) else {
            return Ok(());
        };
        let table = self.tables.get_mut(who.table);
        if has_flag(done.argument(2), "CLOSE_RANGE_CLOEXEC") {
            for (_, descriptor) in table.range_mut(first..=last) {
                descriptor.close_on_exec = true;
            }
            return Ok(());
        }
        let closed: Vec<(u32, FileId)> = table
            .range(first..=last)
            .map(|(fd, descriptor)| (*fd, descriptor.open.inode.file()))
            .collect();
        for (fd, file) in closed {
            self.tables.get_mut(who.table).remove(&fd);
            self.event(done, Op::Close, file, None, 0)?;
        }
        Ok(())
    }

    /// Copies the descriptor in the first argument to the one that the call returned.
    pub(super) fn duplicate(
        &mut self,
        done: &CompletedCall<'_>,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let Some(to) = done.returned().and_then(|fd| u32::try_from(fd).ok()) else {
            return Ok(());
        };
        let Some(open) = self.used(done, 0)? else {
            return Ok(());
        };
        if descriptor(done.argument(0)).0 == Some(to) {
            return Ok(());
        }
        let shown = name_behind(done.outcome.text, 0).or(descriptor(done.argument(0)).1);
        let entry = OpenDescriptor {
            open,
            close_on_exec,
            shown: shown.map(Into::into),
        };
        self.install(done.who, to, entry);
        Ok(())
    }

    pub(super) fn fcntl(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        if !done.succeeded() {
            return Ok(());
        }
        let command = |name, number| is_constant(done.argument(1), name, number);
        if command("F_DUPFD", 0) {
            return self.duplicate(done, false);
        }
        if command("F_DUPFD_CLOEXEC", 1030) {
            return self.duplicate(done, true);
        }
        if command("F_SETFD", 2) {
            let fd = descriptor(done.argument(0)).0;
            let table = self.tables.get_mut(done.who.table);
            if let Some(known) = fd.and_then(|fd| table.get_mut(&fd)) {
                known.close_on_exec = has_flag(done.argument(2), "FD_CLOEXEC");
            }
        } else if command("F_SETFL", 4) {
            if let Some(open) = self.used(done, 0)? {
                open.append
                    .store(has_flag(done.argument(2), "O_APPEND"), Relaxed);
            }
        } else if command("F_GETFL", 3)
            && let Some(open) = self.used(done, 0)?
        {
            let appends = done.returned().is_some_and(|flags| flags & 0o2000 != 0);
            open.append.store(appends, Relaxed);
        }
        Ok(())
    }

    /// Adds a descriptor of an object without positions.
    pub(super) fn stream(&mut self, done: &CompletedCall<'_>, name: &str) -> io::Result<()> {
        let Some(fd) = done.returned() else {
            return Ok(());
        };
        let text = format!("{fd}{}", String::from_utf8_lossy(done.outcome.text));
        let close_on_exec = (0..4).any(|i| {
            let flags = done.argument(i);
            flags.windows(7).any(|word| word == b"CLOEXEC")
        });
        self.install_stream(done, text.as_bytes(), name, close_on_exec)
    }

    /// Adds the two descriptors in an argument such as `[3, 4]`.
    pub(super) fn pair(
        &mut self,
        done: &CompletedCall<'_>,
        argument: usize,
        name: &str,
    ) -> io::Result<()> {
        if !done.succeeded() {
            return Ok(());
        }
        let list = done.argument(argument);
        let list = list.strip_prefix(b"[").unwrap_or(list);
        let list = list.strip_suffix(b"]").unwrap_or(list);
        let close_on_exec =
            has_flag(done.argument(1), "O_CLOEXEC") || has_flag(done.argument(1), "SOCK_CLOEXEC");
        // names of pipes and sockets do not contain this separator, but the path in a socket's name can
        let middle = memchr::memmem::find(list, b", ").unwrap_or(list.len());
        let (first, second) = list.split_at(middle);
        self.install_stream(done, first, name, close_on_exec)?;
        self.install_stream(
            done,
            second.strip_prefix(b", ").unwrap_or(second),
            name,
            close_on_exec,
        )
    }

    fn install_stream(
        &mut self,
        done: &CompletedCall<'_>,
        text: &[u8],
        name: &str,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let (Some(fd), shown) = descriptor(text) else {
            return Ok(());
        };
        let path = shown.map_or(Cow::Borrowed(name.as_bytes()), path_of_name);
        let file = self.files.number(&path, self.sink)?;
        let is_memory = name == "<memfd>";
        let open = Arc::new(OpenFile {
            inode: if is_memory {
                self.files.renew(file, Some(0))
            } else {
                self.files.inode(file)
            },
            position: SharedNumber::new(Some(0).filter(|_| is_memory)),
            append: AtomicBool::new(false),
            stream: !is_memory,
        });
        let entry = OpenDescriptor {
            open,
            close_on_exec,
            shown: shown.map(Into::into),
        };
        self.install(done.who, fd, entry);
        Ok(())
    }

    pub(super) fn exec(&mut self, done: &CompletedCall<'_>, path: usize) -> io::Result<()> {
        if !done.succeeded() {
            return Ok(());
        }
        self.unshare_table(done.id)?;
        let Some(who) = self.who(done.id) else {
            return Ok(());
        };
        self.tables
            .get_mut(who.table)
            .retain(|_, descriptor| !descriptor.close_on_exec);
        let group = self.groups.get_mut(who.group);
        group.maps.clear();
        if let Some(path) = string(done.argument(path)) {
            group.process.program = Some(String::from_utf8_lossy(&path).into_owned());
            group.is_announced = false;
        }
        Ok(())
    }

    pub(super) fn chdir(&mut self, done: &CompletedCall<'_>) {
        if !done.succeeded() {
            return;
        }
        let Some(path) = string(done.argument(0)) else {
            return;
        };
        let absolute = self.absolute(done, None, &path).into_owned();
        // a path relative to an unknown directory is unknown, too
        *self.cwds.get_mut(done.who.cwd) = Some(absolute).filter(|path| path.starts_with(b"/"));
    }

    pub(super) fn fchdir(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        if done.succeeded()
            && let Some(open) = self.used(done, 0)?
        {
            let path = self.files.path(open.inode.file()).to_vec();
            *self.cwds.get_mut(done.who.cwd) = Some(path).filter(|path| path.starts_with(b"/"));
        }
        Ok(())
    }

    pub(super) fn getcwd(&mut self, done: &CompletedCall<'_>) {
        if done.succeeded()
            && let Some(path) = string(done.argument(0)).filter(|path| path.starts_with(b"/"))
        {
            *self.cwds.get_mut(done.who.cwd) = Some(path.into_owned());
        }
    }

    pub(super) fn lseek(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let Some(open) = self.used(done, 0)? else {
            return Ok(());
        };
        let position = done.returned();
        if let Some(position) = position {
            sought(&open, position, done.argument(1), done.argument(2));
        }
        self.event(done, Op::Seek, open.inode.file(), position, 0)
    }

    pub(super) fn llseek(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let Some(open) = self.used(done, 0)? else {
            return Ok(());
        };
        let position = super::syntax::boxed(done.argument(2)).filter(|_| done.succeeded());
        if let Some(position) = position {
            sought(&open, position, done.argument(1), done.argument(3));
        }
        self.event(done, Op::Seek, open.inode.file(), position, 0)
    }
}

/// Records the new position after a seek.
fn sought(open: &OpenFile, position: u64, distance: &[u8], whence: &[u8]) {
    if open.stream {
        return;
    }
    open.position.set(Some(position));
    if is_constant(whence, "SEEK_END", 2)
        && let Some(length) = integer(distance)
            .and_then(|distance| position.checked_add_signed(distance.checked_neg()?))
    {
        open.inode.length.set(Some(length));
    }
}

/// Returns the absolute path of a path relative to a directory.
fn joined(base: &[u8], path: &[u8]) -> Vec<u8> {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    let mut whole = base.to_vec();
    if path != b"." && !path.is_empty() {
        if !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        whole.extend_from_slice(path);
    }
    whole
}
