//! Creates the file of a state.

use crate::{
    codec,
    content::Content,
    error::{DeltaError, DeltaErrorKind},
    file::{BaseRef, DeltaSummary, ImageEntry, Reference, StateWriter, WrittenDelta},
    hash::Hash,
    layout::{DeltaBlock, DeltaLayout},
    partner::Partners,
    restore::Chain,
    signature::{self, ImageSignature, Signature, Signed},
    source::{Source, SourceFile},
};
use cvc_delta_rules::{Codec, Transform};
use std::{collections::HashMap, path::Path};

/// Settings for the file of a state.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub codec: Codec,
    pub transform: Transform,
    /// Number of blocks in a packet; 0: all blocks are one stream.
    pub packet_blocks: u32,
    /// Whether identical blocks of a state are stored only once (not with [`Transform::Xor`]), and blocks that the base has at another place are not
    /// stored.
    pub once: bool,
}

/// The base that a state is stored against.
pub struct DeltaReference<'a> {
    pub reference: BaseRef,
    pub signature: &'a Signature,
    /// The files that restore the base; `Some` if its blocks are needed for [`Transform::Xor`].
    pub chain: Option<&'a mut Chain>,
}

/// Writes the file of a state whose blocks have been hashed.
pub fn make(
    path: &Path,
    state: u32,
    source: &Source,
    signed: &Signed,
    mut against: Option<DeltaReference<'_>>,
    settings: Settings,
    progress: &dyn Fn(u64),
) -> Result<(DeltaSummary, WrittenDelta), DeltaError> {
    let mut writer = StateWriter::new(
        path,
        settings.codec,
        settings.transform,
        settings.packet_blocks,
    )?;
    let mut images = Vec::new();
    let mut stored: HashMap<Hash, u32> = HashMap::new();
    let elsewhere = match &against {
        Some(against) if settings.once => find_elsewhere(source, signed, against.signature),
        _ => HashMap::new(),
    };
    let partners = against
        .as_ref()
        .map(|against| Partners::new(&signed.signature, against.signature));
    for (file, read) in source.files.iter().zip(&signed.files) {
        let own = &signed.signature.images[&file.name];
        let partner = partners.as_ref().and_then(|p| Some((p, p.of(&file.name)?)));
        let other = partner.filter(|(_, (name, _))| *name != file.name);
        let mut maker = Maker {
            file,
            own,
            old: partner.map(|(_, (_, old))| old),
            renamed: other.map(|(partners, (name, _))| partners.first_block(name)),
            settings,
            elsewhere: &elsewhere,
            references: Vec::with_capacity(own.blocks()),
            moved: Vec::new(),
            wanted: Vec::new(),
            changed_bytes: 0,
            moved_bytes: 0,
        };
        maker.compare(signed, read);
        let chain = against.as_mut().and_then(|a| a.chain.as_deref_mut());
        maker.store(
            signed,
            &read.layout,
            &mut writer,
            &mut stored,
            chain,
            progress,
        )?;
        writer.image(&read.layout, &read.frame, &maker.references, &maker.moved)?;
        images.push(ImageEntry {
            name: file.name.clone(),
            bytes: read.layout.bytes,
            mode: file.mode,
            gzip: read.gzip,
            unique_pid: read.unique_pid.clone(),
            digest: read.digest.clone(),
            blocks: own.blocks() as u64,
            changed_bytes: maker.changed_bytes,
            moved_bytes: maker.moved_bytes,
            frame_bytes: read.frame_bytes,
        });
    }
    source.require_unchanged()?;
    let summary = DeltaSummary {
        state,
        base: against.map(|a| a.reference),
        addressing: signed.signature.addressing,
        block_bytes: signed.signature.block,
        codec: settings.codec,
        transform: settings.transform,
        packet_blocks: settings.packet_blocks,
        stored_blocks: writer.stored(),
        digest: signed.signature.digest.clone().unwrap_or_default(),
        images,
        links: source.links.clone(),
    };
    let written = writer.finish(&summary)?;
    Ok((summary, written))
}

/// Looks up the contents of changed blocks in the base. Returns, by the hash of each content found, the number of its block among all blocks of the
/// base.
fn find_elsewhere(source: &Source, signed: &Signed, old: &Signature) -> HashMap<Hash, u64> {
    let size = signed.signature.block;
    let zero = Hash::of(&[]);
    let mut found: HashMap<Hash, Option<u64>> = HashMap::new();
    for (file, read) in source.files.iter().zip(&signed.files) {
        let own = &signed.signature.images[&file.name];
        let mut old = old.images.get(&file.name).map(|old| old.finder(size));
        let blocks = read.layout.extents.iter().flat_map(|e| e.cut(size));
        for (block, hash) in blocks.zip(own.hashes()) {
            let known = old.as_mut().and_then(|old| old.find(&block));
            if known != Some(*hash) && *hash != zero {
                found.insert(*hash, None);
            }
        }
    }
    if found.is_empty() {
        return HashMap::new();
    }
    let all = old.images.values().flat_map(ImageSignature::hashes);
    for (hash, number) in all.zip(0..) {
        if let Some(place @ None) = found.get_mut(hash) {
            *place = Some(number);
        }
    }
    let found = found.into_iter();
    found
        .filter_map(|(hash, place)| Some((hash, place?)))
        .collect()
}

