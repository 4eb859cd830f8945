//! Stripes of a shared file that more than one block touches. A file system that locks stripes passes such a lock from client to client, and each
//! client reads and writes the whole stripe.

use crate::{check::positive, fit::FitError};
use serde::Serialize;

/// Pieces of blocks that cover only a part of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartialStripes {
    /// Number of pieces; each needs a lock.
    pub pieces: u64,
    /// Bytes transferred in addition to the data, if each piece is read, changed and written as a whole stripe.
    pub extra_bytes: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Counts the partial stripes of a shared file of `bytes` bytes. Blocks of `block_bytes` follow each other, neighbouring blocks belong to different
/// processes, and stripes have `stripe_bytes`. The first block and the first stripe begin at offset 0.
///
/// # Errors
/// A block or a stripe has no bytes.
pub fn partial_stripes(
    bytes: u64,
    block_bytes: u64,
    stripe_bytes: u64,
) -> Result<PartialStripes, FitError> {
    positive("the size of a block", block_bytes as f64)?;
    positive("the size of a stripe", stripe_bytes as f64)?;
    let (block, stripe) = (u128::from(block_bytes), u128::from(stripe_bytes));
    // the pattern repeats where a block and a stripe begin at the same offset
    let period = block / u128::from(gcd(block_bytes, stripe_bytes)) * stripe;
    let (blocks, stripes) = (period / block, period / stripe);
    let (pieces, partial_bytes) = if block < stripe {
        // every stripe contains a boundary between blocks
        (blocks + stripes - 1, period)
    } else {
        // all boundaries of blocks, except where the pattern repeats, are in different stripes, with a piece on each side
        let cut = blocks - 1;
        (2 * cut, cut * stripe)
    };
    let extra = (2 * pieces)
        .saturating_mul(stripe)
        .saturating_sub(partial_bytes);
    let repeats = u128::from(bytes) as f64 / period as f64;
    Ok(PartialStripes {
        pieces: (pieces as f64 * repeats).round() as u64,
        extra_bytes: (extra as f64 * repeats).round() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: u64 = 1024;

    #[test]
    fn blocks_of_whole_stripes_share_none() {
        let none = PartialStripes {
            pieces: 0,
            extra_bytes: 0,
        };
        assert_eq!(partial_stripes(1 << 20, 128 * KIB, 64 * KIB), Ok(none));
        assert_eq!(partial_stripes(1 << 20, 64 * KIB, 64 * KIB), Ok(none));
    }

    #[test]
    fn blocks_of_a_sixteenth_of_a_stripe_all_need_its_lock() {
        let found = partial_stripes(1 << 20, 4 * KIB, 64 * KIB).expect("a count");
        assert_eq!(found.pieces, 256);
        // each of 256 pieces reads and writes 64 KiB, including 4 KiB of data
        assert_eq!(found.extra_bytes, 256 * 128 * KIB - (1 << 20));
    }

    #[test]
    fn no_block_or_stripe_is_refused() {
        assert!(partial_stripes(1, 0, 1).is_err());
        assert!(partial_stripes(1, 1, 0).is_err());
    }

    /// Counts pieces by going through the file.
    fn by_hand(bytes: u64, block: u64, stripe: u64) -> PartialStripes {
        let (mut at, mut pieces, mut partial) = (0, 0, 0);
        while at < bytes {
            let end = ((at / block + 1) * block).min((at / stripe + 1) * stripe);
            if end - at < stripe {
                pieces += 1;
                partial += end - at;
            }
            at = end;
        }
        PartialStripes {
            pieces,
            extra_bytes: 2 * pieces * stripe - partial,
        }
    }

    proptest! {
        #[test]
        fn whole_periods_are_counted_as_by_hand(block in 1_u64..200, stripe in 1_u64..200, periods in 1_u64..4) {
            let bytes = block / gcd(block, stripe) * stripe * periods;
            prop_assert_eq!(partial_stripes(bytes, block, stripe), Ok(by_hand(bytes, block, stripe)));
        }
    }
}
