//! Exports events for ui.perfetto.dev: JSON in Chrome's trace event format, with times in microseconds.
//!
//! In this format the slices of a track must nest, but operations may overlap. Each process therefore has as many tracks per interface as it has
//! concurrent operations. For this the events are sorted by start time, in memory.

use crate::{Api, Event, FileId, Missing, Process, ProcessId, Sink};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
};

/// Maximum number of events written: browsers cannot show more, and they are sorted in memory.
const MAX_EVENTS: usize = 10_000_000;

/// Collects events and writes them.
#[derive(Debug, Default)]
pub struct Perfetto {
    events: Vec<Event>,
    processes: HashMap<ProcessId, Process>,
    files: HashMap<FileId, String>,
    left_out: u64,
}

impl Perfetto {
    /// Writes the file. Returns the number of events that were omitted because of the maximum.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write(mut self, mut to: impl Write) -> io::Result<u64> {
        self.events.sort_by_key(|e| (e.start_ns, e.process, e.api));
        to.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut before = "\n";
        let mut write = |value: serde_json::Value| -> io::Result<()> {
            let done = write!(to, "{before}{value}");
            before = ",\n";
            done
        };
        let mut ids: Vec<&ProcessId> = self.processes.keys().collect();
        ids.sort();
        for id in ids {
            let process = &self.processes[id];
            let mut name = match (process.rank, process.pid) {
                (Some(rank), _) => format!("rank {rank}"),
                (None, Some(pid)) => format!("pid {pid}"),
                (None, None) => format!("process {}", id.0),
            };
            for more in [&process.program, &process.host].into_iter().flatten() {
                name.push_str(&format!(", {more}"));
            }
            write(json!({
                "name": "process_name", "ph": "M", "pid": id.0, "tid": 0, "args": { "name": name },
            }))?;
        }
        // by process and interface: the end of the last operation in each track
        let mut tracks: BTreeMap<(ProcessId, Api), Vec<u64>> = BTreeMap::new();
        for event in &self.events {
            let ends = tracks.entry((event.process, event.api)).or_default();
            let free = ends.iter().position(|end| *end <= event.start_ns);
            let track = free.unwrap_or_else(|| {
                ends.push(0);
                ends.len() - 1
            });
            ends[track] = event.end_ns().max(event.start_ns.saturating_add(1));
            let number = event.api as usize * 1000 + track;
            let file = self.files.get(&event.file).map_or("", String::as_str);
            write(json!({
                "name": event.op.word(), "cat": event.api.word(), "ph": "X",
                "ts": micros(event.start_ns), "dur": micros(event.duration_ns),
                "pid": event.process.0, "tid": number,
                "args": { "file": file, "offset": event.offset, "bytes": event.bytes, "failed": event.failed },
            }))?;
        }
        for ((process, api), ends) in &tracks {
            for track in 0..ends.len() {
                write(json!({
                    "name": "thread_name", "ph": "M", "pid": process.0, "tid": *api as usize * 1000 + track,
                    "args": { "name": api.word() },
                }))?;
            }
        }
        to.write_all(b"\n]}\n")?;
        to.flush()?;
        Ok(self.left_out)
    }
}

/// Converts nanoseconds to microseconds.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl Sink for Perfetto {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.processes.insert(id, process.clone());
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        self.files
            .insert(id, String::from_utf8_lossy(path).into_owned());
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.events.len() < MAX_EVENTS {
            self.events.push(*event);
        } else {
            self.left_out += 1;
        }
        Ok(())
    }

    fn missing(&mut self, _: &Missing) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;
    use serde_json::Value;

    fn event(start_ns: u64, duration_ns: u64) -> Event {
        Event {
            process: ProcessId(0),
            thread: 0,
            file: FileId(0),
            op: Op::Write,
            api: Api::Posix,
            offset: Some(0),
            bytes: 1,
            start_ns,
            duration_ns,
            failed: false,
        }
    }

    fn written(perfetto: Perfetto) -> Value {
        let mut text = Vec::new();
        perfetto.write(&mut text).expect("written");
        serde_json::from_slice(&text).expect("JSON")
    }

    #[test]
    fn times_are_microseconds_in_order_and_what_overlaps_has_tracks_of_its_own() {
        let mut perfetto = Perfetto::default();
        let process = Process {
            rank: Some(0),
            ..Process::default()
        };
        perfetto.process(ProcessId(0), &process).expect("kept");
        perfetto.file(FileId(0), b"/x").expect("kept");
        for (start, duration) in [(5_000, 2_500), (1_000, 1_000), (6_000, 1_000), (8_000, 500)] {
            perfetto.event(&event(start, duration)).expect("kept");
        }
        let all = written(perfetto);
        let slices: Vec<&Value> = all["traceEvents"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|e| e["ph"] == "X")
            .collect();
        let of = |name: &str| -> Vec<f64> {
            slices
                .iter()
                .map(|e| e[name].as_f64().expect("a number"))
                .collect()
        };
        assert_eq!(of("ts"), [1.0, 5.0, 6.0, 8.0]);
        assert_eq!(of("dur"), [1.0, 2.5, 1.0, 0.5]);
        assert_eq!(of("tid"), [0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn a_trace_without_events_is_a_file_too() {
        let all = written(Perfetto::default());
        assert_eq!(all["traceEvents"].as_array().map(Vec::len), Some(0));
        let mut idle = Perfetto::default();
        idle.process(ProcessId(0), &Process::default())
            .expect("kept");
        let all = written(idle);
        assert_eq!(all["traceEvents"].as_array().map(Vec::len), Some(1));
    }
}
