//! What can be predicted of a checkpoint, by name.

use crate::{record::names, units::MIB};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! quantities {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $title:literal, $unit:literal;)*) => {
        /// What is predicted and measured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Quantity {
            $($(#[$doc])* $variant,)*
        }
        impl Quantity {
            /// Every quantity, in the order of tables.
            pub const ALL: [Quantity; [$($name),*].len()] = [$(Quantity::$variant),*];

            /// Its name in tables and files, with the unit.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// For people.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// `MiB`, `s`, or nothing for a count.
            pub fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }
        }
    };
}

quantities! {
    /// Data of the application in an image (DTAPP, structural rule).
    Dtapp, "dtapp_mib", "application data", "MiB";
    /// Libraries in an image (LB).
    Lb, "lb_mib", "libraries", "MiB";
    /// Shared memory, stack and heap of the MPI library in an image (SHMEM).
    Shmem, "shmem_mib", "shared memory", "MiB";
    /// Headers of the memory areas of an image.
    Headers, "headers_mib", "headers", "MiB";
    /// The whole image of a rank, uncompressed.
    Image, "image_mib", "image of a rank", "MiB";
    /// The file of a rank on disk.
    File, "file_mib", "file of a rank", "MiB";
    /// Aggregators.
    Surplus, "surplus_mib", "aggregator surplus", "MiB";
    /// All ranks.
    Ranks, "ranks_mib", "files of all ranks", "MiB";
    /// Images of launchers.
    Launchers, "launchers_mib", "launcher images", "MiB";
    /// Files that processes of a node share.
    Aux, "aux_mib", "auxiliary files", "MiB";
    /// The program's own checkpoint files.
    Application, "application_mib", "own checkpoint", "MiB";
    /// Everything that a checkpoint stores.
    Stored, "stored_mib", "stored by a checkpoint", "MiB";
    /// Files.
    RankFiles, "rank_files", "rank files", "";
    /// Files.
    LauncherFiles, "launcher_files", "launcher files", "";
    /// Files.
    AuxFiles, "aux_files", "auxiliary files", "";
    /// Time of a checkpoint.
    Latency, "latency_s", "checkpoint time", "s";
    /// Time.
    App, "app_s", "program alone", "s";
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Its name in campaign files: percents need no unit.
pub fn short(quantity: Quantity) -> &'static str {
    let name = quantity.name();
    name.strip_suffix("_mib").or_else(|| name.strip_suffix("_s")).unwrap_or(name)
}

/// The quantity with a name of files.
pub fn named(name: &str) -> Option<Quantity> {
    Quantity::ALL.into_iter().find(|q| q.name() == name)
}

/// The quantity with a name of campaign files.
pub fn named_short(name: &str) -> Option<Quantity> {
    Quantity::ALL.into_iter().find(|q| short(*q) == name)
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&name).ok_or_else(|| de::Error::custom(format!("`{name}` is no quantity that is predicted")))
    }
}

/// Bytes of the header of one memory area in an image.
const AREA_HEADER_BYTES: f64 = 4096.0;

/// The quantity of the index (`summaries`) that it is compared with, and what that is to be multiplied by; `None` if the index has no
/// summary of it.
pub fn measured(quantity: Quantity) -> Option<(&'static str, f64)> {
    let mib = |name| Some((name, 1.0 / MIB));
    match quantity {
        Quantity::Dtapp => mib("zone_bytes_DTAPP_structural"),
        Quantity::Lb => mib("zone_bytes_LB_structural"),
        Quantity::Shmem => mib("zone_bytes_SHMEM_structural"),
        Quantity::Headers => Some(("area_headers_per_rank", AREA_HEADER_BYTES / MIB)),
        Quantity::Image => mib("image_bytes_per_rank"),
        Quantity::File => mib("file_bytes_per_rank"),
        Quantity::Surplus => None,
        Quantity::Ranks => mib("ckpt_bytes_rank"),
        Quantity::Launchers => mib("ckpt_bytes_launcher"),
        Quantity::Aux => mib("ckpt_bytes_aux"),
        Quantity::Application => mib("ckpt_bytes_application"),
        Quantity::Stored => mib(names::CKPT_STORED_BYTES),
        Quantity::RankFiles => Some(("ckpt_files_rank", 1.0)),
        Quantity::LauncherFiles => Some(("ckpt_files_launcher", 1.0)),
        Quantity::AuxFiles => Some(("ckpt_files_aux", 1.0)),
        Quantity::Latency => Some((names::CKPT_LATENCY_S, 1.0)),
        Quantity::App => Some((names::WALL_S, 1.0)),
    }
}
