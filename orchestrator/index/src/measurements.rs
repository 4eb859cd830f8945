//! Reads measurements from the index. Each statement has a function, and its rows have a type.

#![allow(
    missing_docs,
    clippy::allow_attributes,
    reason = "fields are columns of the index, which schema.sql describes"
)]

use super::{
    Index,
    row::{FromRow, row},
    words::IndexedResult,
};
use crate::error::AnalysisError;
use cvc_core::app::descriptor::Better;
use cvc_core::record::names;
use cvc_model::stats::{Interval, Scale, Summary, Variation};
use rusqlite::Row;
use std::collections::BTreeMap;

row! {
    /// A fact about the campaign as a whole: name and value.
    pub struct MetaEntry {
        key: String,
        value: String,
    }
}

row! {
    /// The value of a quantity in a run: the mean over its checkpoints.
    pub struct RunValue {
        run: String,
        quantity: String,
        unit: String,
        value: f64,
    }
}

/// Summary of a quantity over the counted repeats of a point.
#[derive(Clone, Debug)]
pub struct PointSummary {
    pub point: String,
    pub quantity: String,
    pub summary: Summary,
}

/// A figure of merit, as declared by an application.
#[derive(Clone, Debug)]
pub struct IndexedFigure {
    pub name: String,
    /// Whether higher or lower is better; `None` if neither.
    pub better: Option<Better>,
}

row! {
    /// The images of one launcher program in a checkpoint: either those on the first node, or those on all further nodes together.
    pub struct LauncherImages {
        point: String,
        /// Name of the program.
        kind: String,
        /// Whether these are the images on the first rank's node.
        is_first: bool,
        files: f64,
        /// Mean size of a file, bytes.
        bytes: f64,
    }
}

row! {
    /// A fact of a run.
    pub struct RunFact {
        run: String,
        point: String,
        key: String,
        value: String,
    }
}

row! {
    /// How the records of one name and kind at a point were obtained.
    pub struct RecordSource {
        point: String,
        name: String,
        /// File kind, zone, rule and role, separated by spaces.
        labels: String,
        source: String,
    }
}

row! {
    /// A record about an image, or about a checkpoint as a whole.
    pub struct ImageRecord {
        name: String,
        value: f64,
        /// Name of the checkpoint; empty if the record has none.
        ckpt: String,
        rank: Option<String>,
        role: Option<String>,
        zone: Option<String>,
        sub: Option<String>,
        rule: Option<String>,
        kind: Option<String>,
    }
}

row! {
    /// Number of checkpoints in the counted runs of a point.
    pub struct CheckpointCount {
        point: String,
        /// The largest number in a run.
        checkpoints: u32,
    }
}

row! {
    /// Size of the image of a rank or of its file, bytes, in a counted run that succeeded.
    pub struct ImageSize {
        point: String,
        run: String,
        /// Name of the checkpoint; empty if the record has none.
        ckpt: String,
        /// Number of the image in the order of virtual pids.
        rank: u32,
        bytes: f64,
    }
}

row! {
    /// Bytes that a method stores for a checkpoint of a series: mean over those counted runs of a point that have the checkpoint.
    pub struct SeriesVolume {
        point: String,
        /// Name of the method, as in records.
        method: String,
        /// Number of the checkpoint, from 1.
        ckpt: u32,
        /// Whether it is the first checkpoint of the series; not all series begin with number 1.
        is_first: bool,
        /// Number of the checkpoint that it is stored against. `None` if it is stored in full, or if runs of the point differ.
        base: Option<u32>,
        bytes: f64,
    }
}

row! {
    /// A record about the stored files of a series of checkpoints: mean over those counted runs of a point that have the record.
    pub struct SeriesStored {
        point: String,
        /// Name of the method, as in records.
        method: String,
        codec: String,
        /// Size of a block, bytes.
        block: u32,
        /// Number of the checkpoint, from 1; 0 for values of the whole series.
        ckpt: u32,
        /// Whether it was stored while the program ran (label `live`).
        is_live: bool,
        value: f64,
    }
}

