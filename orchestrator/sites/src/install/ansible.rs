//! Finds ansible-playbook on PATH, or installs it into a private Python environment.

use super::InstallError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::paths;
use cvc_core::store::StoreError;
use cvc_engine::host::{output_within, tool};
use std::{fs::File, process::Stdio, time::Duration};
use tokio::process::Command;

/// A version of ansible-core that cvc can install.
#[derive(Clone, Copy, Debug)]
pub struct PinnedAnsible {
    /// Minimum minor version of Python 3.
    pub python: u32,
    /// Version of ansible-core.
    pub version: &'static str,
    /// Requirements for pip: versions of ansible-core and its dependencies, with digests of all acceptable files.
    pub requirements: &'static str,
}

macro_rules! pinned {
    ($python:literal, $version:literal) => {
        PinnedAnsible {
            python: $python,
            version: $version,
            requirements: include_str!(concat!("requirements/ansible-core-", $version, ".txt")),
        }
    };
}

/// Versions of ansible-core that cvc installs, newest first.
pub const PINNED: [PinnedAnsible; 3] = [
    pinned!(11, "2.19.14"),
    pinned!(10, "2.17.14"),
    pinned!(9, "2.15.13"),
];
/// The oldest version that the roles support.
const MIN_VERSION: (u32, u32) = (2, 14);
const PIP_LIMIT: Duration = Duration::from_secs(900);

/// A working ansible-playbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ansible {
    /// Path of the program.
    pub playbook: Utf8PathBuf,
    /// Version of ansible-core.
    pub version: String,
}

/// Finds ansible-playbook, or installs it. `note` is called before each step that takes some time.
///
/// # Errors
/// No ansible-playbook was found, and it cannot be installed; the error names the missing software.
pub async fn ensure(note: &mut (dyn FnMut(String) + Send)) -> Result<Ansible, InstallError> {
    let path = std::env::var("PATH").unwrap_or_default();
    let on_path = paths::on_path(&["ansible-playbook"], &path);
    if let Some(found) = &on_path
        && let Some(version) = version(found).await.filter(|v| is_new(v))
    {
        return Ok(Ansible {
            playbook: found.clone(),
            version,
        });
    }
    let python = paths::on_path(&["python3"], &path).ok_or_else(no_python)?;
    let pinned = pinned(&python).await?;
    let name = format!("ansible-{}", pinned.version);
    let environment = paths::cache().join(&name);
    let playbook = environment.join("bin/ansible-playbook");
    // only one process at a time creates the environment; other processes wait and then find it
    let _lock = locked(environment.with_file_name(format!("{name}.lock"))).await?;
    if let Some(version) = version(&playbook).await {
        return Ok(Ansible { playbook, version });
    }
    note(format!(
        "installing ansible-core {} into {environment}",
        pinned.version
    ));
    bring(&python, &environment, pinned).await?;
    match version(&playbook).await {
        Some(version) => Ok(Ansible { playbook, version }),
        None => Err(InstallError::NoAnsible {
            what: format!("{playbook} was installed, but does not work"),
            hint: format!(
                "remove {environment} and repeat the command, or install ansible-core with your package manager"
            ),
        }),
    }
}

/// Returns the name of the Ansible that [`ensure`] would return or install. Does not install anything.
///
/// # Errors
/// No ansible-playbook was found, and it cannot be installed; the error names the missing software.
pub async fn look() -> Result<String, InstallError> {
    let path = std::env::var("PATH").unwrap_or_default();
    if let Some(found) = paths::on_path(&["ansible-playbook"], &path)
        && let Some(version) = version(&found).await.filter(|v| is_new(v))
    {
        return Ok(format!("ansible-core {version} at {found}"));
    }
    let python = paths::on_path(&["python3"], &path).ok_or_else(no_python)?;
    let pinned = pinned(&python).await?;
    let playbook = paths::cache()
        .join(format!("ansible-{}", pinned.version))
        .join("bin/ansible-playbook");
    Ok(match version(&playbook).await {
        Some(version) => format!("ansible-core {version} at {playbook}"),
        None => format!(
            "cvc will install ansible-core {} with {python}",
            pinned.version
        ),
    })
}

/// Returns the path of `ansible-inventory`: on PATH, or of the newest version that cvc has installed.
pub fn find_inventory_program() -> Option<Utf8PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let own = || {
        let programs = PINNED.iter().map(|pinned| {
            let environment = format!("ansible-{}", pinned.version);
            paths::cache()
                .join(environment)
                .join("bin/ansible-inventory")
        });
        programs
            .into_iter()
            .find(|program| paths::is_executable(program))
    };
    paths::on_path(&["ansible-inventory"], &path).or_else(own)
}

fn no_python() -> InstallError {
    InstallError::NoAnsible {
        what: "ansible-playbook is not installed, and without python3 cvc cannot install it".into(),
        hint: "install ansible-core 2.14 or newer, or Python 3.9 or newer".into(),
    }
}

