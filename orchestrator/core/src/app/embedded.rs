//! The descriptors that are built into cvc, so that it works without its repository. Files next to the campaign take precedence.

use super::descriptor::Descriptor;
use crate::{embedded, store::StoreError};
use include_dir::{Dir, include_dir};
use std::{collections::HashMap, path::PathBuf, sync::LazyLock};

static APPS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments/apps");

/// Returns the directory with the descriptors of this version; writes them there if necessary.
pub fn directory() -> Result<PathBuf, StoreError> {
    embedded::directory("apps", &APPS)
}

static DESCRIPTORS: LazyLock<HashMap<String, Descriptor>> = LazyLock::new(|| {
    let texts = APPS.files().filter_map(|file| file.contents_utf8());
    let descriptors = texts.filter_map(|text| toml::from_str::<Descriptor>(text).ok());
    descriptors.map(|of| (of.name.clone(), of)).collect()
});

/// Returns the descriptor of this version for an application, if there is one.
pub fn descriptor(name: &str) -> Option<&'static Descriptor> {
    DESCRIPTORS.get(name)
}
