//! Copying a directory, with sockets and links as what they are.

use super::{mounts::absolute, remove};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Makes `to` a copy of `from`; what was there before goes.
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
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("cannot copy {} to {}: {}", from.display(), to.display(), said.trim()))
        }
        Err(e) => Err(format!("cannot start cp: {e}")),
    }
}
