//! Keeps or removes the files of a finished run, before the run's directory gets its final name.

use super::{
    executed::{Executed, failed},
    outcome_file::{conclude, conclude_failed, seal},
};
use crate::{
    ckpt,
    run::{RunError, RunFailure},
    tracer,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{LEVELS, SCRATCH};
use cvc_core::ids::RunId;
use cvc_core::outcome::Cause;
use cvc_core::store::{CampaignDir, OutcomeFile, StoreError, copy_tree, remove_all};
use std::fs;

/// Minimum size of a run's files that are removed if the disk has no space for its results, bytes.
const LARGE_BYTES: u64 = 64 << 10;
/// The files of a finished run.
pub(super) struct Remains {
    /// The campaign's directory.
    pub dir: CampaignDir,
    pub run: RunId,
    /// Working directory of the run.
    pub work: Utf8PathBuf,
    /// Directory to which the run's checkpoints were flushed.
    pub flush_dir: Option<Utf8PathBuf>,
    pub attempt: u32,
    /// Whether images are kept.
    pub images: bool,
    /// Whether the program's files are kept.
    pub outputs: bool,
    /// Whether the whole working directory is kept for the run's next attempt.
    pub work_is_kept: bool,
}

impl Remains {
    /// Records how the run ended, and renames its directory to the final name. Only afterwards may a journal record the end.
    pub(super) fn finish(&self, executed: Executed) -> Result<OutcomeFile, RunError> {
        let (run, work, attempt) = (&self.run, &self.work, self.attempt);
        let error = match self.keep(&executed) {
            Err(error) if error.is_full_disk() => error,
            kept => return Ok(kept?),
        };
        // the run's own files may have filled the disk, and other points need the space
        remove_with_parent(work)?;
        let removed = remove_large_files(&self.dir.partial(run))?;
        let detail = format!(
            "{error}; the output of the run was removed ({} MiB)",
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

    /// Stores the files to keep in the run's directory, removes the others, and renames the directory to its final name.
    fn keep(&self, executed: &Executed) -> Result<OutcomeFile, StoreError> {
        let (run, work, attempt) = (&self.run, &self.work, self.attempt);
        self.flush_dir
            .iter()
            .try_for_each(|dir| remove_with_parent(dir))?;
        // before sealing, so that the traces in the run's directory are sealed too
        if !self.work_is_kept {
            self.clear_work(&self.dir.partial(run), work)?;
        }
        let file = conclude(&self.dir, run, attempt, executed)?;
        seal(&self.dir, run, &file)?;
        Ok(file)
    }

    /// Moves traces into the run's directory, and removes the files of the working directory that the campaign does not keep.
    fn clear_work(&self, partial: &Utf8Path, work: &Utf8Path) -> Result<(), StoreError> {
        let traces = tracer::all().flat_map(|t| {
            t.trace()
                .map(str::to_owned)
                .into_iter()
                .chain(t.restart_trace())
        });
        for trace in traces {
            let from = work.join(&trace);
            // a restart that was not attempted leaves an empty directory
            if tracer::files_of(&from).is_ok_and(|files| !files.is_empty()) {
                copy_tree(&from, &partial.join(&trace))?;
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
            if [SCRATCH, LEVELS].contains(&name)
                || !(if of_checkpointer { images } else { outputs })
            {
                remove_all(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Removes a run's working directory, and its parent (the campaign's directory in the storage area) if that is then empty.
pub(super) fn remove_with_parent(work: &Utf8Path) -> Result<(), StoreError> {
    remove_all(work)?;
    if let Some(parent) = work.parent() {
        // this fails if the parent still contains other directories
        let _ = fs::remove_dir(parent);
    }
    Ok(())
}

/// Removes large files below a run's directory; small ones, such as records of its start, stay. Returns the number of bytes removed.
fn remove_large_files(dir: &Utf8Path) -> Result<u64, StoreError> {
    let mut removed = 0;
    // the run may have failed before the directory existed
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
    fn files_made_only_during_the_run_are_neither_output_nor_image() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let (work, partial) = (root.join("work"), root.join("partial"));
        for (images, outputs, left) in [
            (true, true, &["ckpt", "result"][..]),
            (false, true, &["result"]),
            (true, false, &["ckpt"]),
        ] {
            for made in ["ckpt", ".cvc-deltas/series", ".cvc-levels/1", "result"] {
                fs::create_dir_all(work.join(made)).expect("makes");
            }
            let remains = Remains {
                dir: CampaignDir::at(root),
                run: RunId::of(b"r"),
                work: work.clone(),
                flush_dir: None,
                attempt: 1,
                images,
                outputs,
                work_is_kept: false,
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
