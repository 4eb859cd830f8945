//! Committed CSV files.

use std::{collections::HashMap, path::Path, rc::Rc};

/// A row with its file and line.
#[derive(Debug)]
pub struct Row {
    place: String,
    columns: Rc<HashMap<String, usize>>,
    cells: Vec<String>,
}

impl Row {
    /// A cell.
    pub fn text(&self, column: &str) -> &str {
        let at = self.columns.get(column).unwrap_or_else(|| panic!("{}: no column `{column}`", self.place));
        &self.cells[*at]
    }

    /// A cell with a number.
    pub fn number(&self, column: &str) -> f64 {
        self.maybe(column).unwrap_or_else(|| panic!("{}: no number in `{column}`", self.place))
    }

    /// A cell with a count.
    pub fn count(&self, column: &str) -> u32 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{}: no count in `{column}`", self.place))
    }

    /// A cell with a number, if it is not empty.
    pub fn maybe(&self, column: &str) -> Option<f64> {
        let text = self.text(column);
        (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| panic!("{}: `{text}` in `{column}` is no number", self.place)))
    }

    /// File and line.
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// A file of the repository, by its path from the top.
///
/// # Panics
/// If it cannot be read or a row has not as many cells as the header.
pub fn csv(path: &str) -> Vec<Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let mut reader = csv::Reader::from_path(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let header = reader.headers().unwrap_or_else(|e| panic!("{path}: {e}"));
    let columns: Rc<HashMap<String, usize>> = Rc::new(header.iter().enumerate().map(|(i, name)| (name.to_owned(), i)).collect());
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record.unwrap_or_else(|e| panic!("{path}: {e}"));
        let line = record.position().map_or(0, csv::Position::line);
        Row { place: format!("{path}:{line}"), columns: Rc::clone(&columns), cells: record.iter().map(str::to_owned).collect() }
    };
    reader.records().map(row).collect()
}

/// A table of the thesis as printed: `t4-1`.
///
/// # Panics
/// As [`csv`].
pub fn printed(id: &str) -> Vec<Row> {
    csv(&format!("experiments/papers/thesis/tables/{id}.csv"))
}
