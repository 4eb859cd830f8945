//! Keeps the last checkpoint for a run's next attempt, if the run lost a node.

use super::{notice::ReceivedNotice, prepare::Prepared};
use crate::{
    ckpt::CheckpointRun,
    crew,
    run::{AllocatedNodes, LATER, RunFailure, fetch},
    stage::KeptOnNodes,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::StorageKind;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::{KEPT, KeptCheckpoint, KeptPlace, StoreError};
use cvc_probe::sentinel::{FileFound, FilePart};
use std::{fs, io::Read};

/// If a run lost a node, stores its last complete checkpoint where the run's next attempt finds it. Returns `None` if the run did not lose a node, or
/// if no usable checkpoint exists.
pub(super) async fn keep_checkpoint(
    prepared: &Prepared,
    session: &mut dyn CheckpointRun,
    outcome: &Outcome,
    notice: Option<&ReceivedNotice>,
) -> Option<KeptCheckpoint> {
    match outcome {
        Outcome::Failed { cause, .. } if prepared.keeps && is_loss_of_node(*cause) => {}
        Outcome::Failed { .. } | Outcome::Succeeded => return None,
    }
    let to_keep = session.keep().await?;
    let place = if prepared.run.used.storage == StorageKind::Shared && prepared.outlives_agent {
        KeptPlace::Site
    } else {
        let to = prepared.run.dir.join(KEPT);
        if let Err(failure) = bring(prepared, &to_keep.files, &to).await {
            tracing::warn!(run = %prepared.run.id, why = failure.detail, "the checkpoint cannot be kept");
            return None;
        }
        KeptPlace::Campaign
    };
    Some(KeptCheckpoint {
        attempt: 0,
        place,
        bytes: to_keep.files.iter().map(|(_, file)| file.bytes).sum(),
        wall_s: 0.0,
        used_s: 0.0,
        notice: notice.map(ReceivedNotice::used),
        details: to_keep.details,
        on_nodes: None,
    })
}

/// Describes checkpoints that are left on the nodes' own storage for the run's next attempt, rather than copied; `None` if there are none.
pub(super) fn on_nodes(
    kept: KeptOnNodes,
    notice: Option<&ReceivedNotice>,
) -> Option<KeptCheckpoint> {
    let newest = kept.checkpoints.first()?;
    Some(KeptCheckpoint {
        attempt: 0,
        place: KeptPlace::Nodes,
        bytes: newest.bytes,
        wall_s: 0.0,
        used_s: 0.0,
        notice: notice.map(ReceivedNotice::used),
        details: newest.details.clone().unwrap_or_default(),
        on_nodes: Some(serde_json::to_value(kept).ok()?),
    })
}

/// Returns whether this cause of failure means that a node was lost.
pub(super) fn is_loss_of_node(cause: Cause) -> bool {
    matches!(cause, Cause::NodeLost | Cause::Reclaimed)
}

/// Returns the subdirectory of a kept checkpoint for the files of the node with this index. Nodes may have different files of the same name.
pub(super) fn of_node(kept: &Utf8Path, index: usize) -> Utf8PathBuf {
    kept.join(index.to_string())
}

/// Copies the files of a kept checkpoint from this machine to all nodes of the run, to the paths where the run finds them.
///
/// # Errors
/// A path could not be written; the error names it.
pub(super) async fn put_back(prepared: &Prepared, kept: &Utf8Path) -> Result<(), RunFailure> {
    let (used, work) = (&prepared.run.used, &prepared.run.work);
    for (index, node) in used.everywhere().into_iter().enumerate() {
        let from = of_node(kept, index);
        if !from.is_dir() {
            continue;
        }
        let is_here = node == used.head.name || used.storage == StorageKind::Shared;
        let store = |error: StoreError| RunFailure::new(Cause::Store, error.to_string());
        if is_here {
            copy_into(&from, work).map_err(store)?;
        } else {
            for file in files_below(&from).map_err(store)? {
                let to = work.join(file.strip_prefix(&from).unwrap_or(&file));
                send(used, node, &file, &to).await?;
            }
        }
    }
    Ok(())
}

/// Copies the content of a directory into another, which may contain other files.
fn copy_into(from: &Utf8Path, to: &Utf8Path) -> Result<(), StoreError> {
    for file in files_below(from)? {
        let to = to.join(file.strip_prefix(from).unwrap_or(&file));
        let parent = to.parent().unwrap_or(&to);
        fs::create_dir_all(parent).map_err(StoreError::io("make", parent))?;
        fs::copy(&file, &to).map_err(StoreError::io("copy to", &to))?;
    }
    Ok(())
}

/// Returns all files below a directory.
fn files_below(dir: &Utf8Path) -> Result<Vec<Utf8PathBuf>, StoreError> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in dir
            .read_dir_utf8()
            .map_err(StoreError::io("list", &dir))?
            .flatten()
        {
            let kind = entry
                .file_type()
                .map_err(StoreError::io("read", entry.path()))?;
            if kind.is_dir() {
                dirs.push(entry.path().to_owned());
            } else if kind.is_file() {
                files.push(entry.path().to_owned());
            }
        }
    }
    Ok(files)
}

/// Sends a file to another node.
async fn send(
    used: &AllocatedNodes,
    node: &str,
    file: &Utf8Path,
    to: &Utf8Path,
) -> Result<(), RunFailure> {
    let unread = |error| {
        RunFailure::new(
            Cause::Store,
            StoreError::io("read", file)(error).to_string(),
        )
    };
    let mut open = fs::File::open(file).map_err(unread)?;
    let (mut buffer, mut offset) = (vec![0; PART], 0);
    loop {
        let read = open.read(&mut buffer).map_err(unread)?;
        if read == 0 && offset > 0 {
            return Ok(());
        }
        let part = FilePart::of(&buffer[..read]);
        let sent = used
            .crew
            .write(&[node], to.as_std_path(), offset, &part, LATER)
            .await;
        crew::whole(sent).map_err(|error| RunFailure::new(Cause::NodeLost, error.to_string()))?;
        if read == 0 {
            return Ok(());
        }
        offset += read as u64;
    }
}

/// Number of bytes sent in one request.
const PART: usize = 4 << 20;

/// Fetches files of the run's nodes into its directory.
async fn bring(
    prepared: &Prepared,
    files: &[(String, FileFound)],
    to: &Utf8Path,
) -> Result<(), RunFailure> {
    let (used, work) = (&prepared.run.used, &prepared.run.work);
    let everywhere = used.everywhere();
    for (node, file) in files {
        let index = everywhere.iter().position(|name| name == node).unwrap_or(0);
        let outside = || {
            let detail = format!("{} is not below {work}", file.path.display());
            RunFailure::new(Cause::Checkpoint, detail)
        };
        let path = Utf8Path::from_path(&file.path).ok_or_else(outside)?;
        let below = path.strip_prefix(work).map_err(|_| outside())?;
        let here = of_node(to, index).join(below);
        let parent = here.parent().unwrap_or(to);
        fs::create_dir_all(parent)
            .map_err(StoreError::io("make", parent))
            .map_err(|error| RunFailure::new(Cause::Store, error.to_string()))?;
        if *node == used.head.name {
            // this also copies symbolic links and modes
            fs::copy(path, &here)
                .map_err(StoreError::io("copy to", &here))
                .map_err(|error| RunFailure::new(Cause::Store, error.to_string()))?;
        } else {
            fetch(used, node, file, &here).await?;
        }
    }
    Ok(())
}
