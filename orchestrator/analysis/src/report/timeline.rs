//! Runs of each site over time, the nodes that they used, and the idle time of rented machines.

use crate::results::data::Data;
use cvc_core::point::FactorId;
use cvc_index::{Index, IndexedAttempt, IndexedLease, IndexedResult, error::AnalysisError};
use cvc_show::{
    Block, Cell, Column, Plot, Section, Table,
    plot::{Drawing, INK, PALETTE, TEXT, WIDE, at, keys, render, style_mesh, text, tick, width},
};
use indexmap::IndexMap;
use jiff::Timestamp;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

/// Height of a lane, the row of bars that do not overlap, pixels.
const LANE: u32 = 14;

/// Maximum number of lanes drawn for a site; further runs are drawn in the last lane.
const MAX_LANES: usize = 12;

/// Neighbouring bars of a lane are merged if the gap between them is smaller than this share of the axis, because the gap would be invisible.
const MERGED: f64 = 1.0 / 2000.0;

/// Outcomes of attempts, in the order of the legend.
const RESULTS: [&str; 3] = ["succeeded", "failed", "given up"];

/// An attempted run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    /// Start, seconds since 1970.
    start_s: f64,
    end_s: f64,
    /// Index into [`RESULTS`].
    result: usize,
}

/// Runs and leases of a site.
#[derive(Default)]
struct Site {
    /// Bars by lane; the bars of a lane do not overlap.
    lanes: Vec<Vec<Bar>>,
    /// Rental periods of instances, seconds since 1970. If the instance was not released, the period ends with the last entry of the journal.
    leases: Vec<(f64, f64)>,
    attempts: usize,
    /// Time used by runs, node-seconds.
    held_node_s: f64,
    /// Rented time, instance-seconds.
    rented_node_s: f64,
    /// Cost of the instances, US dollars; `None` if the cost of any is unknown.
    usd: Option<f64>,
    instances: u32,
}

pub(super) fn section(data: &Data, index: &Index) -> Result<Section, AnalysisError> {
    let sites = sites(data, index)?;
    let mut blocks = Vec::new();
    // imported runs have no start times
    if sites.values().any(|site| site.held_node_s > 0.0) {
        blocks.push(Block::Table(table(&sites)));
        blocks.push(Block::Plot(plot(&sites)?));
    }
    Ok(Section {
        id: "timeline",
        title: "Timeline".to_owned(),
        blocks,
    })
}

fn seconds(at: &str) -> Option<f64> {
    let at: Timestamp = at.parse().ok()?;
    Some(at.as_millisecond() as f64 / 1000.0)
}

fn sites(data: &Data, index: &Index) -> Result<IndexMap<String, Site>, AnalysisError> {
    let mut sites: IndexMap<String, Site> = IndexMap::new();
    let last_entry = data.meta.get("last_entry").and_then(|at| seconds(at));
    let by_run: std::collections::HashMap<&str, usize> = data
        .runs
        .iter()
        .map(|run| (run.id.as_str(), run.point))
        .collect();
    let mut attempts: Vec<(usize, Bar)> = Vec::new();
    for IndexedAttempt {
        run,
        started,
        ended,
        result,
    } in index.attempts()?
    {
        let ends = ended.as_deref().and_then(seconds).or(last_entry);
        let times = started.as_deref().and_then(seconds).zip(ends);
        let (Some(point), Some((start_s, end_s))) = (by_run.get(run.as_str()), times) else {
            continue;
        };
        let result = match result {
            IndexedResult::Succeeded => 0,
            IndexedResult::Failed => 1,
            IndexedResult::Abandoned => 2,
            IndexedResult::Running => continue,
        };
        attempts.push((
            *point,
            Bar {
                start_s,
                end_s: end_s.max(start_s),
                result,
            },
        ));
    }
    attempts.sort_by(|a, b| a.1.start_s.total_cmp(&b.1.start_s));
    for (point, bar) in attempts {
        let point = &data.points[point];
        let site = sites
            .entry(point.level(FactorId::Site).to_owned())
            .or_default();
        site.attempts += 1;
        site.held_node_s += (bar.end_s - bar.start_s) * f64::from(point.nodes);
        site.add(bar);
    }
    for lease in index.leases()? {
        let IndexedLease {
            site,
            instances,
            instance_s,
            usd,
            intended,
            ended,
            ..
        } = lease;
        let site = sites.entry(site).or_default();
        let known = if site.instances == 0 {
            Some(0.0)
        } else {
            site.usd
        };
        site.usd = known.zip(usd).map(|(sum, usd)| sum + usd);
        site.instances += instances;
        site.rented_node_s += instance_s;
        let ends = ended.as_deref().and_then(seconds).or(last_entry);
        site.leases.extend(seconds(&intended).zip(ends));
    }
    Ok(sites)
}

