//! The parts of a checkpoint image: application data, libraries, shared memory.

use super::{
    layout::{self, PlannedPlot, Sheet},
    summary,
};
use crate::results::{
    data::{Data, ReportedQuantity},
    quantity,
};
use cvc_core::point::FactorId;
use cvc_index::error::AnalysisError;
use cvc_show::{
    Block, Cell, Column, Plot, Section, Table,
    plot::{self, Marks, Panel},
};
use indexmap::IndexMap;

/// The zones of images that the thesis distinguishes, with their headings.
const ZONES: [(&str, &str); 3] = [
    ("DTAPP", "application data (DTAPP)"),
    ("LB", "libraries (LB)"),
    ("SHMEM", "shared memory (SHMEM)"),
];

/// The zone that only the rule `owner` distinguishes, with its heading.
const REST: (&str, &str) = ("REST", "stacks and reserves (REST)");
/// Parts of application data according to the rule `owner`, with headings.
const PARTS: [(&str, &str); 3] = [
    ("static", "static data"),
    ("heap", "heap"),
    ("allocated", "allocated"),
];
/// Rules that assign memory to zones, the preferred one first. Runs of earlier versions have only the zones of the last rule.
const PREFERRED: [&str; 2] = ["owner", "structural"];

/// Returns the zones that a rule distinguishes.
fn zones(rule: &str) -> Vec<(&'static str, &'static str)> {
    ZONES
        .into_iter()
        .chain((rule == "owner").then_some(REST))
        .collect()
}

pub(super) fn section(data: &Data) -> Section {
    let mut blocks = Vec::new();
    let rules = rules(data);
    if let Some(rule) = drawn(&rules) {
        blocks.push(Block::Table(table(data, &rule)));
        for other in rules.iter().filter(|r| **r != rule) {
            let mut table = table(data, other);
            table.folded = true;
            if same(data, &rule, other) {
                table.caption.push_str(&format!(
                    " In this campaign it agrees with the {rule} rule everywhere."
                ));
            }
            blocks.push(Block::Table(table));
        }
    }
    if !blocks.is_empty() {
        blocks.splice(
            0..0,
            notes(data).into_iter().map(|text| Block::Text { text }),
        );
    }
    let mut files = files(data);
    files.folded = true;
    if !files.rows.is_empty() {
        blocks.push(Block::Table(files));
    }
    Section {
        id: "zones",
        title: "Checkpoint sizes".to_owned(),
        blocks,
    }
}

/// Returns the notes about known distortions of sizes that runs recorded, each once, with the MPI libraries concerned.
fn notes(data: &Data) -> Vec<String> {
    let mut notes: IndexMap<&str, Vec<usize>> = IndexMap::new();
    for (value, runs) in data.facts.get("notes").into_iter().flatten() {
        // earlier versions separated notes by semicolons, which notes may contain
        for note in value.lines() {
            notes
                .entry(note)
                .or_default()
                .extend(runs.iter().map(|r| data.runs[*r].point));
        }
    }
    let text = |(note, points): (&str, Vec<usize>)| {
        let mut libraries: Vec<&str> = points
            .iter()
            .map(|p| data.points[*p].level(FactorId::Mpi))
            .collect();
        libraries.sort_unstable();
        libraries.dedup();
        format!("Note, for {}: {note}.", libraries.join(", "))
    };
    notes.into_iter().map(text).collect()
}

/// Returns the rule that plots use. Tables have every rule.
fn drawn(rules: &[String]) -> Option<String> {
    PREFERRED
        .iter()
        .find_map(|preferred| rules.iter().find(|r| r == preferred))
        .or(rules.first())
        .cloned()
}

/// Plans one plot for each application whose images were read.
pub(super) fn plots(data: &Data) -> Vec<PlannedPlot<'_>> {
    let Some(rule) = drawn(&rules(data)) else {
        return Vec::new();
    };
    let drawable = |p: usize| {
        ZONES
            .iter()
            .any(|(zone, _)| data.points[p].summaries.contains_key(&name(zone, &rule)))
    };
    layout::sheets(data, drawable)
        .into_iter()
        .map(|sheet| {
            let (title, rule) = (
                format!("Checkpoint image of a rank by zone: {}", sheet.title),
                rule.clone(),
            );
            PlannedPlot::new(title, move |title| draw(data, &rule, &sheet, title))
        })
        .collect()
}

/// Returns the name of the quantity that is the size of a zone by a rule.
fn name(zone: &str, rule: &str) -> String {
    if rule.is_empty() {
        format!("zone_bytes_{zone}")
    } else {
        format!("zone_bytes_{zone}_{rule}")
    }
}

/// Returns the rules by which runs recorded zones.
fn rules(data: &Data) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for q in data.quantities.keys() {
        let rule = ZONES
            .iter()
            .find_map(|(zone, _)| q.strip_prefix("zone_bytes_")?.strip_prefix(zone));
        if let Some(rule) = rule
            .map(|r| r.trim_start_matches('_').to_owned())
            .filter(|r| !rules.contains(r))
        {
            rules.push(rule);
        }
    }
    rules
}

