//! The JSON report of ReFrame (`reframe --report-file`): its performance variables as figures, one run for each test case that passed.

use crate::{
    error::ImportError,
    run::{ImportedRun, ImportedValue, point_of, unit_of},
};
use camino::Utf8Path;
use cvc_core::{
    record::{Unit, names},
    source::Source,
};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Report {
    runs: Vec<Session>,
}

#[derive(Deserialize)]
struct Session {
    #[serde(default)]
    testcases: Vec<Case>,
}

/// A test case, as far as it is imported. Reports of version 3 list `perfvars`, those of version 4 have `perfvalues` by name.
#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(default)]
    result: String,
    #[serde(default)]
    system: String,
    #[serde(default, alias = "partition_name")]
    partition: String,
    #[serde(default, alias = "environment")]
    environ: Option<String>,
    #[serde(default)]
    num_tasks: Option<u32>,
    #[serde(default)]
    num_tasks_per_node: Option<u32>,
    #[serde(default)]
    time_run: Option<f64>,
    #[serde(default)]
    perfvars: Option<Vec<Variable>>,
    #[serde(default)]
    perfvalues: BTreeMap<String, Vec<Value>>,
    #[serde(default)]
    job_nodelist: Option<Value>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: f64,
    #[serde(default)]
    unit: String,
}

pub(crate) fn read(file: &Utf8Path) -> Result<Vec<ImportedRun>, ImportError> {
    let source = Source::read(file.as_std_path())?;
    let report: Report = serde_json::from_str(&source.text).map_err(|error| {
        let message = format!("not a report of ReFrame: {error}");
        source.error(
            Some(0..0),
            message,
            "give the file that `reframe --report-file` wrote".to_owned(),
        )
    })?;
    let mut runs = Vec::new();
    for case in report.runs.into_iter().flat_map(|run| run.testcases) {
        if !matches!(case.result.as_str(), "pass" | "success" | "") {
            continue;
        }
        let values = values(&case);
        if values.is_empty() {
            continue;
        }
        let point = point_of(&levels(&case))
            .map_err(|(message, hint)| source.error(None, message, Some(hint)))?;
        let mut facts = BTreeMap::new();
        facts.insert("imported.file".to_owned(), file.to_string());
        if let Some(nodes) = &case.job_nodelist {
            facts.insert("imported.nodes".to_owned(), nodes.to_string());
        }
        runs.push(ImportedRun {
            point,
            values,
            facts,
        });
    }
    if runs.is_empty() {
        return Err(ImportError::Nothing {
            file: file.to_owned(),
        });
    }
    Ok(runs)
}

fn levels(case: &Case) -> IndexMap<String, String> {
    let tasks = case.num_tasks.unwrap_or(1).max(1);
    let on_each = case
        .num_tasks_per_node
        .filter(|n| *n > 0)
        .unwrap_or(tasks)
        .min(tasks);
    let site = [case.system.as_str(), case.partition.as_str()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(":");
    let (full, left) = (tasks / on_each, tasks % on_each);
    let mut mapping = format!("{full}Nx{on_each}P");
    if left > 0 {
        mapping.push_str(&format!("+1Nx{left}P"));
    }
    let mut levels = IndexMap::new();
    levels.insert("app".to_owned(), case.name.clone());
    levels.insert("mapping".to_owned(), mapping);
    if !site.is_empty() {
        levels.insert("site".to_owned(), site);
    }
    if let Some(environ) = case.environ.as_ref().filter(|e| !e.is_empty()) {
        levels.insert("mpi".to_owned(), environ.clone());
    }
    levels
}

fn values(case: &Case) -> Vec<ImportedValue> {
    let value = |name: &str, value: f64, unit: &str| {
        let (unit, factor) = unit_of(unit).unwrap_or((Unit::One, 1.0));
        ImportedValue {
            name: name.to_owned(),
            value: value * factor,
            unit,
            labels: BTreeMap::new(),
        }
    };
    let mut values: Vec<ImportedValue> = case
        .time_run
        .filter(|time| time.is_finite() && *time > 0.0)
        .map(|time| value(names::WALL_S, time, "s"))
        .into_iter()
        .collect();
    values.extend(
        case.perfvars
            .iter()
            .flatten()
            .map(|v| value(&v.name, v.value, &v.unit)),
    );
    // `system:partition:variable` = [value, reference, lower, upper, unit]
    values.extend(case.perfvalues.iter().filter_map(|(name, cells)| {
        let number = cells.first()?.as_f64()?;
        let unit = cells.get(4).and_then(Value::as_str).unwrap_or("");
        Some(value(name.rsplit(':').next()?, number, unit))
    }));
    values.retain(|v| v.value.is_finite());
    values
}
