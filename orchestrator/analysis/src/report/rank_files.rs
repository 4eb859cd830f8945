//! Sizes of the ranks' files. The files of I/O aggregators are larger than the others.

use super::layout::{self, PlannedPlot};
use super::summary;
use crate::results::data::Data;
use cvc_core::{
    point::FactorId,
    record::names,
    units::{MIB, counted},
};
use cvc_index::{Index, error::AnalysisError};
use cvc_model::{LargerGroup, larger_group};
use cvc_show::{
    Block, Cell, Column, Section, Table,
    format::{percent, significant},
    plot::{self, Categories, Marks, Panel},
};
use std::collections::BTreeMap;

/// Maximum number of points with a plot that shows every file.
const MAX_PANELS: usize = 8;
/// Maximum number of files in the plot of a point.
const MAX_FILES: usize = 128;
/// Maximum number of files listed in a sentence.
const MAX_NAMED: usize = 8;
/// Maximum number of ticks (file numbers) along the axis.
const MAX_TICKS: usize = 16;

/// The files of the ranks of a point: their mean sizes over counted runs and checkpoints, in the order of virtual process ids.
struct RankFiles {
    point: usize,
    sizes_mib: Vec<f64>,
    larger: Option<LargerGroup>,
}

pub(super) fn section(data: &Data, index: &Index) -> Result<Section, AnalysisError> {
    let all = read(data, index)?;
    let mut blocks = Vec::new();
    let uneven: Vec<&RankFiles> = all.iter().filter(|of| of.larger.is_some()).collect();
    let sentence = |of: &&RankFiles| {
        Some(Block::Text {
            text: of.sentence(data)?,
        })
    };
    blocks.extend(uneven.iter().take(MAX_PANELS).filter_map(sentence));
    let mut drawn = uneven;
    drawn.retain(|of| of.sizes_mib.len() <= MAX_FILES);
    drawn.truncate(MAX_PANELS);
    if !drawn.is_empty() {
        layout::add(&mut blocks, vec![plot(data, drawn)])?;
    }
    if !all.is_empty() {
        blocks.push(Block::Table(table(data, &all)));
    }
    Ok(Section {
        id: "rank-files",
        title: "Files of the ranks".to_owned(),
        blocks,
    })
}

/// Returns the points with several files, in the order of the plan.
fn read(data: &Data, index: &Index) -> Result<Vec<RankFiles>, AnalysisError> {
    let mut sums: BTreeMap<(String, u32), (f64, u32)> = BTreeMap::new();
    index.each_image_size(names::FILE_BYTES, |size| {
        let (sum, count) = sums.entry((size.point, size.rank)).or_default();
        *sum += size.bytes;
        *count += 1;
    })?;
    let of = |(point, row): (usize, &crate::results::rows::PointRow)| {
        let id = row.id.to_string();
        let files = sums.range((id.clone(), 0)..=(id, u32::MAX));
        let sizes_mib: Vec<f64> = files
            .map(|(_, (sum, n))| sum / f64::from(*n) / MIB)
            .collect();
        let larger = larger_group(&sizes_mib);
        (sizes_mib.len() > 1).then_some(RankFiles {
            point,
            sizes_mib,
            larger,
        })
    };
    Ok(data.points.iter().enumerate().filter_map(of).collect())
}

impl RankFiles {
    /// Returns the mean size of the files that are not in the group of larger files, MiB.
    fn others_mib(&self) -> f64 {
        let larger = self.larger.as_ref().map_or(&[][..], |group| &group.places);
        let others = self
            .sizes_mib
            .iter()
            .enumerate()
            .filter(|(i, _)| !larger.contains(i));
        let others: Vec<f64> = others.map(|(_, mib)| *mib).collect();
        others.iter().sum::<f64>() / others.len() as f64
    }

