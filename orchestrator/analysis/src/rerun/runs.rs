//! What campaigns measured, out of their indexes: the records of every image of every run that succeeded.

use super::{
    definition::{FACTOR_NAMES, Value},
    select::Images,
};
use crate::error::AnalysisError;
use crate::index::Index;
use indexmap::IndexMap;
use rusqlite::Row as SqlRow;
use std::collections::BTreeMap;

/// The columns of [`FACTOR_NAMES`] in the index.
const FACTORS: &str = "app, class, mapping, nodes, processes, mpi, checkpointer, compression, coalesce(aggregators, 'default')";

/// A record of an image, or of a checkpoint as a whole.
#[derive(Clone, Debug)]
struct Fact {
    name: String,
    value: f64,
    zone: Option<String>,
    sub: Option<String>,
    rule: Option<String>,
    kind: Option<String>,
}

/// Who wrote an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Whole,
    Launcher(String),
    Rank(u32),
}

/// A run that succeeded: for each checkpoint and image, what is known of it.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its identifier.
    pub id: String,
    checkpoints: BTreeMap<String, BTreeMap<Owner, Vec<Fact>>>,
}

/// A point of a campaign, with its counted runs that succeeded.
#[derive(Clone, Debug)]
pub struct MeasuredPoint {
    /// Name of the campaign.
    pub campaign: String,
    /// Its factors, as text.
    pub factors: IndexMap<String, String>,
    /// The runs.
    pub runs: Vec<Run>,
    /// Why there are none: what became of them.
    pub problem: Option<String>,
}

/// A point that a campaign did not run, and why.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// Its factors, as text.
    pub factors: IndexMap<String, String>,
    /// Why.
    pub reason: String,
}

/// Everything that some campaigns measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Points, in the order of the campaigns.
    pub points: Vec<MeasuredPoint>,
    /// Points that were not run.
    pub left_out: Vec<LeftOut>,
}

fn factors(row: &SqlRow<'_>, first: usize) -> rusqlite::Result<IndexMap<String, String>> {
    FACTOR_NAMES
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let value: rusqlite::types::Value = row.get(first + i)?;
            let text = match value {
                rusqlite::types::Value::Integer(n) => n.to_string(),
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Null | rusqlite::types::Value::Real(_) | rusqlite::types::Value::Blob(_) => String::new(),
            };
            Ok(((*name).to_owned(), text))
        })
        .collect()
}

impl Measured {
    /// Adds what a campaign measured.
    ///
    /// # Errors
    /// When its index cannot be read.
    pub fn add(&mut self, index: &Index) -> Result<(), AnalysisError> {
        self.read(index).map_err(index.failed())
    }

    fn read(&mut self, index: &Index) -> rusqlite::Result<()> {
        let db = index.connection();
        let campaign: String = db.query_row("SELECT value FROM meta WHERE key = 'campaign'", [], |row| row.get(0))?;
        let mut points = db.prepare(&format!("SELECT id, {FACTORS} FROM points ORDER BY seq"))?;
        let mut rows = points.query([])?;
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            let (runs, problem) = runs(index, &id)?;
            self.points.push(MeasuredPoint { campaign: campaign.clone(), factors: factors(row, 1)?, runs, problem });
        }
        let mut left_out = db.prepare(&format!("SELECT reason, {FACTORS} FROM excluded ORDER BY seq"))?;
        let mut rows = left_out.query([])?;
        while let Some(row) = rows.next()? {
            self.left_out.push(LeftOut { reason: row.get(0)?, factors: factors(row, 1)? });
        }
        Ok(())
    }
}

fn runs(index: &Index, point: &str) -> rusqlite::Result<(Vec<Run>, Option<String>)> {
    let db = index.connection();
    let mut query =
        db.prepare_cached("SELECT id, state, cause, detail, records FROM runs WHERE point = ? AND kind = 'measured' ORDER BY seq")?;
    let mut rows = query.query([point])?;
    let (mut runs, mut problem) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let (id, state): (String, String) = (row.get(0)?, row.get(1)?);
        let (cause, detail): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
        let records: String = row.get(4)?;
        match (state.as_str(), records.as_str()) {
            ("succeeded", "ok" | "changed") => runs.push(Run { checkpoints: checkpoints(index, &id)?, id }),
            ("succeeded", state) => problem = Some(format!("the records of its run are {state}")),
            ("failed", _) => {
                problem = Some(format!("its run failed ({}): {}", cause.unwrap_or_default(), detail.unwrap_or_default()));
            }
            (_, _) => problem = problem.or_else(|| Some("it has not been run yet".to_owned())),
        }
    }
    Ok((runs, problem))
}

