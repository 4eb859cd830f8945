//! Drift of results during the campaign, and correlation of consecutive runs: warnings, and a plot of results in the order of the runs.

use crate::results::{data::Data, quantity};
use cvc_core::point::FactorId;
use cvc_core::record::names;
use cvc_index::error::AnalysisError;
use cvc_model::stats::{Drift, Lag, drift, lag};
use cvc_show::{
    Block,
    plot::{self, PlotMoment},
};
use indexmap::IndexSet;
use std::collections::{HashMap, HashSet};

/// The quantities checked. They are times, because times depend on the machine.
const QUANTITIES: [&str; 2] = [names::WALL_S, names::CKPT_LATENCY_S];
/// Probability (p-value) below which a drift is reported. It is small because several sites and quantities may be tested.
const SURE: f64 = 0.01;
/// Minimum number of runs for a plot.
const MIN_RUNS: usize = 8;
/// Number of runs above which only one of the marks that would cover each other is drawn.
const MANY: usize = 2000;
/// Number of grid cells along time and along deviation. With many runs, only one mark is drawn in each cell.
const CELLS: (f64, f64) = (160.0, 60.0);

/// Returns the results of one site over time. For each point: the start of each run, hours after the campaign's first run, and its value.
fn of_site(data: &Data, site: &str, quantity: &str) -> Vec<Vec<(f64, f64)>> {
    let first = data
        .runs
        .iter()
        .filter_map(|run| run.started_s)
        .fold(f64::INFINITY, f64::min);
    let of_point = |point: &crate::results::rows::PointRow| -> Option<Vec<(f64, f64)>> {
        let starts: HashMap<u32, f64> = point
            .runs
            .iter()
            .map(|run| &data.runs[*run])
            .filter(|run| run.counts())
            .filter_map(|run| Some((run.repeat, (run.started_s? - first) / 3600.0)))
            .collect();
        let values = point
            .repeats
            .get(quantity)?
            .iter()
            .zip(point.values.get(quantity)?);
        Some(
            values
                .filter_map(|(repeat, value)| Some((*starts.get(repeat)?, *value)))
                .collect(),
        )
    };
    data.points
        .iter()
        .filter(|point| point.level(FactorId::Site) == site)
        .filter_map(of_point)
        .collect()
}

/// Returns warnings about drifting or correlated results.
pub(super) fn warnings(data: &Data) -> Vec<String> {
    let mut warnings = Vec::new();
    for site in data.levels("site") {
        for quantity in QUANTITIES {
            let results = of_site(data, site, quantity);
            let drifted = drift(&results)
                .filter(|found| found.p_value < SURE)
                .map(|found| describe_drift(site, quantity, &found));
            // a drift also makes consecutive runs correlated, so one warning is enough
            let correlated = || {
                lag(&results)
                    .filter(|found| found.p_value < SURE)
                    .map(|found| describe_correlation(site, quantity, &found))
            };
            warnings.extend(drifted.or_else(correlated));
        }
    }
    warnings
}

fn describe_drift(site: &str, quantity: &str, found: &Drift) -> String {
    let percent = |ratio: f64| super::effects::percent((ratio - 1.0) * 100.0);
    let way = if found.ratio > 1.0 { "rose" } else { "fell" };
    let over = if found.span < 1.0 {
        format!("{:.0} min", found.span * 60.0)
    } else {
        format!("{:.1} h", found.span)
    };
    format!(
        "Results drifted: the {} on {site} {way} by {} % over {over} (95 %: {} to {} %, {} runs). Comparisons of interleaved repeats allow for \
         drift; means and their intervals do not. See the plot of the order of runs.",
        quantity::heading(quantity),
        percent(found.ratio).trim_start_matches('-'),
        percent(found.interval.low),
        percent(found.interval.high),
        found.values,
    )
}

fn describe_correlation(site: &str, quantity: &str, found: &Lag) -> String {
    format!(
        "Consecutive runs are correlated: {} on {site}, correlation {:.2} ({} runs). Lasting states of the machine have this effect. Repeats then carry \
         less information than independent ones, and intervals of means are too narrow; comparisons of interleaved repeats allow \
         for it. See the plot of the order of runs.",
        quantity::heading(quantity),
        found.correlation,
        found.values,
    )
}

/// Draws the results of all runs in the order of their starts, each as the deviation from its point's mean.
pub(super) fn plots(data: &Data) -> Result<Vec<Block>, AnalysisError> {
    let sites: IndexSet<&str> = data.levels("site");
    let mut blocks = Vec::new();
    for q in QUANTITIES {
        let mut moments = Vec::new();
        for (series, site) in sites.iter().enumerate() {
            for point in of_site(data, site, q)
                .iter()
                .filter(|point| point.len() > 1)
            {
                let mean = point.iter().map(|(_, value)| value).sum::<f64>() / point.len() as f64;
                let deviation = |(hours, value): &(f64, f64)| PlotMoment {
                    series,
                    minutes: hours * 60.0,
                    deviation_pct: (value / mean - 1.0) * 100.0,
                };
                moments.extend(point.iter().filter(|_| mean > 0.0).map(deviation));
            }
        }
        if moments.len() < MIN_RUNS {
            continue;
        }
        let thinned = moments.len() > MANY;
        if thinned {
            moments = without_covered(moments);
        }
        let id = format!("order-{}", cvc_show::slug(q));
        let series: Vec<String> = sites.iter().map(|site| (*site).to_owned()).collect();
        let drawing = plot::order(&id, "from the mean, %", &series, &moments)?;
        let several = if thinned {
            " Marks that would cover each other are drawn once."
        } else {
            ""
        };
        let caption = format!(
            "Each mark is one run: its start, and the deviation of its result from the mean of its point. Without drift the marks scatter evenly \
             around 0.{several}"
        );
        let title = format!("{}: order of runs", super::time::capital(data, q));
        blocks.push(Block::Plot(drawing.plot(id, title, caption)));
    }
    Ok(blocks)
}

/// Keeps one mark of each series in each grid cell.
fn without_covered(moments: Vec<PlotMoment>) -> Vec<PlotMoment> {
    let range = |of: fn(&PlotMoment) -> f64| {
        moments
            .iter()
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            })
    };
    let (minutes, deviations) = (range(|m| m.minutes), range(|m| m.deviation_pct));
    let cell = |value: f64, (low, high): (f64, f64), cells: f64| {
        ((value - low) / (high - low).max(f64::MIN_POSITIVE) * cells) as u32
    };
    let mut seen = HashSet::new();
    moments
        .into_iter()
        .filter(|m| {
            seen.insert((
                m.series,
                cell(m.minutes, minutes, CELLS.0),
                cell(m.deviation_pct, deviations, CELLS.1),
            ))
        })
        .collect()
}
