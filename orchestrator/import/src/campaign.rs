//! Writes imported runs as the directory of a campaign: a plan, a journal and sealed runs in the usual format, which all commands can read.

use crate::{error::ImportError, run::ImportedRun};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    ids::{PointId, RunId},
    outcome::Outcome,
    plan::{self, Plan, PlannedRun},
    point::{PlannedPoint, Point, Repeat},
    record::{Record, Source},
    store::{
        CampaignDir, OUTCOME, OutcomeFile, StoreError, exchange, own_prefix, remove_abandoned,
        remove_all, write_manifest, write_whole,
    },
};
use cvc_journal::{Event, Journal};
use indexmap::IndexMap;
use serde::Serialize;
use std::{collections::BTreeMap, fs};

/// An imported campaign.
#[derive(Debug)]
pub struct Imported {
    /// Directory of the campaign.
    pub dir: Utf8PathBuf,
    /// Number of points.
    pub points: usize,
    /// Number of runs.
    pub runs: usize,
}

/// Prefix of the names of temporary directories.
const TEMPORARY: &str = "import";

/// Name of the file that marks an imported campaign, and records its origin.
const MARK: &str = "import.json";

/// Writes a campaign with these runs, imported from `from`. The directory appears complete or not at all. With `replace`, it replaces an earlier
/// import, but no other campaign.
///
/// # Errors
/// The name is invalid or in use, or files cannot be written.
pub fn write_campaign(
    campaigns: &Utf8Path,
    name: &str,
    from: &Utf8Path,
    runs: &[ImportedRun],
    replace: bool,
) -> Result<Imported, ImportError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !begins || name.len() > 64 || !name.chars().all(fits) {
        return Err(ImportError::Name {
            name: name.to_owned(),
        });
    }
    let dir = campaigns.join(name);
    let old = campaigns.join(format!(".replaced-{name}"));
    if !dir.exists() && old.join(MARK).is_file() {
        // an earlier command was killed between the two renames
        fs::rename(&old, &dir).map_err(StoreError::io("rename to", &dir))?;
    }
    let is_replaced = replace && dir.join(MARK).is_file();
    if dir.exists() && !is_replaced {
        return Err(ImportError::Exists { dir });
    }
    fs::create_dir_all(campaigns).map_err(StoreError::io("create", campaigns))?;
    remove_abandoned(campaigns, TEMPORARY);
    let failed = |e| StoreError::io("create a directory in", campaigns)(e);
    let made = tempfile::Builder::new()
        .prefix(&own_prefix(TEMPORARY).map_err(failed)?)
        .tempdir_in(campaigns)
        .map_err(failed)?;
    let root = Utf8PathBuf::from(made.path().to_string_lossy().into_owned());
    let (plan, of_runs) = planned(name, runs);
    write(&CampaignDir::at(&root), &plan, &of_runs)?;
    let mark = root.join(MARK);
    let origin = BTreeMap::from([("file", from.as_str()), ("cvc", env!("CARGO_PKG_VERSION"))]);
    write_whole(&mark, &json(&origin, &mark)?)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&root, mode).map_err(StoreError::io("set the permissions of", &root))?;
    if is_replaced && exchange(root.as_std_path(), dir.as_std_path()).is_ok() {
        // the temporary directory, which is removed here, now contains the earlier import
        made.close().map_err(StoreError::io("remove", &root))?;
    } else {
        if is_replaced {
            remove_all(&old)?;
            fs::rename(&dir, &old).map_err(StoreError::io("rename to", &old))?;
        }
        fs::rename(&root, &dir).map_err(StoreError::io("rename to", &dir))?;
        // fails because the directory was renamed
        let _ = made.keep();
        remove_all(&old)?;
    }
    Ok(Imported {
        dir,
        points: plan.points.len(),
        runs: plan.runs.len(),
    })
}

