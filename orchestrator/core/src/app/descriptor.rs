//! What an application descriptor file (`experiments/apps/NAME.toml`) says. Adding an application needs no Rust.
//!
//! Templates are handlebars in strict mode with these values: `program` (the path found), `class`, `processes`, `mapping`, `nodes`,
//! `rundir`, `storage` (the run's own directory in the storage area), `own_checkpoint` (true where the point's checkpointer is
//! `application`), `user.NAME`, and `w.NAME` (the variables of the workload).

use crate::{mapping::Mapping, measured::Unit};

pub use crate::measured::Better;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

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
    /// Whether this is one of cvc's own kernels; a report never calls a kernel by the name of a benchmark.
    #[serde(default)]
    pub kernel: bool,
    /// Where the program is found.
    pub program: Program,
    /// How it is started, after the MPI launcher.
    pub command: Command,
    /// Legal process counts.
    #[serde(default)]
    pub processes: ProcessRule,
    /// Named sizes: NAS classes, sizes of a kernel.
    pub workloads: IndexMap<String, Workload>,
    /// How a run proves that it worked.
    pub success: Success,
    /// How its output tells the step that it has reached.
    pub progress: Option<Progress>,
    /// What is read out of its output.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Its own checkpoint files, if it writes any.
    pub checkpoint: Option<OwnCheckpoint>,
    /// How its output tells which of its memory pages were written between two checkpoints, if it counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageCounts>,
    /// Its I/O, as far as settings act on it.
    #[serde(default)]
    pub io: Io,
    /// Files that must hold what the program says that it wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputFiles>,
}

/// Where the program is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// File names (templates), tried in order in the site's `app_dirs` (and in their sub-directories `<mpi name>/`, first), then on PATH.
    pub names: Vec<String>,
    /// How to get it, shown where it is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub install: String,
}

/// How the program is started.
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
    /// Input files that are put into the working directory before the start.
    #[serde(default)]
    pub files: Vec<InputFile>,
    /// Arguments instead of `args` when the program restarts from its own checkpoint.
    pub restart_args: Option<Vec<String>>,
}

/// An input file: its content, or the file that it is a copy of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Its name in the working directory.
    pub path: String,
    /// Its content (a template).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The file that is copied there instead, relative to the directory of the descriptor. Its content is part of what identifies a run.
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
    /// The fewest.
    #[serde(default = "one")]
    pub min: u32,
    /// The most, if there is a limit.
    pub max: Option<u32>,
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
    /// Whether a number of processes belongs to the family.
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
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// Values for templates, as `w.NAME`.
    #[serde(default)]
    pub vars: IndexMap<String, crate::point::UserValue>,
    /// Seconds of one core that the whole run takes, roughly; the plan's expected time until there are runs to learn from.
    pub core_s: Option<f64>,
    /// Data in memory over all processes, MiB, roughly.
    pub data_mib: Option<f64>,
    /// Files that a whole run writes (solution, checkpoints of its own), MiB, roughly.
    pub output_mib: Option<f64>,
}

/// How a run proves that it worked. Exit code 0 alone does not mean success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Success {
    /// Regular expression that its output must contain (multi-line mode).
    pub pattern: String,
    /// Regular expression that its output must not contain.
    pub forbid: Option<String>,
    /// Exit codes that are accepted.
    #[serde(default = "default_exit_codes")]
    pub exit_codes: Vec<i32>,
}

fn default_exit_codes() -> Vec<i32> {
    vec![0]
}

/// How the output tells the step that the program has reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Regular expression with one group: the number of the step that is starting or done.
    pub step: String,
}

/// What is read out of the output.
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
    /// When the pattern is found several times.
    #[serde(default)]
    pub take: Take,
    /// The run fails when it is missing.
    #[serde(default)]
    pub required: bool,
}

fn default_scale() -> f64 {
    1.0
}

/// Which of several values is taken.
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

/// The program's own checkpoint files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OwnCheckpoint {
    /// Glob patterns (templates, relative to the working directory or absolute) of the files of the last checkpoint, and of no other: their
    /// sizes add up to its size.
    pub files: Vec<String>,
    /// Regular expression with one group: seconds that one checkpoint took; every match is one checkpoint.
    pub time_s: Option<String>,
    /// Whether `command.restart_args` restarts from them.
    #[serde(default)]
    pub restartable: bool,
    /// Whether it writes them in every run, asked or not: its points with and without own checkpoints then do the same work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

/// Pages of its memory that a program counts, from one checkpoint to the next. All patterns are regular expressions with one group, a number; the
/// n-th match is of the n-th interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PageCounts {
    /// Pages that are watched.
    pub tracked: String,
    /// Of these, pages that were written.
    pub written: String,
    /// Of these, pages whose content changed.
    pub changed: String,
    /// Bytes that changed in them.
    pub changed_bytes: String,
    /// Seconds that it took to tell which were written.
    pub scan_s: String,
    /// Seconds that it took to compare all pages with a copy.
    pub compare_s: String,
}

impl PageCounts {
    /// Each pattern with its key.
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

/// Files that the program tells the size of. An MPI library may report success on a full disk with half of a file written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OutputFiles {
    /// Glob patterns (templates, relative to the working directory or absolute). On storage of each node's own the files of all nodes
    /// count.
    pub files: Vec<String>,
    /// Regular expression with one group: how much they hold together. The run fails if they do not, as exactly as the number is printed;
    /// where it is not found, nothing is claimed.
    pub size: String,
    /// Factor from the printed number to bytes.
    #[serde(default = "default_scale")]
    pub scale: f64,
    /// When the pattern is found several times.
    #[serde(default)]
    pub take: Take,
    /// Whether they may hold more, without limit: what an earlier part of the run wrote.
    #[serde(default)]
    pub at_least: bool,
    /// The most that the format itself adds to each file beyond what the program reports, bytes: headers and padding.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub header_bytes: u64,
    /// Name of a record of their total size as found; without it they are only checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The program's I/O, as far as settings act on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Whether it writes collectively: without it the aggregator and buffer factors have no effect and are refused.
    #[serde(default)]
    pub collective: bool,
    /// Regular expression with one group: how many processes really wrote, if the program counts them itself.
    pub writers: Option<String>,
}

impl Descriptor {
    /// Whether its ranks write one file together, which all nodes must see.
    pub fn shares_files(&self, own_checkpoint: bool) -> bool {
        self.io.collective
            && (own_checkpoint || self.checkpoint.as_ref().is_none_or(|own| own.always))
    }
}

/// The reason why a program whose ranks share a file cannot run over nodes that do not share files.
pub fn not_shared(app: &str, mapping: &Mapping, storage: &str) -> String {
    format!(
        "{app} writes one file from all ranks, and with {mapping} the nodes do not see the same files in `{storage}`: use a shared area"
    )
}

/// The reason why a program with copied input files cannot run over nodes that do not share files: they are copied on one of them.
pub fn not_copied(app: &str, mapping: &Mapping, storage: &str) -> String {
    format!(
        "{app} has input files by path (`source`), which are copied on one node, and with {mapping} the other nodes do not see them in `{storage}`: use a shared area"
    )
}

/// The reason why an application cannot run on this number of processes.
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

    /// The counts that `isqrt2` of NPB 3.3's setparams accepts.
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