impl Site {
    /// Adds a bar to the first free lane. Bars must be added in the order of their starts.
    fn add(&mut self, bar: Bar) {
        let free = |lane: &Vec<Bar>| lane.last().is_none_or(|last| last.end_s <= bar.start_s);
        match self.lanes.iter().position(free) {
            Some(lane) => self.lanes[lane].push(bar),
            None if self.lanes.len() < MAX_LANES => self.lanes.push(vec![bar]),
            None => {
                if let Some(lane) = self.lanes.last_mut() {
                    lane.push(bar);
                }
            }
        }
    }

    /// Returns the share of the rented time in which no run used the instance; `None` without rented instances.
    fn idle(&self) -> Option<f64> {
        (self.rented_node_s > 0.0).then(|| (1.0 - self.held_node_s / self.rented_node_s).max(0.0))
    }
}

fn table(sites: &IndexMap<String, Site>) -> Table {
    let mut columns = vec![
        Column::plain("site", "site"),
        Column::plain("attempts", "attempts"),
        Column::of("held_h", "node-hours of runs", "h"),
        Column::of("rented_h", "instances rented", "h"),
        Column::of("idle_pct", "idle share", "%"),
        Column::of("idle_usd", "cost of idle time", "USD"),
    ];
    let is_rented = sites.values().any(|site| site.rented_node_s > 0.0);
    if !is_rented {
        columns.truncate(3);
    }
    let caption = if is_rented {
        "Node-hours. Rented: from order to end, by the journal. Idle: rented, but not occupied by a run: start, set-up, waiting and shutdown."
    } else {
        "Node-hours of runs, failed ones included."
    };
    let mut table = Table::new("nodes_over_time", "Node-hours", caption, columns);
    table.rows = sites
        .iter()
        .map(|(name, site)| {
            let mut row = vec![
                Cell::text(name),
                Cell::count(site.attempts),
                Cell::number(site.held_node_s / 3600.0),
            ];
            if is_rented {
                let idle = site.idle();
                row.extend([
                    Cell::number(Some(site.rented_node_s / 3600.0).filter(|h| *h > 0.0)),
                    Cell::number(idle.map(|share| share * 100.0)),
                    Cell::number(idle.zip(site.usd).map(|(share, usd)| share * usd)),
                ]);
            }
            row
        })
        .collect();
    table
}

fn plot(sites: &IndexMap<String, Site>) -> Result<Plot, AnalysisError> {
    let drawing = drawing(sites)?;
    let rented = if sites.values().any(|site| !site.leases.is_empty()) {
        " Grey: instances were rented."
    } else {
        ""
    };
    Ok(Plot {
        id: "when_it_ran".to_owned(),
        title: "Runs over time".to_owned(),
        caption: format!(
            "Each bar is an attempt at a run, from its start to its end; concurrent attempts are drawn below each other.{rented}"
        ),
        width: drawing.width,
        keys: drawing.keys,
        panels: drawing.panels,
    })
}

/// Returns a suitable unit for a time span: its name and its length in seconds.
fn unit(span_s: f64) -> (&'static str, f64) {
    match span_s {
        s if s < 300.0 => ("s", 1.0),
        s if s < 5.0 * 3600.0 => ("min", 60.0),
        s if s < 5.0 * 86_400.0 => ("h", 3600.0),
        _ => ("days", 86_400.0),
    }
}

