//! The papers that cvc carries, so that it works away from its repository.

use cvc_core::embedded;

use cvc_core::store::StoreError;
use include_dir::{Dir, include_dir};
use std::path::PathBuf;

static PAPERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments/papers");

/// Directory with the papers of this version, written there if need be.
pub fn directory() -> Result<PathBuf, StoreError> {
    embedded::directory("papers", &PAPERS)
}
