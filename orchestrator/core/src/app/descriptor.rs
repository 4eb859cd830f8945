//! An application descriptor file (`experiments/apps/NAME.toml`). Adding an application needs no Rust.
//!
//! Templates are handlebars in strict mode with these values:
//!
//! - `program` (the path found), `class`, `processes`, `threads` (of each process; 1 if the mapping has none), `mapping`, `nodes`, `rundir`
//! - `storage`: the run's own directory in the storage area
//! - `own_checkpoint`: true if the point's checkpointer is `application`
//! - `layout`; `per_process` and `per_node`: whether a file for each process or node is requested
//! - `strategy`, `writers` and `when_late`: how the program writes its own checkpoints
//! - `user.NAME`, and `w.NAME` for the variables of the workload

use crate::{mapping::Mapping, measured::Unit};

pub use crate::measured::Better;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An application: command line, legal process counts, workloads, figures of merit, success test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// Version of this format: 1.
    pub schema: u32,
    /// The name that campaign files use; the file is called NAME.toml.
    pub name: String,
    /// One line for tables and reports.
    pub title: String,
    /// Whether this is one of cvc's own kernels.
    #[serde(default)]
    pub kernel: bool,
    /// Program location.
    pub program: Program,
    /// Command line after the MPI launcher.
    pub command: Command,
    /// Legal process counts.
    #[serde(default)]
    pub processes: ProcessRule,
    /// Named sizes: NAS classes, sizes of a kernel.
    pub workloads: IndexMap<String, Workload>,
    /// Size variables of the workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Sizes>,
    /// Success test.
    pub success: Success,
    /// Step number in its output.
    pub progress: Option<Progress>,
    /// Figures in its output.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Its own checkpoint files, if it writes any.
    pub checkpoint: Option<OwnCheckpoint>,
    /// Counts in its output of memory pages written between checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageCounts>,
    /// I/O affected by settings.
    #[serde(default)]
    pub io: Io,
    /// Files whose size must match the program's output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputFiles>,
}

/// Program location.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// File names (templates), tried in order in the site's `app_dirs` (and in their sub-directories `<mpi name>/`, first), then on PATH.
    pub names: Vec<String>,
    /// Installation hint, shown if the program is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub install: String,
}

/// Command line of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Arguments after the program (templates). An empty result is left out.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment (templates).
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// Input files placed in the working directory before the start.
    #[serde(default)]
    pub files: Vec<InputFile>,
    /// Arguments instead of `args` when the program restarts from its own checkpoint.
    pub restart_args: Option<Vec<String>>,
}

/// Input file: its content, or a file to copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Its name in the working directory; of a copy (`source`), also its path below it.
    pub path: String,
    /// Its content (a template).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// File to copy instead, relative to the descriptor. Its content is part of a run's identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Legal process counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessRule {
    /// The family of counts.
    #[serde(default)]
    pub rule: Counts,
    /// Minimum.
    #[serde(default = "one")]
    pub min: u32,
    /// Maximum. Default: unlimited.
    pub max: Option<u32>,
    /// Regular expression with one group: the number of threads per process in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<String>,
}

fn one() -> u32 {
    1
}

impl Default for ProcessRule {
    fn default() -> Self {
        Self {
            rule: Counts::Any,
            min: 1,
            max: None,
            threads: None,
        }
    }
}

/// A family of process counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    /// 1, 2, 3, …
    #[default]
    Any,
    /// 1, 4, 9, 16, … (BT, SP)
    Square,
    /// 1, 2, 4, 8, … (CG)
    PowerOfTwo,
    /// x·y with x <= y <= 2x: 1, 2, 4, 6, 8, 9, 12, 15, … (LU)
    NearSquare,
    /// 1, 8, 27, … (LULESH)
    Cube,
}

