//! DMTCP, where it is installed.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Returns the directory of DMTCP's programs: `$CVC_DMTCP_ROOT/bin`, else from PATH, else in /usr/local. `None` if DMTCP is not installed.
pub fn bin() -> Option<PathBuf> {
    let given = env::var_os("CVC_DMTCP_ROOT").map(|root| Path::new(&root).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    given
        .into_iter()
        .chain(env::split_paths(&path))
        .chain([PathBuf::from("/usr/local/bin")])
        .find(|dir| dir.join("mtcp_restart").is_file())
}
