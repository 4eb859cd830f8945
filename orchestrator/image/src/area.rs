//! An area header: a page of 4096 bytes, followed by the data of the area.

use super::{
    PAGE,
    error::ImageErrorKind,
    layout::Layout,
    name::{Name, until_nul},
};

/// `prot`: may be executed.
pub(super) const PROT_EXEC: u32 = 4;
/// `prot`: may be written.
pub(super) const PROT_WRITE: u32 = 2;
/// `prot`: may be read.
pub(super) const PROT_READ: u32 = 1;
/// The bits of `prot` that are access permissions of the process.
pub(super) const PROT_ACCESS: u32 = PROT_READ | PROT_WRITE | PROT_EXEC;
/// `prot`, layout A only: the area is a run of zeros; no data follows.
const PROT_ZERO_RUN: u32 = 0x10;
/// `flags`: shared mapping.
pub(super) const MAP_SHARED: u32 = 0x01;
/// `flags`: private mapping.
pub(super) const MAP_PRIVATE: u32 = 0x02;
/// `flags`: not backed by a file.
pub(super) const MAP_ANONYMOUS: u32 = 0x20;
/// `properties`: no data follows. Value 1 marks a run of zeros, value 2 a parent (layout C) or an omitted text segment (layout B).
const PROPERTY_NO_DATA: u64 = 3;
/// `properties`, layout C: a parent, that is, a region whose runs follow as children.
const PROPERTY_PARENT: u64 = 2;
/// `properties`, layout C: a child, that is, a run of the preceding parent.
const PROPERTY_CHILD: u64 = 4;
/// `size` in the end marker, the last header of an image.
const END_MARKER: u64 = u64::MAX;
/// Maximum size of an area: the largest address space of x86-64 (57 bits, with five-level page tables).
const MAX_ADDRESS: u64 = 1 << 57;
/// Length of the name field in every layout.
const NAME_LEN: usize = 1024;

/// An area header as stored in the image. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Offset of the header in the uncompressed image.
    pub file_offset: u64,
    /// Start address.
    pub start: u64,
    /// `endAddr` of the header. In layouts A and B this is the end of the whole region, of which this area may be only one run.
    pub end: u64,
    /// Size of this area or run.
    pub size: u64,
    /// Linux `PROT_*` bits; in layout A also 0x10 for a run of zeros.
    pub prot: u32,
    /// Linux `MAP_*` bits.
    pub flags: u32,
    /// Property bits; 0 in layout A, which has no such field.
    pub properties: u64,
    /// Layout C: bytes of a read-only file mapping that lie within the file, or -1 for anonymous areas. 0 in layouts A and B.
    pub mmap_file_size: i64,
    /// Length of the data that follow the header.
    pub data_bytes: u64,
    /// Path, `[heap]`, `[stack]`, or empty.
    pub name: Name,
}

/// The numbers of an area header. The name remains in the page until it is needed.
pub(super) struct RawArea {
    pub start: u64,
    pub end: u64,
    pub size: u64,
    pub prot: u32,
    pub flags: u32,
    pub properties: u64,
    pub mmap_file_size: i64,
    pub data_bytes: u64,
    /// Whether the header names a device or an inode.
    pub had_file: bool,
}

fn u64_at(page: &[u8; PAGE], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(page: &[u8; PAGE], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

/// Returns whether this is the end marker.
pub(super) fn is_end_marker(page: &[u8; PAGE]) -> bool {
    u64_at(page, 16) == END_MARKER
}

/// Returns the name of the area, without the terminating NUL.
pub(super) fn name_of(page: &[u8; PAGE], layout: Layout) -> &[u8] {
    let at = layout.name_offset();
    until_nul(&page[at..at + NAME_LEN])
}

impl RawArea {
    /// Reads the numbers of a header, and refuses values that no process can have. Call it only if [`is_end_marker`] returns false.
    pub(super) fn decode(page: &[u8; PAGE], layout: Layout) -> Result<Self, ImageErrorKind> {
        let (start, end, size) = (u64_at(page, 0), u64_at(page, 8), u64_at(page, 16));
        let (prot, flags) = (u32_at(page, 32), u32_at(page, 40));
        let (mmap_file_size, properties) = match layout {
            Layout::A => (0, 0),
            Layout::B => (0, u64_at(page, 72)),
            Layout::C => (u64_at(page, 72).cast_signed(), u64_at(page, 80)),
        };
        let absurd = |field, value, expected| {
            Err(ImageErrorKind::Absurd {
                field,
                value,
                expected,
            })
        };
        if size == 0 || size > MAX_ADDRESS {
            return absurd("size", size, "1 to 2^57 bytes");
        }
        if start > MAX_ADDRESS {
            return absurd("start address", start, "an address below 2^57");
        }
        // Both are at most 2^57, so the sum does not overflow.
        match layout {
            Layout::C if start + size != end => {
                return absurd("end address", end, "start address + size");
            }
            Layout::A | Layout::B if start + size > end => {
                return absurd("end address", end, "at least start address + size");
            }
            _ => {}
        }
        let no_data = match layout {
            Layout::A => prot & PROT_ZERO_RUN != 0,
            Layout::B | Layout::C => properties & PROPERTY_NO_DATA != 0,
        };
        let data_bytes = if no_data {
            0
        } else if flags & MAP_ANONYMOUS == 0
            && let Ok(in_file @ 1..) = u64::try_from(mmap_file_size)
        {
            if in_file > MAX_ADDRESS {
                return absurd("size of the file mapping", in_file, "at most 2^57 bytes");
            }
            in_file
        } else {
            size
        };
        let had_file = u64_at(page, 48) != 0 || u64_at(page, 56) != 0 || u64_at(page, 64) != 0;
        Ok(Self {
            start,
            end,
            size,
            prot,
            flags,
            properties,
            mmap_file_size,
            data_bytes,
            had_file,
        })
    }

    /// Returns whether this is a region whose runs follow as children.
    pub(super) fn is_parent(&self, layout: Layout) -> bool {
        layout == Layout::C && self.properties & PROPERTY_PARENT != 0
    }

    /// Returns whether this is a run of the preceding parent.
    pub(super) fn is_child(&self, layout: Layout) -> bool {
        layout == Layout::C && self.properties & PROPERTY_CHILD != 0
    }

    /// Returns the header as an [`Area`], with its offset and name.
    pub(super) fn to_area(&self, file_offset: u64, name: &[u8]) -> Area {
        Area {
            file_offset,
            start: self.start,
            end: self.end,
            size: self.size,
            prot: self.prot,
            flags: self.flags,
            properties: self.properties,
            mmap_file_size: self.mmap_file_size,
            data_bytes: self.data_bytes,
            name: Name::from_field(name),
        }
    }
}
