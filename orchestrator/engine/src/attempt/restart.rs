//! The restart from DMTCP's images: what must be kept for it, and what is started on which node.

use super::{
    dmtcp::Checkpoint,
    error::RunError,
    evidence,
    nodes::{Node, SOON},
    noise::Noise,
    prepare::Prepared,
    run_dirs::SESSION,
    run_failure::RunFailure,
};
use crate::{
    ckpt::{dmtcp::images_by_host, merged::merge},
    render::shell_quote,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{campaign::StorageKind, outcome::Cause, store::copy_tree};
use cvc_probe::shepherd::Exit;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf};

/// A second start, to see whether a checkpoint can be restarted.
#[derive(Debug)]
pub(super) struct Restarted {
    pub exit: Option<Exit>,
    /// What else the nodes did.
    pub noise: Noise,
    pub stdout: String,
    pub stderr: String,
}

/// Keeps the session files of a run, which MPI libraries remove when they end and open again after a restart.
pub(super) async fn keep_session_files(prepared: &Prepared) -> Result<(), RunError> {
    let Some((_, layout)) = &prepared.dmtcp else { return Ok(()) };
    copy_tree(&layout.tmpdir, &session(prepared, &prepared.used.head.name))?;
    for node in prepared.used.others() {
        let kept = session(prepared, node).into();
        prepared.used.crew.copy(&[node], layout.tmpdir.as_std_path(), kept, SOON).await.into_iter().try_for_each(|(_, done)| done)?;
    }
    Ok(())
}

/// The failure of a run whose session files could not be kept because its program, and they with it, was gone; `None` if they are there.
pub(super) fn without_session_files(prepared: &Prepared, error: &RunError) -> Option<RunFailure> {
    gone_with_program(&prepared.dmtcp.as_ref()?.1.tmpdir, error)
}

fn gone_with_program(session: &Utf8Path, error: &RunError) -> Option<RunFailure> {
    if session.exists() {
        return None;
    }
    let detail = format!(
        "the program ended by itself just after its checkpoint, before the files of its session in {session} were kept for the restart ({error}): \
         choose an earlier moment or a larger workload"
    );
    Some(RunFailure::new(Cause::Checkpoint, detail))
}

/// Where the session files of a node are kept: beside those of others, where all see the same files.
fn session(prepared: &Prepared, node: &str) -> Utf8PathBuf {
    if node == prepared.used.head.name { prepared.work.join(SESSION) } else { prepared.work.join(format!("{SESSION}-{node}")) }
}

/// Gives the other nodes their session files again; this one gets its own by the script of the restart.
pub(super) async fn restore_session_files(prepared: &Prepared) -> Result<(), RunError> {
    let Some((_, layout)) = &prepared.dmtcp else { return Ok(()) };
    for node in prepared.used.others() {
        let kept = session(prepared, node);
        let to = layout.tmpdir.clone().into();
        prepared.used.crew.copy(&[node], kept.as_std_path(), to, SOON).await.into_iter().try_for_each(|(_, done)| done)?;
    }
    Ok(())
}

/// Removes the shared-memory files that the checkpoint has saved: the ranks went on writing into them after it, and DMTCP restores its own
/// copy only where there is no file. Their paths are those that this run's own processes had open.
pub(super) async fn forget_saved_files(prepared: &Prepared, checkpoint: &Checkpoint) {
    let Some((_, layout)) = &prepared.dmtcp else { return };
    for (place, dir) in &checkpoint.dirs {
        // where all nodes see the same directory, which of them a file belongs to is not said: each removes what it has of them
        let nodes = if prepared.used.storage == StorageKind::Shared { prepared.used.everywhere() } else { vec![place.as_str()] };
        for node in nodes {
            let session = session(prepared, node);
            let mut files: Vec<PathBuf> = Vec::new();
            for saved in dir.files_dirs.iter().flat_map(|d| &d.saved) {
                let original = camino::Utf8Path::new(&saved.original);
                if let Ok(below) = original.strip_prefix(&layout.tmpdir) {
                    files.push(session.join(below).into());
                } else if original.parent() == Some(camino::Utf8Path::new("/dev/shm")) {
                    files.push(original.into());
                }
            }
            // gone already is as good
            let _ = prepared.used.crew.remove(&[node], &[], &files, SOON).await;
        }
    }
}

/// Returns the commands that the restart script starts on each node. DMTCP's own script needs a name-lookup tool that may be missing, and
/// gives processes an address that other nodes cannot reach.
///
/// # Errors
/// When it is unknown on which node an image was written.
pub(super) fn by_node(prepared: &Prepared, checkpoint: &Checkpoint) -> Result<Value, RunFailure> {
    let (used, Some((install, layout))) = (&prepared.used, &prepared.dmtcp) else { return Ok(Value::Null) };
    let hosts = images_by_host(&evidence::text(&layout.ckptdir.join("dmtcp_restart_script.sh")));
    let order: Vec<&str> = used.ranks.iter().map(|n| n.name.as_str()).collect();
    let merged = merge(&checkpoint.dirs, &order, |image, seen_by| evidence::node_of(used, image, seen_by, &hosts))
        .map_err(|differs| RunFailure::new(Cause::Checkpoint, format!("nodes do not see the same checkpoint: {differs}")))?;
    let mut images: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for placed in &merged.images {
        let file = &placed.image.file;
        let node = placed.node.ok_or_else(|| RunFailure::new(Cause::Restart, format!("cannot tell on which node {file} was written")))?;
        images.entry(node).or_default().push(layout.ckptdir.join(file).into_string());
    }
    let mut on = |node: &Node| {
        let images = images.remove(node.name.as_str())?;
        let start = [install.program("dmtcp_restart"), "-j".into(), "-h".into(), used.head.among.clone()];
        let rest = ["--tmpdir".to_owned(), layout.tmpdir.to_string()].into_iter().chain(images);
        let words = |all: &mut dyn Iterator<Item = String>| all.map(|w| shell_quote(&w)).collect::<Vec<_>>().join(" ");
        Some(json!({
            "name": node.name, "host": node.among,
            "start": format!("cd {} && exec {}", shell_quote(prepared.work.as_str()), words(&mut start.into_iter())),
            "rest": words(&mut rest.into_iter()),
        }))
    };
    let here = on(&used.head);
    let others: Vec<Value> = used.ranks.iter().filter_map(&mut on).collect();
    Ok(json!({ "here": here, "others": others, "wrapper": prepared.request.ssh_wrapper() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_gone_before_it_is_kept_is_a_checkpoint_too_late() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let (session, kept) = (root.join("session"), root.join("kept"));
        let error = RunError::from(copy_tree(&session, &kept).expect_err("it is gone"));
        let failure = gone_with_program(&session, &error).expect("a failure of the run");
        assert_eq!(failure.cause, Cause::Checkpoint);
        assert!(failure.detail.contains(&format!("cannot read {session}")), "the source is named: {}", failure.detail);
        std::fs::create_dir(&session).expect("makes");
        assert_eq!(gone_with_program(&session, &error), None, "something else went wrong");
    }
}
