//! What every table and plot asks of the index, read once.

use super::{
    consistency,
    model::{RecordRow, Records},
    quantity::Tier,
    rows::{ExcludedRow, Mixed, PointRow, RunRow},
};
use crate::error::AnalysisError;
use crate::{holdout::Outcome, index::Index};
use cvc_core::{app::descriptor::Better, ids::PointId};
use cvc_model::stats::{Interval, Summary};
use indexmap::{IndexMap, IndexSet};
use rusqlite::Row;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The index as tables see it.
pub(super) struct Data {
    pub meta: BTreeMap<String, String>,
    /// Names of all factors: those that every point has, then the campaign's own.
    pub factors: Vec<String>,
    pub points: Vec<PointRow>,
    pub runs: Vec<RunRow>,
    pub excluded: Vec<ExcludedRow>,
    /// Everything that counts, in the order of tables.
    pub quantities: IndexMap<String, Quantity>,
    /// Key, then value, then the runs that have it.
    pub facts: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// What models say of held-out points, if the campaign file asks for it.
    pub predictions: Option<Outcome>,
}

/// What is known of a quantity as such.
pub(super) struct Quantity {
    pub unit: String,
    pub tier: Tier,
    /// Which way is better, where there is one.
    pub better: Option<Better>,
}

impl Data {
    pub fn read(index: &Index) -> Result<Self, AnalysisError> {
        let data = Self::query(index).map_err(index.failed())?;
        Ok(Self { predictions: Outcome::read(index)?, ..data })
    }

