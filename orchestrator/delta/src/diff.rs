//! Compares two checkpoints (states) and sums the changes by parts of the images, such as the heap.

use crate::{
    content::Content,
    error::DeltaError,
    signature::{Signature, SignedFile, sign_all},
    source::Source,
};
use cvc_delta_rules::{Addressing, BlockSize};
use cvc_image::{Image, Part};
use std::{collections::BTreeMap, path::Path};

/// Bytes of the blocks of a part of the images, or of other files, and how many of these bytes changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Total size of the blocks in the newer state, bytes.
    pub bytes: u64,
    /// Bytes of blocks that exist in both states at the same place, with different content.
    pub changed: u64,
    /// Bytes of blocks that exist only in the newer state.
    pub new: u64,
    /// Bytes of blocks that exist only in the older state.
    pub gone: u64,
}

impl Change {
    /// Adds the numbers of `other`.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.changed += other.changed;
        self.new += other.new;
        self.gone += other.gone;
    }
}

/// Changes of one part of the images; the owner rules define the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartChange {
    /// The part, such as the heap.
    pub part: Part,
    /// The changes of this part.
    pub change: Change,
}

/// Changes between two states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageChanges {
    /// Changes by part, summed over all images; only parts that exist, in the order of their definition.
    pub parts: Vec<PartChange>,
    /// Changes of files that are not images.
    pub other_files: Change,
    /// Number of files, images included, that exist in both states.
    pub files: usize,
    /// Names of files that exist only in the newer state.
    pub new_files: Vec<String>,
    /// Names of files that exist only in the older state.
    pub gone_files: Vec<String>,
}

impl PageChanges {
    /// Returns the sum over all parts and other files.
    #[must_use]
    pub fn total(&self) -> Change {
        let mut total = self.other_files;
        self.parts.iter().for_each(|p| total.add(&p.change));
        total
    }
}

/// Compares two states; each is a directory or a file. `progress` receives the number of bytes read.
///
/// # Errors
/// A file cannot be read.
pub fn changes(
    old: &Path,
    new: &Path,
    block: BlockSize,
    progress: &dyn Fn(u64),
) -> Result<PageChanges, DeltaError> {
    let (old, new) = (Source::list(old)?, Source::list(new)?);
    let before = sign_all(&old, Addressing::Address, block, progress)?.signature;
    let after = sign_all(&new, Addressing::Address, block, progress)?.signature;
    // if each state is a single file, the two files are compared even if their names differ
    let renamed = (old.files.len() == 1 && new.files.len() == 1)
        .then(|| (old.files[0].name.clone(), new.files[0].name.clone()));
    let mut changes = PageChanges::default();
    let mut parts = [Change::default(); Part::ALL.len()];
    for file in &new.files {
        let old_name = match &renamed {
            Some((old, _)) => old,
            None => &file.name,
        };
        let old_file = old.files.iter().find(|f| f.name == *old_name);
        match old_file {
            Some(_) => changes.files += 1,
            None => changes.new_files.push(file.name.clone()),
        }
        let newer = Content::open(file, Addressing::Address)?.image;
        let older = match old_file {
            Some(file) => Content::open(file, Addressing::Address)?.image,
            None => None,
        };
        let signatures = Pair {
            before: &before,
            after: &after,
            old_name,
            new_name: &file.name,
        };
        signatures.each(|address, change, is_old| {
            let image = if is_old { &older } else { &newer };
            match image {
                Some(image) => parts[part(image, address) as usize].add(change),
                None => changes.other_files.add(change),
            }
        });
    }
    let has = |name: &String| new.files.iter().any(|f| f.name == *name);
    changes.gone_files = match renamed {
        Some(_) => Vec::new(),
        None => old
            .files
            .iter()
            .map(|f| f.name.clone())
            .filter(|n| !has(n))
            .collect(),
    };
    changes.parts = Part::ALL
        .into_iter()
        .map(|part| PartChange {
            part,
            change: parts[part as usize],
        })
        .filter(|p| p.change != Change::default())
        .collect();
    Ok(changes)
}

