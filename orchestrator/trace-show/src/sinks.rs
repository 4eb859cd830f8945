//! Several sinks for one reading.

use cvc_trace::{Event, FileId, Missing, Process, ProcessId, Sink};
use std::{fmt, io};

/// Hands everything to all of its sinks, in their order.
#[derive(Default)]
pub struct All<'a>(pub Vec<&'a mut dyn Sink>);

impl fmt::Debug for All<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sinks", self.0.len())
    }
}

impl Sink for All<'_> {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.process(id, process))
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.file(id, path))
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.event(event))
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.missing(missing))
    }
}
