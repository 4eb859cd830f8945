//! The points and runs of the plan, as the index has them.

#![allow(
    missing_docs,
    clippy::allow_attributes,
    reason = "fields are columns of the index, which schema.sql describes"
)]

use super::{
    Index,
    row::{FromRow, row},
    words::{RecordsState, RunOutcome},
};
use crate::error::AnalysisError;
use cvc_core::ids::PointId;
use cvc_core::point::Point;
use rusqlite::Row;

/// A point of the plan.
#[derive(Clone, Debug)]
pub struct IndexedPoint {
    pub id: PointId,
    pub point: Point,
}

/// What libraries own of private anonymous memory in each process.
#[derive(Clone, Debug)]
pub struct IndexedBaseline {
    pub site: String,
    pub mpi: String,
    pub mapping: String,
    pub bytes: f64,
}

impl FromRow for IndexedBaseline {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            site: r.get("site")?,
            mpi: r.get("mpi")?,
            mapping: r.get("mapping")?,
            bytes: r.get("bytes")?,
        })
    }
}

/// A point that does not run.
#[derive(Clone, Debug)]
pub struct IndexedExclusion {
    pub point: Point,
    pub by: String,
    pub reason: String,
}

/// A run of the plan, with what became of it.
#[derive(Clone, Debug)]
pub struct IndexedRun {
    pub id: String,
    pub point: PointId,
    pub warmup: bool,
    pub repeat: u32,
    pub state: RunOutcome,
    pub attempts: u32,
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub dir: Option<String>,
    /// When its last attempt began, UTC.
    pub started: Option<String>,
    /// When it ended, UTC.
    pub ended: Option<String>,
    /// State of its records.
    pub records: RecordsState,
    pub records_detail: Option<String>,
    /// The block that it is planned for.
    pub block: Option<u32>,
}

impl FromRow for IndexedPoint {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: PointId::from_written(&r.get::<_, String>("id")?),
            point: Point::from_row(r)?,
        })
    }
}

impl FromRow for IndexedExclusion {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            point: Point::from_row(r)?,
            by: r.get("by")?,
            reason: r.get("reason")?,
        })
    }
}

impl FromRow for IndexedRun {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: r.get("id")?,
            point: PointId::from_written(&r.get::<_, String>("point")?),
            warmup: r.get::<_, String>("kind")? == "warmup",
            repeat: r.get("repeat")?,
            state: r.get("state")?,
            attempts: r.get("attempts")?,
            cause: r.get("cause")?,
            detail: r.get("detail")?,
            dir: r.get("dir")?,
            started: r.get("started")?,
            ended: r.get("ended")?,
            records: r.get("records")?,
            records_detail: r.get("records_detail")?,
            block: r.get("block")?,
        })
    }
}

row! {
    /// A point that needed no further run.
    pub struct IndexedDecision {
        /// Digest of the point.
        point: String,
        /// Its counted runs that succeeded by then.
        repeats: u32,
        /// Whether its interval was as narrow as asked.
        is_narrow: bool,
        /// How wide it is, and of what.
        reason: String,
    }
}

impl Index {
    /// The points that needed no further run.
    pub fn decisions(&self) -> Result<Vec<IndexedDecision>, AnalysisError> {
        self.read("SELECT * FROM decisions ORDER BY point", [])
    }

    /// The points, in the order of the plan, without those that only measure the libraries' memory.
    pub fn points(&self) -> Result<Vec<IndexedPoint>, AnalysisError> {
        self.read("SELECT * FROM points WHERE NOT baseline ORDER BY seq", [])
    }

    /// All points, in the order of the plan.
    pub fn points_and_baselines(&self) -> Result<Vec<IndexedPoint>, AnalysisError> {
        self.read("SELECT * FROM points ORDER BY seq", [])
    }

    /// The libraries' memory as the campaign measured it.
    pub fn baselines(&self) -> Result<Vec<IndexedBaseline>, AnalysisError> {
        self.read("SELECT * FROM baselines ORDER BY site, mpi, mapping", [])
    }

    /// The points that do not run, in the order of the plan.
    pub fn excluded(&self) -> Result<Vec<IndexedExclusion>, AnalysisError> {
        self.read("SELECT * FROM excluded ORDER BY seq", [])
    }

    /// The runs, warm-ups too, in the order of the plan.
    pub fn runs(&self) -> Result<Vec<IndexedRun>, AnalysisError> {
        self.read("SELECT * FROM runs ORDER BY seq", [])
    }
}
