//! `ARTIFACT.md`: the facts about an artefact that systems conferences require, from the records of the campaign.

use crate::error::ExportError;
use cvc_core::point::CheckpointerKind;
use cvc_core::units::{counted, dollars, duration};
use cvc_index::RunOutcome;
use cvc_index::{Index, IndexedRun, factors::texts};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Facts that the index lacks.
pub(super) struct ArtifactFacts {
    /// Total duration of all attempts, seconds; the next field is their number.
    pub(super) attempts_s: f64,
    pub(super) attempts: usize,
    /// Number of attempts that were interrupted.
    pub(super) cut_off: usize,
    /// Files of the campaign that the bag contains.
    pub(super) files: Vec<&'static str>,
    /// Whether the bag contains a report.
    pub(super) has_report: bool,
    pub(super) keeps_names: bool,
}

/// Name of the campaign file; imported campaigns have none.
const CAMPAIGN_FILE: &str = "campaign.toml";

/// Facts about machines that are shown, each with its heading.
const MACHINE: [(&str, &str); 6] = [
    ("cpu", "processor"),
    ("cores", "cores"),
    ("memory", "memory"),
    ("kernel", "kernel"),
    ("os", "system"),
    ("glibc", "C library"),
];

pub(super) fn artifact_md(index: &Index, extra: &ArtifactFacts) -> Result<String, ExportError> {
    let meta = index.meta()?;
    let fact = |key: &str| meta.get(key).map_or("", String::as_str);
    let name = [fact("title"), fact("campaign"), "campaign"]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_default();
    let runs = index.runs()?;
    let mut out = format!("# Artefact: {}\n\n", plain(name));
    let _ = writeln!(
        out,
        "The record of a campaign of cvc {}, from {} to {}. This description is generated from the record.\n",
        plain(fact("cvc")),
        date(fact("first_entry")),
        date(fact("last_entry"))
    );
    measured(index, &runs, &mut out)?;
    machines(index, &runs, &mut out)?;
    effort(index, &runs, extra, &mut out)?;
    contents(extra, &mut out);
    again(fact("campaign"), fact("cvc"), extra, &mut out);
    Ok(out)
}

/// Describes points, factors and quantities.
fn measured(index: &Index, runs: &[IndexedRun], out: &mut String) -> Result<(), ExportError> {
    let points = index.points_and_baselines()?;
    let mut levels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for planned in &points {
        for (factor, level) in texts(&planned.point) {
            levels.entry(factor).or_default().insert(level);
        }
    }
    let _ = writeln!(
        out,
        "## What was measured\n\n{} of {}.\n\n| factor | levels |\n| --- | --- |",
        counted(runs.len(), "run"),
        counted(points.len(), "point")
    );
    for (factor, levels) in levels {
        let count = levels.len();
        let mut shown: Vec<String> = levels.into_iter().take(12).map(|l| plain(&l)).collect();
        if count > shown.len() {
            shown.push(format!("and {} more", count - shown.len()));
        }
        let _ = writeln!(out, "| {} | {} |", plain(&factor), shown.join(", "));
    }
    let mut quantities: BTreeMap<(String, String), usize> = BTreeMap::new();
    index.each_run_value(|value| {
        *quantities.entry((value.quantity, value.unit)).or_default() += 1;
    })?;
    out.push_str("\n| quantity | unit | runs with a value |\n| --- | --- | --- |\n");
    for ((quantity, unit), count) in quantities {
        let _ = writeln!(out, "| {} | {} | {count} |", plain(&quantity), plain(&unit));
    }
    out.push('\n');
    Ok(())
}

