//! Exports a campaign as a Process Run Crate 0.5 (<https://w3id.org/ro/wfrun/process/0.5>), which is an RO-Crate 1.1. Each finished run is an
//! action of a program, with its factors as inputs and its record files as results.

mod entity;
mod software;

use crate::{
    error::ExportError,
    package, tables,
    target::{Exported, copy_summed, json, make},
};
use camino::Utf8Path;
use cvc_core::store::{CampaignDir, StoreError, regular, write_whole};
use cvc_index::RunOutcome;
use cvc_index::{Index, IndexedRun, factors::texts};
use entity::{fragment, to};
use serde_json::{Value, json};
use software::SoftwareEntity;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
};

/// Identifier of the profile.
const PROFILE: &str = "https://w3id.org/ro/wfrun/process/0.5";
/// Identifier of the RO-Crate specification.
const SPECIFICATION: &str = "https://w3id.org/ro/crate/1.1";
/// Name of the metadata file.
const METADATA: &str = "ro-crate-metadata.json";

/// Facts that the user gives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Description<'d> {
    /// The person who made the runs; `None`: not named.
    pub agent: Option<&'d str>,
    /// URL of the licence.
    pub licence: Option<&'d str>,
}

/// Writes a campaign as a Process Run Crate. Files are copied unchanged, including any names of hosts and users in them.
///
/// # Errors
/// The target exists and may not be replaced, the index or a file of the campaign cannot be read, or a file cannot be written.
pub fn export_ro_crate(
    campaign: &CampaignDir,
    index: &Index,
    description: Description<'_>,
    dir: &Utf8Path,
    replace: bool,
) -> Result<Exported, ExportError> {
    make(dir, replace, |dir| {
        let mut made = Crate::default();
        made.fill(campaign, index, description, dir)?;
        let path = dir.join(METADATA);
        let document = json!({
            "@context": [
                "https://w3id.org/ro/crate/1.1/context",
                { "sha256": "https://w3id.org/ro/terms/workflow-run#sha256" },
            ],
            "@graph": made.graph,
        });
        write_whole(&path, &json(&document, &path)?)?;
        Ok(())
    })
}

/// A crate that is being built.
#[derive(Default)]
struct Crate {
    graph: Vec<Value>,
    /// References to the files, for `hasPart` of the root.
    parts: Vec<Value>,
    /// References to the actions, for `mentions` of the root.
    actions: Vec<Value>,
}

impl Crate {
    fn fill(
        &mut self,
        campaign: &CampaignDir,
        index: &Index,
        description: Description<'_>,
        dir: &Utf8Path,
    ) -> Result<(), ExportError> {
        let meta = index.meta()?;
        let name = meta.get("title").or(meta.get("campaign"));
        let name = name.map_or("campaign", String::as_str);
        for (file, what) in [
            ("campaign.toml", "the campaign file"),
            ("plan.json", "the plan derived from it: points and runs"),
            (
                "journal.jsonl",
                "actions with their times, which determine the state of every run",
            ),
            ("cvc.lock", "the software of the sites"),
        ] {
            self.copy(&campaign.root().join(file), dir, file, what)?;
        }
        let below = dir.join("tables");
        fs::create_dir(&below).map_err(StoreError::io("create", &below))?;
        for file in tables::write(index, &below)? {
            let what = match file.strip_suffix(".csv") {
                Some(table) => format!("table of {table}; {} describes it", package::PACKAGE),
                None => "schema of the tables (Frictionless Data Package)".to_owned(),
            };
            let path = below.join(&file);
            let mut read = File::open(&path).map_err(StoreError::io("read", &path))?;
            let (bytes, digest) =
                copy_summed(&mut read, &mut io::sink()).map_err(StoreError::io("read", &path))?;
            self.add_file(&format!("tables/{file}"), &what, bytes, &digest);
        }
        self.add_runs(campaign, index, description, dir)?;
        self.finish(name, &meta, description);
        Ok(())
    }

    /// Adds the actions and the entities that they refer to.
    fn add_runs(
        &mut self,
        campaign: &CampaignDir,
        index: &Index,
        description: Description<'_>,
        dir: &Utf8Path,
    ) -> Result<(), ExportError> {
        let mut software = SoftwareEntity::read(index)?;
        let mut points = BTreeMap::new();
        for planned in index.points_and_baselines()? {
            let inputs: Vec<(String, Value)> = texts(&planned.point)
                .into_iter()
                .map(|(factor, level)| {
                    (
                        // names of factors may contain any characters
                        format!("#point-{}-{}", planned.id, fragment(&factor)),
                        json!({ "name": factor, "value": level }),
                    )
                })
                .collect();
            points.insert(planned.id.to_string(), (planned.point, inputs, false));
        }
        for run in index.runs()?.iter().filter(|run| is_made(run)) {
            let Some((point, inputs, is_described)) = points.get_mut(run.point.as_str()) else {
                continue;
            };
            if !std::mem::replace(is_described, true) {
                for (id, value) in &*inputs {
                    let mut entity = json!({ "@id": id, "@type": "PropertyValue" });
                    entity["name"] = value["name"].clone();
                    entity["value"] = value["value"].clone();
                    self.graph.push(entity);
                }
            }
            let objects: Vec<Value> = inputs.iter().map(|(id, _)| to(id)).collect();
            let instrument = software.instrument(&run.id, point, &mut self.graph);
            let results = self.results(campaign, run, dir)?;
            self.action(run, &objects, &instrument, &results, description);
        }
        Ok(())
    }