row! {
    /// Changes in a zone since the previous checkpoint, bytes: mean over those counted runs of a point that have the record.
    pub struct SeriesZoneVolume {
        point: String,
        zone: String,
        /// Number of the checkpoint, from 2.
        ckpt: u32,
        bytes: f64,
    }
}

row! {
    /// A checkpoint of a series in a counted run that succeeded.
    pub struct IndexedSeriesState {
        run: String,
        point: String,
        /// Number of the checkpoint, from 1.
        ckpt: u32,
        /// When it was requested, seconds since computing began. If the program took the checkpoint itself: when reading it began, seconds since the
        /// program's start.
        at_s: f64,
        bytes: f64,
    }
}

row! {
    /// Changes between two checkpoints of a series in a counted run that succeeded.
    pub struct SeriesChange {
        run: String,
        /// Number of the newer checkpoint, from 2.
        ckpt: u32,
        /// Number of the older checkpoint.
        since: u32,
        /// Zone of memory; `None`: all memory.
        zone: Option<String>,
        bytes: f64,
    }
}

row! {
    /// Size of a zone of memory in all images of a checkpoint, by the owner rules: the maximum over the checkpoints of a run.
    pub struct ZoneSize {
        run: String,
        zone: String,
        bytes: f64,
    }
}

row! {
    /// Cost of a run.
    pub struct RunCost {
        site: String,
        point: String,
        usd: Option<f64>,
        /// Dollars per hour for a node, as text.
        rate: Option<String>,
        /// Where the price comes from.
        price: Option<String>,
    }
}

row! {
    /// A request for cloud instances.
    pub struct IndexedLease {
        site: String,
        instance_type: String,
        spot: bool,
        instances: u32,
        /// Total time of all its instances, seconds.
        instance_s: f64,
        /// Total cost, dollars; `None` if unknown.
        usd: Option<f64>,
        /// Dollars per hour for one instance, as text.
        rate: Option<String>,
        /// Where the price comes from.
        price: Option<String>,
        /// Time of the order, UTC.
        intended: String,
        /// Time when the lease ended, UTC; `None` if unknown.
        ended: Option<String>,
    }
}

row! {
    /// An attempt at a run.
    pub struct IndexedAttempt {
        run: String,
        /// Time of the start, UTC.
        started: Option<String>,
        /// Time of the end, UTC; `None` if it has not ended or the time is unknown.
        ended: Option<String>,
        result: IndexedResult,
    }
}

row! {
    /// A transfer from a cloud.
    pub struct IndexedTransfer {
        site: String,
        bytes: i64,
        /// Cost, dollars; `None` if unknown.
        usd: Option<f64>,
    }
}

/// A record with its run: all columns as text, and the value as a number.
#[derive(Clone, Copy, Debug)]
pub struct LabelledRecord<'r> {
    /// Values of the columns [`LabelledRecord::COLUMNS`].
    pub text: [Option<&'r str>; 15],
    pub value: Option<f64>,
}

impl LabelledRecord<'_> {
    /// Names of the text columns; the first is the run.
    pub const COLUMNS: [&'static str; 15] = [
        "run", "run_kind", "repeat", "state", "name", "unit", "source", "artefact", "ckpt", "rank",
        "role", "image", "zone", "kind", "rule",
    ];
}

