//! What is known of tasks, their descriptors and what these have open.

use crate::{
    event::{FileId, ProcessId},
    files::{Inode, Known},
    sink::Process,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

/// An open file description: shared by descriptors that `dup` and `fork` made of one another.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// What is open.
    pub(super) inode: Arc<Inode>,
    /// Where the next call reads or writes.
    pub(super) position: Known,
    /// Whether every write goes to the end.
    pub(super) append: AtomicBool,
    /// Whether it has no positions: a pipe, a socket, a terminal.
    pub(super) stream: bool,
}

/// A descriptor of a process.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    /// What it refers to.
    pub(super) open: Arc<OpenFile>,
    /// Whether `execve` closes it.
    pub(super) close_on_exec: bool,
    /// Its name as `-y` showed it last, to know it again without undoing escapes.
    pub(super) shown: Option<Arc<[u8]>>,
}

/// The descriptors of a process, by their numbers.
pub(super) type Table = BTreeMap<u32, Descriptor>;

/// A process: threads share it.
#[derive(Debug)]
pub(super) struct Group {
    /// Its number in the trace.
    pub(super) id: ProcessId,
    /// What the sink is told of it.
    pub(super) process: Process,
    /// Whether the sink knows it as it is.
    pub(super) told: bool,
    /// Files that are mapped and shared: where each mapping begins, its end and its file.
    pub(super) maps: BTreeMap<u64, (u64, FileId)>,
}

/// Something that several tasks share.
#[derive(Debug)]
pub(super) struct Key<T>(usize, std::marker::PhantomData<fn() -> T>);

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

/// Things that tasks share, each with the number of those that do. A slot is used again when nobody shares it any more.
#[derive(Debug)]
pub(super) struct Shared<T> {
    slots: Vec<(T, usize)>,
    free: Vec<usize>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Default> Shared<T> {
    /// Adds something that one task has.
    pub(super) fn add(&mut self, thing: T) -> Key<T> {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = (thing, 1);
                slot
            }
            None => {
                self.slots.push((thing, 1));
                self.slots.len() - 1
            }
        };
        Key(slot, std::marker::PhantomData)
    }

    pub(super) fn get(&self, key: Key<T>) -> &T {
        &self.slots[key.0].0
    }

    pub(super) fn get_mut(&mut self, key: Key<T>) -> &mut T {
        &mut self.slots[key.0].0
    }

    /// One more task has it.
    pub(super) fn share(&mut self, key: Key<T>) -> Key<T> {
        self.slots[key.0].1 += 1;
        key
    }

    /// A task has it no more. Returns it if that was the last one.
    pub(super) fn release(&mut self, key: Key<T>) -> Option<T> {
        let slot = self.slots.get_mut(key.0)?;
        slot.1 = slot.1.saturating_sub(1);
        if slot.1 > 0 {
            return None;
        }
        self.free.push(key.0);
        Some(std::mem::take(&mut slot.0))
    }

    /// Everything that somebody has.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots
            .iter_mut()
            .filter(|(_, users)| *users > 0)
            .map(|(thing, _)| thing)
    }
}

impl Default for Group {
    fn default() -> Self {
        Self {
            id: ProcessId(0),
            process: Process::default(),
            told: true,
            maps: BTreeMap::new(),
        }
    }
}

/// The directory in which a task is, where that is known.
pub(super) type Cwd = Option<Vec<u8>>;

/// What a task has; two tasks can share each of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    /// Its number for the system; 0 where the trace does not tell.
    pub(super) thread: u64,
    pub(super) group: Key<Group>,
    pub(super) table: Key<Table>,
    pub(super) cwd: Key<Cwd>,
}

/// A task of the system: a process or a thread.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) who: Who,
    /// The call that it is in.
    pub(super) begun: Option<Begun>,
}

/// A call that has begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// Its name and the arguments that it was shown with.
    pub(super) text: Vec<u8>,
    /// When it began.
    pub(super) start_ns: u64,
}

/// Which task: the numbers of one machine are apart from those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TaskId {
    /// The machine.
    pub(super) space: u32,
    /// The task's number there; 0 of one whose number the trace does not tell.
    pub(super) number: u64,
}
