//! Input files that a descriptor references by path, such as a mesh.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Read, Write},
};

/// Number of bytes that are read at once.
const BLOCK: usize = 1 << 20;

/// A file that is copied into the working directory of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Path of the copy in the working directory.
    pub path: String,
    /// Path of the original: absolute, on the machine that copies it.
    pub source: Utf8PathBuf,
    /// Length, bytes.
    pub bytes: u64,
    /// BLAKE3 digest (hexadecimal) of the content.
    pub blake3: String,
}

/// Why a file was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The original cannot be read.
    #[error("cannot read the input file {path}: {error}")]
    Read {
        /// The original.
        path: Utf8PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The copy cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The copy.
        path: Utf8PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The original has changed since the campaign was planned.
    #[error(
        "the input file {path} has changed since the campaign was read: run the command again to plan with the new file"
    )]
    Changed {
        /// The original.
        path: Utf8PathBuf,
    },
}

impl CopyError {
    /// Returns whether the disk has no space for the copy.
    pub fn is_full_disk(&self) -> bool {
        match self {
            Self::Write { error, .. } => matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ),
            Self::Read { .. } | Self::Changed { .. } => false,
        }
    }
}

impl SourceFile {
    /// Reads a file to record its length and digest.
    ///
    /// # Errors
    /// The file cannot be read, or is not a regular file.
    pub fn read(path: &str, source: Utf8PathBuf) -> io::Result<Self> {
        let mut file = open(&source)?;
        let (bytes, blake3) = pass(&mut file, |_| Ok(())).map_err(PassError::into_io)?;
        Ok(Self {
            path: path.to_owned(),
            source,
            bytes,
            blake3,
        })
    }

    /// Copies the file into a directory, to its path there. Each run has its own copy, which it may overwrite.
    ///
    /// # Errors
    /// The file cannot be read or written, or has changed since it was recorded; no copy is left then.
    pub fn copy_into(&self, directory: &Utf8Path) -> Result<(), CopyError> {
        let read = |error| CopyError::Read {
            path: self.source.clone(),
            error,
        };
        let to = directory.join(&self.path);
        let write = |error| CopyError::Write {
            path: to.clone(),
            error,
        };
        let mut from = open(&self.source).map_err(read)?;
        if let Some(directory) = to.parent() {
            std::fs::create_dir_all(directory).map_err(write)?;
        }
        let mut copy = File::create(&to).map_err(write)?;
        let (bytes, blake3) =
            pass(&mut from, |block| copy.write_all(block)).map_err(|error| match error {
                PassError::Read(error) => read(error),
                PassError::Use(error) => write(error),
            })?;
        if (bytes, &blake3) != (self.bytes, &self.blake3) {
            // the copy is incomplete, and no run may read it
            let _ = std::fs::remove_file(&to);
            return Err(CopyError::Changed {
                path: self.source.clone(),
            });
        }
        Ok(())
    }
}

/// Opens a file; objects that would block, such as named pipes, are refused.
fn open(path: &Utf8Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    File::open(path)
}

/// The side on which copying failed: reading the original, or using its content.
enum PassError {
    Read(io::Error),
    Use(io::Error),
}

impl PassError {
    fn into_io(self) -> io::Error {
        match self {
            Self::Read(error) | Self::Use(error) => error,
        }
    }
}

/// Passes the content of a file to `hand_on`, block by block. Returns its length and digest.
fn pass(
    file: &mut File,
    mut hand_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(u64, String), PassError> {
    let (mut hasher, mut bytes, mut block) = (blake3::Hasher::new(), 0u64, vec![0u8; BLOCK]);
    loop {
        let n = match file.read(&mut block) {
            Ok(0) => return Ok((bytes, hasher.finalize().to_hex().to_string())),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(PassError::Read(error)),
        };
        hasher.update(&block[..n]);
        hand_on(&block[..n]).map_err(PassError::Use)?;
        bytes += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::{CopyError, SourceFile};
    use camino::Utf8Path;
    use std::fs;

    #[test]
    fn a_copy_has_the_content_and_a_file_that_changed_is_not_copied() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = Utf8Path::from_path(directory.path()).expect("UTF-8");
        let (mesh, work) = (at.join("mesh.dat"), at.join("work"));
        fs::create_dir(&work).expect("made");
        // longer than a block, and not text
        let content: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        fs::write(&mesh, &content).expect("written");
        let source = SourceFile::read("in.dat", mesh.clone()).expect("read");
        assert_eq!(source.bytes, 3_000_000);
        source.copy_into(&work).expect("copied");
        assert_eq!(fs::read(work.join("in.dat")).expect("there"), content);
        fs::remove_file(work.join("in.dat")).expect("removed");
        fs::write(&mesh, &content[1..]).expect("written");
        assert!(matches!(
            source.copy_into(&work),
            Err(CopyError::Changed { .. })
        ));
        assert!(!work.join("in.dat").exists());
        fs::remove_file(&mesh).expect("removed");
        assert!(matches!(
            source.copy_into(&work),
            Err(CopyError::Read { .. })
        ));
        assert!(SourceFile::read("d", work).is_err(), "a directory");
    }
}
