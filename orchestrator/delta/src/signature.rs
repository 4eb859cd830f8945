//! The hashes of a state, which suffice to find the changes of a later state.

use crate::{
    content::Content,
    error::DeltaError,
    file::wire,
    frame,
    hash::{Hash, digest_of_state, hash_all},
    layout::{BlockFinder, DeltaBlock, DeltaExtent, DeltaLayout, Numbers},
    source::Source,
};
use cvc_delta_rules::{Addressing, BlockSize};
use cvc_image::Image;
use cvc_os::regular;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::Read, path::Path};

/// The hashes of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The addressing of the blocks.
    pub addressing: Addressing,
    /// Size of the blocks.
    pub block: BlockSize,
    /// Digest of the state: covers the names, permissions and digests of all its files, and its links. `None` in files of older versions.
    pub digest: Option<String>,
    /// The hashes of each file, by its name.
    pub images: BTreeMap<String, ImageSignature>,
}

/// The hashes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSignature {
    numbers: Numbers,
    /// The hash of each block, in the order of the file.
    hashes: Vec<Hash>,
}

impl ImageSignature {
    pub(crate) fn new(layout: &DeltaLayout, block: BlockSize, hashes: Vec<Hash>) -> Self {
        let mut numbers = Numbers::of(layout, block);
        // offsets in the file are not compared: an extent may move in the file
        numbers
            .0
            .iter_mut()
            .for_each(|(extent, _)| extent.offset = 0);
        Self { numbers, hashes }
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the hashes of all blocks, in the order of the file.
    pub(crate) fn hashes(&self) -> &[Hash] {
        &self.hashes
    }

    /// Returns a [`HashFinder`], with which the hashes of blocks are looked up in ascending order of blocks.
    pub(crate) fn finder(&self, size: BlockSize) -> HashFinder<'_> {
        HashFinder {
            finder: BlockFinder::new(&self.numbers, size),
            hashes: &self.hashes,
        }
    }

    /// Returns whether the file has a block with this address and length.
    pub(crate) fn has(&self, block: &DeltaBlock, size: BlockSize) -> bool {
        self.numbers.find(block, size).is_some()
    }

    /// Returns each block with its hash, by ascending addresses.
    pub(crate) fn each(&self, size: BlockSize) -> impl Iterator<Item = (DeltaBlock, Hash)> + '_ {
        self.numbers.0.iter().flat_map(move |(extent, first)| {
            extent
                .cut(size)
                .zip(*first..)
                .filter_map(|(block, number)| {
                    Some((block, *self.hashes.get(usize::try_from(number).ok()?)?))
                })
        })
    }
}

/// Looks up the hashes of the blocks of a file.
pub(crate) struct HashFinder<'a> {
    finder: BlockFinder<'a>,
    hashes: &'a [Hash],
}

impl HashFinder<'_> {
    /// Returns the hash of the block with the address and length of `block`, if there is one.
    pub fn find(&mut self, block: &DeltaBlock) -> Option<Hash> {
        self.find_numbered(block).map(|(_, hash)| hash)
    }

    /// Returns the hash of a block, and its number in the file.
    pub fn find_numbered(&mut self, block: &DeltaBlock) -> Option<(u64, Hash)> {
        let number = self.finder.find(block)?;
        let hash = self.hashes.get(usize::try_from(number).ok()?)?;
        Some((number, *hash))
    }
}

/// A state whose files were read and hashed.
pub(crate) struct Signed {
    pub signature: Signature,
    /// Data about the files, in the order of the source.
    pub files: Vec<SignedFile>,
}

/// Data read from a file of a state, in addition to its hashes.
pub(crate) struct SignedFile {
    pub layout: DeltaLayout,
    /// The bytes outside the extents, compressed by [`frame`].
    pub frame: Vec<u8>,
    pub frame_bytes: u64,
    pub gzip: bool,
    pub unique_pid: Option<String>,
    pub digest: String,
    /// The headers of the image; `None` if the file is not an image.
    pub image: Option<Image>,
}

/// Hashes the blocks of a state. `progress` receives the number of bytes read.
///
/// # Errors
/// A file cannot be read.
pub fn sign(
    source: &Source,
    addressing: Addressing,
    block: BlockSize,
    progress: &dyn Fn(u64),
) -> Result<Signature, DeltaError> {
    Ok(sign_all(source, addressing, block, progress)?.signature)
}

pub(crate) fn sign_all(
    source: &Source,
    addressing: Addressing,
    block: BlockSize,
    progress: &dyn Fn(u64),
) -> Result<Signed, DeltaError> {
    let mut images = BTreeMap::new();
    let mut files = Vec::new();
    for file in &source.files {
        let mut content = Content::open(file, addressing)?;
        let mut packer =
            frame::Packer::new().map_err(DeltaError::io(&file.path, "compress the frame of"))?;
        let hashes = content.map_blocks(
            &file.path,
            block,
            |blocks, hashes| hash_all(blocks.iter().copied(), hashes),
            |bytes| {
                packer
                    .put(bytes)
                    .map_err(DeltaError::io(&file.path, "compress the frame of"))
            },
            progress,
        )?;
        let frame_bytes = packer.bytes();
        let frame = packer
            .finish()
            .map_err(DeltaError::io(&file.path, "compress the frame of"))?;
        files.push(SignedFile {
            digest: digest(&content.layout, frame.hash, &hashes),
            frame: frame.packed,
            frame_bytes,
            gzip: content.is_gzip(),
            unique_pid: content.unique_pid(),
            layout: content.layout.clone(),
            image: content.image.take(),
        });
        images.insert(
            file.name.clone(),
            ImageSignature::new(&content.layout, block, hashes),
        );
    }
    source.require_unchanged()?;
    let digest = digest_of_state(
        source
            .files
            .iter()
            .zip(&files)
            .map(|(file, signed)| (file.name.as_str(), file.mode, signed.digest.as_str())),
        &source.links,
    );
    Ok(Signed {
        signature: Signature {
            addressing,
            block,
            digest: Some(digest),
            images,
        },
        files,
    })
}

