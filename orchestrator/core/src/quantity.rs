//! The registry of quantities that are observed and predicted.

use crate::{measured::names, units::MIB};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Which points of a campaign measure a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// All points that have the quantity.
    Any,
    /// Points with checkpoints.
    Checkpoints,
    /// Points without checkpoints, for the program alone.
    Baselines,
}

/// The quantity of the index from which observations are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredAs {
    /// Names of the quantity: by the owner rules, and by the structural rules for runs of earlier versions without the former.
    pub names: [&'static str; 2],
    /// Factor to the unit of the predicted quantity.
    pub factor: f64,
    /// Points that measure the quantity.
    pub at: At,
}

/// Facts about a predicted quantity.
#[derive(Clone, Copy, Debug)]
struct Info {
    /// Name in tables and files, with the unit.
    name: &'static str,
    /// Heading.
    title: &'static str,
    /// Unit: `MiB`, `s`, or empty for a count.
    unit: &'static str,
    /// Whether predictions of held-out points are compared with measurements.
    is_judged: bool,
    /// Source of observations; `None` if the index has no summary of the quantity.
    measured_as: Option<MeasuredAs>,
}

macro_rules! predicted {
    ($($(#[$doc:meta])+ $Name:ident = $name:literal, $title:literal, $unit:literal, $is_judged:literal, $measured_as:expr;)+) => {
        /// An observed and predicted quantity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Quantity {
            $($(#[$doc])+ $Name,)+
        }

        impl Quantity {
            /// All quantities, in the order of tables.
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

/// Size of the header of a memory area in an image, bytes.
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

// By the owner rules, stacks are counted as shared memory, so that zones and headers add up to the image.
predicted! {
    /// Application data in the image of a rank, MiB; the mean over ranks, as for all sizes of one image.
    Dtapp = "dtapp_mib", "application data", "MiB", true, by_rule("zone_bytes_DTAPP_owner", "zone_bytes_DTAPP_structural", 1.0 / MIB);
    /// Libraries in the image of a rank, MiB.
    Lb = "lb_mib", "libraries", "MiB", true, by_rule("zone_bytes_LB_owner", "zone_bytes_LB_structural", 1.0 / MIB);
    /// Shared memory and stacks in the image of a rank, MiB.
    Shmem = "shmem_mib", "shared memory", "MiB", true, by_rule(names::SHARED_WITH_STACKS_BYTES, "zone_bytes_SHMEM_structural", 1.0 / MIB);
    /// Headers of the memory areas in the image of a rank, MiB.
    Headers = "headers_mib", "area headers", "MiB", true, same("area_headers_per_rank", AREA_HEADER_BYTES / MIB);
    /// The whole uncompressed image of a rank, MiB.
    Image = "image_mib", "image of a rank", "MiB", true, same("image_bytes_per_rank", 1.0 / MIB);
    /// The image file of a rank on disk, MiB.
    File = "file_mib", "file of a rank", "MiB", true, same("file_bytes_per_rank", 1.0 / MIB);
    /// Difference between the largest and the median file of the ranks, MiB, if all nodes have the same number of ranks.
    Surplus = "surplus_mib", "aggregator surplus", "MiB", false, None;
    /// The files of all ranks together, MiB.
    Ranks = "ranks_mib", "files of all ranks", "MiB", true, same("ckpt_bytes_rank", 1.0 / MIB);
    /// The images of the launcher's processes together, MiB.
    Launchers = "launchers_mib", "launchers", "MiB", true, same("ckpt_bytes_launcher", 1.0 / MIB);
    /// Files next to the images, such as saved shared memory, together, MiB.
    Aux = "aux_mib", "auxiliary files", "MiB", true, same("ckpt_bytes_aux", 1.0 / MIB);
    /// The files of one of the program's own checkpoints together, MiB.
    Application = "application_mib", "own checkpoint", "MiB", true, same("ckpt_bytes_application", 1.0 / MIB);
    /// Number of operations that write one of the program's own checkpoints, without headers.
    OwnWrites = "application_writes", "writes of an own checkpoint", "", false, None;
    /// Number of operations that read parts of the program's own checkpoint while it is written.
    OwnReads = "application_reads", "reads of an own checkpoint", "", false, None;
    /// Everything that one checkpoint stores, MiB.
    Stored = "stored_mib", "stored in all", "MiB", true, only(At::Checkpoints, names::CKPT_STORED_BYTES, 1.0 / MIB);
    /// Number of files of the ranks.
    RankFiles = "rank_files", "rank files", "", false, same("ckpt_files_rank", 1.0);
    /// Number of images of the launcher's processes.
    LauncherFiles = "launcher_files", "launcher files", "", false, same("ckpt_files_launcher", 1.0);
    /// Number of files next to the images.
    AuxFiles = "aux_files", "auxiliary files", "", false, same("ckpt_files_aux", 1.0);
    /// Time of a checkpoint until its processes are stopped, seconds.
    Coordination = "coordination_s", "coordination", "s", true, same(names::CKPT_COORDINATION_S, 1.0);
    /// Time from the stop of the processes until every image is written, seconds.
    Storage = "storage_s", "storage", "s", true, same(names::CKPT_STORAGE_S, 1.0);
    /// Time of one checkpoint, seconds.
    Latency = "latency_s", "checkpoint time", "s", true, only(At::Checkpoints, names::CKPT_LATENCY_S, 1.0);
    /// Time from the start of a restart to the program's first new step, seconds.
    RestartLatency = "restart_latency_s", "restart", "s", false, only(At::Checkpoints, names::RESTART_LATENCY_S, 1.0);
    /// Time of the program without any checkpoint, seconds.
    App = "app_s", "program alone", "s", false, only(At::Baselines, names::WALL_S, 1.0);
}

impl Quantity {
    /// Returns the name in tables and files, with the unit.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the heading.
    pub fn title(self) -> &'static str {
        self.info().title
    }

    /// Returns the unit: `MiB`, `s`, or empty for a count.
    pub fn unit(self) -> &'static str {
        self.info().unit
    }

    /// Returns the quantity of the index from which observations are taken; `None` if the index has no summary of it.
    pub fn measured_as(self) -> Option<MeasuredAs> {
        self.info().measured_as
    }

    /// Returns the name in campaign files, without the unit, because bounds are percentages.
    pub fn short(self) -> &'static str {
        let name = self.name();
        name.strip_suffix("_mib")
            .or_else(|| name.strip_suffix("_s"))
            .unwrap_or(name)
    }

    /// Returns the quantities whose predictions are compared with measurements.
    pub fn judged() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|q| q.info().is_judged)
    }

    /// Returns the quantity with this name in files.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|q| q.name() == name)
    }

    /// Returns the quantity with this name in campaign files.
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
