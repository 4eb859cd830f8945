//! Files, and what programs print.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir).map_err(|e| told(dir, &e))?;
    }
    fs::copy(from, to).map_err(|e| told(from, &e)).map(drop)
}

pub fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(|e| told(dir, &e))?;
    }
    fs::write(path, content).map_err(|e| told(path, &e))
}

/// Runs a program and returns what it printed.
pub fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start {name}: {e}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!(
        "{name}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

pub fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
