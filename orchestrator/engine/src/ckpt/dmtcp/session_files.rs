//! Copies the session files of the MPI library while they exist, and restores them: a restarted program opens them again.

use super::dmtcp_run::DmtcpRun;
use crate::run::{RunError, RunFailure, SESSION, SOON};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::outcome::Cause;
use cvc_core::store::{StoreError, copy_tree, remove_all};
use std::path::PathBuf;

/// Copies the session files of a run. MPI libraries remove these files when they end, and open them again after a restart. Call this before the
/// checkpoint is requested, because afterwards the program may end at any time.
pub(super) async fn keep_session_files(of: &DmtcpRun<'_>) -> Result<(), RunError> {
    let (used, layout) = (&of.run.used, &of.layout);
    let kept = session(of, &used.head.name);
    // remove the copies of an earlier checkpoint
    remove_all(&kept)?;
    copy_tree(&layout.tmpdir, &kept)?;
    for node in used.others() {
        let kept: PathBuf = session(of, node).into();
        if of.restart.is_some() {
            let _ = used
                .crew
                .remove(&[node], std::slice::from_ref(&kept), &[], SOON)
                .await;
        }
        used.crew
            .copy(&[node], layout.tmpdir.as_std_path(), kept, SOON)
            .await
            .into_iter()
            .try_for_each(|(_, done)| done)?;
    }
    Ok(())
}

/// Returns the failure of a run whose session files could not be copied because its program had ended and removed them; `None` if the files exist.
pub(super) fn without_session_files(of: &DmtcpRun<'_>, error: &RunError) -> Option<RunFailure> {
    lost_with_program(&of.layout.tmpdir, error)
}

fn lost_with_program(session: &Utf8Path, error: &RunError) -> Option<RunFailure> {
    if session.exists() {
        return None;
    }
    let detail = format!(
        "the program ended before its checkpoint was requested, and the files of its session in {session}, which the restart needs, no longer exist ({error}): \
         choose an earlier moment, or a larger workload or more steps"
    );
    Some(RunFailure::new(Cause::Checkpoint, detail))
}

/// Returns the directory with the copy of a node's session files. On shared storage each node has its own directory.
pub(super) fn session(of: &DmtcpRun<'_>, node: &str) -> Utf8PathBuf {
    if node == of.run.used.head.name {
        of.run.work.join(SESSION)
    } else {
        of.run.work.join(format!("{SESSION}-{node}"))
    }
}

/// Restores the session files on the other nodes. On this node the restart script restores them.
pub(super) async fn restore_session_files(of: &DmtcpRun<'_>) -> Result<(), RunError> {
    let (used, layout) = (&of.run.used, &of.layout);
    for node in used.others() {
        let kept = session(of, node);
        let to = layout.tmpdir.clone().into();
        used.crew
            .copy(&[node], kept.as_std_path(), to, SOON)
            .await
            .into_iter()
            .try_for_each(|(_, done)| done)?;
    }
    Ok(())
}

/// Renames the copied session files of replaced nodes after the nodes that replace them. Both lists end with the head node, whose files have a
/// separate name.
pub(super) fn move_session_files(
    of: &DmtcpRun<'_>,
    before: &[(String, String)],
    now: &[&str],
) -> Result<(), StoreError> {
    let work = &of.run.work;
    let named = |node: &str, head: Option<&str>| match head == Some(node) {
        true => work.join(SESSION),
        false => work.join(format!("{SESSION}-{node}")),
    };
    let old_head = before.last().map(|(name, _)| name.as_str());
    let moves: Vec<_> = before
        .iter()
        .zip(now)
        .map(|((old, _), new)| (named(old, old_head), named(new, now.last().copied())))
        .filter(|(from, to)| from != to && from.exists())
        .collect();
    // two nodes may have exchanged their roles: rename through a third name
    let aside = |n: usize| work.join(format!("{SESSION}.moved-{n}"));
    let rename = |from: &Utf8Path, to: &Utf8Path| {
        std::fs::rename(from, to).map_err(StoreError::io("rename", from))
    };
    for (n, (from, _)) in moves.iter().enumerate() {
        rename(from, &aside(n))?;
    }
    for (n, (_, to)) in moves.iter().enumerate() {
        remove_all(to)?;
        rename(&aside(n), to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lost_before_it_is_kept_is_a_checkpoint_too_late() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let (session, kept) = (root.join("session"), root.join("kept"));
        let error = RunError::from(copy_tree(&session, &kept).expect_err("it is gone"));
        let failure = lost_with_program(&session, &error).expect("a failure of the run");
        assert_eq!(failure.cause, Cause::Checkpoint);
        assert!(
            failure.detail.contains(&format!("cannot read {session}")),
            "the source is named: {}",
            failure.detail
        );
        std::fs::create_dir(&session).expect("makes");
        assert_eq!(
            lost_with_program(&session, &error),
            None,
            "something else went wrong"
        );
    }
}
