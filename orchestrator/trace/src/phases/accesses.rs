//! Combines the accesses of a process into phases.

use super::{
    log::{EventRecord, FileRecord, Log, LogRecord, PhaseError, SYNC, ViewRecord, WRITE},
    progression::{Fold, Progression},
};
use crate::sink::Missing;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// Maximum number of accesses in a repeated sequence.
const MAX_REPEATED: usize = 16;
/// Maximum number of pieces of a phase. A phase with more is irregular: only the number and the range of positions of its accesses are kept.
const MAX_PIECES: usize = 4096;

/// Properties that are equal for accesses of the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessKey {
    /// Name of the file, with digits replaced.
    pub file: String,
    /// Flags of the tracer: the kind of the call.
    pub kind: u32,
    pub bytes: u64,
    /// Index of the view's pattern, from 1; 0 if the view has no holes.
    pub view: usize,
    /// Data bytes between the beginning of the current repetition of the view's pattern and the access.
    pub within: i64,
}

/// Consecutive equal accesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    pub key: AccessKey,
    /// Positions in the file at which the view's pattern begins, for each access, bytes.
    pub at: Vec<Progression>,
}

impl Access {
    fn has_shape_of(&self, other: &Self) -> bool {
        let shape = |of: &Self| -> Vec<_> {
            let first = of.first();
            let pieces = of.at.iter();
            pieces
                .map(|p| (p.first - first, p.levels.clone()))
                .collect()
        };
        self.key == other.key && shape(self) == shape(other)
    }

    pub fn first(&self) -> i64 {
        self.at.first().map_or(0, |p| p.first)
    }

    pub fn count(&self) -> u64 {
        self.at.iter().map(Progression::len).sum()
    }
}

/// A sequence of accesses that is repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    pub accesses: Vec<Access>,
    pub count: u64,
    /// For each access, the distance from one repetition to the next, bytes.
    pub shifts: Vec<i64>,
}

impl Round {
    /// Returns the shifts if `next` is the next repetition of this round; otherwise `None`. If the round occurred only once so far, its accesses may
    /// repeat at any distance.
    fn takes(&self, next: &[Round]) -> Option<Vec<i64>> {
        let of_next: Vec<&Access> = next.iter().flat_map(|r| &r.accesses).collect();
        let is_alike = of_next.len() == self.accesses.len()
            && next.iter().all(|r| r.count == 1)
            && self
                .accesses
                .iter()
                .zip(&of_next)
                .all(|(a, b)| a.has_shape_of(b));
        let shifts = || -> Vec<i64> {
            let both = self.accesses.iter().zip(&of_next);
            both.map(|(a, b)| b.first() - a.first()).collect()
        };
        let is_next = |found: &[i64]| {
            let wanted = self.shifts.iter().map(|s| s * self.count as i64);
            self.count == 1 || wanted.eq(found.iter().copied())
        };
        is_alike.then(shifts).filter(|found| is_next(found))
    }
}

/// A phase of I/O of one process.
#[derive(Clone, Debug, Default)]
pub struct ProcessPhase {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Time within I/O calls, nanoseconds.
    pub io_ns: u64,
    /// Time since the previous phase or the beginning of the run, nanoseconds.
    pub think_ns: u64,
    pub rounds: Vec<Round>,
    /// For an irregular phase and each kind of access: number of accesses, lowest and highest position.
    pub irregular: BTreeMap<AccessKey, (u64, i64, i64)>,
    current: Option<CurrentAccess>,
}

#[derive(Clone, Debug)]
struct CurrentAccess {
    key: AccessKey,
    positions: Vec<i64>,
}

/// How a process used a file.
#[derive(Clone, Debug, Default)]
pub struct SeenFile {
    pub paths: Vec<String>,
    pub processes: u32,
    pub is_posix: bool,
    pub hints: BTreeMap<String, String>,
    pub is_mapped: bool,
    pub etype_bytes: i64,
    /// Flags of all accesses, combined.
    pub kinds: u32,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Number of accesses that begin at the end of the previous one. The next fields are the numbers of accesses that begin after it, and before it.
    pub follows: u64,
    pub forward: u64,
    pub backward: u64,
    pub end: Option<i64>,
}

