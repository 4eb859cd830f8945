//! Writes the checkpoints in `fixtures/relax`, which the documentation and the tests of the program use: four states of two ranks, gzip-compressed.
//! `CVC_WRITE_FIXTURES=1 cargo test -p cvc-delta fixtures` writes them again.

use crate::common::{Area, END_OF_STACK, Kind, child, file, gunzip, gzip, image, parent};
use std::{env, fs, path::Path};

const PAGE: usize = 4096;
const EXE: u64 = 0x5000_0000_0000;
const HEAP: u64 = 0x5000_0002_0000;
const FIELD: u64 = 0x7f00_0000_0000;
const LIBRARY: u64 = 0x7f10_0000_0000;
/// Number of pages of the field that change in every step.
const FRONT: usize = 20;
/// Number of pages of the field that change once, different ones in each step.
const TRAIL: usize = 10;

/// Returns a page with one repeated word. It compresses well, so that the files stay small.
fn page(kind: u64, number: usize, version: u64) -> Vec<u8> {
    let word = (kind << 48 | (number as u64) << 16 | version).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.to_le_bytes().repeat(PAGE / 8)
}

/// A memory region: the areas that DMTCP writes for it, and its pages.
struct Stretch {
    areas: Vec<Area>,
    pages: Vec<Vec<u8>>,
}

/// Returns the image of a rank in a state; both are counted from 1.
fn relax(rank: u64, state: u64) -> Vec<u8> {
    let pages = |kind: u64, count: usize, version: &dyn Fn(usize) -> u64| -> Vec<Vec<u8>> {
        (0..count).map(|n| page(kind, n, version(n))).collect()
    };
    let named = |start: u64, prot: u32, name: &str, pages: Vec<Vec<u8>>| Stretch {
        areas: vec![file(start, (pages.len() * PAGE) as u64, prot, name)],
        pages,
    };
    let anonymous = |start: u64, name: &str, pages: Vec<Vec<u8>>| {
        let bytes = (pages.len() * PAGE) as u64;
        Stretch {
            areas: vec![parent(start, bytes, 3, name), child(start, bytes, 3, false)],
            pages,
        }
    };
    let field = |n: usize| match n {
        n if n < FRONT => state,
        // the step that wrote the page, if it has been written by now
        n => Some(2 + ((n - FRONT) / TRAIL) as u64)
            .filter(|step| *step <= state)
            .unwrap_or(1),
    };
    // the heap has grown after the first state, which moves all later data in the file
    let heap = if state == 1 { 40 } else { 43 };
    let stretches = [
        named(EXE, 5, "/home/u/relax", pages(1, 8, &|_| 1)),
        anonymous(HEAP, "[heap]", pages(10 + rank, heap, &|_| 1)),
        anonymous(FIELD, "", pages(20 + rank, 240, &field)),
        named(
            LIBRARY,
            5,
            "/usr/lib/x86_64-linux-gnu/libm.so.6",
            pages(3, 120, &|_| 1),
        ),
        anonymous(
            END_OF_STACK - 2 * PAGE as u64,
            "[stack]",
            pages(30 + rank, 2, &|_| state),
        ),
    ];
    let areas: Vec<Area> = stretches.iter().flat_map(|s| s.areas.clone()).collect();
    let mut bytes = image(Kind::V4, &areas);
    let vpid = 41_000 + i32::try_from(rank).unwrap() * 1000;
    for copy in [0, PAGE] {
        bytes[copy + 48..copy + 52].copy_from_slice(&vpid.to_le_bytes());
        bytes[copy + 256..copy + 264].copy_from_slice(b"relax\0\0\0");
        bytes[copy + 1280..copy + 1296].copy_from_slice(b"/home/u/relax\0\0\0");
    }
    let mut at = 2 * PAGE;
    for stretch in &stretches {
        let mut left = stretch.pages.iter();
        for area in &stretch.areas {
            at += PAGE;
            // bytes that DMTCP never initialises differ between checkpoints
            bytes[at - 64..at].fill(u8::try_from(state).unwrap());
            for page in left.by_ref().take(area.data / PAGE) {
                bytes[at..at + PAGE].copy_from_slice(page);
                at += PAGE;
            }
        }
    }
    bytes
}

#[test]
fn fixtures_are_what_they_are_made_from() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/relax");
    for state in 1..=4 {
        let dir = root.join(state.to_string());
        for rank in 0..2 {
            let path = dir.join(format!(
                "ckpt_relax_98ff-4{}000-2f1307f1a2b.dmtcp",
                1 + rank
            ));
            if env::var_os("CVC_WRITE_FIXTURES").is_some() {
                fs::create_dir_all(&dir).unwrap();
                fs::write(&path, gzip(&relax(rank, state))).unwrap();
            }
            assert!(gunzip(&path) == relax(rank, state), "{}", path.display());
        }
    }
}
