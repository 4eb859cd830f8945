//! The table of the files of a checkpoint that one node has, and the content of these files as one stream.

use super::{dirs::make_new_dir, error::LevelError};
use cvc_os::atomic_file::{self, Durability};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Name of the table's file in a directory of kept files.
const TABLE: &str = "table.json";
/// Suffix of the name of a file that is not complete.
const UNFINISHED: &str = ".part";

/// The type and content of a kept path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptKind {
    /// A file.
    File {
        /// Length of the file, bytes.
        bytes: u64,
        /// BLAKE3 digest of the content, in hexadecimal digits.
        blake3: String,
    },
    /// A directory.
    Dir,
    /// A symbolic link, with its target.
    Link(PathBuf),
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
}

/// A kept path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPath {
    /// Original path, to which the content is restored.
    pub path: PathBuf,
    /// Permissions.
    pub mode: u32,
    /// Type and content.
    pub kind: KeptKind,
}

/// All kept paths of a node. The content of the nth path is stored in the file named by that number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTable(pub Vec<KeptPath>);

impl FileTable {
    /// Returns the size of all files, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files().map(|file| file.bytes).sum()
    }

    /// Returns the files, in the order of their paths.
    pub(super) fn files(&self) -> impl Iterator<Item = TableFile<'_>> {
        let of = |(number, kept): (usize, &'_ KeptPath)| match &kept.kind {
            KeptKind::File { bytes, .. } => Some((number, *bytes)),
            KeptKind::Dir | KeptKind::Link(_) | KeptKind::Pipe | KeptKind::Socket => None,
        };
        self.0.iter().enumerate().filter_map(move |(n, kept)| {
            let (number, bytes) = of((n, kept))?;
            let KeptKind::File { blake3, .. } = &kept.kind else {
                return None;
            };
            Some(TableFile {
                number,
                bytes,
                blake3,
            })
        })
    }

    /// Writes the table into the directory of its files.
    pub(super) fn write(&self, dir: &Path) -> Result<(), LevelError> {
        let path = dir.join(TABLE);
        let text = serde_json::to_vec(self).map_err(|e| LevelError::encode(&path, e))?;
        atomic_file::write(&path, &text, Durability::Synced).map_err(LevelError::io(&path, "write"))
    }

    /// Reads the table from the directory of its files.
    pub(super) fn read(dir: &Path) -> Result<Self, LevelError> {
        let path = dir.join(TABLE);
        let text = fs::read(&path).map_err(LevelError::io(&path, "read"))?;
        serde_json::from_slice(&text).map_err(|e| LevelError::encode(&path, e))
    }
}

/// A file of a table, with its number.
pub(super) struct TableFile<'a> {
    pub number: usize,
    pub bytes: u64,
    pub blake3: &'a str,
}

/// Returns the path of the file with the content of the nth kept path.
pub(super) fn content_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(number.to_string())
}

/// The files of a table, read as one continuous content that is followed by zeros.
pub(super) struct TableContent {
    files: Vec<(PathBuf, u64)>,
    /// Number of the open file, its offset in the content, and the file.
    open: Option<(usize, u64, File)>,
}

impl TableContent {
    pub fn new(files: Vec<(PathBuf, u64)>) -> Self {
        Self { files, open: None }
    }

    /// Creates a reader of the files of a table in this directory.
    pub fn of_table(dir: &Path, table: &FileTable) -> Self {
        let files = table.files();
        Self::new(
            files
                .map(|file| (content_path(dir, file.number), file.bytes))
                .collect(),
        )
    }

    /// Fills a buffer with the content from this offset on.
    pub fn read_at(&mut self, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), LevelError> {
        while !buffer.is_empty() {
            let Some((number, within)) = self.locate(offset) else {
                buffer.fill(0);
                return Ok(());
            };
            let left = self.files[number].1 - within;
            let take = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, rest) = buffer.split_at_mut(take);
            let path = self.files[number].0.clone();
            self.read_file(number, within, now)
                .map_err(LevelError::io(&path, "read"))?;
            offset += take as u64;
            buffer = rest;
        }
        Ok(())
    }

    /// Returns the number of the file that contains this offset, and the offset within the file.
    fn locate(&self, offset: u64) -> Option<(usize, u64)> {
        let mut begin = 0;
        for (number, (_, bytes)) in self.files.iter().enumerate() {
            if offset < begin + bytes {
                return Some((number, offset - begin));
            }
            begin += bytes;
        }
        None
    }

    fn read_file(&mut self, number: usize, within: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (_, at, file) = match self.open.take() {
            Some(open) if open.0 == number => self.open.insert(open),
            _ => {
                let file = cvc_os::regular::open(&self.files[number].0)?;
                self.open.insert((number, 0, file))
            }
        };
        if *at != within {
            file.seek(SeekFrom::Start(within))?;
        }
        file.read_exact(buffer)?;
        *at = within + buffer.len() as u64;
        Ok(())
    }
}

/// Splits a continuous content into the files of a table. Each file has a temporary name until it is complete.
pub(super) struct TableWriter {
    dir: PathBuf,
    table: FileTable,
    /// Numbers, lengths and digests of the files not written yet, in reverse order.
    left: Vec<(usize, u64, String)>,
    open: Option<Unfinished>,
}