/// Processes one file of a state.
struct Maker<'a> {
    file: &'a SourceFile,
    own: &'a ImageSignature,
    old: Option<&'a ImageSignature>,
    /// The number of the file's first block in the base, among all blocks of the base; `Some` only if the file has another name there.
    renamed: Option<u64>,
    settings: Settings,
    /// By hash, the contents of changed blocks that the base has at another place, each with the number of its block in the base.
    elsewhere: &'a HashMap<Hash, u64>,
    references: Vec<Reference>,
    /// For each block whose content the base has at another place, the number of that content's block among all blocks of the base.
    moved: Vec<u64>,
    /// Blocks to be stored, each with its number in the file.
    wanted: Vec<(DeltaBlock, usize)>,
    changed_bytes: u64,
    moved_bytes: u64,
}

impl Maker<'_> {
    /// Compares the file with the base, and determines the reference of each block and the blocks to store.
    fn compare(&mut self, signed: &Signed, read: &signature::SignedFile) {
        let size = signed.signature.block;
        let zero = Hash::of(&[]);
        let blocks = read.layout.extents.iter().flat_map(|e| e.cut(size));
        let mut old = self.old.map(|old| old.finder(size));
        for (number, (block, hash)) in blocks.zip(self.own.hashes()).enumerate() {
            let known = old.as_mut().and_then(|old| old.find_numbered(&block));
            if let Some((place, known)) = known
                && known == *hash
                && let Some(reference) = self.unchanged(place, known == zero)
            {
                self.references.push(reference);
                continue;
            }
            self.changed_bytes += u64::from(block.bytes);
            if let Some(place) = self.elsewhere.get(hash)
                && let Ok(n) = u32::try_from(self.moved.len())
            {
                self.references.push(Reference::Moved(n));
                self.moved.push(*place);
                self.moved_bytes += u64::from(block.bytes);
                continue;
            }
            self.references.push(Reference::Zero);
            if *hash != zero {
                self.wanted.push((block, number));
            }
        }
    }

    /// Returns the reference of an unchanged block; `place` is its number in the base's file. A restore finds the base's file by its name. If the
    /// file has another name there, the block is therefore recorded as one at another place; `None`: there are too many such blocks.
    fn unchanged(&mut self, place: u64, is_zero: bool) -> Option<Reference> {
        let Some(first) = self.renamed else {
            return Some(Reference::Base);
        };
        if is_zero {
            return Some(Reference::Zero);
        }
        let n = u32::try_from(self.moved.len()).ok()?;
        self.moved.push(first + place);
        Some(Reference::Moved(n))
    }

    /// Reads the blocks to store and writes them.
    fn store(
        &mut self,
        signed: &Signed,
        layout: &DeltaLayout,
        writer: &mut StateWriter,
        stored: &mut HashMap<Hash, u32>,
        mut chain: Option<&mut Chain>,
        progress: &dyn Fn(u64),
    ) -> Result<(), DeltaError> {
        let size = signed.signature.block;
        let hashes = self.own.hashes();
        let once = self.settings.once && self.settings.transform != Transform::Xor;
        if once {
            // identical blocks that were already stored are not read again
            let references = &mut self.references;
            self.wanted.retain(|(_, number)| {
                let known = stored.get(&hashes[*number]);
                if let Some(n) = known {
                    references[*number] = Reference::Stored(*n);
                }
                known.is_none()
            });
        }
        let blocks: Vec<DeltaBlock> = self.wanted.iter().map(|(block, _)| *block).collect();
        let mut numbers = self.wanted.iter().map(|(_, number)| *number);
        let mut content = Content::open(self.file, signed.signature.addressing)?;
        if content.layout != *layout {
            return Err(DeltaError::new(&self.file.path, DeltaErrorKind::Changed));
        }
        let name = &self.file.name;
        let old = self.old.filter(|_| self.renamed.is_none());
        let references = &mut self.references;
        let mut buffer = Vec::new();
        content.blocks(&self.file.path, size, &blocks, |block, bytes| {
            let number = numbers.next().expect("one for each block");
            progress(bytes.len() as u64);
            let hash = hashes[number];
            if once && let Some(n) = stored.get(&hash) {
                references[number] = Reference::Stored(*n);
                return Ok(());
            }
            if Hash::of(bytes) != hash {
                return Err(DeltaError::new(&self.file.path, DeltaErrorKind::Changed));
            }
            let is_there = old.is_some_and(|old| old.has(block, size));
            if let Some(chain) = chain.as_deref_mut().filter(|_| is_there) {
                buffer.clear();
                buffer.extend_from_slice(bytes);
                codec::xor(&mut buffer, &chain.block(name, block.address)?);
                references[number] = Reference::Xored(writer.block(&buffer)?);
                return Ok(());
            }
            let n = writer.block(bytes)?;
            references[number] = Reference::Stored(n);
            if once {
                stored.insert(hash, n);
            }
            Ok(())
        })?;
        // blocks that could not be read again must not be stored as zeros
        match numbers.next() {
            Some(_) => Err(DeltaError::new(&self.file.path, DeltaErrorKind::Changed)),
            None => Ok(()),
        }
    }
}
