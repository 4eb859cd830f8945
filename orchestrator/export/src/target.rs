//! A directory that appears whole, and takes the place of an earlier export only.

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

/// Lists what an export wrote, in its directory.
const MARK: &str = ".cvc-export.json";

/// What the names of directories begin with that are being filled.
const TEMPORARY: &str = "export";

/// What [`MARK`] has.
#[derive(Serialize, Deserialize)]
struct Mark {
    cvc: String,
    files: Files,
}

/// The files of an export.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Files {
    /// With their SHA-256.
    Digests(BTreeMap<String, String>),
    /// As earlier versions wrote them.
    Names(BTreeSet<String>),
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
        // what was added or edited meanwhile is nobody's copy
        if let Err(refused) = check_content(&root, dir, true) {
            swap(&root, dir)?;
            return Err(refused);
        }
        remove_all(&root)?;
    } else {
        fs::rename(&root, dir).map_err(StoreError::io("rename to", dir))?;
    }
    // it has another name now, or is gone
    let _ = made.keep();
    Ok(Exported {
        path: dir.to_owned(),
        files: count,
    })
}

/// Exchanges a directory with the one at a place. Where the file system cannot do it in one step, there is none for a moment.
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

/// Removes directories that killed commands left, unless somebody else's files are in them.
fn sweep(parent: &Utf8Path) {
    for left in abandoned(parent, TEMPORARY) {
        let is_half = fs::symlink_metadata(left.join(MARK)).is_err();
        if is_half || check_content(&left, &left, true).is_ok() {
            // it does no harm where it is
            let _ = remove_all(&left);
        }
    }
}

/// Whether something is there that is replaced.
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

/// Whether a directory, which errors call `name`, has nothing, or an export alone as it was written.
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

/// The SHA-256 of a file.
fn digest(path: &Utf8Path) -> Result<String, ExportError> {
    let summed = regular::open(path.as_std_path())
        .and_then(|mut file| copy_summed(&mut file, &mut io::sink()));
    Ok(summed.map_err(StoreError::io("read", path))?.1)
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

/// Copies, and returns the number of bytes with their SHA-256.
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