/// The images of a state by file name; they determine to which part each address belongs.
#[derive(Clone, Debug, Default)]
pub struct Parts(BTreeMap<String, Image>);

/// Hashes the blocks of a state by address, and returns the hashes with the images' parts. `progress` receives the number of bytes read.
///
/// # Errors
/// A file cannot be read.
pub fn sign_with_parts(
    source: &Source,
    block: BlockSize,
    progress: &dyn Fn(u64),
) -> Result<(Signature, Parts), DeltaError> {
    let signed = sign_all(source, Addressing::Address, block, progress)?;
    Ok((signed.signature, Parts::of(source, signed.files)))
}

impl Parts {
    /// Takes the images from the files that were read; `files` has the order of the source.
    pub(crate) fn of(source: &Source, files: Vec<SignedFile>) -> Self {
        let images = source.files.iter().zip(files);
        let images = images.filter_map(|(file, signed)| Some((file.name.clone(), signed.image?)));
        Self(images.collect())
    }

    /// Returns whether the state has no images.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the total size of the blocks of `state` in each part, bytes.
    #[must_use]
    pub fn bytes(&self, state: &Signature) -> Vec<(Part, u64)> {
        let mut bytes = [0; Part::ALL.len()];
        for (name, image) in &self.0 {
            let blocks = state.images.get(name).map(|own| own.each(state.block));
            for (block, _) in blocks.into_iter().flatten() {
                bytes[part(image, block.address) as usize] += u64::from(block.bytes);
            }
        }
        let all = Part::ALL
            .into_iter()
            .map(|part| (part, bytes[part as usize]));
        all.collect()
    }
}

/// Returns for each part the bytes of blocks of `new` that `old` does not have at the same place. Omits parts without changes, and files that are
/// not images.
#[must_use]
pub fn changed_by_part(new: &Signature, parts: &Parts, old: &Signature) -> Vec<(Part, u64)> {
    let mut changed = [0; Part::ALL.len()];
    for (name, image) in &parts.0 {
        let pair = Pair {
            before: old,
            after: new,
            old_name: name,
            new_name: name,
        };
        pair.each(|address, change, _| {
            changed[part(image, address) as usize] += change.changed + change.new;
        });
    }
    let all = Part::ALL
        .into_iter()
        .map(|part| (part, changed[part as usize]));
    all.filter(|(_, bytes)| *bytes > 0).collect()
}

/// Returns the part of the last region that begins at or before an address.
fn part(image: &Image, address: u64) -> Part {
    let after = image
        .regions
        .partition_point(|region| region.start <= address);
    image.regions[..after]
        .last()
        .map_or(Part::default(), |region| region.part)
}

/// The same file in two states.
struct Pair<'a> {
    before: &'a Signature,
    after: &'a Signature,
    old_name: &'a str,
    new_name: &'a str,
}

impl Pair<'_> {
    /// Calls `to` with each block: its address, its change, and whether it exists only in the older state.
    fn each(&self, mut to: impl FnMut(u64, &Change, bool)) {
        let size = self.after.block;
        let old = self.before.images.get(self.old_name);
        let new = self.after.images.get(self.new_name);
        let mut before = old.map(|old| old.finder(size));
        let mut after = new.map(|new| new.finder(size));
        for (block, hash) in new.into_iter().flat_map(|image| image.each(size)) {
            let bytes = u64::from(block.bytes);
            let mut change = Change {
                bytes,
                ..Change::default()
            };
            match before.as_mut().and_then(|old| old.find(&block)) {
                Some(known) if known == hash => {}
                Some(_) => change.changed = bytes,
                None => change.new = bytes,
            }
            to(block.address, &change, false);
        }
        for (block, _) in old.into_iter().flat_map(|image| image.each(size)) {
            if after.as_mut().and_then(|new| new.find(&block)).is_none() {
                let change = Change {
                    gone: u64::from(block.bytes),
                    ..Change::default()
                };
                to(block.address, &change, true);
            }
        }
    }
}