/// The accesses in the log of a process.
pub struct ProcessAccesses {
    pub rank: u32,
    pub processes: u32,
    pub host: String,
    pub run_ns: u64,
    pub files: BTreeMap<String, SeenFile>,
    pub views: Vec<ViewRecord>,
    pub phases: Vec<ProcessPhase>,
    pub missing: Vec<Missing>,
    /// For each number of communicating calls between two accesses, how often it occurred.
    pub ticks: BTreeMap<u32, u64>,
}

/// Returns a name with its digits replaced, so that names that differ only in numbers are equal.
pub fn group_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut group = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            group.push(c);
        } else if !group.ends_with('#') {
            group.push('#');
        }
    }
    group
}

/// Counts the communicating calls between accesses. This is a separate first pass, because the limit that separates phases is derived from these
/// numbers.
pub fn ticks_of(path: &Path) -> Result<BTreeMap<u32, u64>, PhaseError> {
    let mut log = Log::open(path)?;
    let (mut ticks, mut is_first) = (BTreeMap::new(), true);
    while let Some(record) = log.next()? {
        if let Ok(LogRecord::Event(event)) = record {
            if !is_first {
                *ticks.entry(event.ticks).or_default() += 1;
            }
            is_first = false;
        }
    }
    Ok(ticks)
}

/// Reads a log. A phase ends where more than `most_ticks` communicating calls are between two accesses.
pub fn accesses_of(path: &Path, most_ticks: u32) -> Result<ProcessAccesses, PhaseError> {
    let mut log = Log::open(path)?;
    let header = &log.header;
    let mut all = ProcessAccesses::new(header.rank, header.processes, header.host.clone());
    let mut names: HashMap<u32, String> = HashMap::new();
    let mut views: HashMap<u32, (ViewRecord, usize)> = HashMap::new();
    while let Some(record) = log.next()? {
        match record {
            Ok(LogRecord::File(file)) => {
                names.insert(file.file, all.add_file(file));
            }
            Ok(LogRecord::View(view)) => {
                let index = all.add_view(&view);
                if let Some(of) = names.get(&view.file).and_then(|n| all.files.get_mut(n)) {
                    of.etype_bytes = view.etype_bytes;
                }
                views.insert(view.view, (view, index));
            }
            Ok(LogRecord::Hint { file, text }) => {
                let of = names.get(&file).and_then(|n| all.files.get_mut(n));
                if let (Some(of), Some((key, value))) = (of, text.split_once('=')) {
                    of.hints.insert(key.to_owned(), value.to_owned());
                }
            }
            Ok(LogRecord::Mapped(file)) => {
                if let Some(of) = names.get(&file).and_then(|n| all.files.get_mut(n)) {
                    of.is_mapped = true;
                }
            }
            Ok(LogRecord::Event(event)) => {
                if let Some(name) = names.get(&event.file).cloned() {
                    all.add_event(name, views.get(&event.view), &event, most_ticks);
                }
            }
            Ok(LogRecord::End { end_ns }) => {
                all.run_ns = end_ns;
            }
            Err(missing) => all.missing.push(missing),
        }
    }
    all.close();
    Ok(all)
}

impl ProcessAccesses {
    pub fn new(rank: u32, processes: u32, host: String) -> Self {
        Self {
            rank,
            processes,
            host,
            run_ns: 0,
            files: BTreeMap::new(),
            views: Vec::new(),
            phases: Vec::new(),
            missing: Vec::new(),
            ticks: BTreeMap::new(),
        }
    }

    /// Completes the last phase, after the last event.
    pub fn close(&mut self) {
        if let Some(last) = self.phases.last_mut() {
            last.close_access();
            self.run_ns = self.run_ns.max(last.end_ns);
        }
    }

