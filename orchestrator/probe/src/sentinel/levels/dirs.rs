//! Directories of kept checkpoints.

use super::error::LevelError;
use cvc_os::tree::remove_tree;
use std::{fs, io, path::Path};

/// Creates a checkpoint's directory anew, with missing parents below the run's own directory. Fails if the run's own directory does not exist.
pub(super) fn make_new_dir(dir: &Path) -> Result<(), LevelError> {
    remove(dir)?;
    let above = dir.ancestors().take(3).collect::<Vec<_>>();
    for dir in above.into_iter().rev() {
        match fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(LevelError::io(dir, "make")(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Removes a directory with its contents; a missing one is not an error.
pub(super) fn remove(dir: &Path) -> Result<(), LevelError> {
    match remove_tree(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(LevelError::io(dir, "remove")(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
