//! Gives states back from the files that store them.

use crate::{
    codec,
    content::Content,
    error::{DeltaError, DeltaErrorKind},
    file::{Reference, StateFile, Summary, wire},
    frame::Unpacker,
    hash::{Hash, hash_all},
    layout::{Block, Numbers},
    signature,
    source::Source,
};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Bytes of unpacked packets that are kept for what may refer to them next.
const KEPT: usize = 64 << 20;
/// Bytes after which progress is told.
const PIECE: usize = 1 << 20;

/// The files that restore a state: its own, its base's, and so on to one that is stored in full.
#[derive(Debug)]
pub struct Chain {
    files: Vec<Link>,
    packets: Packets,
}

/// A file of a chain, with its extents by address.
#[derive(Debug)]
struct Link {
    file: StateFile,
    numbers: HashMap<String, (usize, Numbers)>,
}

/// Unpacked packets.
#[derive(Debug, Default)]
struct Packets {
    kept: HashMap<(usize, usize), (u64, Vec<u8>)>,
    bytes: usize,
    clock: u64,
}

impl Chain {
    /// Takes files in their order: of the state, of its base, and so on.
    ///
    /// # Errors
    /// Where a file is not the base of the one before it, or none is stored in full.
    pub fn new(files: Vec<StateFile>) -> Result<Self, DeltaError> {
        for pair in files.windows(2) {
            let (of, base) = (&pair[0], &pair[1]);
            let expected = of.summary().base.as_ref();
            let found = &base.summary().digest;
            if expected.is_none_or(|e| e.digest != *found) {
                return Err(DeltaError::new(
                    base.path(),
                    DeltaErrorKind::WrongBase {
                        of: of.path().display().to_string(),
                        expected: expected.map_or_else(|| "none".to_owned(), |e| e.digest.clone()),
                        found: found.clone(),
                    },
                ));
            }
        }
        if let Some(last) = files.last().filter(|f| f.summary().base.is_some()) {
            return Err(DeltaError::new(
                last.path(),
                DeltaErrorKind::NotOurs("its base is not given"),
            ));
        }
        let files = files
            .into_iter()
            .map(|file| {
                let size = file.summary().block_bytes;
                let numbers = file
                    .summary()
                    .images
                    .iter()
                    .enumerate()
                    .map(|(n, image)| (image.name.clone(), (n, Numbers::of(file.layout(n), size))))
                    .collect();
                Link { file, numbers }
            })
            .collect();
        Ok(Self {
            files,
            packets: Packets::default(),
        })
    }

