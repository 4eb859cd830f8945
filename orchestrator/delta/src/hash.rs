//! Hashes of blocks.

use blake3::{IncrementCounter, platform::Platform};
use std::fmt;

/// The first 128 bits of BLAKE3. Among n different blocks, two have the same hash with a probability of about n²/2¹²⁹: 10⁻¹⁶ for a petabyte in
/// pages of 4 KiB (n = 2³⁸).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 16]);

impl Hash {
    /// Returns the hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from(blake3::hash(bytes))
    }
}

impl From<blake3::Hash> for Hash {
    fn from(hash: blake3::Hash) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        Self(half)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Length of a chunk in BLAKE3's tree, bytes; the following constants are the lengths of a node and of a hash value.
const CHUNK: usize = 1024;
const NODE: usize = 64;
const VALUE: usize = 32;
/// Number of chunks in a page.
const CHUNKS: usize = cvc_image::PAGE / CHUNK;
/// Number of pages that are hashed together: the number of lanes of the widest vectors.
const LANES: usize = 16;
/// Initial value and flags of BLAKE3's compression function (BLAKE3 paper, section 2.2).
const IV: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 2;
const PARENT: u8 = 4;
const ROOT: u8 = 8;

/// Appends the hashes of blocks to `hashes`. The hash of an all-zero block is not computed.
///
/// A page has four chunks. Hashed page by page they would fill only a quarter of the lanes of a wide vector. This function hashes the first chunks
/// of several pages at once, then their second chunks, and so on: more than twice as fast, with identical hashes.
pub fn hash_all<'a>(blocks: impl IntoIterator<Item = &'a [u8]>, hashes: &mut Vec<Hash>) {
    let mut pages: [&[u8; cvc_image::PAGE]; LANES] = [&[0; cvc_image::PAGE]; LANES];
    let mut places = [0; LANES];
    let mut waiting = 0;
    let zero = Hash::of(&[]);
    for block in blocks {
        let place = hashes.len();
        hashes.push(zero);
        if is_zero(block) {
            continue;
        }
        let Ok(page) = block.try_into() else {
            hashes[place] = Hash::of(block);
            continue;
        };
        (pages[waiting], places[waiting]) = (page, place);
        waiting += 1;
        if waiting == LANES {
            hash_pages(&pages, &places, hashes);
            waiting = 0;
        }
    }
    hash_pages(&pages[..waiting], &places[..waiting], hashes);
}

/// Hashes up to [`LANES`] pages. Stores the hash of each page in `hashes`, at the page's index in `places`.
fn hash_pages(pages: &[&[u8; cvc_image::PAGE]], places: &[usize], hashes: &mut [Hash]) {
    let platform = Platform::detect();
    let mut chunks = [[[0; VALUE]; LANES]; CHUNKS];
    for (n, values) in chunks.iter_mut().enumerate() {
        let mut inputs: [&[u8; CHUNK]; LANES] = [&[0; CHUNK]; LANES];
        for (input, page) in inputs.iter_mut().zip(pages) {
            *input = &page.as_chunks().0[n];
        }
        platform.hash_many(
            &inputs[..pages.len()],
            &IV,
            n as u64,
            IncrementCounter::No,
            0,
            CHUNK_START,
            CHUNK_END,
            values.as_flattened_mut(),
        );
    }
    // a node of the tree combines two values
    let node = |left: &[[u8; VALUE]; LANES], right: &[[u8; VALUE]; LANES], flags: u8| {
        let mut nodes = [[0; NODE]; LANES];
        for (n, node) in nodes.iter_mut().enumerate().take(pages.len()) {
            node[..VALUE].copy_from_slice(&left[n]);
            node[VALUE..].copy_from_slice(&right[n]);
        }
        let mut values = [[0; VALUE]; LANES];
        let inputs: [&[u8; NODE]; LANES] = std::array::from_fn(|n| &nodes[n]);
        platform.hash_many(
            &inputs[..pages.len()],
            &IV,
            0,
            IncrementCounter::No,
            flags,
            0,
            0,
            values.as_flattened_mut(),
        );
        values
    };
    let [a, b, c, d] = &chunks;
    let roots = node(&node(a, b, PARENT), &node(c, d, PARENT), PARENT | ROOT);
    for (root, place) in roots.iter().zip(places) {
        hashes[*place].0.copy_from_slice(&root[..16]);
    }
}

/// Returns whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    // groups of fixed length, which the compiler vectorises
    let (groups, rest) = bytes.as_chunks::<32>();
    groups.iter().all(|group| *group == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}

/// Returns the digest of a state; covers the names, permissions and digests of all its files, and its links.
pub(crate) fn digest_of_state<'a>(
    files: impl Iterator<Item = (&'a str, u32, &'a str)>,
    links: &[(String, String)],
) -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, mode, digest) in files {
        hasher.update(format!("{name}\0{mode:o}\0{digest}\0").as_bytes());
    }
    for (name, to) in links {
        hasher.update(format!("{name}\0{to}\0").as_bytes());
    }
    Hash::from(hasher.finalize()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_hashed_together_have_the_hashes_that_they_have_alone() {
        let block = |n: usize, bytes: usize| -> Vec<u8> {
            (0..bytes).map(|at| (at * (n + 3) % 251) as u8).collect()
        };
        for count in [0, 1, 15, 16, 17, 50] {
            let mut blocks: Vec<Vec<u8>> = (0..count).map(|n| block(n, 4096)).collect();
            blocks.push(vec![0; 4096]);
            blocks.push(block(7, 777));
            blocks.insert(count / 2, block(8, 16_384));
            let mut hashes = Vec::new();
            hash_all(blocks.iter().map(Vec::as_slice), &mut hashes);
            let alone: Vec<Hash> = blocks
                .iter()
                .map(|b| Hash::of(if is_zero(b) { &[] } else { b }))
                .collect();
            assert_eq!(hashes, alone, "{count}");
        }
    }
}
