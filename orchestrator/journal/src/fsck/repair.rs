//! Repairs what a check has found.

use super::{
    journal::OldJournal,
    problem::{Findings, Remedy},
};
use crate::{CampaignState, Event, Journal, forget_mark};
use camino::Utf8PathBuf;
use cvc_core::ids::RunId;
use cvc_core::store::{
    CampaignDir, CampaignLock, StoreError, free_name, line_file::with_sum, put_aside, regular,
    write_whole,
};

/// What was repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The damaged journal, if it was written anew.
    pub old_journal: Option<Utf8PathBuf>,
    /// Runs that were written into the journal.
    pub recorded: Vec<RunId>,
    /// Runs that the next `cvc run` repeats, and where what was left of them lies.
    pub to_repeat: Vec<(RunId, Option<Utf8PathBuf>)>,
}

/// Repairs what was found. Nothing is removed: what is replaced is kept beside.
///
/// # Errors
/// When a controller works on the campaign, or a file cannot be written.
pub fn repair(dir: &CampaignDir, findings: &Findings) -> Result<Repaired, StoreError> {
    // by the same path as a session: versions without lineages were known by it
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
    let mut journal = Journal::open(&dir.journal(), campaign, |entry| {
        state
            .apply(entry)
            .map_err(|illegal| illegal.problem.to_string())
    })?;
    let mut write = |event: Event| -> Result<bool, StoreError> {
        // another cvc may have changed the journal since the check
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

/// Writes the journal anew, and returns where the old one lies, if there was one.
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
    // before the new one is there: its lines have other numbers
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
