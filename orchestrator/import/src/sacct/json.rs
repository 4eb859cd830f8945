//! Reads `sacct --json` of Slurm 20.11 to 24. Depending on the version, numbers are plain or objects with `set` and `infinite`, and states are
//! words or lists.

use super::{
    found::{AccountedJob, ClusterJobs},
    values::{MemoryOf, of_node},
};
use crate::error::ImportError;
use cvc_core::source::SourceText;
use serde_json::Value;
use std::collections::HashSet;

/// The bit that marks an amount of memory as per processor in Slurm before 23.02.
const OF_EACH_CPU: u64 = 1 << 63;

pub(super) fn read(source: &SourceText) -> Result<ClusterJobs, ImportError> {
    let value = crate::json::parse(source)?;
    let Some(jobs) = value.get("jobs").and_then(Value::as_array) else {
        return Err(source
            .error(
                None,
                "it has no list `jobs`".to_owned(),
                "use the complete output of sacct --json".to_owned(),
            )
            .into());
    };
    let mut found = ClusterJobs::default();
    let mut seen = HashSet::new();
    for job in jobs {
        found.steps += job
            .get("steps")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        match row(job) {
            Some(row) => found.add(row, &mut seen),
            None => found.leave_out("without a number"),
        }
    }
    Ok(found)
}

/// Returns a number, either plain or as `{"set": true, "infinite": false, "number": 4}`.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Object(fields) => {
            let flag = |key: &str| fields.get(key).and_then(Value::as_bool);
            if flag("set") == Some(false) || flag("infinite") == Some(true) {
                return None;
            }
            fields.get("number").and_then(Value::as_f64)
        }
        Value::String(text) => text.parse().ok(),
        _ => value.as_f64(),
    }
    .filter(|number| number.is_finite() && *number >= 0.0)
}

fn whole(value: Option<f64>) -> Option<u32> {
    value
        .filter(|v| v.fract() == 0.0 && *v <= f64::from(u32::MAX))
        .map(|v| v as u32)
}

fn at<'v>(job: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(job, |value, key| value.get(key))
}

fn row(job: &Value) -> Option<AccountedJob> {
    let of = |path: &[&str]| at(job, path).and_then(number);
    let tres = |kind: &str, name: &str| {
        ["allocated", "requested"].iter().find_map(|list| {
            let entries = at(job, &["tres", list])?.as_array()?;
            let entry = entries.iter().find(|e| {
                let text = |key: &str| e.get(key).and_then(Value::as_str).unwrap_or_default();
                text("type") == kind
                    && (text("name") == name || !name.is_empty() && text("name").starts_with(name))
            })?;
            number(entry.get("count")?).filter(|count| *count > 0.0)
        })
    };
    let nodes = whole(
        of(&["allocation_nodes"])
            .filter(|n| *n > 0.0)
            .or_else(|| tres("node", "")),
    );
    let cpus = whole(tres("cpu", "").or_else(|| of(&["required", "CPUs"])));
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
    Some(AccountedJob {
        id: id(job)?,
        name: text("name").to_owned(),
        state: state(job),
        nodes,
        cpus,
        gpus: whole(tres("gres", "gpu")).unwrap_or(0),
        memory_mib: tres("mem", "")
            .map(|mib| of_node(mib, MemoryOf::Job, nodes, cpus))
            .or_else(|| requested_memory(job, nodes, cpus)),
        elapsed_s: of(&["time", "elapsed"]),
        attempt: format!(
            "{:?} {:?}",
            of(&["time", "start"]),
            of(&["time", "submission"])
        ),
    })
}

/// Returns the requested memory of one node, MiB.
fn requested_memory(job: &Value, nodes: Option<u32>, cpus: Option<u32>) -> Option<f64> {
    let of = |key: &str| at(job, &["required", key]);
    let some = |key: &str| of(key).and_then(number).filter(|mib| *mib > 0.0);
    if let Some(mib) = some("memory_per_node") {
        return Some(mib);
    }
    if let Some(mib) = some("memory_per_cpu") {
        return Some(of_node(mib, MemoryOf::Cpu, nodes, cpus));
    }
    let raw = of("memory")?.as_u64()?;
    Some(match raw & OF_EACH_CPU {
        0 => raw as f64,
        _ => of_node((raw & !OF_EACH_CPU) as f64, MemoryOf::Cpu, nodes, cpus),
    })
}

/// Returns the job number: `12`, `12_3` in an array, `12+1` in a heterogeneous job.
fn id(job: &Value) -> Option<String> {
    let of = |path: &[&str]| whole(at(job, path).and_then(number));
    let part = |of_whole: &[&str], of_part: &[&str]| {
        Some((of(of_whole).filter(|id| *id > 0)?, of(of_part)?))
    };
    if let Some((array, task)) = part(&["array", "job_id"], &["array", "task_id"]) {
        return Some(format!("{array}_{task}"));
    }
    if let Some((whole, offset)) = part(&["het", "job_id"], &["het", "job_offset"]) {
        return Some(format!("{whole}+{offset}"));
    }
    of(&["job_id"]).map(|id| id.to_string())
}

/// Returns the state: a word, or the first word of a list.
fn state(job: &Value) -> String {
    let state = at(job, &["state", "current"]).or_else(|| job.get("state"));
    let word = match state {
        Some(Value::Array(words)) => words.first(),
        other => other,
    };
    word.and_then(Value::as_str).unwrap_or_default().to_owned()
}
