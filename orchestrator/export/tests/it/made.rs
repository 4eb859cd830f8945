//! A campaign and its exports.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::CampaignDir;
use cvc_export::{Description, export_ro_crate};
use cvc_index::Index;
use serde_json::Value;
use std::{collections::BTreeMap, fs};

/// A temporary directory with a campaign in `c`.
pub struct Made {
    pub dir: tempfile::TempDir,
    pub index: Index,
}

impl Made {
    pub fn new(campaign: impl FnOnce(&std::path::Path)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let of = dir.path().join("c");
        fs::create_dir(&of).expect("a directory");
        campaign(&of);
        let index =
            Index::in_temporary_file(Utf8Path::from_path(&of).expect("UTF-8")).expect("an index");
        Self { dir, index }
    }

    pub fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.dir.path())
            .expect("UTF-8")
            .join(name)
    }

    pub fn crate_of(&self, description: Description<'_>) -> Vec<Value> {
        let campaign = CampaignDir::at(&self.path("c"));
        export_ro_crate(
            &campaign,
            &self.index,
            description,
            &self.path("crate"),
            true,
        )
        .expect("a crate");
        let text = fs::read(self.path("crate/ro-crate-metadata.json")).expect("metadata");
        let document: Value = serde_json::from_slice(&text).expect("JSON");
        document["@graph"].as_array().expect("entities").clone()
    }

    /// Returns the rows of an exported table, by column name.
    pub fn rows(&self, table: &str) -> Vec<BTreeMap<String, String>> {
        csv::Reader::from_path(self.path(&format!("tables/{table}.csv")))
            .expect("a table")
            .deserialize()
            .collect::<Result<_, _>>()
            .expect("rows")
    }
}
