//! Reads the points and runs of the plan from the index.

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

/// The baseline of a point: the private anonymous memory of libraries in each process.
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

/// An excluded point.
#[derive(Clone, Debug)]
pub struct IndexedExclusion {
    pub point: Point,
    pub by: String,
    pub reason: String,
}

/// A run of the plan, with its outcome.
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
    /// Start of the last attempt, UTC.
    pub started: Option<String>,
    /// End of the last attempt, UTC.
    pub ended: Option<String>,
    /// State of the run's records.
    pub records: RecordsState,
    pub records_detail: Option<String>,
    /// The block for which the run is planned.
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
    /// A point that needed no further run, according to the stopping rule.
    pub struct IndexedDecision {
        /// Digest of the point.
        point: String,
        /// Number of its counted runs that had succeeded when this was decided.
        repeats: u32,
        /// Whether its confidence interval was as narrow as requested.
        is_narrow: bool,
        /// The width of the interval, and the quantity.
        reason: String,
    }
}

impl Index {
    /// Returns the points that needed no further run.
    pub fn decisions(&self) -> Result<Vec<IndexedDecision>, AnalysisError> {
        self.read("SELECT * FROM decisions ORDER BY point", [])
    }

    /// Returns the points in the order of the plan, without points that only measure the libraries' memory.
    pub fn points(&self) -> Result<Vec<IndexedPoint>, AnalysisError> {
        self.read("SELECT * FROM points WHERE NOT baseline ORDER BY seq", [])
    }

    /// Returns all points in the order of the plan.
    pub fn points_and_baselines(&self) -> Result<Vec<IndexedPoint>, AnalysisError> {
        self.read("SELECT * FROM points ORDER BY seq", [])
    }

    /// Returns the private anonymous memory of libraries, as measured in the campaign.
    pub fn baselines(&self) -> Result<Vec<IndexedBaseline>, AnalysisError> {
        self.read("SELECT * FROM baselines ORDER BY site, mpi, mapping", [])
    }

    /// Returns the excluded points, in the order of the plan.
    pub fn excluded(&self) -> Result<Vec<IndexedExclusion>, AnalysisError> {
        self.read("SELECT * FROM excluded ORDER BY seq", [])
    }

    /// Returns the runs, including warm-ups, in the order of the plan.
    pub fn runs(&self) -> Result<Vec<IndexedRun>, AnalysisError> {
        self.read("SELECT * FROM runs ORDER BY seq", [])
    }
}