/// A file that is being written.
struct Unfinished {
    number: usize,
    left: u64,
    digest: String,
    file: File,
    hash: blake3::Hasher,
}

impl TableWriter {
    /// Starts writing in a new directory.
    pub fn new(dir: &Path, table: FileTable) -> Result<Self, LevelError> {
        make_new_dir(dir)?;
        let files = table.files();
        let mut left: Vec<_> = files
            .map(|file| (file.number, file.bytes, file.blake3.to_owned()))
            .collect();
        left.reverse();
        Ok(Self {
            dir: dir.to_owned(),
            table,
            left,
            open: None,
        })
    }

    /// Writes the next bytes of the content. Bytes after the last file are padding and are discarded.
    pub fn write(&mut self, mut data: &[u8]) -> Result<(), LevelError> {
        while !data.is_empty() {
            let Some(open) = self.current()? else {
                return Ok(());
            };
            let take = data
                .len()
                .min(usize::try_from(open.left).unwrap_or(usize::MAX));
            let (now, rest) = data.split_at(take);
            let written = open.file.write_all(now);
            open.hash.update(now);
            open.left -= take as u64;
            let is_whole = open.left == 0;
            let number = open.number;
            written.map_err(LevelError::io(&content_path(&self.dir, number), "write"))?;
            if is_whole {
                self.close()?;
            }
            data = rest;
        }
        Ok(())
    }

    /// Returns the file to which the next byte belongs; `None` after the last file.
    fn current(&mut self) -> Result<Option<&mut Unfinished>, LevelError> {
        while self.open.is_none() {
            let Some((number, bytes, digest)) = self.left.pop() else {
                return Ok(None);
            };
            let path = unfinished(&self.dir, number);
            let file = File::create_new(&path).map_err(LevelError::io(&path, "make"))?;
            self.open = Some(Unfinished {
                number,
                left: bytes,
                digest,
                file,
                hash: blake3::Hasher::new(),
            });
            if bytes == 0 {
                self.close()?;
            }
        }
        Ok(self.open.as_mut())
    }

    /// Syncs the open file, verifies its digest, and renames it to its final name.
    fn close(&mut self) -> Result<(), LevelError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let path = content_path(&self.dir, open.number);
        if open.hash.finalize().to_hex().as_str() != open.digest {
            return Err(LevelError::Damaged(path));
        }
        open.file
            .sync_data()
            .map_err(LevelError::io(&path, "sync"))?;
        let from = unfinished(&self.dir, open.number);
        fs::rename(&from, &path).map_err(LevelError::io(&from, "rename"))
    }

    /// Completes the last file. Fails if a file is incomplete.
    pub fn finish(mut self) -> Result<(), LevelError> {
        // empty files may remain
        self.current()?;
        if self.open.is_some() {
            return Err(LevelError::Short(self.dir));
        }
        self.table.write(&self.dir)
    }
}

fn unfinished(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{number}{UNFINISHED}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(content: &[u8]) -> KeptPath {
        KeptPath {
            path: "/work/file".into(),
            mode: 0o600,
            kind: KeptKind::File {
                bytes: content.len() as u64,
                blake3: blake3::hash(content).to_hex().to_string(),
            },
        }
    }

    fn pipe() -> KeptPath {
        KeptPath {
            path: "/work/pipe".into(),
            mode: 0o600,
            kind: KeptKind::Pipe,
        }
    }

    #[test]
    fn files_are_written_from_one_stream_and_read_as_one_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("own");
        let table = FileTable(vec![
            kept(b"one"),
            kept(b""),
            pipe(),
            kept(b"second"),
            kept(b""),
        ]);
        let mut writer = TableWriter::new(&to, table.clone()).expect("begins");
        for piece in [&b"on"[..], b"esec", b"ond\0\0", b"\0"] {
            writer.write(piece).expect("writes");
        }
        writer.finish().expect("whole");
        assert_eq!(FileTable::read(&to).expect("a table"), table);
        assert_eq!(fs::read(to.join("3")).expect("a file"), b"second");
        assert_eq!(fs::read(to.join("4")).expect("a file"), b"");
        let mut content = TableContent::of_table(&to, &table);
        for (offset, expected) in [
            (0, &b"onesecond\0"[..]),
            (2, b"ese"),
            (8, b"d\0\0"),
            (50, b"\0"),
        ] {
            let mut found = vec![9; expected.len()];
            content.read_at(offset, &mut found).expect("reads");
            assert_eq!(found, expected, "{offset}");
        }
    }

    #[test]
    fn damaged_or_missing_content_is_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("own");
        let table = FileTable(vec![kept(b"content")]);
        let mut writer = TableWriter::new(&to, table.clone()).expect("begins");
        assert!(matches!(
            writer.write(b"c0ntent"),
            Err(LevelError::Damaged(_))
        ));
        let mut writer = TableWriter::new(&to, table).expect("begins anew");
        writer.write(b"conten").expect("writes");
        assert!(matches!(writer.finish(), Err(LevelError::Short(_))));
        assert!(!to.join("0").exists() && FileTable::read(&to).is_err());
    }
}