/// Describes hardware and software, by site.
fn machines(index: &Index, runs: &[IndexedRun], out: &mut String) -> Result<(), ExportError> {
    let site_of_point: BTreeMap<String, String> = index
        .points_and_baselines()?
        .into_iter()
        .map(|planned| (planned.id.to_string(), planned.point.site))
        .collect();
    let site_of_run: BTreeMap<&str, &str> = runs
        .iter()
        .filter_map(|run| {
            Some((
                run.id.as_str(),
                site_of_point.get(run.point.as_str())?.as_str(),
            ))
        })
        .collect();
    // by site, heading and value: the runs
    let mut found: BTreeMap<(String, String, String), BTreeSet<String>> = BTreeMap::new();
    let mut has_nodes = BTreeSet::new();
    index.each_fact(|fact| {
        let Some(site) = site_of_run.get(fact.run.as_str()) else {
            return;
        };
        let mut add = |heading: &str, value: String| {
            if !value.is_empty() && value != "null" {
                let at = ((*site).to_owned(), heading.to_owned(), value);
                found.entry(at).or_default().insert(fact.run.clone());
            }
        };
        let word = fact.key.strip_suffix(".version").unwrap_or(&fact.key);
        if let Some(driven) = CheckpointerKind::driven_of_word(word) {
            return add(driven.title, fact.value);
        }
        match fact.key.as_str() {
            "mpi" | "mpi.version" => add("MPI library", fact.value),
            "mpi.io_layer" => add("MPI-IO", fact.value),
            "instance.type" => add("instances", fact.value),
            "instance.zone" => add("zone", fact.value),
            "kernel" => add("kernel", fact.value),
            // a separate fact for each node of the run
            "nodes" => {
                let Ok(Value::Array(nodes)) = serde_json::from_str::<Value>(&fact.value) else {
                    return;
                };
                has_nodes.insert((*site).to_owned());
                for node in &nodes {
                    for (key, heading) in MACHINE {
                        add(&format!("nodes: {heading}"), text(&node[key]));
                    }
                    let memory = node["memory_bytes"].as_f64();
                    add(
                        "nodes: memory",
                        memory.map_or_else(String::new, |b| {
                            format!("{:.1} GiB", b / f64::from(1 << 30))
                        }),
                    );
                    add("nodes: storage", text(&node["storage"]));
                }
            }
            key => {
                let known = MACHINE
                    .iter()
                    .find(|(name, _)| key.strip_prefix("node.") == Some(name));
                if let Some((_, heading)) = known {
                    add(&format!("machine: {heading}"), fact.value);
                }
            }
        }
    })?;
    out.push_str(
        "## Machines and software\n\n| site | component | value | runs |\n| --- | --- | --- | --- |\n",
    );
    if found.is_empty() {
        out.push_str("| | nothing recorded | | |\n");
    }
    for ((site, heading, value), of) in found {
        // if there are facts about nodes, facts about the machine are only about the one that launched the ranks
        let heading = match heading.strip_prefix("machine: ") {
            Some(what) if has_nodes.contains(&site) => format!("head: {what}"),
            Some(what) => what.to_owned(),
            None => heading,
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            plain(&site),
            plain(&heading),
            plain(&value),
            of.len()
        );
    }
    out.push('\n');
    Ok(())
}

/// Describes runs, failures, time and cost.
fn effort(
    index: &Index,
    runs: &[IndexedRun],
    extra: &ArtifactFacts,
    out: &mut String,
) -> Result<(), ExportError> {
    let mut states: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for run in runs {
        let cause = match run.state {
            RunOutcome::Succeeded => "",
            _ => run.cause.as_deref().unwrap_or_default(),
        };
        *states.entry((run.state.as_str(), cause)).or_default() += 1;
    }
    out.push_str("## Runs, time and cost\n\n| state | cause | runs |\n| --- | --- | --- |\n");
    for ((state, cause), count) in states {
        let _ = writeln!(out, "| {} | {} | {count} |", plain(state), plain(cause));
    }
    let bad = runs.iter().filter(|run| run.records.is_unsound()).count();
    out.push('\n');
    if bad > 0 {
        let _ = writeln!(
            out,
            "- Records of {} are missing, damaged or changed.",
            counted(bad, "run")
        );
    }
    if extra.files.contains(&CAMPAIGN_FILE) {
        let _ = writeln!(
            out,
            "- Time: {} took {} in total; {} cut off.",
            counted(extra.attempts, "attempt"),
            duration(extra.attempts_s),
            match extra.cut_off {
                1 => "1 of them was".to_owned(),
                n => format!("{n} of them were"),
            }
        );
    } else {
        out.push_str("- Time: unknown, because the values were imported.\n");
    }
    let costs = index.run_costs()?;
    let (known, total) = sum(costs.iter().map(|cost| cost.usd));
    if costs.is_empty() {
        out.push_str("- Cost of the runs: unknown, because no site has a price.\n");
    } else {
        let _ = writeln!(
            out,
            "- Cost of the runs, by the price of their nodes: {} ({known} of {} with a known price).",
            dollars(total),
            counted(costs.len(), "run")
        );
    }
    let leases = index.leases()?;
    if !leases.is_empty() {
        let (known, total) = sum(leases.iter().map(|lease| lease.usd));
        let seconds: f64 = leases.iter().map(|lease| lease.instance_s).sum();
        let _ = writeln!(
            out,
            "- Instances of clouds, from their order to their end: {} for {} of instances ({known} of {} with a known price).",
            dollars(total),
            duration(seconds),
            counted(leases.len(), "order")
        );
    }
    let transfers = index.transfers()?;
    if !transfers.is_empty() {
        let (_, total) = sum(transfers.iter().map(|transfer| transfer.usd));
        let bytes: i64 = transfers.iter().map(|transfer| transfer.bytes).sum();
        let _ = writeln!(
            out,
            "- Fetched from clouds: {bytes} bytes, {} (known costs only).",
            dollars(total)
        );
    }
    out.push('\n');
    Ok(())
}

