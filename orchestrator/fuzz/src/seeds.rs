//! Samples of each format.

use flate2::read::GzDecoder;
use std::{fs, io::Read, path::PathBuf};

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Its file.
    pub path: PathBuf,
    /// Its bytes, as a reader gets them.
    pub bytes: Vec<u8>,
}

/// The seeds of a target, by name. A file `NAME.gz` is kept compressed, and is a seed of what is in it.
///
/// # Errors
/// When there are none, or one cannot be read.
pub fn seeds(target: &str) -> Result<Vec<Seed>, String> {
    let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/seeds")).join(target);
    let fail = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .map_err(fail)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let mut bytes = fs::read(&path).map_err(fail)?;
        if path.extension().is_some_and(|e| e == "gz") {
            let mut inflated = Vec::new();
            GzDecoder::new(bytes.as_slice())
                .read_to_end(&mut inflated)
                .map_err(fail)?;
            bytes = inflated;
        }
        all.push(Seed { path, bytes });
    }
    if all.is_empty() {
        Err(format!("{}: no seeds", dir.display()))
    } else {
        Ok(all)
    }
}
