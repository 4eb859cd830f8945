//! The state while a trace is read, and the effects of calls on it.

use super::{
    calls::{Deed, deed},
    line::{DftracerLine, LineArgs, Scalar},
};
use crate::{
    event::{Api, Event, FileId, Op, ProcessId},
    files::{Files, UNKNOWN_FILE},
    sink::{Missing, Process, Sink},
};
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
    io,
};

/// Names of files, hosts and strings, by their hashes.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    files: HashMap<String, String>,
    hosts: HashMap<String, String>,
    texts: HashMap<String, String>,
}

impl NameTable {
    /// Adds the name in a line of metadata.
    pub(super) fn learn(&mut self, line: &DftracerLine<'_>) {
        let Some(args) = &line.args else { return };
        let names = match line.name.text().as_deref() {
            Some("FH") => &mut self.files,
            Some("HH") => &mut self.hosts,
            Some("SH") => &mut self.texts,
            _ => return,
        };
        if let (Some(hash), Some(name)) = (args.value.text(), args.name.text())
            && !names.contains_key(&*hash)
        {
            names.insert(hash.into_owned(), name.into_owned());
        }
    }
}

/// The state of a file that a process has open.
#[derive(Clone, Copy, Debug, Default)]
struct OpenedFile {
    times: u32,
    position: Option<u64>,
    appends: bool,
}

#[derive(Debug)]
struct KnownProcess {
    id: ProcessId,
    cwd: Option<String>,
}

/// The state while a trace is read.
pub(super) struct DftracerState<'s> {
    pub(super) sink: &'s mut dyn Sink,
    pub(super) names: NameTable,
    files: Files,
    processes: HashMap<(String, u64), KnownProcess>,
    opened: HashMap<(ProcessId, bool, FileId), OpenedFile>,
    reported_gaps: BTreeSet<&'static str>,
    /// Effects on files that the trace does not show and that were reported, each with the kind of call that has the effect.
    invisible: HashSet<(FileId, Deed)>,
    /// Number of calls whose file is named. The next two fields are the number of calls without a file name, and of reads and writes without a
    /// length.
    named: u64,
    nameless: u64,
    sizeless: u64,
    /// The trace's unit of time, nanoseconds.
    pub(super) unit_ns: u64,
}

impl<'s> DftracerState<'s> {
    pub(super) fn new(sink: &'s mut dyn Sink, names: NameTable) -> Self {
        Self {
            sink,
            names,
            files: Files::default(),
            processes: HashMap::new(),
            opened: HashMap::new(),
            reported_gaps: BTreeSet::new(),
            invisible: HashSet::new(),
            named: 0,
            nameless: 0,
            sizeless: 0,
            unit_ns: 1000,
        }
    }

    pub(super) fn miss(&mut self, part: &str, problem: &str) -> io::Result<()> {
        self.sink.missing(&Missing {
            part: part.to_owned(),
            problem: problem.to_owned(),
        })
    }

    pub(super) fn miss_once(&mut self, part: &'static str, problem: &str) -> io::Result<()> {
        if self.reported_gaps.insert(part) {
            self.miss(part, problem)?;
        }
        Ok(())
    }

    fn miss_of_file(&mut self, file: FileId, deed: Deed, problem: &str) -> io::Result<()> {
        if self.invisible.insert((file, deed)) {
            let path = self.files.path(file);
            let part = format!("file {}", String::from_utf8_lossy(&path));
            self.miss(&part, problem)?;
        }
        Ok(())
    }

