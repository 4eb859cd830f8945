//! The frame of a file: the bytes outside its extents. In an image these are the headers.
//!
//! The header of an area is a page with a few numbers, a name, and bytes that DMTCP never initialises: the latter are the same in all headers of an
//! image, but differ between images. Each page is stored as XOR with the previous page, so that little but the numbers remains, and is then
//! compressed.

use crate::{codec, error::DeltaError, hash::Hash};
use cvc_image::PAGE;
use std::{
    io::{self, Read, Write},
    path::Path,
};

/// Compresses a frame.
pub struct Packer {
    encoder: zstd::stream::write::Encoder<'static, Vec<u8>>,
    hasher: blake3::Hasher,
    before: Vec<u8>,
    page: Vec<u8>,
    bytes: u64,
}

/// A compressed frame.
pub struct PackedFrame {
    pub packed: Vec<u8>,
    /// Hash of the uncompressed frame.
    pub hash: Hash,
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            encoder: zstd::stream::write::Encoder::new(Vec::new(), 3)?,
            hasher: blake3::Hasher::new(),
            before: vec![0; PAGE],
            page: Vec::with_capacity(PAGE),
            bytes: 0,
        })
    }

    /// Adds bytes to the frame.
    pub fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - self.page.len()));
            self.page.extend_from_slice(now);
            bytes = later;
            if self.page.len() == PAGE {
                self.end_page()?;
            }
        }
        Ok(())
    }

    fn end_page(&mut self) -> io::Result<()> {
        codec::xor(&mut self.before, &self.page);
        self.encoder.write_all(&self.before[..self.page.len()])?;
        std::mem::swap(&mut self.before, &mut self.page);
        self.page.clear();
        Ok(())
    }

    /// Returns the number of bytes added so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compresses the rest and returns the frame.
    pub fn finish(mut self) -> io::Result<PackedFrame> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        Ok(PackedFrame {
            packed: self.encoder.finish()?,
            hash: Hash::from(self.hasher.finalize()),
        })
    }
}

/// Decompresses a frame piece by piece.
pub struct Unpacker<'a> {
    decoder: zstd::stream::read::Decoder<'static, io::BufReader<&'a [u8]>>,
    before: Vec<u8>,
    /// The current page; the next field is the number of its bytes already returned.
    page: Vec<u8>,
    given: usize,
    hasher: blake3::Hasher,
    path: &'a Path,
}

impl<'a> Unpacker<'a> {
    pub fn new(path: &'a Path, packed: &'a [u8]) -> Result<Self, DeltaError> {
        Ok(Self {
            decoder: zstd::stream::read::Decoder::new(packed)
                .map_err(|_| DeltaError::damaged(path, "the frame"))?,
            before: vec![0; PAGE],
            page: Vec::new(),
            given: 0,
            hasher: blake3::Hasher::new(),
            path,
        })
    }

    /// Fills `to` with the next bytes.
    pub fn take(&mut self, mut to: &mut [u8]) -> Result<(), DeltaError> {
        while !to.is_empty() {
            if self.given == self.page.len() {
                self.next_page()?;
            }
            let now = to.len().min(self.page.len() - self.given);
            let (filled, rest) = std::mem::take(&mut to).split_at_mut(now);
            filled.copy_from_slice(&self.page[self.given..self.given + now]);
            self.hasher.update(filled);
            self.given += now;
            to = rest;
        }
        Ok(())
    }

    /// Skips the next `bytes` bytes.
    pub fn skip(&mut self, bytes: u64) -> Result<(), DeltaError> {
        let mut left = bytes;
        let mut page = [0; PAGE];
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
            self.take(&mut page[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    fn next_page(&mut self) -> Result<(), DeltaError> {
        let mut page = Vec::with_capacity(PAGE);
        self.decoder
            .by_ref()
            .take(PAGE as u64)
            .read_to_end(&mut page)
            .ok()
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| DeltaError::damaged(self.path, "the frame"))?;
        codec::xor(&mut page, &self.before);
        self.before[..page.len()].copy_from_slice(&page);
        self.page = page;
        self.given = 0;
        Ok(())
    }

    /// Returns the hash of all bytes read or skipped so far.
    pub fn hash(&self) -> Hash {
        Hash::from(self.hasher.finalize())
    }
}
