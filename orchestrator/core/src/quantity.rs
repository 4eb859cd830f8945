//! The registry of quantities that are observed and predicted.

use crate::{measured::names, units::MIB};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Points of a campaign that measure a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Those that have it.
    Any,
    /// Those with checkpoints.
    Checkpoints,
    /// Those without: the program alone.
    Baselines,
}

/// The quantity of the index that observations are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredAs {
    /// Its name: by the owner rules, and by the structural rules where runs of earlier versions did not record the former.
    pub names: [&'static str; 2],
    /// Factor to the unit of the predicted one.
    pub factor: f64,
    /// Points that measure it.
    pub at: At,
}

/// What is known about a predicted quantity.
#[derive(Clone, Copy, Debug)]
struct Info {
    /// Its name in tables and files, with the unit.
    name: &'static str,
    /// Its heading.
    title: &'static str,
    /// `MiB`, `s`, or nothing for a count.
    unit: &'static str,
    /// Whether predictions of held-out points are compared with measurements.
    is_judged: bool,
    /// `None`: the index has no summary of it.
    measured_as: Option<MeasuredAs>,
}

macro_rules! predicted {
    ($($(#[$doc:meta])+ $Name:ident = $name:literal, $title:literal, $unit:literal, $is_judged:literal, $measured_as:expr;)+) => {
        /// A quantity that is observed and predicted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Quantity {
            $($(#[$doc])+ $Name,)+
        }

        impl Quantity {
            /// Every quantity, in the order of tables.
            pub const ALL: [Self; [$(Self::$Name),+].len()] = [$(Self::$Name),+];

            fn info(self) -> Info {
                match self {
                    $(Self::$Name => Info {
                        name: $name,
                        title: $title,
                        unit: $unit,
                        is_judged: $is_judged,
                        measured_as: $measured_as,
                    },)+
                }
            }
        }
    };
}

/// Bytes of the header of an area in an image.
const AREA_HEADER_BYTES: f64 = 4096.0;

const fn same(name: &'static str, factor: f64) -> Option<MeasuredAs> {
    by_rule(name, name, factor)
}

const fn by_rule(owner: &'static str, structural: &'static str, factor: f64) -> Option<MeasuredAs> {
    Some(MeasuredAs {
        names: [owner, structural],
        factor,
        at: At::Any,
    })
}

const fn only(at: At, name: &'static str, factor: f64) -> Option<MeasuredAs> {
    Some(MeasuredAs {
        names: [name, name],
        factor,
        at,
    })
}

// By owner, stacks are counted with shared memory, so that zones and headers are the image.
predicted! {
    /// Application data in the image of a rank, MiB; the mean over the ranks, as all sizes of one image.
    Dtapp = "dtapp_mib", "application data", "MiB", true, by_rule("zone_bytes_DTAPP_owner", "zone_bytes_DTAPP_structural", 1.0 / MIB);
    /// Libraries in the image of a rank, MiB.
    Lb = "lb_mib", "libraries", "MiB", true, by_rule("zone_bytes_LB_owner", "zone_bytes_LB_structural", 1.0 / MIB);
    /// Shared memory and stacks in the image of a rank, MiB.
    Shmem = "shmem_mib", "shared memory", "MiB", true, by_rule(names::SHARED_WITH_STACKS_BYTES, "zone_bytes_SHMEM_structural", 1.0 / MIB);
    /// Headers of the areas in the image of a rank, MiB.
    Headers = "headers_mib", "area headers", "MiB", true, same("area_headers_per_rank", AREA_HEADER_BYTES / MIB);
    /// The whole image of a rank, not compressed, MiB.
    Image = "image_mib", "image of a rank", "MiB", true, same("image_bytes_per_rank", 1.0 / MIB);
    /// The file of a rank on disk, MiB.
    File = "file_mib", "file of a rank", "MiB", true, same("file_bytes_per_rank", 1.0 / MIB);
    /// Size of the largest file of the ranks above that of the median one, if all nodes carry the same number of ranks, MiB.
    Surplus = "surplus_mib", "aggregator surplus", "MiB", false, None;
    /// The files of all ranks, MiB.
    Ranks = "ranks_mib", "files of all ranks", "MiB", true, same("ckpt_bytes_rank", 1.0 / MIB);
    /// The images of the launcher's processes, MiB in all.
    Launchers = "launchers_mib", "launchers", "MiB", true, same("ckpt_bytes_launcher", 1.0 / MIB);
    /// Files beside the images, such as saved shared memory, MiB in all.
    Aux = "aux_mib", "auxiliary files", "MiB", true, same("ckpt_bytes_aux", 1.0 / MIB);
    /// The program's own checkpoint files, MiB in all.
    Application = "application_mib", "own checkpoint", "MiB", false, same("ckpt_bytes_application", 1.0 / MIB);
    /// Everything that one checkpoint stores, MiB.
    Stored = "stored_mib", "stored in all", "MiB", true, only(At::Checkpoints, names::CKPT_STORED_BYTES, 1.0 / MIB);
    /// Files of the ranks.
    RankFiles = "rank_files", "rank files", "", false, same("ckpt_files_rank", 1.0);
    /// Images of the launcher's processes.
    LauncherFiles = "launcher_files", "launcher files", "", false, same("ckpt_files_launcher", 1.0);
    /// Files beside the images.
    AuxFiles = "aux_files", "auxiliary files", "", false, same("ckpt_files_aux", 1.0);
    /// Seconds of a checkpoint until its processes stand still.
    Coordination = "coordination_s", "coordination", "s", true, same(names::CKPT_COORDINATION_S, 1.0);
    /// Seconds from there until every image is written.
    Storage = "storage_s", "storage", "s", true, same(names::CKPT_STORAGE_S, 1.0);
    /// Seconds that one checkpoint takes.
    Latency = "latency_s", "checkpoint time", "s", true, only(At::Checkpoints, names::CKPT_LATENCY_S, 1.0);
    /// Seconds that the program takes without any checkpoint.
    App = "app_s", "program alone", "s", false, only(At::Baselines, names::WALL_S, 1.0);
}

impl Quantity {
    /// Its name in tables and files, with the unit.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// For people.
    pub fn title(self) -> &'static str {
        self.info().title
    }

    /// `MiB`, `s`, or nothing for a count.
    pub fn unit(self) -> &'static str {
        self.info().unit
    }

    /// The quantity of the index that observations are made of; `None` if the index has no summary of it.
    pub fn measured_as(self) -> Option<MeasuredAs> {
        self.info().measured_as
    }

    /// Its name in campaign files: percents need no unit.
    pub fn short(self) -> &'static str {
        let name = self.name();
        name.strip_suffix("_mib")
            .or_else(|| name.strip_suffix("_s"))
            .unwrap_or(name)
    }

    /// The quantities that are compared with measurements.
    pub fn judged() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|q| q.info().is_judged)
    }

    /// The quantity with a name of files.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|q| q.name() == name)
    }

    /// The quantity with a name of campaign files.
    pub fn named_short(name: &str) -> Option<Self> {
        Self::judged().find(|q| q.short() == name)
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
        Self::named(&name)
            .ok_or_else(|| de::Error::custom(format!("unknown predicted quantity `{name}`")))
    }
}
