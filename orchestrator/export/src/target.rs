//! A target directory that appears only when complete, and replaces nothing but an earlier export.

use crate::error::ExportError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::{
    StoreError, abandoned, exchange, own_prefix, regular, remove_all, write_whole,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read, Write},
};

/// Name of the file in an export that lists the export's files.
const MARK: &str = ".cvc-export.json";

/// Prefix of the names of temporary directories.
const TEMPORARY: &str = "export";

/// The content of [`MARK`].
#[derive(Serialize, Deserialize)]
struct Mark {
    cvc: String,
    files: Files,
}

/// The files listed in an export.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Files {
    /// The names with their SHA-256 digests.
    Digests(BTreeMap<String, String>),
    /// Only the names, in the format of earlier versions.
    Names(BTreeSet<String>),
}

/// A finished export.
#[derive(Debug)]
pub struct Exported {
    /// Path of the directory.
    pub path: Utf8PathBuf,
    /// Number of files in it.
    pub files: usize,
}

/// Creates a directory: `fill` writes into a temporary directory, which is renamed when complete.
///
/// # Errors
/// The target exists and may not be replaced, files cannot be written, or `fill` fails.
pub(crate) fn make(
    dir: &Utf8Path,
    replace: bool,
    fill: impl FnOnce(&Utf8Path) -> Result<(), ExportError>,
) -> Result<Exported, ExportError> {
    // follows a link to a directory: the directory is replaced, and the link is kept
    let linked = dir.is_symlink().then(|| dir.canonicalize_utf8().ok());
    let dir = linked.as_ref().and_then(Option::as_deref).unwrap_or(dir);
    let is_there = check(dir, replace)?;
    let parent = match dir.parent() {
        Some(parent) if parent != "" => parent,
        _ => Utf8Path::new("."),
    };
    fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
    sweep(parent);
    let made = own_prefix(TEMPORARY)
        .and_then(|prefix| tempfile::Builder::new().prefix(&prefix).tempdir_in(parent))
        .map_err(StoreError::io("create a directory in", parent))?;
    let root = Utf8PathBuf::from(made.path().to_string_lossy().into_owned());
    fill(&root)?;
    let digests: BTreeMap<String, String> = files(&root)?
        .into_iter()
        .map(|name| Ok((name.clone(), digest(&root.join(name))?)))
        .collect::<Result<_, ExportError>>()?;
    let count = digests.len();
    let mark = Mark {
        cvc: env!("CARGO_PKG_VERSION").to_owned(),
        files: Files::Digests(digests),
    };
    let path = root.join(MARK);
    write_whole(&path, &json(&mark, &path)?)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&root, mode).map_err(StoreError::io("set the permissions of", &root))?;
    if is_there {
        swap(&root, dir)?;
        // files that were added or edited since the first check would be lost
        if let Err(refused) = check_content(&root, dir, true) {
            swap(&root, dir)?;
            return Err(refused);
        }
        remove_all(&root)?;
    } else {
        fs::rename(&root, dir).map_err(StoreError::io("rename to", dir))?;
    }
    // fails because the directory was renamed or removed
    let _ = made.keep();
    Ok(Exported {
        path: dir.to_owned(),
        files: count,
    })
}

/// Exchanges the directories at `root` and `dir`. If the file system cannot do this atomically, `dir` does not exist for a moment.
fn swap(root: &Utf8Path, dir: &Utf8Path) -> Result<(), ExportError> {
    if exchange(root.as_std_path(), dir.as_std_path()).is_ok() {
        return Ok(());
    }
    let aside = Utf8PathBuf::from(format!("{root}-aside"));
    let renamed = fs::rename(dir, &aside)
        .and_then(|()| fs::rename(root, dir).inspect_err(|_| drop(fs::rename(&aside, dir))))
        .and_then(|()| fs::rename(&aside, root));
    Ok(renamed.map_err(StoreError::io("rename to", dir))?)
}

/// Removes temporary directories that killed commands left, unless they contain other files.
fn sweep(parent: &Utf8Path) {
    for left in abandoned(parent, TEMPORARY) {
        let is_half = fs::symlink_metadata(left.join(MARK)).is_err();
        if is_half || check_content(&left, &left, true).is_ok() {
            // a directory that cannot be removed is harmless
            let _ = remove_all(&left);
        }
    }
}

/// Returns whether the target exists. Returns an error if it exists and may not be replaced.
fn check(dir: &Utf8Path, replace: bool) -> Result<bool, ExportError> {
    match fs::symlink_metadata(dir) {
        Err(_) => Ok(false),
        Ok(found) if found.is_dir() => check_content(dir, dir, replace).map(|()| true),
        Ok(_) => Err(ExportError::Exists {
            path: dir.to_owned(),
            is_export: false,
        }),
    }
}

/// Checks that a directory is empty or, if it may be replaced, that it contains only an unchanged export. Error messages call the directory `name`.
fn check_content(dir: &Utf8Path, name: &Utf8Path, replace: bool) -> Result<(), ExportError> {
    let exists = |is_export| ExportError::Exists {
        path: name.to_owned(),
        is_export,
    };
    let found = files(dir)?;
    let mark = regular::read(dir.join(MARK).as_std_path())
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok());
    let Some(mark) = mark else {
        return if found.is_empty() {
            Ok(())
        } else {
            Err(exists(false))
        };
    };
    if !replace {
        return Err(exists(true));
    }
    for file in found.into_iter().filter(|file| file != MARK) {
        let (is_own, written) = match &mark.files {
            Files::Digests(digests) => (digests.contains_key(&file), digests.get(&file)),
            Files::Names(names) => (names.contains(&file), None),
        };
        let dir_name = name.to_owned();
        if !is_own {
            return Err(ExportError::Foreign {
                dir: dir_name,
                file,
            });
        }
        if let Some(written) = written
            && digest(&dir.join(&file)).ok().as_ref() != Some(written)
        {
            return Err(ExportError::Edited {
                dir: dir_name,
                file,
            });
        }
    }
    Ok(())
}

/// Returns the SHA-256 digest of a file.
fn digest(path: &Utf8Path) -> Result<String, ExportError> {
    let summed = regular::open(path.as_std_path())
        .and_then(|mut file| copy_summed(&mut file, &mut io::sink()));
    Ok(summed.map_err(StoreError::io("read", path))?.1)
}

/// Returns all files below a directory, as paths relative to it.
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

/// Copies data; returns their length in bytes and their SHA-256 digest.
pub(crate) fn copy_summed(from: &mut impl Read, to: &mut impl Write) -> io::Result<(u64, String)> {
    let (mut bytes, mut sum) = (0, Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..read])?;
        sum.update(&buffer[..read]);
        bytes += read as u64;
    }
    Ok((bytes, hex(&sum.finalize())))
}

/// Serialises a value as the content of a JSON file; `path` is for error messages.
pub(crate) fn json(value: &impl Serialize, path: &Utf8Path) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| StoreError::io("write", path)(error.into()))?;
    text.push(b'\n');
    Ok(text)
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