impl Counts {
    /// Returns whether a number of processes belongs to the family.
    pub fn has(self, processes: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Square => processes.isqrt().pow(2) == processes,
            Self::PowerOfTwo => processes.is_power_of_two(),
            // Checks the divisor next to the square root, where the two sides are closest. This is what `isqrt2` of NPB 3.3's setparams and
            // LU's proc_grid search for, going the other way.
            Self::NearSquare => (1..=processes.isqrt())
                .rev()
                .find(|x| processes.is_multiple_of(*x))
                .is_some_and(|x| u64::from(processes / x) <= 2 * u64::from(x)),
            Self::Cube => (1..=1625u32).any(|r| r.checked_pow(3) == Some(processes)),
        }
    }
}

/// A named size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// One-line description.
    #[serde(default)]
    pub title: String,
    /// Values for templates, as `w.NAME`.
    #[serde(default)]
    pub vars: IndexMap<String, crate::point::UserValue>,
    /// Approximate core seconds of the whole run, for plans before the first run.
    pub core_s: Option<f64>,
    /// Approximate data in memory, all processes, MiB.
    pub data_mib: Option<f64>,
    /// Approximate files written by a whole run (solution, own checkpoints), MiB.
    pub output_mib: Option<f64>,
}

/// Success test. Exit code 0 alone does not mean success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Success {
    /// Regular expression that its output must contain (multi-line mode).
    pub pattern: String,
    /// Regular expression that its output must not contain.
    pub forbid: Option<String>,
    /// Accepted exit codes.
    #[serde(default = "default_exit_codes")]
    pub exit_codes: Vec<i32>,
}

fn default_exit_codes() -> Vec<i32> {
    vec![0]
}

/// Step number in the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Regular expression with one group: the number of the starting or completed step.
    pub step: String,
}

/// Figure in the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name of the record.
    pub name: String,
    /// Regular expression with one group: the number.
    pub pattern: String,
    /// Unit of the number after `scale`.
    pub unit: Unit,
    /// Whether less or more is better, for colours and verdicts.
    pub better: Better,
    /// Factor from the printed number to the unit.
    #[serde(default = "default_scale")]
    pub scale: f64,
    /// Choice among several matches.
    #[serde(default)]
    pub take: Take,
    /// Whether the run fails without it.
    #[serde(default)]
    pub required: bool,
}

fn default_scale() -> f64 {
    1.0
}

/// Choice among several values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// The first.
    First,
    /// The last.
    #[default]
    Last,
    /// Their sum.
    Sum,
    /// The largest.
    Max,
}

/// Size variables of workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Their names: `["nx", "ny", "nz"]`.
    pub vars: Vec<String>,
    /// Formula of the problem size, in `unit`: `nx * ny * nz`. Memory should be proportional to it. Default: the product of `vars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    /// Unit of `count`: `grid points`, `atoms`.
    pub unit: String,
    /// Whether each process has a problem of this size (weak scaling).
    #[serde(default)]
    pub each_process: bool,
    /// Formula of the operations, in any unit: `nx * ny * nz * steps`. Time should be proportional to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
    /// Workload that provides the other variables if only a size is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

impl Sizes {
    /// Returns the formula of the problem size.
    pub(super) fn formula(&self) -> String {
        self.count.clone().unwrap_or_else(|| self.vars.join(" * "))
    }

