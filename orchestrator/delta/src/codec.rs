//! Compression of blocks, and the byte transforms that are applied before it.

use cvc_delta_rules::Codec;
use std::io::{self, Read};

/// Compresses `bytes` with the codec.
pub(crate) fn pack(codec: Codec, bytes: &[u8]) -> io::Result<Vec<u8>> {
    match codec {
        Codec::None => Ok(bytes.to_vec()),
        Codec::Gzip => {
            let mut packed = Vec::new();
            flate2::read::DeflateEncoder::new(bytes, flate2::Compression::new(6))
                .read_to_end(&mut packed)?;
            Ok(packed)
        }
        Codec::Zstd => zstd::bulk::compress(bytes, 3),
        Codec::Lz4 => Ok(lz4_flex::block::compress(bytes)),
    }
}

/// Decompresses `packed` into exactly `bytes` bytes. Any other length is an error.
pub(crate) fn unpack(codec: Codec, packed: &[u8], bytes: usize) -> io::Result<Vec<u8>> {
    let unpacked = match codec {
        Codec::None => packed.to_vec(),
        Codec::Gzip => {
            let mut unpacked = Vec::with_capacity(bytes);
            // reads at most one byte beyond the expected length, whatever length the file claims
            flate2::read::DeflateDecoder::new(packed)
                .take(bytes as u64 + 1)
                .read_to_end(&mut unpacked)?;
            unpacked
        }
        Codec::Zstd => zstd::bulk::decompress(packed, bytes)?,
        Codec::Lz4 => lz4_flex::block::decompress(packed, bytes).map_err(io::Error::other)?,
    };
    if unpacked.len() == bytes {
        Ok(unpacked)
    } else {
        Err(io::Error::other("its length differs from the packed one"))
    }
}

/// Length of a word for [`cvc_delta_rules::Transform::Shuffle`], bytes.
const WORD: usize = 8;

/// Reorders a block: the first bytes of all words, then all second bytes, and so on. Bytes after the last whole word keep their positions.
pub(crate) fn shuffle(block: &[u8]) -> Vec<u8> {
    let (words, rest) = block.as_chunks::<WORD>();
    let mut shuffled = Vec::with_capacity(block.len());
    for place in 0..WORD {
        shuffled.extend(words.iter().map(|word| word[place]));
    }
    shuffled.extend_from_slice(rest);
    shuffled
}

/// Reverses [`shuffle`].
pub(crate) fn unshuffle(block: &mut [u8]) {
    let shuffled = block.to_vec();
    let words = block.len() / WORD;
    for (n, word) in block.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
        for (place, byte) in word.iter_mut().enumerate() {
            *byte = shuffled[place * words + n];
        }
    }
}

/// Replaces a block with the XOR of itself and another block of the same length.
pub(crate) fn xor(block: &mut [u8], other: &[u8]) {
    block.iter_mut().zip(other).for_each(|(a, b)| *a ^= b);
}
