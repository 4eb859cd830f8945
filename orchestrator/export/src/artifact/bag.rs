//! A BagIt bag (RFC 8493) in a zip file. Its bytes depend only on its content.

use crate::{error::ExportError, target::hex};
use camino::Utf8Path;
use cvc_core::store::{StoreError, regular};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    io::{self, Read, Seek, SeekFrom, Write},
};
use zip::{
    CompressionMethod, DateTime, ZipArchive, ZipWriter, result::ZipError, write::SimpleFileOptions,
};

const DECLARATION: &str = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
const INFO: &str = "bag-info.txt";
const MANIFEST: &str = "manifest-sha256.txt";
const TAGS: &str = "tagmanifest-sha256.txt";
/// Line that names the program which wrote the bag, up to the version of cvc.
const AGENT: &str = "Bag-Software-Agent: cvc ";
/// Maximum number of bytes read from a tag file; tag files of cvc have a line for each file.
const MAX_TAG_FILE: u64 = 64 << 20;

/// A bag that is being written.
pub(super) struct Bag<'p, W: Write + Seek> {
    zip: ZipWriter<UntilFailure<W>>,
    /// Path of the zip file, for error messages.
    path: &'p Utf8Path,
    /// Name of the directory that contains all files of the bag.
    base: String,
    /// Lines of the payload manifest; the next field has the lines of the tag manifest.
    payload: Vec<String>,
    tags: Vec<String>,
    bytes: u64,
}

impl<'p, W: Write + Seek> Bag<'p, W> {
    /// Creates an empty bag with this name.
    pub(super) fn new(out: W, path: &'p Utf8Path, base: &str) -> Result<Self, ExportError> {
        let mut bag = Self {
            zip: ZipWriter::new(UntilFailure::new(out)),
            path,
            base: base.to_owned(),
            payload: Vec::new(),
            tags: Vec::new(),
            bytes: 0,
        };
        bag.tag("bagit.txt", DECLARATION)?;
        Ok(bag)
    }

    /// Adds a file to the payload; `write` writes its content.
    pub(super) fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let name = format!("data/{name}");
        let (bytes, digest) = self.file(&name, write)?;
        self.payload.push(format!("{digest}  {}\n", listed(&name)));
        self.bytes += bytes;
        Ok(())
    }

    /// Adds a file of the payload from memory.
    pub(super) fn add_text(&mut self, name: &str, text: &str) -> Result<(), ExportError> {
        let path = self.path;
        self.add(name, |out| {
            out.write_all(text.as_bytes())
                .map_err(StoreError::io("write", path))
                .map_err(ExportError::from)
        })
    }

    /// Adds a tag file, that is, a file outside the payload.
    pub(super) fn tag(&mut self, name: &str, text: &str) -> Result<(), ExportError> {
        let path = self.path;
        let (_, digest) = self.file(name, |out| {
            out.write_all(text.as_bytes())
                .map_err(StoreError::io("write", path))
                .map_err(ExportError::from)
        })?;
        self.tags.push(format!("{digest}  {}\n", listed(name)));
        Ok(())
    }

    /// Returns the number of files in the payload, and their total length, bytes.
    pub(super) fn payload(&self) -> (usize, u64) {
        (self.payload.len(), self.bytes)
    }

    /// Writes the manifests and completes the bag. `info` has further lines for `bag-info.txt`.
    pub(super) fn finish(mut self, info: &[(&str, String)]) -> Result<W, ExportError> {
        let mut text = String::new();
        for (name, value) in info {
            // a line feed in the value would begin another field
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            text.push_str(&format!("{name}: {value}\n"));
        }
        text.push_str(&format!(
            "{AGENT}{}\nPayload-Oxum: {}.{}\n",
            env!("CARGO_PKG_VERSION"),
            self.bytes,
            self.payload.len()
        ));
        self.tag(INFO, &text)?;
        let manifest = self.payload.concat();
        self.tag(MANIFEST, &manifest)?;
        let tags = self.tags.concat();
        self.tag(TAGS, &tags)?;
        let out = self.zip.finish().map_err(not_written(self.path))?;
        if out.has_failed {
            let error = io::Error::other("an earlier write failed");
            return Err(StoreError::io("write", self.path)(error).into());
        }
        Ok(out.out)
    }

    fn file(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
    ) -> Result<(u64, String), ExportError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(6))
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .large_file(true);
        self.zip
            .start_file(format!("{}/{name}", self.base), options)
            .map_err(not_written(self.path))?;
        let mut out = Summed {
            out: &mut self.zip,
            sum: Sha256::new(),
            bytes: 0,
        };
        write(&mut out)?;
        Ok((out.bytes, hex(&out.sum.finalize())))
    }
}

