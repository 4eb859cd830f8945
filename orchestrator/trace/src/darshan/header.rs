//! The header of a log: its version, its byte order, and the offsets of its regions.

use super::module::DarshanModule;

/// Compression of the regions of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DarshanCompression {
    /// zlib.
    Zlib,
    /// bzip2.
    Bzip2,
    /// None: the log that a process updates while it runs (`DARSHAN_MMAP_LOGPATH`). Such a log remains after the run was killed.
    None,
}

/// Byte order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the unsigned number in the first 8 bytes; 0 if there are fewer.
    #[inline]
    pub(super) fn word(self, bytes: &[u8]) -> u64 {
        let Some(word) = bytes.first_chunk() else {
            return 0;
        };
        match self {
            Self::Little => u64::from_le_bytes(*word),
            Self::Big => u64::from_be_bytes(*word),
        }
    }

    /// Returns the signed number in the first 8 bytes.
    #[inline]
    pub(super) fn integer(self, bytes: &[u8]) -> i64 {
        self.word(bytes).cast_signed()
    }

    /// Returns the unsigned number in the first 4 bytes; 0 if there are fewer.
    pub(super) fn half(self, bytes: &[u8]) -> u32 {
        let Some(half) = bytes.first_chunk() else {
            return 0;
        };
        match self {
            Self::Little => u32::from_le_bytes(*half),
            Self::Big => u32::from_be_bytes(*half),
        }
    }
}

/// The position of a region, which is compressed separately from other regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RegionExtent {
    /// Offset in the file, bytes.
    pub(super) offset: u64,
    /// Length in the file, bytes.
    pub(super) bytes: u64,
}

/// A module of a log, as described in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanModuleInfo {
    /// The module.
    pub module: DarshanModule,
    /// Version of its records.
    pub version: u32,
    /// Length of its records in the file (compressed), bytes.
    pub bytes: u64,
    /// Whether records are missing because Darshan ran out of memory for them during the run.
    pub partial: bool,
    pub(super) offset: u64,
}

/// The header of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanHeader {
    /// Version of the format, such as `3.41`.
    pub version: String,
    /// Compression of the regions. [`DarshanCompression::None`]: the log of one process of a run that did not end normally.
    pub compression: DarshanCompression,
    /// Modules that have records, or whose records did not fit; in the order of the log.
    pub modules: Vec<DarshanModuleInfo>,
    pub(super) minor: u32,
    pub(super) order: ByteOrder,
    pub(super) job: RegionExtent,
    pub(super) names: RegionExtent,
}

/// The known minor versions of format 3.
const MINORS: [u32; 5] = [0, 10, 20, 21, 41];
/// Minor version since which the header has room for 64 modules, and the job has nanoseconds.
pub(super) const WIDE: u32 = 41;
const MAGIC: u64 = 6_567_223;
/// Length of the longest header, bytes.
pub(super) const MAX_HEADER_BYTES: usize = 1328;
/// Number of the module for HDF5 data sets, which version 3.20 inserted.
const H5D: u64 = 4;
/// Number of the module for PnetCDF variables, which version 3.41 inserted.
const PNETCDF_VAR: u64 = 6;

/// Offsets of the fields in a header, bytes.
struct Places {
    modules: usize,
    names: usize,
    bytes: usize,
}

/// Why a file is not a readable log of Darshan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    #[error(
        "its header is empty. Darshan writes it last, so the run was killed while Darshan wrote the log; hint: with DARSHAN_MMAP_LOGPATH set (and \
         Darshan built for it) the counters of a killed run stay readable"
    )]
    Empty,
    #[error(
        "it ends after {found} bytes, within its header of {expected} bytes; hint: was it copied completely?"
    )]
    CutOff { found: usize, expected: usize },
    #[error("it does not begin with a version of the format")]
    NoVersion,
    #[error(
        "version {0} of the format is unknown; hint: cvc reads what Darshan 3 writes, that is 3.00 to 3.41"
    )]
    UnknownVersion(String),
    #[error("the magic number after its version is not Darshan's")]
    NotDarshan,
    #[error("compression method {0} is unknown")]
    UnknownCompression(u8),
}

