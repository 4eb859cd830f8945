//! The points and runs of a campaign as tables use them.

use cvc_core::ids::PointId;
use cvc_core::point::FactorId;
use cvc_index::{IndexedExclusion, IndexedPoint, IndexedRun, RecordsState, RunOutcome, factors};
use cvc_model::stats::{Summary, block_means};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Facts that differ between the runs of a point, with their values.
pub(crate) type Mixed = BTreeMap<String, BTreeSet<String>>;

pub(crate) struct PointRow {
    pub id: PointId,
    pub factors: IndexMap<String, String>,
    pub nodes: u32,
    pub processes: u32,
    /// Number of timed checkpoints of a run.
    pub checkpoints: u32,
    /// Indices of the point's runs, including warm-ups.
    pub runs: Vec<usize>,
    pub summaries: HashMap<String, Summary>,
    /// Values of each quantity in the counted repeats, in the order of the plan.
    pub values: HashMap<String, Vec<f64>>,
    /// Repeat number of each value.
    pub repeats: HashMap<String, Vec<u32>>,
    /// Block (day or fleet) of each value, by quantity; empty if runs are not divided into blocks.
    pub blocks: HashMap<String, Vec<u32>>,
    /// Facts that differ between the counted runs of the point although they should be equal.
    pub mixed: Mixed,
}

pub(crate) struct RunRow {
    pub id: String,
    pub point: usize,
    pub warmup: bool,
    pub repeat: u32,
    pub state: RunOutcome,
    pub attempts: u32,
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub dir: Option<String>,
    /// Start of the run's last attempt, seconds since 1970.
    pub started_s: Option<f64>,
    pub records: RecordsState,
    pub records_detail: Option<String>,
    /// The block (day or fleet) for which the run was planned.
    pub block: Option<u32>,
}

pub(crate) struct ExcludedRow {
    pub factors: IndexMap<String, String>,
    pub by: String,
    pub reason: String,
}

impl From<IndexedPoint> for PointRow {
    fn from(point: IndexedPoint) -> Self {
        Self {
            factors: factors::texts(&point.point),
            nodes: point.point.mapping.nodes(),
            processes: point.point.processes(),
            checkpoints: 0,
            id: point.id,
            runs: Vec::new(),
            summaries: HashMap::new(),
            values: HashMap::new(),
            repeats: HashMap::new(),
            blocks: HashMap::new(),
            mixed: Mixed::new(),
        }
    }
}

impl From<IndexedExclusion> for ExcludedRow {
    fn from(excluded: IndexedExclusion) -> Self {
        Self {
            factors: factors::texts(&excluded.point),
            by: excluded.by,
            reason: excluded.reason,
        }
    }
}

impl PointRow {
    /// Returns the number of runs used in statistics: those that succeeded and whose records can be read.
    pub fn counted(&self, runs: &[RunRow]) -> usize {
        self.runs.iter().filter(|r| runs[**r].enters()).count()
    }

    /// Returns independent values of a quantity: of all counted repeats, or the mean of each block.
    pub fn independent(&self, quantity: &str) -> Vec<f64> {
        independent(
            self.values.get(quantity).map_or(&[][..], Vec::as_slice),
            self.blocks.get(quantity).map(Vec::as_slice),
        )
    }

    /// Returns the point's application and class, as in `npb-bt.C`.
    pub fn program(&self) -> String {
        [self.level(FactorId::App), self.level(FactorId::Class)]
            .into_iter()
            .filter(|part| !matches!(*part, "" | "-"))
            .collect::<Vec<_>>()
            .join(".")
    }

    /// Returns the level of a built-in factor; empty if the factor does not apply to the point.
    pub fn level(&self, factor: FactorId) -> &str {
        self.factor(factor.name())
    }

    /// Returns the level of a factor by its name; empty if the factor does not apply to the point.
    pub fn factor(&self, name: &str) -> &str {
        self.factors.get(name).map_or("", String::as_str)
    }
}

/// Returns independent values: all of them, or the mean of each block if there are several blocks.
pub(crate) fn independent(values: &[f64], blocks: Option<&[u32]>) -> Vec<f64> {
    match blocks {
        Some(blocks) if blocks.iter().any(|block| *block != blocks[0]) => block_means(
            &blocks
                .iter()
                .copied()
                .zip(values.iter().copied())
                .collect::<Vec<_>>(),
        ),
        Some(_) | None => values.to_vec(),
    }
}

impl RunRow {
    /// Creates the row of a run; `point` is the index of the run's point.
    pub fn new(point: usize, run: IndexedRun) -> Self {
        let IndexedRun {
            id,
            point: _,
            warmup,
            repeat,
            state,
            attempts,
            cause,
            detail,
            dir,
            started,
            ended: _,
            records,
            records_detail,
            block,
        } = run;
        let started_s = started
            .and_then(|at| at.parse::<jiff::Timestamp>().ok())
            .map(|at| at.as_millisecond() as f64 / 1000.0);
        Self {
            id,
            point,
            warmup,
            repeat,
            state,
            attempts,
            cause,
            detail,
            dir,
            started_s,
            records,
            records_detail,
            block,
        }
    }

    /// Returns whether this run is a counted repeat that succeeded.
    pub fn counts(&self) -> bool {
        !self.warmup && self.state == RunOutcome::Succeeded
    }

    /// Returns whether this run is used in statistics: it is a counted repeat that succeeded, and its records can be read.
    pub fn enters(&self) -> bool {
        self.counts() && self.records.is_readable()
    }
}