/// Encodes a file name for the manifests of RFC 8493.
fn listed(name: &str) -> String {
    let name = name.replace('%', "%25");
    name.replace('\n', "%0A").replace('\r', "%0D")
}

fn not_written(path: &Utf8Path) -> impl FnOnce(ZipError) -> ExportError + '_ {
    move |error| StoreError::io("write", path)(error.into()).into()
}

/// A writer that fails once, then accepts and discards data: an abandoned [`ZipWriter`] still tries to complete its file, and would print an error.
struct UntilFailure<W> {
    out: W,
    has_failed: bool,
    /// Position of the next byte; the next field is the length of the file. The zip writer uses both.
    at: u64,
    end: u64,
}

impl<W> UntilFailure<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            has_failed: false,
            at: 0,
            end: 0,
        }
    }

    fn once<T>(
        &mut self,
        afterwards: T,
        what: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.has_failed {
            return Ok(afterwards);
        }
        let done = what(&mut self.out);
        self.has_failed = done
            .as_ref()
            .is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        done
    }
}

impl<W: Write> Write for UntilFailure<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.once(bytes.len(), |out| out.write(bytes))?;
        self.at += written as u64;
        self.end = self.end.max(self.at);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.once((), W::flush)
    }
}

impl<W: Seek> Seek for UntilFailure<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let afterwards = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        let afterwards = afterwards.unwrap_or(self.at);
        self.at = self.once(afterwards, |out| out.seek(to))?;
        Ok(self.at)
    }
}

/// Passes data on, and computes their checksum and length.
struct Summed<W> {
    out: W,
    sum: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Why a file must not be replaced.
pub(super) enum Foreign {
    /// cvc did not write the file.
    Other,
    /// The file is a bag of cvc to which this file was added.
    Added(String),
}

/// Checks that a file is a bag written by cvc, without additions.
pub(super) fn check_own(path: &Utf8Path) -> Result<(), Foreign> {
    let other = |_| Foreign::Other;
    let file = regular::open(path.as_std_path()).map_err(|_| Foreign::Other)?;
    let mut zip = ZipArchive::new(file).map_err(|_| Foreign::Other)?;
    let names: Vec<String> = zip
        .file_names()
        .map(|name| name.map(|name| name.into_owned()))
        .collect::<Result<_, _>>()
        .map_err(|_| Foreign::Other)?;
    let base = names
        .iter()
        .find_map(|name| name.strip_suffix("/bagit.txt"))
        .ok_or(Foreign::Other)?
        .to_owned();
    let mut read = |name: &str| -> Result<String, Foreign> {
        let file = zip
            .by_name(&format!("{base}/{name}"))
            .map_err(|_| Foreign::Other)?;
        let mut text = String::new();
        file.take(MAX_TAG_FILE)
            .read_to_string(&mut text)
            .map_err(other)?;
        Ok(text)
    };
    if !read(INFO)?.lines().any(|line| line.starts_with(AGENT)) {
        return Err(Foreign::Other);
    }
    let manifests = read(MANIFEST)? + &read(TAGS)?;
    let mut own: BTreeSet<String> = manifests
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(_, name)| format!("{base}/{name}"))
        .collect();
    own.insert(format!("{base}/{TAGS}"));
    let is_listed = |name: &String| own.contains(&listed(name)) || own.contains(name);
    match names.into_iter().find(|name| !is_listed(name)) {
        Some(added) => Err(Foreign::Added(added)),
        None => Ok(()),
    }
}
