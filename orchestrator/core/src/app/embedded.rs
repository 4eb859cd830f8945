//! The descriptors that cvc carries, so that it works without its repository. Files beside the campaign take precedence.

use super::descriptor::Descriptor;
use crate::{embedded, store::StoreError};
use include_dir::{Dir, include_dir};
use std::path::PathBuf;

static APPS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments/apps");

/// Directory with the descriptors of this version, written there if need be.
pub fn directory() -> Result<PathBuf, StoreError> {
    embedded::directory("apps", &APPS)
}

/// The descriptor of this version for an application, if there is one.
pub fn descriptor(name: &str) -> Option<Descriptor> {
    toml::from_str(APPS.get_file(format!("{name}.toml"))?.contents_utf8()?).ok()
}
