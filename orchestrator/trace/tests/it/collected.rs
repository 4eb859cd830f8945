//! A sink that keeps everything it receives, with queries for tests.

use cvc_trace::{Event, FileId, Missing, Op, Process, ProcessId, Sink};
use std::{collections::BTreeMap, io};

/// Everything that a reader passed on.
#[derive(Debug, Default, PartialEq)]
pub struct Collected {
    pub processes: BTreeMap<u32, Process>,
    pub files: BTreeMap<u32, Vec<u8>>,
    pub events: Vec<Event>,
    pub missing: Vec<Missing>,
}

impl Sink for Collected {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.processes.insert(id.0, process.clone());
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let before = self.files.insert(id.0, path.to_vec());
        assert!(before.is_none(), "file {id:?} was told of twice");
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        assert!(self.processes.contains_key(&event.process.0), "{event:?}");
        assert!(self.files.contains_key(&event.file.0), "{event:?}");
        assert!(!event.failed || event.bytes == 0, "{event:?}");
        self.events.push(*event);
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.missing.push(missing.clone());
        Ok(())
    }
}

impl Collected {
    /// Returns the events of one kind on a file whose path ends in `name`.
    pub fn on(&self, name: &str, op: Op) -> Vec<Event> {
        self.events
            .iter()
            .filter(|event| event.op == op && self.files[&event.file.0].ends_with(name.as_bytes()))
            .copied()
            .collect()
    }

    /// Returns the offsets and lengths of the successful events of one kind on a file.
    pub fn extents(&self, name: &str, op: Op) -> Vec<(Option<u64>, u64)> {
        self.on(name, op)
            .iter()
            .filter(|event| !event.failed)
            .map(|event| (event.offset, event.bytes))
            .collect()
    }

    /// Returns whether a missing part was reported whose part and problem contain these texts.
    pub fn misses(&self, part: &str, problem: &str) -> bool {
        self.missing
            .iter()
            .any(|gap| gap.part.contains(part) && gap.problem.contains(problem))
    }
}
