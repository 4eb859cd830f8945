//! How the content of a file is cut into blocks.

use crate::error::DeltaError;
use cvc_delta_rules::BlockSize;
use cvc_image::Image;
use std::path::Path;

/// A stretch of the file whose blocks are known by consecutive addresses (of a file that is no image: by offsets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the content, bytes.
    pub offset: u64,
    /// Address of its first byte.
    pub start: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

impl Extent {
    /// Number of blocks that it is cut into: at multiples of the block size in addresses.
    pub fn blocks(&self, size: BlockSize) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        let block = size.bytes();
        (self.start + self.bytes - 1) / block - self.start / block + 1
    }

    /// The `n`th block.
    pub fn block(&self, n: u64, size: BlockSize) -> Block {
        let block = size.bytes();
        let from = ((self.start / block + n) * block).max(self.start);
        let to = ((self.start / block + n + 1) * block).min(self.start + self.bytes);
        Block {
            offset: self.offset + (from - self.start),
            address: from,
            bytes: u32::try_from(to - from).expect("at most a block"),
        }
    }

    /// All blocks.
    pub fn cut(&self, size: BlockSize) -> impl Iterator<Item = Block> + '_ {
        (0..self.blocks(size)).map(move |n| self.block(n, size))
    }
}

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it is in the content, bytes.
    pub offset: u64,
    /// By what it is known.
    pub address: u64,
    /// Its length, bytes: shorter than the block size at the ends of an extent.
    pub bytes: u32,
}

/// How the content of a file is made up: what is between the extents is its frame (the headers of an image).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Length of the content, uncompressed, bytes.
    pub bytes: u64,
    /// In ascending offsets; empty ones left out.
    pub extents: Vec<Extent>,
}

impl Layout {
    /// Of a file that is one extent.
    pub fn by_index(bytes: u64) -> Self {
        let whole = Extent {
            offset: 0,
            start: 0,
            bytes,
        };
        Self {
            bytes,
            extents: (bytes > 0).then_some(whole).into_iter().collect(),
        }
    }

    /// Of an image that was read with its areas.
    pub fn of_image(image: &Image) -> Self {
        let page = cvc_image::PAGE as u64;
        let extents = image
            .areas
            .iter()
            .filter(|area| area.data_bytes > 0)
            .map(|area| Extent {
                offset: area.file_offset + page,
                start: area.start,
                bytes: area.data_bytes,
            })
            .collect();
        Self {
            bytes: image.uncompressed_bytes,
            extents,
        }
    }

    /// Number of blocks.
    pub fn blocks(&self, size: BlockSize) -> u64 {
        self.extents.iter().map(|e| e.blocks(size)).sum()
    }

    /// Refuses one that no file has: a file may be damaged where no checksum tells. The end of the last block is an address, too.
    pub fn check(&self, path: &Path) -> Result<(), DeltaError> {
        let mut at = 0;
        for extent in &self.extents {
            let end = extent.offset.checked_add(extent.bytes);
            let last = extent
                .start
                .checked_add(extent.bytes)
                .and_then(|last| last.checked_add(BlockSize::MAX.bytes()));
            match (end, last) {
                (Some(end), Some(_)) if extent.offset >= at && end <= self.bytes => at = end,
                _ => return Err(DeltaError::damaged(path, "the table of extents")),
            }
        }
        Ok(())
    }
}

/// The extents of a file by address, each with the number of its first block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(pub Vec<(Extent, u64)>);

impl Numbers {
    pub fn of(layout: &Layout, size: BlockSize) -> Self {
        let mut first = 0;
        let mut extents: Vec<(Extent, u64)> = layout
            .extents
            .iter()
            .map(|extent| {
                let numbered = (*extent, first);
                first += extent.blocks(size);
                numbered
            })
            .collect();
        extents.sort_by_key(|(extent, _)| extent.start);
        Self(extents)
    }

    /// Whether their blocks are among so many, and all have addresses: a file of hashes may say anything.
    pub fn are_of(&self, blocks: u64, size: BlockSize) -> bool {
        self.0.iter().all(|(extent, first)| {
            // the last block ends at a multiple of the block size
            let end = extent.start.checked_add(extent.bytes);
            end.is_some_and(|end| end.checked_add(size.bytes()).is_some())
                && first
                    .checked_add(extent.blocks(size))
                    .is_some_and(|end| end <= blocks)
        })
    }

    /// Which extent contains an address.
    fn extent_at(&self, address: u64) -> Option<usize> {
        let after = self
            .0
            .partition_point(|(extent, _)| extent.start <= address);
        let n = after.checked_sub(1)?;
        self.contains(n, address).then_some(n)
    }

    fn contains(&self, n: usize, address: u64) -> bool {
        let extent = self.0.get(n).map(|(extent, _)| extent);
        extent.is_some_and(|e| e.start <= address && address < e.start + e.bytes)
    }

    fn block_of(&self, n: usize, address: u64, size: BlockSize) -> (Block, u64) {
        let (extent, first) = &self.0[n];
        let n = address / size.bytes() - extent.start / size.bytes();
        (extent.block(n, size), first + n)
    }

    /// The block that contains an address, with its number in the file.
    pub fn at(&self, address: u64, size: BlockSize) -> Option<(Block, u64)> {
        let n = self.extent_at(address)?;
        Some(self.block_of(n, address, size))
    }

    /// The number of the block with this address and length.
    pub fn find(&self, block: &Block, size: BlockSize) -> Option<u64> {
        Finder::new(self, size).find(block)
    }
}

/// Finds one block after the other: the next one is mostly in the same extent, or in the next one.
#[derive(Clone, Debug)]
pub struct Finder<'a> {
    numbers: &'a Numbers,
    size: BlockSize,
    last: usize,
}

impl<'a> Finder<'a> {
    pub fn new(numbers: &'a Numbers, size: BlockSize) -> Self {
        Self {
            numbers,
            size,
            last: 0,
        }
    }

    /// The number of the block with this address and length.
    pub fn find(&mut self, block: &Block) -> Option<u64> {
        let n = [self.last, self.last + 1]
            .into_iter()
            .find(|n| self.numbers.contains(*n, block.address))
            .or_else(|| self.numbers.extent_at(block.address))?;
        self.last = n;
        let (there, number) = self.numbers.block_of(n, block.address, self.size);
        ((there.address, there.bytes) == (block.address, block.bytes)).then_some(number)
    }
}
