//! Compares counts by kind, as printed for one setting, with those of runs: `[[counts]]` in `measured.toml`. The numbers of clients and checkpoints
//! differ, so the counts are shown side by side; [claims](super::claims) judge them.

use super::{
    definition::{CountsDefinition, FromCell, PrintUnit, RerunValue, RowValue},
    runs::{CampaignMeasurements, MeasuredPoint},
    select::{Images, RowCells, resolve},
};
use crate::paper::{Kind, Paper, PrintedTable};
use cvc_model::metadata::{Layout, MetadataSetting, known::KnownFileSystem};
use cvc_show::{Block, Cell, Column, Table};
use indexmap::{IndexMap, IndexSet};

/// Clients and checkpoints of a point.
type Setting = (u64, u64);

/// Counts of the points with the same levels: for each kind, or the total for `None`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts(IndexMap<(String, Option<String>), Vec<f64>>);

/// Printed and measured counts.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedCounts {
    id: String,
    title: String,
    /// Printed counts by series, then by level and kind.
    printed: IndexMap<String, IndexMap<(String, String), f64>>,
    /// Measured counts by level of `by` and setting.
    measured: IndexMap<(String, Setting), Counts>,
    law: Option<String>,
    left_out: Vec<(String, String)>,
    /// The campaigns with these runs.
    pub(super) campaigns: IndexSet<String>,
}

/// Joins the counts of a paper's table with those of campaigns.
///
/// # Errors
/// The table has no such column.
pub(super) fn join(
    paper: &Paper,
    wanted: &CountsDefinition,
    measured: &CampaignMeasurements,
    rows: impl Fn(&PrintedTable) -> Vec<RowCells>,
) -> Result<JoinedCounts, String> {
    let table = paper
        .table(&wanted.table)
        .ok_or_else(|| format!("the paper has no table `{}`", wanted.table))?;
    let printed = printed(table, wanted, &rows(table))?;
    let mut found: IndexMap<(String, Setting), Counts> = IndexMap::new();
    let mut campaigns = IndexSet::new();
    let mut points: Vec<(Setting, &MeasuredPoint)> = (measured.points.iter())
        .filter_map(|point| Some((setting(point)?, point)))
        .collect();
    points.sort_by_key(|(setting, _)| *setting);
    for (setting, point) in points {
        let level = |factor: &str| point.factors.get(factor).cloned();
        let (Some(by), Some(of)) = (level(&wanted.by), level(&wanted.factor)) else {
            continue;
        };
        let counts = counts(point, &wanted.record, &of);
        if !counts.is_empty() {
            campaigns.insert(point.campaign.clone());
            let all = &mut found.entry((by, setting)).or_default().0;
            for (key, values) in counts {
                all.entry(key).or_default().extend(values);
            }
        }
    }
    let has_runs = |level: &str| found.keys().any(|(by, _)| by == level);
    let left_out = (wanted.not_measured.iter()).filter(|(level, _)| !has_runs(level));
    Ok(JoinedCounts {
        id: wanted.id.clone(),
        title: wanted.title.clone(),
        printed,
        law: wanted.law.clone(),
        left_out: left_out.map(|(a, b)| (a.clone(), b.clone())).collect(),
        measured: found,
        campaigns,
    })
}

fn printed(
    table: &PrintedTable,
    wanted: &CountsDefinition,
    rows: &[RowCells],
) -> Result<IndexMap<String, IndexMap<(String, String), f64>>, String> {
    let columns = &table.definition.columns;
    for column in wanted.series.iter().chain([&wanted.column]) {
        if table.column(column).is_none() {
            return Err(format!("table {} has no column `{column}`", wanted.table));
        }
    }
    let name = |row: &RowCells| {
        let of = wanted.series.iter().filter_map(|id| {
            let column = columns.iter().find(|c| c.id == *id)?;
            let cell = row.get(id)?;
            Some(match column.kind {
                Kind::Setting => format!("{cell} {}", column.heading),
                _ => cell.clone(),
            })
        });
        of.collect::<Vec<_>>().join(", ")
    };
    let mut printed: IndexMap<String, IndexMap<(String, String), f64>> = IndexMap::new();
    for row in rows {
        let of = |from: &FromCell| resolve(&RowValue::Cell(from.clone()), row);
        let count = row.get(&wanted.column).and_then(|cell| cell.parse().ok());
        if let (Ok(level), Ok(kind), Some(count)) = (of(&wanted.level), of(&wanted.kind), count) {
            let of_series = printed.entry(name(row)).or_default();
            of_series.insert((level, kind), count);
        }
    }
    Ok(printed)
}

/// Returns the clients and checkpoints of a point; `None` without successful runs.
fn setting(point: &MeasuredPoint) -> Option<Setting> {
    let clients = point.factors.get("processes")?.parse().ok()?;
    let checkpoints = point.runs.iter().map(|run| run.checkpoints_taken()).max()?;
    Some((clients, checkpoints as u64))
}

