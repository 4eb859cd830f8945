//! The packages that are linked into the programs, without those of build scripts and tests.

use crate::workspace;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A package that is linked into a program.
pub struct Linked {
    pub name: String,
    pub version: String,
    /// SPDX expression in the package's manifest; empty if the manifest names a file instead.
    pub licence: String,
    pub description: String,
    pub repository: String,
    pub dir: PathBuf,
    /// Whether the package is a member of cvc's workspace.
    pub own: bool,
    /// SHA-256 of the package's archive, from Cargo.lock; `None` for packages of the workspace.
    pub sha256: Option<String>,
    /// Ids of the linked packages that this one depends on.
    pub needs: Vec<String>,
}

/// All linked packages, by cargo's ids.
pub struct Dependencies(pub BTreeMap<String, Linked>);

impl Dependencies {
    /// Returns the dependencies of `programs` (names of packages) on the platform `target`, with these options for features.
    pub fn of(
        root: &Path,
        programs: &[&str],
        target: &str,
        features: &[&str],
    ) -> Result<Self, String> {
        let metadata = workspace::resolved(target, features)?;
        let lock = root.join("Cargo.lock");
        let lock = fs::read_to_string(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
        let sums = checksums(&lock);
        let packages: BTreeMap<&str, &Value> = list(&metadata["packages"])
            .iter()
            .filter_map(|p| Some((p["id"].as_str()?, p)))
            .collect();
        let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
            .iter()
            .filter_map(|n| Some((n["id"].as_str()?, n)))
            .collect();
        let mut waiting: Vec<&str> = packages
            .iter()
            .filter(|(_, p)| p["source"].is_null())
            .filter(|(_, p)| programs.contains(&p["name"].as_str().unwrap_or_default()))
            .map(|(id, _)| *id)
            .collect();
        if waiting.len() != programs.len() {
            return Err(format!("cargo metadata does not know all of {programs:?}"));
        }
        let mut seen: BTreeSet<&str> = waiting.iter().copied().collect();
        let mut linked = BTreeMap::new();
        while let Some(id) = waiting.pop() {
            let package = packages
                .get(id)
                .ok_or_else(|| format!("cargo metadata does not describe {id}"))?;
            let needs: Vec<&str> = nodes.get(id).map(|n| linked_by(n)).unwrap_or_default();
            let new = needs.iter().copied().filter(|need| seen.insert(need));
            waiting.extend(new);
            linked.insert(id.to_owned(), described(package, &needs, &sums));
        }
        Ok(Self(linked))
    }
}

/// Returns the ids of a package's dependencies that are linked, without those of its build script and tests.
fn linked_by(node: &Value) -> Vec<&str> {
    list(&node["deps"])
        .iter()
        .filter(|dep| list(&dep["dep_kinds"]).iter().any(|k| k["kind"].is_null()))
        .filter_map(|dep| dep["pkg"].as_str())
        .collect()
}

fn described(package: &Value, needs: &[&str], sums: &BTreeMap<(String, String), String>) -> Linked {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let (name, version) = (text("name"), text("version"));
    Linked {
        sha256: sums.get(&(name.clone(), version.clone())).cloned(),
        licence: text("license"),
        description: text("description"),
        repository: text("repository"),
        dir: Path::new(&text("manifest_path"))
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default(),
        own: package["source"].is_null(),
        needs: needs.iter().map(|n| (*n).to_owned()).collect(),
        name,
        version,
    }
}

/// Parses the SHA-256 of each archive from a Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        block.lines().find_map(|line| {
            let (found, value) = line.split_once(" = ")?;
            (found == key).then(|| value.trim_matches('"').to_owned())
        })
    };
    lock.split("[[package]]")
        .filter_map(|block| {
            Some((
                (value(block, "name")?, value(block, "version")?),
                value(block, "checksum")?,
            ))
        })
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
