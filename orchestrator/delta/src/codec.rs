//! How blocks are compressed, and what is done to them before.

use cvc_delta_rules::Codec;
use std::io::{self, Read};

/// Compresses bytes.
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

/// Gives back what was compressed: `bytes` bytes, or an error.
pub(crate) fn unpack(codec: Codec, packed: &[u8], bytes: usize) -> io::Result<Vec<u8>> {
    let unpacked = match codec {
        Codec::None => packed.to_vec(),
        Codec::Gzip => {
            let mut unpacked = Vec::with_capacity(bytes);
            // never more than one byte too many, whatever the file says
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
        Err(io::Error::other("another length than was packed"))
    }
}

/// Bytes of a word that [`cvc_delta_rules::Transform::Shuffle`] takes apart.
const WORD: usize = 8;

/// Puts the bytes of words by their place in the word; what is left over at the end stays.
pub(crate) fn shuffle(block: &[u8]) -> Vec<u8> {
    let (words, rest) = block.as_chunks::<WORD>();
    let mut shuffled = Vec::with_capacity(block.len());
    for place in 0..WORD {
        shuffled.extend(words.iter().map(|word| word[place]));
    }
    shuffled.extend_from_slice(rest);
    shuffled
}

/// Undoes [`shuffle`].
pub(crate) fn unshuffle(block: &mut [u8]) {
    let shuffled = block.to_vec();
    let words = block.len() / WORD;
    for (n, word) in block.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
        for (place, byte) in word.iter_mut().enumerate() {
            *byte = shuffled[place * words + n];
        }
    }
}

/// Exclusive or of a block with another one of its length.
pub(crate) fn xor(block: &mut [u8], other: &[u8]) {
    block.iter_mut().zip(other).for_each(|(a, b)| *a ^= b);
}
