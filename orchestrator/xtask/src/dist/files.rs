//! Helpers for files, and for the output of programs.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// The programs of a distribution.
pub const PROGRAMS: [&str; 2] = ["cvc", "cvc-node"];

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

/// Runs a program and returns its output.
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

/// Packs a directory below `into`; the same content gives the same bytes.
pub fn tar(into: &Path, name: &str, time_s: &str, archive: &Path) -> Result<(), String> {
    output(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
            .args(["--mode=u=rwX,go=rX", "--use-compress-program=gzip -9n"])
            .arg(format!("--mtime=@{time_s}"))
            .arg("-cf")
            .arg(archive)
            .arg("-C")
            .arg(into)
            .arg(name),
    )
    .map(drop)
}

/// Returns the files below a directory, sorted.
pub fn below(dir: &Path) -> Result<Vec<String>, String> {
    let found = output(
        Command::new("find")
            .args([".", "-type", "f", "-printf", "%P\\0"])
            .current_dir(dir),
    )?;
    let found = String::from_utf8_lossy(&found).into_owned();
    let mut files: Vec<String> = found
        .split('\0')
        .filter(|file| !file.is_empty())
        .map(str::to_owned)
        .collect();
    files.sort_unstable();
    Ok(files)
}
