//! The software that determines the contents of an image, in addition to the program and its MPI library: DMTCP and the kernel.
//!
//! From Linux 6.7 on, DMTCP asks the kernel which pages were ever touched (ioctl `PAGEMAP_SCAN`); on earlier kernels it reads `/proc/self/pagemap`.
//! Sizes and times of one environment do not predict those of another, so models are fitted within one environment (`one_environment.rs`).

use serde::Serialize;
use std::fmt;

/// Versions of Linux, distinguished by their effect on images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum KernelEra {
    /// Versions without `PAGEMAP_SCAN`.
    #[serde(rename = "before-6.7")]
    Before67,
    /// Versions with `PAGEMAP_SCAN`.
    #[serde(rename = "from-6.7")]
    From67,
}

impl KernelEra {
    /// The names in filters and JSON.
    pub const NAMES: [&str; 2] = ["before-6.7", "from-6.7"];

    /// Returns the version group of a kernel release such as `6.1.0-18-amd64`; `None` if the text is not a kernel release.
    pub fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release
            .trim()
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse::<u32>);
        let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(if version >= (6, 7) {
            Self::From67
        } else {
            Self::Before67
        })
    }

    /// Returns the name in filters and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before67 => Self::NAMES[0],
            Self::From67 => Self::NAMES[1],
        }
    }
}

/// The rules by which the zones of images were detected. Sizes of zones by different rules are different quantities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneRules {
    /// Memory that a program allocates counts as shared memory. Used in tables, and in runs of versions that did not record zones by owner.
    #[default]
    Structural,
    /// Memory is assigned to its owner.
    Owner,
}

impl ZoneRules {
    /// The names in filters and JSON.
    pub const NAMES: [&str; 2] = ["structural", "owner"];

    /// Returns the name in filters and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Structural => Self::NAMES[0],
            Self::Owner => Self::NAMES[1],
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Structural, Self::Owner]
            .into_iter()
            .find(|rules| rules.name() == name)
    }

    fn is_structural(&self) -> bool {
        *self == Self::Structural
    }
}

/// The software with which a checkpoint was taken, and the rule by which its zones were detected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Environment {
    /// Version of DMTCP, such as `4.2.0`; if the runs of a point differ, all versions joined by `/`.
    pub dmtcp: String,
    /// The kernel; `None` if it is unknown, or if the runs of a point differ.
    pub kernel: Option<KernelEra>,
    /// The rule by which zones were detected.
    #[serde(skip_serializing_if = "ZoneRules::is_structural")]
    pub zones: ZoneRules,
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = match self.kernel {
            Some(KernelEra::Before67) => "Linux before 6.7",
            Some(KernelEra::From67) => "Linux 6.7 or newer",
            None => "an unknown kernel",
        };
        write!(f, "DMTCP {} on {kernel}", self.dmtcp)?;
        match self.zones {
            ZoneRules::Structural => Ok(()),
            ZoneRules::Owner => f.write_str(", zones by owner"),
        }
    }
}

impl Environment {
    /// Returns the environment of a point, from the DMTCP versions and kernel releases that its runs recorded.
    pub(super) fn of_facts(dmtcp: &[String], kernels: &[String]) -> Option<Self> {
        let mut versions: Vec<&str> = dmtcp.iter().map(String::as_str).collect();
        versions.sort_unstable();
        versions.dedup();
        let mut eras: Vec<Option<KernelEra>> = kernels
            .iter()
            .map(|release| KernelEra::of_release(release))
            .collect();
        eras.dedup();
        let kernel = if let [one] = eras[..] { one } else { None };
        (!versions.is_empty()).then(|| Self {
            dmtcp: versions.join("/"),
            kernel,
            zones: ZoneRules::default(),
        })
    }

    /// Returns the version as numbers, so that 10.0 is newer than 9.0.
    pub(super) fn version(&self) -> Vec<u32> {
        self.dmtcp
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|part| part.parse().ok())
            .collect()
    }

    /// Returns the filter conditions that select this environment. With `several_rules`, the conditions include the rule of zones.
    pub(super) fn filter(&self, several_rules: bool) -> String {
        let zones = if several_rules {
            format!(" zones={}", self.zones.name())
        } else {
            String::new()
        };
        format!(
            "dmtcp={} kernel={}{zones}",
            self.dmtcp,
            self.kernel.map_or("unknown", KernelEra::name)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_shows_whether_the_kernel_knows_written_pages() {
        for (release, era) in [
            ("6.6.99", Some(KernelEra::Before67)),
            ("5.14.0-427.el9.x86_64", Some(KernelEra::Before67)),
            ("6.7.0-rc1", Some(KernelEra::From67)),
            ("6.18.44-fc", Some(KernelEra::From67)),
            ("10.0", Some(KernelEra::From67)),
            ("", None),
            ("generic", None),
        ] {
            assert_eq!(KernelEra::of_release(release), era, "{release}");
        }
    }

    #[test]
    fn runs_of_a_point_that_differ_make_an_environment_of_their_own() {
        let text = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let of =
            |dmtcp: &[&str], kernels: &[&str]| Environment::of_facts(&text(dmtcp), &text(kernels));
        assert_eq!(of(&[], &["6.1.0"]), None, "no checkpoint");
        assert_eq!(
            of(&["4.2.0", "4.2.0"], &["6.1.0", "6.5.0"])
                .map(|e| e.to_string())
                .as_deref(),
            Some("DMTCP 4.2.0 on Linux before 6.7")
        );
        assert_eq!(
            of(&["5.0", "4.2.0"], &["6.1.0", "6.8.0"])
                .map(|e| e.to_string())
                .as_deref(),
            Some("DMTCP 4.2.0/5.0 on an unknown kernel")
        );
    }
}
