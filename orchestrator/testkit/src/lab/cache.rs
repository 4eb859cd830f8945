//! The directory of files that are made once for all labs.

use crate::user_cache::user_cache;
use std::{env, path::PathBuf};

/// Returns the directory of files that are made once for all labs: `$CVC_LAB_CACHE`, or `cvc-lab` in the user's cache.
pub fn cache() -> PathBuf {
    let of_user = || {
        user_cache()
            .unwrap_or_else(|| "/root/.cache".into())
            .join("cvc-lab")
    };
    env::var_os("CVC_LAB_CACHE")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .unwrap_or_else(of_user)
}
