//! Targets for tables and results of other programs.

use cvc_core::source::SourceText;
use cvc_import::{Decimal, ImportOptions, parse};
use std::path::PathBuf;

pub(crate) const JSON_WORDS: &[&str] = &[
    "NaN",
    "-Infinity",
    "null",
    "\"\\\"NaN\"",
    "\"runs\":[{\"testcases\":[",
    "\"datapoints\":[",
    "\"experiments\":[",
    "\"results\":[",
    "\"check_vars\":{\"num_tasks\":4294967296}",
    "\"num_tasks_per_node\":3",
    "\"perfvalues\":{\":\":[1e999,0,0,0,\"KiB/s\"]}",
    "\"unit\":\"\u{b5}s\"",
    "%nodes=0",
    "[[[[[[[[",
];

pub(crate) const TABLE_WORDS: &[&str] = &[
    ";",
    "\t",
    ",",
    "|",
    "\n|---|---|\n",
    "sep=;\n",
    "# ",
    "\u{feff}",
    "wall [ms]",
    "rate (GB/s)",
    "wall_s",
    "nodes",
    "processes",
    "mapping",
    "1,234",
    "0,5",
    "12.5",
    "N/A",
    "-",
    "\"",
    "4294967295Nx4294967295P",
];

/// Parses a text with all supported formats of numbers.
fn check(name: &str, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for decimal in [None, Some(Decimal::Point), Some(Decimal::Comma)] {
        let options = ImportOptions {
            missing: vec!["common".into()],
            decimal,
            factors: Vec::new(),
        };
        let source = SourceText {
            path: PathBuf::from(name),
            text: text.as_ref().into(),
        };
        match parse(source, &options) {
            Ok(file) => {
                for run in file.runs {
                    assert!(run.point.mapping.processes() > 0 && !run.values.is_empty());
                    assert!(run.values.iter().all(|value| !value.value.is_nan()));
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Checks the reader of another program's JSON.
pub(crate) fn json(data: &[u8]) {
    check("results.json", data);
}

/// Checks the reader of a table with plain columns.
pub(crate) fn table(data: &[u8]) {
    check("table.csv", data);
}