fn contents(extra: &ArtifactFacts, out: &mut String) {
    out.push_str("## Contents\n\n| file | contents |\n| --- | --- |\n");
    for file in &extra.files {
        let what = match *file {
            CAMPAIGN_FILE => "the campaign file",
            "cvc.lock" => "the software of the sites",
            "plan.json" => "the plan that follows from the campaign file",
            _ => "the journal: actions with their times",
        };
        let _ = writeln!(out, "| `data/{file}` | {what} |");
    }
    out.push_str(
        "| `data/runs/` | measurements of each run, with versions and environment |\n\
         | `data/tables/` | all results as CSV; `datapackage.json` describes the columns |\n",
    );
    if extra.has_report {
        out.push_str("| `data/report/` | the report |\n");
    }
    out.push_str("\nOutputs of the programs, checkpoints and traces are not included.\n\n");
    out.push_str(if extra.keeps_names {
        "Names of hosts and users are unchanged. Secrets are withheld.\n\n"
    } else {
        "Names of hosts, users, accounts, addresses and identifiers of a cloud are replaced, each by the same word everywhere: `host-1`, \
         `user-1`. Secrets are withheld.\n\n"
    });
}

fn again(campaign: &str, cvc: &str, extra: &ArtifactFacts, out: &mut String) {
    let name = crate::package::package_name(campaign);
    let _ = writeln!(
        out,
        "## Check and repeat\n\n\
         1. Check for damage: `sha256sum -c manifest-sha256.txt` in this directory, or `bagit.py --validate .` (bagit of PyPI).\n\
         2. Install cvc {}.\n\
         3. Report from this record: `mkdir -p campaigns && cp -r data campaigns/{name} && cvc report {name}`.",
        plain(cvc)
    );
    if extra.files.contains(&CAMPAIGN_FILE) {
        let _ = writeln!(
            out,
            "4. Measure again: copy `data/campaign.toml` and put your own machines in place of those in `[sites]`{}. `cvc doctor FILE` reports \
             missing software, `cvc plan FILE` the expected duration, `cvc run FILE` measures.\n\
             5. Compare: `cvc compare {name} YOURS`.",
            if extra.keeps_names {
                ""
            } else {
                " (`host-1` etc. are not real names)"
            }
        );
    } else {
        out.push_str("4. There is no campaign file: the values were imported, so cvc cannot measure them again.\n");
    }
}

/// Returns the number of known values and their sum.
fn sum(dollars: impl Iterator<Item = Option<f64>>) -> (usize, f64) {
    dollars
        .flatten()
        .fold((0, 0.0), |(known, total), usd| (known + 1, total + usd))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the date of a time.
fn date(time: &str) -> &str {
    let day = time.split('T').next().unwrap_or_default();
    if day.is_empty() {
        "an unknown day"
    } else {
        day
    }
}

/// Escapes untrusted text for a line or a table cell of Markdown.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' if c != '_' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
