//! A directory that appears whole, and takes the place of an earlier export only.

use crate::error::ExportError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::{StoreError, remove_all, write_whole};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fs};

/// Lists what an export wrote, in its directory.
const MARK: &str = ".cvc-export.json";

/// What [`MARK`] has.
#[derive(Serialize, Deserialize)]
struct Mark {
    cvc: String,
    files: BTreeSet<String>,
}

/// What was exported.
#[derive(Debug)]
pub struct Exported {
    /// Where.
    pub path: Utf8PathBuf,
    /// Number of its files.
    pub files: usize,
}

/// Makes a directory by `fill`, which writes into another one that then gets its name.
///
/// # Errors
/// When something is there that may not be replaced, or files cannot be written, and those of `fill`.
pub(crate) fn make(
    dir: &Utf8Path,
    replace: bool,
    fill: impl FnOnce(&Utf8Path) -> Result<(), ExportError>,
) -> Result<Exported, ExportError> {
    // a link to a directory is followed: the directory is replaced, and the link stays
    let linked = dir.is_symlink().then(|| dir.canonicalize_utf8().ok());
    let dir = linked.as_ref().and_then(Option::as_deref).unwrap_or(dir);
    let is_there = check(dir, replace)?;
    let parent = match dir.parent() {
        Some(parent) if parent != "" => parent,
        _ => Utf8Path::new("."),
    };
    fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
    let made = tempfile::Builder::new()
        .prefix(".export-")
        .tempdir_in(parent)
        .map_err(StoreError::io("create a directory in", parent))?;
    let root = Utf8PathBuf::from(made.path().to_string_lossy().into_owned());
    fill(&root)?;
    let files = files(&root)?;
    let count = files.len();
    let mark = Mark {
        cvc: env!("CARGO_PKG_VERSION").to_owned(),
        files,
    };
    let path = root.join(MARK);
    write_whole(&path, &json(&mark, &path)?)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&root, mode).map_err(StoreError::io("set the permissions of", &root))?;
    if is_there {
        // between the two steps there is none; a second name would need a place of its own
        remove_all(dir)?;
    }
    fs::rename(&root, dir).map_err(StoreError::io("rename to", dir))?;
    // it has another name now
    let _ = made.keep();
    Ok(Exported {
        path: dir.to_owned(),
        files: count,
    })
}

/// Whether something is there that is replaced.
fn check(dir: &Utf8Path, replace: bool) -> Result<bool, ExportError> {
    if fs::symlink_metadata(dir).is_err() {
        return Ok(false);
    }
    let exists = |is_export| ExportError::Exists {
        path: dir.to_owned(),
        is_export,
    };
    let is_dir = fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir());
    if !is_dir {
        return Err(exists(false));
    }
    let found = files(dir)?;
    let mark = fs::read(dir.join(MARK))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok());
    let Some(mark) = mark else {
        return if found.is_empty() {
            Ok(true)
        } else {
            Err(exists(false))
        };
    };
    if !replace {
        return Err(exists(true));
    }
    match found
        .into_iter()
        .find(|file| file != MARK && !mark.files.contains(file))
    {
        Some(file) => Err(ExportError::Foreign {
            dir: dir.to_owned(),
            file,
        }),
        None => Ok(true),
    }
}

/// All that is below a directory and no directory itself, relative to it.
pub(crate) fn files(dir: &Utf8Path) -> Result<BTreeSet<String>, ExportError> {
    let mut found = BTreeSet::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).map_err(StoreError::io("read", &next))? {
            let entry = entry.map_err(StoreError::io("read", &next))?;
            let path = next.join(entry.file_name().to_string_lossy().as_ref());
            let kind = entry.file_type().map_err(StoreError::io("read", &path))?;
            if kind.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap_or(&path);
                found.insert(name.to_string());
            }
        }
    }
    Ok(found)
}

/// A value as a JSON file.
pub(crate) fn json(value: &impl Serialize, path: &Utf8Path) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| StoreError::io("write", path)(error.into()))?;
    text.push(b'\n');
    Ok(text)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
