//! The licence texts of all code that is linked into the programs.

use super::{
    dependencies::Dependencies,
    files::{copy, output, write},
};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Prefixes of the names of files that contain licences.
const BEGIN: [&str; 6] = [
    "license",
    "licence",
    "copying",
    "notice",
    "unlicense",
    "copyright",
];

/// Copies the licence texts of all packages, of Rust's standard library and of musl into `dir`, with a list of them.
///
/// # Errors
/// A package names no licence, neither in its manifest nor in a file, or a file cannot be copied.
pub fn write_texts(dependencies: &Dependencies, dir: &Path) -> Result<(), String> {
    let mut list = String::from(
        "# Licences of what is linked into cvc and cvc-node\n\n| package | licence | texts |\n| --- | --- | --- |\n",
    );
    for package in dependencies.0.values().filter(|p| !p.own) {
        let called = format!("{}-{}", package.name, package.version);
        let texts = texts(&package.dir)?;
        if texts.is_empty() && package.licence.is_empty() {
            return Err(format!(
                "{called}: neither a licence in its manifest nor a text"
            ));
        }
        let mut names = Vec::new();
        for text in &texts {
            let name = text.file_name().unwrap_or_default();
            copy(text, &dir.join(&called).join(name))?;
            let name = name.to_string_lossy();
            names.push(format!("[{name}]({called}/{name})"));
        }
        let names = if names.is_empty() {
            "none in the package".to_owned()
        } else {
            names.join(", ")
        };
        writeln!(list, "| {called} | {} | {names} |", package.licence).ok();
    }
    for (called, licence, from) in platform()? {
        for text in texts(&from)? {
            let name = text.file_name().unwrap_or_default();
            copy(&text, &dir.join(called).join(name))?;
        }
        writeln!(list, "| {called} | {licence} | [texts]({called}/) |").ok();
    }
    write(&dir.join("README.md"), list.as_bytes())
}

/// Returns the parts that the compiler adds: (name, licence, directory of its texts).
fn platform() -> Result<[(&'static str, &'static str, PathBuf); 2], String> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
    Ok([
        (
            "rust-std",
            "MIT OR Apache-2.0",
            sysroot.join("share/doc/rust"),
        ),
        ("musl", "MIT", "/usr/share/doc/musl".into()),
    ])
}

/// Returns the files of a directory that contain licences, sorted.
pub fn texts(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", dir.display())),
    };
    let mut texts: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .filter(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .to_lowercase();
            // a file such as `license.rs` is a module, not a licence
            BEGIN.iter().any(|b| name.starts_with(b)) && !name.ends_with(".rs")
        })
        .collect();
    texts.sort();
    Ok(texts)
}
