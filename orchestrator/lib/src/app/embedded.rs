//! The descriptors that cvc carries, so that it works away from its repository. Files beside the campaign come first.

use crate::{embedded, store::StoreError};
use include_dir::{Dir, include_dir};
use std::path::PathBuf;

static APPS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments/apps");

/// Directory with the descriptors of this version, written there if need be.
pub fn directory() -> Result<PathBuf, StoreError> {
    embedded::directory("apps", &APPS)
}