    /// Adds the record files of a run and returns references to them.
    fn results(
        &mut self,
        campaign: &CampaignDir,
        run: &IndexedRun,
        dir: &Utf8Path,
    ) -> Result<Vec<Value>, ExportError> {
        let Some(place) = &run.dir else {
            return Ok(Vec::new());
        };
        let below = dir.join("runs").join(&run.id);
        let mut results = Vec::new();
        for (name, what) in [
            ("records.jsonl", "measurements of run RUN"),
            ("facts.json", "versions and environment of run RUN"),
        ] {
            let from = campaign.root().join(place).join(name);
            if fs::symlink_metadata(&from).is_err() {
                continue;
            }
            fs::create_dir_all(&below).map_err(StoreError::io("create", &below))?;
            let id = format!("runs/{}/{name}", run.id);
            if self.copy(&from, dir, &id, &what.replace("RUN", &run.id))? {
                results.push(to(&id));
            }
        }
        Ok(results)
    }

    fn action(
        &mut self,
        run: &IndexedRun,
        objects: &[Value],
        instrument: &str,
        results: &[Value],
        description: Description<'_>,
    ) {
        let kind = if run.warmup { "warm-up" } else { "repeat" };
        let has_succeeded = run.state == RunOutcome::Succeeded;
        let status = if has_succeeded {
            "CompletedActionStatus"
        } else {
            "FailedActionStatus"
        };
        let id = format!("#run-{}", run.id);
        let mut action = json!({
            "@id": id,
            "@type": "CreateAction",
            "name": format!("Run {}: {kind} {} of point {}", run.id, run.repeat, run.point),
            "description": format!("State {}, attempts {}.", run.state, run.attempts),
            "instrument": to(instrument),
            "object": objects,
            "result": results,
            "actionStatus": format!("http://schema.org/{status}"),
        });
        if let Some(started) = &run.started {
            action["startTime"] = json!(started);
        }
        if let Some(ended) = &run.ended {
            action["endTime"] = json!(ended);
        }
        if !has_succeeded {
            let reasons: Vec<&str> = [&run.cause, &run.detail]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            let error = if reasons.is_empty() {
                run.state.to_string()
            } else {
                reasons.join(": ")
            };
            action["error"] = json!(error);
        }
        if description.agent.is_some() {
            action["agent"] = to(AGENT);
        }
        self.actions.push(to(&id));
        self.graph.push(action);
    }

    /// Adds the root, the descriptor, and the entities that they refer to.
    fn finish(
        &mut self,
        name: &str,
        meta: &BTreeMap<String, String>,
        description: Description<'_>,
    ) {
        let runs = self.actions.len();
        let mut root = json!({
            "@id": "./",
            "@type": "Dataset",
            "name": name,
            "description": format!("Campaign of cvc: {runs} runs, their records, and the tables that follow from them."),
            "conformsTo": to(PROFILE),
            "hasPart": self.parts,
            "mentions": self.actions,
        });
        // the date of the results, not of the export
        if let Some(date) = meta.get("last_entry") {
            root["datePublished"] = json!(date);
        }
        // a licence is mandatory, but it may be a text
        root["license"] = description.licence.map_or_else(|| json!(NO_LICENCE), to);
        if let Some(licence) = description.licence {
            self.graph.push(json!({
                "@id": licence,
                "@type": "CreativeWork",
                "name": licence,
                "description": "The licence of this crate.",
                "url": licence,
            }));
        }
        if let Some(agent) = description.agent {
            self.graph
                .push(json!({ "@id": AGENT, "@type": "Person", "name": agent }));
        }
        let descriptor = json!({
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": to("./"),
            "conformsTo": to(SPECIFICATION),
        });
        let profile = json!({
            "@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5",
        });
        self.graph.splice(0..0, [descriptor, root, profile]);
    }

    /// Copies a file of the campaign, if it exists.
    fn copy(
        &mut self,
        from: &Utf8Path,
        dir: &Utf8Path,
        id: &str,
        what: &str,
    ) -> Result<bool, ExportError> {
        let mut read = match regular::open(from.as_std_path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(StoreError::io("read", from)(error).into()),
        };
        let path = dir.join(id);
        let mut file = File::create(&path).map_err(StoreError::io("create", &path))?;
        let (bytes, digest) =
            copy_summed(&mut read, &mut file).map_err(StoreError::io("write", &path))?;
        self.add_file(id, what, bytes, &digest);
        Ok(true)
    }

    fn add_file(&mut self, id: &str, what: &str, bytes: u64, digest: &str) {
        let format = match Utf8Path::new(id).extension() {
            Some("csv") => "text/csv",
            Some("json") => "application/json",
            Some("jsonl") => "application/jsonl",
            Some("toml" | "lock") => "application/toml",
            _ => "application/octet-stream",
        };
        self.parts.push(to(id));
        self.graph.push(json!({
            "@id": id,
            "@type": "File",
            "name": id,
            "description": what,
            "encodingFormat": format,
            "contentSize": bytes.to_string(),
            "sha256": digest,
        }));
    }
}

/// Text for a missing licence.
const NO_LICENCE: &str = "No licence is stated: ask those who made the runs.";

/// Identifier of the person who made the runs.
const AGENT: &str = "#agent";

/// Returns whether the run has ended.
fn is_made(run: &IndexedRun) -> bool {
    run.state.is_over()
}
