//! Seeds: sample inputs of each format.

use flate2::read::GzDecoder;
use std::{fs, io::Read, path::PathBuf};

/// A sample input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Path of the file.
    pub path: PathBuf,
    /// Bytes of the sample, as a reader receives them.
    pub bytes: Vec<u8>,
}

/// Returns the seeds of a target, sorted by name. A file `NAME.gz` is decompressed.
///
/// # Errors
/// There are no seeds, or one cannot be read.
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
