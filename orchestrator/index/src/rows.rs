//! The points and runs of the plan, as the index has them.

#![allow(missing_docs, clippy::allow_attributes, reason = "fields are columns of the index, which schema.sql describes")]

use super::{
    Index,
    row::{FromRow, row},
};
use crate::error::AnalysisError;
use cvc_core::{ids::PointId, point::Point, units::ByteSize};
use indexmap::IndexMap;
use rusqlite::Row;

/// The factors of a point, as the index keeps them.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedFactors {
    /// Name of the site.
    pub site: String,
    /// Name of the application.
    pub app: String,
    /// Its workload.
    pub class: String,
    /// Processes on nodes, as in `2Nx8P`.
    pub mapping: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of processes on all nodes.
    pub processes: u32,
    /// Name of the MPI library.
    pub mpi: String,
    /// What takes the checkpoints.
    pub checkpointer: String,
    /// How checkpoints are compressed.
    pub compression: String,
    /// Aggregators of collective I/O; `None`: left to the MPI library.
    pub aggregators: Option<u32>,
    /// Collective buffer; `None`: left to the MPI library.
    pub cb_buffer: Option<ByteSize>,
    /// Name of the storage.
    pub storage: String,
    /// Whether runs are restarted and must verify again, as text; `None`: nothing is checkpointed, or not known.
    pub restart_check: Option<String>,
    /// When DMTCP takes checkpoints; `None`: it takes none, or not known.
    pub moment: Option<String>,
    /// What traces the runs; `None`: not known.
    pub tracer: Option<String>,
    /// The campaign's own factors.
    pub user: IndexMap<String, serde_json::Value>,
}

/// A point of the plan.
#[derive(Clone, Debug)]
pub struct IndexedPoint {
    pub id: PointId,
    pub factors: IndexedFactors,
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
        Ok(Self { site: r.get("site")?, mpi: r.get("mpi")?, mapping: r.get("mapping")?, bytes: r.get("bytes")? })
    }
}

/// A point that does not run.
#[derive(Clone, Debug)]
pub struct IndexedExclusion {
    pub factors: IndexedFactors,
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
    pub state: String,
    pub attempts: u32,
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub dir: Option<String>,
    /// When its last attempt began, UTC.
    pub started: Option<String>,
    /// State of its records: `ok`, `changed`, `missing`, `damaged` or `none`.
    pub records: String,
    pub records_detail: Option<String>,
    /// The block that it is planned for.
    pub block: Option<u32>,
}

impl FromRow for IndexedPoint {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: PointId::from_written(&r.get::<_, String>("id")?), factors: IndexedFactors::from_row(r)? })
    }
}

impl FromRow for IndexedExclusion {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { factors: IndexedFactors::from_row(r)?, by: r.get("by")?, reason: r.get("reason")? })
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

/// The factors of a row of `points` or `excluded`.
impl FromRow for IndexedFactors {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            site: r.get("site")?,
            app: r.get("app")?,
            class: r.get("class")?,
            mapping: r.get("mapping")?,
            nodes: r.get("nodes")?,
            processes: r.get("processes")?,
            mpi: r.get("mpi")?,
            checkpointer: r.get("checkpointer")?,
            compression: r.get("compression")?,
            aggregators: r.get("aggregators")?,
            cb_buffer: r.get::<_, Option<i64>>("cb_buffer_bytes")?.map(|b| ByteSize(u64::try_from(b).unwrap_or(0))),
            storage: r.get("storage")?,
            restart_check: r.get("restart_check")?,
            moment: r.get("moment")?,
            tracer: r.get("tracer")?,
            user: serde_json::from_str(&r.get::<_, String>("user")?).unwrap_or_default(),
        })
    }
}

impl IndexedFactors {
    /// The value of a factor that every point has, or the number of its nodes, as text.
    pub fn text(&self, name: &str) -> Option<String> {
        let or_nothing = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".to_owned());
        let or_default = |v: Option<String>| v.unwrap_or_else(|| "default".to_owned());
        Some(match name {
            "site" => self.site.clone(),
            "app" => self.app.clone(),
            "class" => self.class.clone(),
            "mapping" => self.mapping.clone(),
            "nodes" => self.nodes.to_string(),
            "processes" => self.processes.to_string(),
            "mpi" => self.mpi.clone(),
            "checkpointer" => self.checkpointer.clone(),
            "compression" => self.compression.clone(),
            "aggregators" => or_default(self.aggregators.map(|n| n.to_string())),
            "cb_buffer" => or_default(self.cb_buffer.map(|b| b.to_string())),
            "storage" => self.storage.clone(),
            "restart_check" => or_nothing(&self.restart_check),
            "moment" => or_nothing(&self.moment),
            "tracer" => or_nothing(&self.tracer),
            _ => return None,
        })
    }

    /// All factors as text, with the names of [`Point::FACTORS`], then the campaign's own.
    pub fn texts(&self) -> IndexMap<String, String> {
        let mut factors: IndexMap<String, String> =
            Point::FACTORS.iter().filter_map(|name| Some(((*name).to_owned(), self.text(name)?))).collect();
        for (name, value) in &self.user {
            let text = match value {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            // A free factor that is named as one of the others is told apart.
            let name = if factors.contains_key(name) { format!("user.{name}") } else { name.clone() };
            factors.insert(name, text);
        }
        factors
    }
}
