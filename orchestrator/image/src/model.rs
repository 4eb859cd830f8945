//! The model of an image.

use super::{
    area::Area,
    baseline::Baseline,
    header::Header,
    in_file::InFile,
    layout::Layout,
    name::Name,
    owner_sums::Part,
    zones::{Sub, SubZone, Zone, Zones},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Family of DMTCP releases, by the file header at the beginning of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// DMTCP 2.x and 3.x: `DMTCP_CHECKPOINT_IMAGE_v2.0`.
    V2,
    /// DMTCP 4.x: `DMTCP_CHECKPOINT_IMAGE_v4.0`.
    V4,
}

/// Version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// Family of the file header.
    pub family: Family,
    /// Layout of the area headers.
    pub area_layout: Layout,
}

/// A line of the listing: a memory region or, in layouts A and B, a run of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RegionText")]
pub struct Region {
    /// Start address.
    #[serde(serialize_with = "hex")]
    pub start: u64,
    /// End address.
    #[serde(serialize_with = "hex")]
    pub end: u64,
    /// Access permissions: 1 read, 2 write, 4 execute.
    pub prot: u32,
    /// Linux `MAP_*` bits.
    pub flags: u32,
    /// Path, `[heap]`, `[stack]`, or empty.
    pub name: Name,
    /// Length of the stored data including its runs, bytes.
    pub stored: u64,
    /// Number of area headers, including those of its runs.
    pub headers: u64,
    /// Zone by the structural rules.
    pub zone: Zone,
    /// Sub-zone by the structural rules.
    pub sub: Sub,
    /// Zone by the literal rule.
    pub literal: Zone,
    /// Part by the owner rules, before private anonymous memory is divided between program and libraries.
    pub part: Part,
    /// Whether the header names a device or an inode. Nameless memory with either was shared, and DMTCP removed the name.
    pub had_file: bool,
    /// End of the whole region: in layouts A and B, of the region that this run belongs to; otherwise equal to `end`. Used only while reading, not
    /// in JSON.
    #[serde(skip_serializing)]
    pub region_end: u64,
}

fn hex<S: serde::Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#x}"))
}

/// JSON form of a region.
#[derive(Deserialize)]
struct RegionText {
    #[serde(deserialize_with = "from_hex")]
    start: u64,
    #[serde(deserialize_with = "from_hex")]
    end: u64,
    prot: u32,
    flags: u32,
    name: Name,
    stored: u64,
    headers: u64,
    zone: Zone,
    sub: Sub,
    literal: Zone,
    // missing in JSON of earlier versions
    #[serde(default)]
    part: Part,
    #[serde(default)]
    had_file: bool,
}

impl From<RegionText> for Region {
    fn from(text: RegionText) -> Self {
        let RegionText {
            start,
            end,
            prot,
            flags,
            name,
            stored,
            headers,
            zone,
            sub,
            literal,
            part,
            had_file,
        } = text;
        Self {
            start,
            end,
            prot,
            flags,
            name,
            stored,
            headers,
            zone,
            sub,
            literal,
            part,
            had_file,
            region_end: end,
        }
    }
}

fn from_hex<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = text
        .strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    digits.ok_or_else(|| {
        serde::de::Error::custom(format_args!(
            "`{text}` is not an address: expected 0x and hexadecimal digits"
        ))
    })
}

impl Region {
    /// Returns the length of the address range, bytes.
    #[must_use]
    pub fn virtual_bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns whether the process may read, write or execute the region.
    #[must_use]
    pub fn is_accessible(&self) -> bool {
        self.prot != 0
    }
}

/// A checkpoint image. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Path of the file.
    pub path: PathBuf,
    /// Version of the format.
    pub format: Format,
    /// Whether the file is gzip-compressed.
    pub gzip: bool,
    /// Length of the file, as stored.
    pub file_bytes: u64,
    /// Length of the uncompressed image.
    pub uncompressed_bytes: u64,
    /// The file header.
    pub header: Header,
    /// Number of area headers, without the end marker.
    pub area_headers: u64,
    /// Sum of the data of all areas.
    pub data_bytes: u64,
    /// Offset of the end marker.
    pub end_marker_offset: u64,
    /// Length of the file header and the end marker.
    pub fixed_overhead_bytes: u64,
    /// Sums by zone, for all rule sets.
    pub zones: Zones,
    /// Sizes of the parts in a gzip-compressed file; `None` for a plain file.
    #[serde(default)]
    pub in_file: Option<InFile>,
    /// The baseline with which the owner rules divided private anonymous memory; `None` if there is none for this image.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// Sums by sub-zone of the structural rules.
    #[serde(
        serialize_with = "super::zones::serialize_sub_zones",
        deserialize_with = "super::zones::deserialize_sub_zones"
    )]
    pub sub_zones: Vec<SubZone>,
    /// Regions, one for each line of the listing, by ascending address.
    pub regions: Vec<Region>,
    /// All area headers, if requested by [`ReadOptions::areas`](crate::ReadOptions::areas).
    #[serde(skip)]
    pub areas: Vec<Area>,
}