    /// What the state is.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        self.files[0].file.summary()
    }

    /// Number of files that the state needs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none, which cannot be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The block of an image that contains an address (of a file that is no image: an offset).
    ///
    /// # Errors
    /// Where there is none, or it cannot be unpacked.
    pub fn block(&mut self, image: &str, address: u64) -> Result<Vec<u8>, DeltaError> {
        let link = &self.files[0];
        let none = || {
            DeltaError::new(
                link.file.path(),
                DeltaErrorKind::NoBlock(format!("{address:#x} of {image}")),
            )
        };
        let size = link.file.summary().block_bytes;
        let (number, numbers) = link.numbers.get(image).ok_or_else(none)?;
        let (block, n) = numbers.at(address, size).ok_or_else(none)?;
        let reference =
            self.files[0].file.references(*number)[usize::try_from(n).map_err(|_| none())?];
        let mut bytes = vec![0; block.bytes as usize];
        self.read(image, &block, 0, reference, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a block, to which the `at`th file refers as `reference`.
    fn read(
        &mut self,
        image: &str,
        block: &Block,
        at: usize,
        reference: Reference,
        to: &mut [u8],
    ) -> Result<(), DeltaError> {
        match reference {
            Reference::Zero => to.fill(0),
            Reference::Base => self.read_from_base(image, block, at, to)?,
            Reference::Stored(n) => self.packets.read(&self.files[at].file, at, n, to)?,
            Reference::Xored(n) => {
                self.read_from_base(image, block, at, to)?;
                let mut change = vec![0; to.len()];
                self.packets
                    .read(&self.files[at].file, at, n, &mut change)?;
                codec::xor(to, &change);
            }
        }
        Ok(())
    }

    fn read_from_base(
        &mut self,
        image: &str,
        block: &Block,
        at: usize,
        to: &mut [u8],
    ) -> Result<(), DeltaError> {
        let damaged = |file: &StateFile| {
            DeltaError::damaged(file.path(), format!("the references of {image}"))
        };
        let link = self
            .files
            .get(at + 1)
            .ok_or_else(|| damaged(&self.files[at].file))?;
        let size = link.file.summary().block_bytes;
        let found = link.numbers.get(image).and_then(|(number, numbers)| {
            Some((*number, usize::try_from(numbers.find(block, size)?).ok()?))
        });
        let Some((number, n)) = found else {
            return Err(damaged(&self.files[at].file));
        };
        let reference = link.file.references(number)[n];
        self.read(image, block, at + 1, reference, to)
    }

    /// Hands on the content of the `n`th file of the state, and checks its digest.
    fn content(
        &mut self,
        n: usize,
        to: &mut dyn FnMut(&[u8]) -> Result<(), DeltaError>,
    ) -> Result<(), DeltaError> {
        let file = &self.files[0].file;
        let path = file.path().to_owned();
        let size = file.summary().block_bytes;
        let entry = file.summary().images[n].clone();
        let layout = file.layout(n).clone();
        let references = file.references(n).to_vec();
        let packed = file.frame(n).to_vec();
        let mut frame = Unpacker::new(&path, &packed)?;
        let mut hashes = Vec::with_capacity(references.len());
        let mut buffer = Vec::with_capacity(2 * PIECE);
        let mut at = 0;
        let mut references = references.into_iter();
        for extent in &layout.extents {
            take_frame(&mut frame, extent.offset - at, &mut buffer, to)?;
            let mut lengths = Vec::new();
            for (block, reference) in extent.cut(size).zip(references.by_ref()) {
                let from = buffer.len();
                buffer.resize(from + block.bytes as usize, 0);
                self.read(&entry.name, &block, 0, reference, &mut buffer[from..])?;
                lengths.push(block.bytes as usize);
                if buffer.len() >= PIECE {
                    hash_last(&buffer, &mut lengths, &mut hashes);
                    to(&buffer)?;
                    buffer.clear();
                }
            }
            hash_last(&buffer, &mut lengths, &mut hashes);
            at = extent.offset + extent.bytes;
        }
        take_frame(&mut frame, layout.bytes - at, &mut buffer, to)?;
        to(&buffer)?;
        let found = signature::digest(&layout, frame.hash(), &hashes);
        if found == entry.digest {
            return Ok(());
        }
        Err(DeltaError::new(
            &path.join(&entry.name),
            DeltaErrorKind::Differs {
                expected: entry.digest,
                found,
            },
        ))
    }

    /// Restores the state as a directory that does not exist yet, and appears whole or not at all. `progress` is told bytes that were written.
    ///
    /// # Errors
    /// Where it exists, a file is damaged, or it cannot be written.
    pub fn restore(&mut self, to: &Path, progress: &dyn Fn(u64)) -> Result<(), DeltaError> {
        if fs::symlink_metadata(to).is_ok() {
            return Err(DeltaError::new(to, DeltaErrorKind::Exists));
        }
        let parent = to.parent().filter(|p| !p.as_os_str().is_empty());
        let new = tempfile::Builder::new()
            .prefix(wire::NEW)
            .tempdir_in(parent.unwrap_or(Path::new(".")))
            .map_err(DeltaError::io(to, "write"))?;
        let told =
            |path: &Path| -> PathBuf { to.join(path.strip_prefix(new.path()).unwrap_or(path)) };
        for n in 0..self.summary().images.len() {
            let entry = self.summary().images[n].clone();
            let path = inside(new.path(), &entry.name).ok_or_else(|| self.strange(&entry.name))?;
            let place = told(&path);
            let io = || DeltaError::io(&place, "write");
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir).map_err(io())?;
            }
            let file = File::create(&path).map_err(io())?;
            let mut out = BufWriter::new(&file);
            self.content(n, &mut |bytes| {
                progress(bytes.len() as u64);
                out.write_all(bytes)
                    .map_err(DeltaError::io(&place, "write"))
            })?;
            out.flush().map_err(io())?;
            drop(out);
            file.set_permissions(fs::Permissions::from_mode(entry.mode))
                .and_then(|()| file.sync_all())
                .map_err(io())?;
        }
        for (name, target) in self.summary().links.clone() {
            let path = inside(new.path(), &name).ok_or_else(|| self.strange(&name))?;
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir).map_err(DeltaError::io(&told(&path), "write"))?;
            }
            std::os::unix::fs::symlink(target, &path)
                .map_err(DeltaError::io(&told(&path), "write"))?;
        }
        // it stays its owner's alone, as the directory that it was made in
        fs::rename(new.path(), to)
            .and_then(|()| File::open(parent.unwrap_or(Path::new(".")))?.sync_all())
            .map_err(DeltaError::io(to, "write"))?;
        // it has its name: nothing is to be removed
        let _ = new.keep();
        Ok(())
    }

    /// Reads everything and checks it; with `source`, also that it holds the same bytes.
    ///
    /// # Errors
    /// What is damaged or differs.
    pub fn verify(
        &mut self,
        source: Option<&Source>,
        progress: &dyn Fn(u64),
    ) -> Result<(), DeltaError> {
        if let Some(source) = source {
            let is_stored = |name: &str| self.summary().images.iter().any(|i| i.name == name);
            if let Some(other) = source.files.iter().find(|f| !is_stored(&f.name)) {
                return Err(DeltaError::new(&other.path, DeltaErrorKind::OtherBytes));
            }
            if source.links != self.summary().links {
                return Err(DeltaError::new(&source.path, DeltaErrorKind::OtherBytes));
            }
        }
        for n in 0..self.summary().images.len() {
            let name = self.summary().images[n].name.clone();
            let Some(source) = source else {
                self.content(n, &mut |bytes| {
                    progress(bytes.len() as u64);
                    Ok(())
                })?;
                continue;
            };
            let differs = || DeltaError::new(&source.path.join(&name), DeltaErrorKind::OtherBytes);
            let mode = self.summary().images[n].mode;
            let file = source
                .files
                .iter()
                .find(|f| f.name == name && f.mode == mode)
                .ok_or_else(differs)?;
            let mut content = Content::open(file, self.summary().addressing)?.sequential();
            self.content(n, &mut |bytes| {
                progress(bytes.len() as u64);
                let mut there = vec![0; bytes.len()];
                content.read_exact(&mut there).map_err(|_| differs())?;
                if there == bytes {
                    Ok(())
                } else {
                    Err(differs())
                }
            })?;
            if content
                .read(&mut [0])
                .map_err(DeltaError::io(&file.path, "read"))?
                > 0
            {
                return Err(differs());
            }
        }
        Ok(())
    }

    fn strange(&self, name: &str) -> DeltaError {
        DeltaError::damaged(self.files[0].file.path(), format!("the name {name:?}"))
    }
}