/// Returns the counts of each run of a point, by kind and in all.
fn counts(
    point: &MeasuredPoint,
    record: &str,
    level: &str,
) -> Vec<((String, Option<String>), Vec<f64>)> {
    let of = |kind: Option<&str>| {
        let value = RerunValue::of_run(record, kind, PrintUnit::AsIs);
        let values = point.values(&value, &Images::Whole).into_iter();
        values.map(|(_, value)| value).collect::<Vec<f64>>()
    };
    let kinds = point.runs.iter().flat_map(|run| run.kinds(record));
    let kinds: IndexSet<&str> = kinds.collect();
    let kinds = kinds.into_iter().map(Some).chain([None]);
    kinds
        .map(|kind| ((level.to_owned(), kind.map(str::to_owned)), of(kind)))
        .filter(|(_, values)| !values.is_empty())
        .collect()
}

fn count(values: Option<&Vec<f64>>) -> Cell {
    let Some(values) = values.filter(|values| !values.is_empty()) else {
        return Cell::Empty;
    };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match least == most {
        true => Cell::number(least),
        false => Cell::text(format!("{least} to {most}")),
    }
}

impl JoinedCounts {
    /// Returns the tables: counts by kind at the largest setting, and totals at all settings.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        if !self.measured.is_empty() {
            blocks.extend([Block::Table(self.by_kind()), Block::Table(self.totals())]);
        }
        for (level, because) in &self.left_out {
            let text = format!("{level} is left out: {because}.");
            blocks.push(Block::Text { text });
        }
        blocks
    }

    /// Returns the level of `by` with its largest setting, for all levels.
    fn largest(&self) -> IndexMap<&str, Setting> {
        let mut largest = IndexMap::new();
        for (by, setting) in self.measured.keys() {
            // settings are in rising order
            largest.insert(by.as_str(), *setting);
        }
        largest
    }

    fn by_kind(&self) -> Table {
        let mut columns = vec![
            Column::plain("level", "layout"),
            Column::plain("kind", "kind"),
        ];
        let mut keys: IndexSet<(&str, &str)> = IndexSet::new();
        for (name, of_series) in &self.printed {
            columns.push(Column::plain(name, &format!("print: {name}")));
            keys.extend(of_series.keys().map(|(a, b)| (a.as_str(), b.as_str())));
        }
        let largest = self.largest();
        for (by, (clients, checkpoints)) in &largest {
            let heading = format!("{by}: {clients} clients, {checkpoints} checkpoints");
            columns.push(Column::plain(by, &heading));
            let of = &self.measured[&((*by).to_owned(), (*clients, *checkpoints))];
            let kinds = of.0.keys();
            keys.extend(kinds.filter_map(|(level, kind)| Some((level.as_str(), kind.as_deref()?))));
        }
        keys.sort_by(|a, b| a.0.cmp(b.0));
        let mut table = Table::new(
            &format!("counts-{}", self.id),
            &self.title,
            "By kind, at the largest measured number of clients and of checkpoints. Two numbers: the least and the most of equal runs.",
            columns,
        );
        for (level, kind) in keys {
            let key = (level.to_owned(), kind.to_owned());
            let in_print = self.printed.values().map(|of| match of.get(&key) {
                Some(count) => Cell::number(*count),
                None => Cell::Empty,
            });
            let key = (level.to_owned(), Some(kind.to_owned()));
            let here = largest.iter().map(|(by, setting)| {
                let of = &self.measured[&((*by).to_owned(), *setting)];
                count(of.0.get(&key))
            });
            let row = [Cell::text(level), Cell::text(kind)];
            table
                .rows
                .push(row.into_iter().chain(in_print).chain(here).collect());
        }
        table
    }

    fn totals(&self) -> Table {
        let mut columns = vec![
            Column::plain("level", "layout"),
            Column::plain("clients", "clients"),
            Column::plain("checkpoints", "checkpoints"),
        ];
        let law = self.law.as_deref().and_then(KnownFileSystem::from_name);
        if let Some(law) = law {
            columns.push(Column::plain("law", &format!("{}, by its law", law.name)));
        }
        let largest = self.largest();
        columns.extend(largest.keys().map(|by| Column::plain(by, by)));
        let mut keys: IndexSet<(&str, Setting)> = IndexSet::new();
        for ((_, setting), of) in &self.measured {
            keys.extend(of.0.keys().map(|(level, _)| (level.as_str(), *setting)));
        }
        keys.sort_unstable();
        let mut table = Table::new(
            &format!("counts-{}-totals", self.id),
            &format!("{}: totals", self.title),
            "All kinds together.",
            columns,
        );
        for (level, setting) in keys {
            let mut row = vec![
                Cell::text(level),
                Cell::count(setting.0 as usize),
                Cell::count(setting.1 as usize),
            ];
            if let Some(law) = law {
                let at = MetadataSetting {
                    clients: setting.0,
                    checkpoints: setting.1,
                    servers: 1,
                };
                let known = Layout::from_word(level).and_then(|of| law.operations(of, at).ok());
                row.push(known.map_or(Cell::Empty, |known| Cell::number(known.total.value)));
            }
            let key = (level.to_owned(), None);
            row.extend(largest.keys().map(|by| {
                let of = self.measured.get(&((*by).to_owned(), setting));
                count(of.and_then(|of| of.0.get(&key)))
            }));
            table.rows.push(row);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{paper, rerun, rerun::runs::MeasuredRun};
    use std::path::Path;

    /// Returns a point of two equal runs, except for the look-ups of the second.
    fn point(layout: &str, clients: u32, checkpoints: usize, creates: f64) -> MeasuredPoint {
        let factors = [
            ("app", "stencil-layouts"),
            ("class", if checkpoints == 9 { "nine" } else { "one" }),
            ("layout", layout),
            ("storage", "moosefs"),
            ("nodes", "2"),
            ("aggregators", "-"),
        ];
        let factors = factors.map(|(name, level)| (name.to_owned(), level.to_owned()));
        let own = [
            ("processes".to_owned(), clients.to_string()),
            ("mapping".to_owned(), format!("2Nx{}P", clients / 2)),
        ];
        let run = |id: &str, lookups| {
            let kinds = [("create", creates), ("lookup", lookups)];
            MeasuredRun::counted(id, checkpoints, "metadata_operations", &kinds)
        };
        MeasuredPoint {
            campaign: "layouts-lab".to_owned(),
            factors: factors.into_iter().chain(own).collect(),
            runs: vec![run("a", 5.0), run("b", 6.0)],
            problem: None,
        }
    }

    fn text(cell: &Cell) -> String {
        match cell {
            Cell::Text { text } => text.clone(),
            Cell::Number { value } => value.to_string(),
            Cell::Empty => String::new(),
            other => format!("{other:?}"),
        }
    }

    fn row(table: &Table, begins: &[&str]) -> Vec<String> {
        let rows = table.rows.iter().map(|row| row.iter().map(text).collect());
        let mut rows = rows.filter(|row: &Vec<String>| row.iter().zip(begins).all(|(a, b)| a == b));
        rows.next()
            .unwrap_or_else(|| panic!("no row {begins:?} in {:?}", table.rows))
    }

    #[test]
    fn counts_of_runs_stand_beside_those_of_the_slides_and_judge_their_claims() {
        let root = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../experiments/papers/pfs-delegation"
        );
        let slides = paper::load(Path::new(root)).unwrap_or_else(|e| panic!("{e}"));
        let definition = rerun::load(Path::new(root)).unwrap_or_else(|e| panic!("{e}"));
        let definition = definition.expect("the committed file");
        let mut points = Vec::new();
        for (clients, n) in [(2, 1), (2, 9), (4, 9)] {
            let count = f64::from(clients) * n as f64;
            points.push(point("delegated", clients, n, 1.0));
            points.push(point("segmented", clients, n, 2.0 * count));
            points.push(point("per-process", clients, n, count));
        }
        let measured = CampaignMeasurements {
            points,
            ..CampaignMeasurements::default()
        };
        let joined = rerun::join(&slides, &definition, &measured);
        assert_eq!(joined.mistakes, Vec::<String>::new());
        assert!(joined.is_measured_by("layouts-lab"));
        let blocks = joined.counts[0].blocks();
        let [
            Block::Table(kinds),
            Block::Table(totals),
            Block::Text { text: left_out },
        ] = &blocks[..]
        else {
            panic!("{blocks:?}");
        };
        assert!(left_out.starts_with("orangefs is left out: "), "{left_out}");
        let headings: Vec<&str> = kinds.columns.iter().map(|c| c.heading.as_str()).collect();
        let last = [
            "print: centralized, 128 clients",
            "print: distributed, 128 clients",
            "moosefs: 4 clients, 9 checkpoints",
        ];
        assert_eq!(headings[2..], last);
        assert_eq!(
            row(kinds, &["delegated", "create"]),
            ["delegated", "create", "1", "1", "1"]
        );
        assert_eq!(row(kinds, &["delegated", "lookup"])[4], "5 to 6");
        // A62: the probable number instead of the misprint
        assert_eq!(
            row(kinds, &["segmented", "configuration"])[2..],
            ["128", "512", ""]
        );
        // 4 + 9·3 + 36 + 1 by the law of the slides
        assert_eq!(
            row(totals, &["segmented", "4", "9"])[3..],
            ["68", "77 to 78"]
        );
        let claims = rerun::claims(&slides, &definition, &measured);
        let claim = |id: &str| claims.iter().find(|c| c.id == id).expect("a claim");
        assert_eq!(claim("delegation-fewest").verdict.describe(), "holds");
        let most = claim("per-process-most");
        assert_eq!(most.verdict.describe(), "contradicted here");
        let here = most.here.as_ref().expect("runs").describe();
        assert!(here.contains("moosefs: no (0 of 3"), "{here}");
        assert!(most.print.as_ref().expect("print").holds == Some(true));
    }
}
