//! Finds the file of an earlier state that corresponds to a file of a later state. Usually both have the same name. For files that DMTCP saves in
//! `_files` directories, both were saved from the same original: DMTCP gives a saved file a different number in each checkpoint.

use crate::signature::{ImageSignature, Signature};
use std::collections::{BTreeMap, BTreeSet};

/// The files of an earlier state, looked up by names of a later state.
pub(crate) struct Partners<'a> {
    old: &'a Signature,
    /// Names of saved files in the later state that the earlier state lacks, each with the name of the corresponding file in the earlier state.
    saved: BTreeMap<String, String>,
}

impl<'a> Partners<'a> {
    pub fn new(new: &Signature, old: &'a Signature) -> Self {
        // files that were saved from the same original are indistinguishable and have no counterpart
        let (mut once, mut twice) = (BTreeMap::new(), BTreeSet::new());
        for name in new.images.keys().filter(|n| !old.images.contains_key(*n)) {
            if let Some((original, _)) = original(name)
                && once.insert(original, name).is_some()
            {
                twice.insert(original);
            }
        }
        let mut saved = BTreeMap::new();
        for (original_name, name) in once {
            let of_same = old.images.keys().filter_map(|old| {
                let (original, number) = original(old)?;
                (original == original_name).then_some((number, old))
            });
            if let Some((_, partner)) = of_same.max()
                && !twice.contains(original_name)
            {
                saved.insert(name.clone(), partner.clone());
            }
        }
        Self { old, saved }
    }

    /// Returns the name and hashes of the corresponding file in the earlier state.
    pub fn of(&self, name: &str) -> Option<(&str, &'a ImageSignature)> {
        let name = self.saved.get(name).map_or(name, String::as_str);
        let (name, image) = self.old.images.get_key_value(name)?;
        Some((name, image))
    }

    /// Returns the number of the first block of the corresponding file among all blocks of the earlier state.
    pub fn first_block(&self, name: &str) -> u64 {
        let images = self.old.images.iter();
        let before = images.take_while(|(other, _)| other.as_str() < name);
        before.map(|(_, image)| image.blocks() as u64).sum()
    }
}

/// Returns the bytes of blocks of `new` that `old` does not have at the same place of the same file. This definition of a change is used to count,
/// store and compare.
#[must_use]
pub fn changed_bytes(new: &Signature, old: &Signature) -> u64 {
    let partners = Partners::new(new, old);
    new.images
        .iter()
        .map(|(name, image)| {
            let mut old = partners.of(name).map(|(_, old)| old.finder(new.block));
            image
                .each(new.block)
                .filter(|(block, hash)| {
                    let known = old.as_mut().and_then(|old| old.find(block));
                    known != Some(*hash)
                })
                .map(|(block, _)| u64::from(block.bytes))
                .sum::<u64>()
        })
        .sum()
}

/// Returns the name of the original of a saved file in a `_files` directory, and the number that DMTCP appended.
fn original(name: &str) -> Option<(&str, u64)> {
    let (dir, file) = name.rsplit_once('/')?;
    let (original, number) = file.rsplit_once('_')?;
    let dir = dir.rsplit('/').next().unwrap_or(dir);
    let is_saved = dir.starts_with("ckpt_") && dir.ends_with("_files");
    Some((original, number.parse().ok()?)).filter(|_| is_saved)
}
