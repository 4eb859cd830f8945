//! The papers built into cvc, so that it works without its repository.

use cvc_core::embedded;

use cvc_core::store::StoreError;
use include_dir::{Dir, include_dir};
use std::path::PathBuf;

static PAPERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments/papers");

/// Returns the directory with the papers of this version of cvc. Missing files are written there.
pub fn directory() -> Result<PathBuf, StoreError> {
    embedded::directory("papers", &PAPERS)
}
