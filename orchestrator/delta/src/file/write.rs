//! Writes the file of a state, packet by packet.

use super::{DeltaSummary, INDEX_ENTRY, MAGIC, Reference, wire};
use crate::{codec, error::DeltaError, hash::Hash, layout::DeltaLayout};
use cvc_delta_rules::{Codec, Transform};
use rayon::prelude::*;
use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

/// Bytes of blocks that are collected before all cores compress them together.
const WAITING: usize = 8 << 20;

/// A state file that is being written. If it is dropped before [`StateWriter::finish`], no file remains.
pub struct StateWriter {
    path: PathBuf,
    file: BufWriter<tempfile::NamedTempFile>,
    at: u64,
    codec: Codec,
    transform: Transform,
    packet_blocks: u32,
    packets: Vec<Vec<u8>>,
    /// The packet to which blocks are added; the next field is its number of blocks.
    open: Vec<u8>,
    open_blocks: u32,
    waiting_bytes: usize,
    index: Vec<u8>,
    /// Lengths of the stored blocks, in order, bytes.
    lengths: Vec<u32>,
    tables: Vec<u8>,
}

/// Sizes of a written file.
#[derive(Clone, Copy, Debug)]
pub struct WrittenDelta {
    /// Length of the file, bytes.
    pub file_bytes: u64,
    /// Compressed length of all packets, bytes.
    pub packet_bytes: u64,
    /// Uncompressed length of all packets, bytes.
    pub new_bytes: u64,
}

impl StateWriter {
    pub fn new(
        path: &Path,
        codec: Codec,
        transform: Transform,
        packet_blocks: u32,
    ) -> Result<Self, DeltaError> {
        let mut file = BufWriter::with_capacity(1 << 20, wire::temporary_next_to(path)?);
        file.write_all(&MAGIC)
            .map_err(DeltaError::io(path, "write"))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            at: MAGIC.len() as u64,
            codec,
            transform,
            packet_blocks,
            packets: Vec::new(),
            open: Vec::new(),
            open_blocks: 0,
            waiting_bytes: 0,
            index: Vec::new(),
            lengths: Vec::new(),
            tables: Vec::new(),
        })
    }

    /// Adds a block and returns its number.
    pub fn block(&mut self, bytes: &[u8]) -> Result<u32, DeltaError> {
        let number = u32::try_from(self.lengths.len())
            .ok()
            .filter(|n| *n < super::MAX_STORED)
            .ok_or_else(|| {
                DeltaError::io(&self.path, "write")(std::io::Error::other(
                    "more blocks than a file can have: choose larger blocks",
                ))
            })?;
        self.lengths
            .push(u32::try_from(bytes.len()).expect("at most a block"));
        if self.transform == Transform::Shuffle {
            self.open.extend(codec::shuffle(bytes));
        } else {
            self.open.extend_from_slice(bytes);
        }
        self.open_blocks += 1;
        if self.packet_blocks > 0 && self.open_blocks == self.packet_blocks {
            self.close_packet();
            if self.waiting_bytes >= WAITING {
                self.flush()?;
            }
        }
        Ok(number)
    }

    fn close_packet(&mut self) {
        if self.open_blocks > 0 {
            self.waiting_bytes += self.open.len();
            self.packets.push(std::mem::take(&mut self.open));
            self.open_blocks = 0;
        }
    }

    fn flush(&mut self) -> Result<(), DeltaError> {
        let codec = self.codec;
        let packed: Result<Vec<(usize, Hash, Vec<u8>)>, std::io::Error> =
            std::mem::take(&mut self.packets)
                .into_par_iter()
                .map(|packet| {
                    let packed = codec::pack(codec, &packet)?;
                    Ok((packet.len(), Hash::of(&packed), packed))
                })
                .collect();
        self.waiting_bytes = 0;
        for (bytes, hash, packed) in packed.map_err(DeltaError::io(&self.path, "compress"))? {
            for number in [self.at, packed.len() as u64, bytes as u64] {
                self.index.extend_from_slice(&number.to_le_bytes());
            }
            self.index.extend_from_slice(&hash.0);
            self.put(&packed)?;
        }
        debug_assert_eq!(self.index.len() % INDEX_ENTRY, 0);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), DeltaError> {
        self.file
            .write_all(bytes)
            .map_err(DeltaError::io(&self.path, "write"))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Adds the tables of the next file of the state. For each block whose content the base has at another place, `moved` has the number of that
    /// content's block among all blocks of the base.
    pub fn image(
        &mut self,
        layout: &DeltaLayout,
        frame: &[u8],
        references: &[Reference],
        moved: &[u64],
    ) -> Result<(), DeltaError> {
        let mut extents = Vec::with_capacity(layout.extents.len() * 24);
        for extent in &layout.extents {
            for number in [extent.offset, extent.start, extent.bytes] {
                extents.extend_from_slice(&number.to_le_bytes());
            }
        }
        let references: Vec<u8> = references
            .iter()
            .flat_map(|r| r.code().to_le_bytes())
            .collect();
        wire::put_section(&mut self.tables, frame);
        // store differences: blocks that moved together are still adjacent, so most differences are zero
        let mut expected = 0_u64;
        let moved: Vec<u8> = moved
            .iter()
            .flat_map(|place| {
                let jump = place.wrapping_sub(expected);
                expected = place.wrapping_add(1);
                jump.to_le_bytes()
            })
            .collect();
        for table in [extents, references, moved] {
            let packed = wire::squeeze(&self.path, &table)?;
            wire::put_section(&mut self.tables, &packed);
        }
        Ok(())
    }

    /// Returns the number of blocks stored so far.
    pub fn stored(&self) -> u32 {
        u32::try_from(self.lengths.len()).expect("checked when they were added")
    }

    /// Writes the tables, and renames the complete file to its final name.
    pub fn finish(mut self, summary: &DeltaSummary) -> Result<WrittenDelta, DeltaError> {
        self.close_packet();
        self.flush()?;
        let packet_bytes = self.at - MAGIC.len() as u64;
        let tables_at = self.at;
        let head = serde_json::to_vec(summary).expect("plain data");
        let new_bytes = self.lengths.iter().map(|l| u64::from(*l)).sum();
        let lengths: Vec<u8> = self.lengths.iter().flat_map(|l| l.to_le_bytes()).collect();
        let index = std::mem::take(&mut self.index);
        let mut tables = Vec::new();
        wire::put_section(&mut tables, &head);
        wire::put_section(&mut tables, &wire::squeeze(&self.path, &index)?);
        wire::put_section(&mut tables, &wire::squeeze(&self.path, &lengths)?);
        tables.extend(std::mem::take(&mut self.tables));
        tables.extend_from_slice(&tables_at.to_le_bytes());
        tables.extend_from_slice(&MAGIC);
        self.put(&tables)?;
        let Self { path, file, at, .. } = self;
        let file = file
            .into_inner()
            .map_err(|e| DeltaError::io(&path, "write")(e.into_error()))?;
        wire::put_in_place(&path, file)?;
        Ok(WrittenDelta {
            file_bytes: at,
            packet_bytes,
            new_bytes,
        })
    }
}
