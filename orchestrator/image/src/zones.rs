//! Zones of an image (application data, libraries, shared memory) and the types of their sums.

use super::owner_sums::OwnerSums;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};

/// A zone of a checkpoint image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Zone {
    /// The program, its static data and its heap.
    Dtapp,
    /// Libraries and other mapped files.
    Lb,
    /// Shared memory, stacks and anonymous memory.
    Shmem,
}

impl Zone {
    /// All zones, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Dtapp, Self::Lb, Self::Shmem];

    /// Returns the name for tables and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dtapp => "DTAPP",
            Self::Lb => "LB",
            Self::Shmem => "SHMEM",
        }
    }
}

/// A sub-zone: part of a zone, by the structural rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sub {
    /// The executable.
    Exe,
    /// Static data of the executable that are not in its file.
    Bss,
    /// The heap, up to the program break.
    Heap,
    /// Libraries and other mapped files.
    File,
    /// The main stack.
    Stack,
    /// Shared mappings, and files of shared memory.
    Shared,
    /// A region with a name in brackets to which no other rule applies.
    Other,
    /// Reserved address space after a heap or an arena; no data.
    Reserve,
    /// Inaccessible memory: guard pages, and shared file mappings that DMTCP removed.
    #[serde(rename = "noaccess")]
    NoAccess,
    /// A malloc arena of a thread.
    Arena,
    /// Static data of a library that are not in its file.
    LibBss,
    /// The stack of a thread.
    ThreadStack,
    /// Other anonymous memory, mostly large allocations.
    Anon,
}

impl Sub {
    /// All sub-zones.
    pub const ALL: [Self; 13] = [
        Self::Exe,
        Self::Bss,
        Self::Heap,
        Self::File,
        Self::Stack,
        Self::Shared,
        Self::Other,
        Self::Reserve,
        Self::NoAccess,
        Self::Arena,
        Self::LibBss,
        Self::ThreadStack,
        Self::Anon,
    ];

    /// Returns the zone that the sub-zone belongs to.
    #[must_use]
    pub fn zone(self) -> Zone {
        match self {
            Self::Exe | Self::Bss | Self::Heap => Zone::Dtapp,
            Self::File => Zone::Lb,
            Self::Stack
            | Self::Shared
            | Self::Other
            | Self::Reserve
            | Self::NoAccess
            | Self::Arena
            | Self::LibBss
            | Self::ThreadStack
            | Self::Anon => Zone::Shmem,
        }
    }

    /// Returns the name for tables and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exe => "exe",
            Self::Bss => "bss",
            Self::Heap => "heap",
            Self::File => "file",
            Self::Stack => "stack",
            Self::Shared => "shared",
            Self::Other => "other",
            Self::Reserve => "reserve",
            Self::NoAccess => "noaccess",
            Self::Arena => "arena",
            Self::LibBss => "lib-bss",
            Self::ThreadStack => "thread-stack",
            Self::Anon => "anon",
        }
    }
}

/// Bytes in each zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct ZoneBytes {
    /// [`Zone::Dtapp`]
    pub dtapp: u64,
    /// [`Zone::Lb`]
    pub lb: u64,
    /// [`Zone::Shmem`]
    pub shmem: u64,
}

impl ZoneBytes {
    /// Returns the bytes of one zone.
    #[must_use]
    pub fn get(&self, zone: Zone) -> u64 {
        match zone {
            Zone::Dtapp => self.dtapp,
            Zone::Lb => self.lb,
            Zone::Shmem => self.shmem,
        }
    }

