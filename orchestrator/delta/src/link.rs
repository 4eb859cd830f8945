//! The files of a chain, and of which stored blocks a block is made.

use crate::{
    error::DeltaError,
    file::{Reference, StateFile},
    layout::{Block, Numbers},
};
use std::collections::HashMap;

/// A file of a chain, with its extents by address and by number.
#[derive(Debug)]
pub struct Link {
    pub file: StateFile,
    pub names: HashMap<String, usize>,
    pub numbers: Vec<Numbers>,
    /// Number of the first block of each image among those of all images; one more for the end.
    pub firsts: Vec<u64>,
    /// The same of each extent of an image among those of the image.
    pub extents: Vec<Vec<u64>>,
    /// The same image in the file of the base.
    pub in_base: Vec<Option<usize>>,
}

/// A block of a file of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Which file.
    pub at: usize,
    pub image: usize,
    pub block: Block,
    /// Its number in the image.
    pub number: usize,
}

/// A stored block: of which file of a chain, and its number there.
pub type Part = (usize, u32);

impl Link {
    pub fn new(file: StateFile) -> Self {
        let size = file.summary().block_bytes;
        let images = &file.summary().images;
        let names = images.iter().enumerate();
        let names = names.map(|(n, image)| (image.name.clone(), n)).collect();
        let numbers = (0..images.len())
            .map(|n| Numbers::of(file.layout(n), size))
            .collect();
        // the tables were checked: there are as many references as blocks
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

    /// The image and block with a number among the blocks of all images.
    pub fn numbered(&self, number: u64) -> Option<(usize, Block, usize)> {
        // an image without blocks begins where the next one does
        let image = self.firsts.partition_point(|first| *first <= number) - 1;
        let within = number - self.firsts[image];
        let firsts = self.extents.get(image)?;
        let extent = firsts.partition_point(|first| *first <= within) - 1;
        let size = self.file.summary().block_bytes;
        let block = self.file.layout(image).extents[extent].block(within - firsts[extent], size);
        Some((image, block, usize::try_from(within).ok()?))
    }
}

/// The stored blocks of which a block is the exclusive or: none if it is zero.
pub fn parts_of(files: &[Link], mut place: Place, to: &mut Vec<Part>) -> Result<(), DeltaError> {
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
        place = Place {
            at: place.at + 1,
            image,
            block,
            number,
        };
    }
}
