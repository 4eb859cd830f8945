//! Damages seeds by changing bits, bytes, spans, lines, numbers and words of the format.

use crate::{seeds::Seed, table::Target};
use fastrand::Rng;

/// Maximum length of an input, unless its seed is longer.
const MAX_LENGTH: usize = 16 << 10;
/// Maximum length of a span that is moved, removed or repeated. Most spans are much shorter.
const MAX_SPAN: usize = 4096;
/// Numbers at the limits of types.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "7",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999",
    "1e308",
    "-0.5",
    "00000000000000000012",
];
/// Numbers at the limits of types, for binary formats.
const WORDS: [u64; 12] = [
    0,
    1,
    2,
    4,
    4095,
    4096,
    4097,
    1 << 31,
    (1 << 57) - 4096,
    1 << 57,
    i64::MAX as u64,
    u64::MAX,
];

/// Factor that spreads numbers which differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns input number `number` of run `run`. The first inputs are the unchanged seeds.
#[must_use]
pub fn input(target: &Target, seeds: &[Seed], run: u64, number: u64) -> Vec<u8> {
    if let Some(seed) = usize::try_from(number)
        .ok()
        .and_then(|number| seeds.get(number))
    {
        return seed.bytes.clone();
    }
    let mut random =
        Rng::with_seed(run.wrapping_mul(SPREAD) ^ number.wrapping_mul(SPREAD).rotate_left(31));
    mutated(seeds, target.words, &mut random)
}

/// Returns a seed with some damage.
fn mutated(seeds: &[Seed], words: &[&str], random: &mut Rng) -> Vec<u8> {
    let Some(seed) = random.choice(seeds) else {
        return Vec::new();
    };
    let mut bytes = seed.bytes.clone();
    let most = MAX_LENGTH.max(seed.bytes.len());
    // few changes leave most of the input valid, so that it reaches deep parts of a reader
    let changes = 1 + random.usize(0..4) * random.usize(0..3);
    for _ in 0..changes {
        change(&mut bytes, seeds, words, random);
        bytes.truncate(most);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Seed], words: &[&str], random: &mut Rng) {
    match random.u8(0..14) {
        0 => {
            if let Some(at) = place(bytes, random) {
                bytes[at] ^= 1 << random.u8(0..8);
            }
        }
        1 => {
            if let Some(at) = place(bytes, random) {
                bytes[at] = *random
                    .choice(b"\0\x01\xff\x7f\x80 \n\r\t\"'\\/:;,.|[]{}=-_#%~$*0129azAZ")
                    .unwrap_or(&0);
            }
        }
        2 => {
            if let Some(at) = place(bytes, random) {
                bytes[at] = random.u8(..);
            }
        }
        3 => {
            let at = random.usize(0..=bytes.len());
            bytes.truncate(at);
        }
        4 => {
            let span = span(bytes, random);
            bytes.drain(span);
        }
        5 => {
            let span = span(bytes, random);
            let times = if random.u8(0..8) == 0 {
                random.usize(1..64)
            } else {
                1
            };
            let copy = bytes[span.clone()].repeat(times);
            if copy.len() <= MAX_LENGTH {
                bytes.splice(span.end..span.end, copy);
            }
        }
        6 => {
            let (from, to) = (span(bytes, random), random.usize(0..=bytes.len()));
            let copy = bytes[from].to_vec();
            let end = (to + copy.len()).min(bytes.len());
            bytes.splice(to..end, copy);
        }
        7 => {
            let Some(other) = random.choice(seeds) else {
                return;
            };
            let (at, from) = (
                random.usize(0..=bytes.len()),
                random.usize(0..=other.bytes.len()),
            );
            bytes.truncate(at);
            bytes.extend_from_slice(&other.bytes[from..]);
        }
        8 | 9 => {
            let Some(word) = random.choice(words) else {
                return;
            };
            let at = place(bytes, random).unwrap_or(0);
            let end = if random.bool() {
                at
            } else {
                (at + word.len()).min(bytes.len())
            };
            bytes.splice(at..end, word.bytes());
        }
        10 | 11 => change_number(bytes, random),
        12 => change_lines(bytes, random),
        _ => {
            // fields of binary formats are aligned
            let Some(at) = place(bytes, random).map(|at| at & !7) else {
                return;
            };
            let word = random
                .choice(WORDS)
                .unwrap_or(0)
                .wrapping_add(if random.u8(0..4) == 0 {
                    random.u64(0..9000)
                } else {
                    0
                });
            let width = if random.bool() { 8 } else { 4 };
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
        }
    }
}

/// Returns an offset in the bytes, usually of a byte that differs from the previous one, because runs of equal bytes are padding.
fn place(bytes: &[u8], random: &mut Rng) -> Option<usize> {
    if bytes.is_empty() {
        return None;
    }
    let mut at = random.usize(0..bytes.len());
    if random.u8(0..4) > 0 {
        for _ in 0..64 {
            if at == 0 || bytes[at] != bytes[at - 1] {
                break;
            }
            at = random.usize(0..bytes.len());
        }
    }
    Some(at)
}

/// Returns a span, usually a short one.
fn span(bytes: &[u8], random: &mut Rng) -> std::ops::Range<usize> {
    let from = random.usize(0..=bytes.len());
    let most = if random.u8(0..4) == 0 { MAX_SPAN } else { 16 };
    from..(from + random.usize(0..=most)).min(bytes.len())
}

/// Replaces a number in a text.
fn change_number(bytes: &mut Vec<u8>, random: &mut Rng) {
    let Some(at) = place(bytes, random) else {
        return;
    };
    let Some(from) = bytes[at..]
        .iter()
        .position(u8::is_ascii_digit)
        .map(|offset| at + offset)
    else {
        return;
    };
    let end = from
        + bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
    let number = random.choice(NUMBERS).unwrap_or_default();
    bytes.splice(from..end, number.bytes());
}

/// Repeats, removes or swaps lines.
fn change_lines(bytes: &mut Vec<u8>, random: &mut Rng) {
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    if lines.is_empty() {
        return;
    }
    let (one, other) = (random.usize(0..lines.len()), random.usize(0..lines.len()));
    match random.u8(0..3) {
        0 => lines.swap(one, other),
        1 => _ = lines.remove(one),
        _ => lines.insert(other, lines[one].clone()),
    }
    *bytes = lines.concat();
}
