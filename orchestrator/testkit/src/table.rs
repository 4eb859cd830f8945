//! Reads committed CSV files.

use std::{collections::HashMap, path::Path, rc::Rc};

/// A row with its file and line.
#[derive(Debug)]
pub struct Row {
    place: String,
    columns: Rc<HashMap<String, usize>>,
    cells: Vec<String>,
}

impl Row {
    /// Returns a cell as text.
    pub fn text(&self, column: &str) -> &str {
        let at = self
            .columns
            .get(column)
            .unwrap_or_else(|| panic!("{}: no column `{column}`", self.place));
        &self.cells[*at]
    }

    /// Returns a cell as a number.
    pub fn number(&self, column: &str) -> f64 {
        self.maybe(column)
            .unwrap_or_else(|| panic!("{}: `{column}` is empty", self.place))
    }

    /// Returns a cell as a count.
    pub fn count(&self, column: &str) -> u32 {
        self.text(column)
            .parse()
            .unwrap_or_else(|_| panic!("{}: `{column}` is not a count", self.place))
    }

    /// Returns a cell as a number; `None` if it is empty.
    pub fn maybe(&self, column: &str) -> Option<f64> {
        let text = self.text(column);
        (!text.is_empty()).then(|| {
            text.parse().unwrap_or_else(|_| {
                panic!("{}: `{text}` in `{column}` is not a number", self.place)
            })
        })
    }

    /// Returns the row's file and line.
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// Reads a file of the repository; the path is relative to its root.
///
/// # Panics
/// The file cannot be read, or the number of cells in a row differs from the header.
pub fn csv(path: &str) -> Vec<Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    let mut reader =
        csv::Reader::from_path(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let header = reader.headers().unwrap_or_else(|e| panic!("{path}: {e}"));
    let columns: Rc<HashMap<String, usize>> = Rc::new(
        header
            .iter()
            .enumerate()
            .map(|(i, name)| (name.to_owned(), i))
            .collect(),
    );
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record.unwrap_or_else(|e| panic!("{path}: {e}"));
        let line = record.position().map_or(0, csv::Position::line);
        Row {
            place: format!("{path}:{line}"),
            columns: Rc::clone(&columns),
            cells: record.iter().map(str::to_owned).collect(),
        }
    };
    reader.records().map(row).collect()
}

/// Reads a table as printed in the thesis, such as `t4-1`.
///
/// # Panics
/// See [`csv`].
pub fn printed(id: &str) -> Vec<Row> {
    csv(&format!("experiments/papers/thesis/tables/{id}.csv"))
}
