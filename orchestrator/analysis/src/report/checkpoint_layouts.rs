//! Metadata operations and times of checkpoint layouts, over the number of clients.

use super::{layout, layout_crossings};
use crate::results::{data::Data, rows::PointRow};
use cvc_core::record::names;
use cvc_index::error::AnalysisError;
use cvc_show::{
    Block, Cell, Column, Plot, Section, Table,
    plot::{self, Categories, Marks, Panel},
    slug,
};
use indexmap::IndexMap;

const FACTOR: &str = "layout";

/// Maximum number of figures; the table has all groups.
const MAX_FIGURES: usize = 12;

/// Quantities of the table, with their units; only measured ones are shown.
const QUANTITIES: [(&str, &str, &str); 5] = [
    (names::METADATA_OPERATIONS, "metadata operations", ""),
    (names::METADATA_MESSAGES, "messages to metadata servers", ""),
    (names::CKPT_LATENCY_S, "checkpoint time", "s"),
    (names::CKPT_STOP_S, "program stopped", "s"),
    (names::WALL_S, "wall time", "s"),
];

/// Points that differ in layout and mapping only.
struct Group<'a> {
    /// Levels of the other varying factors, which all points of the group share.
    at: String,
    points: Vec<&'a PointRow>,
}

pub(super) fn section(data: &Data) -> Result<Section, AnalysisError> {
    let mut blocks = Vec::new();
    let groups = groups(data);
    if !groups.is_empty() {
        blocks.push(Block::Table(table(&groups)));
        for group in groups.iter().take(MAX_FIGURES) {
            blocks.extend(figure(group)?.map(Block::Plot));
        }
        blocks.extend(layout_crossings::table(data).map(Block::Table));
    }
    Ok(Section {
        id: "checkpoint-layouts",
        title: "Layouts of checkpoints".to_owned(),
        blocks,
    })
}

/// Returns the groups that have several layouts; none if layouts do not vary.
fn groups(data: &Data) -> Vec<Group<'_>> {
    let varying = data.varying();
    if !varying.contains(&FACTOR) {
        return Vec::new();
    }
    let others: Vec<&str> = varying
        .into_iter()
        .filter(|factor| ![FACTOR, "mapping", "processes"].contains(factor))
        .collect();
    let mut groups: IndexMap<String, Vec<&PointRow>> = IndexMap::new();
    for point in &data.points {
        let is_measured = QUANTITIES
            .iter()
            .any(|(name, ..)| point.summaries.contains_key(*name));
        if point.factor(FACTOR) != "-" && is_measured {
            let levels: Vec<&str> = others.iter().map(|factor| point.factor(factor)).collect();
            groups.entry(levels.join(", ")).or_default().push(point);
        }
    }
    let mut found = Vec::new();
    for (at, mut points) in groups {
        points.sort_by_key(|point| (point.processes, point.nodes));
        let first = points[0].factor(FACTOR);
        if points.iter().any(|point| point.factor(FACTOR) != first) {
            found.push(Group { at, points });
        }
    }
    found
}

/// Returns the quantities that were measured at any point of the groups.
fn measured(groups: &[Group<'_>]) -> Vec<(&'static str, &'static str, &'static str)> {
    let has = |name: &str| {
        let mut points = groups.iter().flat_map(|group| &group.points);
        points.any(|point| point.summaries.contains_key(name))
    };
    QUANTITIES
        .into_iter()
        .filter(|(name, ..)| has(name))
        .collect()
}

fn table(groups: &[Group<'_>]) -> Table {
    let quantities = measured(groups);
    let mut columns = vec![
        Column::plain("at", "at"),
        Column::plain("layout", "layout"),
        Column::plain("nodes", "nodes"),
        Column::plain("processes", "processes"),
    ];
    columns.extend(quantities.iter().map(|(name, heading, unit)| match *unit {
        "" => Column::plain(name, heading),
        unit => Column::of(name, heading, unit),
    }));
    let caption = "Metadata operations of a run as its file system counts them, where the site counts them, and its times. Layouts of one row group differ in \
                   nothing else.";
    let mut table = Table::new(
        "layouts",
        "Operations and times of layouts",
        caption,
        columns,
    );
    for group in groups {
        for point in &group.points {
            let mut row = vec![
                Cell::text(&group.at),
                Cell::text(point.factor(FACTOR)),
                Cell::count(point.nodes as usize),
                Cell::count(point.processes as usize),
            ];
            let summaries = quantities
                .iter()
                .map(|(name, ..)| point.summaries.get(*name));
            row.extend(summaries.map(Cell::measured));
            table.rows.push(row);
        }
    }
    table
}

/// Draws a panel for each quantity over the mappings, with a line for each layout; `None` if there is only one mapping.
fn figure(group: &Group<'_>) -> Result<Option<Plot>, AnalysisError> {
    let mut mappings: Vec<&str> = Vec::new();
    let mut layouts: Vec<String> = Vec::new();
    for point in &group.points {
        let (mapping, layout) = (point.factor("mapping"), point.factor(FACTOR));
        if !mappings.contains(&mapping) {
            mappings.push(mapping);
        }
        if !layouts.iter().any(|known| known == layout) {
            layouts.push(layout.to_owned());
        }
    }
    if mappings.len() < 2 {
        return Ok(None);
    }
    let summary = |layout: &str, mapping: &str, name: &str| {
        let mut points = group.points.iter();
        let point = points
            .find(|point| point.factor(FACTOR) == layout && point.factor("mapping") == mapping)?;
        point.summaries.get(name)
    };
    let panel = |(scale, (name, title, unit)): (usize, (&str, &str, &str))| {
        let all = group.points.iter().filter_map(|p| p.summaries.get(name));
        let (divisor, unit) = match unit {
            "" => (1.0, String::new()),
            unit => layout::scale(all.map(|summary| summary.mean), unit),
        };
        let line = |layout: &String| {
            let values = mappings
                .iter()
                .map(|mapping| summary(layout, mapping, name).map(|s| layout::whisker(s, divisor)));
            values.collect()
        };
        Panel {
            title: match unit.as_str() {
                "" => title.to_owned(),
                unit => format!("{title}, {unit}"),
            },
            x: Categories {
                title: "nodes and processes on each".to_owned(),
                names: mappings.iter().map(|m| (*m).to_owned()).collect(),
            },
            scale,
            marks: Marks::Lines(layouts.iter().map(line).collect()),
        }
    };
    let quantities = measured(std::slice::from_ref(group));
    let panels: Vec<Panel> = quantities.into_iter().enumerate().map(panel).collect();
    let id = format!("layouts-{}", slug(&group.at));
    let title = match group.at.as_str() {
        "" => "Operations and times of layouts over clients".to_owned(),
        at => format!("Operations and times of layouts over clients: {at}"),
    };
    let caption = "Means of the repeats with their intervals.".to_owned();
    let drawing = plot::panels(&id, "", &layouts, &panels)?;
    Ok(Some(drawing.plot(id, title, caption)))
}