    pub fn add_file(&mut self, file: FileRecord) -> String {
        let group = group_of(&file.path);
        let of = self.files.entry(group.clone()).or_insert_with(|| SeenFile {
            is_posix: true,
            ..SeenFile::default()
        });
        if !of.paths.contains(&file.path) && of.paths.len() < MAX_REPEATED {
            of.paths.push(file.path);
        }
        of.processes = of.processes.max(file.processes);
        of.is_posix &= file.is_posix;
        // the file is opened again, so positions start from 0
        of.end = None;
        group
    }

    /// Adds a view; views with the same pattern share an index, wherever they begin.
    fn add_view(&mut self, view: &ViewRecord) -> usize {
        let is_whole = view.extent == view.filetype_bytes
            && view
                .pieces
                .as_ref()
                .is_some_and(|p| p.len() <= 1 && p.iter().all(|(at, _)| at.levels.is_empty()));
        if is_whole {
            return 0;
        }
        let is_same = |of: &ViewRecord| {
            (of.etype_bytes, of.filetype_bytes, of.extent)
                == (view.etype_bytes, view.filetype_bytes, view.extent)
                && of.pieces == view.pieces
        };
        let known = self.views.iter().position(is_same).unwrap_or_else(|| {
            self.views.push(view.clone());
            self.views.len() - 1
        });
        known + 1
    }

    pub fn add_event(
        &mut self,
        file: String,
        view: Option<&(ViewRecord, usize)>,
        event: &EventRecord,
        most_ticks: u32,
    ) {
        let end_before = self.phases.last().map_or(0, |p| p.end_ns);
        // a phase also ends if communication precedes another kind of access; before an access of the same kind, some communication is allowed
        let follows_other = event.ticks > 0
            && self
                .phases
                .last()
                .is_some_and(|last| last.is_other(&file, event.kind));
        let is_new = self.phases.is_empty() || event.ticks > most_ticks || follows_other;
        if !self.phases.is_empty() {
            *self.ticks.entry(event.ticks).or_default() += 1;
        }
        if is_new {
            if let Some(last) = self.phases.last_mut() {
                last.close_access();
            }
            self.phases.push(ProcessPhase {
                start_ns: event.start_ns,
                think_ns: event.start_ns.saturating_sub(end_before),
                ..ProcessPhase::default()
            });
        }
        // position of the current repetition of the pattern in the file, and data bytes within it
        let (position, within, pattern) = match view {
            _ if event.kind & SYNC > 0 => (0, 0, 0),
            Some((view, index)) if *index > 0 && view.filetype_bytes > 0 => {
                let bytes = event.offset * view.etype_bytes;
                let tiles = bytes.div_euclid(view.filetype_bytes);
                (
                    view.displacement + tiles * view.extent,
                    bytes.rem_euclid(view.filetype_bytes),
                    *index,
                )
            }
            Some((view, _)) => (view.displacement + event.offset * view.etype_bytes, 0, 0),
            None => (event.offset, 0, 0),
        };
        if let Some(of) = self.files.get_mut(&file) {
            of.kinds |= event.kind;
            if event.kind & SYNC == 0 {
                if event.kind & WRITE == 0 {
                    of.bytes_read += event.bytes;
                } else {
                    of.bytes_written += event.bytes;
                }
                let reach = position + within + event.bytes as i64;
                match of.end {
                    Some(end) if end == position + within => of.follows += 1,
                    Some(end) if end > position + within => of.backward += 1,
                    Some(_) => of.forward += 1,
                    None => {}
                }
                of.end = Some(reach);
            }
        }
        let key = AccessKey {
            file,
            kind: event.kind,
            bytes: event.bytes,
            view: pattern,
            within,
        };
        if let Some(phase) = self.phases.last_mut() {
            phase.io_ns += event.end_ns.saturating_sub(event.start_ns);
            phase.end_ns = event.end_ns;
            phase.add(key, position);
        }
    }
}

impl ProcessPhase {
    /// Returns whether the last access was to another file or by another kind of call.
    fn is_other(&self, file: &str, kind: u32) -> bool {
        let last = self.current.as_ref();
        last.is_some_and(|of| of.key.file != file || of.key.kind != kind)
    }

