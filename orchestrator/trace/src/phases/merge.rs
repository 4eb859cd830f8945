//! Combines the phases of all processes, and groups equal phases into families.

use super::{
    accesses::{Access, ProcessAccesses, ProcessPhase, Round, SeenFile, accesses_of, ticks_of},
    log::{
        COLLECTIVE, INDIVIDUAL, NON_BLOCKING, POSIX, PhaseError, SHARED, SYNC, ViewRecord, WRITE,
    },
    model::{
        AllRanks, FORMAT, IoFile, IoModel, Loop, Marks, PerRank, PhaseFamily, PhaseOp, Ranks,
        VERSION, ViewPattern, ViewPiece,
    },
    progression::Progression,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// A phase is relevant if its I/O takes at least this share of the run's time.
const RELEVANT: f64 = 0.01;
/// Maximum number of a process's upcoming phases that are searched for the files and calls of another process's next phase.
const LOOK_AHEAD: usize = 8;
/// Two adjacent counts of communicating calls have a gap between them if their ratio is at least this; 1 is added to each count first.
const APART: u64 = 4;

/// How to determine the number of communicating calls that separates two phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separation {
    /// A phase ends where a process makes more than this number of communicating calls between two accesses.
    Ticks(u32),
    /// The number is the lower end of the widest gap between the observed numbers of communicating calls.
    Gap,
}

/// Returns the model of a run, from the logs of all processes in a directory.
///
/// # Errors
/// There is no log, a log cannot be read, or logs of some processes are missing.
pub fn io_model(dir: &Path, separation: Separation) -> Result<IoModel, PhaseError> {
    let paths = logs_in(dir)?;
    let most_ticks = match separation {
        Separation::Ticks(most) => most,
        Separation::Gap => {
            let mut all: BTreeMap<u32, u64> = BTreeMap::new();
            for path in &paths {
                for (ticks, count) in ticks_of(path)? {
                    *all.entry(ticks).or_default() += count;
                }
            }
            widest_gap(&all)
        }
    };
    let mut logs = Vec::new();
    for path in &paths {
        logs.push(accesses_of(path, most_ticks)?);
    }
    logs.sort_by_key(|log| log.rank);
    check_ranks(dir, &logs)?;
    Ok(model_of(logs, most_ticks))
}

/// Returns the model, given the accesses of all processes.
pub(super) fn model_of(logs: Vec<ProcessAccesses>, most_ticks: u32) -> IoModel {
    Merge { logs, most_ticks }.model()
}

pub(super) fn logs_in(dir: &Path) -> Result<Vec<PathBuf>, PhaseError> {
    let io = |source| PhaseError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|e| e == "mpi-io") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        let text = format!("{}: no logs of trace-mpi-io (RANK.mpi-io)", dir.display());
        return Err(PhaseError::Unusable(text));
    }
    Ok(paths)
}

fn check_ranks(dir: &Path, logs: &[ProcessAccesses]) -> Result<(), PhaseError> {
    let processes = logs.first().map_or(0, |log| log.processes);
    let have: Vec<u32> = logs.iter().map(|log| log.rank).collect();
    let missing: Vec<String> = (0..processes)
        .filter(|rank| !have.contains(rank))
        .take(8)
        .map(|rank| rank.to_string())
        .collect();
    let dir = dir.display();
    if !missing.is_empty() {
        let text = format!(
            "{dir}: logs of {} of {processes} processes are there; missing: rank {}",
            have.len(),
            missing.join(", ")
        );
        return Err(PhaseError::Unusable(text));
    }
    if logs.len() > processes as usize || logs.iter().any(|log| log.processes != processes) {
        let text = format!("{dir}: logs of several runs");
        return Err(PhaseError::Unusable(text));
    }
    Ok(())
}

/// Returns the observed number of communicating calls at the lower end of the widest gap; 0 if no gap is wide enough.
fn widest_gap(ticks: &BTreeMap<u32, u64>) -> u32 {
    let numbers: Vec<u64> = ticks.keys().map(|t| u64::from(*t)).collect();
    let gaps = numbers.windows(2).filter_map(|pair| match pair {
        [low, high] if high + 1 >= APART * (low + 1) => {
            Some((*low, (high + 1) as f64 / (low + 1) as f64))
        }
        _ => None,
    });
    let widest = gaps.max_by(|a, b| a.1.total_cmp(&b.1));
    widest.map_or(0, |(low, _)| u32::try_from(low).unwrap_or(u32::MAX))
}

