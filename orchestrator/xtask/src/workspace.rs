//! Reads the packages of the workspace from cargo.

use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A member of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Directory of the package.
    pub dir: PathBuf,
    /// The package's libraries, programs, tests, benchmarks and examples.
    pub targets: Vec<Target>,
    /// Dependencies on other members.
    pub needs: Vec<Need>,
}

/// A library, program, test, benchmark or example.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name of the target.
    pub name: String,
    /// Kind of the target: `lib`, `bin`, `test`, `bench`, `example`.
    pub kind: String,
    /// Root file of the target.
    pub root: PathBuf,
}

/// A dependency on another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Name of the other member.
    pub package: String,
    /// Whether it is a dev-dependency.
    pub dev: bool,
}

/// Returns the members, sorted by name.
pub fn packages() -> Result<Vec<Package>, String> {
    let mut packages: Vec<Package> = described()?.iter().map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

/// Returns the members as cargo describes them.
pub fn described() -> Result<Vec<Value>, String> {
    let metadata = metadata(&["--no-deps"])?;
    Ok(list(&metadata, "packages").to_vec())
}

/// Returns all packages and their dependencies on a platform with these options for features, as cargo describes them.
pub fn resolved(target: &str, features: &[&str]) -> Result<Value, String> {
    metadata(&[&["--locked", "--filter-platform", target], features].concat())
}

fn metadata(arguments: &[&str]) -> Result<Value, String> {
    let mut command = cargo();
    command
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .current_dir(root()?);
    let answer = command
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !answer.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&answer.stderr).trim()
        ));
    }
    serde_json::from_slice(&answer.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

fn package(value: &Value) -> Package {
    let manifest = PathBuf::from(text(value, "manifest_path"));
    let needs = list(value, "dependencies")
        .iter()
        .filter(|d| d["path"].is_string());
    Package {
        name: text(value, "name"),
        dir: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
        targets: list(value, "targets").iter().map(target).collect(),
        needs: needs
            .map(|d| Need {
                package: text(d, "name"),
                dev: d["kind"] == "dev",
            })
            .collect(),
    }
}

fn target(value: &Value) -> Target {
    // a library may have several kinds (`rlib`, `cdylib`), which do not matter here
    let kind = list(value, "kind")
        .first()
        .and_then(Value::as_str)
        .unwrap_or_default();
    let kind = if kind.ends_with("lib") { "lib" } else { kind };
    Target {
        name: text(value, "name"),
        kind: kind.to_owned(),
        root: text(value, "src_path").into(),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Returns the root of the repository.
pub fn root() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..")
        .canonicalize()
        .map_err(|e| format!("{}: {e}", here.display()))
}

/// Returns a command for the same cargo that runs this program.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
