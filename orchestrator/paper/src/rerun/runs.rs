//! Reads measurements from the indexes of campaigns: the records of every image of every successful run.

use super::{
    definition::{FACTOR_NAMES, RerunValue},
    measured::{self, MeasuredSeries},
    select::Images,
};
use cvc_core::ids::PointId;
use cvc_core::point::Point;
use cvc_index::RunOutcome;
use cvc_index::error::AnalysisError;
use cvc_index::{ImageRecord, Index, IndexedRun, factors};
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashMap};

/// The process that an image belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Whole,
    Launcher(String),
    Rank(u32),
}

/// A successful run, with the records of each checkpoint and image.
#[derive(Clone, Debug)]
pub struct MeasuredRun {
    /// Identifier of the run.
    pub id: String,
    checkpoints: BTreeMap<String, BTreeMap<Owner, Vec<ImageRecord>>>,
}

/// A point of a campaign, with its successful counted runs.
#[derive(Clone, Debug)]
pub struct MeasuredPoint {
    /// Name of the campaign.
    pub campaign: String,
    /// Factors of the point, as text.
    pub factors: IndexMap<String, String>,
    /// The runs.
    pub runs: Vec<MeasuredRun>,
    /// The reason why there are no successful runs: the outcomes of the runs.
    pub problem: Option<String>,
}

/// A point that a campaign did not run, with the reason.
#[derive(Clone, Debug)]
pub struct SkippedPoint {
    /// Factors of the point, as text.
    pub factors: IndexMap<String, String>,
    /// The reason why the point was not run.
    pub reason: String,
}

/// The measurements of one or more campaigns.
#[derive(Clone, Debug, Default)]
pub struct CampaignMeasurements {
    /// Points, in the order of the campaigns.
    pub points: Vec<MeasuredPoint>,
    /// Points that were not run.
    pub left_out: Vec<SkippedPoint>,
    /// Series of checkpoints, in the order of the campaigns.
    pub series: Vec<MeasuredSeries>,
}

/// Returns the factors of a point that are used to match rows.
fn matched_factors(of: &Point) -> IndexMap<String, String> {
    FACTOR_NAMES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), factors::text(of, name)?)))
        .collect()
}

impl CampaignMeasurements {
    /// Adds the measurements of a campaign.
    ///
    /// # Errors
    /// Its index cannot be read.
    pub fn add(&mut self, index: &Index) -> Result<(), AnalysisError> {
        let campaign = index.meta()?.remove("campaign").unwrap_or_default();
        let mut of_points: HashMap<PointId, Vec<IndexedRun>> = HashMap::new();
        for run in index.runs()?.into_iter().filter(|run| !run.warmup) {
            of_points.entry(run.point.clone()).or_default().push(run);
        }
        let mut points = Vec::new();
        for point in index.points()? {
            points.push((point.id.to_string(), matched_factors(&point.point)));
            let (runs, problem) = runs(index, of_points.remove(&point.id).unwrap_or_default())?;
            self.points.push(MeasuredPoint {
                campaign: campaign.clone(),
                factors: matched_factors(&point.point),
                runs,
                problem,
            });
        }
        self.series
            .extend(measured::read(index, &campaign, &points)?);
        self.left_out
            .extend(index.excluded()?.into_iter().map(|e| SkippedPoint {
                factors: matched_factors(&e.point),
                reason: e.reason,
            }));
        Ok(())
    }
}

/// Returns the successful runs with their records; otherwise the outcomes of the runs as text.
fn runs(
    index: &Index,
    all: Vec<IndexedRun>,
) -> Result<(Vec<MeasuredRun>, Option<String>), AnalysisError> {
    let (mut runs, mut problem) = (Vec::new(), None);
    for run in all {
        match run.state {
            RunOutcome::Succeeded if run.records.is_readable() => {
                runs.push(MeasuredRun {
                    checkpoints: checkpoints(index, &run.id)?,
                    id: run.id,
                });
            }
            RunOutcome::Succeeded => {
                problem = Some(format!("the records of its run are {}", run.records));
            }
            RunOutcome::Failed => {
                problem = Some(format!(
                    "its run failed ({}): {}",
                    run.cause.unwrap_or_default(),
                    run.detail.unwrap_or_default()
                ));
            }
            RunOutcome::Quarantined | RunOutcome::Running | RunOutcome::Pending => {
                problem = problem.or_else(|| Some("it has not been run yet".to_owned()))
            }
        }
    }
    Ok((runs, problem))
}

/// Returns the records of a run by checkpoint, and then by the process that the image belongs to.
fn checkpoints(
    index: &Index,
    run: &str,
) -> Result<BTreeMap<String, BTreeMap<Owner, Vec<ImageRecord>>>, AnalysisError> {
    let mut all: BTreeMap<String, BTreeMap<Owner, Vec<ImageRecord>>> = BTreeMap::new();
    for record in index.image_records(run)? {
        let owner = match (
            record.rank.as_deref().and_then(|r| r.parse().ok()),
            &record.role,
        ) {
            (Some(rank), _) => Owner::Rank(rank),
            (None, Some(role)) => Owner::Launcher(role.clone()),
            (None, None) => Owner::Whole,
        };
        all.entry(record.ckpt.clone())
            .or_default()
            .entry(owner)
            .or_default()
            .push(record);
    }
    Ok(all)
}