struct Merge {
    logs: Vec<ProcessAccesses>,
    most_ticks: u32,
}

/// A phase of the program: for each rank the phase of its process, or `None` if the process takes no part.
type ProgramPhase<'l> = Vec<Option<&'l ProcessPhase>>;

/// The phases of a process that have not been combined yet.
struct RemainingPhases<'l>(&'l [ProcessPhase]);

/// Returns the files and kinds of calls in a phase.
fn calls(phase: &ProcessPhase) -> BTreeSet<(&str, u32)> {
    let rounds = phase.rounds.iter().flat_map(|r| &r.accesses);
    let regular = rounds.map(|a| (a.key.file.as_str(), a.key.kind));
    let irregular = phase.irregular.keys();
    regular
        .chain(irregular.map(|k| (k.file.as_str(), k.kind)))
        .collect()
}

fn is_collective(phase: &ProcessPhase) -> bool {
    calls(phase).iter().any(|(_, kind)| kind & COLLECTIVE > 0)
}

/// Returns the files and kinds of calls of the program's next phase; `None` if no phases remain. Prefers phases without collective calls; of these,
/// takes the one that the fewest other processes still have ahead behind other phases. Takes a phase with collective calls only if every process is
/// at one.
fn next_calls<'l>(rest: &[RemainingPhases<'l>]) -> Option<BTreeSet<(&'l str, u32)>> {
    let firsts = || rest.iter().filter_map(|r| r.0.first());
    let independent = firsts().filter(|p| !is_collective(p));
    let upcoming = |of: &BTreeSet<(&str, u32)>| -> usize {
        let mut count = 0;
        for r in rest
            .iter()
            .filter(|r| r.0.first().is_some_and(|p| calls(p) != *of))
        {
            let until = r.0.iter().take_while(|p| !is_collective(p));
            count += usize::from(until.take(LOOK_AHEAD).any(|p| calls(p) == *of));
        }
        count
    };
    let first = independent
        .min_by_key(|p| (upcoming(&calls(p)), p.start_ns))
        .or_else(|| firsts().min_by_key(|p| p.start_ns))?;
    Some(calls(first))
}

/// Returns whether two phases belong to one family: they may differ only in position.
fn is_alike(a: &ProcessPhase, b: &ProcessPhase) -> bool {
    let alike = |x: &Round, y: &Round| {
        (x.count, &x.shifts, x.accesses.len()) == (y.count, &y.shifts, y.accesses.len())
            && x.accesses
                .iter()
                .zip(&y.accesses)
                .all(|(p, q)| p.key == q.key && shape(p) == shape(q))
    };
    a.irregular.is_empty()
        && b.irregular.is_empty()
        && a.rounds.len() == b.rounds.len()
        && a.rounds.iter().zip(&b.rounds).all(|(x, y)| alike(x, y))
}

/// Returns the positions of an access relative to its first position.
fn shape(access: &Access) -> Vec<Progression> {
    let first = access.first();
    let pieces = access.at.iter();
    pieces
        .map(|p| Progression {
            first: p.first - first,
            levels: p.levels.clone(),
        })
        .collect()
}

/// For each round of a phase: its number of repetitions, and for each access the file, the kind, and the positions relative to the first one.
type Outline = Vec<(u64, Vec<(String, u32, Vec<Progression>)>)>;

/// Returns the calls of a phase and their order, without sizes and absolute positions.
fn outline(phase: &ProcessPhase) -> Outline {
    let of = |r: &Round| {
        let accesses = r.accesses.iter();
        let all = accesses.map(|a| (a.key.file.clone(), a.key.kind, shape(a)));
        (r.count, all.collect())
    };
    phase.rounds.iter().map(of).collect()
}

fn firsts(phase: &ProcessPhase) -> impl Iterator<Item = i64> {
    let accesses = phase.rounds.iter().flat_map(|r| &r.accesses);
    accesses.map(Access::first)
}

