//! Measures the phases with IOR by a published rule: each phase becomes one IOR test with its request size, bytes, files, and calls. Source:
//! PAS2P-I/O (Méndez and others), table 1. There are two differences. The block is the bytes of one task, where the paper has the bytes of all tasks.
//! Strides become segments, which IOR did not support then.

use super::place::{RunEnd, TrialPlace, TrialRuns};
use camino::Utf8PathBuf;
use cvc_core::app::{LoadedApp, load::load_text};
use cvc_engine::mpi::linked_mpi;
use cvc_model::FitError;
use cvc_model::io_phase::time_s;
use cvc_session::Trial;
use cvc_trace::phases::{IoModel, PhaseFamily, PhaseOp, ReplayOptions};
use std::{collections::BTreeMap, fmt::Write};

/// IOR requires sizes that are multiples of this, bytes.
const UNIT: u64 = 8;
const CLASS: &str = "phases";

/// An IOR test that writes or reads in place of a phase's calls.
#[derive(Clone, Debug, PartialEq)]
pub struct IorTest {
    /// Number of the first phase of the family.
    pub first: u32,
    is_write: bool,
    /// Bytes of all tasks in one phase.
    bytes: u64,
    tasks: u64,
    transfer: u64,
    block: u64,
    segments: u64,
    is_posix: bool,
    is_own_file: bool,
    is_collective: bool,
}

impl IorTest {
    /// Returns the test for the reads or for the writes of a family of phases; `None` if it has none.
    fn of(model: &IoModel, family: &PhaseFamily, is_write: bool) -> Option<Self> {
        let word = if is_write { "write" } else { "read" };
        let loops = family.loops.iter();
        let ops = loops.flat_map(|l| l.ops.iter().map(|op| (l.rounds, op)));
        let ops: Vec<(u64, &PhaseOp)> = ops.filter(|(_, op)| op.op == word).collect();
        let (_, one) = ops.first()?;
        let (mut bytes, mut calls, mut tasks) = (0, 0, 0);
        for (rounds, op) in &ops {
            let ranks = op.ranks.list(model.processes).len();
            let each = (0..ranks).map(|i| op.request_bytes.get(i).max(0) as u64);
            bytes += each.sum::<u64>() * op.calls() * rounds;
            calls += op.calls() * rounds * ranks as u64;
            tasks = tasks.max(ranks as u64);
        }
        if bytes == 0 {
            return None;
        }
        let file = model.files.get(one.file)?;
        let transfer = (bytes.div_ceil(calls)).next_multiple_of(UNIT);
        let repetitions = bytes.div_ceil(tasks * transfer).max(1);
        let (block, segments) = if file.access == "strided" {
            (transfer, repetitions)
        } else {
            (transfer * repetitions, 1)
        };
        Some(Self {
            first: family.first,
            is_write,
            bytes,
            tasks,
            transfer,
            block,
            segments,
            is_posix: one.is_posix,
            is_own_file: !file.is_shared,
            is_collective: one.is_collective && !one.is_posix,
        })
    }

    /// Returns the tests for the phases that are replayed.
    pub fn all(model: &IoModel, options: ReplayOptions) -> Vec<Self> {
        let repeated = model.phases.iter().filter(|f| options.phases_of(f) > 0);
        let both =
            repeated.flat_map(|f| [true, false].map(|is_write| Self::of(model, f, is_write)));
        both.flatten().collect()
    }

    /// Appends the test's lines to IOR's script. A read test also writes, because IOR must create the file that it reads.
    fn write_to(&self, script: &mut String, repeats: u32, sync: bool) {
        let _ = write!(
            script,
            "testFile={{{{storage}}}}/ior.out\napi={}\nnumTasks={}\ntransferSize={}\nblockSize={}\nsegmentCount={}\nfilePerProc={}\ncollective={}\n\
             writeFile=1\nreadFile={}\nkeepFile=0\nfsync={}\nrepetitions={repeats}\nRUN\n",
            if self.is_posix { "POSIX" } else { "MPIIO" },
            self.tasks,
            self.transfer,
            self.block,
            self.segments,
            u8::from(self.is_own_file),
            u8::from(self.is_collective),
            u8::from(!self.is_write),
            u8::from(sync && self.is_write),
        );
    }
}

fn app(program: &str, tests: &[IorTest], repeats: u32, sync: bool) -> Result<LoadedApp, String> {
    let mut script = "IOR START\n".to_owned();
    for test in tests {
        test.write_to(&mut script, repeats, sync);
    }
    script.push_str("IOR STOP\n");
    let text = format!(
        "schema = 1\nname = \"ior\"\ntitle = \"IOR in place of the phases of a program\"\n\
         [program]\nnames = [{program:?}]\ninstall = \"https://github.com/hpc/ior; name it with --ior\"\n\
         [command]\nargs = [\"-f\", \"ior.txt\"]\n[[command.files]]\npath = \"ior.txt\"\ncontent = {script:?}\n\
         [io]\ncollective = true\n[workloads.{CLASS}]\n[success]\npattern = '^Finished\\s+:'\nforbid = '^ERROR'\n"
    );
    load_text("ior.toml".as_ref(), &text).map_err(|errors| errors.to_string())
}

/// For each phase, by number, the time computed from IOR's bandwidths, seconds.
pub type IorTimes = Vec<(u32, f64)>;

