//! Copies directories, keeping sockets and links.

use super::{mounts::absolute, remove};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Replaces `to` by a copy of `from`.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    absolute(from)?;
    absolute(to)?;
    remove::all_removable(&[to.to_owned()])?;
    remove::remove_one(to)?;
    // session directories hold sockets and named pipes, which cp keeps
    let copied = Command::new("cp").arg("-a").arg("--").arg(from).arg(to).stdin(Stdio::null()).output();
    match copied {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            Err(format!("cannot copy {} to {}: {}", from.display(), to.display(), message.trim()))
        }
        Err(e) => Err(format!("cannot start cp: {e}")),
    }
}
