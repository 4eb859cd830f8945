//! Stored files of a series: their sizes, and the times to store and to restore them, by method, codec and block size.

use super::over::{BOUNDED, METHODS, OverCheckpoints, SeriesLines, by_checkpoint};
use crate::report::{
    layout::{self, PlannedPlot},
    summary,
};
use crate::results::data::Data;
use cvc_core::{record::names, units::counted};
use cvc_index::{Index, SeriesStored, error::AnalysisError};
use cvc_show::{
    Cell, Column, Plot, Table,
    format::Style,
    plot::{self, Categories, Marks, Panel, Whisker},
};
use std::collections::BTreeSet;

/// Codecs in the order of legends; other codecs follow them.
const CODECS: [&str; 4] = ["none", "gzip", "zstd", "lz4"];
/// Codec of plots that show a single codec, if it was measured.
const USUAL_CODEC: &str = "zstd";

/// Maximum number of rows of a table that is not collapsed on the page.
const MAX_UNFOLDED: usize = 24;

/// Measurements of stored files.
pub(super) struct SeriesFiles {
    bytes: Vec<SeriesStored>,
    store_s: Vec<SeriesStored>,
    restore_s: Vec<SeriesStored>,
    memory_bytes: Vec<SeriesStored>,
}

/// The stored files of a point with one method, codec and block size.
#[derive(Clone, Copy)]
struct Way<'a> {
    point: &'a str,
    method: &'a str,
    codec: &'a str,
    block: u32,
}

/// Returns the values of the files stored with one method, codec and block size, each with the number of its checkpoint.
fn of_way(records: &[SeriesStored], way: Way<'_>) -> Vec<(u32, f64)> {
    let is_meant = |r: &&SeriesStored| {
        r.point == way.point
            && r.method == way.method
            && r.codec == way.codec
            && r.block == way.block
    };
    let of = records.iter().filter(is_meant);
    of.map(|r| (r.ckpt, r.value)).collect()
}

/// Returns the records of some points.
fn of_points<'r>(
    records: &'r [SeriesStored],
    data: &Data,
    points: &[usize],
) -> Vec<&'r SeriesStored> {
    let is_meant = |r: &&SeriesStored| {
        points
            .iter()
            .any(|p| data.points[*p].id.as_str() == r.point)
    };
    records.iter().filter(is_meant).collect()
}

/// Returns the codecs that occur in records, in the order of legends.
fn codecs<'r>(records: &[&'r SeriesStored]) -> Vec<&'r str> {
    let found: BTreeSet<&str> = records.iter().map(|r| r.codec.as_str()).collect();
    let known = CODECS.into_iter().filter(|codec| found.contains(codec));
    let others = found.iter().filter(|codec| !CODECS.contains(codec));
    known.chain(others.copied()).collect()
}

fn blocks(records: &[&SeriesStored]) -> Vec<u32> {
    let found: BTreeSet<u32> = records.iter().map(|r| r.block).collect();
    found.into_iter().collect()
}

/// Returns the methods that occur in records, with their names.
fn methods(records: &[&SeriesStored]) -> Vec<(&'static str, &'static str)> {
    let all = METHODS.into_iter().chain([BOUNDED]);
    all.filter(|(method, _)| records.iter().any(|r| r.method == *method))
        .collect()
}

/// Returns a block size for captions.
fn kib(block: u32) -> String {
    format!("{} KiB", block >> 10)
}

impl SeriesFiles {
    /// Reads the records of all points.
    pub(super) fn read(index: &Index) -> Result<Self, AnalysisError> {
        Ok(Self {
            bytes: index.series_stored(names::SERIES_FILE_BYTES)?,
            store_s: index.series_stored(names::SERIES_STORE_S)?,
            restore_s: index.series_stored(names::SERIES_RESTORE_S)?,
            memory_bytes: index.series_stored(names::SERIES_MEMORY_BYTES)?,
        })
    }

