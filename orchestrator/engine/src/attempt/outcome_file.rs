//! Writes the file that records how a run ended, and renames the run's directory to its final name.

use super::executed::{Executed, failed};
use crate::run::RunFailure;
use cvc_core::ids::{RunId, short_digest};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::{
    CampaignDir, OUTCOME, OutcomeFile, StoreError, put_aside, remove_all, write_manifest,
};
use cvc_os::disk;
use std::fs;

/// Writes the outcome file into the run's directory.
pub(super) fn conclude(
    dir: &CampaignDir,
    run: &RunId,
    attempt: u32,
    executed: &Executed,
) -> Result<OutcomeFile, StoreError> {
    let partial = dir.partial(run);
    make_partial(dir, run)?;
    let mut text = Vec::new();
    for record in &executed.records {
        // JSON cannot represent such numbers, and one unreadable record would make all unreadable
        if !record.value.is_finite() {
            tracing::warn!(%run, name = record.name, value = record.value, "a record is omitted because it is not finite");
            continue;
        }
        serde_json::to_writer(&mut text, record)
            .map_err(|e| StoreError::damaged(&partial, 0, e.to_string()))?;
        text.push(b'\n');
    }
    let digest = short_digest(&text);
    let put = |name: &str, bytes: &[u8]| {
        let path = partial.join(name);
        let write = || {
            disk::write_all(
                &format!("{name}.write"),
                &mut fs::File::create(&path)?,
                bytes,
            )
        };
        write().map_err(StoreError::io("write", &path))
    };
    put("records.jsonl", &text)?;
    put(
        "facts.json",
        &serde_json::to_vec_pretty(&executed.facts).unwrap_or_default(),
    )?;
    let records = (executed.outcome == Outcome::Succeeded).then_some(digest);
    let manifest = Some(write_manifest(&partial, &[OUTCOME])?);
    let file = OutcomeFile {
        attempt,
        outcome: executed.outcome.clone(),
        records,
        wall_s: executed.wall_s,
        manifest,
        kept: executed.kept.clone(),
    };
    put(
        OUTCOME,
        &serde_json::to_vec_pretty(&file).unwrap_or_default(),
    )?;
    Ok(file)
}

/// Creates the directory of a running attempt, unless it exists. If the campaign was moved meanwhile, nothing is created at its old path.
///
/// # Errors
/// The system refuses, or the campaign's directory no longer exists.
pub(super) fn make_partial(dir: &CampaignDir, run: &RunId) -> Result<(), StoreError> {
    let partial = dir.partial(run);
    match fs::create_dir(&partial) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::io("make", &partial)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Creates the final directory of an attempt that failed before any of its files could be fetched.
pub fn conclude_failed(
    dir: &CampaignDir,
    run: &RunId,
    attempt: u32,
    cause: Cause,
    detail: String,
) -> Result<OutcomeFile, StoreError> {
    remove_all(&dir.partial(run))?;
    let file = conclude(dir, run, attempt, &failed(RunFailure { cause, detail }))?;
    seal(dir, run, &file)?;
    Ok(file)
}

/// Renames a complete directory to its final name, and syncs it with its content to disk. If a loss of power leaves the final name but not the
/// content, the directory does not match its manifest and does not count as sealed.
///
/// # Errors
/// The system refuses. The directory then has its old name.
pub fn seal(dir: &CampaignDir, run: &RunId, file: &OutcomeFile) -> Result<(), StoreError> {
    let partial = dir.partial(run);
    let last = if file.outcome == Outcome::Succeeded {
        dir.run(run)
    } else {
        dir.failed(run, file.attempt)
    };
    // a complete run of this name was stored by another controller: keep it under another name
    if last.join(OUTCOME).exists() {
        put_aside(&last)?;
    }
    remove_all(&last)?;
    disk::rename("run.rename", partial.as_std_path(), last.as_std_path())
        .map_err(StoreError::io("rename to", &last))?;
    // one call syncs all files, including the program's, and the name
    disk::sync_file_system("run.sync", last.as_std_path()).map_err(|error| {
        // undo the renaming: data that exist only in memory would seem to match the manifest
        let _ = fs::rename(&last, &partial);
        StoreError::io("sync", &last)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::{Utf8Path, Utf8PathBuf};
    use cvc_core::record::{Record, Source, Unit};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn conclusions_can_be_read_back(values in prop::collection::vec(prop::num::f64::ANY, 0..20), text in ".{0,40}") {
            let root = tempfile::tempdir().expect("a directory");
            let dir = CampaignDir::at(Utf8Path::from_path(root.path()).expect("UTF-8"));
            fs::create_dir(dir.runs()).expect("makes");
            let run = RunId::of(b"run");
            let record = |value: &f64| Record {
                run: run.clone(),
                name: "figure".into(),
                value: *value,
                unit: Unit::Seconds,
                source: Source::ApplicationOutput,
                artefact: Some(text.clone()),
                labels: [("zone".to_owned(), text.clone())].into(),
            };
            let records = values.iter().map(record).collect();
            let executed = Executed { records, outcome: Outcome::Succeeded, ..failed(RunFailure { cause: Cause::Timeout, detail: text.clone() }) };
            let file = conclude(&dir, &run, 1, &executed).expect("writes");
            seal(&dir, &run, &file).expect("renames");
            prop_assert_eq!(cvc_core::store::sealed_outcome(&dir, &run, 1), Some(file));
            let lines = fs::read_to_string(dir.run(&run).join("records.jsonl")).expect("reads");
            let read: Result<Vec<Record>, _> = lines.lines().map(serde_json::from_str).collect();
            prop_assert_eq!(read.expect("records").len(), values.iter().filter(|v| v.is_finite()).count());
        }
    }

    #[test]
    fn a_complete_run_is_put_aside_and_a_moved_campaign_is_not_recreated() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = CampaignDir::at(&Utf8Path::from_path(root.path()).expect("UTF-8").join("c"));
        fs::create_dir_all(dir.runs()).expect("makes");
        let run = RunId::of(b"run");
        let executed = |text: &str| Executed {
            outcome: Outcome::Succeeded,
            ..failed(RunFailure {
                cause: Cause::Timeout,
                detail: text.into(),
            })
        };
        for text in ["first", "second"] {
            let file = conclude(&dir, &run, 1, &executed(text)).expect("writes");
            fs::write(dir.partial(&run).join("note"), text).expect("writes");
            seal(&dir, &run, &file).expect("renames");
        }
        assert_eq!(
            fs::read_to_string(dir.run(&run).join("note")).expect("reads"),
            "second"
        );
        let aside = Utf8PathBuf::from(format!("{}.damaged-1", dir.run(&run)));
        assert_eq!(
            fs::read_to_string(aside.join("note")).expect("kept"),
            "first"
        );
        fs::rename(dir.root(), dir.root().with_extension("moved")).expect("renames");
        conclude(&dir, &run, 1, &executed("third")).expect_err("moved");
        assert!(!dir.root().exists());
    }
}
