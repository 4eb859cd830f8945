//! ansible-playbook: the one on PATH, or one in a private environment of Python that cvc makes when there is none.

use super::InstallError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{paths, store::StoreError};
use cvc_engine::host::{output_within, tool};
use std::{fs::File, process::Stdio, time::Duration};
use tokio::process::Command;

/// Versions of ansible-core that are brought, by the least minor version of Python 3 that they run with; the newest first.
pub const PINNED: [(u32, &str); 3] = [(11, "2.19.14"), (10, "2.17.14"), (9, "2.15.13")];
/// The oldest version that the roles support.
const OLDEST: (u32, u32) = (2, 14);
const PIP_LIMIT: Duration = Duration::from_secs(900);

/// An ansible-playbook that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ansible {
    /// The program.
    pub playbook: Utf8PathBuf,
    /// Version of ansible-core.
    pub version: String,
}

/// Finds it, or brings it. `note` hears what takes a while.
///
/// # Errors
/// When there is none and it cannot be brought, with what is missing for that.
pub async fn ensure(note: &mut (dyn FnMut(String) + Send)) -> Result<Ansible, InstallError> {
    let path = std::env::var("PATH").unwrap_or_default();
    let on_path = paths::on_path(&["ansible-playbook"], &path);
    if let Some(found) = &on_path
        && let Some(version) = version(found).await.filter(|v| is_new(v))
    {
        return Ok(Ansible { playbook: found.clone(), version });
    }
    let python = paths::on_path(&["python3"], &path).ok_or_else(|| InstallError::NoAnsible {
        what: "ansible-playbook is not installed, and there is no python3 to bring it with".into(),
        hint: "install ansible-core 2.14 or newer, or Python 3.9 or newer".into(),
    })?;
    let pinned = pinned(&python).await?;
    let environment = paths::cache().join(format!("ansible-{pinned}"));
    let playbook = environment.join("bin/ansible-playbook");
    // only one at a time makes it; the others find it made
    let _lock = locked(environment.with_file_name(format!("ansible-{pinned}.lock"))).await?;
    if let Some(version) = version(&playbook).await {
        return Ok(Ansible { playbook, version });
    }
    note(format!("ansible-core {pinned} into {environment}"));
    bring(&python, &environment, pinned).await?;
    match version(&playbook).await {
        Some(version) => Ok(Ansible { playbook, version }),
        None => Err(InstallError::NoAnsible {
            what: format!("{playbook} was installed, but does not work"),
            hint: format!("remove {environment} and type the command again, or install ansible-core by your package manager"),
        }),
    }
}

/// Its version, if it works.
async fn version(playbook: &Utf8Path) -> Option<String> {
    if !paths::is_executable(playbook) {
        return None;
    }
    let said = said(tool(playbook).arg("--version").env("LC_ALL", "C.UTF-8"), Duration::from_secs(60)).await.ok()?;
    // `ansible-playbook [core 2.19.14]`; before 2.11 without `core`
    let word = said.0.lines().next()?.split_whitespace().next_back()?;
    Some(word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()).filter(|_| said.1)
}

fn is_new(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|p| p.parse::<u32>().ok());
    matches!((parts.next(), parts.next()), (Some(major), Some(minor)) if (major, minor) >= OLDEST)
}

async fn pinned(python: &Utf8Path) -> Result<&'static str, InstallError> {
    let mut asking = tool(python);
    asking.args(["-c", "import sys; print(sys.version_info.major, sys.version_info.minor)"]);
    let text = said(&mut asking, Duration::from_secs(60)).await.map(|s| s.0).unwrap_or_default();
    let minor = text.trim().strip_prefix("3 ").and_then(|m| m.parse::<u32>().ok());
    let fits = minor.and_then(|minor| PINNED.iter().find(|(least, _)| minor >= *least));
    fits.map(|(_, version)| *version).ok_or_else(|| InstallError::NoAnsible {
        what: format!(
            "ansible-playbook is not installed, and {python} (Python {}) is too old to bring it with",
            text.trim().replace(' ', ".")
        ),
        hint: "install ansible-core 2.14 or newer, or Python 3.9 or newer".into(),
    })
}

/// Holds a file lock until it is dropped.
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
    Ok(taken.await.unwrap_or_else(|e| Err(std::io::Error::other(e))).map_err(failed)?)
}

async fn bring(python: &Utf8Path, environment: &Utf8Path, version: &str) -> Result<(), InstallError> {
    let by_hand = "or install ansible-core 2.14 or newer by your package manager (Debian, Ubuntu: apt-get install ansible-core), or put ansible-playbook on PATH";
    let wrong = |what: String, hint: String| InstallError::NoAnsible { what, hint };
    let made = said(tool(python).args(["-m", "venv", "--clear", environment.as_str()]), PIP_LIMIT).await;
    match made {
        Ok((_, true)) => {}
        Ok((text, false)) => {
            let what = format!("ansible-playbook is not installed, and python3 cannot make an environment for it: {}", last(&text));
            return Err(wrong(what, format!("install Python's venv (Debian, Ubuntu: apt-get install python3-venv), {by_hand}")));
        }
        Err(e) => return Err(wrong(format!("cannot start {python}: {e}"), by_hand.into())),
    }
    let mut pip = tool(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", &format!("ansible-core=={version}")]);
    match said(&mut pip, PIP_LIMIT).await {
        Ok((_, true)) => Ok(()),
        Ok((text, false)) => {
            // what is half there must not look whole
            let _ = std::fs::remove_dir_all(environment);
            let offline =
                ["NewConnectionError", "Temporary failure in name resolution", "Max retries exceeded", "No matching distribution"];
            let why = if offline.iter().any(|p| text.contains(p)) { "pip does not reach the package index" } else { "pip failed" };
            let hint = format!("check the network (or set PIP_INDEX_URL to an index that can be reached), {by_hand}");
            Err(wrong(
                format!("ansible-playbook is not installed, and ansible-core {version} cannot be brought: {why}: {}", last(&text)),
                hint,
            ))
        }
        Err(e) => Err(wrong(format!("cannot start pip of {environment}: {e}"), by_hand.into())),
    }
}

/// Output of a program, and whether it succeeded.
async fn said(command: &mut Command, limit: Duration) -> std::io::Result<(String, bool)> {
    let ended = output_within(command.stdin(Stdio::null()), limit).await;
    let output = ended.unwrap_or_else(|_| Err(std::io::Error::other(format!("not done within {} s", limit.as_secs()))))?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok((text, output.status.success()))
}

fn last(text: &str) -> String {
    text.lines().map(str::trim).rfind(|l| !l.is_empty() && !l.starts_with("[notice]")).unwrap_or("it does not say why").to_owned()
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