impl FromRow for PointSummary {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        let interval = |low: &str, high: &str| -> rusqlite::Result<Option<Interval>> {
            Ok(r.get::<_, Option<f64>>(low)?
                .zip(r.get::<_, Option<f64>>(high)?)
                .map(|(low, high)| Interval { low, high }))
        };
        let scale: Option<String> = r.get("ci_of")?;
        let variation = r
            .get::<_, Option<f64>>("cv")?
            .zip(r.get::<_, Option<f64>>("cv_low")?);
        let cv_high = r.get("cv_high")?;
        let count = |column: &str| {
            r.get::<_, i64>(column)
                .map(|n| usize::try_from(n).unwrap_or(0))
        };
        let summary = Summary {
            n: count("n")?,
            mean: r.get("mean")?,
            median: r.get("median")?,
            sd: r.get("sd")?,
            min: r.get("min")?,
            max: r.get("max")?,
            interval: interval("ci_low", "ci_high")?,
            interval_of: scale
                .and_then(|name| Scale::ALL.into_iter().find(|scale| scale.name() == name)),
            values_needed: r
                .get::<_, Option<i64>>("ci_needs")?
                .and_then(|n| usize::try_from(n).ok()),
            median_interval: interval("median_ci_low", "median_ci_high")?,
            variation: variation.map(|(cv, low)| Variation {
                cv,
                low,
                high: cv_high,
            }),
            mild: count("mild_outliers")?,
            severe: count("severe_outliers")?,
        };
        Ok(Self {
            point: r.get("point")?,
            quantity: r.get("quantity")?,
            summary,
        })
    }
}

impl FromRow for IndexedFigure {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        let better = match r.get::<_, String>("better")?.as_str() {
            "lower" => Some(Better::Lower),
            "higher" => Some(Better::Higher),
            _ => None,
        };
        Ok(Self {
            name: r.get("name")?,
            better,
        })
    }
}

impl<'r> LabelledRecord<'r> {
    /// Reads a record from a row that has the text columns in order, followed by the value.
    fn of(row: &'r Row<'_>) -> rusqlite::Result<Self> {
        let mut text = [None; 15];
        for (at, text) in text.iter_mut().enumerate() {
            *text = row.get_ref(at)?.as_str_or_null()?;
        }
        Ok(Self {
            text,
            value: row.get(text.len())?,
        })
    }
}

impl Index {
    /// Returns facts about the campaign as a whole, by name.
    pub fn meta(&self) -> Result<BTreeMap<String, String>, AnalysisError> {
        let entries: Vec<MetaEntry> = self.read("SELECT key, value FROM meta", [])?;
        Ok(entries
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect())
    }

    /// Reads the values of all quantities in all runs, in the order of the plan.
    pub fn each_run_value(&self, each: impl FnMut(RunValue)) -> Result<(), AnalysisError> {
        self.each(
            "SELECT run, quantity, unit, value FROM quantities ORDER BY rowid",
            [],
            each,
        )
    }

    /// Returns the summaries of all quantities at all points.
    pub fn summaries(&self) -> Result<Vec<PointSummary>, AnalysisError> {
        self.read("SELECT * FROM summaries", [])
    }

    /// Returns the figures of merit of all applications; a name occurs once for each application that declares it.
    pub fn figures(&self) -> Result<Vec<IndexedFigure>, AnalysisError> {
        self.read("SELECT name, better FROM figures ORDER BY app, name", [])
    }

    /// Reads the facts of all runs, sorted by key and value.
    pub fn each_fact(&self, each: impl FnMut(RunFact)) -> Result<(), AnalysisError> {
        self.each("SELECT f.run, r.point, f.key, f.value FROM facts f JOIN runs r ON r.id = f.run ORDER BY f.key, f.value", [], each)
    }

    /// Returns one fact for all runs that succeeded and have it, in the order of the plan.
    pub fn fact(&self, key: &str) -> Result<Vec<RunFact>, AnalysisError> {
        self.read(
            "SELECT f.run, r.point, f.key, f.value FROM facts f JOIN runs r ON r.id = f.run
             WHERE r.state = 'succeeded' AND f.key = ? ORDER BY r.seq",
            [key],
        )
    }