    /// Returns the sum over all zones, bytes.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.dtapp
            .saturating_add(self.lb)
            .saturating_add(self.shmem)
    }

    /// Adds bytes to a zone. The sum saturates: in a damaged image, address ranges may overlap and have any sum.
    pub(super) fn add(&mut self, zone: Zone, bytes: u64) {
        let sum = match zone {
            Zone::Dtapp => &mut self.dtapp,
            Zone::Lb => &mut self.lb,
            Zone::Shmem => &mut self.shmem,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// Adds the bytes of another image.
    pub(super) fn add_all(&mut self, other: &Self) {
        for zone in Zone::ALL {
            self.add(zone, other.get(zone));
        }
    }
}

/// Sums by zone under one rule set, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSums {
    /// Length of the address ranges, end - start.
    pub r#virtual: ZoneBytes,
    /// Length of the accessible address ranges.
    pub accessible: ZoneBytes,
    /// Data in the image.
    pub stored: ZoneBytes,
    /// Data in the image, plus 4096 bytes for each area header.
    pub stored_with_headers: ZoneBytes,
}

impl RuleSums {
    /// Adds the sums of another image.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.r#virtual.add_all(&other.r#virtual);
        self.accessible.add_all(&other.accessible);
        self.stored.add_all(&other.stored);
        self.stored_with_headers.add_all(&other.stored_with_headers);
    }
}

/// Sums by zone, under all rule sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Literal rule: everything up to `[heap]` in the listing is application data.
    pub literal: RuleSums,
    /// Structural rules: by the kind of each region.
    pub structural: RuleSums,
    /// Owner rules: by the owner of the memory. Empty if an earlier version of cvc read the image.
    #[serde(default)]
    pub owner: OwnerSums,
}

impl Zones {
    /// Adds the sums of another image.
    pub fn add_all(&mut self, other: &Self) {
        self.literal.add_all(&other.literal);
        self.structural.add_all(&other.structural);
        self.owner.add_all(&other.owner);
    }
}

/// Sums of a sub-zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SubZone {
    /// The zone that it belongs to.
    #[serde(skip)]
    pub zone: Zone,
    /// The sub-zone.
    #[serde(skip)]
    pub sub: Sub,
    /// Number of lines of the listing.
    pub n: u64,
    /// Length of the address ranges, bytes.
    pub r#virtual: u64,
    /// Length of the accessible address ranges, bytes.
    pub accessible: u64,
    /// Length of the stored data, bytes.
    pub stored: u64,
    /// Number of area headers.
    pub headers: u64,
}

/// Serialises sub-zones as an object with keys such as `DTAPP/heap`.
pub(super) fn serialize_sub_zones<S: Serializer>(
    sums: &[SubZone],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(sums.len()))?;
    for sum in sums {
        map.serialize_entry(
            &format_args!("{}/{}", sum.zone.as_str(), sum.sub.as_str()).to_string(),
            sum,
        )?;
    }
    map.end()
}

/// The numbers of a sub-zone; its names are in the key.
#[derive(Deserialize)]
struct SubZoneSums {
    n: u64,
    r#virtual: u64,
    accessible: u64,
    stored: u64,
    headers: u64,
}

/// Deserialises the form that [`serialize_sub_zones`] writes.
pub(super) fn deserialize_sub_zones<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SubZone>, D::Error> {
    struct Sums;
    impl<'de> de::Visitor<'de> for Sums {
        type Value = Vec<SubZone>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("sums by sub-zone, with keys such as `DTAPP/heap`")
        }
        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut sums = Vec::new();
            while let Some(key) = map.next_key::<String>()? {
                let named = key.split_once('/').and_then(|(zone, sub)| {
                    let zone = Zone::ALL.into_iter().find(|z| z.as_str() == zone)?;
                    Some((zone, Sub::ALL.into_iter().find(|s| s.as_str() == sub)?))
                });
                let (zone, sub) = named
                    .ok_or_else(|| de::Error::custom(format_args!("unknown sub-zone `{key}`")))?;
                let SubZoneSums {
                    n,
                    r#virtual,
                    accessible,
                    stored,
                    headers,
                } = map.next_value()?;
                sums.push(SubZone {
                    zone,
                    sub,
                    n,
                    r#virtual,
                    accessible,
                    stored,
                    headers,
                });
            }
            Ok(sums)
        }
    }
    deserializer.deserialize_map(Sums)
}