impl Merge {
    fn model(&self) -> IoModel {
        let (files, names) = self.files();
        let mut views: Vec<ViewPattern> = Vec::new();
        let maps: Vec<Vec<usize>> = self
            .logs
            .iter()
            .map(|log| log.views.iter().map(|v| index_of(v, &mut views)).collect())
            .collect();
        let run_s = self.logs.iter().map(|l| l.run_ns).max().unwrap_or(0) as f64 / 1e9;
        let together = self.together();
        let mut phases = Vec::new();
        let mut at = 0;
        while let Some(first) = together.get(at) {
            let rest = together.get(at + 1..).unwrap_or_default();
            let count = 1 + family_of(first, rest);
            let members = together.get(at..at + count).unwrap_or_default();
            phases.push(self.family(at, members, &names, &maps, &views, run_s));
            at += count;
        }
        let mut hosts: Vec<&str> = self.logs.iter().map(|l| l.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let without = self.logs.iter().map(|log| {
            let apart = log.ticks.iter().filter(|(ticks, _)| **ticks > 0);
            u64::from(!log.phases.is_empty()) + apart.map(|(_, n)| n).sum::<u64>()
        });
        IoModel {
            format: FORMAT.to_owned(),
            version: VERSION,
            processes: self.logs.len() as u32,
            nodes: hosts.len() as u32,
            run_s,
            marks: Marks::Communication,
            most_ticks: self.most_ticks,
            phases_without_ticks: without.max().unwrap_or(0),
            remarks: self.remarks(&files, &views),
            files,
            views,
            phases,
        }
    }

    /// Combines the phases of processes into phases of the program. Clocks of nodes differ, so only the order is used: collective calls occur in
    /// the same order in all processes, and between two of them phases with the same files and calls are combined.
    fn together(&self) -> Vec<ProgramPhase<'_>> {
        let mut rest: Vec<RemainingPhases<'_>> = self
            .logs
            .iter()
            .map(|log| RemainingPhases(&log.phases))
            .collect();
        let mut together = Vec::new();
        while let Some(next) = next_calls(&rest) {
            let mut of: ProgramPhase<'_> = vec![None; rest.len()];
            for (slot, rest) in of.iter_mut().zip(&mut rest) {
                if let Some((first, others)) = rest.0.split_first()
                    && calls(first) == next
                {
                    *slot = Some(first);
                    rest.0 = others;
                }
            }
            together.push(of);
        }
        together
    }

    fn files(&self) -> (Vec<IoFile>, BTreeMap<String, usize>) {
        let mut groups: BTreeMap<&str, Vec<&SeenFile>> = BTreeMap::new();
        for log in &self.logs {
            for (name, file) in &log.files {
                groups.entry(name).or_default().push(file);
            }
        }
        let mut names = BTreeMap::new();
        let files = groups.into_iter().filter(|(_, seen)| {
            seen.iter()
                .any(|f| f.bytes_read + f.bytes_written > 0 || f.is_mapped)
        });
        let files = files
            .enumerate()
            .map(|(i, (name, seen))| {
                names.insert(name.to_owned(), i);
                io_file(name, &seen, self.has_holes(name), self.is_irregular(name))
            })
            .collect();
        (files, names)
    }

    fn accesses(&self, file: &str) -> impl Iterator<Item = &Access> {
        let phases = self.logs.iter().flat_map(|log| &log.phases);
        let accesses = phases.flat_map(|p| &p.rounds).flat_map(|r| &r.accesses);
        accesses.filter(move |a| a.key.file == file)
    }

    fn has_holes(&self, file: &str) -> bool {
        self.accesses(file).any(|a| a.key.view > 0)
    }

    fn is_irregular(&self, file: &str) -> bool {
        let phases = self.logs.iter().flat_map(|log| &log.phases);
        let mut keys = phases.flat_map(|p| p.irregular.keys());
        keys.any(|key| key.file == file)
    }

