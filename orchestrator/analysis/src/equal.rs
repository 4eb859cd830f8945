//! How often a campaign's comparisons call equal things different: its own repeats, and sites that are the same machine.

use crate::{
    error::AnalysisError,
    index::{Index, IndexedPoint, IndexedRun},
};
use cvc_core::{ids::PointId, record::names};
use cvc_model::stats::{Comparison, Interval, adjust, compare, compare_paired, compare_stopped, share_interval};
use indexmap::IndexMap;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Fewest pairs of repeats of a point that are compared.
const ENOUGH_PAIRS: usize = 4;

/// One comparison of equal things.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EqualComparison {
    /// Short name of the point; of two sites, that on the first.
    pub point: String,
    /// Its factors.
    pub at: String,
    /// The quantity.
    pub quantity: String,
    /// What is compared with what.
    pub compared: String,
    /// The ratio, its interval and probability.
    pub comparison: Comparison,
    /// Whether it is called different when looked at alone.
    pub differs_alone: bool,
    /// Whether it is called different in a table of all of these.
    pub differs: bool,
}

/// How many of a number of comparisons call equal things different.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FalseAlarms {
    /// Comparisons of quantities that scatter: without scatter nothing can be called different by chance.
    pub compared: usize,
    /// Called different when each is looked at alone: 5 % are expected.
    pub differ_alone: usize,
    /// The same as a share, with its 95 % interval; `None` without comparisons.
    pub share: Option<f64>,
    /// Clopper and Pearson's.
    pub share_interval: Option<Interval>,
    /// Called different in a table of all of them.
    pub differ: usize,
}

/// What an A/A comparison of a campaign shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AaResult {
    /// Neighbouring repeats of each point, odd against even ones.
    pub repeats: FalseAlarms,
    /// Points that differ in nothing but their site; `None` with one site.
    pub sites: Option<FalseAlarms>,
    /// Every comparison.
    pub comparisons: Vec<EqualComparison>,
    /// Points with too few repeats to be compared with themselves.
    pub points_with_too_few_repeats: usize,
}

/// The values of a quantity at a point, by number of repeat.
type Repeats = BTreeMap<u32, f64>;

/// Compares the repeats of each point with each other, and points of different sites that are otherwise equal.
///
/// # Errors
/// When the index cannot be read.
pub fn compare_equals(index: &Index) -> Result<AaResult, AnalysisError> {
    let points = index.points()?;
    let values = values(index)?;
    let mut comparisons = Vec::new();
    let mut too_few = 0;
    for point in &points {
        let of_point = values.get(&point.id);
        let pairs = |repeats: &Repeats| -> Vec<(f64, f64)> {
            repeats.iter().filter(|(repeat, _)| *repeat % 2 == 1).filter_map(|(r, a)| Some((*a, *repeats.get(&(r + 1))?))).collect()
        };
        let all = of_point.into_iter().flatten().map(|(quantity, repeats)| (quantity, pairs(repeats)));
        let enough: Vec<_> = all.filter(|(_, pairs)| pairs.len() >= ENOUGH_PAIRS).collect();
        too_few += usize::from(enough.is_empty());
        for (quantity, pairs) in enough {
            let what = "odd with even repeats";
            comparisons.extend(compare_paired(&pairs).map(|c| found(&point.id, &point.factors.texts(), quantity, what, c)));
        }
    }
    let of_repeats = comparisons.len();
    let mut alike: IndexMap<Vec<(String, String)>, Vec<&IndexedPoint>> = IndexMap::new();
    for point in &points {
        let rest = point.factors.texts().into_iter().filter(|(factor, _)| factor != "site").collect();
        alike.entry(rest).or_default().push(point);
    }
    // points whose repeats ended when their interval was narrow scatter by more than they show
    let stopped: HashMap<String, usize> = index.decisions()?.into_iter().map(|d| (d.point, d.repeats as usize)).collect();
    let least = stopped.values().copied().min().unwrap_or(0);
    for (first, second) in
        alike.values().flat_map(|points| points.iter().enumerate().flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (*a, *b))))
    {
        let (Some(of_first), Some(of_second)) = (values.get(&first.id), values.get(&second.id)) else { continue };
        for (quantity, a) in of_first {
            let Some(b) = of_second.get(quantity).filter(|b| a.len().min(b.len()) > 1) else { continue };
            let list = |repeats: &Repeats| repeats.values().copied().collect::<Vec<f64>>();
            let what = format!("{} with {}", first.factors.site, second.factors.site);
            let is_stopped = [first, second].iter().any(|point| stopped.contains_key(point.id.as_str()));
            let (a, b) = (list(a), list(b));
            let compared = if is_stopped { compare_stopped(&a, &b, least) } else { compare(&a, &b) };
            comparisons.extend(compared.map(|c| found(&first.id, &first.factors.texts(), quantity, &what, c)));
        }
    }
    // each kind is a table of its own
    let (repeats, between) = comparisons.split_at_mut(of_repeats);
    let judged = [repeats, between].map(judge);
    let [repeats, between] = judged;
    let sites = (comparisons.len() > of_repeats).then_some(between);
    Ok(AaResult { repeats, sites, comparisons, points_with_too_few_repeats: too_few })
}

fn values(index: &Index) -> Result<HashMap<PointId, BTreeMap<String, Repeats>>, AnalysisError> {
    let runs: HashMap<String, IndexedRun> =
        index.runs()?.into_iter().filter(|run| !run.warmup && run.state == "succeeded").map(|run| (run.id.clone(), run)).collect();
    let mut values: HashMap<PointId, BTreeMap<String, Repeats>> = HashMap::new();
    index.each_run_value(|value| {
        // what else the nodes did is no result
        let is_result = !names::DISTURBANCES.contains(&value.quantity.as_str());
        if let Some(run) = runs.get(&value.run).filter(|_| is_result) {
            values.entry(run.point.clone()).or_default().entry(value.quantity).or_default().insert(run.repeat, value.value);
        }
    })?;
    Ok(values)
}

fn found(point: &PointId, factors: &IndexMap<String, String>, quantity: &str, compared: &str, comparison: Comparison) -> EqualComparison {
    let at =
        ["app", "class", "mapping", "mpi", "checkpointer"].iter().filter_map(|f| factors.get(*f)).cloned().collect::<Vec<_>>().join(" ");
    EqualComparison {
        point: point.as_str().chars().take(8).collect(),
        at,
        quantity: quantity.to_owned(),
        compared: compared.to_owned(),
        comparison,
        differs_alone: comparison.differs(),
        differs: false,
    }
}

/// Adjusts the comparisons of a table for their number, and counts.
fn judge(comparisons: &mut [EqualComparison]) -> FalseAlarms {
    adjust(comparisons.iter_mut().map(|c| &mut c.comparison));
    for c in comparisons.iter_mut() {
        c.differs = c.comparison.differs();
    }
    // a difference without any scatter is no false alarm: the things are not equal
    let scattered = || comparisons.iter().filter(|c| c.comparison.effect_size.is_some());
    let (compared, differ_alone) = (scattered().count(), scattered().filter(|c| c.differs_alone).count());
    FalseAlarms {
        compared,
        differ_alone,
        share: (compared > 0).then(|| differ_alone as f64 / compared as f64),
        share_interval: share_interval(differ_alone, compared),
        differ: scattered().filter(|c| c.differs).count(),
    }
}