    /// Returns an example of a size as written in a workload's name: `nx=48,ny=48`.
    pub fn example(&self) -> String {
        self.vars
            .iter()
            .map(|var| format!("{var}=48"))
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// The program's own checkpoint files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OwnCheckpoint {
    /// Glob patterns (templates, relative to the working directory or absolute) of exactly the last checkpoint's files.
    pub files: Vec<String>,
    /// Formula of a checkpoint's bytes without headers, with workload variables and `processes`: `8 * n^3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Formula of the number of collective writes, in equal parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<String>,
    /// Formula of the number of these parts read during writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<String>,
    /// Regular expression with one group: seconds of one checkpoint; each match is a checkpoint.
    pub time_s: Option<String>,
    /// Regular expression with one group: the step of a checkpoint; each match is a checkpoint. Restarts must continue after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Whether `command.restart_args` restarts from them.
    #[serde(default)]
    pub restartable: bool,
    /// Ways to write checkpoints in addition to `sync`, passed as `{{strategy}}`, `{{writers}}` and `{{when_late}}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<crate::strategy::Strategy>,
    /// Layouts in addition to `strided`, passed as `{{layout}}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<crate::strategy::CheckpointLayout>,
    /// Whether it supports a file per process (`{{per_process}}`), for strategies that keep checkpoints on nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_process: bool,
    /// Regular expression with one group: seconds that one checkpoint stopped the program; each match is a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<String>,
    /// Regular expression with one group: bytes of one checkpoint, if its files can be larger; the last match counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Regular expression with one group: number of skipped checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Signal that makes the program write a checkpoint, as in `USR1`, before a reclaim. Default: none; the last checkpoint counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<CheckpointSignal>,
    /// Whether it always writes checkpoints, so points with and without own checkpoints do the same work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

impl OwnCheckpoint {
    /// Returns each regular expression that is set, with its key.
    pub fn patterns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("time_s", &self.time_s),
            ("step", &self.step),
            ("stop_s", &self.stop_s),
            ("size", &self.size),
            ("skipped", &self.skipped),
        ];
        all.into_iter()
            .filter_map(|(key, pattern)| Some((key, pattern.as_deref()?)))
    }
}

/// A signal that asks a program for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckpointSignal {
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGHUP.
    Hup,
    /// SIGTERM.
    Term,
}

impl CheckpointSignal {
    /// Returns the number of the signal on Linux.
    pub const fn number(self) -> i32 {
        match self {
            Self::Hup => 1,
            Self::Usr1 => 10,
            Self::Usr2 => 12,
            Self::Term => 15,
        }
    }
}

impl fmt::Display for CheckpointSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hup => "HUP",
            Self::Usr1 => "USR1",
            Self::Usr2 => "USR2",
            Self::Term => "TERM",
        })
    }
}

/// Counts of memory pages between checkpoints. Each pattern is a regular expression with one group, a number; the n-th match belongs to the n-th interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PageCounts {
    /// Tracked pages.
    pub tracked: String,
    /// Of these, written pages.
    pub written: String,
    /// Of these, pages with changed content.
    pub changed: String,
    /// Changed bytes in these pages.
    pub changed_bytes: String,
    /// Seconds to detect written pages.
    pub scan_s: String,
    /// Seconds to compare all pages with a copy.
    pub compare_s: String,
}

impl PageCounts {
    /// Returns each regular expression with its key.
    pub fn patterns(&self) -> [(&'static str, &str); 6] {
        [
            ("tracked", &self.tracked),
            ("written", &self.written),
            ("changed", &self.changed),
            ("changed_bytes", &self.changed_bytes),
            ("scan_s", &self.scan_s),
            ("compare_s", &self.compare_s),
        ]
    }
}

/// Files whose size the program prints. An MPI library may report success on a full disk after half of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OutputFiles {
    /// Glob patterns (templates, relative to the working directory or absolute). On node-local storage, files of all nodes count.
    pub files: Vec<String>,
    /// Regular expression with one group: total size of the files. The run fails on a mismatch beyond the printed precision; no match, no check.
    pub size: String,
    /// Factor from the printed number to bytes.
    #[serde(default = "default_scale")]
    pub scale: f64,
    /// Choice among several matches.
    #[serde(default)]
    pub take: Take,
    /// Whether the files may be larger, from an earlier part of the run.
    #[serde(default)]
    pub at_least: bool,
    /// Maximum headers and padding per file beyond the reported size, bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub header_bytes: u64,
    /// Name of a record of their actual total size. Default: only check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The program's I/O, as affected by settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Whether it writes collectively; otherwise aggregator and buffer factors are refused.
    #[serde(default)]
    pub collective: bool,
    /// Regular expression with one group: the number of writing processes, if the program prints it.
    pub writers: Option<String>,
    /// Regular expression with one group: a setting that the program says had no effect, with the reason. The run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
}

