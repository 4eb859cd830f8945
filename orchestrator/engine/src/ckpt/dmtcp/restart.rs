//! Restarts from DMTCP's images: the files that a restart needs, and the processes that it starts on each node.

use super::{
    checkpoint::Checkpoint,
    dmtcp_run::DmtcpRun,
    install::{DmtcpLayout, coordinator, images_by_host},
    launch::{host, stale_s},
    merged::merge,
    session_files::session,
};
use crate::{
    ckpt::contract::Halt,
    render::{self, Template, shell_quote},
    run::{Node, RunFailure, SOON},
    tracer::NODE,
};
use cvc_core::campaign::StorageKind;
use cvc_core::outcome::Cause;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf};

/// Template of the restart script.
const SCRIPT: Template = Template::new(
    "launch/dmtcp-restart.sh.hbs",
    include_str!("../../../../../templates/launch/dmtcp-restart.sh.hbs"),
);

/// Returns the script that restarts a run from a checkpoint, with a coordinator that has the layout `second`. `stem` is the prefix of the script's
/// own output files. `values` are the template values of the run's script.
pub(super) fn script(
    of: &DmtcpRun<'_>,
    checkpoint: &Checkpoint,
    values: &Value,
    second: &DmtcpLayout,
    stem: &str,
) -> Result<String, Halt> {
    let mut values = values.clone();
    values["several"] = json!(of.run.used.several());
    let traced: Vec<String> =
        serde_json::from_value(values["restart_prefix"].take()).unwrap_or_default();
    values["stem"] = json!(stem);
    values["traced"] = json!(on_node(&traced, ""));
    values["nodes"] = by_node(of, checkpoint, &traced)?;
    values["dmtcp"] = json!({
        "script": checkpoint.script, "forked": of.is_forked(), "command": of.install.program("dmtcp_command"), "host": host(of.run),
        "kvdir2": second.kvdir, "portfile2": second.portfile, "coordinator2": coordinator(&of.install, second, stale_s(of.run)),
    });
    Ok(render::render(SCRIPT, &values)?)
}

/// Removes the shared-memory files that a checkpoint has saved. Ranks continued to write into them after the checkpoint, and DMTCP restores its saved
/// copy only if the file is missing. Only files at the paths that this run's processes had open are removed.
pub(super) async fn forget_saved_files(of: &DmtcpRun<'_>, checkpoint: &Checkpoint) {
    let (used, layout) = (&of.run.used, &of.layout);
    for (place, dir) in &checkpoint.dirs {
        // if all nodes share the checkpoint directory, the node of a saved file is unknown: remove the file on each
        let nodes = if used.storage == StorageKind::Shared {
            used.everywhere()
        } else {
            vec![place.as_str()]
        };
        for node in nodes {
            let session = session(of, node);
            let mut files: Vec<PathBuf> = Vec::new();
            for saved in dir.files_dirs.iter().flat_map(|d| &d.saved) {
                let original = camino::Utf8Path::new(&saved.original);
                if let Ok(below) = original.strip_prefix(&layout.tmpdir) {
                    files.push(session.join(below).into());
                } else if original.parent() == Some(camino::Utf8Path::new("/dev/shm")) {
                    files.push(original.into());
                }
            }
            // the files may have been removed already
            let _ = used.crew.remove(&[node], &[], &files, SOON).await;
        }
    }
}

/// Returns the tracer's words for a node, with the node's name inserted.
fn on_node(words: &[String], node: &str) -> Vec<String> {
    words.iter().map(|word| word.replace(NODE, node)).collect()
}

/// Returns the commands that the restart script starts on each node. DMTCP's own script is not used: it needs a name-lookup tool that may be missing,
/// and passes processes an address that other nodes cannot reach.
///
/// # Errors
/// It is unknown on which node an image was written.
fn by_node(
    of: &DmtcpRun<'_>,
    checkpoint: &Checkpoint,
    traced: &[String],
) -> Result<Value, RunFailure> {
    let (used, layout) = (&of.run.used, &of.layout);
    let hosts = images_by_host(&checkpoint.script_text());
    let order: Vec<&str> = used.ranks.iter().map(|n| n.name.as_str()).collect();
    let merged = merge(&checkpoint.dirs, &order, |image, seen_by| {
        of.node_of(image, seen_by, &hosts)
    })
    .map_err(|differs| {
        RunFailure::new(
            Cause::Checkpoint,
            format!("nodes do not see the same checkpoint: {differs}"),
        )
    })?;
    let mut images: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for placed in &merged.images {
        let file = &placed.image.file;
        let node = placed.node.ok_or_else(|| {
            RunFailure::new(
                Cause::Restart,
                format!("cannot determine which node wrote {file}"),
            )
        })?;
        images
            .entry(node)
            .or_default()
            .push(layout.ckptdir.join(file).into_string());
    }
    let mut on = |node: &Node| {
        let images = images.remove(node.name.as_str())?;
        let start = on_node(traced, &format!(".{}", node.name))
            .into_iter()
            .chain([
                of.install.program("dmtcp_restart"),
                "-j".into(),
                "-h".into(),
                used.head.among.clone(),
            ]);
        let rest = ["--tmpdir".to_owned(), layout.tmpdir.to_string()]
            .into_iter()
            .chain(images);
        let words = |all: &mut dyn Iterator<Item = String>| {
            all.map(|w| shell_quote(&w)).collect::<Vec<_>>().join(" ")
        };
        Some(json!({
            "name": node.name, "host": node.among,
            "start": format!("cd {} && exec {}", shell_quote(of.run.work.as_str()), words(&mut start.into_iter())),
            "rest": words(&mut rest.into_iter()),
        }))
    };
    let here = on(&used.head);
    let others: Vec<Value> = used.ranks.iter().filter_map(&mut on).collect();
    Ok(json!({ "here": here, "others": others, "wrapper": of.ssh_wrapper }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_restart_does_not_begin_in_a_directory_that_another_user_made_meanwhile() {
        let dir = tempfile::tempdir().expect("a directory");
        let (session, tmp) = (dir.path().join("session"), dir.path().join("tmp"));
        for made in [&session, &tmp] {
            std::fs::create_dir(made).expect("a directory");
        }
        std::fs::write(session.join("file"), "").expect("writes");
        // the part of the script that creates its directory, after it has removed the old one
        let script = SCRIPT.text();
        let begin = script
            .split("rm -rf {{sh tmp}}\n")
            .nth(1)
            .expect("it removes the old directory");
        let begin: Vec<&str> = begin
            .lines()
            .take_while(|l| !l.starts_with("trap"))
            .filter(|l| !l.contains("dmtcp."))
            .collect();
        let values = serde_json::json!({ "session": session, "tmp": tmp, "exit": { "setup": 97 } });
        let begin = render::render_text("t", &(begin.join("\n") + "\n"), &values).expect("renders");
        let run = || {
            Command::new("bash")
                .args(["-c", &begin])
                .status()
                .expect("bash")
                .code()
        };
        assert_eq!(run(), Some(97));
        assert_eq!(std::fs::read_dir(&tmp).expect("a directory").count(), 0);
        std::fs::remove_dir(&tmp).expect("an empty directory");
        assert_eq!(run(), Some(0));
        assert!(tmp.join("file").exists());
    }
}