impl DarshanHeader {
    /// Returns whether the log has single operations, that is, a DXT module.
    #[must_use]
    pub fn has_events(&self) -> bool {
        let is_dxt = |module| matches!(module, DarshanModule::DxtPosix | DarshanModule::DxtMpiIo);
        self.modules
            .iter()
            .any(|info| is_dxt(info.module) && info.bytes > 0)
    }

    /// Parses the header from the first bytes of a log.
    ///
    /// # Errors
    /// Why the file is not a readable log of Darshan.
    pub(super) fn parse(bytes: &[u8], file_bytes: u64) -> Result<Self, HeaderError> {
        if bytes.len() >= 16 && bytes.iter().all(|&byte| byte == 0) {
            return Err(HeaderError::Empty);
        }
        let (version, minor) = version(bytes)?;
        let places = if minor >= WIDE {
            Places {
                modules: 64,
                names: 32,
                bytes: MAX_HEADER_BYTES,
            }
        } else {
            Places {
                modules: 16,
                names: 24,
                bytes: 360,
            }
        };
        let Some(bytes) = bytes.get(..places.bytes) else {
            return Err(HeaderError::CutOff {
                found: bytes.len(),
                expected: places.bytes,
            });
        };
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| order.word(&bytes[8..]) == MAGIC)
            .ok_or(HeaderError::NotDarshan)?;
        let compression = match bytes[16] {
            0 => DarshanCompression::Zlib,
            1 => DarshanCompression::Bzip2,
            2 => DarshanCompression::None,
            other => return Err(HeaderError::UnknownCompression(other)),
        };
        let partial = if minor >= WIDE {
            order.word(&bytes[24..])
        } else {
            u64::from(order.half(&bytes[20..]))
        };
        let extent = |at: usize| RegionExtent {
            offset: order.word(&bytes[at..]),
            bytes: order.word(&bytes[at + 8..]),
        };
        let (maps, versions) = (places.names + 16, places.names + 16 * (1 + places.modules));
        let mut modules = Vec::new();
        for place in 0..places.modules {
            let RegionExtent { offset, bytes: len } = extent(maps + 16 * place);
            let partial = partial >> place & 1 == 1;
            if len > 0 || partial {
                modules.push(DarshanModuleInfo {
                    module: DarshanModule::of_number(number_now(place as u64, minor)),
                    version: order.half(&bytes[versions + 4 * place..]),
                    bytes: len,
                    partial,
                    offset,
                });
            }
        }
        let names = extent(places.names);
        let job_end = if names.offset > 0 {
            names.offset
        } else {
            let mut offsets = modules.iter().map(|module| module.offset);
            offsets.find(|&offset| offset > 0).unwrap_or(file_bytes)
        };
        let offset = places.bytes as u64;
        Ok(Self {
            version,
            compression,
            modules,
            minor,
            order,
            job: RegionExtent {
                offset,
                bytes: job_end.saturating_sub(offset),
            },
            names,
        })
    }
}

/// Converts a module's number in a log of this minor version to its number in the newest version.
fn number_now(place: u64, minor: u32) -> u8 {
    let mut number = place;
    if minor < 20 && number >= H5D {
        number += 1;
    }
    if minor < WIDE && number >= PNETCDF_VAR {
        number += 1;
    }
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn version(bytes: &[u8]) -> Result<(String, u32), HeaderError> {
    let text: Vec<u8> = bytes
        .iter()
        .take(8)
        .copied()
        .take_while(|&byte| byte != 0)
        .collect();
    let version = String::from_utf8(text)
        .ok()
        .filter(|text| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
        .ok_or(HeaderError::NoVersion)?;
    let minor = version
        .strip_prefix("3.")
        .and_then(|minor| minor.parse().ok())
        .filter(|minor| MINORS.contains(minor));
    match minor {
        Some(minor) => Ok((version, minor)),
        None if version.contains('.') => Err(HeaderError::UnknownVersion(version)),
        None => Err(HeaderError::NoVersion),
    }
}