    fn remarks(&self, files: &[IoFile], views: &[ViewPattern]) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        for log in &self.logs {
            remarks.extend(
                log.missing
                    .iter()
                    .map(|m| format!("{}: {}", m.part, m.problem)),
            );
        }
        for file in files.iter().filter(|f| f.is_mapped) {
            remarks.push(format!(
                "{}: mapped into memory for writing; writes through the mapping are invisible",
                file.name
            ));
        }
        if views.iter().any(|view| view.pieces.is_empty()) {
            remarks.push("a view has a datatype that the tracer cannot follow: its accesses are assumed to have no holes".to_owned());
        }
        if self.logs.iter().all(|log| log.phases.is_empty()) {
            remarks.push("no process read or wrote a file during the trace".to_owned());
        }
        remarks
    }

    fn family(
        &self,
        at: usize,
        members: &[ProgramPhase<'_>],
        names: &BTreeMap<String, usize>,
        maps: &[Vec<usize>],
        views: &[ViewPattern],
        run_s: f64,
    ) -> PhaseFamily {
        let present = |of: &'_ ProgramPhase<'_>| -> Vec<(u64, u64, u64)> {
            let all = of.iter().flatten();
            all.map(|p| (p.start_ns, p.think_ns, p.io_ns)).collect()
        };
        let mean = |pick: fn(&(u64, u64, u64)) -> u64, of_all: fn(Vec<u64>) -> u64| {
            let each = members
                .iter()
                .map(|of| of_all(present(of).iter().map(pick).collect()) as f64);
            each.sum::<f64>() / members.len().max(1) as f64 / 1e9
        };
        let least = |all: Vec<u64>| all.into_iter().min().unwrap_or(0);
        let most = |all: Vec<u64>| all.into_iter().max().unwrap_or(0);
        let io_s = mean(|p| p.2, most);
        let first = members.first().map(Vec::as_slice).unwrap_or_default();
        let second = members.get(1).map(Vec::as_slice);
        let is_irregular = first.iter().flatten().any(|p| !p.irregular.is_empty());
        let loops = Loops {
            names,
            maps,
            views,
            processes: self.logs.len(),
        };
        let loops = if is_irregular {
            loops.irregular(first)
        } else {
            loops.regular(first, second)
        };
        let weight = first.iter().flatten().map(|p| weight_of(p)).sum();
        PhaseFamily {
            first: at as u32 + 1,
            count: members.len() as u32,
            loops,
            weight_bytes: weight,
            is_irregular,
            start_s: present(&first.to_vec())
                .iter()
                .map(|p| p.0)
                .min()
                .unwrap_or(0) as f64
                / 1e9,
            think_s: mean(|p| p.1, least),
            io_s,
            is_relevant: io_s * members.len() as f64 >= RELEVANT * run_s,
        }
    }
}

/// Returns the number of phases directly after the first one that belong to its family: they differ from it only in their positions, which grow by a
/// constant from phase to phase.
fn family_of(first: &ProgramPhase<'_>, rest: &[ProgramPhase<'_>]) -> usize {
    let moved = |of: &ProgramPhase<'_>| -> Option<Vec<i64>> {
        let mut shifts = Vec::new();
        for (a, b) in first.iter().zip(of) {
            match (a, b) {
                (None, None) => {}
                (Some(a), Some(b)) if is_alike(a, b) => {
                    shifts.extend(firsts(a).zip(firsts(b)).map(|(x, y)| y - x));
                }
                _ => return None,
            }
        }
        Some(shifts)
    };
    let Some(step) = rest.first().and_then(moved) else {
        return 0;
    };
    let mut count = 0;
    for of in rest {
        let wanted = step.iter().map(|s| s * (count + 1));
        if moved(of).is_none_or(|found| !wanted.eq(found)) {
            break;
        }
        count += 1;
    }
    count as usize
}

fn weight_of(phase: &ProcessPhase) -> u64 {
    let of_round = |r: &Round| -> u64 {
        let each = r.accesses.iter().map(|a| a.key.bytes * a.count());
        r.count * each.sum::<u64>()
    };
    let irregular = phase
        .irregular
        .iter()
        .map(|(key, (count, ..))| key.bytes * count);
    phase.rounds.iter().map(of_round).sum::<u64>() + irregular.sum::<u64>()
}

