//! The restart from DMTCP's images: what must be kept for it, and what is started on which node.

use super::{
    checkpoint::Checkpoint,
    dmtcp_run::{DmtcpRun, node_of},
    install::{coordinator, images_by_host},
    launch::{host, stale_s},
    merged::merge,
    session_files::session,
};
use crate::{
    ckpt::contract::Halt,
    render::{self, Template, shell_quote},
    run::{Node, RunFailure, SOON, text},
};
use cvc_core::campaign::StorageKind;
use cvc_core::outcome::Cause;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf};

/// The script of a restart.
const SCRIPT: Template = Template::new(
    "launch/dmtcp-restart.sh.hbs",
    include_str!("../../../../../templates/launch/dmtcp-restart.sh.hbs"),
);

/// The script that restarts a run from a checkpoint. `values` are those of the run's script.
pub(super) fn script(
    of: &DmtcpRun<'_>,
    checkpoint: &Checkpoint,
    values: &Value,
) -> Result<String, Halt> {
    let second = of.layout.of_restart();
    let mut values = values.clone();
    values["several"] = json!(of.run.used.several());
    values["nodes"] = by_node(of, checkpoint)?;
    values["dmtcp"] = json!({
        "ckptdir": of.layout.ckptdir, "command": of.install.program("dmtcp_command"), "host": host(of.run),
        "ckptdir2": second.ckptdir, "portfile2": second.portfile, "coordinator2": coordinator(&of.install, &second, stale_s(of.run)),
    });
    Ok(render::render(SCRIPT, &values)?)
}

/// Removes the shared-memory files that the checkpoint has saved: the ranks went on writing into them after it, and DMTCP restores its own
/// copy only where there is no file. Their paths are those that this run's own processes had open.
pub(super) async fn forget_saved_files(of: &DmtcpRun<'_>, checkpoint: &Checkpoint) {
    let (used, layout) = (&of.run.used, &of.layout);
    for (place, dir) in &checkpoint.dirs {
        // where all nodes see the same directory, which of them a file belongs to is not said: each removes what it has of them
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
            // gone already is as good
            let _ = used.crew.remove(&[node], &[], &files, SOON).await;
        }
    }
}

/// Returns the commands that the restart script starts on each node. DMTCP's own script needs a name-lookup tool that may be missing, and
/// gives processes an address that other nodes cannot reach.
///
/// # Errors
/// When it is unknown on which node an image was written.
fn by_node(of: &DmtcpRun<'_>, checkpoint: &Checkpoint) -> Result<Value, RunFailure> {
    let (used, layout) = (&of.run.used, &of.layout);
    let hosts = images_by_host(&text(&of.restart_script()));
    let order: Vec<&str> = used.ranks.iter().map(|n| n.name.as_str()).collect();
    let merged = merge(&checkpoint.dirs, &order, |image, seen_by| {
        node_of(used, image, seen_by, &hosts)
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
                format!("cannot tell on which node {file} was written"),
            )
        })?;
        images
            .entry(node)
            .or_default()
            .push(layout.ckptdir.join(file).into_string());
    }
    let mut on = |node: &Node| {
        let images = images.remove(node.name.as_str())?;
        let start = [
            of.install.program("dmtcp_restart"),
            "-j".into(),
            "-h".into(),
            used.head.among.clone(),
        ];
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
        // from where it has removed the old one
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
