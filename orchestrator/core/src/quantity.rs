//! The quantities that are observed and predicted, with their names in files.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// A quantity that is observed and predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Application data in the image of a rank, MiB; the mean over the ranks, as all sizes of one image.
    Dtapp,
    /// Libraries in the image of a rank, MiB.
    Lb,
    /// Shared memory and stacks in the image of a rank, MiB.
    Shmem,
    /// Headers of the areas in the image of a rank, MiB.
    Headers,
    /// The whole image of a rank, not compressed, MiB.
    Image,
    /// The file of a rank on disk, MiB.
    File,
    /// Size of the largest file of the ranks above that of the median one, if all nodes carry the same number of ranks, MiB.
    Surplus,
    /// The files of all ranks, MiB.
    Ranks,
    /// The images of the launcher's processes, MiB in all.
    Launchers,
    /// Files beside the images, such as saved shared memory, MiB in all.
    Aux,
    /// The program's own checkpoint files, MiB in all.
    Application,
    /// Everything that one checkpoint stores, MiB.
    Stored,
    /// Files of the ranks.
    RankFiles,
    /// Images of the launcher's processes.
    LauncherFiles,
    /// Files beside the images.
    AuxFiles,
    /// Seconds of a checkpoint until its processes stand still.
    Coordination,
    /// Seconds from there until every image is written.
    Storage,
    /// Seconds that one checkpoint takes.
    Latency,
    /// Seconds that the program takes without any checkpoint.
    App,
}

impl Quantity {
    /// Every quantity, in the order of tables.
    pub const ALL: [Self; 19] = [
        Self::Dtapp,
        Self::Lb,
        Self::Shmem,
        Self::Headers,
        Self::Image,
        Self::File,
        Self::Surplus,
        Self::Ranks,
        Self::Launchers,
        Self::Aux,
        Self::Application,
        Self::Stored,
        Self::RankFiles,
        Self::LauncherFiles,
        Self::AuxFiles,
        Self::Coordination,
        Self::Storage,
        Self::Latency,
        Self::App,
    ];

    /// Its name in tables and files, with the unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dtapp => "dtapp_mib",
            Self::Lb => "lb_mib",
            Self::Shmem => "shmem_mib",
            Self::Headers => "headers_mib",
            Self::Image => "image_mib",
            Self::File => "file_mib",
            Self::Surplus => "surplus_mib",
            Self::Ranks => "ranks_mib",
            Self::Launchers => "launchers_mib",
            Self::Aux => "aux_mib",
            Self::Application => "application_mib",
            Self::Stored => "stored_mib",
            Self::RankFiles => "rank_files",
            Self::LauncherFiles => "launcher_files",
            Self::AuxFiles => "aux_files",
            Self::Coordination => "coordination_s",
            Self::Storage => "storage_s",
            Self::Latency => "latency_s",
            Self::App => "app_s",
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Dtapp => "application data",
            Self::Lb => "libraries",
            Self::Shmem => "shared memory",
            Self::Headers => "area headers",
            Self::Image => "image of a rank",
            Self::File => "file of a rank",
            Self::Surplus => "aggregator surplus",
            Self::Ranks => "files of all ranks",
            Self::Launchers => "launchers",
            Self::Aux => "auxiliary files",
            Self::Application => "own checkpoint",
            Self::Stored => "stored in all",
            Self::RankFiles => "rank files",
            Self::LauncherFiles => "launcher files",
            Self::AuxFiles => "auxiliary files",
            Self::Coordination => "coordination",
            Self::Storage => "storage",
            Self::Latency => "checkpoint time",
            Self::App => "program alone",
        }
    }

    /// `MiB`, `s`, or nothing for a count.
    pub fn unit(self) -> &'static str {
        match self {
            Self::RankFiles | Self::LauncherFiles | Self::AuxFiles => "",
            Self::Coordination | Self::Storage | Self::Latency | Self::App => "s",
            Self::Dtapp
            | Self::Lb
            | Self::Shmem
            | Self::Headers
            | Self::Image
            | Self::File
            | Self::Surplus
            | Self::Ranks
            | Self::Launchers
            | Self::Aux
            | Self::Application
            | Self::Stored => "MiB",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&name)
            .ok_or_else(|| de::Error::custom(format!("unknown predicted quantity `{name}`")))
    }
}

/// Quantities that are compared with measurements.
pub const JUDGED: [Quantity; 13] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Shmem,
    Quantity::Headers,
    Quantity::Image,
    Quantity::File,
    Quantity::Ranks,
    Quantity::Launchers,
    Quantity::Aux,
    Quantity::Stored,
    Quantity::Coordination,
    Quantity::Storage,
    Quantity::Latency,
];

/// Its name in campaign files: percents need no unit.
pub fn short(quantity: Quantity) -> &'static str {
    let name = quantity.name();
    name.strip_suffix("_mib")
        .or_else(|| name.strip_suffix("_s"))
        .unwrap_or(name)
}

/// The quantity with a name of files.
pub fn named(name: &str) -> Option<Quantity> {
    Quantity::ALL.into_iter().find(|q| q.name() == name)
}

/// The quantity with a name of campaign files.
pub fn named_short(name: &str) -> Option<Quantity> {
    JUDGED.into_iter().find(|q| short(*q) == name)
}