/// Runs IOR at a place (site, library, storage area), and returns the times of the phases.
pub async fn ior(
    runs: &TrialRuns<'_>,
    place: &TrialPlace<'_>,
    programs: &[Utf8PathBuf],
    (tests, repeats, sync): (&[IorTest], u32, bool),
) -> RunEnd<Result<IorTimes, String>> {
    let family = place.family();
    let fits = |path: &&Utf8PathBuf| {
        linked_mpi(path.as_path()).is_none_or(|linked| Some(linked.family) == family)
    };
    let program = match programs.iter().find(fits) {
        Some(path) => path.as_str(),
        None if programs.is_empty() => "ior",
        None => {
            return RunEnd::Failed(format!(
                "no IOR of --ior was built with the MPI library {}",
                place.mpi
            ));
        }
    };
    match app(program, tests, repeats, sync) {
        Ok(app) => {
            let read = |trial: &Trial| times(&trial.text("stdout"), tests);
            runs.run(place, (app, CLASS), read).await
        }
        Err(problem) => RunEnd::Failed(problem),
    }
}

/// Parses the bandwidths of the tests, MiB/s: means over repetitions, in the order of the tests.
fn bandwidths(output: &str, tests: &[IorTest]) -> Option<Vec<f64>> {
    let mut parts = output.split("\nOptions:").skip(1);
    let of_test = |test: &IorTest| -> Option<f64> {
        let word = if test.is_write { "write " } else { "read " };
        let part = parts.next()?;
        let tasks = part.lines().find_map(|line| line.strip_prefix("tasks"));
        let tasks = tasks.and_then(|rest| rest.trim_start_matches([' ', ':']).trim().parse().ok());
        if tasks != Some(test.tasks) {
            return None;
        }
        let table = part
            .split_once("\nSummary of")
            .map_or(part, |(table, _)| table);
        let rates = table.lines().filter_map(|line| {
            let mut words = line.strip_prefix(word)?.split_whitespace();
            words.next()?.parse::<f64>().ok()
        });
        let rates: Vec<f64> = rates.collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    tests.iter().map(of_test).collect()
}

/// Computes the time of each phase as the sum of the times of its reads and of its writes, each the volume divided by the bandwidth. The error is the
/// message for the user.
fn times(output: &str, tests: &[IorTest]) -> Result<IorTimes, String> {
    const MIB: f64 = 1024.0 * 1024.0;
    let rates = bandwidths(output, tests).ok_or_else(|| {
        "IOR printed no bandwidth for each phase and all its tasks; it may be built with another MPI library".to_owned()
    })?;
    let mut parts: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for (test, rate) in tests.iter().zip(rates) {
        let of_phase = parts.entry(test.first).or_default();
        of_phase.push((test.bytes as f64 / MIB, rate));
    }
    let time = |(first, parts): (u32, Vec<(f64, f64)>)| Ok((first, time_s(&parts)?));
    let times = parts.into_iter().map(time);
    times
        .collect::<Result<_, FitError>>()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_trace::phases::storage_model;

    fn tests() -> Vec<IorTest> {
        let (model, _) = storage_model(4);
        let options = ReplayOptions {
            only_relevant: false,
            most_phases: None,
            think: 0.0,
        };
        IorTest::all(&model, options)
    }

    #[test]
    fn a_phase_is_an_ior_with_its_request_and_the_bytes_of_a_task() {
        let all = tests();
        let (own, collective) = (&all[0], &all[24]);
        let sizes = |of: &IorTest| (of.tasks, of.transfer, of.block, of.segments);
        // 256 calls of 4 KiB by each of 4 processes: the block is the bytes of one process, not of all
        assert_eq!(own.bytes, 4 << 20);
        assert_eq!(sizes(own), (4, 4096, 1 << 20, 1));
        assert!(own.is_posix && own.is_own_file && own.is_write);
        assert!(collective.is_collective && !collective.is_own_file && !collective.is_posix);
        let mut strided = storage_model(4).0;
        strided.files[3].access = "strided".to_owned();
        let phase = &strided.phases[24];
        let test = IorTest::of(&strided, phase, true).expect("it writes");
        assert_eq!(sizes(&test), (4, 4096, 4096, 256));
        assert_eq!(IorTest::of(&strided, phase, false), None);
    }

    /// Output of IOR 4.1 for two tests.
    const OUTPUT: &str = "IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O\n\nOptions: \napi                 : POSIX\ntasks               : 4\n\nResults: \n\n\
        access    bw(MiB/s)  IOPS\n------    ---------  ----\nwrite     2.0        156.40     0\nwrite     6.0        142.82     1\n\
        TestID              : 1\n\nOptions: \ntasks               : 4\n\nResults: \n\nwrite     19.22      1994.56    0\nread      8.0      2102.54    0\n\n\
        Summary of all tests:\nread           99.0 \nFinished            : Sat Nov 28\n";

    #[test]
    fn a_mixed_phase_takes_the_sum_of_its_reads_and_writes() {
        let all = tests();
        let [mut write, mut read] = [all[0].clone(), all[1].clone()];
        (write.first, read.first) = (7, 7);
        let both = [write, read];
        // 4 MiB at 4 MiB/s, and 4 MiB at 8 MiB/s
        assert_eq!(times(OUTPUT, &both), Ok(vec![(7, 1.5)]));
        let alone = OUTPUT.replace(": 4\n", ": 1\n");
        assert!(
            times(&alone, &both).is_err(),
            "a launcher that started four runs of one task"
        );
        assert!(times("ERROR", &both).is_err());
    }
}
