//! The files of a chain (a state and its successive bases), and the stored blocks from which a block is assembled.

use crate::{
    error::DeltaError,
    file::{Reference, StateFile},
    layout::{DeltaBlock, Numbers},
};
use std::collections::HashMap;

/// A file of a chain, with tables for finding blocks by address and by number.
#[derive(Debug)]
pub struct Link {
    pub file: StateFile,
    pub names: HashMap<String, usize>,
    pub numbers: Vec<Numbers>,
    /// For each image, the number of its first block among the blocks of all images; one more entry for the end.
    pub firsts: Vec<u64>,
    /// For each image and extent, the number of the extent's first block among the blocks of the image.
    pub extents: Vec<Vec<u64>>,
    /// For each image, its index among the images of the next file in the chain, that of the base; `None` if the base has no such image.
    pub in_base: Vec<Option<usize>>,
}

/// The place of a block in a chain.
#[derive(Clone, Copy, Debug)]
pub struct LinkPlace {
    /// Index of the file in the chain.
    pub at: usize,
    pub image: usize,
    pub block: DeltaBlock,
    /// Number of the block in the image.
    pub number: usize,
}

/// A stored block: index of the file in the chain, and number of the block in that file.
pub type LinkPart = (usize, u32);

impl Link {
    pub fn new(file: StateFile) -> Self {
        let size = file.summary().block_bytes;
        let images = &file.summary().images;
        let names = images.iter().enumerate();
        let names = names.map(|(n, image)| (image.name.clone(), n)).collect();
        let numbers = (0..images.len())
            .map(|n| Numbers::of(file.layout(n), size))
            .collect();
        // the tables were validated: there is a reference for each block
        let firsts = (0..images.len()).scan(0, |end, n| {
            *end += file.references(n).len() as u64;
            Some(*end)
        });
        let firsts = std::iter::once(0).chain(firsts).collect();
        let extents = (0..images.len())
            .map(|n| {
                let mut first = 0;
                let each = file.layout(n).extents.iter().map(|extent| {
                    let own = first;
                    first += extent.blocks(size);
                    own
                });
                each.collect()
            })
            .collect();
        Self {
            names,
            numbers,
            firsts,
            extents,
            in_base: Vec::new(),
            file,
        }
    }

    /// Finds a block by its number among the blocks of all images. Returns the index of its image, the block, and its number in the image.
    pub fn numbered(&self, number: u64) -> Option<(usize, DeltaBlock, usize)> {
        // an image without blocks begins at the same number as the next image
        let image = self.firsts.partition_point(|first| *first <= number) - 1;
        let within = number - self.firsts[image];
        let firsts = self.extents.get(image)?;
        let extent = firsts.partition_point(|first| *first <= within) - 1;
        let size = self.file.summary().block_bytes;
        let block = self.file.layout(image).extents[extent].block(within - firsts[extent], size);
        Some((image, block, usize::try_from(within).ok()?))
    }
}

/// Appends to `to` the stored blocks whose XOR is the block at `place`; none if the block is all zeros.
pub fn parts_of(
    files: &[Link],
    mut place: LinkPlace,
    to: &mut Vec<LinkPart>,
) -> Result<(), DeltaError> {
    loop {
        let link = &files[place.at];
        let damaged = || {
            let image = &link.file.summary().images[place.image].name;
            DeltaError::damaged(link.file.path(), format!("the references of {image}"))
        };
        let mut stored = |n: u32| {
            let (_, _, bytes) = link.file.place(n);
            if bytes != place.block.bytes as usize {
                let what = format!("the length of block {n}");
                return Err(DeltaError::damaged(link.file.path(), what));
            }
            to.push((place.at, n));
            Ok(())
        };
        let base = files.get(place.at + 1);
        let found = match link.file.references(place.image)[place.number] {
            Reference::Zero => return Ok(()),
            Reference::Stored(n) => return stored(n),
            reference @ (Reference::Base | Reference::Xored(_)) => {
                if let Reference::Xored(n) = reference {
                    stored(n)?;
                }
                link.in_base[place.image]
                    .zip(base)
                    .and_then(|(image, base)| {
                        let size = base.file.summary().block_bytes;
                        let number = base.numbers[image].find(&place.block, size)?;
                        Some((image, place.block, usize::try_from(number).ok()?))
                    })
            }
            Reference::Moved(n) => base.and_then(|base| {
                let moved = link.file.moved(place.image)[n as usize];
                let found = (moved < *base.firsts.last()?).then(|| base.numbered(moved))?;
                found.filter(|(_, block, _)| block.bytes == place.block.bytes)
            }),
        };
        let (image, block, number) = found.ok_or_else(damaged)?;
        place = LinkPlace {
            at: place.at + 1,
            image,
            block,
            number,
        };
    }
}
