//! The A/A test of a campaign: how often comparisons report a difference between equal things (a point's own repeats, or sites that are the same
//! machine).

use crate::results::{data::Data, rows::PointRow};
use cvc_core::measured::is_disturbance;
use cvc_core::point::FactorId;
use cvc_index::Index;
use cvc_index::error::AnalysisError;
use cvc_model::stats::{
    Comparison, Interval, adjust, compare, compare_paired, compare_stopped, share_interval,
};
use indexmap::IndexMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Minimum number of pairs of repeats with which a point is compared with itself.
const MIN_PAIRS: usize = 4;

/// A comparison of equal things.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AaComparison {
    /// Short name of the point; for a comparison of two sites, the name of the point on the first site.
    pub point: String,
    /// The point's factor levels.
    pub at: String,
    /// Name of the quantity.
    pub quantity: String,
    /// The two groups of repeats, or the two sites, compared.
    pub compared: String,
    /// The ratio, its interval and its p-value.
    pub comparison: Comparison,
    /// Whether a difference is reported if only this comparison is made.
    pub differs_alone: bool,
    /// Whether a difference is reported if all comparisons are in one table, and the intervals are adjusted for their number.
    pub differs: bool,
}

/// Number of comparisons that report a difference between equal things.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FalsePositives {
    /// Number of comparisons of quantities that scatter. Without scatter there are no differences by chance.
    pub compared: usize,
    /// Number of differences reported if each comparison is made alone: 5 % of `compared` are expected.
    pub differ_alone: usize,
    /// `differ_alone` as a share of `compared`; `None` without comparisons.
    pub share: Option<f64>,
    /// 95 % Clopper-Pearson interval of `share`.
    pub share_interval: Option<Interval>,
    /// Number of differences reported if all comparisons are in one table.
    pub differ: usize,
}

/// Result of the A/A test of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AaTest {
    /// Comparisons of the odd repeats of each point with its even ones.
    pub repeats: FalsePositives,
    /// Comparisons of points that differ only in their site; `None` with one site.
    pub sites: Option<FalsePositives>,
    /// All comparisons.
    pub comparisons: Vec<AaComparison>,
    /// Number of points with too few repeats for a comparison with themselves.
    pub points_with_too_few_repeats: usize,
}

/// The values of a quantity at a point, by repeat number.
type Repeats = BTreeMap<u32, f64>;

/// Compares the odd repeats of each point with its even ones, and each point with the otherwise equal point of another site.
///
/// # Errors
/// The index cannot be read.
pub fn aa_test(index: &Index) -> Result<AaTest, AnalysisError> {
    let data = Data::read(index)?;
    let mut comparisons = Vec::new();
    let mut too_few = 0;
    for point in &data.points {
        let pairs = |repeats: &Repeats| -> Vec<(f64, f64)> {
            repeats
                .iter()
                .filter(|(repeat, _)| *repeat % 2 == 1)
                .filter_map(|(r, a)| Some((*a, *repeats.get(&(r + 1))?)))
                .collect()
        };
        let all = results(point)
            .into_iter()
            .map(|(quantity, repeats)| (quantity, pairs(&repeats)));
        let enough: Vec<_> = all.filter(|(_, pairs)| pairs.len() >= MIN_PAIRS).collect();
        too_few += usize::from(enough.is_empty());
        for (quantity, pairs) in enough {
            comparisons.extend(
                compare_paired(&pairs).map(|c| found(point, quantity, "odd with even repeats", c)),
            );
        }
    }
    let of_repeats = comparisons.len();
    let mut alike: IndexMap<Vec<(&str, &str)>, Vec<usize>> = IndexMap::new();
    for (i, point) in data.points.iter().enumerate() {
        let rest = point.factors.iter().filter(|(factor, _)| *factor != "site");
        alike
            .entry(
                rest.map(|(factor, level)| (factor.as_str(), level.as_str()))
                    .collect(),
            )
            .or_default()
            .push(i);
    }
    for (a, b) in alike.values().flat_map(|points| {
        points
            .iter()
            .enumerate()
            .flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (*a, *b)))
    }) {
        let (first, second) = (&data.points[a], &data.points[b]);
        // repeats that ended when their interval was narrow underestimate the scatter: use their minimum number
        let least = data.least_repeats_of_stopped([a, b]);
        let of_second = results(second);
        for (quantity, a) in results(first) {
            let Some(b) = of_second.get(quantity).filter(|b| a.len().min(b.len()) > 1) else {
                continue;
            };
            let list = |repeats: &Repeats| repeats.values().copied().collect::<Vec<f64>>();
            let (a, b) = (list(&a), list(b));
            let compared = match least {
                Some(least) => compare_stopped(&a, &b, least),
                None => compare(&a, &b),
            };
            let what = format!(
                "{} with {}",
                first.level(FactorId::Site),
                second.level(FactorId::Site)
            );
            comparisons.extend(compared.map(|c| found(first, quantity, &what, c)));
        }
    }
    // each kind of comparison is a separate table
    let (repeats, between) = comparisons.split_at_mut(of_repeats);
    let judged = [repeats, between].map(judge);
    let [repeats, between] = judged;
    let sites = (comparisons.len() > of_repeats).then_some(between);
    Ok(AaTest {
        repeats,
        sites,
        comparisons,
        points_with_too_few_repeats: too_few,
    })
}

/// Returns the values of a point by quantity, without quantities that describe other activity on its nodes.
fn results(point: &PointRow) -> BTreeMap<&str, Repeats> {
    let of = |(quantity, values): (&'_ String, &Vec<f64>)| {
        let repeats = point.repeats.get(quantity)?;
        Some(
            repeats
                .iter()
                .copied()
                .zip(values.iter().copied())
                .collect(),
        )
    };
    let is_result = |quantity: &str| !is_disturbance(quantity);
    point
        .values
        .iter()
        .filter(|(quantity, _)| is_result(quantity))
        .filter_map(|(q, v)| Some((q.as_str(), of((q, v))?)))
        .collect()
}

fn found(point: &PointRow, quantity: &str, compared: &str, comparison: Comparison) -> AaComparison {
    let at = ["app", "class", "mapping", "mpi", "checkpointer"]
        .map(|f| point.factor(f))
        .into_iter()
        .filter(|level| !level.is_empty());
    AaComparison {
        point: point.id.as_str().chars().take(8).collect(),
        at: at.collect::<Vec<_>>().join(" "),
        quantity: quantity.to_owned(),
        compared: compared.to_owned(),
        comparison,
        differs_alone: comparison.differs(),
        differs: false,
    }
}

/// Adjusts the comparisons of a table for their number, and counts the reported differences.
fn judge(comparisons: &mut [AaComparison]) -> FalsePositives {
    adjust(comparisons.iter_mut().map(|c| &mut c.comparison), 0.0);
    for c in comparisons.iter_mut() {
        c.differs = c.comparison.differs();
    }
    // a difference without scatter is not a false positive, because the values really differ
    let scattered = || {
        comparisons
            .iter()
            .filter(|c| c.comparison.effect_size.is_some())
    };
    let (compared, differ_alone) = (
        scattered().count(),
        scattered().filter(|c| c.differs_alone).count(),
    );
    FalsePositives {
        compared,
        differ_alone,
        share: (compared > 0).then(|| differ_alone as f64 / compared as f64),
        share_interval: share_interval(differ_alone, compared),
        differ: scattered().filter(|c| c.differs).count(),
    }
}