/// Returns whether two rules give the same sizes of zones at every point.
fn same(data: &Data, a: &str, b: &str) -> bool {
    data.points.iter().all(|p| {
        ZONES
            .iter()
            .all(|(zone, _)| p.values.get(&name(zone, a)) == p.values.get(&name(zone, b)))
    })
}

fn draw(data: &Data, rule: &str, sheet: &Sheet<'_>, title: String) -> Result<Plot, AnalysisError> {
    let mean = |p: usize, zone: &str| {
        data.points[p]
            .summaries
            .get(&name(zone, rule))
            .map_or(0.0, |s| s.mean)
    };
    let zones = zones(rule);
    let total = |p: usize| zones.iter().map(|(zone, _)| mean(p, zone)).sum::<f64>();
    let (divisor, unit) = layout::scale(sheet.points().map(total), "bytes");
    let mut caption = format!(
        "Data stored in the image of one rank, uncompressed, mean over ranks and repeats{}.",
        by_rule(rule)
    );
    let bar = |p: usize| {
        (
            zones
                .iter()
                .map(|(zone, _)| mean(p, zone) / divisor)
                .collect(),
            None,
        )
    };
    let panels: Vec<Panel> = sheet
        .panels(data, &mut caption)
        .into_iter()
        .map(|part| {
            let marks = Marks::Stacked(part.points.iter().map(|p| p.map(bar)).collect());
            Panel {
                title: part.title,
                x: part.categories,
                scale: part.scale,
                marks,
            }
        })
        .collect();
    let id = format!("zones-{}", sheet.id);
    let drawing = plot::panels(
        &id,
        &format!("per rank, {unit}"),
        &zones.iter().map(|z| z.1.to_owned()).collect::<Vec<_>>(),
        &panels,
    )?;
    Ok(drawing.plot(id, title, caption))
}

fn by_rule(rule: &str) -> String {
    if rule.is_empty() {
        String::new()
    } else {
        format!("; zones by the {rule} rule")
    }
}

fn table(data: &Data, rule: &str) -> Table {
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    let zones = zones(rule);
    columns.extend(zones.iter().map(|(zone, heading)| {
        Column::of(&format!("{}_per_rank", name(zone, "")), heading, "bytes")
    }));
    let parts: &[(&str, &str)] = if rule == "owner" { &PARTS } else { &[] };
    columns.extend(parts.iter().map(|(part, heading)| {
        Column::of(&format!("part_bytes_{part}_per_rank"), heading, "bytes")
    }));
    let id = if rule.is_empty() {
        "zones".to_owned()
    } else {
        format!("zones_{}", cvc_show::slug(rule).replace('-', "_"))
    };
    let title = if rule.is_empty() {
        "Zones".to_owned()
    } else {
        format!("Zones, {rule} rule")
    };
    let mut caption = format!(
        "Data stored in the image of one rank, uncompressed and without headers, mean over ranks{}.",
        by_rule(rule)
    );
    if rule == "owner" {
        caption.push_str(" Static data, heap and allocated are the parts of the application data.");
    }
    let mut table = Table::new(&id, &title, &caption, columns);
    for (i, p) in data.points.iter().enumerate() {
        let of_zones: Vec<_> = zones
            .iter()
            .map(|(zone, _)| p.summaries.get(&name(zone, rule)))
            .collect();
        if of_zones.iter().any(Option::is_some) {
            let mut row = summary::point_cells(data, i);
            row.push(Cell::count(p.counted(&data.runs)));
            row.extend(of_zones.into_iter().map(Cell::measured));
            row.extend(
                parts.iter().map(|(part, _)| {
                    Cell::measured(p.summaries.get(&format!("part_bytes_{part}")))
                }),
            );
            table.rows.push(row);
        }
    }
    table
}

/// Makes the table of the files on disk after a checkpoint, by kind.
fn files(data: &Data) -> Table {
    let shown: Vec<(&String, &ReportedQuantity)> = data
        .quantities
        .iter()
        .filter(|(q, _)| {
            q.starts_with("ckpt_bytes_")
                || q.starts_with("ckpt_files_")
                || *q == "ckpt_stored_bytes"
                || *q == "file_bytes_per_rank"
        })
        .collect();
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    columns.extend(
        shown
            .iter()
            .map(|(q, of)| Column::of(q, &quantity::heading(q), &of.unit)),
    );
    let caption = "Files of one checkpoint on disk: the images of the ranks and of the launchers, the files that processes share, and the files \
                   that the application itself writes.";
    let mut table = Table::new("files", "Files of a checkpoint", caption, columns);
    for (i, p) in data.points.iter().enumerate() {
        if shown.iter().any(|(q, _)| p.summaries.contains_key(*q)) {
            let mut row = summary::point_cells(data, i);
            row.push(Cell::count(p.counted(&data.runs)));
            row.extend(
                shown
                    .iter()
                    .map(|(q, _)| Cell::measured(p.summaries.get(*q))),
            );
            table.rows.push(row);
        }
    }
    table
}
