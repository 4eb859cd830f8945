//! Hashes of blocks.

use std::fmt;

/// The first 128 bits of BLAKE3. Two different blocks of n have the same hash with a probability of about n²/2¹²⁹: for a petabyte in pages of 4 KiB
/// (n = 2³⁸) that is 10⁻¹⁶.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 16]);

impl Hash {
    /// Hashes bytes.
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

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    // whole groups: the compiler makes vectors of it
    let (groups, rest) = bytes.as_chunks::<32>();
    groups.iter().all(|group| *group == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}