fn io_file(name: &str, seen: &[&SeenFile], has_holes: bool, is_irregular: bool) -> IoFile {
    let kinds = seen.iter().fold(0, |all, f| all | f.kinds);
    let mut paths: Vec<&String> = seen.iter().flat_map(|f| &f.paths).collect();
    let opened = paths.len();
    paths.sort();
    paths.dedup();
    let sum = |of: fn(&SeenFile) -> u64| seen.iter().map(|f| of(f)).sum::<u64>();
    let (forward, backward) = (sum(|f| f.forward), sum(|f| f.backward));
    let access = match (has_holes, is_irregular, forward + backward) {
        (true, ..) => "strided",
        (_, true, _) => "random",
        (_, _, 0) => "sequential",
        _ => "strided",
    };
    // neither flag is set for an explicit offset
    let words = [
        (0, "explicit"),
        (INDIVIDUAL, "individual"),
        (SHARED, "shared"),
    ];
    let has = |bit: u32| {
        if bit == 0 {
            kinds & (INDIVIDUAL | SHARED) == 0
        } else {
            kinds & bit > 0
        }
    };
    let one = match paths.as_slice() {
        [only] => only.rsplit('/').next(),
        _ => None,
    };
    IoFile {
        name: one.unwrap_or(name).to_owned(),
        processes: seen
            .iter()
            .filter(|f| f.bytes_read + f.bytes_written > 0)
            .count() as u32,
        is_shared: opened > paths.len() || seen.iter().any(|f| f.processes > 1),
        is_new_each_phase: seen.iter().any(|f| f.paths.len() > 1),
        interface: if seen.iter().all(|f| f.is_posix) {
            "posix"
        } else {
            "mpi-io"
        }
        .to_owned(),
        access: access.to_owned(),
        pointers: words
            .iter()
            .filter(|(bit, _)| has(*bit))
            .map(|(_, word)| (*word).to_owned())
            .collect(),
        is_collective: kinds & COLLECTIVE > 0,
        is_blocking: kinds & NON_BLOCKING == 0,
        etype_bytes: seen.iter().map(|f| f.etype_bytes).max().unwrap_or(0).max(1),
        hints: seen.iter().flat_map(|f| f.hints.clone()).collect(),
        bytes_written: sum(|f| f.bytes_written),
        bytes_read: sum(|f| f.bytes_read),
        jumps_forward: forward,
        jumps_backward: backward,
        is_mapped: seen.iter().any(|f| f.is_mapped),
    }
}

/// Returns the index, from 1, of the view's pattern in `views`; adds the pattern if it is new.
fn index_of(view: &ViewRecord, views: &mut Vec<ViewPattern>) -> usize {
    let pieces = view.pieces.iter().flatten();
    let pattern = ViewPattern {
        etype_bytes: view.etype_bytes,
        filetype_bytes: view.filetype_bytes,
        extent: view.extent,
        pieces: pieces
            .map(|(at, bytes)| ViewPiece {
                at: at.clone(),
                bytes: *bytes,
            })
            .collect(),
    };
    let known = views.iter().position(|v| *v == pattern);
    1 + known.unwrap_or_else(|| {
        views.push(pattern);
        views.len() - 1
    })
}

struct Loops<'m> {
    names: &'m BTreeMap<String, usize>,
    maps: &'m [Vec<usize>],
    views: &'m [ViewPattern],
    processes: usize,
}