/// Returns the digest of a file's content; covers its layout and the hashes of all its blocks and of its frame.
pub(crate) fn digest(layout: &DeltaLayout, frame: Hash, hashes: &[Hash]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&layout.bytes.to_le_bytes());
    for extent in &layout.extents {
        for number in [extent.offset, extent.start, extent.bytes] {
            hasher.update(&number.to_le_bytes());
        }
    }
    hasher.update(&frame.0);
    for hash in hashes {
        hasher.update(&hash.0);
    }
    Hash::from(hasher.finalize()).to_string()
}

/// The part of a file of hashes that is written as JSON.
#[derive(Serialize, Deserialize)]
struct Head {
    addressing: Addressing,
    block_bytes: BlockSize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    images: Vec<HeadImage>,
}

#[derive(Serialize, Deserialize)]
struct HeadImage {
    name: String,
    extents: u64,
    blocks: u64,
}

/// First bytes of a file of hashes; the last byte is the format version.
const MAGIC: [u8; 8] = *b"cvcsign\x01";

impl Signature {
    /// Returns the total size of all blocks, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.images
            .values()
            .flat_map(|image| &image.numbers.0)
            .map(|(extent, _)| extent.bytes)
            .sum()
    }

    /// Writes the hashes to a file, atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), DeltaError> {
        let head = Head {
            addressing: self.addressing,
            block_bytes: self.block,
            digest: self.digest.clone(),
            images: self
                .images
                .iter()
                .map(|(name, image)| HeadImage {
                    name: name.clone(),
                    extents: image.numbers.0.len() as u64,
                    blocks: image.hashes.len() as u64,
                })
                .collect(),
        };
        let mut extents = Vec::new();
        let mut hashes = Vec::new();
        for image in self.images.values() {
            for (extent, first) in &image.numbers.0 {
                for number in [extent.start, extent.bytes, *first] {
                    extents.extend_from_slice(&number.to_le_bytes());
                }
            }
            hashes.extend(image.hashes.iter().flat_map(|hash| hash.0));
        }
        let head = serde_json::to_vec(&head).expect("plain data");
        let mut out = MAGIC.to_vec();
        for section in [&head[..], &wire::squeeze(path, &extents)?, &hashes] {
            wire::put_section(&mut out, section);
        }
        wire::write_whole(path, &out)
    }

    /// Reads a file of hashes.
    ///
    /// # Errors
    /// The file does not exist or is damaged.
    pub fn read(path: &Path) -> Result<Self, DeltaError> {
        let mut bytes = Vec::new();
        regular::open(path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(DeltaError::io(path, "read"))?;
        let (mut rest, _) = wire::after_magic(path, &bytes, &MAGIC)?;
        let damaged = |what| DeltaError::damaged(path, what);
        let head: Head = serde_json::from_slice(wire::take_section(path, &mut rest, "the head")?)
            .map_err(|_| damaged("the head"))?;
        let most = head.images.iter().map(|image| image.extents);
        let mut extents = Vec::new();
        wire::expand(
            path,
            wire::take_section(path, &mut rest, "the extents")?,
            most.fold(0, u64::saturating_add),
            |e: &[u8; 24]| {
                extents.push((wire::number(e, 0), wire::number(e, 1), wire::number(e, 2)));
                Some(())
            },
        )?;
        let mut extents = extents.into_iter();
        let mut hashes = wire::take_section(path, &mut rest, "the hashes")?
            .as_chunks::<16>()
            .0
            .iter()
            .map(|h| Hash(*h));
        let mut images = BTreeMap::new();
        for image in head.images {
            let taken: Vec<(DeltaExtent, u64)> = extents
                .by_ref()
                .take(usize::try_from(image.extents).unwrap_or(usize::MAX))
                .map(|(start, bytes, first)| {
                    (
                        DeltaExtent {
                            offset: 0,
                            start,
                            bytes,
                        },
                        first,
                    )
                })
                .collect();
            let own: Vec<Hash> = hashes
                .by_ref()
                .take(usize::try_from(image.blocks).unwrap_or(usize::MAX))
                .collect();
            let numbers = Numbers(taken);
            if numbers.0.len() as u64 != image.extents
                || own.len() as u64 != image.blocks
                || !numbers.are_of(own.len() as u64, head.block_bytes)
            {
                return Err(damaged("the tables"));
            }
            images.insert(
                image.name,
                ImageSignature {
                    numbers,
                    hashes: own,
                },
            );
        }
        Ok(Self {
            addressing: head.addressing,
            block: head.block_bytes,
            digest: head.digest,
            images,
        })
    }
}
