//! A run as its trace tells it: tasks that come and go, and what they are said to do.

use super::{
    calls::{Call, call},
    state::{Begun, Cwd, Descriptor, Group, OpenFile, Shared, Table, Task, TaskId, Who},
    syntax::{Arguments, Outcome, has_flag},
};
use crate::{
    event::{Api, Event, FileId, Op, ProcessId},
    files::Files,
    sink::{Missing, Process, Sink},
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    sync::Arc,
};

/// A call with its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done<'a> {
    /// The task.
    pub(super) id: TaskId,
    /// What the task has.
    pub(super) who: Who,
    /// The call's arguments.
    pub(super) arguments: &'a Arguments<'a>,
    /// How it ended.
    pub(super) outcome: Outcome<'a>,
    /// When it began.
    pub(super) start_ns: u64,
}

impl Done<'_> {
    /// Whether it did what it was called for.
    pub(super) fn succeeded(&self) -> bool {
        self.outcome.value.is_some()
    }

    /// The bytes, descriptor or task that it returned.
    pub(super) fn returned(&self) -> Option<u64> {
        self.outcome
            .value
            .and_then(|value| u64::try_from(value).ok())
    }

    pub(super) fn argument(&self, index: usize) -> &[u8] {
        self.arguments.get(index)
    }
}

/// A call that makes a task and has not ended.
#[derive(Clone, Copy, Debug)]
struct Birth {
    parent: TaskId,
    kind: Kinship,
    child: Option<u64>,
}

/// How many descriptors processes may have from their parents, all together: what a trace can ask for by starting processes grows with the square of its
/// length.
const MAX_INHERITED: usize = 1 << 22;

/// What a task shares with the one that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinship {
    thread: bool,
    files: bool,
    cwd: bool,
}

impl Kinship {
    /// Reads the flags of `clone` and `clone3`.
    pub(super) fn of_flags(text: &[u8]) -> Self {
        Self {
            thread: has_flag(text, "CLONE_THREAD"),
            files: has_flag(text, "CLONE_FILES"),
            cwd: has_flag(text, "CLONE_FS"),
        }
    }
}

/// The state of a trace that is read.
pub(super) struct Run<'s> {
    pub(super) sink: &'s mut dyn Sink,
    pub(super) files: Files,
    pub(super) groups: Shared<Group>,
    pub(super) tables: Shared<Table>,
    pub(super) cwds: Shared<Cwd>,
    tasks: HashMap<TaskId, Task>,
    births: Vec<Birth>,
    /// On each machine the task whose lines bear no number while it is alone, once its number is known.
    first_tasks: HashMap<u32, u64>,
    processes: u32,
    inherited: usize,
    /// Files of which it was said that writes are invisible.
    pub(super) mapped: HashSet<FileId>,
    /// Files of which a mapping was seen through which only reads go.
    pub(super) read_mapped: HashSet<FileId>,
    told: BTreeSet<&'static str>,
    /// Calls that never ended, and ends of calls that never began.
    pub(super) halves: (u64, u64),
    /// Whether a duration was seen.
    pub(super) durations: bool,
    /// Calls that did what they were called for, and calls that failed.
    pub(super) outcomes: (u64, u64),
}

