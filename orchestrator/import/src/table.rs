//! Converts the rows of a described table to runs.

use crate::{
    error::ImportError,
    plain::{decimal_of, number, without_value},
    run::{ImportOptions, ImportedRun, ImportedValue, ReadFile, missing_words, point_of, unit_of},
    table_description::{QuantityDescription, TableDescription},
};
use camino::Utf8Path;
use cvc_core::{
    record::Unit,
    source::{SourceError, SourceText, Span, suggestion},
    units::counted,
};
use cvc_index::csv::{CsvField, CsvTable, Decimal};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use toml::Spanned;

/// File extensions of tables that a description may name.
const ENDS: [&str; 4] = ["csv", "tsv", "txt", "dat"];

/// A quantity of the description, with the indices of its columns.
struct Described<'t> {
    quantity: &'t QuantityDescription,
    unit: Unit,
    factor: f64,
    /// The column with a number by which the row's values are multiplied.
    times: Option<usize>,
    /// The columns with the values, one for each repeat.
    repeats: Vec<usize>,
}

/// Returns the runs of a table. Each row becomes as many runs as its quantities have columns: the first columns form the first run, and so on.
///
/// # Errors
/// The table cannot be read, or does not match its description.
pub(crate) fn runs(
    description: &SourceText,
    shared: &IndexMap<String, Spanned<String>>,
    table: &TableDescription,
    beside: &Utf8Path,
    options: &ImportOptions,
) -> Result<ReadFile, ImportError> {
    let path = beside.join(&table.file);
    if !path.extension().is_some_and(|end| ENDS.contains(&end)) {
        // messages quote the file, so a description from elsewhere must not name arbitrary files
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
    let quantities = table
        .quantities
        .iter()
        .map(|quantity| columns.described(quantity))
        .collect::<Result<Vec<_>, SourceError>>()?;
    let decimal = decimal_sign(&columns, table, &quantities, options)?;
    let rows = Rows {
        columns: &columns,
        shared,
        table,
        quantities,
        decimal,
    };
    rows.read()
}

/// Returns the decimal separator: from the description, from the options, or detected from the numbers.
fn decimal_sign(
    columns: &Columns<'_>,
    table: &TableDescription,
    quantities: &[Described<'_>],
    options: &ImportOptions,
) -> Result<Decimal, ImportError> {
    let declared = match &table.decimal {
        Some(word) => Some(Decimal::named(word.get_ref()).ok_or_else(|| {
            let message = format!("unknown decimal separator `{}`", word.get_ref());
            let hint = "write point or comma".to_owned();
            columns.description.error(Some(word.span()), message, hint)
        })?),
        None => options.decimal,
    };
    let places = || {
        let of_quantity = quantities
            .iter()
            .flat_map(|q| q.repeats.iter().chain(&q.times));
        of_quantity.copied()
    };
    let rows = columns.csv.rows.iter();
    let numbers = rows.flat_map(|row| places().map(|place| &row[place]));
    Ok(decimal_of(columns.csv, declared, numbers)?)
}

/// The rows of a table and their interpretation.
struct Rows<'t> {
    columns: &'t Columns<'t>,
    shared: &'t IndexMap<String, Spanned<String>>,
    table: &'t TableDescription,
    quantities: Vec<Described<'t>>,
    decimal: Decimal,
}

impl Rows<'_> {
    fn read(&self) -> Result<ReadFile, ImportError> {
        let (columns, table, csv) = (self.columns, self.table, self.columns.csv);
        let mut runs: Vec<ImportedRun> = Vec::new();
        let (mut remarks, mut empty, mut not_wanted) = (Vec::new(), Vec::new(), 0);
        for (row, line) in csv.rows.iter().zip(&csv.lines) {
            // rows that are not selected are checked, too: they indicate how reliable the table is
            for described in &self.quantities {
                if let Some(column) = &described.quantity.printed_mean {
                    let mean = columns.place(column.get_ref(), column.span())?;
                    let places = &described.repeats;
                    remarks.extend(wrong_mean(csv, (row, *line), places, mean, self.decimal));
                }
            }
            if row.iter().all(|field| field.text.is_empty()) {
                continue;
            }
            if !is_wanted(table, csv, row) {
                not_wanted += 1;
                continue;
            }
            let of_row = self.runs_of(row)?;
            if of_row.is_empty() {
                empty.push(*line);
            }
            for run in of_row {
                match runs
                    .iter_mut()
                    .find(|earlier| table.merge_rows && earlier.point == run.point)
                {
                    Some(earlier) => earlier.values.extend(run.values),
                    None => runs.push(run),
                }
            }
        }
        let file = &table.file;
        if not_wanted > 0 {
            let rows = counted(not_wanted, "row");
            remarks.push(format!("{file}: {rows} not chosen by `where`"));
        }
        let unused = columns.unused(table, self.shared);
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

    /// Returns the runs of a row that have at least one value.
    fn runs_of(&self, row: &[CsvField]) -> Result<Vec<ImportedRun>, ImportError> {
        let (columns, table) = (self.columns, self.table);
        let filled = |(name, pattern): (&String, &Spanned<String>)| {
            Ok((name.clone(), columns.filled(pattern, table, row)?))
        };
        let factors = self.shared.iter().chain(&table.factors).map(filled);
        let levels = factors.collect::<Result<IndexMap<_, _>, SourceError>>()?;
        let point = point_of(&levels).map_err(|(message, hint)| {
            let first = row.iter().find(|field| !field.text.is_empty());
            let span = first.map(|field| field.span.clone());
            columns.csv.source.error(span, message, Some(hint))
        })?;
        let facts = table.facts.iter().map(filled);
        let mut facts = facts.collect::<Result<BTreeMap<_, _>, SourceError>>()?;
        facts.insert("imported.file".to_owned(), table.file.to_string());
        let repeats = self.quantities.iter().map(|q| q.repeats.len()).max();
        let mut runs = Vec::new();
        for repeat in 0..repeats.unwrap_or(0) {
            let mut values = Vec::new();
            for described in &self.quantities {
                values.extend(self.value(described, row, repeat)?);
            }
            if !values.is_empty() {
                runs.push(ImportedRun {
                    point: point.clone(),
                    values,
                    facts: facts.clone(),
                });
            }
        }
        Ok(runs)
    }

    /// Returns the value of a quantity in a repeat; `None` if the row has no value there.
    fn value(
        &self,
        described: &Described<'_>,
        row: &[CsvField],
        repeat: usize,
    ) -> Result<Option<ImportedValue>, ImportError> {
        let (csv, decimal) = (self.columns.csv, self.decimal);
        let field = described.repeats.get(repeat).map(|place| &row[*place]);
        let Some(field) = field.filter(|field| !field.text.trim().is_empty()) else {
            return Ok(None);
        };
        let times = match described.times {
            Some(place) => number(csv, &row[place], decimal, 1.0)?,
            None => 1.0,
        };
        let mut labels = BTreeMap::new();
        for (label, pattern) in &described.quantity.labels {
            labels.insert(
                label.clone(),
                self.columns.filled(pattern, self.table, row)?,
            );
        }
        Ok(Some(ImportedValue {
            name: described.quantity.name.clone(),
            value: number(csv, field, decimal, described.factor * times)?,
            unit: described.unit,
            labels,
        }))
    }
}

/// Returns a message if a printed mean differs from the mean of the values by more than its last digit; `None` if it does not, or is not a number.
fn wrong_mean(
    table: &CsvTable,
    (row, line): (&[CsvField], usize),
    places: &[usize],
    mean: usize,
    decimal: Decimal,
) -> Option<String> {
    let printed = row[mean].text.trim();
    // a 64-bit floating-point number has at most this many digits
    let decimals = printed
        .split_once(['.', ','])
        .map_or(0, |(_, digits)| digits.len().min(17));
    let values: Vec<f64> = places
        .iter()
        .filter_map(|place| decimal.number(row[*place].text.trim()))
        .collect();
    let computed = values.iter().sum::<f64>() / values.len() as f64;
    // the last digit may be rounded or truncated
    let tolerance = 1.01 * 10f64.powi(-(i32::try_from(decimals).unwrap_or(0)));
    let deviation = (computed - decimal.number(printed)?).abs();
    let shown: String = printed.chars().take(20).collect();
    (deviation > tolerance).then(|| {
        format!(
            "{}, line {line}: the printed mean {shown} differs from the mean of its {} values, {computed:.decimals$}",
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

/// The columns of a table as used by its description.
struct Columns<'t> {
    description: &'t SourceText,
    csv: &'t CsvTable,
}

impl<'t> Columns<'t> {
    /// Returns a quantity with the indices of its columns.
    fn described(&self, quantity: &'t QuantityDescription) -> Result<Described<'t>, SourceError> {
        let word = &quantity.unit;
        let (unit, factor) = unit_of(word.get_ref()).map_err(|unknown| {
            let message = unknown.to_string();
            self.description
                .error(Some(word.span()), message, unknown.hint)
        })?;
        let named = quantity.columns.get_ref().iter();
        let repeats = named.map(|column| self.place(column, quantity.columns.span()));
        let times = quantity.times.as_ref();
        let times = times.map(|column| self.place(column.get_ref(), column.span()));
        Ok(Described {
            quantity,
            unit,
            factor,
            times: times.transpose()?,
            repeats: repeats.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the index of a column.
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

    /// Returns the columns that the description does not use.
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

    /// Replaces `{column}` in a pattern by the texts of a row.
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
                    "unclosed `{`",
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
