//! Results of HPCAdvisor, Ramble and hyperfine.

use crate::{
    draft::{Draft, Found, number_of, text_of},
    error::ImportError,
    run::spread,
};
use cvc_core::record::names;
use serde_json::Value;

/// Returns a positive whole number, which may also be written as a string or as 4.0.
fn whole(value: Option<&Value>) -> Option<u32> {
    let number = number_of(value?)?;
    let is_whole = number >= 1.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0;
    is_whole.then_some(number as u32)
}

/// Reads `dataset.json` of HPCAdvisor: each data point is a run, and the instance type is the site.
pub(crate) fn hpcadvisor(data: &Value, found: &mut Found<'_>) -> Result<(), ImportError> {
    for point in data["datapoints"].as_array().into_iter().flatten() {
        let mut draft = Draft::default();
        let sku = text_of(&point["sku"]);
        draft.set("app", text_of(&point["appname"]));
        draft.set("site", sku.as_str());
        draft.facts.insert("instance.type".to_owned(), sku);
        let nodes = whole(point.get("nnodes")).unwrap_or(1);
        let cores = whole(point.get("total_cores"));
        let share = point.get("ppr_perc").and_then(number_of).unwrap_or(100.0);
        match cores {
            Some(cores) => {
                // HPCAdvisor computes the number of processes per node in this way
                let on_each = (f64::from(cores / nodes) * share / 100.0).floor().max(1.0) as u32;
                draft.set("mapping", format!("{nodes}Nx{on_each}P"));
            }
            None => {
                found.remark(
                    "data point",
                    "without `total_cores`: assumed one process on each node",
                );
                draft.set("mapping", format!("{nodes}Nx1P"));
            }
        }
        for (name, value) in point["appinputs"].as_object().into_iter().flatten() {
            draft.set_free(name, value);
        }
        for key in ["region", "deployment", "timestamp"] {
            draft
                .facts
                .insert(format!("hpcadvisor.{key}"), text_of(&point[key]));
        }
        draft.facts.retain(|_, fact| !fact.is_empty());
        match point.get("exec_time").and_then(number_of) {
            Some(time) if time > 0.0 => {
                found.add(&mut draft, names::WALL_S, point.get("exec_time"), "s")
            }
            Some(_) | None => found.remark("data point", "without an `exec_time` above 0"),
        }
        if point.get("appexectime").is_some() {
            found.add(&mut draft, "app_exec_s", point.get("appexectime"), "s");
        }
        for (name, value) in point["appmetrics"].as_object().into_iter().flatten() {
            match number_of(value) {
                Some(_) => found.add(&mut draft, name, Some(value), ""),
                None => {
                    draft
                        .facts
                        .insert(format!("hpcadvisor.{name}"), text_of(value));
                }
            }
        }
        let usage: Vec<f64> = point["cpu_usage"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(number_of)
            .collect();
        if !usage.is_empty() {
            let mean = usage.iter().sum::<f64>() / usage.len() as f64;
            found.add(
                &mut draft,
                "cpu_usage_share",
                Some(&Value::from(mean / 100.0)),
                "1",
            );
        }
        found.finish("data point", draft)?;
    }
    Ok(())
}

/// Reads `results.latest.json` of Ramble: each successful experiment is a run. Summaries of repeats are omitted, because the file also contains each
/// repeat as an experiment.
pub(crate) fn ramble(data: &Value, found: &mut Found<'_>) -> Result<(), ImportError> {
    const EXPERIMENT: &str = "experiment";
    for experiment in data["experiments"].as_array().into_iter().flatten() {
        let variables = [experiment, &experiment["RAMBLE_VARIABLES"]];
        let variable = |name: &str| {
            variables
                .into_iter()
                .find_map(|holder| holder.get(name).filter(|value| !value.is_null()))
        };
        let status = text_of(&experiment["RAMBLE_STATUS"]);
        if status != "SUCCESS" {
            found.remark(EXPERIMENT, format!("left out: status `{status}`"));
            continue;
        }
        if experiment
            .get("N_REPEATS")
            .and_then(number_of)
            .is_some_and(|repeats| repeats > 0.0)
        {
            found.remark(EXPERIMENT, "left out: a summary of repeats");
            continue;
        }
        let Some(name) = experiment
            .get("name")
            .map(text_of)
            .filter(|name| !name.is_empty())
        else {
            return Err(found.wrong("Ramble", "an experiment has no name"));
        };
        let mut draft = Draft::default();
        let app = variable("application_name").map(text_of);
        draft.set(
            "app",
            app.unwrap_or_else(|| name.split('.').next().unwrap_or(&name).to_owned()),
        );
        if let Some(workload) = variable("workload_name") {
            draft.set_free("workload", workload);
        }
        // the repeats of `app.workload.name` are `app.workload.name.1`, `app.workload.name.2`
        let repeat = variable("repeat_index")
            .map(text_of)
            .filter(|index| index != "0");
        let base =
            repeat.and_then(|index| name.strip_suffix(&format!(".{index}")).map(str::to_owned));
        draft.set_free("experiment", &Value::from(base.unwrap_or(name)));
        if let Some(threads) = whole(variable("n_threads")).filter(|threads| *threads != 1) {
            draft.set("threads", threads.to_string());
        }
        let [nodes, on_each, ranks] =
            ["n_nodes", "processes_per_node", "n_ranks"].map(|key| whole(variable(key)));
        draft.set(
            "mapping",
            match (nodes, on_each, ranks) {
                (Some(nodes), Some(on_each), ranks)
                    if ranks.is_none_or(|ranks| {
                        u64::from(ranks) == u64::from(nodes) * u64::from(on_each)
                    }) =>
                {
                    format!("{nodes}Nx{on_each}P")
                }
                (nodes, _, Some(ranks)) => spread(ranks, nodes.unwrap_or(1)),
                (nodes, on_each, None) => {
                    found.remark(
                        EXPERIMENT,
                        "without `n_ranks`: unknown numbers assumed to be 1",
                    );
                    format!("{}Nx{}P", nodes.unwrap_or(1), on_each.unwrap_or(1))
                }
            },
        );
        for context in experiment["CONTEXTS"].as_array().into_iter().flatten() {
            let shown = [&context["display_name"], &context["name"]].map(text_of);
            let shown = shown
                .into_iter()
                .find(|name| !name.is_empty() && name != "null");
            for figure in context["foms"].as_array().into_iter().flatten() {
                let (name, unit) = (text_of(&figure["name"]), text_of(&figure["units"]));
                if number_of(&figure["value"]).is_none() {
                    found.remark(
                        "figure of merit",
                        format!("kept as a fact: `{name}` is a text"),
                    );
                    draft
                        .facts
                        .insert(format!("ramble.{name}"), text_of(&figure["value"]));
                    continue;
                }
                let name = match (&shown, figure["origin_type"].as_str()) {
                    // a figure at several message sizes becomes several figures
                    (Some(context), _) => format!("{name} ({context})"),
                    (None, Some("modifier")) => format!("{}::{name}", text_of(&figure["origin"])),
                    (None, _) => name,
                };
                found.add(&mut draft, &name, figure.get("value"), &unit);
            }
        }
        found.finish(EXPERIMENT, draft)?;
    }
    Ok(())
}

/// Reads an export of hyperfine (`--export-json`): each time of a command is a run.
pub(crate) fn hyperfine(data: &Value, found: &mut Found<'_>) -> Result<(), ImportError> {
    for result in data["results"].as_array().into_iter().flatten() {
        let (Some(command), Some(times)) = (result["command"].as_str(), result["times"].as_array())
        else {
            return Err(found.wrong("hyperfine", "a result has no `command` or no list `times`"));
        };
        for (at, time) in times.iter().enumerate() {
            if let Some(code) = result["exit_codes"]
                .get(at)
                .filter(|code| code.as_i64() != Some(0))
            {
                let how = match code.as_i64() {
                    Some(code) => format!("exit code {code}"),
                    None => "terminated by a signal".to_owned(),
                };
                found.remark("run", format!("left out: {how}"));
                continue;
            }
            let mut draft = Draft::default();
            draft.set("app", command);
            for (name, value) in result["parameters"].as_object().into_iter().flatten() {
                draft.set_free(name, value);
            }
            found.add(&mut draft, names::WALL_S, Some(time), "s");
            if let Some(bytes) = result["memory_usage_byte"]
                .get(at)
                .filter(|bytes| !bytes.is_null())
            {
                found.add(&mut draft, names::MAX_RSS_BYTES, Some(bytes), "bytes");
            }
            found.finish("run", draft)?;
        }
        found.remark(
            "command",
            "without user and system times, which are means over its runs",
        );
    }
    Ok(())
}
