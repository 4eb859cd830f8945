//! Writes every event as a line of CSV while a trace is read: memory use does not depend on the size of the trace.

use crate::{Event, FileId, Missing, Process, ProcessId, Sink};
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// The columns. Times are seconds since the start of the trace.
const HEADER: &str =
    "rank,pid,thread,host,interface,operation,offset,bytes,start_s,duration_s,failed,file\n";

/// Writes events as CSV.
#[derive(Debug)]
pub struct CsvEvents<W> {
    to: W,
    line: Vec<u8>,
    /// For each process its rank and PID, as text for a line, and its host.
    processes: HashMap<ProcessId, (String, String)>,
    files: HashMap<FileId, String>,
}

impl<W: Write> CsvEvents<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Writing fails.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(HEADER.as_bytes())?;
        Ok(Self {
            to,
            line: Vec::new(),
            processes: HashMap::new(),
            files: HashMap::new(),
        })
    }

    /// Flushes the buffer and returns the writer.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Returns a text as a CSV field: quoted if necessary, and such that spreadsheets do not run it as a formula.
pub(crate) fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Writes nanoseconds as seconds, without rounding.
fn seconds(to: &mut Vec<u8>, ns: u64) -> io::Result<()> {
    write!(to, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

impl<W: Write> Sink for CsvEvents<W> {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        let number = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
        let numbers = format!(
            "{},{},",
            number(process.rank.map(u64::from)),
            number(process.pid)
        );
        let host = format!(",{},", field(process.host.as_deref().unwrap_or_default()));
        self.processes.insert(id, (numbers, host));
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let name = format!("{}\n", field(&String::from_utf8_lossy(path)));
        self.files.insert(id, name);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        let known = self.processes.get(&event.process);
        let (numbers, host) = known.map_or((",,", ",,"), |(n, h)| (n.as_str(), h.as_str()));
        line.extend_from_slice(numbers.as_bytes());
        if event.thread != 0 {
            write!(line, "{}", event.thread)?;
        }
        line.extend_from_slice(host.as_bytes());
        write!(line, "{},{},", event.api.word(), event.op.word())?;
        if let Some(offset) = event.offset {
            write!(line, "{offset}")?;
        }
        write!(line, ",{},", event.bytes)?;
        seconds(line, event.start_ns)?;
        line.push(b',');
        seconds(line, event.duration_ns)?;
        line.extend_from_slice(if event.failed { b",true," } else { b",false," });
        let name = self.files.get(&event.file).map_or("\n", String::as_str);
        line.extend_from_slice(name.as_bytes());
        self.to.write_all(line)
    }

    fn missing(&mut self, _: &Missing) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Api, Op};

    #[test]
    fn events_are_lines_and_names_are_no_formulas() {
        let mut csv = CsvEvents::new(Vec::new()).expect("a header");
        let process = Process {
            rank: Some(3),
            pid: Some(4711),
            host: Some("n1".into()),
            program: None,
        };
        csv.process(ProcessId(0), &process).expect("kept");
        csv.file(FileId(0), b"=cmd(), \"x\"").expect("kept");
        csv.event(&Event {
            process: ProcessId(0),
            thread: 0,
            file: FileId(0),
            op: Op::Write,
            api: Api::Posix,
            offset: Some(4096),
            bytes: 10,
            start_ns: 1_500_000_007,
            duration_ns: 2_000,
            failed: false,
        })
        .expect("written");
        let text = String::from_utf8(csv.finish().expect("flushed")).expect("UTF-8");
        assert_eq!(
            text.lines().nth(1),
            Some(
                "3,4711,,n1,posix,write,4096,10,1.500000007,0.000002000,false,\"'=cmd(), \"\"x\"\"\""
            )
        );
    }
}
