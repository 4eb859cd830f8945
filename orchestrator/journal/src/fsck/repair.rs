//! Repairs the problems found by a check.

use super::{
    journal::OldJournal,
    problem::{FsckFindings, Remedy},
};
use crate::{CampaignState, Event, Journal, forget_mark};
use camino::Utf8PathBuf;
use cvc_core::ids::RunId;
use cvc_core::store::{
    CampaignDir, CampaignLock, StoreError, free_name, line_file::with_sum, put_aside, regular,
    write_whole,
};

/// Results of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Path of the damaged journal, if it was rewritten.
    pub old_journal: Option<Utf8PathBuf>,
    /// Runs that were added to the journal.
    pub recorded: Vec<RunId>,
    /// Runs that the next `cvc run` repeats. If a directory of the run is left, with the new path of this directory.
    pub to_repeat: Vec<(RunId, Option<Utf8PathBuf>)>,
}

/// Repairs the problems found. Nothing is removed: replaced files are kept next to the new ones.
///
/// # Errors
/// A controller is working on the campaign, or a file cannot be written.
pub fn repair(dir: &CampaignDir, findings: &FsckFindings) -> Result<Repaired, StoreError> {
    // the same path as in a session, because versions without lineages identified the campaign by its path
    let root = dir
        .root()
        .canonicalize_utf8()
        .map_err(StoreError::io("resolve", dir.root()))?;
    let dir = &CampaignDir::at(&root);
    let _lock = CampaignLock::take_waiting(&dir.lock(), "cvc fsck --repair")?;
    let mut repaired = Repaired::default();
    let has = |remedy: Remedy| {
        findings
            .problems
            .iter()
            .any(|p| p.remedy.as_ref() == Some(&remedy))
    };
    if has(Remedy::RewriteJournal) {
        repaired.old_journal = rewrite(dir)?;
    } else if has(Remedy::AcceptJournal) {
        forget_mark(&dir.journal())?;
    }
    let mut state = CampaignState::default();
    let campaign = dir.root().file_name().unwrap_or("campaign");
    let mut journal = Journal::open(&dir.journal(), campaign, |entry| state.apply(entry))?;
    let mut write = |event: Event| -> Result<bool, StoreError> {
        // another process may have changed the journal since the check
        if state.check(&event).is_err() {
            return Ok(false);
        }
        let entry = journal.append(event)?;
        state
            .apply(&entry)
            .map_err(|illegal| illegal.in_file(&dir.journal()))?;
        Ok(true)
    };
    for problem in &findings.problems {
        match &problem.remedy {
            Some(Remedy::RecordRun(run, file)) => {
                write(Event::RunIntended {
                    run: run.clone(),
                    attempt: file.attempt,
                    nodes: Default::default(),
                })?;
                if write(Event::finished(run.clone(), file.clone()))? {
                    repaired.recorded.push(run.clone());
                }
            }
            Some(Remedy::RepeatRun {
                run,
                attempt,
                reason,
            }) => {
                if write(Event::RunDiscarded {
                    run: run.clone(),
                    attempt: *attempt,
                    reason: reason.clone(),
                })? {
                    repaired
                        .to_repeat
                        .push((run.clone(), put_aside(&dir.run(run))?));
                }
            }
            Some(Remedy::RewriteJournal | Remedy::AcceptJournal) | None => {}
        }
    }
    Ok(repaired)
}

/// Rewrites the journal, and returns the path of the old journal if there was one.
fn rewrite(dir: &CampaignDir) -> Result<Option<Utf8PathBuf>, StoreError> {
    let path = dir.journal();
    let old = OldJournal::read(dir)?;
    let kept = if path.exists() {
        let kept = free_name(&path);
        let text = regular::read(path.as_std_path()).map_err(StoreError::io("read", &path))?;
        write_whole(&kept, &text)?;
        Some(kept)
    } else {
        None
    };
    let mut salvaged = old.salvage(dir);
    if old.is_damaged() || !salvaged.left_out.is_empty() {
        let (lost, left_out) = (old.lost(), salvaged.left_out.len() as u64);
        let copy = kept
            .as_ref()
            .and_then(|k| k.file_name())
            .unwrap_or_default()
            .to_owned();
        salvaged.push(
            jiff::Timestamp::now(),
            Event::Repaired {
                lost,
                left_out,
                copy,
            },
        );
    }
    // the mark is removed before the new journal exists, whose entries have other numbers
    forget_mark(&path)?;
    let mut text = Vec::new();
    for entry in &salvaged.entries {
        let json =
            serde_json::to_vec(entry).map_err(|e| StoreError::damaged(&path, 0, e.to_string()))?;
        text.extend(with_sum(json).map_err(StoreError::io("write", &path))?);
    }
    write_whole(&path, &text)?;
    Ok(kept)
}
