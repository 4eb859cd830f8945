//! Costs of runs, from their records, and of instances, from the journal. Plot of time against cost, with clusters and clouds together.

use super::{layout, summary};
use crate::results::data::Data;
use cvc_core::point::FactorId;
use cvc_core::record::names;
use cvc_index::Index;
use cvc_index::error::AnalysisError;
use cvc_model::stats::Summary;
use cvc_show::{
    Block, Cell, Column, Plot, Section, Table,
    plot::{self, PlotSpot},
};
use indexmap::{IndexMap, IndexSet};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of points with a name in the plot; more names would overlap.
const MAX_NAMES: usize = 16;

pub(super) fn section(data: &Data, index: &Index) -> Result<Section, AnalysisError> {
    let mut blocks = Vec::new();
    let spent = Spending::read(index)?;
    let priced = data
        .points
        .iter()
        .any(|p| p.summaries.contains_key(names::COST_USD));
    if priced || !spent.runs.is_empty() || !spent.leases.is_empty() {
        blocks.push(Block::Table(sites(data, &spent)));
        blocks.push(Block::Table(points(data, &spent)));
        if let Some(plot) = plot(data)? {
            blocks.push(Block::Plot(plot));
        }
    }
    Ok(Section {
        id: "cost",
        title: "Cost".to_owned(),
        blocks,
    })
}

/// The costs in the index.
#[derive(Default)]
struct Spending {
    /// Costs of runs, by site.
    runs: BTreeMap<String, OfRuns>,
    /// Sources of prices, by point.
    points: BTreeMap<String, BTreeSet<String>>,
    /// Costs of leases, by site.
    leases: BTreeMap<String, OfLeases>,
    /// Bytes fetched from clouds and, if known, their cost in US dollars, by site.
    transfers: BTreeMap<String, (i64, Option<f64>)>,
}

#[derive(Default)]
struct OfRuns {
    usd: f64,
    /// Number of runs with a known price.
    runs: usize,
    rates: BTreeSet<String>,
    sources: BTreeSet<String>,
}

#[derive(Default)]
struct OfLeases {
    /// Cost, US dollars; `None` if the cost of any lease is unknown.
    usd: Option<f64>,
    instances: usize,
    instance_s: f64,
    types: BTreeSet<String>,
    rates: BTreeSet<String>,
    sources: BTreeSet<String>,
    open: bool,
}

impl Spending {
    fn read(index: &Index) -> Result<Self, AnalysisError> {
        let mut all = Self::default();
        for cost in index.run_costs()? {
            let of = all.runs.entry(cost.site).or_default();
            of.usd += cost.usd.unwrap_or(0.0);
            of.runs += 1;
            of.rates.extend(cost.rate);
            of.sources.extend(cost.price.clone());
            all.points.entry(cost.point).or_default().extend(cost.price);
        }
        for lease in index.leases()? {
            let of = all.leases.entry(lease.site).or_insert_with(|| OfLeases {
                usd: Some(0.0),
                ..OfLeases::default()
            });
            of.types.insert(format!(
                "{}{}",
                lease.instance_type,
                if lease.spot { " (spot)" } else { "" }
            ));
            of.instances += lease.instances as usize;
            of.instance_s += lease.instance_s;
            of.usd = of.usd.zip(lease.usd).map(|(a, b)| a + b);
            of.open |= lease.ended.is_none();
            of.rates.extend(lease.rate);
            of.sources.extend(lease.price);
        }
        for transfer in index.transfers()? {
            all.transfers
                .insert(transfer.site, (transfer.bytes, transfer.usd));
        }
        Ok(all)
    }
}

/// Returns a cell with the value, or with the text `unknown`.
fn known(value: Option<f64>) -> Cell {
    value.map_or_else(|| Cell::text("unknown"), Cell::number)
}

fn sites(data: &Data, spent: &Spending) -> Table {
    let caption = "Runs: cost of the nodes while successful runs occupied them, warm-ups included. Instances: cost \
                   of all instances from order to end, by the journal, including set-up, failed runs, waiting, disks and \
                   addresses, but not data transfer, which has a column if results were fetched: without retransmissions and without the \
                   cloud's free allowance. Unknown: no price was given.";
    let mut columns = vec![
        Column::plain("site", "site"),
        Column::of("runs_usd", "runs", "USD"),
        Column::of("node_hour_usd", "node-hour", "USD"),
        Column::plain("price_source", "price from"),
        Column::plain("instance_types", "instances of"),
        Column::plain("instances", "instances"),
        Column::of("instance_time_s", "time of instances", "s"),
        Column::of("instances_usd", "instances, total", "USD"),
    ];
    if !spent.transfers.is_empty() {
        columns.extend([
            Column::of("fetched_bytes", "fetched", "B"),
            Column::of("fetched_usd", "transfer", "USD"),
        ]);
    }
    columns.push(Column::plain("remark", "remark"));
    let mut table = Table::new("cost_sites", "Cost by site", caption, columns);
    let mut all: IndexSet<&str> = data.levels("site");
    all.extend(spent.leases.keys().map(String::as_str));
    for site in all {
        let (runs, leases) = (spent.runs.get(site), spent.leases.get(site));
        let has_runs = data
            .points
            .iter()
            .any(|p| p.level(FactorId::Site) == site && p.counted(&data.runs) > 0);
        let of_runs = runs
            .iter()
            .flat_map(|r| &r.rates)
            .filter_map(|r| r.parse().ok());
        let of_leases = leases
            .iter()
            .flat_map(|l| &l.rates)
            .filter_map(|r| r.parse().ok());
        let mut rates: Vec<f64> = of_runs.chain(of_leases).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup_by(|a, b| (*a - *b).abs() <= 1e-9 * b.abs());
        let sources: BTreeSet<String> = runs
            .iter()
            .flat_map(|r| &r.sources)
            .chain(leases.iter().flat_map(|l| &l.sources))
            .cloned()
            .collect();
        let join = |set: &BTreeSet<String>| {
            Cell::text(
                set.iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join("; "),
            )
        };
        let mut row = vec![Cell::text(site)];
        row.push(if has_runs {
            known(runs.map(|r| r.usd))
        } else {
            Cell::Empty
        });
        row.push(match rates[..] {
            [] => Cell::Empty,
            [rate] => Cell::number(Some(rate)),
            [least, .., most] => Cell::text(format!("{least:.4} to {most:.4}")),
        });
        row.push(join(&sources));
        row.push(leases.map_or(Cell::Empty, |l| join(&l.types)));
        row.push(leases.map_or(Cell::Empty, |l| Cell::count(l.instances)));
        row.push(leases.map_or(Cell::Empty, |l| Cell::number(l.instance_s)));
        row.push(leases.map_or(Cell::Empty, |l| known(l.usd)));
        if !spent.transfers.is_empty() {
            let fetched = spent.transfers.get(site);
            row.push(fetched.map_or(Cell::Empty, |(bytes, _)| Cell::number(Some(*bytes as f64))));
            row.push(fetched.map_or(Cell::Empty, |(_, usd)| known(*usd)));
        }
        row.push(Cell::text(if leases.is_some_and(|l| l.open) {
            "still open when the journal ends"
        } else {
            ""
        }));
        table.rows.push(row);
    }
    table
}

