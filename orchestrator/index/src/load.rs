//! Reads the files of a campaign directory.

use crate::error::AnalysisError;
use camino::Utf8Path;
use cvc_core::app::descriptor::Better;
use cvc_core::record::{Record, Unit};
use cvc_core::store::{StoreError, regular};
use serde::{Deserialize, de::DeserializeOwned};
use std::io;

/// A figure of merit, as far as reports want to know of it.
#[derive(Deserialize)]
pub(super) struct DeclaredFigure {
    pub name: String,
    pub unit: Unit,
    pub better: Better,
}

/// The facts of a run: names with values; none without a file, or why it cannot be understood.
pub(super) type RunFacts = Result<Option<Vec<(String, String)>>, String>;

/// The state of a succeeded run's records.
pub(super) enum RunRecords {
    /// Read; the digest is of the whole file.
    Read {
        records: Vec<Record>,
        digest: String,
    },
    /// No such file.
    Missing,
    /// The problem of an unreadable file.
    Damaged(String),
}

pub(super) fn json<T: DeserializeOwned>(path: &Utf8Path) -> Result<T, AnalysisError> {
    let bytes = regular::read(path.as_std_path()).map_err(StoreError::io("read", path))?;
    Ok(serde_json::from_slice(&bytes)
        .map_err(|e| StoreError::damaged(path, e.line(), e.to_string()))?)
}

/// The figures of merit that a run's application declares, as `run.json` keeps its descriptor. None if that cannot be read: the numbers
/// are there all the same, but not which way is better.
///
/// # Errors
/// What is there instead of a file.
pub(super) fn figures(path: &Utf8Path) -> Result<Vec<DeclaredFigure>, String> {
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
        Err(error) if regular::is_other(path.as_std_path()) => return Err(error.to_string()),
        read => read
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Run>(&bytes).ok()),
    };
    Ok(read.map(|run| run.descriptor.figures).unwrap_or_default())
}

/// The title that a campaign file gives its report. `None` without one, or if the file cannot be read: a report does not judge
/// that file.
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

/// The parser's message without its line number, because it saw only one line.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// The records of a run. One bad line makes the whole file damaged.
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

/// The facts of a run, nested names joined by dots; arrays of texts are joined by `; `, other arrays are kept as JSON text. `Ok(None)`
/// without a file.
pub(super) fn facts(path: &Utf8Path) -> RunFacts {
    let bytes = match regular::read(path.as_std_path()) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    if !value.is_object() {
        return Err("not a JSON object".to_owned());
    }
    let mut facts = Vec::new();
    flatten("", value, &mut facts);
    Ok(Some(facts))
}

/// Depth is bounded by serde_json's own limit of 128 levels.
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
