//! Checks whether two states have the same files with the same bytes.

use crate::{
    content::Content,
    error::{DeltaError, DeltaErrorKind},
    source::Source,
};
use cvc_delta_rules::Addressing;
use std::io::{self, Read};

/// Bytes that are compared at a time.
const PIECE: usize = 1 << 20;

/// Compares names, permissions, links and bytes of the files of two states; gzip-compressed images are compared uncompressed. Returns the number of
/// bytes compared.
///
/// # Errors
/// [`DeltaErrorKind::OtherBytes`] with the first file of `found` that differs, is missing, or has no counterpart; or a file cannot be read.
pub fn require_same(expected: &Source, found: &Source) -> Result<u64, DeltaError> {
    let differs = |name: &str| DeltaError::new(&found.path.join(name), DeltaErrorKind::OtherBytes);
    let mut bytes = 0;
    for file in &expected.files {
        let other = found.files.iter().find(|f| f.name == file.name);
        let other = other
            .filter(|other| other.mode == file.mode)
            .ok_or_else(|| differs(&file.name))?;
        let mut one = Content::open(file, Addressing::Index)?.sequential();
        let mut two = Content::open(other, Addressing::Index)?.sequential();
        let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
        loop {
            let read = fill(&mut one, &mut left).map_err(DeltaError::io(&file.path, "read"))?;
            let there = fill(&mut two, &mut right).map_err(DeltaError::io(&other.path, "read"))?;
            if left[..read] != right[..there] {
                return Err(differs(&file.name));
            }
            bytes += read as u64;
            if read < PIECE {
                break;
            }
        }
    }
    let known = |name: &str| expected.files.iter().any(|f| f.name == name);
    if let Some(more) = found.files.iter().find(|f| !known(&f.name)) {
        return Err(differs(&more.name));
    }
    if expected.links != found.links {
        return Err(DeltaError::new(&found.path, DeltaErrorKind::OtherBytes));
    }
    Ok(bytes)
}

/// Reads until the buffer is full or the input ends; returns the number of bytes read.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    type Files<'a> = &'a [(&'a str, &'a [u8])];

    fn state(dir: &Path, files: Files<'_>) -> Source {
        for (name, bytes) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
            fs::write(path, bytes).expect("writes");
        }
        Source::list(dir).expect("a state")
    }

    #[test]
    fn other_bytes_more_files_and_fewer_are_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let long = vec![7; PIECE + 3];
        let mut other = long.clone();
        other[PIECE + 1] = 8;
        let cases: [(&str, Files<'_>, Option<&str>); 5] = [
            ("same", &[("a", &long), ("d/b", b"")], None),
            ("bytes", &[("a", &other), ("d/b", b"")], Some("a")),
            ("shorter", &[("a", &long[..PIECE]), ("d/b", b"")], Some("a")),
            ("fewer", &[("a", &long)], Some("d/b")),
            (
                "more",
                &[("a", &long), ("d/b", b""), ("d/c", b"")],
                Some("d/c"),
            ),
        ];
        let expected = state(&dir.path().join("x"), &[("a", &long), ("d/b", b"")]);
        for (name, files, differs) in cases {
            let found = state(&dir.path().join(name), files);
            match (require_same(&expected, &found), differs) {
                (Ok(bytes), None) => assert_eq!(bytes, long.len() as u64),
                (Err(error), Some(file)) => {
                    assert!(matches!(error.kind, DeltaErrorKind::OtherBytes), "{error}");
                    assert_eq!(error.path, found.path.join(file));
                }
                (other, _) => panic!("{name}: {other:?}"),
            }
        }
    }
}
