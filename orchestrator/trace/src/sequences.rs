//! Sizes of operations in order, by process, and detection of repeated sequences.

use crate::findings::size;
use crate::profile::{is_of_run, role_of};
use crate::sink::name_of;
use crate::{Api, Event, FileId, Missing, Op, Process, ProcessId, Sink};
use serde::Serialize;
use std::{collections::HashMap, io};

/// Maximum number of operations of a process on files of one role that are kept; later ones are only counted.
const MAX_OPERATIONS: usize = 4096;

/// Maximum number of pairs of process and role that are kept.
const MAX_STREAMS: usize = 256;

/// Maximum length of a repeated sequence, in steps.
const LONGEST: usize = 64;

/// Minimum share of the operations that a repeated sequence must cover to be reported.
const MIN_COVERED: f64 = 0.5;

/// Maximum number of steps in a description.
const WRITTEN_STEPS: usize = 8;

/// Consecutive operations of the same kind and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Kind: `read` or `write`.
    pub operation: &'static str,
    /// Bytes of each operation.
    pub bytes: u64,
    /// Number of operations.
    pub count: u64,
}

/// A sequence of steps that is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repetition {
    /// Index of its first operation, from 0.
    pub first: u64,
    /// Number of repetitions.
    pub times: u64,
    /// The steps of the sequence.
    pub steps: Vec<Step>,
}

/// Reads and writes, in order, of processes on files of one role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationOrder {
    /// Name of the files, without numbers.
    pub role: String,
    /// The lowest interface that moved bytes of the files.
    pub interface: &'static str,
    /// The processes with exactly this order, such as `rank 3` or `pid 4711`.
    pub processes: Vec<String>,
    /// Number of reads and writes of each process.
    pub operations: u64,
    /// Bytes moved by each process.
    pub bytes: u64,
    /// The operations in order; at most the first 4096.
    pub steps: Vec<Step>,
    /// The repeated sequence that covers the most operations.
    pub repeated: Option<Repetition>,
    /// The repetition, described as text.
    pub words: String,
}

/// The operations of one process on files of one role.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Start time, kind and bytes of each operation that is kept.
    kept: Vec<(u64, Op, u64)>,
    operations: u64,
    bytes: u64,
}

/// The orders found, and the amount not examined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Orders {
    /// Orders by role, in descending order of bytes; processes with the same order share an entry.
    pub orders: Vec<OperationOrder>,
    /// Number of reads and writes of further processes and roles, whose order was not examined.
    pub left_out: u64,
}

/// A [`Sink`] that keeps the first reads and writes of each process and role.
#[derive(Clone, Debug, Default)]
pub struct OrderSink {
    processes: HashMap<ProcessId, Process>,
    /// Index of each role, by its name.
    roles: HashMap<String, u32>,
    /// Index of each file's role.
    files: HashMap<FileId, u32>,
    streams: HashMap<(u32, Api, ProcessId), Stream>,
    left_out: u64,
}

impl OrderSink {
    /// Returns the orders of all processes.
    pub fn finish(self) -> Orders {
        let mut names: Vec<&str> = vec![""; self.roles.len()];
        for (role, number) in &self.roles {
            names[*number as usize] = role;
        }
        let mut lowest: HashMap<u32, Api> = HashMap::new();
        for (role, api, _) in self.streams.keys() {
            let found = lowest.entry(*role).or_insert(*api);
            if api.height() < found.height() {
                *found = *api;
            }
        }
        let mut streams: Vec<_> = self.streams.into_iter().collect();
        streams.retain(|((role, api, _), _)| lowest[role] == *api);
        streams.sort_by_key(|((role, _, process), _)| (names[*role as usize], *process));
        let mut orders: Vec<OperationOrder> = Vec::new();
        for ((role, api, id), mut stream) in streams {
            let role = names[role as usize];
            stream.kept.sort_by_key(|(start_ns, ..)| *start_ns);
            let steps = steps(&stream.kept);
            let process = name_of(self.processes.get(&id), id);
            let alike = orders.iter_mut().find(|of| {
                (of.role.as_str(), of.operations, &of.steps) == (role, stream.operations, &steps)
            });
            match alike {
                Some(of) => of.processes.push(process),
                None => {
                    let repeated = repetition(&steps);
                    orders.push(OperationOrder {
                        interface: api.word(),
                        processes: vec![process],
                        operations: stream.operations,
                        bytes: stream.bytes,
                        words: words(&steps, repeated.as_ref(), stream.operations),
                        role: role.to_owned(),
                        steps,
                        repeated,
                    });
                }
            }
        }
        let all = |of: &OperationOrder| of.bytes.saturating_mul(of.processes.len() as u64);
        orders.sort_by_key(|of| std::cmp::Reverse(all(of)));
        Orders {
            orders,
            left_out: self.left_out,
        }
    }
}

