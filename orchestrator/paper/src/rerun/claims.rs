//! Tests claims of a paper on runs of campaigns: `[[claims]]` in `measured.toml`.

use super::{
    definition::{ClaimTests, Definition, RunSide},
    runs::{CampaignMeasurements, MeasuredPoint},
    select::{Images, RowCells, resolve},
};
use crate::paper::{Claim, ClaimOutcome, Item, Paper, SideOutcome, TestOutcome, judge_claims};
use indexmap::IndexSet;

/// Minimum number of runs for an estimate of their scatter.
const MIN_RUNS: usize = 3;

/// Judges the claims of a paper by its own numbers and by measurements of campaigns.
pub fn claims(
    paper: &Paper,
    definition: &Definition,
    measured: &CampaignMeasurements,
) -> Vec<ClaimOutcome> {
    judge_claims(paper, |claim: &Claim| {
        let tests = definition.claims.iter().find(|c| c.claim == claim.id)?;
        here(tests, measured)
    })
}

/// Returns the names of tested claims that do not exist in the paper.
pub(super) fn unknown(paper: &Paper, definition: &Definition) -> Vec<String> {
    let is_known = |tests: &ClaimTests| paper.claims.iter().any(|c| c.id == tests.claim);
    let missing = definition.claims.iter().filter(|t| !is_known(t));
    missing
        .map(|t| format!("the paper has no claim `{}`", t.claim))
        .collect()
}

/// Returns the outcome of a claim from runs; `None` if no campaign has runs for its tests.
fn here(tests: &ClaimTests, measured: &CampaignMeasurements) -> Option<SideOutcome> {
    let mut all = outcome(tests, measured, |_| true)?;
    let Some(factor) = &tests.by else {
        return Some(all);
    };
    let levels = measured.points.iter().filter_map(|p| p.factors.get(factor));
    let levels: IndexSet<&String> = levels.collect();
    for level in levels {
        let of = outcome(tests, measured, |p| p.factors.get(factor) == Some(level));
        all.by.extend(of.map(|of| (level.clone(), of)));
    }
    Some(all)
}

/// Returns the outcome from the runs of these points; `None` if there are none for the tests.
fn outcome(
    tests: &ClaimTests,
    measured: &CampaignMeasurements,
    is_chosen: impl Fn(&MeasuredPoint) -> bool,
) -> Option<SideOutcome> {
    let outcomes: Vec<TestOutcome> = tests
        .tests
        .iter()
        .map(|test| {
            let other = test.than.as_ref().or(test.minus.as_ref());
            let of = |side: Option<&RunSide>| {
                side.map_or_else(Vec::new, |side| items(side, measured, &is_chosen))
            };
            let (each, others) = (of(Some(&test.each)), of(other));
            // a factor that only one side selects is part of the difference between the sides
            let sides = [Some(&test.each), other].into_iter().flatten();
            let fixed: Vec<&str> = sides
                .flat_map(|s| s.point.keys().map(String::as_str))
                .chain(test.along.as_deref())
                .collect();
            test.judge(&each, &others, &fixed)
        })
        .collect();
    SideOutcome::of(&outcomes, Vec::new()).filter(|side| side.compared > 0)
}

/// Returns the points of one side of a test.
fn items(
    side: &RunSide,
    measured: &CampaignMeasurements,
    is_chosen: &impl Fn(&MeasuredPoint) -> bool,
) -> Vec<Item> {
    let images = resolve(&side.value.images, &RowCells::new())
        .and_then(|text| text.parse())
        .unwrap_or(Images::Whole);
    let is_wanted = |p: &&MeasuredPoint| {
        let mut wanted = side.point.iter();
        wanted.all(|(factor, values)| p.factors.get(factor).is_some_and(|v| values.has(v)))
    };
    let points = measured.points.iter().filter(|p| is_chosen(p));
    let points = points.filter(is_wanted);
    points
        .filter_map(|point| item(side, point, &images))
        .collect()
}

fn item(side: &RunSide, point: &MeasuredPoint, images: &Images) -> Option<Item> {
    let values = point.values(&side.value, images);
    let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    // with the divisor n, which papers use
    let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    let of = |factor: &str| point.factors.get(factor).map_or("-", String::as_str);
    let count = |factor: &str| of(factor).parse::<u32>().ok();
    let per_node = count("processes").zip(count("nodes").filter(|n| *n > 0));
    let per_node = per_node
        .filter(|(processes, nodes)| processes.is_multiple_of(*nodes))
        .map(|(processes, nodes)| {
            (
                "processes_per_node".to_owned(),
                (processes / nodes).to_string(),
            )
        });
    let keys = point
        .factors
        .iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .chain([("campaign".to_owned(), point.campaign.clone())])
        .chain(per_node);
    let mut about = format!(
        "{} {}.{} {} {}",
        point.campaign,
        of("app"),
        of("class"),
        of("mapping"),
        of("mpi")
    );
    // other layouts than the default one, with where they are stored
    if !["-", "strided"].contains(&of("layout")) {
        about.push_str(&format!(" {} {}", of("layout"), of("storage")));
    }
    let (value, runs) = match side.scatter {
        true => (100.0 * sd / mean, None),
        false => (mean, side.value.scatters().then(|| values.clone())),
    };
    let enough = if side.scatter { MIN_RUNS } else { 1 };
    (values.len() >= enough && value.is_finite()).then(|| Item {
        about,
        keys: keys.collect(),
        value,
        runs,
    })
}
