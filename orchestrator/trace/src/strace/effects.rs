//! Applies the effects of calls on files, and creates the events.

use super::{
    calls::{Call, CallPlace},
    run::{CompletedCall, Kinship, Run},
    state::OpenFile,
    syntax::{boxed, descriptor, field, has_flag, integer, unsigned},
};
use crate::event::Op;
use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// Where a call reads or writes.
#[derive(Clone, Copy, Debug)]
enum Spot {
    Here,
    At(Option<u64>),
    End,
}

impl Run<'_> {
    /// Evaluates a completed call.
    pub(super) fn apply(&mut self, call: Call, done: &CompletedCall<'_>) -> io::Result<()> {
        if done.outcome.duration_ns.is_some() {
            self.durations = true;
        }
        match done.succeeded() {
            true => self.outcomes.0 += 1,
            false => self.outcomes.1 += 1,
        }
        match call {
            Call::Open { dir, path, flags } => self.open(done, (dir, path), done.argument(flags)),
            Call::Creat => self.open(done, (None, 0), b"O_CREAT|O_WRONLY|O_TRUNC"),
            Call::Close => self.close(done),
            Call::CloseRange => self.close_range(done),
            Call::Dup { named: false } => self.duplicate(done, false),
            Call::Dup { named: true } => {
                self.duplicate(done, has_flag(done.argument(2), "O_CLOEXEC"))
            }
            Call::Fcntl => self.fcntl(done),
            Call::Read(place) => self.transfer(done, Op::Read, place),
            Call::Write(place) => self.transfer(done, Op::Write, place),
            Call::Seek => self.lseek(done),
            Call::LlSeek => self.llseek(done),
            Call::Sync => self.on_descriptor(done, Op::Sync),
            Call::Msync => self.msync(done),
            Call::Truncate => self.truncate(done),
            Call::Ftruncate => self.ftruncate(done),
            Call::Fallocate => self.fallocate(done),
            Call::Map => self.map(done),
            Call::Unmap => {
                self.unmap(done);
                Ok(())
            }
            Call::Rename { at } => self.rename(done, at),
            Call::Link { at: true } => self.on_path(done, Op::Rename, Some(0), 1),
            Call::Link { at: false } => self.on_path(done, Op::Rename, None, 0),
            Call::Symlink { at: true } => self.on_path(done, Op::Other, Some(1), 2),
            Call::Symlink { at: false } => self.on_path(done, Op::Other, None, 1),
            Call::Remove { at } => self.remove(done, at),
            Call::StatPath { dir, path } => self.stat(done, dir, path),
            Call::StatFd => self.fstat(done),
            Call::OtherPath { dir, path } => self.on_path(done, Op::Other, dir, path),
            Call::OtherFd => self.on_descriptor(done, Op::Other),
            Call::Sendfile => self.sendfile(done),
            Call::CopyRange => self.copy_range(done),
            Call::Fork => {
                let mut kind = Kinship::default();
                if done.argument(2).is_empty() && done.argument(0).starts_with(b"0x") {
                    self.miss_once(
                        "threads",
                        "the trace does not show the flags of clone3 (recorded with -e raw or -e verbose=none), so that threads are counted as processes",
                    )?;
                } else {
                    // with -e raw, the first argument of clone is the flags
                    kind = Kinship::of_flags(done.argument(0));
                }
                for index in 0..4 {
                    let flags = done.argument(index);
                    if flags.starts_with(b"flags=") || flags.starts_with(b"{flags=") {
                        kind = Kinship::of_flags(flags);
                    }
                }
                self.forked(done, kind)
            }
            Call::Exec { path } => self.exec(done, path),
            Call::Unshare => {
                if done.succeeded() && has_flag(done.argument(0), "CLONE_FILES") {
                    self.unshare_table(done.id)?;
                }
                Ok(())
            }
            Call::Chdir => {
                self.chdir(done);
                Ok(())
            }
            Call::Fchdir => self.fchdir(done),
            Call::Getcwd => {
                self.getcwd(done);
                Ok(())
            }
            Call::Pair { argument, name } => self.pair(done, argument, name),
            Call::Stream(name) => self.stream(done, name),
            Call::Invisible(name) => self.miss_once(
                name,
                "the trace does not show reads and writes by this call",
            ),
        }
    }

    /// Evaluates a read or write on the descriptor in the first argument.
    fn transfer(&mut self, done: &CompletedCall<'_>, op: Op, place: CallPlace) -> io::Result<()> {
        let Some(open) = self.used(done, 0)? else {
            return Ok(());
        };
        let spot = match place {
            CallPlace::Here => Spot::Here,
            CallPlace::At(index) => Spot::At(unsigned(done.argument(index))),
            CallPlace::AtOrHere(index) => match done.argument(index) {
                // with `-e raw`, the offset is shown in two halves
                _ if (4..6).any(|flags| has_flag(done.argument(flags), "RWF_APPEND")) => Spot::End,
                offset if integer(offset) == Some(-1) => Spot::Here,
                offset => Spot::At(unsigned(offset)),
            },
        };
        self.moved(done, op, &open, spot)
    }

    /// Creates the event for bytes that were moved; the call returned their number.
    fn moved(
        &mut self,
        done: &CompletedCall<'_>,
        op: Op,
        open: &Arc<OpenFile>,
        spot: Spot,
    ) -> io::Result<()> {
        let bytes = done.returned().unwrap_or(0);
        let length = &open.inode.length;
        let appends = op == Op::Write && open.append.load(Relaxed);
        // with O_APPEND, Linux appends even if pwrite gives an offset
        let offset = match spot {
            _ if open.stream => None,
            Spot::End => length.get(),
            _ if appends => length.get(),
            Spot::Here => open.position.get(),
            Spot::At(offset) => offset,
        };
        let end = offset.and_then(|offset| offset.checked_add(bytes));
        if done.succeeded() && !open.stream {
            if matches!(spot, Spot::Here) {
                open.position.set(end);
            }
            if op == Op::Write && bytes > 0 {
                match end {
                    Some(end) => open.inode.extend(end),
                    None => length.set(None),
                }
            }
        }
        self.event(done, op, open.inode.file(), offset, bytes)
    }

    fn on_descriptor(&mut self, done: &CompletedCall<'_>, op: Op) -> io::Result<()> {
        match self.used(done, 0)? {
            Some(open) => self.event(done, op, open.inode.file(), None, 0),
            None => Ok(()),
        }
    }

    fn on_path(
        &mut self,
        done: &CompletedCall<'_>,
        op: Op,
        dir: Option<usize>,
        path: usize,
    ) -> io::Result<()> {
        match self.path(done, dir, path)? {
            Some(file) => self.event(done, op, file, None, 0),
            None => Ok(()),
        }
    }

    fn sendfile(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let spot = match done.argument(2) {
            b"NULL" | b"0" => Spot::Here,
            offset => Spot::At(boxed(offset)),
        };
        if let Some(from) = self.used(done, 1)? {
            self.moved(done, Op::Read, &from, spot)?;
        }
        if let Some(to) = self.used(done, 0)? {
            self.moved(done, Op::Write, &to, Spot::Here)?;
        }
        Ok(())
    }

    fn copy_range(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        for (fd, offset, op) in [(0, 1, Op::Read), (2, 3, Op::Write)] {
            let spot = match done.argument(offset) {
                b"NULL" | b"0" => Spot::Here,
                offset => Spot::At(boxed(offset)),
            };
            if let Some(open) = self.used(done, fd)? {
                self.moved(done, op, &open, spot)?;
            }
        }
        Ok(())
    }

    fn truncate(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let length = unsigned(done.argument(1));
        let Some(file) = self.path(done, None, 0)? else {
            return Ok(());
        };
        if done.succeeded() {
            self.files.inode(file).length.set(length);
        }
        self.event(done, Op::Resize, file, None, length.unwrap_or(0))
    }

    fn ftruncate(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let length = unsigned(done.argument(1));
        let Some(open) = self.used(done, 0)? else {
            return Ok(());
        };
        if done.succeeded() {
            open.inode.length.set(length);
        }
        self.event(
            done,
            Op::Resize,
            open.inode.file(),
            None,
            length.unwrap_or(0),
        )
    }

    fn fallocate(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let end = unsigned(done.argument(2))
            .zip(unsigned(done.argument(3)))
            .and_then(|(offset, bytes)| offset.checked_add(bytes));
        let Some(open) = self.used(done, 0)? else {
            return Ok(());
        };
        let mode = done.argument(1);
        if done.succeeded() {
            if has_flag(mode, "FALLOC_FL_COLLAPSE_RANGE")
                || has_flag(mode, "FALLOC_FL_INSERT_RANGE")
            {
                open.inode.length.set(None);
            } else if !has_flag(mode, "FALLOC_FL_KEEP_SIZE")
                && let Some(end) = end
            {
                open.inode.extend(end);
            }
        }
        let length = open.inode.length.get().or(end).unwrap_or(0);
        self.event(done, Op::Resize, open.inode.file(), None, length)
    }

    fn map(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        if !done.argument(4).first().is_some_and(u8::is_ascii_digit) {
            return Ok(());
        }
        let Some(open) = self.used(done, 4)? else {
            return Ok(());
        };
        let file = open.inode.file();
        let bytes = unsigned(done.argument(1)).unwrap_or(0);
        let offset = integer(done.argument(5)).map(i64::cast_unsigned);
        self.event(done, Op::Map, file, offset, bytes)?;
        let Some(address) = done.outcome.value.map(i64::cast_unsigned) else {
            return Ok(());
        };
        let flags = done.argument(3);
        if !has_flag(flags, "MAP_SHARED") && !has_flag(flags, "MAP_SHARED_VALIDATE") {
            self.read_mapped.insert(file);
            return Ok(());
        }
        let group = self.groups.get_mut(done.who.group);
        group
            .maps
            .insert(address, (address.saturating_add(bytes), file));
        if !has_flag(done.argument(2), "PROT_WRITE") {
            self.read_mapped.insert(file);
        } else if self.mapped.insert(file) {
            let path = self.files.path(file);
            let part = format!("file {}", String::from_utf8_lossy(&path));
            self.miss(
                &part,
                "it is mapped into memory, and the trace does not show reads and writes through the mapping",
            )?;
        }
        Ok(())
    }

    fn unmap(&mut self, done: &CompletedCall<'_>) {
        let address = integer(done.argument(0)).map(i64::cast_unsigned);
        let (Some(begin), Some(bytes), true) =
            (address, unsigned(done.argument(1)), done.succeeded())
        else {
            return;
        };
        let maps = &mut self.groups.get_mut(done.who.group).maps;
        let end = begin.saturating_add(bytes);
        while let Some((&gone, _)) = maps.range(begin..end).next() {
            maps.remove(&gone);
        }
    }

    fn msync(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let Some(address) = integer(done.argument(0)).map(i64::cast_unsigned) else {
            return Ok(());
        };
        let maps = &self.groups.get(done.who.group).maps;
        let file = maps
            .range(..=address)
            .next_back()
            .filter(|(_, (end, _))| *end > address)
            .map(|(_, (_, file))| *file);
        match file {
            Some(file) => self.event(done, Op::Sync, file, None, 0),
            None => Ok(()),
        }
    }

    fn rename(&mut self, done: &CompletedCall<'_>, at: bool) -> io::Result<()> {
        let (from, to) = if at {
            (self.path(done, Some(0), 1)?, self.path(done, Some(2), 3)?)
        } else {
            (self.path(done, None, 0)?, self.path(done, None, 1)?)
        };
        let (Some(from), Some(to)) = (from, to) else {
            return Ok(());
        };
        self.event(done, Op::Rename, from, None, 0)?;
        if done.succeeded() {
            if has_flag(done.argument(4), "RENAME_EXCHANGE") {
                self.files.renew(from, None);
                self.files.renew(to, None);
            } else {
                self.files.rename(from, to);
            }
        }
        Ok(())
    }

    fn remove(&mut self, done: &CompletedCall<'_>, at: bool) -> io::Result<()> {
        let (dir, path) = if at { (Some(0), 1) } else { (None, 0) };
        let Some(file) = self.path(done, dir, path)? else {
            return Ok(());
        };
        if done.succeeded() {
            self.files.renew(file, None);
        }
        self.event(done, Op::Remove, file, None, 0)
    }

    fn stat(
        &mut self,
        done: &CompletedCall<'_>,
        dir: Option<usize>,
        path: usize,
    ) -> io::Result<()> {
        let of_descriptor = dir.filter(|_| done.argument(path) == b"\"\"");
        if let Some(dir) = of_descriptor
            && descriptor(done.argument(dir)).0.is_some()
        {
            return self.fstat(done);
        }
        let Some(file) = self.path(done, dir, path)? else {
            return Ok(());
        };
        if done.succeeded()
            && let Some(length) = length_of(done)
        {
            self.files.inode(file).length.set(Some(length));
        }
        self.event(done, Op::Stat, file, None, 0)
    }

    fn fstat(&mut self, done: &CompletedCall<'_>) -> io::Result<()> {
        let Some(open) = self.used(done, 0)? else {
            return Ok(());
        };
        if done.succeeded()
            && let Some(length) = length_of(done)
        {
            open.inode.length.set(Some(length));
        }
        self.event(done, Op::Stat, open.inode.file(), None, 0)
    }
}

/// Returns the length of a regular file, from a call of the `stat` family.
fn length_of(done: &CompletedCall<'_>) -> Option<u64> {
    let status = (1..5)
        .map(|index| done.argument(index))
        .find(|argument| argument.starts_with(b"{"))?;
    if !has_flag(status, "S_IFREG") && memchr::memmem::find(status, b"_mode=0100").is_none() {
        return None;
    }
    field(status, "st_size=").or_else(|| field(status, "stx_size="))
}
