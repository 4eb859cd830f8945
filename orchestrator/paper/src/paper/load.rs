//! Reads the folder of a paper. All problems are reported with file, line and column.

use super::{
    cell::{Attached, Cell, PrintedTable},
    claims,
    definition::{
        Anomaly, AnomalyCells, ColumnDefinition, Decimals, Kind, RawPaper, SCHEMA, TableDefinition,
    },
    printed::{Printed, decimals},
    published::Paper,
    rules,
};
use cvc_core::source::{SourceError, SourceErrors, SourceText, Step, closest, span_of, suggestion};
use cvc_index::csv::{CsvField, CsvTable};
use cvc_show::{Confidence, slug};
use std::path::{Path, PathBuf};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Returns the folder of a paper: the first `DIR/NAME` that contains a `paper.toml`.
pub fn find(name: &str, dirs: &[PathBuf]) -> Option<PathBuf> {
    // a name with a separator could leave the directories
    if name.is_empty() || name.contains(['/', '\\', '\0']) || name.starts_with('.') {
        return None;
    }
    dirs.iter()
        .map(|dir| dir.join(name))
        .find(|folder| folder.join("paper.toml").is_file())
}

/// Returns the names of all papers in these directories, sorted and without duplicates.
pub fn known(dirs: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = dirs
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten())
        .filter(|entry| entry.path().join("paper.toml").is_file())
        .filter_map(|entry| entry.file_name().to_str().map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Reads the folder of a paper.
///
/// # Errors
/// All problems of its files, with positions.
pub fn load(folder: &Path) -> Result<Paper, SourceErrors> {
    let source = SourceText::read(&folder.join("paper.toml"))?;
    let table = source.parse().map_err(SourceErrors)?;
    let value = Spanned::new(0..source.text.len(), DeValue::Table(table.clone()));
    let raw: RawPaper = source.decode(&value).map_err(|mut e| {
        e.span = e
            .span
            .filter(|s| *s != (0..source.text.len()))
            .or(Some(0..0));
        e
    })?;
    let mut errors = check(&source, &table, &raw, folder);
    let mut tables = Vec::new();
    for definition in &raw.tables {
        match read_table(folder, definition) {
            Ok(table) => tables.push(table),
            Err(mut found) => errors.append(&mut found),
        }
    }
    let anomalies = match read_anomalies(&folder.join("anomalies.csv")) {
        Ok(anomalies) => anomalies,
        Err(error) => {
            errors.push(error);
            Vec::new()
        }
    };
    let claims = if errors.is_empty() {
        claims::read(folder, &tables)?
    } else {
        Vec::new()
    };
    // references to table cells cannot be checked without the tables
    if !errors.is_empty() {
        return Err(SourceErrors(errors));
    }
    let mut paper = Paper {
        id: raw.id,
        title: raw.title,
        authors: raw.authors,
        year: raw.year,
        published: raw.published,
        note: raw.note,
        tables,
        anomalies,
        claims,
        figures: raw.figures,
        notes: Vec::new(),
    };
    let errors = attach(&source, &table, &raw.anomaly_cells, &mut paper);
    if errors.is_empty() {
        Ok(paper)
    } else {
        Err(SourceErrors(errors))
    }
}

fn check(
    source: &SourceText,
    table: &DeTable<'_>,
    raw: &RawPaper,
    folder: &Path,
) -> Vec<SourceError> {
    let mut errors = Vec::new();
    let mut fail = |way: &[Step<'_>], message: String, hint: String| {
        errors.push(source.error(span_of(table, way).or(Some(0..0)), message, hint))
    };
    if raw.schema != SCHEMA {
        fail(
            &["schema".into()],
            format!("unknown paper format {}", raw.schema),
            "this version reads `schema = 1`".into(),
        );
    }
    let name = folder
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    if raw.id != name {
        let hint = format!("write id = \"{name}\", or rename the folder");
        fail(
            &["id".into()],
            format!("the name `{}` differs from the folder's", raw.id),
            hint,
        );
    }
    for (t, definition) in raw.tables.iter().enumerate() {
        // names of report files are derived from identifiers
        let mut before = raw.tables[..t].iter();
        if let Some(other) = before.find(|other| slug(&other.id) == slug(&definition.id)) {
            let (id, other) = (&definition.id, &other.id);
            let message = if id == other {
                format!("the table `{id}` is given twice")
            } else {
                format!("the tables `{other}` and `{id}` would have the same file in a report")
            };
            fail(
                &["tables".into(), t.into(), "id".into()],
                message,
                "rename one".into(),
            );
        }
        if !definition.file.ends_with(".csv") {
            // messages quote the file, so a third party's paper must not be able to name arbitrary files
            fail(
                &["tables".into(), t.into(), "file".into()],
                format!("`{}` is not the name of a table", definition.file),
                "a table ends in .csv".into(),
            );
        }
        check_columns(t, definition, &mut fail);
    }
    for (f, figure) in raw.figures.iter().enumerate() {
        let way = ["figures".into(), f.into(), "table".into()];
        let known = raw.tables.iter();
        let Some(table) = known.clone().find(|t| t.id == figure.table) else {
            let hint = suggestion(&figure.table, "tables", known.map(|t| t.id.as_str()));
            fail(&way, format!("unknown table `{}`", figure.table), hint);
            continue;
        };
        let series = figure.series.iter();
        let columns = series.flat_map(|s| s.rows.keys().chain([&s.column]));
        for column in columns.chain(figure.rows.keys()) {
            let known = table.columns.iter().map(|c| c.id.as_str());
            if !known.clone().any(|id| id == column) {
                let message = format!("table {} has no column `{column}`", table.id);
                fail(&way, message, suggestion(column, "columns", known));
            }
        }
    }
    errors
}

/// Checks the columns of the table `t`.
fn check_columns(
    t: usize,
    definition: &TableDefinition,
    fail: &mut dyn FnMut(&[Step<'_>], String, String),
) {
    for (c, column) in definition.columns.iter().enumerate() {
        let way = |key: &'static str| {
            [
                Step::from("tables"),
                t.into(),
                "columns".into(),
                c.into(),
                key.into(),
            ]
        };
        if definition.columns[..c]
            .iter()
            .any(|other| other.id == column.id)
        {
            fail(
                &way("id"),
                format!("the column `{}` is given twice", column.id),
                "remove one".into(),
            );
        }
        if let Some(rule) = &column.rule
            && let Err(e) = rules::check(rule, definition)
        {
            fail(&way("rule"), e.message, e.hint);
        }
        if let Some(model) = &column.model
            && let Err(e) = rules::check_model(model)
        {
            fail(&way("model"), e.message, e.hint);
        }
        if let Some(tolerance) = &column.tolerance {
            let amounts: Vec<f64> = [tolerance.by, tolerance.pct]
                .into_iter()
                .flatten()
                .collect();
            if amounts.is_empty() || !amounts.iter().all(|v| v.is_finite() && *v > 0.0) {
                fail(
                    &way("tolerance"),
                    "no tolerance".into(),
                    "write by = ... (in the column's unit) or pct = ..., above 0".into(),
                );
            }
        }
    }
}

fn read_table(
    folder: &Path,
    definition: &TableDefinition,
) -> Result<PrintedTable, Vec<SourceError>> {
    let csv = CsvTable::read(&folder.join(&definition.file)).map_err(|e| vec![e])?;
    let mut errors = Vec::new();
    let mut columns = Vec::new();
    for column in &definition.columns {
        match csv.head.iter().position(|f| f.text == column.id) {
            Some(index) => columns.push(index),
            None => {
                let known = csv.head.iter().map(|f| f.text.as_str());
                let hint = suggestion(&column.id, "columns of the file", known);
                errors.push(csv.source.error(
                    Some(0..0),
                    format!("the column `{}` is missing", column.id),
                    hint,
                ));
            }
        }
    }
    for field in &csv.head {
        if !definition.columns.iter().any(|c| c.id == field.text) {
            let hint = format!(
                "describe it among the columns of table {} in paper.toml, or remove it",
                definition.id
            );
            errors.push(csv.source.error(
                Some(field.span.clone()),
                format!("the column `{}` is not described", field.text),
                hint,
            ));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if csv.rows.is_empty() {
        return Err(vec![csv.source.error(
            Some(0..0),
            "the table has no rows",
            "write one line for each row of print".to_owned(),
        )]);
    }
    let digits: Vec<u32> = columns
        .iter()
        .zip(&definition.columns)
        .map(|(at, column)| column_decimals(&csv, *at, column))
        .collect();
    let mut cells = Vec::new();
    for row in &csv.rows {
        let mut of_row = Vec::new();
        for ((at, column), digits) in columns.iter().zip(&definition.columns).zip(&digits) {
            match cell(&csv.source, &row[*at], column, *digits) {
                Ok(cell) => of_row.push(cell),
                Err(error) => errors.push(error),
            }
        }
        cells.push(of_row);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let attached = vec![vec![Vec::new(); definition.columns.len()]; cells.len()];
    Ok(PrintedTable {
        definition: definition.clone(),
        cells,
        attached,
        notes: Vec::new(),
    })
}

fn column_decimals(csv: &CsvTable, at: usize, column: &ColumnDefinition) -> u32 {
    match column.decimals {
        Decimals::AtLeast(n) => n,
        Decimals::Column(_) => csv
            .rows
            .iter()
            .map(|r| decimals(&r[at].text))
            .max()
            .unwrap_or(0),
    }
}

fn cell(
    source: &SourceText,
    field: &CsvField,
    column: &ColumnDefinition,
    digits: u32,
) -> Result<Cell, SourceError> {
    let fail = |message: String, hint: &str| {
        source.error(Some(field.span.clone()), message, hint.to_owned())
    };
    if field.text.is_empty() {
        if column.optional {
            return Ok(Cell::Empty);
        }
        return Err(fail(
            format!("missing value for `{}`", column.id),
            "write a value, or mark the column as `optional = true` in paper.toml",
        ));
    }
    match column.kind {
        Kind::Label => Ok(Cell::Label(field.text.clone())),
        Kind::Setting | Kind::Measured | Kind::Predicted | Kind::Derived => {
            let number = Printed::parse(&field.text, digits).map_err(|e| {
                fail(
                    format!("{e}, but `{}` has numbers", column.id),
                    "write a number with a decimal point, as in 109.94",
                )
            })?;
            if number.value() < 0.0 && !column.signed {
                let message = format!(
                    "`{}` is negative, and `{}` cannot be",
                    field.text, column.id
                );
                return Err(fail(
                    message,
                    "correct it, or mark the column as `signed = true` in paper.toml",
                ));
            }
            Ok(Cell::Number(number))
        }
    }
}

fn read_anomalies(path: &Path) -> Result<Vec<Anomaly>, SourceError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let csv = CsvTable::read(path)?;
    let column = |name: &str| {
        csv.head.iter().position(|f| f.text == name).ok_or_else(|| {
            let hint =
                "the columns are id, table, cell, printed, likely, why, confidence".to_owned();
            csv.source
                .error(Some(0..0), format!("the column `{name}` is missing"), hint)
        })
    };
    let [id, table, cell, printed] = [
        column("id")?,
        column("table")?,
        column("cell")?,
        column("printed")?,
    ];
    let [likely, why, confidence] = [column("likely")?, column("why")?, column("confidence")?];
    let mut anomalies: Vec<Anomaly> = Vec::new();
    for row in &csv.rows {
        let text = |at: usize| row[at].text.clone();
        if anomalies.iter().any(|a| a.id == row[id].text) {
            let message = format!("the anomaly `{}` is given twice", row[id].text);
            return Err(csv.source.error(
                Some(row[id].span.clone()),
                message,
                "rename one".to_owned(),
            ));
        }
        anomalies.push(Anomaly {
            id: text(id),
            table: text(table),
            cell: text(cell),
            printed: text(printed),
            likely: text(likely),
            why: text(why),
            confidence: sureness(&csv, &row[confidence])?,
        });
    }
    Ok(anomalies)
}

/// Parses the confidence in an anomaly.
fn sureness(csv: &CsvTable, field: &CsvField) -> Result<Confidence, SourceError> {
    let found = Confidence::ALL
        .into_iter()
        .find(|c| c.word() == field.text.as_str());
    found.ok_or_else(|| {
        let known = Confidence::ALL.map(Confidence::word);
        let hint = suggestion(&field.text, "confidences", known);
        let message = format!("unknown confidence `{}`", field.text);
        csv.source.error(Some(field.span.clone()), message, hint)
    })
}

/// A problem with a key of `[[anomaly_cells]]`.
struct Misplaced {
    key: &'static str,
    message: String,
    hint: String,
}

/// Assigns every anomaly to its cells. An anomaly without cells, and cells that do not exist, are errors.
fn attach(
    source: &SourceText,
    table: &DeTable<'_>,
    places: &[AnomalyCells],
    paper: &mut Paper,
) -> Vec<SourceError> {
    let mut errors = Vec::new();
    let mut placed = vec![false; paper.anomalies.len()];
    for (n, place) in places.iter().enumerate() {
        let attached = find_anomaly(&place.id, &paper.anomalies).and_then(|anomaly| {
            placed[anomaly] = true;
            attach_one(anomaly, place, paper)
        });
        if let Err(Misplaced { key, message, hint }) = attached {
            let at = span_of(table, &["anomaly_cells".into(), n.into(), key.into()]);
            errors.push(source.error(at.or(Some(0..0)), message, hint));
        }
    }
    for (anomaly, _) in paper
        .anomalies
        .iter()
        .zip(&placed)
        .filter(|(_, placed)| !**placed)
    {
        let hint =
            "add an [[anomaly_cells]] with its id, and its table, rows and columns if it has any"
                .to_owned();
        errors.push(source.error(
            Some(0..0),
            format!("the anomaly `{}` has no cells", anomaly.id),
            hint,
        ));
    }
    errors
}

fn find_anomaly(id: &str, anomalies: &[Anomaly]) -> Result<usize, Misplaced> {
    anomalies.iter().position(|a| a.id == id).ok_or_else(|| {
        let known = anomalies.iter().map(|a| a.id.as_str());
        let hint = closest(id, known).map_or_else(
            || "add it to anomalies.csv".to_owned(),
            |c| format!("did you mean `{c}`?"),
        );
        Misplaced {
            key: "id",
            message: format!("unknown anomaly `{id}`"),
            hint,
        }
    })
}

/// Assigns an anomaly to its cells, to its table, or to the paper as a whole.
fn attach_one(anomaly: usize, place: &AnomalyCells, paper: &mut Paper) -> Result<(), Misplaced> {
    let Some(name) = &place.table else {
        paper.notes.push(anomaly);
        return Ok(());
    };
    let Some(t) = paper.tables.iter().position(|t| t.definition.id == *name) else {
        let hint = suggestion(
            name,
            "tables",
            paper.tables.iter().map(|t| t.definition.id.as_str()),
        );
        return Err(Misplaced {
            key: "table",
            message: format!("unknown table `{name}`"),
            hint,
        });
    };
    let table = &mut paper.tables[t];
    if place.columns.is_empty() && place.rows.is_empty() {
        table.notes.push(anomaly);
        return Ok(());
    }
    let (rows, columns) = cells_of(place, table)?;
    for row in rows {
        for column in &columns {
            table.attached[row][*column].push(Attached {
                anomaly,
                effect: place.effect,
                likely: place.likely.clone(),
            });
        }
    }
    Ok(())
}

/// Returns the rows and columns of the cells that an anomaly concerns.
fn cells_of(
    place: &AnomalyCells,
    table: &PrintedTable,
) -> Result<(Vec<usize>, Vec<usize>), Misplaced> {
    let name = &table.definition.id;
    let mut named = place
        .rows
        .keys()
        .map(|k| ("rows", k))
        .chain(place.columns.iter().map(|c| ("columns", c)));
    if let Some((key, column)) = named.find(|(_, c)| table.column(c).is_none()) {
        let hint = suggestion(
            column,
            "columns",
            table.definition.columns.iter().map(|c| c.id.as_str()),
        );
        return Err(Misplaced {
            key,
            message: format!("table {name} has no column `{column}`"),
            hint,
        });
    }
    let matches = |row: &usize| {
        place.rows.iter().all(|(column, value)| {
            table
                .cell(*row, column)
                .is_some_and(|cell| cell.text() == value)
        })
    };
    let rows: Vec<usize> = (0..table.cells.len()).filter(matches).collect();
    if rows.is_empty() {
        let wanted: Vec<String> = place
            .rows
            .iter()
            .map(|(c, v)| format!("{c} = {v}"))
            .collect();
        let message = format!("table {name} has no row with {}", wanted.join(", "));
        return Err(Misplaced {
            key: "rows",
            message,
            hint: "copy the values from its file".into(),
        });
    }
    // without columns, the anomaly is assigned to the first cell of each row
    let columns: Vec<usize> = if place.columns.is_empty() {
        vec![0]
    } else {
        place
            .columns
            .iter()
            .filter_map(|c| table.column(c))
            .collect()
    };
    let has_numbers = columns
        .iter()
        .all(|c| table.definition.columns[*c].kind != Kind::Label);
    if place
        .likely
        .as_ref()
        .is_some_and(|l| l.number().is_some() != has_numbers)
    {
        let hint = format!(
            "write {}",
            if has_numbers {
                "a number"
            } else {
                "a text in quotes"
            }
        );
        return Err(Misplaced {
            key: "likely",
            message: "the likely value does not have the type of its column".into(),
            hint,
        });
    }
    Ok((rows, columns))
}