    /// Describes which files are larger, by how much, and whether there are as many of them as I/O aggregators.
    fn sentence(&self, data: &Data) -> Option<String> {
        let LargerGroup { places, excess } = self.larger.as_ref()?;
        let row = &data.points[self.point];
        let as_many = |text: &str| text.parse() == Ok(places.len());
        let why = match row.level(FactorId::Aggregators) {
            text if as_many(text) => ", one for each I/O aggregator",
            _ if places.len() == row.nodes as usize && row.nodes > 1 => ", one for each node",
            _ => "",
        };
        Some(format!(
            "{}: {} of {} {} {} MiB ({}) larger than the others{why}: {}.",
            data.label(self.point, &data.varying()),
            places.len(),
            counted(self.sizes_mib.len(), "file"),
            if places.len() == 1 { "is" } else { "are" },
            significant(*excess),
            percent(excess / self.others_mib()),
            named(places),
        ))
    }
}

/// Lists the numbers of files, up to [`MAX_NAMED`].
fn named(places: &[usize]) -> String {
    let names: Vec<String> = places
        .iter()
        .take(MAX_NAMED)
        .map(ToString::to_string)
        .collect();
    let more = places.len().saturating_sub(MAX_NAMED);
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let what = if places.len() == 1 { "file" } else { "files" };
    format!("{what} {}{rest}", names.join(", "))
}

/// Draws a bar for each file. The lower part is the size common to all files, the upper part the additional size of the larger files.
fn plot<'a>(data: &'a Data, points: Vec<&'a RankFiles>) -> PlannedPlot<'a> {
    PlannedPlot::new("Size of the file of each rank".to_owned(), move |title| {
        let panel = |(scale, of): (usize, &&RankFiles)| {
            let typical = of.others_mib();
            let larger = of.larger.as_ref().map_or(&[][..], |group| &group.places);
            let bar = |(i, mib): (usize, &f64)| {
                let beyond = if larger.contains(&i) {
                    (mib - typical).max(0.0)
                } else {
                    0.0
                };
                Some((vec![mib - beyond, beyond], None))
            };
            let every = of.sizes_mib.len().div_ceil(MAX_TICKS);
            let tick = |i: usize| {
                if i.is_multiple_of(every) {
                    i.to_string()
                } else {
                    String::new()
                }
            };
            Panel {
                title: data.label(of.point, &data.varying()),
                x: Categories {
                    title: "file, by virtual process id".to_owned(),
                    names: (0..of.sizes_mib.len()).map(tick).collect(),
                },
                scale,
                marks: Marks::Stacked(of.sizes_mib.iter().enumerate().map(bar).collect()),
            }
        };
        let panels: Vec<Panel> = points.iter().enumerate().map(panel).collect();
        let legend = ["size of the other files", "excess"].map(str::to_owned);
        let drawing = plot::panels("rank-files", "file of a rank, MiB", &legend, &panels)?;
        let caption = "Means over repeats and checkpoints. Images do not record their rank: files are in the order of the virtual process ids.";
        Ok(drawing.plot("rank-files".to_owned(), title, caption.to_owned()))
    })
}

fn table(data: &Data, all: &[RankFiles]) -> Table {
    let mut columns = summary::point_columns(data);
    columns.extend([
        Column::plain("file", "file"),
        Column::of("file_bytes", "size", "bytes"),
        Column::plain("group", "group"),
    ]);
    let caption = "The file of each rank, in the order of virtual process ids: mean over counted runs and checkpoints.";
    let mut table = Table::new("rank_files", "Files of the ranks", caption, columns);
    table.folded = true;
    for of in all {
        for (i, mib) in of.sizes_mib.iter().enumerate() {
            let larger = of
                .larger
                .as_ref()
                .is_some_and(|group| group.places.contains(&i));
            let mut row = summary::point_cells(data, of.point);
            row.push(Cell::count(i));
            row.push(Cell::number(mib * MIB));
            row.push(if larger {
                Cell::text("larger")
            } else {
                Cell::Empty
            });
            table.rows.push(row);
        }
    }
    table
}