/// Returns the sum of the matching records of an image; `None` if no record matches.
fn sum(records: &[ImageRecord], value: &RerunValue) -> Option<f64> {
    let listed = |list: &[String], label: &Option<String>| {
        list.is_empty() || label.as_ref().is_some_and(|l| list.contains(l))
    };
    let found: Vec<f64> = records
        .iter()
        .filter(|f| {
            f.name == value.record && listed(&value.zones, &f.zone) && listed(&value.subs, &f.sub)
        })
        .filter(|f| f.rule.as_deref().is_none_or(|rule| rule == "structural"))
        .filter(|f| value.kind.is_none() || f.kind == value.kind)
        .map(|f| f.value)
        .collect();
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / value.unit.size())
}

impl MeasuredRun {
    /// Returns the number of checkpoints with records.
    pub fn checkpoints_taken(&self) -> usize {
        self.checkpoints
            .keys()
            .filter(|ckpt| !ckpt.is_empty())
            .count()
    }

    /// Returns the kinds of the records with this name.
    pub fn kinds(&self, record: &str) -> impl Iterator<Item = &str> {
        let owners = self.checkpoints.values().flat_map(BTreeMap::values);
        let of_name = owners.flatten().filter(move |r| r.name == record);
        of_name.filter_map(|r| r.kind.as_deref())
    }

    /// Returns the value of a run: the mean over the requested images, and then over the checkpoints.
    fn value(&self, value: &RerunValue, images: &Images, aggregators: usize) -> Option<f64> {
        let per_checkpoint: Vec<f64> = self
            .checkpoints
            .values()
            .filter_map(|owners| one(owners, value, images, aggregators))
            .collect();
        mean(&per_checkpoint)
    }
}

fn one(
    owners: &BTreeMap<Owner, Vec<ImageRecord>>,
    value: &RerunValue,
    images: &Images,
    aggregators: usize,
) -> Option<f64> {
    let size = |records: &[ImageRecord]| {
        records
            .iter()
            .find(|f| f.name == cvc_core::record::names::FILE_BYTES)
            .map_or(0.0, |f| f.value)
    };
    let mut ranks: Vec<&Vec<ImageRecord>> = owners
        .iter()
        .filter(|(o, _)| matches!(o, Owner::Rank(_)))
        .map(|(_, records)| records)
        .collect();
    ranks.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let chosen: Vec<&Vec<ImageRecord>> = match images {
        Images::Ranks => ranks,
        Images::Largest(n) => ranks.into_iter().take(n.unwrap_or(aggregators)).collect(),
        Images::ButLargest(n) => ranks.into_iter().skip(n.unwrap_or(aggregators)).collect(),
        Images::Launcher(name) => owners
            .iter()
            .filter(|(o, _)| matches!(o, Owner::Launcher(l) if l.starts_with(name.as_str())))
            .map(|(_, records)| records)
            .collect(),
        Images::Whole => owners.get(&Owner::Whole).into_iter().collect(),
    };
    mean(
        &chosen
            .into_iter()
            .filter_map(|records| sum(records, value))
            .collect::<Vec<_>>(),
    )
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl MeasuredPoint {
    /// Returns whether the point has the requested factors. An unknown factor matches nothing.
    pub fn is(&self, wanted: &IndexMap<String, String>) -> bool {
        has(&self.factors, wanted)
    }

    /// Returns the value of each run, with the identifier of the run.
    pub fn values(&self, value: &RerunValue, images: &Images) -> Vec<(&str, f64)> {
        // the library's default is one aggregator on each node
        let aggregators = [&self.factors["aggregators"], &self.factors["nodes"]]
            .into_iter()
            .find_map(|n| n.parse().ok())
            .unwrap_or(1);
        self.runs
            .iter()
            .filter_map(|run| Some((run.id.as_str(), run.value(value, images, aggregators)?)))
            .collect()
    }
}

/// Returns whether factors have the requested values.
pub fn has(factors: &IndexMap<String, String>, wanted: &IndexMap<String, String>) -> bool {
    wanted
        .iter()
        .all(|(factor, value)| factors.get(factor) == Some(value))
}

#[cfg(test)]
impl MeasuredRun {
    /// Returns a run that took this number of checkpoints, with counts by kind of operation.
    pub(super) fn counted(
        id: &str,
        checkpoints: usize,
        record: &str,
        kinds: &[(&str, f64)],
    ) -> Self {
        let of = |name: &str, ckpt: &str, kind: Option<&str>, value| ImageRecord {
            name: name.to_owned(),
            value,
            ckpt: ckpt.to_owned(),
            rank: None,
            role: None,
            zone: None,
            sub: None,
            rule: None,
            kind: kind.map(str::to_owned),
        };
        let kinds = kinds.iter().map(|(kind, n)| of(record, "", Some(kind), *n));
        let mut all = BTreeMap::from([(String::new(), kinds.collect::<Vec<_>>())]);
        for ckpt in 1..=checkpoints {
            let ckpt = format!("{ckpt}");
            all.insert(ckpt.clone(), vec![of("ckpt_latency_s", &ckpt, None, 1.0)]);
        }
        let owned = all
            .into_iter()
            .map(|(ckpt, records)| (ckpt, BTreeMap::from([(Owner::Whole, records)])));
        Self {
            id: id.to_owned(),
            checkpoints: owned.collect(),
        }
    }
}
