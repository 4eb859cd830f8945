//! The rows of a described table as runs.

use crate::{
    error::ImportError,
    plain::{decimal_of, number, without_value},
    run::{ImportedRun, ImportedValue, ReadFile, ReadOptions, missing_words, point_of, unit_of},
    table_description::{QuantityDescription, TableDescription},
};
use camino::Utf8Path;
use cvc_core::{
    record::Unit,
    source::{Source, SourceError, Span, suggestion},
    units::counted,
};
use cvc_index::csv::{CsvField, CsvTable, Decimal};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use toml::Spanned;

/// What the names of tables that a description names end in.
const ENDS: [&str; 4] = ["csv", "tsv", "txt", "dat"];

/// The runs of a table: for each row as many as its quantities have columns. The first column of each quantity belongs to the first of them.
pub(crate) fn runs(
    description: &Source,
    shared: &IndexMap<String, Spanned<String>>,
    table: &TableDescription,
    beside: &Utf8Path,
    options: &ReadOptions,
) -> Result<ReadFile, ImportError> {
    let path = beside.join(&table.file);
    if !path.extension().is_some_and(|end| ENDS.contains(&end)) {
        // messages show what is in it, and somebody else may have written the description
        let message = format!("`{}` is not the name of a table", table.file);
        let hint = format!("a table ends in .{}", ENDS.join(", ."));
        return Err(description.error(None, message, hint).into());
    }
    let mut csv = CsvTable::read(path.as_std_path())?;
    csv.clear_missing(&missing_words(
        &[&options.missing[..], &table.missing].concat(),
    ));
    let columns = Columns {
        description,
        csv: &csv,
    };
    for (column, texts) in &table.only {
        columns.place(column, texts.span())?;
    }
    let quantities = table.quantities.iter().map(|of| columns.quantity(of));
    let quantities = quantities.collect::<Result<Vec<TableQuantity<'_>>, SourceError>>()?;
    let declared = match &table.decimal {
        Some(word) => Some(Decimal::named(word.get_ref()).ok_or_else(|| {
            let message = format!("unknown sign before decimals `{}`", word.get_ref());
            description.error(
                Some(word.span()),
                message,
                "write point or comma".to_owned(),
            )
        })?),
        None => options.decimal,
    };
    let places = || {
        let of_quantity = quantities.iter();
        of_quantity.flat_map(|of| of.places.iter().chain(&of.times).copied())
    };
    let numbers = csv
        .rows
        .iter()
        .flat_map(|row| places().map(|place| &row[place]));
    let decimal = decimal_of(&csv, declared, numbers)?;
    let mut runs: Vec<ImportedRun> = Vec::new();
    let (mut remarks, mut empty, mut not_wanted) = (Vec::new(), Vec::new(), 0);
    for (row, line) in csv.rows.iter().zip(&csv.lines) {
        // also of rows that are not wanted: they say how far the table can be trusted
        for of in &quantities {
            let mean = of
                .mean
                .map(|mean| wrong_mean(&csv, (row, *line), &of.places, mean, decimal));
            remarks.extend(mean.flatten());
        }
        let Some(first) = row.iter().find(|field| !field.text.is_empty()) else {
            continue;
        };
        if !is_wanted(table, &csv, row) {
            not_wanted += 1;
            continue;
        }
        let levels = columns.filled_all(shared.iter().chain(&table.factors), table, row)?;
        let point = point_of(&levels).map_err(|(message, hint)| {
            csv.source
                .error(Some(first.span.clone()), message, Some(hint))
        })?;
        let mut facts: BTreeMap<String, String> = columns.filled_all(&table.facts, table, row)?;
        facts.insert("imported.file".to_owned(), table.file.to_string());
        let repeats = quantities.iter().map(|of| of.places.len()).max();
        let mut has_values = false;
        for repeat in 0..repeats.unwrap_or(0) {
            let values = columns.values(&quantities, repeat, table, row, decimal)?;
            if values.is_empty() {
                continue;
            }
            has_values = true;
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
        if !has_values {
            empty.push(*line);
        }
    }
    let file = &table.file;
    if not_wanted > 0 {
        let rows = counted(not_wanted, "row");
        remarks.push(format!("{file}: {rows} not chosen by `where`"));
    }
    let unused = columns.unused(table, shared);
    if !unused.is_empty() {
        remarks.push(format!(
            "{file}: columns that the description does not use: {}",
            unused.join(", ")
        ));
    }
    Ok(ReadFile {
        name: None,
        runs,
        remarks,
        left_out: without_value(&empty)
            .map(|rows| format!("{file}: {rows}"))
            .into_iter()
            .collect(),
    })
}

/// What is wrong with a printed mean; `None` if it is that of its values, as far as its digits and theirs tell.
fn wrong_mean(
    table: &CsvTable,
    (row, line): (&[CsvField], usize),
    places: &[usize],
    mean: usize,
    decimal: Decimal,
) -> Option<String> {
    let printed = row[mean].text.trim();
    // more digits than these no number of 64 bits has
    let decimals = printed
        .split_once(['.', ','])
        .map_or(0, |(_, digits)| digits.len().min(17));
    let values: Vec<f64> = places
        .iter()
        .filter_map(|place| decimal.number(row[*place].text.trim()))
        .collect();
    let computed = values.iter().sum::<f64>() / values.len() as f64;
    // the last digit may be rounded or cut
    let tolerance = 1.01 * 10f64.powi(-(i32::try_from(decimals).unwrap_or(0)));
    let apart = (computed - decimal.number(printed)?).abs();
    let shown: String = printed.chars().take(20).collect();
    (apart > tolerance).then(|| {
        format!(
            "{}, line {line}: the printed mean {shown} is not that of its {} values, {computed:.decimals$}",
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

/// A quantity of a table, with the places of its columns.
struct TableQuantity<'d> {
    description: &'d QuantityDescription,
    unit: Unit,
    factor: f64,
    /// A column for each repeat.
    places: Vec<usize>,
    times: Option<usize>,
    mean: Option<usize>,
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

    /// A quantity with the places of its columns.
    fn quantity<'d>(
        &self,
        description: &'d QuantityDescription,
    ) -> Result<TableQuantity<'d>, SourceError> {
        let unit = &description.unit;
        let (unit, factor) = unit_of(unit.get_ref()).map_err(|hint| {
            let message = format!("unknown unit `{}`", unit.get_ref());
            self.description.error(Some(unit.span()), message, hint)
        })?;
        let single = |column: &Option<Spanned<String>>| {
            let column = column.as_ref();
            column
                .map(|column| self.place(column.get_ref(), column.span()))
                .transpose()
        };
        let (names, named_at) = (description.columns.get_ref(), description.columns.span());
        let places = names.iter().map(|name| self.place(name, named_at.clone()));
        Ok(TableQuantity {
            description,
            unit,
            factor,
            places: places.collect::<Result<_, _>>()?,
            times: single(&description.times)?,
            mean: single(&description.printed_mean)?,
        })
    }

    /// The values of a repeat in a row.
    fn values(
        &self,
        quantities: &[TableQuantity<'_>],
        repeat: usize,
        table: &TableDescription,
        row: &[CsvField],
        decimal: Decimal,
    ) -> Result<Vec<ImportedValue>, SourceError> {
        let mut values = Vec::new();
        for of in quantities {
            let field = of.places.get(repeat).map(|place| &row[*place]);
            let Some(field) = field.filter(|field| !field.text.trim().is_empty()) else {
                continue;
            };
            let times = match of.times {
                Some(place) => number(self.csv, &row[place], decimal, 1.0)?,
                None => 1.0,
            };
            values.push(ImportedValue {
                name: of.description.name.clone(),
                value: number(self.csv, field, decimal, of.factor * times)?,
                unit: of.unit,
                labels: self.filled_all(&of.description.labels, table, row)?,
            });
        }
        Ok(values)
    }

    /// Patterns with the texts of a row.
    fn filled_all<'p, M: FromIterator<(String, String)>>(
        &self,
        patterns: impl IntoIterator<Item = (&'p String, &'p Spanned<String>)>,
        table: &TableDescription,
        row: &[CsvField],
    ) -> Result<M, SourceError> {
        let filled = patterns
            .into_iter()
            .map(|(name, pattern)| Ok((name.clone(), self.filled(pattern, table, row)?)));
        filled.collect()
    }

    /// The columns that nothing in the description names.
    fn unused(
        &self,
        table: &TableDescription,
        shared: &IndexMap<String, Spanned<String>>,
    ) -> Vec<String> {
        let quantities = || table.quantities.iter();
        let patterns = shared
            .values()
            .chain(table.factors.values())
            .chain(table.facts.values());
        let patterns = patterns.chain(quantities().flat_map(|quantity| quantity.labels.values()));
        let patterns: Vec<&str> = patterns.map(|pattern| pattern.get_ref().as_str()).collect();
        let is_used = |name: &String| {
            table.only.contains_key(name)
                || patterns
                    .iter()
                    .any(|pattern| pattern.contains(&format!("{{{name}}}")))
                || quantities().any(|quantity| {
                    let single = [&quantity.times, &quantity.printed_mean];
                    quantity.columns.get_ref().contains(name)
                        || single
                            .into_iter()
                            .flatten()
                            .any(|column| column.get_ref() == name)
                })
        };
        let names = self.csv.head.iter().map(|head| &head.text);
        names.filter(|name| !is_used(name)).cloned().collect()
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
