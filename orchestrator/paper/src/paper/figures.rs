//! Draws figures of the paper whose numbers are in a table, together with the measurements made here.

use super::{
    cell::Cell as PrintedCell,
    definition::{CellValues, FigureDefinition, FigureMarks},
    judge::{JudgedCell, JudgedTable, Reproduction},
};
use cvc_index::error::AnalysisError;
use cvc_show::plot::{Categories, Marks, Panel, Whisker, panels};
use cvc_show::{Block, Cell, Column, Table, slug};
use indexmap::IndexMap;

/// The values of a series by category; `None` where a value is missing.
type Values = Vec<Option<f64>>;

/// Returns the figures of the judged tables, and tables with the numbers behind each figure.
pub(super) fn draw(of: &Reproduction) -> Result<(Vec<Block>, Vec<Table>), AnalysisError> {
    let (mut blocks, mut tables) = (Vec::new(), Vec::new());
    for figure in &of.figures {
        let table = of.tables.iter().find(|t| t.definition.id == figure.table);
        let Some(table) = table else { continue };
        let (categories, series) = numbers(figure, table);
        let whiskers = |(_, values): &(String, Values)| -> Vec<Option<Whisker>> {
            values.iter().map(|v| v.map(|v| (v, v, v))).collect()
        };
        let all: Vec<Vec<Option<Whisker>>> = series.iter().map(whiskers).collect();
        let names: Vec<String> = series.iter().map(|(name, _)| name.clone()).collect();
        let panel = Panel {
            title: String::new(),
            x: Categories {
                title: figure.along_title.clone(),
                names: categories.clone(),
            },
            scale: 0,
            marks: match figure.marks {
                FigureMarks::Lines => Marks::Lines(all),
                FigureMarks::Bars => Marks::Grouped(all),
            },
        };
        let id = format!("figure-{}", slug(&figure.id));
        let caption = format!(
            "{}. The numbers are those of {}.",
            figure.caption.trim_end_matches('.'),
            table.definition.title
        );
        let drawing = panels(&id, &figure.axis, &names, &[panel])?;
        blocks.push(Block::Plot(drawing.plot(
            id.clone(),
            figure.title.clone(),
            caption,
        )));
        tables.push(data(&id, figure, &categories, series));
    }
    Ok((blocks, tables))
}

/// Returns the categories of a figure, and its series: first the printed, then the measured ones.
fn numbers(figure: &FigureDefinition, table: &JudgedTable) -> (Vec<String>, Vec<(String, Values)>) {
    let columns = &table.definition.columns;
    let at = |id: &str| columns.iter().position(|c| c.id == id);
    let has = |row: &[JudgedCell], wanted: &IndexMap<String, CellValues>| {
        let mut wanted = wanted.iter();
        wanted.all(|(c, values)| at(c).is_some_and(|c| values.has(row[c].printed.text())))
    };
    let name = |row: &[JudgedCell]| {
        let cells = columns.iter().zip(row);
        cells.fold(figure.along.clone(), |text, (column, cell)| {
            text.replace(&format!("{{{}}}", column.id), cell.printed.text())
        })
    };
    let rows: Vec<&Vec<JudgedCell>> = table
        .rows
        .iter()
        .filter(|row| has(row, &figure.rows))
        .collect();
    let mut categories: Vec<String> = Vec::new();
    for row in &rows {
        let name = name(row);
        if !categories.contains(&name) {
            categories.push(name);
        }
    }
    let values = |of: fn(&JudgedCell) -> Option<f64>| -> Vec<Values> {
        let mut all: Vec<Values> = vec![vec![None; categories.len()]; figure.series.len()];
        for row in &rows {
            let Some(category) = categories.iter().position(|c| *c == name(row)) else {
                continue;
            };
            for (series, values) in figure.series.iter().zip(&mut all) {
                if let Some(column) = at(&series.column).filter(|_| has(row, &series.rows)) {
                    values[category] = values[category].or(of(&row[column]));
                }
            }
        }
        if figure.percent {
            to_percent(&mut all);
        }
        all
    };
    let printed = values(|cell| match &cell.printed {
        PrintedCell::Number(number) => Some(number.value()),
        PrintedCell::Empty | PrintedCell::Label(_) => None,
    });
    let here = values(|cell| cell.measured.as_ref().map(|m| m.measured.value));
    let any_here = here.iter().flatten().any(Option::is_some);
    let named = |ending: &str, values: Vec<Values>| -> Vec<(String, Values)> {
        let names = figure.series.iter().map(|s| format!("{}{ending}", s.name));
        names
            .zip(values)
            .filter(|(_, values)| values.iter().any(Option::is_some))
            .collect()
    };
    let mut series = named(if any_here { ", in print" } else { "" }, printed);
    series.extend(named(", measured here", here));
    (categories, series)
}

/// Converts the values of each category to percent of their sum. A category with missing values gets no values.
fn to_percent(series: &mut [Values]) {
    for category in 0..series.first().map_or(0, Vec::len) {
        let sum: Option<f64> = series.iter().map(|values| values[category]).sum();
        for values in series.iter_mut() {
            values[category] = values[category].zip(sum).map(|(v, sum)| 100.0 * v / sum);
        }
    }
}

/// Returns a table with the numbers behind a figure.
fn data(
    id: &str,
    figure: &FigureDefinition,
    categories: &[String],
    series: Vec<(String, Values)>,
) -> Table {
    let names = series
        .iter()
        .map(|(name, _)| Column::plain(&slug(name), name));
    let columns = [Column::plain("along", &figure.along_title)];
    let columns = columns.into_iter().chain(names).collect();
    let mut table = Table::new(id, &figure.title, &figure.caption, columns);
    table.rows = categories
        .iter()
        .enumerate()
        .map(|(at, category)| {
            let numbers = series.iter().map(|(_, values)| Cell::number(values[at]));
            [Cell::text(category)].into_iter().chain(numbers).collect()
        })
        .collect();
    table
}