    fn query(index: &Index) -> rusqlite::Result<Self> {
        let db = index.connection();
        let meta =
            db.prepare("SELECT key, value FROM meta")?.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
        let mut ids = HashMap::new();
        let mut points = Vec::new();
        let mut query = db.prepare("SELECT * FROM points ORDER BY seq")?;
        let mut rows = query.query([])?;
        while let Some(r) = rows.next()? {
            ids.insert(r.get::<_, String>("id")?, points.len());
            points.push(PointRow {
                id: PointId::from_written(&r.get::<_, String>("id")?),
                factors: factors(r)?,
                nodes: r.get("nodes")?,
                processes: r.get("processes")?,
                runs: Vec::new(),
                summaries: HashMap::new(),
                values: HashMap::new(),
                repeats: HashMap::new(),
                mixed: Mixed::new(),
            });
        }
        let excluded = db
            .prepare("SELECT * FROM excluded ORDER BY seq")?
            .query_map([], |r| Ok(ExcludedRow { factors: factors(r)?, by: r.get("by")?, reason: r.get("reason")? }))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let mut run_ids = HashMap::new();
        let mut runs: Vec<RunRow> = Vec::new();
        let mut query = db.prepare("SELECT * FROM runs ORDER BY seq")?;
        let mut rows = query.query([])?;
        while let Some(r) = rows.next()? {
            let Some(&point) = ids.get(&r.get::<_, String>("point")?) else { continue };
            points[point].runs.push(runs.len());
            run_ids.insert(r.get::<_, String>("id")?, runs.len());
            runs.push(RunRow {
                id: r.get("id")?,
                point,
                warmup: r.get::<_, String>("kind")? == "warmup",
                repeat: r.get("repeat")?,
                state: r.get("state")?,
                attempts: r.get("attempts")?,
                cause: r.get("cause")?,
                detail: r.get("detail")?,
                dir: r.get("dir")?,
                records: r.get("records")?,
                records_detail: r.get("records_detail")?,
            });
        }
        let mut units = BTreeMap::new();
        let mut query = db.prepare("SELECT q.run, q.quantity, q.unit, q.value FROM v_quantities q")?;
        let mut rows = query.query([])?;
        let mut values: Vec<(usize, String, f64)> = Vec::new();
        while let Some(r) = rows.next()? {
            let Some(&run) = run_ids.get(&r.get::<_, String>(0)?) else { continue };
            if runs[run].counts() {
                units.insert(r.get::<_, String>(1)?, r.get::<_, String>(2)?);
                values.push((run, r.get(1)?, r.get(3)?));
            }
        }
        values.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for (run, quantity, value) in values {
            let point = &mut points[runs[run].point];
            point.repeats.entry(quantity.clone()).or_default().push(runs[run].repeat);
            point.values.entry(quantity).or_default().push(value);
        }
        let mut query = db.prepare("SELECT * FROM summaries")?;
        let mut rows = query.query([])?;
        while let Some(r) = rows.next()? {
            if let Some(&point) = ids.get(&r.get::<_, String>("point")?) {
                points[point].summaries.insert(r.get("quantity")?, summary(r)?);
            }
        }
        let mut declared: BTreeMap<String, Vec<Option<Better>>> = BTreeMap::new();
        let mut query = db.prepare("SELECT name, better FROM figures ORDER BY app, name")?;
        let mut rows = query.query([])?;
        while let Some(r) = rows.next()? {
            let better = match r.get::<_, String>(1)?.as_str() {
                "lower" => Some(Better::Lower),
                "higher" => Some(Better::Higher),
                _ => None,
            };
            declared.entry(r.get(0)?).or_default().push(better);
        }
        let mut quantities: Vec<(String, Quantity)> = units
            .into_iter()
            .map(|(name, unit): (String, String)| {
                let (tier, better) = super::quantity::standing(&name, declared.get(&name).map_or(&[], Vec::as_slice));
                (name, Quantity { unit, tier, better })
            })
            .collect();
        quantities.sort_by_key(|(name, q)| super::quantity::order(name, q.tier));
        let mut facts: BTreeMap<String, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
        let mut query = db.prepare("SELECT key, value, run FROM facts ORDER BY key, value")?;
        let mut rows = query.query([])?;
        while let Some(r) = rows.next()? {
            if let Some(&run) = run_ids.get(&r.get::<_, String>(2)?) {
                facts.entry(r.get(0)?).or_default().entry(r.get(1)?).or_default().push(run);
            }
        }
        let mut sources: BTreeMap<(usize, String, String), BTreeSet<String>> = BTreeMap::new();
        let mut query = db.prepare(
            "SELECT DISTINCT run, name, coalesce(kind, '') || ' ' || coalesce(zone, '') || ' ' || coalesce(rule, '') || ' ' || coalesce(role, ''), source
             FROM records",
        )?;
        let mut rows = query.query([])?;
        while let Some(r) = rows.next()? {
            let Some(run) = run_ids.get(&r.get::<_, String>(0)?).map(|run| &runs[*run]).filter(|r| r.enters()) else { continue };
            sources.entry((run.point, r.get(1)?, r.get(2)?)).or_default().insert(r.get(3)?);
        }
        for (point, mixed) in points.iter_mut().zip(consistency::find(ids.len(), &runs, &facts, &sources)) {
            point.mixed = mixed;
        }
        let mut names: IndexSet<String> = IndexSet::new();
        for p in points.iter().map(|p| &p.factors).chain(excluded.iter().map(|e| &e.factors)) {
            names.extend(p.keys().cloned());
        }
        Ok(Self {
            meta,
            factors: names.into_iter().collect(),
            points,
            runs,
            excluded,
            quantities: quantities.into_iter().collect(),
            facts,
            predictions: None,
        })
    }

    /// The quantities that a reader came for: tables, comparison and plots have these; the index and the folded table have all.
    pub fn main(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.quantities.iter().filter(|(_, q)| q.tier != Tier::Secondary).map(|(name, q)| (name.as_str(), q))
    }

    /// The factors that differ between points, without those that follow from another.
    pub fn varying(&self) -> Vec<&str> {
        let mut varying: Vec<&str> = self.factors.iter().map(String::as_str).filter(|f| self.levels(f).len() > 1).collect();
        if varying.contains(&"mapping") {
            varying.retain(|f| *f != "processes");
        }
        varying
    }

    /// The values that a factor has, in the order of points.
    pub fn levels(&self, factor: &str) -> IndexSet<&str> {
        self.points.iter().map(|p| p.factor(factor)).collect()
    }