    /// Reads all records with their runs. Runs are in the order of the plan; records of a run are in the order in which they were added.
    pub fn each_record(
        &self,
        mut each: impl FnMut(LabelledRecord<'_>) -> Result<(), AnalysisError>,
    ) -> Result<(), AnalysisError> {
        let sql =
            "SELECT r.id, r.kind, CAST(r.repeat AS TEXT), r.state, c.name, c.unit, c.source, c.artefact, c.ckpt, c.rank, c.role, c.image,
                   c.zone, c.kind, c.rule, c.value FROM records c CROSS JOIN runs r ON r.id = c.run ORDER BY c.rowid";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.failed())?;
        let mut rows = statement.query([]).map_err(self.failed())?;
        while let Some(row) = rows.next().map_err(self.failed())? {
            each(LabelledRecord::of(row).map_err(self.failed())?)?;
        }
        Ok(())
    }

    /// Returns the distinct sources of records in the counted runs of each point.
    pub fn record_sources(&self) -> Result<Vec<RecordSource>, AnalysisError> {
        self.read(
            "SELECT DISTINCT r.point, c.name, coalesce(c.kind, '') || ' ' || coalesce(c.zone, '') || ' ' || coalesce(c.rule, '') || ' ' ||
             coalesce(c.role, '') AS labels, c.source FROM records c CROSS JOIN runs r ON r.id = c.run
             WHERE r.kind = 'measured' AND r.state = 'succeeded' AND r.records IN ('ok', 'changed')",
            [],
        )
    }

    /// Returns the number of timed checkpoints of each point.
    pub fn checkpoint_counts(&self) -> Result<Vec<CheckpointCount>, AnalysisError> {
        self.read(
            "SELECT r.point, max(c.checkpoints) AS checkpoints FROM runs r
             JOIN (SELECT run, count(*) AS checkpoints FROM records WHERE name = ? GROUP BY run) c ON c.run = r.id
             WHERE r.kind = 'measured' AND r.state = 'succeeded' GROUP BY r.point",
            [names::CKPT_LATENCY_S],
        )
    }

    /// Returns the records of a run that have a value.
    pub fn image_records(&self, run: &str) -> Result<Vec<ImageRecord>, AnalysisError> {
        self.read(
            "SELECT name, value, coalesce(ckpt, '') AS ckpt, rank, role, zone, json_extract(labels, '$.sub') AS sub, rule, kind FROM records
             WHERE run = ? AND value IS NOT NULL",
            [run],
        )
    }

    /// Reads the sizes of the images of ranks, or of their files, by checkpoint. `name` is the name of the records.
    pub fn each_image_size(
        &self,
        name: &str,
        each: impl FnMut(ImageSize),
    ) -> Result<(), AnalysisError> {
        self.each(
            "SELECT r.point, r.id AS run, coalesce(c.ckpt, '') AS ckpt, CAST(c.rank AS INTEGER) AS rank, c.value AS bytes FROM records c JOIN runs r ON r.id = c.run
             WHERE c.name = ? AND c.rank IS NOT NULL AND c.value IS NOT NULL AND r.kind = 'measured' AND r.state = 'succeeded'
             ORDER BY 1, 2, 3, 4",
            [name],
            each,
        )
    }

    /// Returns the launchers' images by program, on the first rank's node and on all other nodes together: means over the checkpoints of each
    /// point.
    pub fn launcher_images(&self) -> Result<Vec<LauncherImages>, AnalysisError> {
        self.read(
            "WITH of_point AS (SELECT c.run, c.ckpt, c.rank, c.role, json_extract(c.labels, '$.node') AS node, c.value, r.point
                 FROM records c JOIN runs r ON r.id = c.run
                 WHERE c.name = ? AND c.value IS NOT NULL AND r.kind = 'measured' AND r.state = 'succeeded'),
             first AS (SELECT run, max(node) AS node FROM of_point WHERE rank = '0' GROUP BY run),
             taken AS (SELECT point, count(DISTINCT run || ' ' || coalesce(ckpt, '')) AS checkpoints FROM of_point GROUP BY point)
             SELECT o.point, o.role AS kind, coalesce(o.node = f.node, 1) AS is_first, count(*) * 1.0 / t.checkpoints AS files, avg(o.value) AS bytes
             FROM of_point o JOIN first f ON f.run = o.run JOIN taken t ON t.point = o.point
             WHERE o.role IS NOT NULL GROUP BY o.point, o.role, 3 ORDER BY o.point, o.role, 3 DESC",
            [names::FILE_BYTES],
        )
    }