    pub fn add(&mut self, key: AccessKey, position: i64) {
        if !self.irregular.is_empty() {
            self.add_irregular(key, 1, (position, position));
            return;
        }
        match &mut self.current {
            Some(current) if current.key == key && current.positions.len() < 1 << 16 => {
                current.positions.push(position);
            }
            _ => {
                self.close_access();
                self.current = Some(CurrentAccess {
                    key,
                    positions: vec![position],
                });
            }
        }
    }

    fn add_irregular(&mut self, key: AccessKey, count: u64, (low, high): (i64, i64)) {
        let of = self.irregular.entry(key).or_insert((0, low, high));
        *of = (of.0 + count, of.1.min(low), of.2.max(high));
    }

    pub fn close_access(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        let mut fold = Fold::default();
        current.positions.iter().for_each(|p| fold.push(*p));
        self.rounds.push(Round {
            shifts: vec![0],
            count: 1,
            accesses: vec![Access {
                key: current.key,
                at: fold.finish(),
            }],
        });
        self.fold_rounds();
        let pieces: usize = self.rounds.iter().map(|r| r.accesses.len()).sum();
        let pieces = pieces
            + self
                .rounds
                .iter()
                .flat_map(|r| &r.accesses)
                .map(|a| a.at.len())
                .sum::<usize>();
        if pieces > MAX_PIECES {
            self.give_up_order();
        }
    }

    /// Combines the last accesses if they repeat earlier ones.
    fn fold_rounds(&mut self) {
        for together in 1..=MAX_REPEATED {
            let Some(split) = self.rounds.len().checked_sub(together) else {
                return;
            };
            let (before, last) = self.rounds.split_at_mut(split);
            let Some(round) = before.last_mut() else {
                return;
            };
            if let Some(shifts) = round.takes(last) {
                if round.count == 1 {
                    round.shifts = shifts;
                }
                round.count += 1;
                self.rounds.truncate(split);
                return;
            }
            // the last rounds may repeat the same number of single rounds before them
            let Some(from) = split.checked_sub(together).filter(|_| together > 1) else {
                continue;
            };
            let (head, tail) = self.rounds.split_at(from);
            let (first, second) = tail.split_at(together);
            if first.iter().any(|r| r.count > 1) {
                continue;
            }
            let joined = Round {
                accesses: first.iter().flat_map(|r| r.accesses.clone()).collect(),
                count: 1,
                shifts: Vec::new(),
            };
            if let Some(shifts) = joined.takes(second) {
                let mut rounds = head.to_vec();
                rounds.push(Round {
                    count: 2,
                    shifts,
                    ..joined
                });
                self.rounds = rounds;
                return;
            }
        }
    }

    fn give_up_order(&mut self) {
        for round in std::mem::take(&mut self.rounds) {
            for (access, shift) in round.accesses.iter().zip(&round.shifts) {
                let count = access.count() * round.count;
                let bounds = access.at.iter().map(Progression::bounds);
                let reach = shift * (round.count as i64 - 1);
                let low = bounds.clone().map(|b| b.0).min().unwrap_or(0) + reach.min(0);
                let high = bounds.map(|b| b.1).max().unwrap_or(0) + reach.max(0);
                self.add_irregular(access.key.clone(), count, (low, high));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: u64) -> AccessKey {
        AccessKey {
            file: "out".to_owned(),
            kind: 1,
            bytes,
            view: 0,
            within: 0,
        }
    }

    #[test]
    fn a_header_and_data_in_turn_are_one_round() {
        let mut phase = ProcessPhase::default();
        for i in 0..1000 {
            phase.add(key(8), i * 4096);
            phase.add(key(100), i * 4096 + 64);
            phase.add(key(100), i * 4096 + 164);
        }
        phase.close_access();
        assert_eq!(phase.rounds.len(), 1, "{:?}", phase.rounds);
        let round = &phase.rounds[0];
        assert_eq!(
            (round.count, round.shifts.as_slice()),
            (1000, &[4096, 4096][..])
        );
        assert_eq!(round.accesses[1].count(), 2);
    }

    #[test]
    fn numbers_in_names_are_left_out() {
        assert_eq!(group_of("/work/dump.0012.dat"), "dump.#.dat");
        assert_eq!(group_of("out"), "out");
    }
}