/// Returns the version of ansible-core, if the program works.
async fn version(playbook: &Utf8Path) -> Option<String> {
    if !paths::is_executable(playbook) {
        return None;
    }
    let output = output(
        tool(playbook).arg("--version").env("LC_ALL", "C.UTF-8"),
        Duration::from_secs(60),
    )
    .await
    .ok()?;
    // the first line is `ansible-playbook [core 2.19.14]`; before 2.11 without `core`
    let word = output.0.lines().next()?.split_whitespace().next_back()?;
    Some(
        word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
            .to_owned(),
    )
    .filter(|_| output.1)
}

fn is_new(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|p| p.parse::<u32>().ok());
    matches!((parts.next(), parts.next()), (Some(major), Some(minor)) if (major, minor) >= MIN_VERSION)
}

async fn pinned(python: &Utf8Path) -> Result<&'static PinnedAnsible, InstallError> {
    let mut asking = tool(python);
    asking.args([
        "-c",
        "import sys; print(sys.version_info.major, sys.version_info.minor)",
    ]);
    let text = output(&mut asking, Duration::from_secs(60))
        .await
        .map(|s| s.0)
        .unwrap_or_default();
    let minor = text
        .trim()
        .strip_prefix("3 ")
        .and_then(|m| m.parse::<u32>().ok());
    let fits = minor.and_then(|minor| PINNED.iter().find(|pinned| minor >= pinned.python));
    fits.ok_or_else(|| InstallError::NoAnsible {
        what: format!(
            "ansible-playbook is not installed, and {python} (Python {}) is too old to install it",
            text.trim().replace(' ', ".")
        ),
        hint: "install ansible-core 2.14 or newer, or Python 3.9 or newer".into(),
    })
}

/// Locks a file until the returned value is dropped.
async fn locked(file: Utf8PathBuf) -> Result<File, InstallError> {
    let failed = StoreError::io("lock", file.clone());
    let taken = tokio::task::spawn_blocking(move || -> std::io::Result<File> {
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let handle = File::create(&file)?;
        handle.lock()?;
        Ok(handle)
    });
    Ok(taken
        .await
        .unwrap_or_else(|e| Err(std::io::Error::other(e)))
        .map_err(failed)?)
}

async fn bring(
    python: &Utf8Path,
    environment: &Utf8Path,
    pinned: &PinnedAnsible,
) -> Result<(), InstallError> {
    let version = pinned.version;
    let by_hand = "or install ansible-core 2.14 or newer with your package manager (Debian, Ubuntu: apt-get install ansible-core), or put ansible-playbook on PATH";
    let wrong = |what: String, hint: String| InstallError::NoAnsible { what, hint };
    let made = output(
        tool(python).args(["-m", "venv", "--clear", environment.as_str()]),
        PIP_LIMIT,
    )
    .await;
    match made {
        Ok((_, true)) => {}
        Ok((text, false)) => {
            let what = format!(
                "ansible-playbook is not installed, and python3 cannot create an environment for it: {}",
                last(&text)
            );
            return Err(wrong(
                what,
                format!(
                    "install Python's venv (Debian, Ubuntu: apt-get install python3-venv), {by_hand}"
                ),
            ));
        }
        Err(e) => return Err(wrong(format!("cannot start {python}: {e}"), by_hand.into())),
    }
    let requirements = environment.join("requirements.txt");
    std::fs::write(&requirements, pinned.requirements)
        .map_err(StoreError::io("write", &requirements))?;
    let mut pip = tool(environment.join("bin/python"));
    // accept only files with known digests, whatever index pip uses
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--require-hashes",
        "-r",
    ])
    .arg(&requirements);
    match output(&mut pip, PIP_LIMIT).await {
        Ok((_, true)) => Ok(()),
        Ok((text, false)) => {
            // remove a partial environment, which would look complete
            let _ = std::fs::remove_dir_all(environment);
            let offline = [
                "NewConnectionError",
                "Temporary failure in name resolution",
                "Max retries exceeded",
                "No matching distribution",
            ];
            let why = if offline.iter().any(|p| text.contains(p)) {
                "pip cannot reach the package index"
            } else {
                "pip failed"
            };
            let hint =
                format!("check the network (or set PIP_INDEX_URL to a reachable index), {by_hand}");
            Err(wrong(
                format!(
                    "ansible-playbook is not installed, and ansible-core {version} cannot be installed: {why}: {}",
                    last(&text)
                ),
                hint,
            ))
        }
        Err(e) => Err(wrong(
            format!("cannot start pip of {environment}: {e}"),
            by_hand.into(),
        )),
    }
}

/// Runs a program. Returns its output, and whether it succeeded.
async fn output(command: &mut Command, limit: Duration) -> std::io::Result<(String, bool)> {
    let ended = output_within(command.stdin(Stdio::null()), limit).await;
    let output = ended.unwrap_or_else(|_| {
        Err(std::io::Error::other(format!(
            "not done within {} s",
            limit.as_secs()
        )))
    })?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((text, output.status.success()))
}

fn last(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .rfind(|l| !l.is_empty() && !l.starts_with("[notice]"))
        .unwrap_or("it does not say why")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_and_nonsense_are_not_new() {
        assert!(is_new("2.14.18") && is_new("2.19.14") && is_new("3.0"));
        assert!(!is_new("2.10.8") && !is_new("core") && !is_new(""));
    }
}
