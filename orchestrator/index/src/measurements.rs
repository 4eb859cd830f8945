//! What was measured, as the index has it: a function for each statement, a type for its rows.

#![allow(
    missing_docs,
    clippy::allow_attributes,
    reason = "fields are columns of the index, which schema.sql describes"
)]

use super::{
    Index,
    row::{FromRow, row},
    words::AttemptResult,
};
use crate::error::AnalysisError;
use cvc_core::app::descriptor::Better;
use cvc_core::record::names;
use cvc_model::stats::{Interval, Scale, Summary, Variation};
use rusqlite::Row;
use std::collections::BTreeMap;

row! {
    /// What is known of the campaign as a whole.
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

/// What the counted repeats of a point say of a quantity.
#[derive(Clone, Debug)]
pub struct PointSummary {
    pub point: String,
    pub quantity: String,
    pub summary: Summary,
}

/// A figure of merit that an application declares.
#[derive(Clone, Debug)]
pub struct IndexedFigure {
    pub name: String,
    /// Which way is better; `None` for neither.
    pub better: Option<Better>,
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
    /// Where records of one name and kind at a point come from.
    pub struct RecordSource {
        point: String,
        name: String,
        /// File kind, zone, rule and role, with a space between them.
        labels: String,
        source: String,
    }
}

row! {
    /// A record of an image, or of a checkpoint as a whole.
    pub struct ImageRecord {
        name: String,
        value: f64,
        /// Name of the checkpoint; empty without one.
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
    /// Size of the image of a rank in a counted run that succeeded, bytes.
    pub struct ImageSize {
        point: String,
        run: String,
        /// Name of the checkpoint; empty without one.
        ckpt: String,
        bytes: f64,
    }
}

row! {
    /// What a method stores of a checkpoint of a series: the mean over the counted runs of a point that have it.
    pub struct SeriesVolume {
        point: String,
        /// As records name it.
        method: String,
        /// Number of the checkpoint, from 1.
        ckpt: u32,
        /// Whether it is the first of the series: not all series begin with number 1.
        is_first: bool,
        /// Number of the one that it is stored against; none: it is stored in full, or runs of the point have several.
        base: Option<u32>,
        bytes: f64,
    }
}

row! {
    /// A record of how checkpoints of a series are stored in files: the mean over the counted runs of a point that have it.
    pub struct SeriesStored {
        point: String,
        /// As records name it.
        method: String,
        codec: String,
        /// Bytes of a block.
        block: u32,
        /// Number of the checkpoint, from 1; 0 for what is about the series as a whole.
        ckpt: u32,
        /// Whether it was stored while the program ran, by the label `live`.
        is_live: bool,
        value: f64,
    }
}

row! {
    /// What changed in a zone since the checkpoint before: the mean over the counted runs of a point that have it.
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
    pub struct SeriesState {
        run: String,
        point: String,
        /// Number of the checkpoint, from 1.
        ckpt: u32,
        /// When it was asked for, seconds.
        at_s: f64,
        bytes: f64,
    }
}

row! {
    /// What changed between two checkpoints of a series in a counted run that succeeded.
    pub struct SeriesChange {
        run: String,
        /// Number of the newer one, from 2.
        ckpt: u32,
        /// Number of the older one.
        since: u32,
        /// Zone of memory; none: all of it.
        zone: Option<String>,
        bytes: f64,
    }
}

row! {
    /// What all images of a checkpoint have of a zone of memory, by the rules of owners: the most of the checkpoints of a run.
    pub struct ZoneSize {
        run: String,
        zone: String,
        bytes: f64,
    }
}

row! {
    /// What a run cost.
    pub struct RunCost {
        site: String,
        point: String,
        usd: Option<f64>,
        /// Dollars for an hour of a node, as written.
        rate: Option<String>,
        /// Where the price is from.
        price: Option<String>,
    }
}

row! {
    /// Instances that a cloud was asked for.
    pub struct IndexedLease {
        site: String,
        instance_type: String,
        spot: bool,
        instances: u32,
        /// How long they were there, all together, seconds.
        instance_s: f64,
        /// Dollars in all; `None`: not known.
        usd: Option<f64>,
        /// Dollars for an hour of one, as text.
        rate: Option<String>,
        /// Where the price is from.
        price: Option<String>,
        /// When it was ordered, UTC.
        intended: String,
        /// `None`: not known to be over.
        ended: Option<String>,
    }
}

row! {
    /// An attempt at a run.
    pub struct IndexedAttempt {
        run: String,
        /// UTC.
        started: Option<String>,
        /// UTC; `None`: it did not end, or nobody knows when.
        ended: Option<String>,
        result: AttemptResult,
    }
}

row! {
    /// What was fetched from a cloud.
    pub struct IndexedTransfer {
        site: String,
        bytes: i64,
        /// Dollars; `None`: not known.
        usd: Option<f64>,
    }
}

/// A record with its run: every column as text, and the value.
#[derive(Clone, Copy, Debug)]
pub struct LabelledRecord<'r> {
    /// The columns of [`LabelledRecord::COLUMNS`].
    pub text: [Option<&'r str>; 15],
    pub value: Option<f64>,
}

impl LabelledRecord<'_> {
    /// Names of the columns of text. The first is the run.
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
    /// Reads it from a row whose columns are those of text in their order, then the value.
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
    /// What is known of the campaign as a whole, by name.
    pub fn meta(&self) -> Result<BTreeMap<String, String>, AnalysisError> {
        let entries: Vec<MetaEntry> = self.read("SELECT key, value FROM meta", [])?;
        Ok(entries
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect())
    }

    /// The values of all quantities in all runs, in the order of the plan.
    pub fn each_run_value(&self, each: impl FnMut(RunValue)) -> Result<(), AnalysisError> {
        self.each(
            "SELECT run, quantity, unit, value FROM quantities ORDER BY rowid",
            [],
            each,
        )
    }

    /// The summaries of all quantities at all points.
    pub fn summaries(&self) -> Result<Vec<PointSummary>, AnalysisError> {
        self.read("SELECT * FROM summaries", [])
    }

    /// The figures of merit of all applications; one name stands once for each application.
    pub fn figures(&self) -> Result<Vec<IndexedFigure>, AnalysisError> {
        self.read("SELECT name, better FROM figures ORDER BY app, name", [])
    }

    /// The facts of all runs, by key and value.
    pub fn each_fact(&self, each: impl FnMut(RunFact)) -> Result<(), AnalysisError> {
        self.each("SELECT f.run, r.point, f.key, f.value FROM facts f JOIN runs r ON r.id = f.run ORDER BY f.key, f.value", [], each)
    }

    /// One fact of the runs that succeeded, in the order of the plan.
    pub fn fact(&self, key: &str) -> Result<Vec<RunFact>, AnalysisError> {
        self.read(
            "SELECT f.run, r.point, f.key, f.value FROM facts f JOIN runs r ON r.id = f.run
             WHERE r.state = 'succeeded' AND f.key = ? ORDER BY r.seq",
            [key],
        )
    }

    /// All records with their runs, in the order of the plan, which is that in which they were added.
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

    /// Where the records of the counted runs of each point come from, each source once.
    pub fn record_sources(&self) -> Result<Vec<RecordSource>, AnalysisError> {
        self.read(
            "SELECT DISTINCT r.point, c.name, coalesce(c.kind, '') || ' ' || coalesce(c.zone, '') || ' ' || coalesce(c.rule, '') || ' ' ||
             coalesce(c.role, '') AS labels, c.source FROM records c CROSS JOIN runs r ON r.id = c.run
             WHERE r.kind = 'measured' AND r.state = 'succeeded' AND r.records IN ('ok', 'changed')",
            [],
        )
    }

    /// The records of a run that have a value.
    pub fn image_records(&self, run: &str) -> Result<Vec<ImageRecord>, AnalysisError> {
        self.read(
            "SELECT name, value, coalesce(ckpt, '') AS ckpt, rank, role, zone, json_extract(labels, '$.sub') AS sub, rule, kind FROM records
             WHERE run = ? AND value IS NOT NULL",
            [run],
        )
    }

    /// The sizes of the images of ranks, checkpoint by checkpoint.
    pub fn each_image_size(&self, each: impl FnMut(ImageSize)) -> Result<(), AnalysisError> {
        self.each(
            "SELECT r.point, r.id AS run, coalesce(c.ckpt, '') AS ckpt, c.value AS bytes FROM records c JOIN runs r ON r.id = c.run
             WHERE c.name = ? AND c.rank IS NOT NULL AND c.value IS NOT NULL AND r.kind = 'measured' AND r.state = 'succeeded'
             ORDER BY 1, 2, 3",
            [names::IMAGE_BYTES],
            each,
        )
    }

    /// What runs cost, warm-ups too, in the order in which it was recorded.
    pub fn run_costs(&self) -> Result<Vec<RunCost>, AnalysisError> {
        self.read(
            "SELECT p.site, p.id AS point, c.value AS usd, json_extract(c.labels, '$.usd_per_node_hour') AS rate,
             json_extract(c.labels, '$.price') AS price
             FROM records c JOIN runs r ON r.id = c.run JOIN points p ON p.id = r.point WHERE c.name = ? ORDER BY c.rowid",
            [names::COST_USD],
        )
    }

    /// What methods store of the checkpoints of series, by point, method and checkpoint.
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

    /// How checkpoints of series are stored in files, by point, method, codec, size of blocks and checkpoint: records of one name, such as
    /// [`names::SERIES_FILE_BYTES`].
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

    /// What changed in each zone since the checkpoint before, by point, zone and checkpoint.
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

    /// The checkpoints of all series, by run and number.
    pub fn series_states(&self) -> Result<Vec<SeriesState>, AnalysisError> {
        self.read(
            "SELECT r.id AS run, p.id AS point, CAST(a.ckpt AS INTEGER) AS ckpt, a.value AS at_s, b.value AS bytes
             FROM records a JOIN records b ON b.run = a.run AND b.ckpt = a.ckpt JOIN runs r ON r.id = a.run JOIN points p ON p.id = r.point
             WHERE a.name = ? AND b.name = ? AND a.value IS NOT NULL AND b.value IS NOT NULL
                   AND r.kind = 'measured' AND r.state = 'succeeded'
             ORDER BY p.seq, r.id, CAST(a.ckpt AS INTEGER)",
            [names::SERIES_AT_S, names::SERIES_BYTES],
        )
    }

    /// What changed between checkpoints of series, in all and by zone, by run.
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

    /// How large zones are, by run.
    pub fn zone_sizes(&self) -> Result<Vec<ZoneSize>, AnalysisError> {
        self.read(
            "SELECT run, zone, max(bytes) AS bytes
             FROM (SELECT run, zone, ckpt, sum(value) AS bytes FROM records
                   WHERE name = ? AND rule = 'owner' AND zone IS NOT NULL AND value IS NOT NULL GROUP BY run, zone, ckpt)
             GROUP BY run, zone",
            [names::ZONE_BYTES],
        )
    }

    /// What was fetched from clouds, by site.
    pub fn transfers(&self) -> Result<Vec<IndexedTransfer>, AnalysisError> {
        self.read("SELECT site, bytes, usd FROM transfers ORDER BY site", [])
    }

    /// The attempts at all runs.
    pub fn attempts(&self) -> Result<Vec<IndexedAttempt>, AnalysisError> {
        self.read(
            "SELECT run, started, ended, result FROM attempts ORDER BY run, attempt",
            [],
        )
    }

    /// What clouds were asked for, in the order of the journal.
    pub fn leases(&self) -> Result<Vec<IndexedLease>, AnalysisError> {
        self.read(
            "SELECT site, instance_type, spot, instances, instance_s, usd, CAST(usd_per_hour AS TEXT) AS rate, price, intended,
                    ended
             FROM leases ORDER BY seq",
            [],
        )
    }
}