impl Loops<'_> {
    /// Returns the loops of a phase. Processes with equal outlines share their loops.
    fn regular(
        &self,
        first: &[Option<&ProcessPhase>],
        second: Option<&[Option<&ProcessPhase>]>,
    ) -> Vec<Loop> {
        let mut groups: Vec<(Outline, Vec<u32>)> = Vec::new();
        for (rank, phase) in first.iter().enumerate() {
            let Some(phase) = phase else { continue };
            let of = outline(phase);
            match groups.iter_mut().find(|(known, _)| *known == of) {
                Some((_, ranks)) => ranks.push(rank as u32),
                None => groups.push((of, vec![rank as u32])),
            }
        }
        let mut loops = Vec::new();
        for (outline, ranks) in &groups {
            for (r, (count, ops)) in outline.iter().enumerate() {
                let op = |a: usize| self.op(first, second, ranks, r, a);
                loops.push(Loop {
                    rounds: *count,
                    ops: (0..ops.len()).filter_map(op).collect(),
                });
            }
        }
        loops.retain(|l| !l.ops.is_empty());
        loops
    }

    fn op(
        &self,
        first: &[Option<&ProcessPhase>],
        second: Option<&[Option<&ProcessPhase>]>,
        ranks: &[u32],
        round: usize,
        access: usize,
    ) -> Option<PhaseOp> {
        let of = |phases: &[Option<&ProcessPhase>], rank: u32| -> Option<(Access, i64)> {
            let round = phases
                .get(rank as usize)
                .copied()
                .flatten()?
                .rounds
                .get(round)?;
            let shift = round.shifts.get(access).copied().unwrap_or(0);
            Some((round.accesses.get(access)?.clone(), shift))
        };
        let all: Vec<(Access, i64)> = ranks.iter().filter_map(|rank| of(first, *rank)).collect();
        let (one, _) = all.first()?;
        let file = *self.names.get(&one.key.file)?;
        let numbers =
            |pick: &dyn Fn(&(Access, i64)) -> i64| -> Vec<i64> { all.iter().map(pick).collect() };
        let views: Vec<i64> = all
            .iter()
            .zip(ranks)
            .map(|((a, _), rank)| self.view_of(*rank, a.key.view) as i64)
            .collect();
        let firsts = numbers(&|(a, _)| a.first());
        let per_phase: Vec<i64> = match second {
            None => vec![0],
            Some(second) => ranks
                .iter()
                .zip(&firsts)
                .filter_map(|(rank, first)| Some(of(second, *rank)?.0.first() - first))
                .collect(),
        };
        let within = numbers(&|(a, _)| a.key.within);
        let bytes = numbers(&|(a, _)| a.key.bytes as i64);
        // position of the first data byte in the file: the view maps it to an offset in its pattern
        let places: Vec<i64> = firsts
            .iter()
            .zip(&within)
            .zip(&views)
            .map(|((first, within), view)| first + self.byte_of(*view, *within))
            .collect();
        let kind = one.key.kind;
        Some(PhaseOp {
            file,
            op: op_word(kind).to_owned(),
            pointer: pointer_word(kind).to_owned(),
            is_collective: kind & COLLECTIVE > 0,
            is_blocking: kind & NON_BLOCKING == 0,
            is_posix: kind & POSIX > 0,
            ranks: if ranks.len() == self.processes {
                Ranks::All(AllRanks::All)
            } else {
                Ranks::Some(ranks.to_vec())
            },
            formula: formula(&bytes, &places, &per_phase, ranks.len()),
            request_bytes: PerRank::of(&bytes),
            view: PerRank::of(&views),
            within: PerRank::of(&within),
            first: PerRank::of(&firsts),
            at: shape(one),
            per_round: PerRank::of(&numbers(&|(_, shift)| *shift)),
            per_phase: PerRank::of(&per_phase),
        })
    }

    fn view_of(&self, rank: u32, view: usize) -> usize {
        let Some(own) = view.checked_sub(1) else {
            return 0;
        };
        let map = self.maps.get(rank as usize);
        map.and_then(|map| map.get(own)).copied().unwrap_or(0)
    }

    /// Returns the offset of data byte number `within` in a view's pattern, bytes from the beginning of the pattern.
    fn byte_of(&self, view: i64, within: i64) -> i64 {
        let pattern = usize::try_from(view - 1)
            .ok()
            .and_then(|i| self.views.get(i));
        let (mut left, mut found) = (within as u64, None);
        for piece in pattern.iter().flat_map(|p| &p.pieces) {
            piece.at.each(&mut |at| {
                if found.is_none() && left < piece.bytes {
                    found = Some(at + left as i64);
                }
                left = left.saturating_sub(piece.bytes);
            });
        }
        found.unwrap_or(within)
    }

    /// Returns a loop for each process and kind of access. The order of accesses is lost; they are spread evenly between the lowest and the highest
    /// position.
    fn irregular(&self, first: &[Option<&ProcessPhase>]) -> Vec<Loop> {
        let mut loops = Vec::new();
        for (rank, phase) in first.iter().enumerate() {
            for (key, (count, low, high)) in phase.iter().flat_map(|p| &p.irregular) {
                let Some(file) = self.names.get(&key.file) else {
                    continue;
                };
                let step = (high - low) / i64::try_from((*count).max(2) - 1).unwrap_or(i64::MAX);
                loops.push(Loop {
                    rounds: *count,
                    ops: vec![PhaseOp {
                        file: *file,
                        op: op_word(key.kind).to_owned(),
                        pointer: pointer_word(key.kind).to_owned(),
                        is_collective: key.kind & COLLECTIVE > 0,
                        is_blocking: key.kind & NON_BLOCKING == 0,
                        is_posix: key.kind & POSIX > 0,
                        ranks: Ranks::Some(vec![rank as u32]),
                        request_bytes: PerRank::Same(key.bytes as i64),
                        view: PerRank::Same(self.view_of(rank as u32, key.view) as i64),
                        within: PerRank::Same(key.within),
                        first: PerRank::Same(*low),
                        at: vec![Progression {
                            first: 0,
                            levels: Vec::new(),
                        }],
                        per_round: PerRank::Same(step),
                        per_phase: PerRank::Same(0),
                        formula: format!("between {low} and {high}"),
                    }],
                });
            }
        }
        loops
    }
}