    /// Plans two plots for each application: of sizes, and of times to restore.
    pub(super) fn plots<'a>(&'a self, data: &'a Data) -> Vec<PlannedPlot<'a>> {
        let has = |records: &[SeriesStored], p: usize| {
            let id = data.points[p].id.as_str();
            records.iter().any(|r| r.point == id)
        };
        let size = |sheet: layout::Sheet<'a>| {
            let title = format!("Length of stored files: {}", sheet.title);
            let points: Vec<usize> = sheet.points().collect();
            let id = format!("series-files-{}", sheet.id);
            PlannedPlot::new(title, move |title| self.sizes(data, &points, id, title))
        };
        let time = |sheet: layout::Sheet<'a>| {
            let title = format!("Time to restore each checkpoint: {}", sheet.title);
            let drawn = self.times(data, &sheet);
            PlannedPlot::new(title, move |title| drawn.draw(data, title))
        };
        let sizes = layout::sheets(data, |p| has(&self.bytes, p));
        let times = layout::sheets(data, |p| has(&self.restore_s, p));
        let sizes = sizes.into_iter().map(size);
        sizes.chain(times.into_iter().map(time)).collect()
    }

    /// Draws the mean length of the files after the first: a group of bars for each method, with a bar for each codec.
    fn sizes(
        &self,
        data: &Data,
        points: &[usize],
        id: String,
        title: String,
    ) -> Result<Plot, AnalysisError> {
        let own = of_points(&self.bytes, data, points);
        let (codecs, methods, blocks) = (codecs(&own), methods(&own), blocks(&own));
        let block = blocks.first().copied().unwrap_or_default();
        let mut caption = format!(
            "Mean length of the file that stores a checkpoint after the first, by method and codec, with blocks of {}. Mean of the repeats; lower is \
             better.",
            kib(block)
        );
        if blocks.len() > 1 {
            caption.push_str(" Other sizes of blocks are in the table.");
        }
        let mean = |way: Way<'_>| {
            let later: Vec<f64> = of_way(&self.bytes, way)
                .into_iter()
                .filter_map(|(ckpt, bytes)| (ckpt > 1).then_some(bytes))
                .collect();
            (!later.is_empty()).then(|| later.iter().sum::<f64>() / later.len() as f64)
        };
        let of_point = |p: &usize| -> (usize, SeriesLines) {
            let point = data.points[*p].id.as_str();
            let of_codec = |codec: &&str| {
                let of = methods.iter().map(|(method, _)| Way {
                    point,
                    method,
                    codec,
                    block,
                });
                of.map(mean).collect()
            };
            (*p, codecs.iter().map(of_codec).collect())
        };
        let all: Vec<(usize, SeriesLines)> = points.iter().map(of_point).collect();
        let values = all.iter().flat_map(|(_, of)| of.iter().flatten());
        let style = Style::for_values(values.copied().flatten().collect(), Some("bytes"));
        let bars = |values: Vec<Option<f64>>| -> Vec<Option<Whisker>> {
            let shown = values.into_iter().map(|v| v.map(|v| v / style.divisor()));
            shown.map(|v| v.map(|v| (v, v, v))).collect()
        };
        let varying = data.varying();
        let panel = |(scale, (p, of)): (usize, (usize, SeriesLines))| Panel {
            title: data.label(p, &varying),
            x: Categories {
                title: "method".to_owned(),
                names: methods.iter().map(|(_, name)| (*name).to_owned()).collect(),
            },
            scale,
            marks: Marks::Grouped(of.into_iter().map(bars).collect()),
        };
        let panels: Vec<Panel> = all.into_iter().enumerate().map(panel).collect();
        let panels = layout::cut(panels, &mut caption);
        let unit = style.unit.clone().unwrap_or_default();
        let legend: Vec<String> = codecs.iter().map(|codec| (*codec).to_owned()).collect();
        let drawing = plot::panels(&id, &format!("length of a file, {unit}"), &legend, &panels)?;
        Ok(drawing.plot(id, title, caption))
    }

    /// Prepares the plot of restore times, for one codec and one block size, with a line for each method.
    fn times<'a>(&self, data: &Data, sheet: &layout::Sheet<'_>) -> OverCheckpoints<'a> {
        let records = &self.restore_s;
        let points: Vec<usize> = sheet.points().collect();
        let own = of_points(records, data, &points);
        let (codecs, blocks) = (codecs(&own), blocks(&own));
        let is_usual = codecs.contains(&USUAL_CODEC);
        let codec = if is_usual {
            USUAL_CODEC
        } else {
            codecs.first().copied().unwrap_or_default()
        };
        let block = blocks.first().copied().unwrap_or_default();
        let methods = methods(&own);
        let of = |p: usize| {
            let point = data.points[p].id.as_str();
            let line = |(method, _): &(&str, &str)| {
                let way = Way {
                    point,
                    method,
                    codec,
                    block,
                };
                by_checkpoint(1, &of_way(records, way))
            };
            (p, methods.iter().map(line).collect())
        };
        OverCheckpoints {
            id: format!("series-restore-{}", sheet.id),
            caption: format!(
                "Time to restore a checkpoint from its files, by method: codec {codec}, blocks of {}. The table has the other codecs. Mean of the \
                 repeats; lower is better.",
                kib(block)
            ),
            axis: "time to restore",
            unit: "s",
            legend: methods.iter().map(|(_, name)| (*name).to_owned()).collect(),
            first: 1,
            is_stacked: false,
            points: points.into_iter().map(of).collect(),
        }
    }

    /// Makes the table of files, with a row for each point, method, codec and block size.
    pub(super) fn table(&self, data: &Data) -> Option<Table> {
        let all = [
            &self.bytes,
            &self.store_s,
            &self.restore_s,
            &self.memory_bytes,
        ];
        let all: Vec<&SeriesStored> = all.into_iter().flatten().collect();
        let blocks: BTreeSet<u32> = all.iter().map(|r| r.block).collect();
        let mut columns = summary::point_columns(data);
        columns.extend([
            Column::plain("method", "method"),
            Column::plain("codec", "codec"),
            Column::of("block", "block", "bytes"),
            Column::plain("files", "files"),
            Column::of("series_file_bytes_all", "all files", "bytes"),
            Column::of("series_file_bytes_last", "the last file", "bytes"),
            Column::plain("stored_when", "stored"),
            Column::of("series_store_s", "time to store one", "s"),
            Column::of("series_restore_s_mean", "time to restore one", "s"),
            Column::of("series_restore_s_most", "maximum time to restore", "s"),
            Column::of("series_memory_bytes", "peak memory of cvc", "bytes"),
        ]);
        let caption = format!(
            "Checkpoints as files, by method, codec and size of blocks ({}): lengths of the files with headers and tables; when they were stored; mean time \
             to compress and write one after the first, which is stored in full; time to restore one from the files that it needs, mean and maximum over all \
             checkpoints; peak memory of the whole cvc process while it stored and restored them. The time to store while the program runs is not \
             comparable with the time to store after its end, because the program uses the cores, too. \
             Means of the repeats.",
            counted(blocks.len(), "size")
        );
        let mut table = Table::new("series-files", "Stored files of series", &caption, columns);
        for (i, p) in data.points.iter().enumerate() {
            let point = p.id.as_str();
            for (method, name) in METHODS.into_iter().chain([BOUNDED]) {
                let ways: BTreeSet<(u32, usize, &str)> = all
                    .iter()
                    .filter(|r| r.point == point && r.method == method)
                    .map(|r| {
                        let place = CODECS.iter().position(|codec| *codec == r.codec);
                        (r.block, place.unwrap_or(CODECS.len()), r.codec.as_str())
                    })
                    .collect();
                for (block, _, codec) in ways {
                    let way = Way {
                        point,
                        method,
                        codec,
                        block,
                    };
                    let mut row = summary::point_cells(data, i);
                    row.extend([Cell::text(name), Cell::text(codec)]);
                    row.push(Cell::number(f64::from(block)));
                    row.extend(self.cells(way));
                    table.rows.push(row);
                }
            }
        }
        table.folded = table.rows.len() > MAX_UNFOLDED;
        (!table.rows.is_empty()).then_some(table)
    }

    /// Returns whether these files were stored while the program ran.
    fn is_live(&self, way: Way<'_>) -> bool {
        let is_same = |r: &&SeriesStored| {
            (r.point.as_str(), r.method.as_str()) == (way.point, way.method)
                && (r.codec.as_str(), r.block) == (way.codec, way.block)
        };
        self.store_s.iter().filter(is_same).any(|r| r.is_live)
    }

    fn cells(&self, way: Way<'_>) -> [Cell; 8] {
        let bytes = of_way(&self.bytes, way);
        let values = |records: &[SeriesStored]| -> Vec<f64> {
            of_way(records, way).into_iter().map(|(_, v)| v).collect()
        };
        let mean = |of: &[f64]| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
        let later = |(ckpt, seconds): (u32, f64)| (ckpt > 1).then_some(seconds);
        let store_s: Vec<f64> = of_way(&self.store_s, way)
            .into_iter()
            .filter_map(later)
            .collect();
        let restore_s = values(&self.restore_s);
        let when = if self.is_live(way) {
            "while the program ran"
        } else {
            "after its end"
        };
        let last = bytes.iter().max_by_key(|(ckpt, _)| *ckpt);
        let all: f64 = bytes.iter().map(|(_, bytes)| bytes).sum();
        [
            Cell::number((!bytes.is_empty()).then_some(bytes.len() as f64)),
            Cell::number((!bytes.is_empty()).then_some(all)),
            Cell::number(last.map(|(_, bytes)| *bytes)),
            Cell::text(when),
            Cell::number(mean(&store_s)),
            Cell::number(mean(&restore_s)),
            Cell::number(restore_s.iter().copied().reduce(f64::max)),
            Cell::number(values(&self.memory_bytes).into_iter().reduce(f64::max)),
        ]
    }
}
