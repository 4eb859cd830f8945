//! Shared by the tests: fixtures, and images assembled from parts.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each crate uses a part of it"
)]

pub mod dmtcp;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
};

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../image/tests/fixtures/dmtcp")
}

/// Returns the names of all fixtures, `NAME` in `NAME.dmtcp.gz`.
pub fn fixture_names() -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(fixtures())
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .strip_suffix(".dmtcp.gz")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() >= 19, "fixtures are missing: {names:?}");
    names
}

pub fn fixture(name: &str) -> PathBuf {
    fixtures().join(format!("{name}.dmtcp.gz"))
}

pub fn gunzip(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    A,
    B,
    C,
    V4,
}

/// An area of a test image.
#[derive(Clone, Debug)]
pub struct Area {
    pub start: u64,
    pub end: u64,
    pub size: u64,
    pub prot: u32,
    pub flags: u32,
    pub properties: u64,
    pub mmap_file_size: i64,
    pub name: Vec<u8>,
    pub data: usize,
    pub inode: u64,
}

/// Returns an area that is backed by a file.
pub fn file(start: u64, size: u64, prot: u32, name: &str) -> Area {
    Area {
        start,
        end: start + size,
        size,
        prot,
        flags: 0x02,
        properties: 0,
        mmap_file_size: i64::try_from(size).unwrap(),
        name: name.into(),
        data: usize::try_from(size).unwrap(),
        inode: 0,
    }
}

/// Returns a parent, that is, a header without data for a region of anonymous memory.
pub fn parent(start: u64, size: u64, prot: u32, name: &str) -> Area {
    Area {
        flags: 0x22,
        properties: 2,
        mmap_file_size: -1,
        data: 0,
        ..file(start, size, prot, name)
    }
}

/// Returns a child, that is, a run of the preceding parent.
pub fn child(start: u64, size: u64, prot: u32, zero: bool) -> Area {
    let data = if zero {
        0
    } else {
        usize::try_from(size).unwrap()
    };
    Area {
        flags: 0x22,
        properties: if zero { 5 } else { 4 },
        mmap_file_size: -1,
        data,
        ..file(start, size, prot, "")
    }
}

/// Returns the header page of an area, in the layout of `kind`.
pub fn header_page(kind: Kind, area: &Area) -> Vec<u8> {
    // Simulates uninitialised bytes, which readers must ignore.
    let mut page = vec![0xA5; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &area.start.to_le_bytes());
    put(8, &area.end.to_le_bytes());
    put(16, &area.size.to_le_bytes());
    put(24, &0u64.to_le_bytes());
    put(32, &area.prot.to_le_bytes());
    put(40, &area.flags.to_le_bytes());
    put(48, &[0; 16]);
    put(64, &area.inode.to_le_bytes());
    let mut name = area.name.clone();
    name.push(0);
    match kind {
        Kind::A => put(72, &name),
        Kind::B => {
            put(72, &area.properties.to_le_bytes());
            put(80, &name);
        }
        Kind::C | Kind::V4 => {
            put(72, &area.mmap_file_size.to_le_bytes());
            put(80, &area.properties.to_le_bytes());
            put(88, &name);
        }
    }
    page
}

pub fn end_marker() -> Vec<u8> {
    let mut page = vec![0xA5; 4096];
    page[..8].fill(0);
    page[16..24].fill(0xff);
    page
}

pub const BRK: u64 = 0x5000_0002_1000;
pub const END_OF_STACK: u64 = 0x7fff_ffff_f000;

/// Returns the file header of a v4 image.
pub fn v4_header(program: &str, exe: &str, vpid: i32) -> Vec<u8> {
    let mut page = vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"DMTCP_CHECKPOINT_IMAGE_v4.0\n");
    put(32, &0x98ffu64.to_le_bytes());
    put(48, &vpid.to_le_bytes());
    put(104, &vpid.to_le_bytes());
    put(128, &4u32.to_le_bytes());
    put(232, &BRK.to_le_bytes());
    put(240, &END_OF_STACK.to_le_bytes());
    put(256, program.as_bytes());
    put(1280, exe.as_bytes());
    let mut header = page.clone();
    header.extend(page);
    header
}