impl Sink for OrderSink {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.processes.insert(id, process.clone());
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        if is_of_run(path) {
            let (role, next) = (
                role_of(&String::from_utf8_lossy(path)),
                self.roles.len() as u32,
            );
            self.files
                .insert(id, *self.roles.entry(role).or_insert(next));
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.failed || !event.op.is_data() || event.bytes == 0 {
            return Ok(());
        }
        let Some(role) = self.files.get(&event.file) else {
            return Ok(());
        };
        let key = (*role, event.api, event.process);
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&key) {
            self.left_out += 1;
            return Ok(());
        }
        let stream = self.streams.entry(key).or_default();
        stream.operations += 1;
        stream.bytes = stream.bytes.saturating_add(event.bytes);
        if stream.kept.len() < MAX_OPERATIONS {
            stream.kept.push((event.start_ns, event.op, event.bytes));
        }
        Ok(())
    }

    fn missing(&mut self, _: &Missing) -> io::Result<()> {
        Ok(())
    }
}

/// Combines consecutive operations of the same kind and size to steps.
fn steps(kept: &[(u64, Op, u64)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (_, op, bytes) in kept {
        let operation = op.word();
        match steps.last_mut() {
            Some(last) if (last.operation, last.bytes) == (operation, *bytes) => last.count += 1,
            _ => steps.push(Step {
                operation,
                bytes: *bytes,
                count: 1,
            }),
        }
    }
    steps
}

/// Returns the sequence that covers the most operations, of those that occur at least twice in a row; if several cover the same number, the shortest.
/// `None` if there is none, or if it covers too small a share of all operations.
fn repetition(steps: &[Step]) -> Option<Repetition> {
    let operations = |steps: &[Step]| steps.iter().map(|step| step.count).sum::<u64>();
    let all = operations(steps);
    let mut best: Option<(u64, Repetition)> = None;
    for period in 2..=LONGEST.min(steps.len() / 2) {
        let mut start = 0;
        while start + 2 * period <= steps.len() {
            let rest = steps[start..].iter().zip(&steps[start + period..]);
            let same = rest.take_while(|(a, b)| a == b).count();
            let times = same / period + 1;
            if times >= 2 {
                let covered = operations(&steps[start..start + times * period]);
                if best.as_ref().is_none_or(|(most, _)| covered > *most) {
                    let found = Repetition {
                        first: operations(&steps[..start]),
                        times: times as u64,
                        steps: steps[start..start + period].to_vec(),
                    };
                    best = Some((covered, found));
                }
            }
            start += same.max(1);
        }
    }
    let (covered, found) = best?;
    (covered as f64 >= MIN_COVERED * all as f64).then_some(found)
}

/// Describes steps and repetition, such as `25 times (write 4096 B, 3 x write 1048576 B), after 2 other operations`.
fn words(steps: &[Step], repeated: Option<&Repetition>, operations: u64) -> String {
    let written = |steps: &[Step]| {
        let step = |of: &Step| match of.count {
            1 => format!("{} {}", of.operation, size(of.bytes as f64)),
            n => format!("{n} × {} {}", of.operation, size(of.bytes as f64)),
        };
        let mut all: Vec<String> = steps.iter().take(WRITTEN_STEPS).map(step).collect();
        if steps.len() > WRITTEN_STEPS {
            all.push("…".to_owned());
        }
        all.join(", ")
    };
    let Some(Repetition {
        first,
        times,
        steps: sequence,
    }) = repeated
    else {
        return written(steps);
    };
    let covered = times * sequence.iter().map(|step| step.count).sum::<u64>();
    let other = operations.saturating_sub(covered);
    let rest = match (other, *first) {
        (0, _) => String::new(),
        (other, first) => format!(" and {other} other operations, {first} of them before"),
    };
    format!("{times} times ({}){rest}", written(sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order of operations of one process, given as `(bytes, count)`.
    fn found(of: &[(u64, u64)]) -> OperationOrder {
        let mut sink = OrderSink::default();
        sink.file(FileId(1), b"/scratch/ckpt_7.dat").expect("keeps");
        let sizes = of
            .iter()
            .flat_map(|(bytes, count)| (0..*count).map(|_| *bytes));
        for (start_ns, bytes) in (0..).zip(sizes) {
            for rank in 0..2 {
                let event = Event {
                    process: ProcessId(rank),
                    thread: 0,
                    file: FileId(1),
                    op: Op::Write,
                    api: Api::Posix,
                    offset: None,
                    bytes,
                    start_ns,
                    duration_ns: 1,
                    failed: false,
                };
                sink.event(&event).expect("keeps");
            }
        }
        let Orders {
            orders: mut all,
            left_out,
        } = sink.finish();
        assert_eq!(left_out, 0);
        assert_eq!(all.len(), 1, "both processes do the same: {all:?}");
        all.remove(0)
    }

    #[test]
    fn sequences_that_come_again_are_found_and_named() {
        const MIB: u64 = 1 << 20;
        let mut bt = vec![(512, 2)];
        bt.extend([(4096, 1), (MIB, 3)].repeat(25));
        let order = found(&bt);
        assert_eq!(order.processes.len(), 2);
        assert_eq!(order.operations, 102);
        let repeated = order.repeated.expect("a sequence");
        assert_eq!(
            (repeated.first, repeated.times, repeated.steps.len()),
            (2, 25, 2)
        );
        assert_eq!(
            order.words,
            "25 times (write 4 KiB, 3 × write 1 MiB) and 2 other operations, 2 of them before"
        );
        // cases: a single size, all sizes different, and a sequence that covers too few operations
        assert_eq!(found(&[(MIB, 40)]).words, "40 × write 1 MiB");
        for none in [vec![(1, 1), (2, 1), (3, 1), (4, 1)], {
            let mut mostly = vec![(10, 1), (20, 1), (10, 1), (20, 1)];
            mostly.extend((100..140).map(|bytes| (bytes, 1)));
            mostly
        }] {
            assert_eq!(found(&none).repeated, None, "{none:?}");
        }
    }

    #[test]
    fn what_is_not_looked_at_is_counted() {
        let mut sink = OrderSink::default();
        sink.file(FileId(1), b"/scratch/out").expect("keeps");
        for rank in 0..300 {
            for start_ns in 0..2 {
                let event = Event {
                    process: ProcessId(rank),
                    thread: 0,
                    file: FileId(1),
                    op: Op::Write,
                    api: Api::Posix,
                    offset: None,
                    bytes: 8,
                    start_ns,
                    duration_ns: 1,
                    failed: false,
                };
                sink.event(&event).expect("keeps");
            }
        }
        let found = sink.finish();
        assert_eq!(found.orders[0].processes.len(), MAX_STREAMS);
        assert_eq!(found.left_out, 2 * (300 - MAX_STREAMS as u64));
    }
}
