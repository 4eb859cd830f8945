//! The directory of what is made once for all labs.

use std::{env, path::PathBuf};

/// Returns the directory of things that are made once for all labs: `$CVC_LAB_CACHE`, or `cvc-lab` in the user's cache.
pub fn cache() -> PathBuf {
    let of_user = || {
        let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
        base.unwrap_or_else(|| PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache")).join("cvc-lab")
    };
    env::var_os("CVC_LAB_CACHE").map(PathBuf::from).filter(|p| p.is_absolute()).unwrap_or_else(of_user)
}
