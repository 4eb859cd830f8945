//! Reads the files of a campaign directory.

use crate::error::AnalysisError;
use camino::Utf8Path;
use cvc_core::app::descriptor::Better;
use cvc_core::record::{Record, Unit};
use cvc_core::store::{StoreError, regular};
use serde::{Deserialize, de::DeserializeOwned};
use std::io;

/// A figure of merit declared by an application, with its description for reports.
#[derive(Deserialize)]
pub(super) struct DeclaredFigure {
    pub name: String,
    pub unit: Unit,
    pub better: Better,
}

/// The facts of a run, as names with values; `None` if there is no file of facts.
pub(super) type RunFacts = Result<Option<Vec<(String, String)>>, FactsError>;

/// Why the facts of a run cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FactsError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("not a JSON object")]
    NotAnObject,
}

/// Result of reading the records of a successful run.
pub(super) enum RunRecords {
    /// The records were read; `digest` is that of the whole file.
    Read {
        records: Vec<Record>,
        digest: String,
    },
    /// The file does not exist.
    Missing,
    /// The file is unreadable; the text says why.
    Damaged(String),
}

pub(super) fn json<T: DeserializeOwned>(path: &Utf8Path) -> Result<T, AnalysisError> {
    let bytes = regular::read(path.as_std_path()).map_err(StoreError::io("read", path))?;
    Ok(serde_json::from_slice(&bytes)
        .map_err(|e| StoreError::damaged(path, e.line(), e.to_string()))?)
}

/// Returns the figures of merit declared in the application's descriptor, as stored in `run.json`. If the descriptor cannot be read, returns none;
/// whether higher or lower numbers are better is then unknown.
///
/// # Errors
/// `path` is not a regular file, or reading fails.
pub(super) fn figures(path: &Utf8Path) -> io::Result<Vec<DeclaredFigure>> {
    #[derive(Deserialize)]
    struct Run {
        descriptor: Descriptor,
    }
    #[derive(Deserialize)]
    struct Descriptor {
        #[serde(default)]
        figures: Vec<DeclaredFigure>,
    }
    let read = match regular::read(path.as_std_path()) {
        Err(error) if regular::is_other(path.as_std_path()) => return Err(error),
        read => read
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Run>(&bytes).ok()),
    };
    Ok(read.map(|run| run.descriptor.figures).unwrap_or_default())
}

/// Returns the title that a campaign file sets for its report. `None` if there is no title or the file cannot be read: a report does not validate
/// the campaign file.
pub(super) fn title(path: &Utf8Path) -> Option<String> {
    let file: toml::Table = toml::from_str(&regular::read_text(path.as_std_path()).ok()?).ok()?;
    let of_variant = file.get("variant").and_then(|v| {
        file.get("variants")?
            .get(v.as_str()?)?
            .get("report")?
            .get("title")
    });
    let title = of_variant
        .or_else(|| file.get("report")?.get("title"))?
        .as_str()?
        .trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Returns the parser's message without its line number, which is always 1, because each line is parsed separately.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Reads the records of a run. A single bad line marks the whole file as damaged.
pub(super) fn records(path: &Utf8Path) -> RunRecords {
    let bytes = match regular::read(path.as_std_path()) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return RunRecords::Missing,
        Err(e) => return RunRecords::Damaged(e.to_string()),
    };
    let mut records = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Record>(line) {
            Ok(record) => records.push(record),
            Err(e) => {
                return RunRecords::Damaged(format!(
                    "line {number}, column {}: {}",
                    e.column(),
                    what(&e)
                ));
            }
        }
    }
    RunRecords::Read {
        records,
        digest: blake3::hash(&bytes).to_hex().to_string(),
    }
}

/// Returns the facts of a run. Names of nested values are joined by dots; arrays of texts are joined by `; `, and other arrays are kept as JSON
/// text. `Ok(None)` if there is no file.
pub(super) fn facts(path: &Utf8Path) -> RunFacts {
    let bytes = match regular::read(path.as_std_path()) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let value: serde_json::Value = serde_json::from_slice(&bytes)?;
    if !value.is_object() {
        return Err(FactsError::NotAnObject);
    }
    let mut facts = Vec::new();
    flatten("", value, &mut facts);
    Ok(Some(facts))
}

/// Recursion is limited by serde_json to 128 levels.
fn flatten(name: &str, value: serde_json::Value, facts: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                let name = if name.is_empty() {
                    key
                } else {
                    format!("{name}.{key}")
                };
                flatten(&name, value, facts);
            }
        }
        serde_json::Value::String(text) => facts.push((name.to_owned(), text)),
        serde_json::Value::Null => {}
        serde_json::Value::Array(items) if items.iter().all(serde_json::Value::is_string) => {
            let texts: Vec<&str> = items.iter().filter_map(serde_json::Value::as_str).collect();
            facts.push((name.to_owned(), texts.join("; ")));
        }
        other => facts.push((name.to_owned(), other.to_string())),
    }
}