fn checkpoints(index: &Index, run: &str) -> rusqlite::Result<BTreeMap<String, BTreeMap<Owner, Vec<Fact>>>> {
    let mut query = index.connection().prepare_cached(
        "SELECT name, value, coalesce(ckpt, ''), rank, role, zone, json_extract(labels, '$.sub'), rule, kind FROM records
         WHERE run = ? AND value IS NOT NULL",
    )?;
    let mut rows = query.query([run])?;
    let mut all: BTreeMap<String, BTreeMap<Owner, Vec<Fact>>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (rank, role): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
        let owner = match (rank.and_then(|r| r.parse().ok()), role) {
            (Some(rank), _) => Owner::Rank(rank),
            (None, Some(role)) => Owner::Launcher(role),
            (None, None) => Owner::Whole,
        };
        let fact =
            Fact { name: row.get(0)?, value: row.get(1)?, zone: row.get(5)?, sub: row.get(6)?, rule: row.get(7)?, kind: row.get(8)? };
        all.entry(row.get(2)?).or_default().entry(owner).or_default().push(fact);
    }
    Ok(all)
}

/// What matches of the facts of an image, added up; `None` if nothing does.
fn sum(facts: &[Fact], value: &Value) -> Option<f64> {
    let listed = |list: &[String], label: &Option<String>| list.is_empty() || label.as_ref().is_some_and(|l| list.contains(l));
    let found: Vec<f64> = facts
        .iter()
        .filter(|f| f.name == value.record && listed(&value.zones, &f.zone) && listed(&value.subs, &f.sub))
        .filter(|f| f.rule.as_deref().is_none_or(|rule| rule == "structural"))
        .filter(|f| value.kind.is_none() || f.kind == value.kind)
        .map(|f| f.value)
        .collect();
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / value.unit.size())
}

impl Run {
    /// The value of a run: mean over the images that are asked for, then over the checkpoints.
    fn value(&self, value: &Value, images: &Images, aggregators: usize) -> Option<f64> {
        let per_checkpoint: Vec<f64> = self.checkpoints.values().filter_map(|owners| one(owners, value, images, aggregators)).collect();
        mean(&per_checkpoint)
    }
}

fn one(owners: &BTreeMap<Owner, Vec<Fact>>, value: &Value, images: &Images, aggregators: usize) -> Option<f64> {
    let size = |facts: &[Fact]| facts.iter().find(|f| f.name == cvc_core::record::names::FILE_BYTES).map_or(0.0, |f| f.value);
    let mut ranks: Vec<&Vec<Fact>> = owners.iter().filter(|(o, _)| matches!(o, Owner::Rank(_))).map(|(_, facts)| facts).collect();
    ranks.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let chosen: Vec<&Vec<Fact>> = match images {
        Images::Ranks => ranks,
        Images::Largest(n) => ranks.into_iter().take(n.unwrap_or(aggregators)).collect(),
        Images::ButLargest(n) => ranks.into_iter().skip(n.unwrap_or(aggregators)).collect(),
        Images::Launcher(name) => {
            owners.iter().filter(|(o, _)| matches!(o, Owner::Launcher(l) if l.starts_with(name.as_str()))).map(|(_, facts)| facts).collect()
        }
        Images::Whole => owners.get(&Owner::Whole).into_iter().collect(),
    };
    mean(&chosen.into_iter().filter_map(|facts| sum(facts, value)).collect::<Vec<_>>())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl MeasuredPoint {
    /// Whether its factors are those that are asked for; a factor that no point has matches nothing.
    pub fn is(&self, wanted: &IndexMap<String, String>) -> bool {
        has(&self.factors, wanted)
    }

    /// The value of each run, with the run's identifier.
    pub fn values(&self, value: &Value, images: &Images) -> Vec<(&str, f64)> {
        // left to the library, there is one aggregator for each node
        let aggregators = [&self.factors["aggregators"], &self.factors["nodes"]].into_iter().find_map(|n| n.parse().ok()).unwrap_or(1);
        self.runs.iter().filter_map(|run| Some((run.id.as_str(), run.value(value, images, aggregators)?))).collect()
    }
}

/// Whether factors are those that are asked for.
pub fn has(factors: &IndexMap<String, String>, wanted: &IndexMap<String, String>) -> bool {
    wanted.iter().all(|(factor, value)| factors.get(factor) == Some(value))
}
