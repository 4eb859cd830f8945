//! The restart from DMTCP's images: what must be kept for it, and what is started on which node.

use super::{
    dmtcp::Checkpoint,
    evidence,
    nodes::{Node, SOON},
    noise::Noise,
    prepare::Prepared,
    run_failure::RunFailure,
    session_files::session,
};
use crate::{
    ckpt::{dmtcp::images_by_host, merged::merge},
    render::shell_quote,
};
use cvc_core::{campaign::StorageKind, outcome::Cause};
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
    /// The assertion of DMTCP that failed.
    pub assertion: Option<String>,
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