    /// Returns the process of a line; announces it to the sink if it is new.
    fn process(
        &mut self,
        line: &DftracerLine<'_>,
        args: &LineArgs<'_>,
    ) -> io::Result<&mut KnownProcess> {
        let host = args.hhash.text().or_else(|| args.hostname.text());
        let key = (
            host.unwrap_or_default().into_owned(),
            line.pid.unsigned().unwrap_or(0),
        );
        let starts = line.cat.is("dftracer") && line.name.is("start");
        if starts || !self.processes.contains_key(&key) {
            let next = u32::try_from(self.processes.len())
                .map_err(|_| io::Error::other("too many processes"))?;
            let known = self.processes.get(&key);
            let id = known.map_or(ProcessId(next), |known| known.id);
            let text = |hash: &Scalar<'_>| {
                let hash = hash.text()?;
                self.names.texts.get(&*hash).cloned()
            };
            let command = || {
                let command = text(&args.cmd_hash)?;
                command.split(';').next().map(str::to_owned)
            };
            let process = Process {
                rank: None,
                pid: line.pid.unsigned(),
                host: self
                    .names
                    .hosts
                    .get(&key.0)
                    .cloned()
                    .or_else(|| args.hostname.text().map(Cow::into_owned)),
                program: text(&args.exec_hash)
                    .filter(|program| program != "DEFAULT")
                    .or_else(command),
            };
            let cwd = args.cwd.text();
            let cwd = cwd.and_then(|hash| self.names.files.get(&*hash).cloned());
            self.sink.process(id, &process)?;
            self.processes.insert(key.clone(), KnownProcess { id, cwd });
        }
        self.processes
            .get_mut(&key)
            .ok_or_else(|| io::Error::other("a process was lost"))
    }

    /// Returns the file for a hash or a name.
    fn file(
        &mut self,
        hash: &Scalar<'_>,
        name: &Scalar<'_>,
        cwd: Option<&str>,
    ) -> io::Result<Option<FileId>> {
        let path = match (name.text(), hash.text()) {
            (Some(name), _) => name.into_owned(),
            (None, Some(hash)) => match self.names.files.get(&*hash) {
                Some(name) => name.clone(),
                None => {
                    self.miss_once(
                        "names",
                        "some files have no name in the trace; they are named by their hashes",
                    )?;
                    format!("<fhash {hash}>")
                }
            },
            (None, None) => return Ok(None),
        };
        let path = match cwd {
            Some(cwd) if !path.starts_with(['/', '<']) => {
                Cow::Owned(format!("{}/{path}", cwd.trim_end_matches('/')))
            }
            _ => Cow::Borrowed(path.as_str()),
        };
        self.files.number(path.as_bytes(), self.sink).map(Some)
    }

    /// Processes a line that is not a call: names, the start of a process.
    pub(super) fn remark(&mut self, line: &DftracerLine<'_>) -> io::Result<()> {
        self.names.learn(line);
        let Some(args) = &line.args else {
            return Ok(());
        };
        if args.name.is("time_metric") {
            self.unit_ns = match args.value.text().as_deref() {
                Some("NS") => 1,
                Some("MS") => 1_000_000,
                Some("S" | "SEC") => 1_000_000_000,
                _ => 1000,
            };
        }
        if line.name.is("start") {
            self.process(line, args)?;
        }
        Ok(())
    }

    /// Reports the number of calls without a file or a length.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        const VARIABLE: &str = "record with DFTRACER_INC_METADATA=1 for names and sizes";
        if self.nameless > 0 {
            let problem = format!(
                "{} calls have no name of a file, and are counted under {}; {}",
                self.nameless,
                String::from_utf8_lossy(UNKNOWN_FILE),
                if self.named == 0 {
                    VARIABLE
                } else {
                    "the others have one"
                }
            );
            self.miss("names", &problem)?;
        }
        if self.sizeless > 0 {
            let problem = format!(
                "{} reads and writes have no length, so that the bytes they moved are unknown, not zero; {VARIABLE}",
                self.sizeless
            );
            self.miss("sizes", &problem)?;
        }
        Ok(())
    }

    /// Processes a call of POSIX or of the C library's streams.
    pub(super) fn call(&mut self, line: &DftracerLine<'_>, api: Api, base: u64) -> io::Result<()> {
        let none = LineArgs::default();
        let args = line.args.as_ref().unwrap_or(&none);
        let name = line.name.text().unwrap_or_default();
        let deed = deed(&name);
        let known = self.process(line, args)?;
        let (process, cwd) = (known.id, known.cwd.clone());
        match deed {
            Deed::Nothing => return Ok(()),
            Deed::Fork => {
                // from now on the child can change the parent's positions
                for ((owner, _, _), opened) in &mut self.opened {
                    if *owner == process {
                        opened.position = None;
                    }
                }
                return Ok(());
            }
            _ => {}
        }
        let file = self.file(&args.fhash, &args.fname, cwd.as_deref())?;
        let moves = matches!(deed, Deed::Move(_) | Deed::MoveOne(_) | Deed::MoveSome(_));
        match file {
            Some(_) => self.named += 1,
            // in a trace that names files, a call that neither names a file nor moves bytes concerns no file, such as sync
            None if !moves && (self.named > 0 || !self.names.files.is_empty()) => return Ok(()),
            None => self.nameless += 1,
        }
        self.sizeless += u64::from(matches!(deed, Deed::Move(_)) && args.ret.number().is_none());
        let is_known = file.is_some();
        let file = match file {
            Some(file) => file,
            None if deed == Deed::Chdir => {
                self.process(line, args)?.cwd = None;
                return Ok(());
            }
            None => self.files.number(UNKNOWN_FILE, self.sink)?,
        };
        if deed == Deed::Chdir {
            let path = String::from_utf8_lossy(&self.files.path(file)).into_owned();
            self.process(line, args)?.cwd = Some(path).filter(|path| path.starts_with('/'));
            return Ok(());
        }
        let key = (process, api == Api::Stdio, file);
        let failed = args.ret.number().is_some_and(|ret| ret < 0);
        let (op, mut offset, bytes) = self.follow(deed, key, args, failed)?;
        if !is_known {
            // all calls without a file name share the name of the unknown file, so the position is unknown
            offset = None;
            self.opened.remove(&key);
        }
        if deed == Deed::Rename
            && !failed
            && let Some(to) = self.file(&args.newpath_hash, &Scalar::None, cwd.as_deref())?
        {
            self.files.rename(file, to);
        }
        let ns = |time: &Scalar<'_>| time.unsigned().unwrap_or(0).saturating_mul(self.unit_ns);
        self.sink.event(&Event {
            process,
            thread: line.tid.unsigned().unwrap_or(0),
            file,
            op,
            api,
            offset,
            bytes: if failed { 0 } else { bytes },
            start_ns: ns(&line.ts).saturating_sub(base),
            duration_ns: ns(&line.dur),
            failed,
        })
    }

    /// Applies the effect of a call to the position. Returns the kind, offset and length of the event.
    fn follow(
        &mut self,
        deed: Deed,
        key: (ProcessId, bool, FileId),
        args: &LineArgs<'_>,
        failed: bool,
    ) -> io::Result<(Op, Option<u64>, u64)> {
        let inode = self.files.inode(key.2);
        Ok(match deed {
            Deed::Open => {
                if !failed {
                    self.open(key, args);
                }
                (Op::Open, None, 0)
            }
            Deed::Close => {
                if let Some(opened) = self.opened.get_mut(&key).filter(|_| !failed) {
                    opened.times = opened.times.saturating_sub(1);
                    if opened.times == 0 {
                        self.opened.remove(&key);
                    }
                }
                (Op::Close, None, 0)
            }
            Deed::Move(op) => {
                let items = args.ret.unsigned().unwrap_or(0);
                // fread and fwrite return a number of items; the size of an item is in the arguments
                let size = args.size.unsigned().filter(|_| key.1).unwrap_or(1);
                let bytes = items.saturating_mul(size);
                let place = args.offset.unsigned();
                (op, self.moved(key, op, place, Some(bytes), failed), bytes)
            }
            Deed::MoveOne(op) => (op, self.moved(key, op, None, Some(1), failed), 1),
            Deed::MoveSome(op) => {
                self.miss_once(
                    "lengths",
                    "some functions of the C library, such as fgets and fputs, are recorded without the number of bytes that they moved",
                )?;
                (op, self.moved(key, op, None, None, failed), 0)
            }
            Deed::Seek => {
                let position = self.sought(key, args).filter(|_| !failed);
                if !failed {
                    self.place(key, position);
                }
                (Op::Seek, position, 0)
            }
            Deed::Tell => {
                let position = args.ret.unsigned();
                self.place(key, position);
                (Op::Other, None, 0)
            }
            Deed::Rewind => {
                self.place(key, Some(0));
                (Op::Seek, Some(0), 0)
            }
            Deed::Unread => {
                if let Some(opened) = self.opened.get_mut(&key) {
                    opened.position = opened.position.and_then(|place| place.checked_sub(1));
                }
                (Op::Other, None, 0)
            }
            Deed::Resize => {
                let length = args.length.unsigned();
                if !failed {
                    inode.length.set(length);
                }
                (Op::Resize, None, length.unwrap_or(0))
            }
            Deed::Rename => (Op::Rename, None, 0),
            Deed::Remove => {
                if !failed {
                    self.files.renew(key.2, None);
                }
                (Op::Remove, None, 0)
            }
            Deed::Copy => {
                self.miss_of_file(key.2, deed, "a descriptor of it was copied, and DFTracer does not record operations through the copy")?;
                if let Some(opened) = self.opened.get_mut(&key) {
                    // operations through the copied descriptor move the position, too
                    opened.times = opened.times.saturating_add(1);
                    opened.position = None;
                }
                (Op::Other, None, 0)
            }
            Deed::Plain(Op::Resize) => (Op::Resize, None, args.length.unsigned().unwrap_or(0)),
            Deed::Plain(Op::Map) => {
                self.miss_of_file(key.2, deed, "it is mapped into memory, and the trace does not show reads and writes through the mapping")?;
                (
                    Op::Map,
                    args.offset.unsigned(),
                    args.length.unsigned().unwrap_or(0),
                )
            }
            Deed::Plain(op) => (op, None, 0),
            Deed::Fork | Deed::Chdir | Deed::Nothing => (Op::Other, None, 0),
        })
    }

    /// Records that a file was opened. Its position is known only if the process has it open once.
    fn open(&mut self, key: (ProcessId, bool, FileId), args: &LineArgs<'_>) {
        let (appends, truncates) = opening(args);
        if truncates {
            self.files.inode(key.2).length.set(Some(0));
        }
        let opened = self.opened.entry(key).or_default();
        opened.times = opened.times.saturating_add(1);
        opened.appends = appends;
        opened.position = Some(0).filter(|_| opened.times == 1);
    }

    /// Moves the position by the bytes read or written, unless the call has an offset. Returns the offset of the bytes.
    fn moved(
        &mut self,
        key: (ProcessId, bool, FileId),
        op: Op,
        place: Option<u64>,
        bytes: Option<u64>,
        failed: bool,
    ) -> Option<u64> {
        let inode = self.files.inode(key.2);
        let mut opened = self.opened.get_mut(&key);
        let appends = op == Op::Write && opened.as_ref().is_some_and(|opened| opened.appends);
        let offset = match place {
            _ if appends => inode.length.get(),
            Some(place) => Some(place),
            None => opened.as_ref().and_then(|opened| opened.position),
        };
        if failed {
            return offset;
        }
        let end = offset
            .zip(bytes)
            .and_then(|(offset, bytes)| offset.checked_add(bytes));
        if let Some(opened) = opened.as_mut().filter(|_| place.is_none()) {
            opened.position = end.filter(|_| opened.times == 1);
        }
        if op == Op::Write {
            match end {
                Some(end) => inode.extend(end),
                None => inode.length.set(None),
            }
        }
        offset
    }

    fn sought(&self, key: (ProcessId, bool, FileId), args: &LineArgs<'_>) -> Option<u64> {
        let distance = args.offset.number()?;
        let inode = self.files.inode(key.2);
        // lseek returns the new position, fseek only whether it succeeded
        if !key.1 {
            let position = args.ret.unsigned()?;
            if args.whence.number() == Some(2)
                && let Some(length) = distance
                    .checked_neg()
                    .and_then(|back| position.checked_add_signed(back))
            {
                inode.length.set(Some(length));
            }
            return Some(position);
        }
        let from = match args.whence.number()? {
            0 => 0,
            1 => self.opened.get(&key)?.position?,
            2 => inode.length.get()?,
            _ => return None,
        };
        from.checked_add_signed(distance)
    }

    /// Sets the position, unless the process has the file open more than once.
    fn place(&mut self, key: (ProcessId, bool, FileId), position: Option<u64>) {
        let opened = self.opened.entry(key).or_insert(OpenedFile {
            times: 1,
            ..OpenedFile::default()
        });
        opened.position = position.filter(|_| opened.times == 1);
    }
}

/// Returns whether a call opens a file for appending, and whether it truncates it.
fn opening(args: &LineArgs<'_>) -> (bool, bool) {
    const TRUNCATE: i64 = 0o1000;
    const APPEND: i64 = 0o2000;
    if let Some(flags) = args.flags.number() {
        return (flags & APPEND != 0, flags & TRUNCATE != 0);
    }
    match &args.mode {
        Scalar::Text(mode) => (mode.starts_with('a'), mode.starts_with('w')),
        Scalar::None | Scalar::Number(_) => (false, false),
    }
}
