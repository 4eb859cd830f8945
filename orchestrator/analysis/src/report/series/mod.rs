//! Similarity of the checkpoints of a series: the number of bytes that incremental and differential methods would store.
//!
//! | file | contents |
//! | --- | --- |
//! | `mod.rs` | volumes before compression |
//! | `over.rs` | plots over the numbers of checkpoints; the methods |
//! | `files.rs` | stored files: sizes and times by method, codec and block size |
//! | `zones.rs` | changes by zone of memory |
//! | `recommended.rs` | the method and interval recommended by the series |

mod files;
mod over;
mod recommended;
mod zones;

use self::over::{BOUNDED, METHODS, OverCheckpoints, by_checkpoint};
use super::{
    layout::{self, PlannedPlot},
    summary,
};
use crate::results::data::Data;
use cvc_core::{record::names, units::counted};
use cvc_index::{Index, SeriesVolume, error::AnalysisError};
use cvc_show::{Block, Cell, Column, Section, Table};

/// Maximum number of reasons for missing checkpoints that are listed.
const MAX_REASONS: usize = 5;
/// The fact that lists the checkpoints missing from a series.
const GAPS: &str = "series_gaps";

pub(super) fn section(data: &Data, index: &Index) -> Result<Section, AnalysisError> {
    let volumes = index.series_volumes()?;
    let mut blocks: Vec<Block> = gaps(data)
        .into_iter()
        .map(|text| Block::Text { text })
        .collect();
    if !volumes.is_empty() {
        let advised = recommended::advised(data, index)?;
        blocks.extend(recommended::sentences(data, &advised));
        let stored = files::SeriesFiles::read(index)?;
        let zones = index.series_zone_volumes()?;
        let mut planned = plots(data, &volumes);
        planned.extend(stored.plots(data));
        planned.extend(zones::plots(data, &zones));
        layout::add(&mut blocks, planned)?;
        blocks.push(Block::Table(table(data)));
        blocks.extend(stored.table(data).map(Block::Table));
        blocks.extend(recommended::table(data, &advised).map(Block::Table));
    }
    Ok(Section {
        id: "series",
        title: "Similarity of checkpoints".to_owned(),
        blocks,
    })
}

/// Lists the reasons for missing checkpoints, each once, with the number of its runs.
fn gaps(data: &Data) -> Vec<String> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for (text, runs) in data.facts.get(GAPS).into_iter().flatten() {
        for reason in text.lines() {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += runs.len(),
                None => reasons.push((reason, runs.len())),
            }
        }
    }
    reasons.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
    let more = reasons.len().saturating_sub(MAX_REASONS);
    let describe = |(reason, runs): (&str, usize)| format!("In {} {reason}.", counted(runs, "run"));
    let mut texts: Vec<String> = reasons
        .into_iter()
        .take(MAX_REASONS)
        .map(describe)
        .collect();
    if more > 0 {
        texts.push(format!(
            "{} for missing checkpoints: see the facts of the runs (`{GAPS}`).",
            counted(more, "more reason")
        ));
    }
    texts
}

/// Returns the bytes that a method stores for each checkpoint of a point. Starts with the second measured checkpoint, because all methods store the
/// first one in full.
fn after_first(volumes: &[SeriesVolume], point: &str, method: &str) -> Vec<Option<f64>> {
    let of = volumes
        .iter()
        .filter(|v| v.point == point && v.method == method && !v.is_first);
    let found: Vec<(u32, f64)> = of.map(|v| (v.ckpt, v.bytes)).collect();
    by_checkpoint(2, &found)
}

/// Plans one plot for each application.
fn plots<'a>(data: &'a Data, volumes: &'a [SeriesVolume]) -> Vec<PlannedPlot<'a>> {
    let drawable = |p: usize| {
        let id = data.points[p].id.as_str();
        volumes.iter().any(|v| v.point == id && !v.is_first)
    };
    let plan = |sheet: layout::Sheet<'a>| {
        let title = format!("Volume of each checkpoint: {}", sheet.title);
        let of = |p: usize| {
            let point = data.points[p].id.as_str();
            let lines = METHODS.map(|(method, _)| after_first(volumes, point, method));
            (p, lines.to_vec())
        };
        let drawn = OverCheckpoints {
            id: format!("series-{}", sheet.id),
            caption: "Uncompressed volume that each method stores of a checkpoint: blocks (pages) that differ from those of the checkpoint that it is \
                      stored against, at the same address of the same process. Full: all blocks. Incremental: since the previous checkpoint. \
                      Differential: since the first. ADCA: since a base that moves when more than twice as much differs from it as from the \
                      checkpoint before. All methods store the first checkpoint in full; it is not drawn. Mean of the repeats; lower is better."
                .to_owned(),
            axis: "stored",
            unit: "bytes",
            legend: METHODS.iter().map(|(_, name)| (*name).to_owned()).collect(),
            first: 2,
            is_stacked: false,
            points: sheet.points().map(of).collect(),
        };
        PlannedPlot::new(title, move |title| drawn.draw(data, title))
    };
    layout::sheets(data, drawable)
        .into_iter()
        .map(plan)
        .collect()
}

/// Makes the table of the total volume of each method, with a row for each point.
fn table(data: &Data) -> Table {
    let methods = || METHODS.iter().chain([&BOUNDED]);
    let total = |method: &str| format!("{}_{method}", names::SERIES_TOTAL_BYTES);
    let files = |method: &str| format!("{}_{method}", names::SERIES_RESTORE_FILES);
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    columns.push(Column::plain("checkpoints", "checkpoints"));
    columns.push(Column::of(names::SERIES_HASH_S, "time to hash one", "s"));
    columns.push(Column::of(
        names::SERIES_CHANGED_BYTES,
        "changed since the previous one",
        "bytes",
    ));
    columns.extend(methods().map(|(method, name)| Column::of(&total(method), name, "bytes")));
    columns.extend(methods().skip(1).map(|(method, name)| {
        Column::of(
            &format!("series_{method}_of_full_pct"),
            &format!("{name}, of full"),
            "%",
        )
    }));
    columns.extend(methods().skip(1).map(|(method, name)| {
        Column::plain(&files(method), &format!("{name}, files to restore")).data_only()
    }));
    let caption = "Volume that each method stores for all checkpoints of a run, uncompressed and without headers; mean over repeats. ADCA takes a new \
                   base when more than twice as much differs from it as from the previous checkpoint; so does the last method, but it needs at most \
                   three files to restore any of them.";
    let mut table = Table::new("series", "Series of checkpoints", caption, columns);
    for (i, p) in data.points.iter().enumerate() {
        let Some(full) = p.summaries.get(&total("full")) else {
            continue;
        };
        let mut row = summary::point_cells(data, i);
        row.push(Cell::count(p.counted(&data.runs)));
        let mean = |quantity: &str| p.summaries.get(quantity).map(|s| s.mean);
        row.push(Cell::number(mean(names::SERIES_CHECKPOINTS)));
        row.push(Cell::measured(p.summaries.get(names::SERIES_HASH_S)));
        row.push(Cell::measured(p.summaries.get(names::SERIES_CHANGED_BYTES)));
        row.extend(methods().map(|(method, _)| Cell::measured(p.summaries.get(&total(method)))));
        row.extend(methods().skip(1).map(|(method, _)| {
            let share = mean(&total(method)).filter(|_| full.mean > 0.0);
            Cell::number(share.map(|bytes| bytes / full.mean * 100.0))
        }));
        row.extend(
            methods()
                .skip(1)
                .map(|(method, _)| Cell::number(mean(&files(method)))),
        );
        table.rows.push(row);
    }
    table
}
