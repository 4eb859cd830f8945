//! Tasks, their descriptors and open files, as far as the trace shows them.

use crate::{
    event::{FileId, ProcessId},
    files::{Inode, SharedNumber},
    sink::Process,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

/// An open file description, shared by descriptors that `dup` and `fork` copied.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// The file.
    pub(super) inode: Arc<Inode>,
    /// Position of the next read or write, bytes.
    pub(super) position: SharedNumber,
    /// Whether every write appends (O_APPEND).
    pub(super) append: AtomicBool,
    /// Whether it has no position: a pipe, a socket, a terminal.
    pub(super) stream: bool,
}

/// A descriptor of a process.
#[derive(Clone, Debug)]
pub(super) struct OpenDescriptor {
    /// The open file description that it refers to.
    pub(super) open: Arc<OpenFile>,
    /// Whether `execve` closes it.
    pub(super) close_on_exec: bool,
    /// Its name as last shown by `-y`; compared as it is, so that escapes need not be decoded again.
    pub(super) shown: Option<Arc<[u8]>>,
}

/// The descriptors of a process, by number.
pub(super) type DescriptorTable = BTreeMap<u32, OpenDescriptor>;

/// A process, shared by its threads.
#[derive(Debug)]
pub(super) struct ThreadGroup {
    /// ID of the process in the trace.
    pub(super) id: ProcessId,
    /// The process as announced to the sink.
    pub(super) process: Process,
    /// Whether the sink has been informed of the present state.
    pub(super) is_announced: bool,
    /// Shared mappings of files: by start address, the end address and the file.
    pub(super) maps: BTreeMap<u64, (u64, FileId)>,
}

/// Key of a value in a [`SharedTable`].
#[derive(Debug)]
pub(super) struct TaskKey<T>(usize, std::marker::PhantomData<fn() -> T>);

impl<T> Clone for TaskKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TaskKey<T> {}

/// Values shared by tasks, each with the number of tasks that share it. The slot of an unused value is reused.
#[derive(Debug)]
pub(super) struct SharedTable<T> {
    slots: Vec<(T, usize)>,
    free: Vec<usize>,
}

impl<T> Default for SharedTable<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Default> SharedTable<T> {
    /// Adds a value that one task uses.
    pub(super) fn add(&mut self, thing: T) -> TaskKey<T> {
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
        TaskKey(slot, std::marker::PhantomData)
    }

    pub(super) fn get(&self, key: TaskKey<T>) -> &T {
        &self.slots[key.0].0
    }

    pub(super) fn get_mut(&mut self, key: TaskKey<T>) -> &mut T {
        &mut self.slots[key.0].0
    }

    /// Records that one more task uses a value.
    pub(super) fn share(&mut self, key: TaskKey<T>) -> TaskKey<T> {
        self.slots[key.0].1 += 1;
        key
    }

    /// Records that a task no longer uses a value. Returns the value if no other task uses it.
    pub(super) fn release(&mut self, key: TaskKey<T>) -> Option<T> {
        let slot = self.slots.get_mut(key.0)?;
        slot.1 = slot.1.saturating_sub(1);
        if slot.1 > 0 {
            return None;
        }
        self.free.push(key.0);
        Some(std::mem::take(&mut slot.0))
    }

    /// Returns all values in use.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots
            .iter_mut()
            .filter(|(_, users)| *users > 0)
            .map(|(thing, _)| thing)
    }
}

impl Default for ThreadGroup {
    fn default() -> Self {
        Self {
            id: ProcessId(0),
            process: Process::default(),
            is_announced: true,
            maps: BTreeMap::new(),
        }
    }
}

/// Current directory of a task, if known.
pub(super) type Cwd = Option<Vec<u8>>;

/// The resources of a task. Tasks can share each of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskResources {
    /// Thread ID; 0 if the trace does not record it.
    pub(super) thread: u64,
    pub(super) group: TaskKey<ThreadGroup>,
    pub(super) table: TaskKey<DescriptorTable>,
    pub(super) cwd: TaskKey<Cwd>,
}

/// A task of the kernel: a process or a thread.
#[derive(Debug)]
pub(super) struct TracedTask {
    pub(super) who: TaskResources,
    /// The unfinished call of the task.
    pub(super) begun: Option<StartedCall>,
}

/// A call that has begun but not ended.
#[derive(Debug, Default)]
pub(super) struct StartedCall {
    /// Name and arguments as far as shown.
    pub(super) text: Vec<u8>,
    /// Start, nanoseconds since the start of the trace.
    pub(super) start_ns: u64,
}

/// Identifies a task. Task numbers are unique only within a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TaskId {
    /// The machine.
    pub(super) space: u32,
    /// Number of the task on that machine; 0 if the trace does not record it.
    pub(super) number: u64,
}
