//! The rows of a described table as runs.

use crate::{
    error::ImportError,
    plain::number,
    run::{ImportedRun, ImportedValue, point_of, unit_of},
    table_description::TableDescription,
};
use camino::Utf8Path;
use cvc_core::source::{Source, SourceError, Span, suggestion};
use cvc_index::csv::{CsvField, CsvTable};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use toml::Spanned;

/// The runs of a table: for each row as many as its quantities have columns. The first column of each quantity belongs to the first of them.
pub(crate) fn runs(
    description: &Source,
    shared: &IndexMap<String, Spanned<String>>,
    table: &TableDescription,
    beside: &Utf8Path,
) -> Result<(Vec<ImportedRun>, Vec<String>), ImportError> {
    let path = beside.join(&table.file);
    let csv = CsvTable::read(path.as_std_path())?;
    let columns = Columns {
        description,
        csv: &csv,
    };
    for (column, texts) in &table.only {
        columns.place(column, texts.span())?;
    }
    let mut quantities = Vec::new();
    for quantity in &table.quantities {
        let (unit, factor) = unit_of(quantity.unit.get_ref()).map_err(|hint| {
            description.error(
                Some(quantity.unit.span()),
                format!("unknown unit `{}`", quantity.unit.get_ref()),
                hint,
            )
        })?;
        let places = quantity
            .columns
            .get_ref()
            .iter()
            .map(|column| columns.place(column, quantity.columns.span()))
            .collect::<Result<Vec<usize>, SourceError>>()?;
        let times = quantity
            .times
            .as_ref()
            .map(|column| columns.place(column.get_ref(), column.span()))
            .transpose()?;
        quantities.push((quantity, unit, factor, times, places));
    }
    let mut runs: Vec<ImportedRun> = Vec::new();
    let mut remarks = Vec::new();
    for row in &csv.rows {
        // also of rows that are not wanted: they say how far the table can be trusted
        for (quantity, _, _, _, places) in &quantities {
            if let Some(column) = &quantity.printed_mean {
                let mean = columns.place(column.get_ref(), column.span())?;
                remarks.extend(wrong_mean(&csv, row, places, mean));
            }
        }
        if !is_wanted(table, &csv, row) {
            continue;
        }
        let mut levels = IndexMap::new();
        for (factor, pattern) in shared.iter().chain(&table.factors) {
            levels.insert(factor.clone(), columns.filled(pattern, table, row)?);
        }
        let at = row.first().map(|field| field.span.clone());
        let point = point_of(&levels)
            .map_err(|(message, hint)| csv.source.error(at, message, Some(hint)))?;
        let mut facts = BTreeMap::new();
        for (fact, pattern) in &table.facts {
            facts.insert(fact.clone(), columns.filled(pattern, table, row)?);
        }
        facts.insert("imported.file".to_owned(), table.file.to_string());
        let repeats = quantities
            .iter()
            .map(|(.., places)| places.len())
            .max()
            .unwrap_or(0);
        for repeat in 0..repeats {
            let mut values = Vec::new();
            for (quantity, unit, factor, times, places) in &quantities {
                let Some(field) = places.get(repeat).map(|place| &row[*place]) else {
                    continue;
                };
                if field.text.trim().is_empty() {
                    continue;
                }
                let times = match times {
                    Some(place) => number(&csv, &row[*place])?,
                    None => 1.0,
                };
                let mut labels = BTreeMap::new();
                for (label, pattern) in &quantity.labels {
                    labels.insert(label.clone(), columns.filled(pattern, table, row)?);
                }
                values.push(ImportedValue {
                    name: quantity.name.clone(),
                    value: number(&csv, field)? * factor * times,
                    unit: *unit,
                    labels,
                });
            }
            if values.is_empty() {
                continue;
            }
            match runs
                .iter_mut()
                .find(|run| table.merge_rows && run.point == point)
            {
                Some(run) => run.values.extend(values),
                None => runs.push(ImportedRun {
                    point: point.clone(),
                    values,
                    facts: facts.clone(),
                }),
            }
        }
    }
    Ok((runs, remarks))
}

/// What is wrong with a printed mean; `None` if it is that of its values, as far as its digits and theirs tell.
fn wrong_mean(table: &CsvTable, row: &[CsvField], places: &[usize], mean: usize) -> Option<String> {
    let printed = row[mean].text.trim();
    let decimals = printed.split_once('.').map_or(0, |(_, d)| d.len());
    let values: Vec<f64> = places
        .iter()
        .filter_map(|place| row[*place].text.trim().parse().ok())
        .collect();
    let computed = values.iter().sum::<f64>() / values.len() as f64;
    // the last digit may be rounded or cut
    let tolerance = 1.01 * 10f64.powi(-(i32::try_from(decimals).unwrap_or(0)));
    let apart = (computed - printed.parse::<f64>().ok()?).abs();
    (apart > tolerance).then(|| {
        let line = table.source.text[..row[mean].span.start].matches('\n').count() + 1;
        format!(
            "{}, line {line}: the printed mean {printed} is not that of its {} values, {computed:.decimals$}",
            table.source.path.display(),
            values.len()
        )
    })
}

fn is_wanted(table: &TableDescription, csv: &CsvTable, row: &[CsvField]) -> bool {
    table.only.iter().all(|(column, texts)| {
        csv.head
            .iter()
            .zip(row)
            .any(|(head, field)| head.text == *column && texts.get_ref().contains(&field.text))
    })
}

/// The columns of a table, as its description names them.
struct Columns<'t> {
    description: &'t Source,
    csv: &'t CsvTable,
}

impl Columns<'_> {
    /// The place of a column.
    fn place(&self, column: &str, named_at: Span) -> Result<usize, SourceError> {
        let names = || self.csv.head.iter().map(|head| head.text.as_str());
        names().position(|name| name == column).ok_or_else(|| {
            self.description.error(
                Some(named_at),
                format!(
                    "{} has no column `{column}`",
                    self.csv.source.path.display()
                ),
                suggestion(column, "its columns", names()),
            )
        })
    }

    /// A pattern with the texts of a row.
    fn filled(
        &self,
        pattern: &Spanned<String>,
        table: &TableDescription,
        row: &[CsvField],
    ) -> Result<String, SourceError> {
        let mut text = String::new();
        let mut rest = pattern.get_ref().as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((column, after)) = after.split_once('}') else {
                return Err(self.description.error(
                    Some(pattern.span()),
                    "a `{` without its `}`",
                    "write {column} for the text of a column".to_owned(),
                ));
            };
            let field = &row[self.place(column, pattern.span())?].text;
            let word = table
                .words
                .get(column)
                .and_then(|words| words.get(field))
                .unwrap_or(field);
            text.push_str(before);
            text.push_str(word.trim());
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }
}
