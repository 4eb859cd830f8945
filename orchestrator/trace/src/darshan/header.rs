//! The header of a log: its version, its byte order, and where its regions lie.

use super::module::DarshanModule;

/// How the regions of a log are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DarshanCompression {
    /// zlib.
    Zlib,
    /// bzip2.
    Bzip2,
    /// Not at all, as in the log that a process keeps up while it runs (`DARSHAN_MMAP_LOGPATH`). Such a log stays behind after a run that was killed.
    None,
}

/// The order of the bytes of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The number in the first 8 of `bytes`; 0 where there are fewer.
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

    /// The number with a sign in the first 8 of `bytes`.
    #[inline]
    pub(super) fn integer(self, bytes: &[u8]) -> i64 {
        self.word(bytes).cast_signed()
    }

    /// The number in the first 4 of `bytes`; 0 where there are fewer.
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

/// A part of the file that is compressed for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where it begins, in bytes.
    pub(super) offset: u64,
    /// How long it is in the file, in bytes.
    pub(super) bytes: u64,
}

/// A module of a log, as its header tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanModuleInfo {
    /// Which.
    pub module: DarshanModule,
    /// The version of its records.
    pub version: u32,
    /// The length of its records in the file (compressed), in bytes.
    pub bytes: u64,
    /// Whether records are missing, because Darshan ran out of memory for them during the run.
    pub partial: bool,
    pub(super) offset: u64,
}

/// What the header of a log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanHeader {
    /// The version of the format, such as `3.41`.
    pub version: String,
    /// How its regions are compressed. [`DarshanCompression::None`]: the log of one process of a run that did not end.
    pub compression: DarshanCompression,
    /// The modules with records or whose records did not fit, in the order of the log.
    pub modules: Vec<DarshanModuleInfo>,
    pub(super) minor: u32,
    pub(super) order: ByteOrder,
    pub(super) job: Extent,
    pub(super) names: Extent,
}

/// The minor versions of format 3 that exist.
const MINORS: [u32; 5] = [0, 10, 20, 21, 41];
/// Since which minor version the header has places for 64 modules, and the job has nanoseconds.
pub(super) const WIDE: u32 = 41;
const MAGIC: u64 = 6_567_223;
/// The length of the longest header, in bytes.
pub(super) const MAX_HEADER_BYTES: usize = 1328;
/// The number of the module of HDF5's data sets, for which version 3.20 made room.
const H5D: u64 = 4;
/// The number of the module of PnetCDF's variables, for which version 3.41 made room.
const PNETCDF_VAR: u64 = 6;

/// Where the fields of a header lie.
struct Places {
    modules: usize,
    names: usize,
    bytes: usize,
}

impl DarshanHeader {
    /// Whether the log has single operations: modules of DXT.
    #[must_use]
    pub fn has_events(&self) -> bool {
        let is_dxt = |module| matches!(module, DarshanModule::DxtPosix | DarshanModule::DxtMpiIo);
        self.modules
            .iter()
            .any(|info| is_dxt(info.module) && info.bytes > 0)
    }

    /// Reads the header from the first bytes of a log.
    ///
    /// # Errors
    /// What speaks against a log of Darshan that can be read.
    pub(super) fn parse(bytes: &[u8], file_bytes: u64) -> Result<Self, String> {
        if bytes.len() >= 16 && bytes.iter().all(|&byte| byte == 0) {
            return Err("its header is empty. Darshan writes it last, so the run was killed while Darshan wrote the log; \
                        hint: with DARSHAN_MMAP_LOGPATH set (and Darshan built for it) the counters of a killed run stay readable"
                .to_owned());
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
            return Err(format!(
                "it ends after {} bytes, within its header of {} bytes; hint: was it copied completely?",
                bytes.len(),
                places.bytes
            ));
        };
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| order.word(&bytes[8..]) == MAGIC)
            .ok_or("the magic number after its version is not Darshan's")?;
        let compression = match bytes[16] {
            0 => DarshanCompression::Zlib,
            1 => DarshanCompression::Bzip2,
            2 => DarshanCompression::None,
            other => return Err(format!("compression method {other} is unknown")),
        };
        let partial = if minor >= WIDE {
            order.word(&bytes[24..])
        } else {
            u64::from(order.half(&bytes[20..]))
        };
        let extent = |at: usize| Extent {
            offset: order.word(&bytes[at..]),
            bytes: order.word(&bytes[at + 8..]),
        };
        let (maps, versions) = (places.names + 16, places.names + 16 * (1 + places.modules));
        let mut modules = Vec::new();
        for place in 0..places.modules {
            let Extent { offset, bytes: len } = extent(maps + 16 * place);
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
            job: Extent {
                offset,
                bytes: job_end.saturating_sub(offset),
            },
            names,
        })
    }
}

/// The number that a module has today which had `place` in a log of this minor version.
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

fn version(bytes: &[u8]) -> Result<(String, u32), String> {
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
        .ok_or("it does not begin with a version of the format")?;
    let minor = version
        .strip_prefix("3.")
        .and_then(|minor| minor.parse().ok())
        .filter(|minor| MINORS.contains(minor));
    match minor {
        Some(minor) => Ok((version, minor)),
        None if version.contains('.') => Err(format!(
            "version {version} of the format is unknown; hint: cvc reads what Darshan 3 writes, that is 3.00 to 3.41"
        )),
        None => Err("it does not begin with a version of the format".to_owned()),
    }
}
