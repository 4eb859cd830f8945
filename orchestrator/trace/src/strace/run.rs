//! A traced run: its tasks and their calls.

use super::{
    calls::{Call, call},
    state::{
        Cwd, DescriptorTable, OpenDescriptor, OpenFile, SharedTable, StartedCall, TaskId,
        TaskResources, ThreadGroup, TracedTask,
    },
    syntax::{CallArguments, CallOutcome, has_flag},
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

/// A completed call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletedCall<'a> {
    /// The task that made the call.
    pub(super) id: TaskId,
    /// The resources of the task.
    pub(super) who: TaskResources,
    /// Arguments of the call.
    pub(super) arguments: &'a CallArguments<'a>,
    /// Result of the call.
    pub(super) outcome: CallOutcome<'a>,
    /// Start, nanoseconds since the start of the trace.
    pub(super) start_ns: u64,
}

impl CompletedCall<'_> {
    /// Returns whether the call succeeded.
    pub(super) fn succeeded(&self) -> bool {
        self.outcome.value.is_some()
    }

    /// Returns the non-negative result: bytes, a descriptor or a task number.
    pub(super) fn returned(&self) -> Option<u64> {
        self.outcome
            .value
            .and_then(|value| u64::try_from(value).ok())
    }

    pub(super) fn argument(&self, index: usize) -> &[u8] {
        self.arguments.get(index)
    }
}

/// An unfinished call that creates a task.
#[derive(Clone, Copy, Debug)]
struct Birth {
    parent: TaskId,
    kind: Kinship,
    child: Option<u64>,
}

/// Maximum total number of descriptors that existing processes inherited from their parents. Without a limit, this number would grow with the square
/// of the trace's length if a program keeps starting processes.
const MAX_INHERITED: usize = 1 << 22;

/// Which resources a new task shares with its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinship {
    thread: bool,
    files: bool,
    cwd: bool,
}

impl Kinship {
    /// Parses the flags of `clone` and `clone3`.
    pub(super) fn of_flags(text: &[u8]) -> Self {
        Self {
            thread: has_flag(text, "CLONE_THREAD"),
            files: has_flag(text, "CLONE_FILES"),
            cwd: has_flag(text, "CLONE_FS"),
        }
    }
}

/// The state while a trace is read.
pub(super) struct Run<'s> {
    pub(super) sink: &'s mut dyn Sink,
    pub(super) files: Files,
    pub(super) groups: SharedTable<ThreadGroup>,
    pub(super) tables: SharedTable<DescriptorTable>,
    pub(super) cwds: SharedTable<Cwd>,
    tasks: HashMap<TaskId, TracedTask>,
    births: Vec<Birth>,
    /// For each machine, the number of its first task, once it is known. Lines of this task have no number while it is the only one.
    first_tasks: HashMap<u32, u64>,
    processes: u32,
    inherited: usize,
    /// Files whose writes through a mapping were reported as not visible.
    pub(super) mapped: HashSet<FileId>,
    /// Files with a read-only mapping.
    pub(super) read_mapped: HashSet<FileId>,
    reported_gaps: BTreeSet<&'static str>,
    /// Number of calls without an end, and of ends without a beginning.
    pub(super) halves: (u64, u64),
    /// Whether any call had a duration.
    pub(super) durations: bool,
    /// Number of calls that succeeded, and that failed.
    pub(super) outcomes: (u64, u64),
}

