//! All data that tables and plots need from the index, read once.

use super::{
    consistency::{self, SourceSets},
    quantity::Tier,
    records::Records,
    rows::{ExcludedRow, PointRow, RunRow},
};
use cvc_core::app::descriptor::Better;
use cvc_core::ids::PointId;
use cvc_core::point::FactorId;
use cvc_core::point::Point;
use cvc_index::RunOutcome;
use cvc_index::error::AnalysisError;
use cvc_index::{Index, IndexedBaseline, IndexedDecision, PointSummary, RecordSource, RunValue};
use cvc_prediction::holdout::HoldoutResult;
use indexmap::{IndexMap, IndexSet};
use std::{
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

/// The contents of the index as tables and plots use them.
pub(crate) struct Data {
    pub meta: BTreeMap<String, String>,
    /// Sizes of the MPI libraries' part of private anonymous memory, as the campaign measured them.
    pub baselines: Vec<IndexedBaseline>,
    /// Number of launches of instances, including replacements.
    pub fleets: usize,
    /// Names of all factors: built-in ones, then the campaign's own.
    pub factors: Vec<String>,
    pub points: Vec<PointRow>,
    pub runs: Vec<RunRow>,
    pub excluded: Vec<ExcludedRow>,
    /// Stopping decisions for points that needed no further run, by index of the point.
    pub decisions: BTreeMap<usize, IndexedDecision>,
    /// All quantities of counted runs, in table order.
    pub quantities: IndexMap<String, ReportedQuantity>,
    /// For each fact and each of its values, the runs that recorded it.
    pub facts: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// Predictions for held-out points, if the campaign file requests them.
    pub predictions: Option<HoldoutResult>,
    varying: OnceLock<Vec<String>>,
    /// For each restarted point, the otherwise equal point without restarts.
    restarted: OnceLock<HashMap<usize, usize>>,
    by_level: OnceLock<HashMap<String, HashMap<String, Vec<usize>>>>,
}

/// A quantity with its unit, tier in the report and better direction.
pub(crate) struct ReportedQuantity {
    pub unit: String,
    pub tier: Tier,
    /// The better direction; `None` if neither is better.
    pub better: Option<Better>,
}

impl Data {
    /// Reads an index.
    pub fn read(index: &Index) -> Result<Self, AnalysisError> {
        let (points, excluded) = (index.points()?, index.excluded()?);
        let built_in = Point::shown_factors(
            points
                .iter()
                .map(|p| &p.point)
                .chain(excluded.iter().map(|e| &e.point)),
        );
        let mut points: Vec<PointRow> = points.into_iter().map(PointRow::from).collect();
        let excluded: Vec<ExcludedRow> = excluded.into_iter().map(ExcludedRow::from).collect();
        let runs = runs(index, &mut points)?;
        let run_of: RunsById = runs
            .iter()
            .enumerate()
            .map(|(i, run)| (run.id.clone(), i))
            .collect();
        let units = values(index, &runs, &run_of, &mut points)?;
        summaries(index, &mut points)?;
        let facts = facts(index, &run_of)?;
        let mixed = consistency::find(points.len(), &runs, &facts, &sources(index, &points)?);
        for (point, mixed) in points.iter_mut().zip(mixed) {
            point.mixed = mixed;
        }
        let mut factors: IndexSet<String> = IndexSet::new();
        for row in points
            .iter()
            .map(|p| &p.factors)
            .chain(excluded.iter().map(|e| &e.factors))
        {
            let is_shown = |name: &&String| {
                built_in.contains(&name.as_str()) || !Point::FACTORS.contains(&name.as_str())
            };
            factors.extend(row.keys().filter(is_shown).cloned());
        }
        let places: HashMap<&str, usize> = points
            .iter()
            .enumerate()
            .map(|(i, p)| (p.id.as_str(), i))
            .collect();
        let place = |id: &str| places.get(id).copied();
        let counts = index.checkpoint_counts()?.into_iter();
        let counts: Vec<(usize, u32)> = counts
            .filter_map(|count| Some((place(&count.point)?, count.checkpoints)))
            .collect();
        let decisions = index
            .decisions()?
            .into_iter()
            .filter_map(|d| Some((place(&d.point)?, d)))
            .collect();
        for (point, checkpoints) in counts {
            points[point].checkpoints = checkpoints;
        }
        Ok(Self {
            decisions,
            baselines: index.baselines()?,
            fleets: index.leases()?.len(),
            meta: index.meta()?,
            factors: factors.into_iter().collect(),
            points,
            runs,
            excluded,
            quantities: quantities(index, units)?,
            facts,
            predictions: HoldoutResult::read(index)?,
            varying: OnceLock::new(),
            restarted: OnceLock::new(),
            by_level: OnceLock::new(),
        })
    }

    /// Returns the quantities that tables, comparisons and plots show. The index and the collapsed table contain all quantities.
    pub fn main(&self) -> impl Iterator<Item = (&str, &ReportedQuantity)> {
        self.quantities
            .iter()
            .filter(|(_, q)| q.tier != Tier::Secondary)
            .map(|(name, q)| (name.as_str(), q))
    }

    /// Returns the smallest number of repeats with which the campaign's stopping rule ended any point; `None` unless the rule ended one of these
    /// points.
    pub fn least_repeats_of_stopped(&self, points: [usize; 2]) -> Option<usize> {
        let least = self
            .decisions
            .values()
            .map(|decision| decision.repeats as usize)
            .min()?;
        points
            .iter()
            .any(|point| self.decisions.contains_key(point))
            .then_some(least)
    }

    /// Returns the factors that differ between points. If the mapping differs, `processes` and `threads` are omitted, because they follow from it.
    pub fn varying(&self) -> Vec<&str> {
        // cached, because this is called once for each pair of levels of every factor
        let known = self.varying.get_or_init(|| {
            let mut varying: Vec<String> = self
                .factors
                .iter()
                .filter(|f| self.stated_levels(f).len() > 1)
                .cloned()
                .collect();
            if varying.iter().any(|f| f == "mapping") {
                varying.retain(|f| f != "processes" && f != "threads");
            }
            varying
        });
        known.iter().map(String::as_str).collect()
    }

    /// Returns the point that equals a restarted point except that it is not restarted; both are equal until the checkpoint. Returns `None` if this
    /// point is not restarted, or if no such point was measured.
    pub fn unrestarted(&self, point: usize) -> Option<usize> {
        const FACTOR: &str = "restart_check";
        let known = self.restarted.get_or_init(|| {
            let key = |p: &PointRow| -> Vec<String> {
                let others = self.factors.iter().filter(|f| *f != FACTOR);
                others.map(|f| p.factor(f).to_owned()).collect()
            };
            let at = |level: &str| self.points_at(FACTOR, level).iter().copied();
            let without: HashMap<Vec<String>, usize> = at("false")
                .filter(|i| !self.points[*i].summaries.is_empty())
                .map(|i| (key(&self.points[i]), i))
                .collect();
            at("true")
                .filter_map(|i| Some((i, *without.get(&key(&self.points[i]))?)))
                .collect()
        });
        known.get(&point).copied()
    }

    /// Returns the points with a level of a factor, in the order of the plan.
    pub fn points_at(&self, factor: &str, level: &str) -> &[usize] {
        let known = self.by_level.get_or_init(|| {
            let mut known: HashMap<String, HashMap<String, Vec<usize>>> = HashMap::new();
            for factor in &self.factors {
                let of = known.entry(factor.clone()).or_default();
                for (i, point) in self.points.iter().enumerate() {
                    let level = point.factor(factor);
                    match of.get_mut(level) {
                        Some(points) => points.push(i),
                        None => {
                            of.insert(level.to_owned(), vec![i]);
                        }
                    }
                }
            }
            known
        });
        known
            .get(factor)
            .and_then(|of| of.get(level))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the levels of a factor, in the order of points.
    pub fn levels(&self, factor: &str) -> IndexSet<&str> {
        self.points.iter().map(|p| p.factor(factor)).collect()
    }

    /// Returns the levels of a factor, without the dash of points to which the factor does not apply.
    fn stated_levels(&self, factor: &str) -> IndexSet<&str> {
        self.levels(factor)
            .into_iter()
            .filter(|level| *level != "-")
            .collect()
    }

    /// Returns the levels of a factor in all points, including skipped ones.
    pub fn factor_values<'a>(&'a self, factor: &str) -> IndexSet<&'a str> {
        let skipped = self
            .excluded
            .iter()
            .filter_map(|e| e.factors.get(factor).map(String::as_str));
        self.points
            .iter()
            .map(|p| p.factor(factor))
            .chain(skipped)
            .collect()
    }

    /// Returns the factors that are the same for all points, with their levels.
    pub fn constant(&self) -> Vec<(String, String)> {
        self.factors
            .iter()
            .filter_map(|f| {
                let levels = self.stated_levels(f);
                (levels.len() == 1)
                    .then(|| (super::quantity::factor_heading(f), levels[0].to_owned()))
            })
            .collect()
    }

    /// Returns a label of the levels that distinguish a point from the others: `mpich, 1Nx4P, 2 aggregators`.
    pub fn label(&self, point: usize, factors: &[&str]) -> String {
        let p = &self.points[point];
        let parts: Vec<String> = factors
            .iter()
            .map(|f| super::quantity::level(f, p.factor(f)))
            .collect();
        if parts.is_empty() {
            p.level(FactorId::App).to_owned()
        } else {
            parts.join(", ")
        }
    }

    /// Returns whether any point has runs made under different conditions.
    pub fn mixed(&self) -> bool {
        self.points.iter().any(|p| !p.mixed.is_empty())
    }

    /// Returns the number of counted repeats with this outcome.
    pub fn count(&self, state: RunOutcome) -> usize {
        self.runs
            .iter()
            .filter(|r| !r.warmup && r.state == state)
            .count()
    }

    /// Returns the data that are needed to write all records with the factors of their points.
    pub fn records(&self, index: &Index) -> Records {
        Records {
            factors: self
                .factors
                .iter()
                .map(|f| super::quantity::factor_column(f))
                .collect(),
            points: self
                .points
                .iter()
                .map(|p| {
                    self.factors
                        .iter()
                        .map(|f| p.factor(f).to_owned())
                        .collect()
                })
                .collect(),
            point_of: self.runs.iter().map(|r| (r.id.clone(), r.point)).collect(),
            index: index.path().to_owned(),
        }
    }
}

