//! The session files of the MPI library, which a restart opens again: kept while they are there, and put back.

use super::dmtcp_run::DmtcpRun;
use crate::run::{RunError, RunFailure, SESSION, SOON};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::outcome::Cause;
use cvc_core::store::copy_tree;

/// Keeps the session files of a run, which MPI libraries remove when they end and open again after a restart. To be called before the
/// checkpoint is asked for: after it the program may end at any time.
pub(super) async fn keep_session_files(of: &DmtcpRun<'_>) -> Result<(), RunError> {
    let (used, layout) = (&of.run.used, &of.layout);
    copy_tree(&layout.tmpdir, &session(of, &used.head.name))?;
    for node in used.others() {
        let kept = session(of, node).into();
        used.crew
            .copy(&[node], layout.tmpdir.as_std_path(), kept, SOON)
            .await
            .into_iter()
            .try_for_each(|(_, done)| done)?;
    }
    Ok(())
}

/// The failure of a run whose session files could not be kept because its program, and they with it, was gone; `None` if they are there.
pub(super) fn without_session_files(of: &DmtcpRun<'_>, error: &RunError) -> Option<RunFailure> {
    gone_with_program(&of.layout.tmpdir, error)
}

fn gone_with_program(session: &Utf8Path, error: &RunError) -> Option<RunFailure> {
    if session.exists() {
        return None;
    }
    let detail = format!(
        "the program ended before its checkpoint was asked for, and the files of its session in {session}, which the restart needs, are gone \
         ({error}): choose an earlier moment, or a larger workload or more steps"
    );
    Some(RunFailure::new(Cause::Checkpoint, detail))
}

/// Where the session files of a node are kept: beside those of others, where all see the same files.
pub(super) fn session(of: &DmtcpRun<'_>, node: &str) -> Utf8PathBuf {
    if node == of.run.used.head.name {
        of.run.work.join(SESSION)
    } else {
        of.run.work.join(format!("{SESSION}-{node}"))
    }
}

/// Gives the other nodes their session files again; this one gets its own by the script of the restart.
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
        assert!(
            failure.detail.contains(&format!("cannot read {session}")),
            "the source is named: {}",
            failure.detail
        );
        std::fs::create_dir(&session).expect("makes");
        assert_eq!(
            gone_with_program(&session, &error),
            None,
            "something else went wrong"
        );
    }
}