impl<'s> Run<'s> {
    pub(super) fn new(sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            files: Files::default(),
            groups: SharedTable::default(),
            tables: SharedTable::default(),
            cwds: SharedTable::default(),
            tasks: HashMap::new(),
            births: Vec::new(),
            first_tasks: HashMap::new(),
            processes: 0,
            inherited: 0,
            mapped: HashSet::new(),
            read_mapped: HashSet::new(),
            reported_gaps: BTreeSet::new(),
            halves: (0, 0),
            durations: false,
            outcomes: (0, 0),
        }
    }

    /// Reports a missing part to the sink.
    pub(super) fn miss(&mut self, part: &str, problem: &str) -> io::Result<()> {
        self.sink.missing(&Missing {
            part: part.to_owned(),
            problem: problem.to_owned(),
        })
    }

    /// Reports a missing part that concerns the whole trace to the sink, but only once.
    pub(super) fn miss_once(&mut self, part: &'static str, problem: &str) -> io::Result<()> {
        if self.reported_gaps.insert(part) {
            self.miss(part, problem)?;
        }
        Ok(())
    }

    /// Returns the task of a line; creates it if it is new.
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
        // strace -f without -o numbers lines only when there are two or more tasks
        let first = TaskId { space, number: 0 };
        if number != 0
            && !self.first_tasks.contains_key(&space)
            && let Some(mut task) = self.tasks.remove(&first)
        {
            self.first_tasks.insert(space, number);
            task.who.thread = number;
            let group = self.groups.get_mut(task.who.group);
            group.process.pid = Some(number);
            group.is_announced = false;
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
        let who = TaskResources {
            thread: number,
            group: self.groups.add(group),
            table: self.tables.add(DescriptorTable::new()),
            cwd: self.cwds.add(None),
        };
        self.tasks.insert(id, TracedTask { who, begun: None });
        Ok(id)
    }

    /// Returns the number of the task to which a line without a number belongs: the first task, or the only task left after the first one has ended.
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

    fn new_group(&mut self, process: Process) -> io::Result<ThreadGroup> {
        let id = ProcessId(self.processes);
        self.processes = self
            .processes
            .checked_add(1)
            .ok_or_else(|| io::Error::other("too many processes"))?;
        Ok(ThreadGroup {
            id,
            process,
            is_announced: false,
            ..ThreadGroup::default()
        })
    }

    /// Returns the resources of a task; `None` if it does not exist.
    pub(super) fn who(&self, id: TaskId) -> Option<TaskResources> {
        self.tasks.get(&id).map(|task| task.who)
    }

    /// Records that a task begins a call whose end is in a later line.
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

    /// Returns the unfinished call of a task.
    pub(super) fn begun(&mut self, id: TaskId) -> Option<&mut StartedCall> {
        self.tasks.get_mut(&id).and_then(|task| task.begun.as_mut())
    }

    /// Removes and returns the unfinished call of a task.
    pub(super) fn end(&mut self, id: TaskId) -> Option<StartedCall> {
        self.tasks.get_mut(&id).and_then(|task| task.begun.take())
    }

    /// Adds a new task. strace reports its number before the call that created it returns.
    pub(super) fn attached(&mut self, space: u32, number: u64) -> io::Result<()> {
        let is_born = self.births.iter().any(|birth| birth.parent.space == space);
        if is_born {
            self.task(space, Some(number))?;
        }
        Ok(())
    }

    /// Evaluates a call that has created a task.
    pub(super) fn forked(&mut self, done: &CompletedCall<'_>, kind: Kinship) -> io::Result<()> {
        let begun = self
            .births
            .iter()
            .position(|birth| birth.parent == done.id)
            .map(|index| self.births.swap_remove(index));
        // lines have the numbers of strace's PID namespace, results of calls those of the program's namespace
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
        let who = TaskResources {
            thread: number,
            group,
            table,
            cwd,
        };
        if let Some(old) = self.tasks.insert(id, TracedTask { who, begun: None }) {
            self.release(old.who)?;
        }
        Ok(())
    }

    /// Removes a task that has ended.
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

    /// Handles `execve` in thread `by` of a process: the thread continues under the number of `id`, and all other threads of the process have ended.
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

    fn release(&mut self, who: TaskResources) -> io::Result<()> {
        if let Some(table) = self.tables.release(who.table) {
            self.inherited = self.inherited.saturating_sub(table.len());
        }
        self.cwds.release(who.cwd);
        if let Some(group) = self.groups.release(who.group)
            && !group.is_announced
        {
            self.sink.process(group.id, &group.process)?;
        }
        Ok(())
    }

    fn copied_table(&mut self, who: TaskResources) -> io::Result<DescriptorTable> {
        let table = self.tables.get(who.table);
        if self.inherited.saturating_add(table.len()) > MAX_INHERITED {
            self.miss_once(
                "descriptors",
                "processes have more descriptors from their parents than are followed; the positions of some are unknown",
            )?;
            return Ok(DescriptorTable::new());
        }
        self.inherited += table.len();
        Ok(table.clone())
    }

    /// Gives a task its own descriptor table, no longer shared with other tasks.
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

    /// Announces processes without events to the sink, and reports calls without an end.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        for group in self.groups.values_mut().filter(|group| !group.is_announced) {
            self.sink.process(group.id, &group.process)?;
            group.is_announced = true;
        }
        let open = self.tasks.values().filter(|task| task.begun.is_some());
        self.halves.0 += open.count() as u64;
        Ok(())
    }

    /// Passes an event to the sink.
    pub(super) fn event(
        &mut self,
        done: &CompletedCall<'_>,
        op: Op,
        file: FileId,
        offset: Option<u64>,
        bytes: u64,
    ) -> io::Result<()> {
        let group = self.groups.get_mut(done.who.group);
        if !group.is_announced {
            self.sink.process(group.id, &group.process)?;
            group.is_announced = true;
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

    /// Sets a descriptor in a task's table.
    pub(super) fn install(&mut self, who: TaskResources, fd: u32, descriptor: OpenDescriptor) {
        self.tables.get_mut(who.table).insert(fd, descriptor);
    }

    /// Returns the open file to which a descriptor of a task refers; `None` if unknown.
    pub(super) fn open_file(&self, who: TaskResources, fd: u32) -> Option<Arc<OpenFile>> {
        let descriptor = self.tables.get(who.table).get(&fd)?;
        Some(Arc::clone(&descriptor.open))
    }
}

/// Returns the number in `/* 7 in strace's PID NS */`, which `--decode-pids=pidns` appends to a task number.
fn strace_number(text: &[u8]) -> Option<u64> {
    let end = memchr::memmem::find(text, b" in strace's PID NS")?;
    let begin = memchr::memrchr(b' ', &text[..end])? + 1;
    super::syntax::number(&text[begin..end])
}