/// Indices of runs, by identifier.
type RunsById = HashMap<String, usize>;

/// Reads the runs of these points, and stores their indices in the points.
fn runs(index: &Index, points: &mut [PointRow]) -> Result<Vec<RunRow>, AnalysisError> {
    let ids: HashMap<PointId, usize> = points
        .iter()
        .enumerate()
        .map(|(i, p)| (p.id.clone(), i))
        .collect();
    let mut runs = Vec::new();
    for run in index.runs()? {
        let Some(&point) = ids.get(&run.point) else {
            continue;
        };
        points[point].runs.push(runs.len());
        runs.push(RunRow::new(point, run));
    }
    Ok(runs)
}

/// Adds the values of all counted runs to their points, in the order of the plan. Returns the unit of each quantity.
fn values(
    index: &Index,
    runs: &[RunRow],
    run_of: &RunsById,
    points: &mut [PointRow],
) -> Result<BTreeMap<String, String>, AnalysisError> {
    let mut units = BTreeMap::new();
    // each run has one value of a quantity, so their order within a run does not matter
    index.each_run_value(
        |RunValue {
             run,
             quantity,
             unit,
             value,
         }| {
            let Some(run) = run_of
                .get(&run)
                .map(|run| &runs[*run])
                .filter(|run| run.counts())
            else {
                return;
            };
            let point = &mut points[run.point];
            point
                .repeats
                .entry(quantity.clone())
                .or_default()
                .push(run.repeat);
            if let Some(block) = run.block {
                point
                    .blocks
                    .entry(quantity.clone())
                    .or_default()
                    .push(block);
            }
            point
                .values
                .entry(quantity.clone())
                .or_default()
                .push(value);
            units.insert(quantity, unit);
        },
    )?;
    Ok(units)
}

