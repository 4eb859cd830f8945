//! What is known of a state by its hashes alone: enough to tell what changed since.

use crate::{
    content::Content,
    error::DeltaError,
    file::wire,
    frame,
    hash::{Hash, digest_of_state, hash_all},
    layout::{Block, Extent, Finder, Layout, Numbers},
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
    /// By what its blocks are known.
    pub addressing: Addressing,
    /// Their size.
    pub block: BlockSize,
    /// Digest of the state: of the names, permissions and digests of all its files, and of its links. None in files of older versions.
    pub digest: Option<String>,
    /// One for each file, by its name.
    pub images: BTreeMap<String, ImageSignature>,
}

/// The hashes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSignature {
    numbers: Numbers,
    /// One for each block, in the order of the file.
    hashes: Vec<Hash>,
}

impl ImageSignature {
    pub(crate) fn new(layout: &Layout, block: BlockSize, hashes: Vec<Hash>) -> Self {
        let mut numbers = Numbers::of(layout, block);
        // where it is in the file is of no interest any more
        numbers
            .0
            .iter_mut()
            .for_each(|(extent, _)| extent.offset = 0);
        Self { numbers, hashes }
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.hashes.len()
    }

    /// The hashes of all blocks, in the order of the file.
    pub(crate) fn hashes(&self) -> &[Hash] {
        &self.hashes
    }

    /// Finds hashes of blocks, one after the other.
    pub(crate) fn finder(&self, size: BlockSize) -> HashFinder<'_> {
        HashFinder {
            finder: Finder::new(&self.numbers, size),
            hashes: &self.hashes,
        }
    }

    /// Whether there is a block with this address and length.
    pub(crate) fn has(&self, block: &Block, size: BlockSize) -> bool {
        self.numbers.find(block, size).is_some()
    }

    /// Each block with its hash, by ascending addresses.
    pub(crate) fn each(&self, size: BlockSize) -> impl Iterator<Item = (Block, Hash)> + '_ {
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

/// Finds hashes of the blocks of a file.
pub(crate) struct HashFinder<'a> {
    finder: Finder<'a>,
    hashes: &'a [Hash],
}

impl HashFinder<'_> {
    /// The hash of the block with this address and length, if there is one.
    pub fn find(&mut self, block: &Block) -> Option<Hash> {
        self.find_numbered(block).map(|(_, hash)| hash)
    }

    /// The same, with the number of the block in its file.
    pub fn find_numbered(&mut self, block: &Block) -> Option<(u64, Hash)> {
        let number = self.finder.find(block)?;
        let hash = self.hashes.get(usize::try_from(number).ok()?)?;
        Some((number, *hash))
    }
}

/// A state that was read once.
pub(crate) struct Signed {
    pub signature: Signature,
    /// In the order of the source's files.
    pub files: Vec<SignedFile>,
}

/// What was read of a file of a state, beside its hashes.
pub(crate) struct SignedFile {
    pub layout: Layout,
    /// What is between the extents, as [`frame`] packs it.
    pub frame: Vec<u8>,
    pub frame_bytes: u64,
    pub gzip: bool,
    pub unique_pid: Option<String>,
    pub digest: String,
    /// The image, if it is one.
    pub image: Option<Image>,
}

/// Hashes the blocks of a state. `progress` is told bytes that were read.
///
/// # Errors
/// What cannot be read.
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

/// Digest of a file's content: of its layout, and of the hashes of all its blocks and of its frame.
pub(crate) fn digest(layout: &Layout, frame: Hash, hashes: &[Hash]) -> String {
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

/// The part of a signature that is written as JSON.
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

/// First bytes of a file of signatures.
const MAGIC: [u8; 8] = *b"cvcsign\x01";

impl Signature {
    /// Bytes of all blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.images
            .values()
            .flat_map(|image| &image.numbers.0)
            .map(|(extent, _)| extent.bytes)
            .sum()
    }

    /// Writes it into a file that appears whole or not at all.
    ///
    /// # Errors
    /// Where it cannot be written.
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

    /// Reads one.
    ///
    /// # Errors
    /// Where there is none, or it is damaged.
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
            let taken: Vec<(Extent, u64)> = extents
                .by_ref()
                .take(usize::try_from(image.extents).unwrap_or(usize::MAX))
                .map(|(start, bytes, first)| {
                    (
                        Extent {
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
