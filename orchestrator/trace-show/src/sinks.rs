//! Several sinks for one reading.

use cvc_trace::{Event, FileId, Missing, Process, ProcessId, Sink};
use std::io;

/// Hands everything to two sinks.
#[derive(Debug)]
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.0.process(id, process)?;
        self.1.process(id, process)
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        self.0.file(id, path)?;
        self.1.file(id, path)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.0.event(event)?;
        self.1.event(event)
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.0.missing(missing)?;
        self.1.missing(missing)
    }
}
