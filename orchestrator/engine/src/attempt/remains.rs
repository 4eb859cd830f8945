//! What a run left: it is kept or removed, and the run's directory gets its final name.

use super::{
    executed::{Executed, failed},
    outcome_file::{conclude, conclude_failed, seal},
};
use crate::{
    ckpt,
    run::{RunError, RunFailure},
    stage, tracer,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::RunId;
use cvc_core::outcome::Cause;
use cvc_core::store::{CampaignDir, OutcomeFile, StoreError, copy_tree, remove_all};
use std::fs;

/// Files of a run that are larger than this make room if there is none for its results.
const LARGE_BYTES: u64 = 64 << 10;
/// What a run left.
pub(super) struct Remains {
    /// The campaign's directory.
    pub dir: CampaignDir,
    pub run: RunId,
    /// Its working directory.
    pub work: Utf8PathBuf,
    pub attempt: u32,
    /// Whether its images stay.
    pub images: bool,
    /// Whether the files of its program stay.
    pub outputs: bool,
}

impl Remains {
    /// Records how the run ended and gives its directory its final name, before a journal may record it.
    pub(super) fn finish(&self, executed: Executed) -> Result<OutcomeFile, RunError> {
        let (run, work, attempt) = (&self.run, &self.work, self.attempt);
        let error = match self.keep(&executed) {
            Err(error) if error.is_full_disk() => error,
            kept => return Ok(kept?),
        };
        // what fills the disk may be the run's own, and the other points need the room
        remove_with_parent(work)?;
        let removed = remove_large_files(&self.dir.partial(run))?;
        let detail = format!(
            "{error}; what the run had written is removed ({} MiB of output)",
            removed >> 20
        );
        tracing::warn!(%run, detail, "no room for the run's results");
        let executed = Executed {
            wall_s: executed.wall_s,
            ..failed(RunFailure::new(Cause::DiskFull, detail))
        };
        let concluded = conclude(&self.dir, run, attempt, &executed)
            .and_then(|file| seal(&self.dir, run, &file).map(|()| file));
        match concluded {
            Err(error) if error.is_full_disk() => Ok(conclude_failed(
                &self.dir,
                run,
                attempt,
                Cause::DiskFull,
                error.to_string(),
            )?),
            concluded => Ok(concluded?),
        }
    }

    /// Keeps what a run left, in its directory with its final name.
    fn keep(&self, executed: &Executed) -> Result<OutcomeFile, StoreError> {
        let (run, work, attempt) = (&self.run, &self.work, self.attempt);
        // what is kept of its work is a part of what is sealed
        self.clear_work(&self.dir.partial(run), work)?;
        let file = conclude(&self.dir, run, attempt, executed)?;
        seal(&self.dir, run, &file)?;
        Ok(file)
    }

    /// Keeps traces beside the run, and of the rest what the campaign wants to keep.
    fn clear_work(&self, partial: &Utf8Path, work: &Utf8Path) -> Result<(), StoreError> {
        for trace in tracer::all().filter_map(|t| t.trace()) {
            let from = work.join(trace);
            if from.exists() {
                copy_tree(&from, &partial.join(trace))?;
                remove_all(&from)?;
            }
        }
        let (images, outputs) = (self.images, self.outputs);
        if !work.exists() || (!images && !outputs) {
            return remove_with_parent(work);
        }
        let entries = work.read_dir_utf8().map_err(StoreError::io("list", work))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let of_checkpointer = ckpt::all().any(|c| c.dirs().contains(&name));
            if name == stage::SCRATCH || !(if of_checkpointer { images } else { outputs }) {
                remove_all(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Removes a run's working directory, and the campaign's in the storage area when it was the last in it.
fn remove_with_parent(work: &Utf8Path) -> Result<(), StoreError> {
    remove_all(work)?;
    if let Some(parent) = work.parent() {
        // others use it: then it stays
        let _ = fs::remove_dir(parent);
    }
    Ok(())
}

/// Removes what takes room below the directory of a run, so that what tells of its start stays. Returns the bytes that were removed.
fn remove_large_files(dir: &Utf8Path) -> Result<u64, StoreError> {
    let mut removed = 0;
    // a run that failed before it had one
    let Ok(entries) = dir.read_dir_utf8() else {
        return Ok(0);
    };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.path().symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            removed += remove_large_files(entry.path())?;
        } else if metadata.len() > LARGE_BYTES {
            remove_all(entry.path())?;
            removed += metadata.len();
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_during_the_run_alone_is_no_output_and_no_image() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let (work, partial) = (root.join("work"), root.join("partial"));
        for (images, outputs, left) in [
            (true, true, &["ckpt", "result"][..]),
            (false, true, &["result"]),
            (true, false, &["ckpt"]),
        ] {
            for made in ["ckpt", ".cvc-deltas/series", "result"] {
                fs::create_dir_all(work.join(made)).expect("makes");
            }
            let remains = Remains {
                dir: CampaignDir::at(root),
                run: RunId::of(b"r"),
                work: work.clone(),
                attempt: 1,
                images,
                outputs,
            };
            remains.clear_work(&partial, &work).expect("cleared");
            let mut names: Vec<String> = work
                .read_dir_utf8()
                .expect("lists")
                .flatten()
                .map(|entry| entry.file_name().to_owned())
                .collect();
            names.sort_unstable();
            assert_eq!(names, left);
        }
    }
}
