//! Compiles test programs, lists their tests, and runs them in the environment that cargo would set.

use super::arguments::{Arguments, Ignored};
use crate::{interrupt::Interrupts, workspace};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A compiled test program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Package name, followed by the target name if that differs: `cvc`, `cvc::cloud`.
    pub name: String,
    /// Kind of the target: `lib`, `bin`, `test`, `example`.
    pub kind: String,
    executable: PathBuf,
    directory: PathBuf,
    environment: Vec<(String, String)>,
}

/// The result of the compilation.
#[derive(Debug, Default)]
pub struct Compiled {
    /// All test programs.
    pub programs: Vec<Program>,
    /// Packages with a library, which may have documentation tests.
    pub libraries: BTreeSet<String>,
}

/// Compiles the test programs. Returns `None` if compilation fails; cargo has printed the errors.
pub fn compile(arguments: &Arguments, interrupts: &Interrupts) -> Result<Option<Compiled>, String> {
    let mut command = workspace::cargo();
    command.args([
        "test",
        "--no-run",
        "--locked",
        "--message-format=json-render-diagnostics",
    ]);
    command.args(arguments.selection()).args(&arguments.cargo);
    without_our_own(&mut command);
    command
        .current_dir(workspace::root()?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let packages = workspace::described()?;
    let (artifacts, status) = interrupts.start(&mut command, |child| {
        let mut artifacts = Vec::new();
        for line in child
            .stdout
            .take()
            .into_iter()
            .flat_map(|output| BufReader::new(output).lines())
        {
            if let Ok(message) = serde_json::from_str::<Value>(&line?)
                && message["reason"] == "compiler-artifact"
            {
                artifacts.push(message);
            }
        }
        Ok((artifacts, child.wait()?))
    })?;
    if !status.success() {
        return Ok(None);
    }
    if arguments.is_everything() && !compile_benches(interrupts)? {
        return Ok(None);
    }
    let mut compiled = collect(&artifacts, &packages);
    give_node_program(&mut compiled.programs)?;
    Ok(Some(compiled))
}

/// Compiles the benchmarks without running them, so that changes that break them are noticed. Returns whether the compilation succeeded.
fn compile_benches(interrupts: &Interrupts) -> Result<bool, String> {
    let mut command = workspace::cargo();
    command.args([
        "test",
        "--no-run",
        "--locked",
        "--quiet",
        "--workspace",
        "--benches",
    ]);
    without_our_own(&mut command);
    command.current_dir(workspace::root()?).stdin(Stdio::null());
    let status = interrupts.start(&mut command, std::process::Child::wait)?;
    Ok(status.success())
}

/// Packages whose tests start `cvc-node`.
const STARTS_NODE_PROGRAM: [&str; 2] = ["cvc", "cvc-probe"];
/// Environment variable with the path of the `cvc-node` that tests start.
const NODE_PROGRAM: &str = "CVC_NODE_PROGRAM";

/// Builds the static `cvc-node` once for all tests, instead of once in each test, and sets its path in the programs' environment.
fn give_node_program(programs: &mut [Program]) -> Result<(), String> {
    let needs = |p: &&mut Program| {
        STARTS_NODE_PROGRAM
            .iter()
            .any(|package| p.name.split("::").next() == Some(package))
    };
    let mut users: Vec<&mut Program> = programs.iter_mut().filter(needs).collect();
    if users.is_empty() || std::env::var_os(NODE_PROGRAM).is_some() {
        return Ok(());
    }
    let path = crate::node::build(false)?.display().to_string();
    users
        .iter_mut()
        .for_each(|p| p.environment.push((NODE_PROGRAM.into(), path.clone())));
    Ok(())
}

fn collect(artifacts: &[Value], packages: &[Value]) -> Compiled {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut binaries: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for artifact in artifacts
        .iter()
        .filter(|a| a["target"]["kind"][0] == "bin" && a["profile"]["test"] == false)
    {
        if let Some(executable) = artifact["executable"].as_str() {
            let name = format!("CARGO_BIN_EXE_{}", text(&artifact["target"]["name"]));
            binaries
                .entry(text(&artifact["package_id"]))
                .or_default()
                .push((name, executable.to_owned()));
        }
    }
    let mut compiled = Compiled::default();
    for artifact in artifacts.iter().filter(|a| a["profile"]["test"] == true) {
        let (Some(executable), id) = (
            artifact["executable"].as_str(),
            text(&artifact["package_id"]),
        ) else {
            continue;
        };
        let Some(package) = packages.iter().find(|p| p["id"] == artifact["package_id"]) else {
            continue;
        };
        let (of_package, of_target, kind) = (
            text(&package["name"]),
            text(&artifact["target"]["name"]),
            text(&artifact["target"]["kind"][0]),
        );
        if kind.ends_with("lib") {
            compiled.libraries.insert(of_package.clone());
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let same = kind.ends_with("lib") || of_target == of_package;
        let mut environment = package_environment(package);
        environment.extend(binaries.get(&id).into_iter().flatten().cloned());
        compiled.programs.push(Program {
            name: if same {
                of_package
            } else {
                format!("{of_package}::{of_target}")
            },
            kind,
            executable: executable.into(),
            directory: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
            environment,
        });
    }
    compiled.programs.sort_by(|a, b| a.name.cmp(&b.name));
    compiled
}

/// Returns the variables that cargo sets for programs of a package.
fn package_environment(package: &Value) -> Vec<(String, String)> {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let (manifest, version) = (text("manifest_path"), text("version"));
    let directory = Path::new(&manifest)
        .parent()
        .map(|d| d.display().to_string())
        .unwrap_or_default();
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let part = |at: usize| core.split('.').nth(at).unwrap_or_default().to_owned();
    let authors: Vec<&str> = package["authors"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let pre = version
        .split_once('-')
        .map(|(_, pre)| pre.split('+').next().unwrap_or_default().to_owned())
        .unwrap_or_default();
    let variables = [
        ("CARGO_MANIFEST_DIR", directory),
        ("CARGO_MANIFEST_PATH", manifest),
        ("CARGO_PKG_NAME", text("name")),
        ("CARGO_PKG_VERSION_MAJOR", part(0)),
        ("CARGO_PKG_VERSION_MINOR", part(1)),
        ("CARGO_PKG_VERSION_PATCH", part(2)),
        ("CARGO_PKG_VERSION_PRE", pre),
        ("CARGO_PKG_VERSION", version.clone()),
        ("CARGO_PKG_AUTHORS", authors.join(":")),
        ("CARGO_PKG_DESCRIPTION", text("description")),
        ("CARGO_PKG_HOMEPAGE", text("homepage")),
        ("CARGO_PKG_REPOSITORY", text("repository")),
        ("CARGO_PKG_LICENSE", text("license")),
        ("CARGO_PKG_LICENSE_FILE", text("license_file")),
        ("CARGO_PKG_RUST_VERSION", text("rust_version")),
        ("CARGO_PKG_README", text("readme")),
    ];
    variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Removes the variables that cargo has set for xtask from a command's environment.
pub fn without_our_own(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|n| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
                .iter()
                .any(|p| n.starts_with(p))
                || n == "CARGO_CRATE_NAME"
                || n == "CARGO_PRIMARY_PACKAGE"
        });
        if of_package {
            command.env_remove(&name);
        }
    }
}

impl Program {
    /// Returns a program for unit tests.
    #[cfg(test)]
    pub fn stand_in(name: &str, kind: &str, executable: PathBuf, directory: PathBuf) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            executable,
            directory,
            environment: Vec::new(),
        }
    }

    /// Returns a command that runs the program in the directory and environment that cargo uses for tests.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        without_our_own(&mut command);
        command
            .current_dir(&self.directory)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Returns the names of the tests to run, and of the ignored ones.
    pub fn list(&self, arguments: &Arguments) -> Result<(Vec<String>, Vec<String>), String> {
        let list = |also: &[&str]| -> Result<Vec<String>, String> {
            let mut command = self.command();
            let output = command
                .args(["--list", "--format", "terse"])
                .args(also)
                .args(&arguments.filters)
                .stderr(Stdio::inherit())
                .output();
            let output =
                output.map_err(|e| format!("cannot start {}: {e}", self.executable.display()))?;
            if !output.status.success() {
                return Err(format!(
                    "{} --list: {}",
                    self.executable.display(),
                    output.status
                ));
            }
            Ok(String::from_utf8_lossy(&output.stdout)
                .lines()
                .filter_map(|l| l.strip_suffix(": test"))
                .map(str::to_owned)
                .collect())
        };
        let ignored = list(&["--ignored"])?;
        Ok(match arguments.ignored {
            Ignored::Only => (ignored, Vec::new()),
            Ignored::Include => (list(&["--include-ignored"])?, Vec::new()),
            Ignored::Skip => {
                let marked: BTreeSet<&String> = ignored.iter().collect();
                let all = list(&[])?;
                (
                    all.into_iter().filter(|t| !marked.contains(t)).collect(),
                    ignored,
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_are_named_by_package_and_target_and_get_the_variables_of_their_package() {
        let packages = [
            json!({ "id": "a 1", "name": "a", "version": "1.2.3-rc.1", "manifest_path": "/x/a/Cargo.toml", "authors": ["me", "you"] }),
        ];
        let artifact = |name: &str, kind: &str, test: bool, executable: &str| json!({ "package_id": "a 1", "target": { "name": name, "kind": [kind] }, "profile": { "test": test }, "executable": executable });
        let artifacts = [
            artifact("it", "test", true, "/t/it-1"),
            artifact("a", "lib", true, "/t/a-1"),
            artifact("tool", "bin", false, "/t/tool"),
            artifact("tool", "bin", true, "/t/tool-1"),
            json!({ "package_id": "other 1", "target": { "name": "o", "kind": ["lib"] }, "profile": { "test": true }, "executable": "/t/o" }),
        ];
        let compiled = collect(&artifacts, &packages);
        let names: Vec<&str> = compiled.programs.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["a", "a::it", "a::tool"]);
        assert_eq!(compiled.libraries, BTreeSet::from(["a".to_owned()]));
        let has = |name: &str, value: &str| {
            compiled.programs[1]
                .environment
                .contains(&(name.to_owned(), value.to_owned()))
        };
        assert!(
            has("CARGO_BIN_EXE_tool", "/t/tool")
                && has("CARGO_MANIFEST_DIR", "/x/a")
                && has("CARGO_PKG_AUTHORS", "me:you")
        );
        assert!(has("CARGO_PKG_VERSION_PATCH", "3") && has("CARGO_PKG_VERSION_PRE", "rc.1"));
        assert_eq!(compiled.programs[1].directory, Path::new("/x/a"));
    }
}