    /// Returns the costs of runs, including warm-ups, in the order in which they were recorded.
    pub fn run_costs(&self) -> Result<Vec<RunCost>, AnalysisError> {
        self.read(
            "SELECT p.site, p.id AS point, c.value AS usd, json_extract(c.labels, '$.usd_per_node_hour') AS rate,
             json_extract(c.labels, '$.price') AS price
             FROM records c JOIN runs r ON r.id = c.run JOIN points p ON p.id = r.point WHERE c.name = ? ORDER BY c.rowid",
            [names::COST_USD],
        )
    }

    /// Returns the bytes that methods store for the checkpoints of series, by point, method and checkpoint.
    pub fn series_volumes(&self) -> Result<Vec<SeriesVolume>, AnalysisError> {
        self.read(
            "SELECT p.id AS point, json_extract(c.labels, '$.method') AS method, CAST(c.ckpt AS INTEGER) AS ckpt,
                    CAST(c.ckpt AS INTEGER) = f.first AS is_first,
                    CASE WHEN min(json_extract(c.labels, '$.base')) = max(json_extract(c.labels, '$.base'))
                         THEN nullif(CAST(min(json_extract(c.labels, '$.base')) AS INTEGER), 0) END AS base,
                    avg(c.value) AS bytes
             FROM records c JOIN runs r ON r.id = c.run JOIN points p ON p.id = r.point
                  JOIN (SELECT run, min(CAST(ckpt AS INTEGER)) AS first FROM records WHERE name = ? GROUP BY run) f ON f.run = c.run
             WHERE c.name = ? AND r.kind = 'measured' AND r.state = 'succeeded'
             GROUP BY p.id, method, CAST(c.ckpt AS INTEGER), is_first ORDER BY p.seq, method, CAST(c.ckpt AS INTEGER)",
            [names::SERIES_STORED_BYTES, names::SERIES_STORED_BYTES],
        )
    }

    /// Returns records about the stored files of series, by point, method, codec, block size and checkpoint. `name` is the name of the records,
    /// such as [`names::SERIES_FILE_BYTES`].
    pub fn series_stored(&self, name: &str) -> Result<Vec<SeriesStored>, AnalysisError> {
        self.read(
            "SELECT p.id AS point, json_extract(c.labels, '$.method') AS method, json_extract(c.labels, '$.codec') AS codec,
                    CAST(json_extract(c.labels, '$.block') AS INTEGER) AS block, CAST(coalesce(c.ckpt, 0) AS INTEGER) AS ckpt,
                    coalesce(max(json_extract(c.labels, '$.live') = 'true'), 0) AS is_live, avg(c.value) AS value
             FROM records c JOIN runs r ON r.id = c.run JOIN points p ON p.id = r.point
             WHERE c.name = ? AND c.value IS NOT NULL AND r.kind = 'measured' AND r.state = 'succeeded'
                   AND json_extract(c.labels, '$.method') IS NOT NULL AND json_extract(c.labels, '$.codec') IS NOT NULL
                   AND json_extract(c.labels, '$.block') IS NOT NULL
             GROUP BY p.id, 2, 3, 4, 5 ORDER BY p.seq, 2, 3, 4, 5",
            [name],
        )
    }

