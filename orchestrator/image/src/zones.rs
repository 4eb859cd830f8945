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
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Dtapp, Self::Lb, Self::Shmem];

    /// As in tables and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dtapp => "DTAPP",
            Self::Lb => "LB",
            Self::Shmem => "SHMEM",
        }
    }
}

/// A part of a zone, by the structural rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sub {
    /// The executable.
    Exe,
    /// Static data of the executable that is not in its file.
    Bss,
    /// Up to the program break.
    Heap,
    /// Libraries and other mapped files.
    File,
    /// The main stack.
    Stack,
    /// Shared mappings and files of shared memory.
    Shared,
    /// Something in brackets that no rule knows.
    Other,
    /// Address space kept free behind a heap or an arena; no data.
    Reserve,
    /// No access: guards, and shared file mappings that DMTCP took out.
    #[serde(rename = "noaccess")]
    NoAccess,
    /// A malloc arena of a thread.
    Arena,
    /// Static data of a library that is not in its file.
    LibBss,
    /// The stack of a thread.
    ThreadStack,
    /// Any other anonymous memory, large allocations above all.
    Anon,
}

impl Sub {
    /// All of them.
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

    /// The zone that it is part of.
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

    /// As in tables and JSON.
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

/// Bytes of each zone.
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
    /// The bytes of one zone.
    #[must_use]
    pub fn get(&self, zone: Zone) -> u64 {
        match zone {
            Zone::Dtapp => self.dtapp,
            Zone::Lb => self.lb,
            Zone::Shmem => self.shmem,
        }
    }

    /// All zones together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.dtapp
            .saturating_add(self.lb)
            .saturating_add(self.shmem)
    }

    /// Adds to one zone. Saturating: in a damaged image the address ranges may overlap and sum up to anything.
    pub(super) fn add(&mut self, zone: Zone, bytes: u64) {
        let sum = match zone {
            Zone::Dtapp => &mut self.dtapp,
            Zone::Lb => &mut self.lb,
            Zone::Shmem => &mut self.shmem,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// Adds another image's bytes.
    pub(super) fn add_all(&mut self, other: &Self) {
        for zone in Zone::ALL {
            self.add(zone, other.get(zone));
        }
    }
}

/// Sums by zone under one rule set, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSums {
    /// Address ranges, end - start.
    pub r#virtual: ZoneBytes,
    /// The same without regions of no access.
    pub accessible: ZoneBytes,
    /// Data in the image.
    pub stored: ZoneBytes,
    /// Data, and 4096 for each area header.
    pub stored_with_headers: ZoneBytes,
}

impl RuleSums {
    /// Adds another image's sums.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.r#virtual.add_all(&other.r#virtual);
        self.accessible.add_all(&other.accessible);
        self.stored.add_all(&other.stored);
        self.stored_with_headers.add_all(&other.stored_with_headers);
    }
}

/// Sums by zone under all rule sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// By the order of the listing alone: everything up to `[heap]` is application data.
    pub literal: RuleSums,
    /// By the kind of each region.
    pub structural: RuleSums,
    /// By whose the memory is. Empty where an earlier version of cvc read the image.
    #[serde(default)]
    pub owner: OwnerSums,
}

impl Zones {
    /// Adds another image's sums.
    pub fn add_all(&mut self, other: &Self) {
        self.literal.add_all(&other.literal);
        self.structural.add_all(&other.structural);
        self.owner.add_all(&other.owner);
    }
}

/// Sums of a sub-zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SubZone {
    /// Its zone.
    #[serde(skip)]
    pub zone: Zone,
    /// Which it is.
    #[serde(skip)]
    pub sub: Sub,
    /// Lines of the listing.
    pub n: u64,
    /// Address ranges in bytes.
    pub r#virtual: u64,
    /// The same without regions of no access.
    pub accessible: u64,
    /// Data in bytes.
    pub stored: u64,
    /// Area headers.
    pub headers: u64,
}

/// As an object with keys such as `DTAPP/heap`.
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

/// The numbers of a sub-zone, whose names stand in its key.
#[derive(Deserialize)]
struct SubZoneSums {
    n: u64,
    r#virtual: u64,
    accessible: u64,
    stored: u64,
    headers: u64,
}

/// What [`serialize_sub_zones`] writes, in the same order.
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
