//! Names of image files: `ckpt_<program>_<host id>-<virtual pid>-<time>.dmtcp`.

use serde::{Deserialize, Serialize};

/// The parts of the file name of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageName {
    /// Name of the program; may contain `_`, `-` and dots.
    pub program: String,
    /// Digest of the host.
    pub hostid: u64,
    /// Virtual pid.
    pub vpid: i32,
    /// Start time of the process, in DMTCP's own count.
    pub time: u64,
}

/// Suffix of an image's name.
pub(super) const SUFFIX: &str = ".dmtcp";
/// Suffix of an image that was compressed after the checkpoint.
pub(super) const COMPRESSED_SUFFIX: &str = ".dmtcp.gz";
/// Prefix of the name that DMTCP gives an image.
pub(super) const PREFIX: &str = "ckpt_";
/// Suffix while the image is being written.
pub(super) const TEMPORARY_SUFFIX: &str = ".dmtcp.temp";
/// What replaces [`SUFFIX`] in the name of the directory of saved files.
pub(super) const FILES_SUFFIX: &str = "_files";

impl ImageName {
    /// Parses a file name (without directories), which may end in `.temp`. Returns `None` if it does not have the form of an image's name.
    #[must_use]
    pub fn parse(file_name: &str) -> Option<Self> {
        let stem = file_name.strip_suffix(".temp").unwrap_or(file_name);
        Self::parse_stem(stem.strip_suffix(SUFFIX)?)
    }

    /// Parses a file name without `.dmtcp`.
    pub(super) fn parse_stem(stem: &str) -> Option<Self> {
        // From the right, because only the program's name may contain the separators.
        let (program, upid) = stem.strip_prefix(PREFIX)?.rsplit_once('_')?;
        let mut parts = upid.rsplitn(3, '-');
        let (time, vpid, hostid) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            program: program.to_owned(),
            hostid: u64::from_str_radix(hostid, 16).ok()?,
            vpid: vpid.parse().ok()?,
            time: u64::from_str_radix(time, 16).ok()?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_from_the_right() {
        let name = ImageName::parse("ckpt_my_prog-2.x_98ff-42000-2f1307f1a2b.dmtcp").unwrap();
        assert_eq!(
            name,
            ImageName {
                program: "my_prog-2.x".into(),
                hostid: 0x98ff,
                vpid: 42000,
                time: 0x2f1_307f_1a2b
            }
        );
        assert_eq!(ImageName::parse("ckpt_a_1-2-3.dmtcp.temp").unwrap().vpid, 2);
        for bad in [
            "ckpt_a.dmtcp",
            "a_1-2-3.dmtcp",
            "ckpt_a_1-2.dmtcp",
            "ckpt_a_1-x-3.dmtcp",
            "ckpt_a_1-2-3",
            "",
            "ckpt_.dmtcp",
        ] {
            assert_eq!(ImageName::parse(bad), None, "{bad}");
        }
    }
}