/// Returns the plan, and for each planned run the imported run. Runs with equal points are repeats, in the order of the file.
fn planned<'r>(name: &str, runs: &'r [ImportedRun]) -> (Plan, Vec<&'r ImportedRun>) {
    let mut points: IndexMap<PointId, (&Point, u32)> = IndexMap::new();
    let (mut planned, mut of_runs) = (Vec::new(), Vec::new());
    for run in runs {
        // serialisation into memory does not fail
        let id = PointId::of(&serde_json::to_vec(&run.point).unwrap_or_default());
        let (_, repeats) = points.entry(id.clone()).or_insert((&run.point, 0));
        *repeats += 1;
        planned.push(PlannedRun {
            id: RunId::of(format!("{name} {id} {repeats}").as_bytes()),
            point: id,
            repeat: Repeat::Measured(*repeats),
            block: None,
        });
        of_runs.push(run);
    }
    let plan = Plan {
        schema: plan::SCHEMA,
        campaign: name.to_owned(),
        seed: 0,
        points: points
            .into_iter()
            .map(|(id, (point, _))| PlannedPoint {
                id,
                point: point.clone(),
                baseline: false,
                expected_failure: None,
            })
            .collect(),
        runs: planned,
        excluded: Vec::new(),
        predict: None,
    };
    (plan, of_runs)
}

fn write(dir: &CampaignDir, plan: &Plan, runs: &[&ImportedRun]) -> Result<(), ImportError> {
    let text = json(plan, &dir.plan())?;
    write_whole(&dir.plan(), &text)?;
    let mut journal = Journal::open(&dir.journal(), &plan.campaign, |_| Ok(()))?;
    journal.append_unsynced(Event::Started {
        plan: blake3::hash(&text).to_hex()[..16].to_owned(),
        runs: plan.runs.len() as u64,
        pid: std::process::id(),
        cvc: env!("CARGO_PKG_VERSION").to_owned(),
    })?;
    for (planned, run) in plan.runs.iter().zip(runs) {
        journal.append_unsynced(Event::RunIntended {
            run: planned.id.clone(),
            attempt: 1,
            nodes: Default::default(),
        })?;
        let file = write_run(dir, &planned.id, run)?;
        journal.append_unsynced(Event::finished(planned.id.clone(), file))?;
    }
    journal.append(Event::Completed {
        succeeded: plan.runs.len() as u64,
        failed: 0,
    })?;
    Ok(())
}

/// Writes the directory of a run, and seals it.
fn write_run(dir: &CampaignDir, id: &RunId, run: &ImportedRun) -> Result<OutcomeFile, ImportError> {
    let place = dir.run(id);
    fs::create_dir_all(&place).map_err(StoreError::io("create", &place))?;
    let mut records = Vec::new();
    for value in &run.values {
        let record = Record {
            run: id.clone(),
            name: value.name.clone(),
            value: value.value,
            unit: value.unit,
            source: Source::Imported,
            artefact: None,
            labels: value.labels.clone(),
        };
        let path = place.join("records.jsonl");
        records.extend(json(&record, &path)?);
        records.push(b'\n');
    }
    let facts: BTreeMap<&str, &str> = run
        .facts
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    for (name, content) in [
        ("records.jsonl", records.clone()),
        ("facts.json", json(&facts, &place)?),
    ] {
        let path = place.join(name);
        fs::write(&path, content).map_err(StoreError::io("write", &path))?;
    }
    let file = OutcomeFile {
        attempt: 1,
        outcome: Outcome::Succeeded,
        records: Some(blake3::hash(&records).to_hex().to_string()),
        wall_s: 0.0,
        manifest: Some(write_manifest(&place, &[OUTCOME])?),
        kept: None,
    };
    let path = place.join(OUTCOME);
    fs::write(&path, json(&file, &path)?).map_err(StoreError::io("write", &path))?;
    Ok(file)
}

fn json(value: &impl Serialize, path: &Utf8Path) -> Result<Vec<u8>, ImportError> {
    serde_json::to_vec(value).map_err(|error| StoreError::io("write", path)(error.into()).into())
}