    /// The values that a factor has in points that run or are skipped.
    pub fn factor_values<'a>(&'a self, factor: &str) -> IndexSet<&'a str> {
        let skipped = self.excluded.iter().filter_map(|e| e.factors.get(factor).map(String::as_str));
        self.points.iter().map(|p| p.factor(factor)).chain(skipped).collect()
    }

    /// The factors that are the same for all points, with their values.
    pub fn constant(&self) -> Vec<(String, String)> {
        self.factors
            .iter()
            .filter_map(|f| {
                let levels = self.levels(f);
                (levels.len() == 1).then(|| (super::quantity::factor_heading(f), levels[0].to_owned()))
            })
            .collect()
    }

    /// What tells a point from the others, for people: `mpich, 1Nx4P, 2 aggregators`.
    pub fn label(&self, point: usize, factors: &[&str]) -> String {
        let p = &self.points[point];
        let parts: Vec<String> = factors.iter().map(|f| super::quantity::level(f, p.factor(f))).collect();
        if parts.is_empty() { p.factor("app").to_owned() } else { parts.join(", ") }
    }

    /// Whether any point's runs were not made alike.
    pub fn mixed(&self) -> bool {
        self.points.iter().any(|p| !p.mixed.is_empty())
    }

    /// Runs that are counted repeats, in a state.
    pub fn count(&self, state: &str) -> usize {
        self.runs.iter().filter(|r| !r.warmup && r.state == state).count()
    }

    /// All records with the factors of their points.
    pub fn records(&self, index: &Index) -> Result<Records, AnalysisError> {
        let points = self.points.iter().map(|p| self.factors.iter().map(|f| p.factor(f).to_owned()).collect()).collect();
        let by_id: HashMap<&str, usize> = self.runs.iter().map(|r| (r.id.as_str(), r.point)).collect();
        let read = || -> rusqlite::Result<Vec<RecordRow>> {
            let mut query = index.connection().prepare(
                "SELECT r.id, r.kind, CAST(r.repeat AS TEXT), r.state, c.name, c.unit, c.source, c.artefact, c.ckpt, c.rank, c.role, c.image,
                 c.zone, c.kind, c.rule, c.value FROM records c JOIN runs r ON r.id = c.run ORDER BY r.seq, c.rowid",
            )?;
            let mut rows = query.query([])?;
            let mut all = Vec::new();
            while let Some(r) = rows.next()? {
                let text = (0..RecordRow::COLUMNS.len()).map(|i| r.get(i)).collect::<rusqlite::Result<Vec<Option<String>>>>()?;
                let Some(&point) = text[0].as_deref().and_then(|id| by_id.get(id)) else { continue };
                all.push(RecordRow { point, text, value: r.get(RecordRow::COLUMNS.len())? });
            }
            Ok(all)
        };
        Ok(Records {
            factors: self.factors.iter().map(|f| super::quantity::factor_column(f)).collect(),
            points,
            rows: read().map_err(index.failed())?,
        })
    }
}

/// The factors of a row of `points` or `excluded`, with the names of [`cvc_core::point::Point::FACTORS`], then the campaign's own.
fn factors(r: &Row<'_>) -> rusqlite::Result<IndexMap<String, String>> {
    let mut factors = IndexMap::new();
    for name in cvc_core::point::Point::FACTORS {
        let value = match name {
            "processes" => r.get::<_, u32>(name)?.to_string(),
            "aggregators" => r.get::<_, Option<u32>>(name)?.map_or_else(default, |n| n.to_string()),
            "cb_buffer" => {
                let bytes = r.get::<_, Option<i64>>("cb_buffer_bytes")?;
                bytes.map_or_else(default, |b| cvc_core::units::ByteSize(u64::try_from(b).unwrap_or(0)).to_string())
            }
            _ => r.get(name)?,
        };
        factors.insert(name.to_owned(), value);
    }
    let user: IndexMap<String, serde_json::Value> = serde_json::from_str(&r.get::<_, String>("user")?).unwrap_or_default();
    for (name, value) in user {
        let text = match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        // A free factor that is named as one of the others is told apart.
        let name = if factors.contains_key(&name) { format!("user.{name}") } else { name };
        factors.insert(name, text);
    }
    Ok(factors)
}

fn summary(r: &Row<'_>) -> rusqlite::Result<Summary> {
    let interval = r.get::<_, Option<f64>>("ci_low")?.zip(r.get::<_, Option<f64>>("ci_high")?);
    let count = |column: &str| r.get::<_, i64>(column).map(|n| usize::try_from(n).unwrap_or(0));
    Ok(Summary {
        n: count("n")?,
        mean: r.get("mean")?,
        median: r.get("median")?,
        sd: r.get("sd")?,
        min: r.get("min")?,
        max: r.get("max")?,
        interval: interval.map(|(low, high)| Interval { low, high }),
        mild: count("mild_outliers")?,
        severe: count("severe_outliers")?,
    })
}

fn default() -> String {
    "default".to_owned()
}
