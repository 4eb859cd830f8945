//! Keeps the files of a checkpoint on the node that wrote them.

use super::{
    dirs::make_new_dir,
    error::LevelError,
    flow::KeptPart,
    table::{FileTable, KeptKind, KeptPath, content_path},
};
use crate::sentinel::series::{CheckpointFiles, SavedFiles};
use cvc_os::space::free_bytes;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

const BLOCK: usize = 1 << 20;
/// Mask of the permissions that are kept.
const MODE: u32 = 0o777;

/// A path to keep, with how its writer changes it.
struct FoundPath {
    path: PathBuf,
    mode: u32,
    kind: FoundKind,
}

enum FoundKind {
    /// A file that its writer may change in place: it must be copied.
    Open,
    /// A file that its writer replaces by a new file: a hard link preserves it.
    Replaced,
    Other(KeptKind),
}

/// Keeps files and directories in `checkpoint`, and returns their table.
pub(super) fn hold(
    checkpoint: &Path,
    from: &CheckpointFiles,
    also: &[PathBuf],
    saved: &mut SavedFiles,
) -> Result<FileTable, LevelError> {
    let mut found = find(from, saved)?;
    if let CheckpointFiles::Dir(dir) = from {
        scripts(dir, &mut found)?;
    }
    for dir in also {
        list(dir, &mut found)?;
    }
    let own = KeptPart::Own.dir(checkpoint);
    make_new_dir(&own)?;
    require_room(&own, &found)?;
    let mut table = FileTable::default();
    for (number, found) in found.into_iter().enumerate() {
        let to = content_path(&own, number);
        let kind = match found.kind {
            FoundKind::Other(kind) => kind,
            FoundKind::Replaced => second_name(&found.path, &to)?,
            FoundKind::Open => copy(&found.path, &to)?,
        };
        table.0.push(KeptPath {
            path: found.path,
            mode: found.mode,
            kind,
        });
    }
    if let CheckpointFiles::Own { files, .. } = from {
        for file in files {
            let now = fs::metadata(&file.path).map_err(LevelError::io(&file.path, "read"))?;
            if !file.is(&now) {
                return Err(LevelError::Changed(file.path.clone()));
            }
        }
    }
    table.write(&own)?;
    Ok(table)
}

fn find(from: &CheckpointFiles, saved: &mut SavedFiles) -> Result<Vec<FoundPath>, LevelError> {
    let state = from.list(saved)?;
    let is_of_images = matches!(from, CheckpointFiles::Dir(_));
    let mut found: Vec<FoundPath> = Vec::new();
    for file in state.files {
        // DMTCP writes an image under another name, then renames it: the image never changes in place
        let is_image = is_of_images && file.name.ends_with(".dmtcp");
        found.push(FoundPath {
            path: file.path,
            mode: file.mode & MODE,
            kind: if is_image {
                FoundKind::Replaced
            } else {
                FoundKind::Open
            },
        });
    }
    for (name, target) in state.links {
        found.push(FoundPath {
            path: state.path.join(name),
            mode: 0,
            kind: FoundKind::Other(KeptKind::Link(target.into())),
        });
    }
    Ok(found)
}

/// Lists the restart scripts. They are not part of a checkpoint's state, but a restart needs them on a node that has lost its files.
fn scripts(dir: &Path, found: &mut Vec<FoundPath>) -> Result<(), LevelError> {
    let entries = fs::read_dir(dir).map_err(LevelError::io(dir, "list"))?;
    let mut scripts = Vec::new();
    for entry in entries {
        let path = entry.map_err(LevelError::io(dir, "list"))?.path();
        if path.extension().is_some_and(|end| end == "sh") {
            scripts.push(path);
        }
    }
    scripts.sort();
    scripts.iter().try_for_each(|path| list(path, found))
}

/// Lists a directory and all paths below it, parents before their children.
fn list(dir: &Path, found: &mut Vec<FoundPath>) -> Result<(), LevelError> {
    let metadata = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(LevelError::io(dir, "read"))?,
    };
    let mode = metadata.permissions().mode() & MODE;
    let kind = metadata.file_type();
    let mut add = |kind| {
        found.push(FoundPath {
            path: dir.to_owned(),
            mode,
            kind,
        });
    };
    if kind.is_dir() {
        add(FoundKind::Other(KeptKind::Dir));
        let entries = fs::read_dir(dir).map_err(LevelError::io(dir, "list"))?;
        let mut below = Vec::new();
        for entry in entries {
            below.push(entry.map_err(LevelError::io(dir, "list"))?.path());
        }
        below.sort();
        for path in below {
            list(&path, found)?;
        }
    } else if kind.is_symlink() {
        let target = fs::read_link(dir).map_err(LevelError::io(dir, "read"))?;
        add(FoundKind::Other(KeptKind::Link(target)));
    } else if kind.is_fifo() {
        add(FoundKind::Other(KeptKind::Pipe));
    } else if kind.is_socket() {
        add(FoundKind::Other(KeptKind::Socket));
    } else if kind.is_file() {
        add(FoundKind::Open);
    }
    Ok(())
}

fn require_room(dir: &Path, found: &[FoundPath]) -> Result<(), LevelError> {
    let copied = found.iter().filter(|f| matches!(f.kind, FoundKind::Open));
    let bytes: u64 = copied
        .filter_map(|f| fs::metadata(&f.path).ok())
        .map(|m| m.len())
        .sum();
    let free = free_bytes(dir).map_err(LevelError::io(dir, "query the free space of"))?;
    if free >= bytes {
        return Ok(());
    }
    let text = format!(
        "{} MiB are needed and {} MiB are free",
        bytes.div_ceil(1 << 20),
        free >> 20
    );
    let error = io::Error::new(io::ErrorKind::StorageFull, text);
    Err(LevelError::io(dir, "write")(error))
}

/// Hard-links a file and reads it to compute its digest. Copies the file if linking is impossible.
fn second_name(from: &Path, to: &Path) -> Result<KeptKind, LevelError> {
    if fs::hard_link(from, to).is_err() {
        return copy(from, to);
    }
    let (bytes, blake3) = pass(to, |_| Ok(()))?;
    let file = File::open(to).map_err(LevelError::io(to, "open"))?;
    file.sync_data().map_err(LevelError::io(to, "sync"))?;
    Ok(KeptKind::File { bytes, blake3 })
}

/// Copies a file and syncs it to the disk.
pub(super) fn copy(from: &Path, to: &Path) -> Result<KeptKind, LevelError> {
    let mut file = File::create_new(to).map_err(LevelError::io(to, "make"))?;
    let (bytes, blake3) = pass(from, |data| {
        file.write_all(data).map_err(LevelError::io(to, "write"))
    })?;
    file.sync_data().map_err(LevelError::io(to, "sync"))?;
    Ok(KeptKind::File { bytes, blake3 })
}

/// Copies the content of a reader to a writer, and returns its length and digest.
pub(super) fn pass(
    from: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), LevelError>,
) -> Result<(u64, String), LevelError> {
    let mut file = cvc_os::regular::open(from).map_err(LevelError::io(from, "open"))?;
    let (mut buffer, mut hash, mut bytes) = (vec![0; BLOCK], blake3::Hasher::new(), 0);
    loop {
        let read = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(LevelError::io(from, "read"))?,
        };
        if read == 0 {
            return Ok((bytes, hash.finalize().to_hex().to_string()));
        }
        take(&buffer[..read])?;
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
}