/// Hashes the blocks of these lengths with which a buffer ends.
fn hash_last(buffer: &[u8], lengths: &mut Vec<usize>, hashes: &mut Vec<Hash>) {
    let bytes: usize = lengths.iter().sum();
    let mut rest = &buffer[buffer.len() - bytes..];
    let blocks = lengths.drain(..).map(|length| {
        let (block, after) = rest.split_at(length);
        rest = after;
        block
    });
    hash_all(blocks, hashes);
}

/// Adds the next bytes of a frame to the buffer, and hands it on when it is full.
fn take_frame(
    frame: &mut Unpacker<'_>,
    bytes: u64,
    buffer: &mut Vec<u8>,
    to: &mut dyn FnMut(&[u8]) -> Result<(), DeltaError>,
) -> Result<(), DeltaError> {
    let mut left = bytes;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        let from = buffer.len();
        buffer.resize(from + now, 0);
        frame.take(&mut buffer[from..])?;
        left -= now as u64;
        if buffer.len() >= PIECE {
            to(buffer)?;
            buffer.clear();
        }
    }
    Ok(())
}

/// The path of a name below a directory; none if it leads out of it.
fn inside(dir: &Path, name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_plain = path
        .components()
        .all(|c| matches!(c, std::path::Component::Normal(_)));
    (is_plain && !name.is_empty()).then(|| dir.join(path))
}

impl Packets {
    /// Reads the `n`th stored block of a file, the `at`th of a chain.
    fn read(
        &mut self,
        file: &StateFile,
        at: usize,
        n: u32,
        to: &mut [u8],
    ) -> Result<(), DeltaError> {
        let (packet, within, bytes) = file.place(n);
        if bytes != to.len() {
            return Err(DeltaError::damaged(
                file.path(),
                format!("the length of block {n}"),
            ));
        }
        self.clock += 1;
        if !self.kept.contains_key(&(at, packet)) {
            let unpacked = file.packet(packet)?;
            self.make_room(unpacked.len());
            self.bytes += unpacked.len();
            self.kept.insert((at, packet), (self.clock, unpacked));
        }
        let (used, unpacked) = self.kept.get_mut(&(at, packet)).expect("put there above");
        *used = self.clock;
        to.copy_from_slice(&unpacked[within..within + bytes]);
        Ok(())
    }

    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > KEPT {
            let Some(oldest) = self
                .kept
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(key, _)| *key)
            else {
                return;
            };
            if let Some((_, packet)) = self.kept.remove(&oldest) {
                self.bytes -= packet.len();
            }
        }
    }
}