/// Returns the file header of a v2 or v3 image, with a DMTCP part of `pages` pages.
pub fn v2_header(pages: usize, words: &[u64]) -> Vec<u8> {
    let mut header = vec![0x5A; pages * 4096];
    header[..28].copy_from_slice(b"DMTCP_CHECKPOINT_IMAGE_v2.0\n");
    let mut page = vec![0u8; 4096];
    page[..17].copy_from_slice(b"MTCP_HEADER_v2.2\n");
    for (i, word) in words.iter().enumerate() {
        page[32 + 8 * i..40 + 8 * i].copy_from_slice(&word.to_le_bytes());
    }
    header.extend(page);
    header
}

/// Returns an image with these areas. No data byte is zero.
pub fn image(kind: Kind, areas: &[Area]) -> Vec<u8> {
    let brk = BRK;
    let mut bytes = match kind {
        Kind::V4 => v4_header("prog", "/home/u/prog", 42_000),
        Kind::A => v2_header(
            2,
            &[brk, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 0x1234],
        ),
        Kind::B => v2_header(
            1,
            &[
                brk,
                0x1000,
                0x2000,
                0x3000,
                0x4000,
                0x5000,
                0x6000,
                END_OF_STACK,
                0x1234,
            ],
        ),
        Kind::C => v2_header(
            3,
            &[
                brk,
                END_OF_STACK,
                0x1000,
                0x2000,
                0x3000,
                0x4000,
                0x5000,
                0x6000,
                0,
                0,
                0x1234,
            ],
        ),
    };
    for area in areas {
        bytes.extend(header_page(kind, area));
        bytes.extend(std::iter::repeat_n(0xD7, area.data));
    }
    bytes.extend(end_marker());
    bytes
}

/// Returns a small image with every kind of header that its layout has.
pub fn small(kind: Kind) -> Vec<u8> {
    image(kind, &small_areas(kind))
}

pub fn small_areas(kind: Kind) -> Vec<Area> {
    let exe = 0x5000_0000_0000;
    let mut areas = vec![
        file(exe, 4096, 5, "/home/u/prog"),
        file(exe + 4096, 4096, 3, "/home/u/prog"),
    ];
    let run = |start: u64, size: u64, region_end: u64, zero: bool, name: &str| Area {
        end: region_end,
        flags: 0x22,
        prot: if zero && kind == Kind::A { 0x13 } else { 3 },
        properties: u64::from(zero),
        data: if zero {
            0
        } else {
            usize::try_from(size).unwrap()
        },
        ..file(start, size, 3, name)
    };
    let lib = 0x7f00_0000_0000;
    match kind {
        Kind::A | Kind::B => {
            areas.push(run(exe + 0x2000, 0x2000, exe + 0x5000, true, ""));
            areas.push(run(exe + 0x4000, 0x1000, exe + 0x5000, false, ""));
            areas.push(run(exe + 0x2_0000, 0x1000, exe + 0x2_1000, false, "[heap]"));
        }
        Kind::C | Kind::V4 => {
            areas.push(parent(exe + 0x2000, 0x3000, 3, ""));
            areas.push(child(exe + 0x2000, 0x2000, 3, true));
            areas.push(child(exe + 0x4000, 0x1000, 3, false));
            areas.push(parent(exe + 0x2_0000, 0x1000, 3, "[heap]"));
            areas.push(child(exe + 0x2_0000, 0x1000, 3, false));
            // A library that ends within a page of its mapping.
            areas.push(Area {
                mmap_file_size: 777,
                data: 777,
                ..file(lib - 0x2000, 4096, 1, "/usr/share/table")
            });
        }
    }
    areas.push(file(lib, 4096, 5, "/usr/lib/libm.so.6"));
    areas.push(Area {
        flags: 0x01,
        ..file(lib + 0x10_0000, 4096, 3, "/dev/shm/segment (deleted)")
    });
    areas.push(run(
        END_OF_STACK - 0x1000,
        0x1000,
        END_OF_STACK,
        false,
        "[stack]",
    ));
    areas
}