impl Descriptor {
    /// Returns whether the program writes its own checkpoint as a file for each process, because nodes keep checkpoints.
    pub fn writes_per_process(&self, strategy: crate::strategy::Strategy) -> bool {
        let may = self.checkpoint.as_ref().is_some_and(|own| own.per_process);
        may && strategy.level_scheme().is_some()
    }

    /// Returns the layout of the program's own checkpoints at a point.
    pub fn layout_of(&self, point: &crate::point::Point) -> crate::strategy::CheckpointLayout {
        if self.writes_per_process(point.strategy) {
            crate::strategy::CheckpointLayout::PerProcess
        } else {
            point.layout
        }
    }

    /// Returns whether the program's ranks write one common file, which all nodes must see.
    pub fn shares_files(&self, own_checkpoint: bool, point: &crate::point::Point) -> bool {
        self.io.collective
            && !(own_checkpoint && !self.layout_of(point).is_one_file())
            && (own_checkpoint || self.checkpoint.as_ref().is_none_or(|own| own.always))
    }
}

/// Returns the reason why a program whose ranks share a file cannot run over nodes that do not share files.
pub fn not_shared(app: &str, mapping: &Mapping, storage: &str) -> String {
    format!(
        "{app} writes one file from all ranks, and with {mapping} the nodes do not see the same files in `{storage}`: use a shared area"
    )
}

/// Returns the reason why a program with copied input files cannot run over nodes that do not share files: only one node would have the copies.
pub fn not_copied(app: &str, mapping: &Mapping, storage: &str) -> String {
    format!(
        "{app} has input files by path (`source`), which are copied on one node, and with {mapping} the other nodes do not see them in `{storage}`: use a shared area"
    )
}

/// Returns the reason why an application cannot run on this number of processes.
pub fn illegal_count(app: &str, rule: &ProcessRule, processes: u32) -> Option<String> {
    if !rule.rule.has(processes) {
        let family = match rule.rule {
            Counts::Any => "any number of",
            Counts::Square => "a square number (1, 4, 9, 16, ...) of",
            Counts::PowerOfTwo => "a power of two (1, 2, 4, 8, ...) of",
            Counts::NearSquare => "x*y (x <= y <= 2x: 1, 2, 4, 6, 8, 9, 12, 15, ...)",
            Counts::Cube => "a cube number (1, 8, 27, ...) of",
        };
        return Some(format!("{app} needs {family} processes, not {processes}"));
    }
    if processes < rule.min {
        return Some(format!(
            "{app} needs at least {} processes, not {processes}",
            rule.min
        ));
    }
    rule.max
        .filter(|max| processes > *max)
        .map(|max| format!("{app} runs on at most {max} processes, not {processes}"))
}

#[cfg(test)]
mod tests {
    use super::Counts;

    /// Checks the counts that `isqrt2` of NPB 3.3's setparams accepts.
    #[test]
    fn near_squares_are_the_counts_that_lu_accepts() {
        let found: Vec<u32> = (0..=100).filter(|p| Counts::NearSquare.has(*p)).collect();
        let wanted = [
            1, 2, 4, 6, 8, 9, 12, 15, 16, 18, 20, 24, 25, 28, 30, 32, 35, 36, 40, 42, 45, 48, 49,
            50, 54, 56, 60, 63, 64, 66, 70, 72, 77, 80, 81, 84, 88, 90, 91, 96, 98, 99, 100,
        ];
        assert_eq!(found, wanted);
        assert!(
            Counts::NearSquare.has(324)
                && !Counts::NearSquare.has(326)
                && !Counts::NearSquare.has(2 * 97)
        );
    }
}