impl<'s> Run<'s> {
    pub(super) fn new(sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            files: Files::default(),
            groups: Shared::default(),
            tables: Shared::default(),
            cwds: Shared::default(),
            tasks: HashMap::new(),
            births: Vec::new(),
            first_tasks: HashMap::new(),
            processes: 0,
            inherited: 0,
            mapped: HashSet::new(),
            read_mapped: HashSet::new(),
            told: BTreeSet::new(),
            halves: (0, 0),
            durations: false,
            outcomes: (0, 0),
        }
    }

    /// Tells the sink of a gap.
    pub(super) fn miss(&mut self, part: &str, problem: &str) -> io::Result<()> {
        self.sink.missing(&Missing {
            part: part.to_owned(),
            problem: problem.to_owned(),
        })
    }

    /// Tells the sink of a gap that concerns the whole trace, once.
    pub(super) fn miss_once(&mut self, part: &'static str, problem: &str) -> io::Result<()> {
        if self.told.insert(part) {
            self.miss(part, problem)?;
        }
        Ok(())
    }

    /// Finds the task that a line is of, which is new if nothing was heard of it.
    pub(super) fn task(&mut self, space: u32, number: Option<u64>) -> io::Result<TaskId> {
        let number = match number {
            Some(number) => number,
            None => self.unnumbered(space),
        };
        let id = TaskId { space, number };
        if self.tasks.contains_key(&id) {
            return Ok(id);
        }
        if let Some(birth) = self
            .births
            .iter_mut()
            .find(|birth| birth.parent.space == space && birth.child.is_none())
        {
            birth.child = Some(number);
            let (parent, kind) = (birth.parent, birth.kind);
            self.born(parent, number, kind)?;
            return Ok(id);
        }
        // strace -f without -o begins to number lines when there are two tasks
        let first = TaskId { space, number: 0 };
        if number != 0
            && !self.first_tasks.contains_key(&space)
            && let Some(mut task) = self.tasks.remove(&first)
        {
            self.first_tasks.insert(space, number);
            task.who.thread = number;
            let group = self.groups.get_mut(task.who.group);
            group.process.pid = Some(number);
            group.told = false;
            self.tasks.insert(id, task);
            for birth in &mut self.births {
                if birth.parent == first {
                    birth.parent = id;
                }
            }
            return Ok(id);
        }
        let group = self.new_group(Process {
            pid: Some(number).filter(|&number| number != 0),
            ..Process::default()
        })?;
        let who = Who {
            thread: number,
            group: self.groups.add(group),
            table: self.tables.add(Table::new()),
            cwd: self.cwds.add(None),
        };
        self.tasks.insert(id, Task { who, begun: None });
        Ok(id)
    }

    /// The task of a line without a number: the only one left, or the first one.
    fn unnumbered(&self, space: u32) -> u64 {
        match self.first_tasks.get(&space) {
            None => 0,
            Some(&first) => {
                let first = TaskId {
                    space,
                    number: first,
                };
                if self.tasks.contains_key(&first) {
                    return first.number;
                }
                let mut left = self.tasks.keys().filter(|id| id.space == space);
                match (left.next(), left.next()) {
                    (Some(only), None) => only.number,
                    _ => first.number,
                }
            }
        }
    }

    fn new_group(&mut self, process: Process) -> io::Result<Group> {
        let id = ProcessId(self.processes);
        self.processes = self
            .processes
            .checked_add(1)
            .ok_or_else(|| io::Error::other("too many processes"))?;
        Ok(Group {
            id,
            process,
            told: false,
            ..Group::default()
        })
    }

    /// What a task has.
    pub(super) fn who(&self, id: TaskId) -> Option<Who> {
        self.tasks.get(&id).map(|task| task.who)
    }

    /// A task begins a call that ends in a later line.
    pub(super) fn begin(&mut self, id: TaskId, text: &[u8], start_ns: u64) {
        let kind = match text.split(|byte| *byte == b'(').next().and_then(call) {
            Some(Call::Fork) => Some(Kinship::of_flags(text)),
            _ => None,
        };
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        let mut begun = task.begun.take().unwrap_or_default();
        begun.text.clear();
        begun.text.extend_from_slice(text);
        begun.start_ns = start_ns;
        task.begun = Some(begun);
        if let Some(kind) = kind {
            self.births.retain(|birth| birth.parent != id);
            self.births.push(Birth {
                parent: id,
                kind,
                child: None,
            });
        }
    }

    /// What was shown of the call that a task is in.
    pub(super) fn begun(&mut self, id: TaskId) -> Option<&mut Begun> {
        self.tasks.get_mut(&id).and_then(|task| task.begun.as_mut())
    }

    /// The call that a task is in, which ends now.
    pub(super) fn end(&mut self, id: TaskId) -> Option<Begun> {
        self.tasks.get_mut(&id).and_then(|task| task.begun.take())
    }

    /// strace tells the number of a new task before the call that made it returns.
    pub(super) fn attached(&mut self, space: u32, number: u64) -> io::Result<()> {
        let is_born = self.births.iter().any(|birth| birth.parent.space == space);
        if is_born {
            self.task(space, Some(number))?;
        }
        Ok(())
    }

    /// A call that makes a task has returned.
    pub(super) fn forked(&mut self, done: &Done<'_>, kind: Kinship) -> io::Result<()> {
        let begun = self
            .births
            .iter()
            .position(|birth| birth.parent == done.id)
            .map(|index| self.births.swap_remove(index));
        // lines bear the numbers of strace's namespace, calls return those of the program's
        let Some(number) = strace_number(done.outcome.text)
            .or(done.returned())
            .filter(|&number| number != 0)
        else {
            return Ok(());
        };
        let child = TaskId {
            space: done.id.space,
            number,
        };
        if let Some(Birth {
            child: Some(heard), ..
        }) = begun
            && heard != number
        {
            self.miss_once(
                "parents",
                "several processes were started at once, so that it is unclear which of them has which descriptors",
            )?;
        }
        if self.tasks.contains_key(&child) {
            return Ok(());
        }
        self.born(done.id, number, kind)
    }

    fn born(&mut self, parent: TaskId, number: u64, kind: Kinship) -> io::Result<()> {
        let Some(from) = self.who(parent) else {
            return Ok(());
        };
        let group = if kind.thread {
            self.groups.share(from.group)
        } else {
            let program = self.groups.get(from.group).process.program.clone();
            let group = self.new_group(Process {
                pid: Some(number),
                program,
                ..Process::default()
            })?;
            self.groups.add(group)
        };
        let table = if kind.files {
            self.tables.share(from.table)
        } else {
            let copy = self.copied_table(from)?;
            self.tables.add(copy)
        };
        let cwd = if kind.cwd {
            self.cwds.share(from.cwd)
        } else {
            let copy = self.cwds.get(from.cwd).clone();
            self.cwds.add(copy)
        };
        let id = TaskId {
            space: parent.space,
            number,
        };
        let who = Who {
            thread: number,
            group,
            table,
            cwd,
        };
        if let Some(old) = self.tasks.insert(id, Task { who, begun: None }) {
            self.release(old.who)?;
        }
        Ok(())
    }

    /// A task has ended.
    pub(super) fn exited(&mut self, id: TaskId) -> io::Result<()> {
        self.births.retain(|birth| birth.parent != id);
        let Some(task) = self.tasks.remove(&id) else {
            return Ok(());
        };
        if let Some(begun) = task.begun
            && !begun.text.starts_with(b"exec")
        {
            self.halves.0 += 1;
        }
        self.release(task.who)
    }

    /// Another thread has called `execve` and goes on with this number; its process's other threads are gone.
    pub(super) fn superseded(&mut self, id: TaskId, by: u64) -> io::Result<()> {
        let by = TaskId {
            space: id.space,
            number: by,
        };
        if by == id {
            return Ok(());
        }
        let Some(mut task) = self.tasks.remove(&by) else {
            return Ok(());
        };
        task.who.thread = id.number;
        match self.tasks.insert(id, task) {
            Some(old) => self.release(old.who),
            None => Ok(()),
        }
    }

    fn release(&mut self, who: Who) -> io::Result<()> {
        if let Some(table) = self.tables.release(who.table) {
            self.inherited = self.inherited.saturating_sub(table.len());
        }
        self.cwds.release(who.cwd);
        if let Some(group) = self.groups.release(who.group)
            && !group.told
        {
            self.sink.process(group.id, &group.process)?;
        }
        Ok(())
    }

    fn copied_table(&mut self, who: Who) -> io::Result<Table> {
        let table = self.tables.get(who.table);
        if self.inherited.saturating_add(table.len()) > MAX_INHERITED {
            self.miss_once(
                "descriptors",
                "processes have more descriptors from their parents than are followed; the positions of some are unknown",
            )?;
            return Ok(Table::new());
        }
        self.inherited += table.len();
        Ok(table.clone())
    }

    /// A task has a table of its own from now on.
    pub(super) fn unshare_table(&mut self, id: TaskId) -> io::Result<()> {
        let Some(who) = self.who(id) else {
            return Ok(());
        };
        let own = match self.tables.release(who.table) {
            Some(only) => only,
            None => self.copied_table(who)?,
        };
        let table = self.tables.add(own);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.who.table = table;
        }
        Ok(())
    }

    /// Tells the sink of processes without an event, and of calls without an end.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        for group in self.groups.values_mut().filter(|group| !group.told) {
            self.sink.process(group.id, &group.process)?;
            group.told = true;
        }
        let open = self.tasks.values().filter(|task| task.begun.is_some());
        self.halves.0 += open.count() as u64;
        Ok(())
    }

    /// Hands an event to the sink.
    pub(super) fn event(
        &mut self,
        done: &Done<'_>,
        op: Op,
        file: FileId,
        offset: Option<u64>,
        bytes: u64,
    ) -> io::Result<()> {
        let group = self.groups.get_mut(done.who.group);
        if !group.told {
            self.sink.process(group.id, &group.process)?;
            group.told = true;
        }
        let failed = !done.succeeded();
        self.sink.event(&Event {
            process: group.id,
            thread: done.who.thread,
            file,
            op,
            api: Api::Posix,
            offset,
            bytes: if failed { 0 } else { bytes },
            start_ns: done.start_ns,
            duration_ns: done.outcome.duration_ns.unwrap_or(0),
            failed,
        })
    }

    /// Sets a descriptor of a task.
    pub(super) fn install(&mut self, who: Who, fd: u32, descriptor: Descriptor) {
        self.tables.get_mut(who.table).insert(fd, descriptor);
    }

    /// What a descriptor of a task refers to, if that is known.
    pub(super) fn open_file(&self, who: Who, fd: u32) -> Option<Arc<OpenFile>> {
        let descriptor = self.tables.get(who.table).get(&fd)?;
        Some(Arc::clone(&descriptor.open))
    }
}

/// The number in `/* 7 in strace's PID NS */`, which `--decode-pids=pidns` puts behind another one.
fn strace_number(text: &[u8]) -> Option<u64> {
    let end = memchr::memmem::find(text, b" in strace's PID NS")?;
    let begin = memchr::memrchr(b' ', &text[..end])? + 1;
    super::syntax::number(&text[begin..end])
}
