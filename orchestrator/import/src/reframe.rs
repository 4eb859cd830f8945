//! Reads the JSON report of ReFrame (`reframe --report-file`): each passed test case is a run, and its performance variables are figures of merit.
//!
//! | what | reports of ReFrame up to 4.6 | from 4.7 |
//! | --- | --- | --- |
//! | tasks | `check_vars` | in the test case |
//! | parameters | `display_name`, `check_params` | `display_name` |
//! | figures | list `perfvars` | `perfvalues` by `system:partition:variable` |
//! | system | `system:partition` | `system`, `partition` |
//! | nodes | `nodelist` | `job_nodelist` |

use crate::{
    draft::{Draft, Found, number_of, text_of},
    error::ImportError,
    run::spread,
};
use cvc_core::record::names;
use serde_json::Value;

/// Word for a test case in messages.
const CASE: &str = "test case";

pub(crate) fn read(report: &Value, found: &mut Found<'_>) -> Result<(), ImportError> {
    for run in report["runs"].as_array().into_iter().flatten() {
        let Some(cases) = run.get("testcases").and_then(Value::as_array) else {
            return Err(found.wrong("ReFrame", "a run has no list `testcases`"));
        };
        for case in cases {
            let result = text_of(&case["result"]);
            if matches!(result.as_str(), "pass" | "success") {
                read_case(case, found)?;
            } else {
                found.remark(CASE, format!("left out: result `{result}`"));
            }
        }
    }
    Ok(())
}

/// Returns a value of a test case; its place depends on the version of ReFrame.
fn field<'c>(case: &'c Value, name: &str) -> Option<&'c Value> {
    [case, &case["check_vars"], &case["check_params"]]
        .into_iter()
        .find_map(|holder| holder.get(name).filter(|value| !value.is_null()))
}

fn read_case(case: &Value, found: &mut Found<'_>) -> Result<(), ImportError> {
    let mut draft = Draft::default();
    let name = [&case["display_name"], &case["name"]]
        .map(text_of)
        .into_iter()
        .find(|name| !name.is_empty());
    let Some(name) = name else {
        return Err(found.wrong("ReFrame", "a test case has no name"));
    };
    let mut parts = name.split(" %");
    draft.set("app", parts.next().unwrap_or(&name));
    let params: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    match case["check_params"].as_object() {
        Some(values) if params.is_empty() => {
            values
                .iter()
                .for_each(|(name, value)| draft.set_free(name, value));
        }
        Some(_) | None => {
            for (name, value) in params {
                draft.set_free(name, &Value::from(value));
            }
        }
    }
    let system = [
        &case["system"],
        field(case, "partition").unwrap_or(&Value::Null),
    ]
    .map(text_of);
    draft.set("site", system.join(":").trim_matches(':'));
    let environ = field(case, "environ").or(field(case, "environment"));
    draft.set("mpi", environ.map(text_of).unwrap_or_default());
    let nodes = case
        .get("job_nodelist")
        .or(case.get("nodelist"))
        .filter(|list| !list.is_null());
    draft.set("mapping", mapping(case, nodes, found));
    if let Some(nodes) = nodes {
        draft
            .facts
            .insert("imported.nodes".to_owned(), nodes.to_string());
    }
    if let Some(time) = case
        .get("time_run")
        .filter(|time| number_of(time).is_some_and(|t| t > 0.0))
    {
        found.add(&mut draft, names::WALL_S, Some(time), "s");
    }
    for variable in case["perfvars"].as_array().into_iter().flatten() {
        let (name, unit) = (text_of(&variable["name"]), text_of(&variable["unit"]));
        found.add(&mut draft, &name, variable.get("value"), &unit);
    }
    // [value, reference, lower, upper, unit, result]
    for (name, cells) in case["perfvalues"].as_object().into_iter().flatten() {
        let name = name.rsplit(':').next().unwrap_or(name);
        found.add(&mut draft, name, cells.get(0), &text_of(&cells[4]));
    }
    found.finish(CASE, draft)
}

/// Returns the mapping of a test case's tasks to nodes.
fn mapping(case: &Value, nodes: Option<&Value>, found: &mut Found<'_>) -> String {
    let count = |name: &str| -> Option<u32> {
        let count = field(case, name)?.as_u64()?;
        u32::try_from(count).ok().filter(|count| *count > 0)
    };
    let nodes = nodes.and_then(Value::as_array).map_or(0, Vec::len);
    match (count("num_tasks"), count("num_tasks_per_node")) {
        (Some(tasks), Some(on_each)) => {
            let on_each = on_each.min(tasks);
            let (full, left) = (tasks / on_each, tasks % on_each);
            match left {
                0 => format!("{full}Nx{on_each}P"),
                _ => format!("{full}Nx{on_each}P+1Nx{left}P"),
            }
        }
        (Some(tasks), None) => {
            if nodes == 0 && tasks > 1 {
                found.remark(
                    CASE,
                    "without tasks per node and nodes: all tasks assumed on one node",
                );
            }
            spread(tasks, u32::try_from(nodes).unwrap_or(1))
        }
        (None, _) => {
            found.remark(
                CASE,
                "without `num_tasks`: assumed one task on one node (1Nx1P)",
            );
            "1Nx1P".to_owned()
        }
    }
}
