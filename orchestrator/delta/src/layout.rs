//! How the content of a file is divided into blocks.

use crate::error::DeltaError;
use cvc_delta_rules::BlockSize;
use cvc_image::Image;
use std::path::Path;

/// A contiguous part of the file whose blocks have consecutive addresses. In files that are not images, addresses are offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaExtent {
    /// Offset in the content, bytes.
    pub offset: u64,
    /// Address of the first byte.
    pub start: u64,
    /// Length, bytes.
    pub bytes: u64,
}

impl DeltaExtent {
    /// Returns the number of blocks in the extent. Blocks begin at addresses that are multiples of the block size.
    pub fn blocks(&self, size: BlockSize) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        let block = size.bytes();
        (self.start + self.bytes - 1) / block - self.start / block + 1
    }

    /// Returns the block with index `n` in the extent, from 0.
    pub fn block(&self, n: u64, size: BlockSize) -> DeltaBlock {
        let block = size.bytes();
        let from = ((self.start / block + n) * block).max(self.start);
        let to = ((self.start / block + n + 1) * block).min(self.start + self.bytes);
        DeltaBlock {
            offset: self.offset + (from - self.start),
            address: from,
            bytes: u32::try_from(to - from).expect("at most a block"),
        }
    }

    /// Returns all blocks of the extent.
    pub fn cut(&self, size: BlockSize) -> impl Iterator<Item = DeltaBlock> + '_ {
        (0..self.blocks(size)).map(move |n| self.block(n, size))
    }
}

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaBlock {
    /// Offset in the content, bytes.
    pub offset: u64,
    /// Address of the first byte.
    pub address: u64,
    /// Length, bytes: less than the block size at the ends of an extent.
    pub bytes: u32,
}

/// The layout of the content of a file. The bytes outside the extents are the frame, in an image its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeltaLayout {
    /// Length of the uncompressed content, bytes.
    pub bytes: u64,
    /// Extents by ascending offset; none is empty.
    pub extents: Vec<DeltaExtent>,
}

impl DeltaLayout {
    /// Returns the layout of a file that is a single extent of `bytes` bytes.
    pub fn by_index(bytes: u64) -> Self {
        let whole = DeltaExtent {
            offset: 0,
            start: 0,
            bytes,
        };
        Self {
            bytes,
            extents: (bytes > 0).then_some(whole).into_iter().collect(),
        }
    }

    /// Returns the layout of an image whose areas have been read.
    pub fn of_image(image: &Image) -> Self {
        let page = cvc_image::PAGE as u64;
        let extents = image
            .areas
            .iter()
            .filter(|area| area.data_bytes > 0)
            .map(|area| DeltaExtent {
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

    /// Returns the number of blocks in all extents.
    pub fn blocks(&self, size: BlockSize) -> u64 {
        self.extents.iter().map(|e| e.blocks(size)).sum()
    }

    /// Returns an error if extents overlap, are out of order or exceed the file, or if the end of the last block is no valid address. A damaged file
    /// can contain such a layout where no checksum protects it.
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
pub struct Numbers(pub Vec<(DeltaExtent, u64)>);

impl Numbers {
    pub fn of(layout: &DeltaLayout, size: BlockSize) -> Self {
        let mut first = 0;
        let mut extents: Vec<(DeltaExtent, u64)> = layout
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

    /// Returns whether the extents are valid and have at most `blocks` blocks: a damaged file of hashes may contain any numbers.
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

    /// Returns the index of the extent that contains an address.
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

    fn block_of(&self, n: usize, address: u64, size: BlockSize) -> (DeltaBlock, u64) {
        let (extent, first) = &self.0[n];
        let n = address / size.bytes() - extent.start / size.bytes();
        (extent.block(n, size), first + n)
    }

    /// Returns the block that contains an address, and its number in the file.
    pub fn at(&self, address: u64, size: BlockSize) -> Option<(DeltaBlock, u64)> {
        let n = self.extent_at(address)?;
        Some(self.block_of(n, address, size))
    }

    /// Returns the number of the block with this address and length.
    pub fn find(&self, block: &DeltaBlock, size: BlockSize) -> Option<u64> {
        BlockFinder::new(self, size).find(block)
    }
}

/// Looks up blocks in ascending order. The next block is usually in the same extent or the following one, which are tried first.
#[derive(Clone, Debug)]
pub struct BlockFinder<'a> {
    numbers: &'a Numbers,
    size: BlockSize,
    last: usize,
}

impl<'a> BlockFinder<'a> {
    pub fn new(numbers: &'a Numbers, size: BlockSize) -> Self {
        Self {
            numbers,
            size,
            last: 0,
        }
    }

    /// Returns the number of the block with the address and length of `block`.
    pub fn find(&mut self, block: &DeltaBlock) -> Option<u64> {
        let n = [self.last, self.last + 1]
            .into_iter()
            .find(|n| self.numbers.contains(*n, block.address))
            .or_else(|| self.numbers.extent_at(block.address))?;
        self.last = n;
        let (there, number) = self.numbers.block_of(n, block.address, self.size);
        ((there.address, there.bytes) == (block.address, block.bytes)).then_some(number)
    }
}