/// Adds the summaries of all quantities to their points.
fn summaries(index: &Index, points: &mut [PointRow]) -> Result<(), AnalysisError> {
    let ids: HashMap<String, usize> = points
        .iter()
        .enumerate()
        .map(|(i, p)| (p.id.as_str().to_owned(), i))
        .collect();
    for PointSummary {
        point,
        quantity,
        summary,
    } in index.summaries()?
    {
        if let Some(&point) = ids.get(&point) {
            points[point].summaries.insert(quantity, summary);
        }
    }
    Ok(())
}

/// Returns the quantities with their tiers, in the order of tables.
fn quantities(
    index: &Index,
    units: BTreeMap<String, String>,
) -> Result<IndexMap<String, ReportedQuantity>, AnalysisError> {
    let mut declared: BTreeMap<String, Vec<Option<Better>>> = BTreeMap::new();
    for figure in index.figures()? {
        declared.entry(figure.name).or_default().push(figure.better);
    }
    let mut quantities: Vec<(String, ReportedQuantity)> = units
        .into_iter()
        .map(|(name, unit)| {
            let (tier, better) =
                super::quantity::standing(&name, declared.get(&name).map_or(&[], Vec::as_slice));
            (name, ReportedQuantity { unit, tier, better })
        })
        .collect();
    quantities.sort_by_cached_key(|(name, q)| super::quantity::order(name, q.tier));
    Ok(quantities.into_iter().collect())
}

/// Returns, for each fact and each of its values, the runs that recorded it.
fn facts(
    index: &Index,
    run_of: &RunsById,
) -> Result<BTreeMap<String, BTreeMap<String, Vec<usize>>>, AnalysisError> {
    let mut facts: BTreeMap<String, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
    index.each_fact(|fact| {
        if let Some(&run) = run_of.get(&fact.run) {
            facts
                .entry(fact.key)
                .or_default()
                .entry(fact.value)
                .or_default()
                .push(run);
        }
    })?;
    Ok(facts)
}

/// Returns the sources of the records of counted runs.
fn sources(index: &Index, points: &[PointRow]) -> Result<SourceSets, AnalysisError> {
    let ids: HashMap<&str, usize> = points
        .iter()
        .enumerate()
        .map(|(i, p)| (p.id.as_str(), i))
        .collect();
    let mut sources = SourceSets::new();
    for RecordSource {
        point,
        name,
        labels,
        source,
    } in index.record_sources()?
    {
        if let Some(&point) = ids.get(point.as_str()) {
            sources
                .entry((point, name, labels))
                .or_default()
                .insert(source);
        }
    }
    Ok(sources)
}
