//! Zones and parts by the owner rules, and types for their sums.

use serde::{Deserialize, Serialize};

/// Size of `[heap]` at program start, bytes: glibc's first request. Libraries use part of it before `main` begins.
const INITIAL_HEAP: u64 = 132 << 10;

/// A part of an image by the owner rules.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The executable, and its static data that are not in its file.
    Static,
    /// `[heap]`.
    Heap,
    /// Private anonymous memory that the program allocated.
    #[default]
    Allocated,
    /// Libraries and other mapped files.
    Files,
    /// Private anonymous memory of libraries: static data that are not in their files, and allocations of the libraries and of DMTCP.
    LibraryMemory,
    /// Memory shared between processes.
    Shared,
    /// The main stack, and the stacks of threads.
    Stacks,
    /// Inaccessible memory: guard pages and reserved address space. Also all mappings of the kernel.
    Reserves,
}

impl Part {
    /// All parts, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Static,
        Self::Heap,
        Self::Allocated,
        Self::Files,
        Self::LibraryMemory,
        Self::Shared,
        Self::Stacks,
        Self::Reserves,
    ];

    /// Returns the name for tables, JSON and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Heap => "heap",
            Self::Allocated => "allocated",
            Self::Files => "files",
            Self::LibraryMemory => "library-memory",
            Self::Shared => "shared",
            Self::Stacks => "stacks",
            Self::Reserves => "reserves",
        }
    }
}

impl Part {
    /// Returns the zone that the part belongs to.
    #[must_use]
    pub fn zone(self) -> OwnerZone {
        match self {
            Self::Static | Self::Heap | Self::Allocated => OwnerZone::Dtapp,
            Self::Files | Self::LibraryMemory => OwnerZone::Lb,
            Self::Shared => OwnerZone::Shmem,
            Self::Stacks | Self::Reserves => OwnerZone::Rest,
        }
    }
}

/// Bytes of each part of an image by the owner rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "OwnerText", into = "OwnerText")]
pub struct OwnerBytes([u64; Part::ALL.len()]);