fn drawing(sites: &IndexMap<String, Site>) -> Result<Drawing, AnalysisError> {
    let what = "runs over time";
    let ends = || {
        sites.values().flat_map(|site| {
            let bars = site.lanes.iter().flatten().map(|b| (b.start_s, b.end_s));
            bars.chain(site.leases.iter().copied())
        })
    };
    let first = ends().map(|e| e.0).fold(f64::INFINITY, f64::min);
    let last = ends().map(|e| e.1).fold(first, f64::max);
    let span_s = (last - first).max(1.0);
    let (unit, unit_s) = unit(span_s);
    let top = span_s / unit_s;
    let place = |at_s: f64| (at_s - first) / unit_s;
    let lanes: usize = sites.values().map(|site| site.lanes.len().max(1) + 1).sum();
    let longest = sites.keys().map(|name| width(name, TEXT)).max();
    let margin = longest.unwrap_or(0).min(WIDE as i32 / 3) + 16;
    let drawn = render(what, (WIDE, lanes as u32 * LANE + 60), |root| {
        let mut chart = ChartBuilder::on(root)
            .margin_right(24)
            .margin_top(8)
            .set_label_area_size(LabelAreaPosition::Left, margin)
            .set_label_area_size(LabelAreaPosition::Bottom, 46)
            .build_cartesian_2d(0.0..top, 0.0..lanes as f64)?;
        style_mesh(&mut chart.configure_mesh())
            .disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_labels(6)
            .x_label_formatter(&|v| tick(*v, top))
            .x_desc(format!("{unit} since the first"))
            .draw()?;
        let mut upper = lanes as f64;
        for (name, site) in sites {
            let height = site.lanes.len().max(1) as f64;
            let lower = upper - height - 0.5;
            for (start, end) in &site.leases {
                let corners = [(place(*start), lower), (place(*end), upper - 0.5)];
                chart.draw_series([Rectangle::new(corners, INK.mix(0.1).filled())])?;
            }
            let (left, y) = chart
                .plotting_area()
                .map_coordinate(&(0.0, (upper + lower) / 2.0 - 0.25));
            root.draw(&Text::new(
                name.clone(),
                (left - 8, y),
                at(text(TEXT), HPos::Right, VPos::Center),
            ))?;
            for (lane, bars) in site.lanes.iter().enumerate() {
                let y = upper - 0.5 - lane as f64;
                for bar in merged(bars, span_s * MERGED) {
                    let corners = [(place(bar.start_s), y - 0.85), (place(bar.end_s), y - 0.15)];
                    chart.draw_series([Rectangle::new(corners, PALETTE[bar.result].filled())])?;
                }
            }
            upper = lower - 0.5;
        }
        Ok(())
    })?;
    Ok(Drawing {
        keys: keys(what, &RESULTS.map(str::to_owned))?,
        panels: vec![drawn],
        width: WIDE,
        is_cut: false,
    })
}

/// Merges neighbouring bars with the same result and a gap below `gap_s`.
fn merged(bars: &[Bar], gap_s: f64) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    for bar in bars {
        match merged.last_mut() {
            Some(last) if last.result == bar.result && bar.start_s - last.end_s < gap_s => {
                last.end_s = last.end_s.max(bar.end_s);
            }
            Some(_) | None => merged.push(*bar),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(start_s: f64, end_s: f64, result: usize) -> Bar {
        Bar {
            start_s,
            end_s,
            result,
        }
    }

    #[test]
    fn runs_side_by_side_have_lanes_of_their_own() {
        let mut site = Site::default();
        for bar in [bar(0.0, 10.0, 0), bar(5.0, 8.0, 0), bar(9.0, 12.0, 1)] {
            site.add(bar);
        }
        assert_eq!(
            site.lanes,
            [
                vec![bar(0.0, 10.0, 0)],
                vec![bar(5.0, 8.0, 0), bar(9.0, 12.0, 1)]
            ]
        );
    }

    #[test]
    fn only_bars_that_ended_alike_and_nearly_touch_are_drawn_as_one() {
        let bars = [
            bar(0.0, 1.0, 0),
            bar(1.01, 2.0, 0),
            bar(2.01, 3.0, 1),
            bar(5.0, 6.0, 1),
        ];
        assert_eq!(
            merged(&bars, 0.1),
            [bar(0.0, 2.0, 0), bar(2.01, 3.0, 1), bar(5.0, 6.0, 1)]
        );
    }

    #[test]
    fn idle_is_what_was_rented_and_no_run_held() {
        let site = Site {
            held_node_s: 25.0,
            rented_node_s: 100.0,
            ..Site::default()
        };
        assert_eq!(site.idle(), Some(0.75));
        assert_eq!(Site::default().idle(), None);
    }
}