    /// Returns the changes in each zone since the previous checkpoint, by point, zone and checkpoint.
    pub fn series_zone_volumes(&self) -> Result<Vec<SeriesZoneVolume>, AnalysisError> {
        self.read(
            "SELECT p.id AS point, c.zone, CAST(c.ckpt AS INTEGER) AS ckpt, avg(c.value) AS bytes
             FROM records c JOIN runs r ON r.id = c.run JOIN points p ON p.id = r.point
             WHERE c.name = ? AND c.zone IS NOT NULL AND c.value IS NOT NULL AND r.kind = 'measured' AND r.state = 'succeeded'
                   AND CAST(json_extract(c.labels, '$.since') AS INTEGER) = CAST(c.ckpt AS INTEGER) - 1
             GROUP BY p.id, c.zone, CAST(c.ckpt AS INTEGER) ORDER BY p.seq, c.zone, CAST(c.ckpt AS INTEGER)",
            [names::SERIES_ZONE_CHANGED_BYTES],
        )
    }

    /// Returns the checkpoints of all series, by run and number.
    pub fn series_states(&self) -> Result<Vec<IndexedSeriesState>, AnalysisError> {
        self.read(
            "SELECT r.id AS run, p.id AS point, CAST(a.ckpt AS INTEGER) AS ckpt, a.value AS at_s, b.value AS bytes
             FROM records a JOIN records b ON b.run = a.run AND b.ckpt = a.ckpt JOIN runs r ON r.id = a.run JOIN points p ON p.id = r.point
             WHERE a.name = ? AND b.name = ? AND a.value IS NOT NULL AND b.value IS NOT NULL
                   AND r.kind = 'measured' AND r.state = 'succeeded'
             ORDER BY p.seq, r.id, CAST(a.ckpt AS INTEGER)",
            [names::SERIES_AT_S, names::SERIES_BYTES],
        )
    }

    /// Returns the changes between checkpoints of series, in total and by zone, by run.
    pub fn series_changes(&self) -> Result<Vec<SeriesChange>, AnalysisError> {
        self.read(
            "SELECT r.id AS run, CAST(c.ckpt AS INTEGER) AS ckpt, CAST(json_extract(c.labels, '$.since') AS INTEGER) AS since, c.zone,
                    c.value AS bytes
             FROM records c JOIN runs r ON r.id = c.run
             WHERE c.name IN (?, ?) AND c.value IS NOT NULL AND r.kind = 'measured' AND r.state = 'succeeded'
                   AND json_extract(c.labels, '$.since') IS NOT NULL AND c.ckpt IS NOT NULL
             ORDER BY r.id, CAST(c.ckpt AS INTEGER), 3, c.zone",
            [names::SERIES_CHANGED_BYTES, names::SERIES_ZONE_CHANGED_BYTES],
        )
    }

    /// Returns the sizes of zones, by run.
    pub fn zone_sizes(&self) -> Result<Vec<ZoneSize>, AnalysisError> {
        self.read(
            "SELECT run, zone, max(bytes) AS bytes
             FROM (SELECT run, zone, ckpt, sum(value) AS bytes FROM records
                   WHERE name = ? AND rule = 'owner' AND zone IS NOT NULL AND value IS NOT NULL GROUP BY run, zone, ckpt)
             GROUP BY run, zone",
            [names::ZONE_BYTES],
        )
    }

    /// Returns the transfers from clouds, by site.
    pub fn transfers(&self) -> Result<Vec<IndexedTransfer>, AnalysisError> {
        self.read("SELECT site, bytes, usd FROM transfers ORDER BY site", [])
    }

    /// Returns the attempts of all runs.
    pub fn attempts(&self) -> Result<Vec<IndexedAttempt>, AnalysisError> {
        self.read(
            "SELECT run, started, ended, result FROM attempts ORDER BY run, attempt",
            [],
        )
    }

    /// Returns the requests for cloud instances, in the order of the journal.
    pub fn leases(&self) -> Result<Vec<IndexedLease>, AnalysisError> {
        self.read(
            "SELECT site, instance_type, spot, instances, instance_s, usd, CAST(usd_per_hour AS TEXT) AS rate, price, intended,
                    ended
             FROM leases ORDER BY seq",
            [],
        )
    }
}