impl OwnerBytes {
    /// Returns the bytes of one part.
    #[must_use]
    pub fn get(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    /// Returns the bytes of the program's memory: static data, heap, and allocations.
    #[must_use]
    pub fn dtapp(&self) -> u64 {
        self.zone(OwnerZone::Dtapp)
    }

    /// Returns the bytes of one zone.
    #[must_use]
    pub fn zone(&self, zone: OwnerZone) -> u64 {
        Part::ALL
            .into_iter()
            .filter(|part| part.zone() == zone)
            .fold(0, |sum: u64, part| sum.saturating_add(self.get(part)))
    }

    /// Returns the sum over all parts, bytes.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Adds bytes to a part. The sum saturates: in a damaged image, address ranges may overlap and have any sum.
    pub(super) fn add(&mut self, part: Part, bytes: u64) {
        self.0[part as usize] = self.0[part as usize].saturating_add(bytes);
    }

    fn add_all(&mut self, other: &Self) {
        for part in Part::ALL {
            self.add(part, other.get(part));
        }
    }

    /// Moves private anonymous memory from the program to the libraries, until they have at least `baseline` bytes or nothing more can be moved.
    pub(super) fn give_to_libraries(&mut self, baseline: u64) {
        let missing = baseline.saturating_sub(self.get(Part::LibraryMemory));
        let moved = self.take(Part::Allocated, missing, 0);
        // up to DMTCP 3.1 the heap can grow, and libraries allocate there, too
        let rest = self.take(Part::Heap, missing - moved, INITIAL_HEAP);
        self.add(Part::LibraryMemory, moved + rest);
    }

    /// Removes at most `wanted` bytes from a part, leaving at least `kept`; returns the bytes removed.
    fn take(&mut self, part: Part, wanted: u64, kept: u64) -> u64 {
        let taken = wanted.min(self.get(part).saturating_sub(kept));
        self.0[part as usize] -= taken;
        taken
    }
}

/// JSON form of [`OwnerBytes`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct OwnerText {
    dtapp: u64,
    lb: u64,
    shmem: u64,
    rest: u64,
    #[serde(rename = "parts")]
    parts: PartsText,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PartsText {
    r#static: u64,
    heap: u64,
    allocated: u64,
    files: u64,
    library_memory: u64,
    shared: u64,
    stacks: u64,
    reserves: u64,
}

impl From<OwnerBytes> for OwnerText {
    fn from(bytes: OwnerBytes) -> Self {
        Self {
            dtapp: bytes.dtapp(),
            lb: bytes.zone(OwnerZone::Lb),
            shmem: bytes.zone(OwnerZone::Shmem),
            rest: bytes.zone(OwnerZone::Rest),
            parts: PartsText {
                r#static: bytes.get(Part::Static),
                heap: bytes.get(Part::Heap),
                allocated: bytes.get(Part::Allocated),
                files: bytes.get(Part::Files),
                library_memory: bytes.get(Part::LibraryMemory),
                shared: bytes.get(Part::Shared),
                stacks: bytes.get(Part::Stacks),
                reserves: bytes.get(Part::Reserves),
            },
        }
    }
}

impl From<OwnerText> for OwnerBytes {
    fn from(OwnerText { parts, .. }: OwnerText) -> Self {
        let PartsText {
            r#static,
            heap,
            allocated,
            files,
            library_memory,
            shared,
            stacks,
            reserves,
        } = parts;
        let mut bytes = Self::default();
        for (part, value) in [
            (Part::Static, r#static),
            (Part::Heap, heap),
            (Part::Allocated, allocated),
            (Part::Files, files),
            (Part::LibraryMemory, library_memory),
            (Part::Shared, shared),
            (Part::Stacks, stacks),
            (Part::Reserves, reserves),
        ] {
            bytes.add(part, value);
        }
        bytes
    }
}

/// A zone by the owner rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerZone {
    /// Memory of the program: its static data, its heap, its allocations.
    Dtapp,
    /// Mapped files, and the memory that libraries allocated.
    Lb,
    /// Memory shared between processes.
    Shmem,
    /// Stacks and reserves.
    Rest,
}

impl OwnerZone {
    /// All zones, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Dtapp, Self::Lb, Self::Shmem, Self::Rest];

    /// Returns the name for tables, JSON and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dtapp => "DTAPP",
            Self::Lb => "LB",
            Self::Shmem => "SHMEM",
            Self::Rest => "REST",
        }
    }
}

/// Sums under the owner rules, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerSums {
    /// Length of the address ranges, end - start.
    pub r#virtual: OwnerBytes,
    /// Length of the accessible address ranges.
    pub accessible: OwnerBytes,
    /// Data in the image.
    pub stored: OwnerBytes,
    /// Data in the image, plus 4096 bytes for each area header.
    pub stored_with_headers: OwnerBytes,
}

impl OwnerSums {
    /// Adds the sums of another image.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.r#virtual.add_all(&other.r#virtual);
        self.accessible.add_all(&other.accessible);
        self.stored.add_all(&other.stored);
        self.stored_with_headers.add_all(&other.stored_with_headers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_zones_and_parts_and_reads_them_back() {
        let mut bytes = OwnerBytes::default();
        for (part, value) in Part::ALL.into_iter().zip(1..) {
            bytes.add(part, 1 << value);
        }
        let json = serde_json::to_value(bytes).expect("JSON");
        assert_eq!(
            json["DTAPP"],
            json["parts"]["static"]
                .as_u64()
                .zip(json["parts"]["heap"].as_u64())
                .map(|(s, h)| s + h + 8)
                .expect("sums")
        );
        assert_eq!(
            serde_json::from_value::<OwnerBytes>(json).expect("reads"),
            bytes
        );
    }
}
