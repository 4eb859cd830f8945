//! The three layouts of an area header, and how to detect them.

use super::PAGE;
use serde::{Deserialize, Serialize};

/// Layout of the area headers. The signatures of v2 and v3 files do not identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Layout {
    /// DMTCP 2.1 to 2.4: name at 72, zero runs marked in `prot`.
    A,
    /// DMTCP 2.5 and 2.6: properties at 72, name at 80.
    B,
    /// DMTCP 3.0 and later: size of the file mapping at 72, properties at 80, name at 88.
    C,
}

impl Layout {
    /// Returns the offset of the name in the header.
    pub(super) fn name_offset(self) -> usize {
        match self {
            Self::A => 72,
            Self::B => 80,
            Self::C => 88,
        }
    }

    /// Detects the layout from a header that has a name; returns `None` if it has no name.
    ///
    /// The documented test looks for `/` or `[` at offsets 72, 80 and 88, in this order. A stricter test for layouts B and C is tried first: in
    /// layout C the bytes from 72 are a file size, and a size of (256·n + 47) bytes has a `/` there.
    pub(super) fn from_named(page: &[u8; PAGE]) -> Option<Self> {
        let starts_name = |at: usize| matches!(page[at], b'/' | b'[');
        let word =
            |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        // The first six characters of a path, read as a number, are larger than either of these.
        let small_file_size = word(72) < 1 << 40 || word(72) == u64::MAX;
        if starts_name(88) && word(80) < 8 && small_file_size {
            return Some(Self::C);
        }
        if starts_name(80) && word(72) < 4 {
            return Some(Self::B);
        }
        [Self::A, Self::B, Self::C]
            .into_iter()
            .find(|layout| starts_name(layout.name_offset()))
    }

    /// Guesses the layout from a header without a name (anonymous memory). The guess suffices to skip to a header that has a name.
    pub(super) fn from_nameless(page: &[u8; PAGE]) -> Self {
        match u64::from_le_bytes(page[72..80].try_into().expect("eight bytes")) {
            u64::MAX => Self::C, // "-1 for anonymous areas"
            0..=2 => Self::B,
            _ if page[72] == 0 => Self::A, // an empty name, then whatever the buffer held before
            _ => Self::C,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(parts: &[(usize, &[u8])]) -> [u8; PAGE] {
        let mut page = [0xEE; PAGE];
        for (at, bytes) in parts {
            page[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        page
    }

    #[test]
    fn each_layout_is_recognised_by_the_start_of_its_name() {
        assert_eq!(
            Layout::from_named(&page(&[(72, b"/usr/lib/x86_64-linux-gnu/libc.so.6\0")])),
            Some(Layout::A)
        );
        assert_eq!(
            Layout::from_named(&page(&[(72, b"/bin/sh\0")])),
            Some(Layout::A)
        );
        assert_eq!(
            Layout::from_named(&page(&[(72, b"[heap]\0")])),
            Some(Layout::A)
        );
        assert_eq!(
            Layout::from_named(&page(&[(72, &[0; 8]), (80, b"/usr/lib/\0")])),
            Some(Layout::B)
        );
        assert_eq!(
            Layout::from_named(&page(&[
                (72, &4096u64.to_le_bytes()),
                (80, &[0; 8]),
                (88, b"/usr/lib/\0")
            ])),
            Some(Layout::C)
        );
        assert_eq!(Layout::from_named(&page(&[(72, &[0; 24])])), None);
    }

    #[test]
    fn a_file_size_that_looks_like_a_slash_does_not_mislead() {
        let size = 0x1_232Fu64.to_le_bytes();
        assert_eq!(size[0], b'/');
        assert_eq!(
            Layout::from_named(&page(&[
                (72, &size),
                (80, &[0; 8]),
                (88, b"/home/u/a.out\0")
            ])),
            Some(Layout::C)
        );
    }
}