fn op_word(kind: u32) -> &'static str {
    match (kind & SYNC, kind & WRITE) {
        (0, 0) => "read",
        (0, _) => "write",
        _ => "sync",
    }
}

fn pointer_word(kind: u32) -> &'static str {
    match (kind & SHARED, kind & INDIVIDUAL) {
        (0, 0) => "explicit",
        (0, _) => "individual",
        _ => "shared",
    }
}

/// Returns a formula for the position of the first byte, with the request size rs, the process idP (from 0), the number of processes np and the phase
/// ph (from 1). If positions are not linear in the process, the formula contains `first(idP)`.
fn formula(bytes: &[i64], places: &[i64], per_phase: &[i64], processes: usize) -> String {
    if bytes.iter().all(|n| *n == 0) {
        return "-".to_owned();
    }
    let rs = match PerRank::of(bytes) {
        PerRank::Same(rs) if rs > 0 => Some(rs),
        _ => None,
    };
    let total: i64 = bytes.iter().sum();
    let term = |n: i64, of: &str| match rs {
        _ if n == 0 => None,
        Some(rs) if n == rs => Some(format!("rs*{of}")),
        _ if n == total && processes > 1 => Some(format!("rs*np*{of}")),
        Some(rs) if n % rs == 0 => Some(format!("{}*rs*{of}", n / rs)),
        _ => Some(format!("{n}*{of}")),
    };
    let (base, of_process) = match PerRank::of(places) {
        PerRank::Same(n) => (Some(n), None),
        PerRank::Linear { first, per_process } => (Some(first), term(per_process, "idP")),
        PerRank::Each(_) => (None, Some("first(idP)".to_owned())),
    };
    let of_phase = match PerRank::of(per_phase) {
        PerRank::Same(n) => term(n, "(ph - 1)"),
        PerRank::Linear { .. } | PerRank::Each(_) => Some("step(idP)*(ph - 1)".to_owned()),
    };
    let mut terms: Vec<String> = base
        .filter(|n| *n != 0)
        .map(|n| n.to_string())
        .into_iter()
        .collect();
    terms.extend(of_process);
    terms.extend(of_phase);
    if terms.is_empty() {
        return "0".to_owned();
    }
    terms.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_gap_separates_bursts_of_calls_from_computation() {
        let ticks = |all: &[u32]| widest_gap(&all.iter().map(|t| (*t, 1)).collect());
        assert_eq!(ticks(&[0, 300, 320]), 0);
        assert_eq!(ticks(&[1, 300, 320]), 1);
        assert_eq!(ticks(&[300, 320]), 0);
        assert_eq!(ticks(&[]), 0);
    }

    #[test]
    fn a_straight_line_is_a_formula_and_others_are_tables() {
        assert_eq!(
            formula(&[40, 40], &[0, 40], &[80], 2),
            "rs*idP + rs*np*(ph - 1)"
        );
        assert_eq!(formula(&[40, 40], &[0, 4000], &[0], 2), "100*rs*idP");
        assert_eq!(
            formula(&[40, 44, 40], &[0, 7, 99], &[124], 3),
            "first(idP) + rs*np*(ph - 1)"
        );
        assert_eq!(formula(&[8], &[4096], &[0], 1), "4096");
    }
}