fn points(data: &Data, spent: &Spending) -> Table {
    let mut columns = summary::point_columns(data);
    columns.extend([Column::plain("nodes", "nodes"), Column::plain("n", "n")]);
    columns.extend([
        Column::of(names::COST_USD, "cost of a run", "USD"),
        Column::plain("price_source", "price from"),
    ]);
    columns.push(Column::of(names::WALL_S, "wall time", "s"));
    let caption = "Number of nodes times their occupied time, times the price of a node: means of the repeats with their \
                   95 % intervals; lower is better. The set-up and waiting time of instances is not included: see above.";
    let mut table = Table::new("costs", "Cost of a run", caption, columns);
    for (i, p) in data
        .points
        .iter()
        .enumerate()
        .filter(|(_, p)| p.counted(&data.runs) > 0)
    {
        let mut row = summary::point_cells(data, i);
        row.extend([
            Cell::count(p.nodes as usize),
            Cell::count(p.counted(&data.runs)),
        ]);
        row.push(match p.summaries.get(names::COST_USD) {
            Some(cost) => Cell::measured(Some(cost)),
            None => Cell::text("unknown"),
        });
        let sources = spent
            .points
            .get(p.id.as_str())
            .map(|s| s.iter().map(String::as_str).collect::<Vec<_>>().join("; "));
        row.push(Cell::text(sources.unwrap_or_else(|| "unknown".to_owned())));
        row.push(Cell::measured(p.summaries.get(names::WALL_S)));
        table.rows.push(row);
    }
    table
}

/// Draws time against cost: a panel for each application and class, a series for each site.
fn plot(data: &Data) -> Result<Option<Plot>, AnalysisError> {
    let of = |p: usize| -> Option<(&Summary, &Summary)> {
        let all = &data.points[p].summaries;
        Some((all.get(names::WALL_S)?, all.get(names::COST_USD)?))
    };
    let with: Vec<usize> = (0..data.points.len())
        .filter(|p| of(*p).is_some())
        .collect();
    let sites: IndexSet<&str> = with
        .iter()
        .map(|p| data.points[*p].level(FactorId::Site))
        .collect();
    let mut works: IndexMap<(&str, &str), Vec<usize>> = IndexMap::new();
    for p in &with {
        works
            .entry((
                data.points[*p].level(FactorId::App),
                data.points[*p].level(FactorId::Class),
            ))
            .or_default()
            .push(*p);
    }
    if with.is_empty() || works.len() > layout::MAX_FIGURES {
        return Ok(None);
    }
    let varying: Vec<&str> = data
        .varying()
        .into_iter()
        .filter(|f| !["site", "app", "class"].contains(f))
        .collect();
    let unit = layout::scale(with.iter().filter_map(|p| Some(of(*p)?.0.mean)), "s");
    let panels: Vec<(String, Vec<PlotSpot>)> = works
        .iter()
        .map(|((app, class), points)| {
            let named = points.len() <= MAX_NAMES;
            let spots = points.iter().filter_map(|p| {
                let (wall, cost) = of(*p)?;
                Some(PlotSpot {
                    series: sites.get_index_of(data.points[*p].level(FactorId::Site))?,
                    name: if named && !varying.is_empty() {
                        data.label(*p, &varying)
                    } else {
                        String::new()
                    },
                    at: (layout::whisker(wall, unit.0), layout::whisker(cost, 1.0)),
                })
            });
            (format!("{app}, {class}"), spots.collect())
        })
        .collect();
    let series: Vec<String> = sites.iter().map(|s| (*s).to_owned()).collect();
    let x = format!("wall time, {}", unit.1);
    let drawing = plot::scatter("cost", (&x, "cost of a run, USD"), &series, &panels)?;
    let caption = "Wall time and cost of each point, sites by colour and shape: means of the repeats with their \
                   95 % intervals; lower and further left is better.";
    Ok(Some(drawing.plot(
        "cost-time".to_owned(),
        "Time against dollars".to_owned(),
        caption.to_owned(),
    )))
}
