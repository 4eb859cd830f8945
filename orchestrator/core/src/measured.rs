//! The registry of measured quantities: what records cvc makes, and what becomes of them. A row declares everything about a quantity; the
//! names, the index, headings, comparisons and the page on data are loops over the rows.

use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::LazyLock};

/// Unit of a record's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// MiB (2^20 bytes) per second.
    #[serde(rename = "MiB/s")]
    MibPerSecond,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
    /// Operations per second, millions.
    #[serde(rename = "Mop/s")]
    MopPerSecond,
    /// US dollars.
    #[serde(rename = "USD")]
    Usd,
    /// 1 or 0.
    #[serde(rename = "bool")]
    Bool,
    /// A ratio or a figure of the application without unit.
    #[serde(rename = "1")]
    One,
}

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Times, sizes.
    Lower,
    /// Rates.
    Higher,
    /// A fact without direction.
    Neither,
}

/// Importance of a quantity in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// A subject of every campaign: wall time, checkpoint time and size.
    Main,
    /// A figure of merit for which the application's descriptor says which way is better.
    Merit,
    /// Any other quantity: only in data files, in the index and in the folded table of all quantities.
    Secondary,
}

/// How a quantity that is neither main nor a figure of merit is compared between two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is not.
    Never,
    /// By the ratio of its means.
    Ratio,
    /// It must be the same wherever a program runs with the same number of processes.
    Equality,
}

/// How the records of one checkpoint become one value; the checkpoints of a run are averaged afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The mean.
    Mean,
    /// The sum.
    Sum,
    /// The largest: of several nodes, and of the program and its restart, the one with the most counts.
    Max,
    /// The mean over the images of the ranks.
    ImageMean,
    /// The sum over the images of the ranks, divided by the number of ranks.
    RankMean,
    /// The mean of those that tell the difference from the previous checkpoint, by the label `since`.
    SincePrevious,
}

/// How a quantity is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Values of its labels, as in its name; empty for the only one.
    pub member: &'static str,
    /// Its heading.
    pub heading: &'static str,
    /// Its importance.
    pub tier: Tier,
    /// Which way is better.
    pub better: Option<Better>,
    /// How it is compared.
    pub comparison: Comparison,
}

impl Shown {
    const fn new(member: &'static str, heading: &'static str) -> Self {
        Self {
            member,
            heading,
            tier: Tier::Secondary,
            better: None,
            comparison: Comparison::Never,
        }
    }

    const fn main(self, better: Option<Better>) -> Self {
        Self {
            tier: Tier::Main,
            better,
            ..self
        }
    }

    const fn compared(self, comparison: Comparison) -> Self {
        Self { comparison, ..self }
    }
}

/// A quantity of a run, or a family of them, that the index derives from records of one name.
#[derive(Clone, Copy, Debug)]
pub struct Derived {
    /// How.
    pub how: How,
    /// Labels whose values its name ends with; `rule` may be missing.
    pub by: &'static [&'static str],
    /// How its members are shown: those with a heading of their own, in the order of tables.
    pub shown: &'static [Shown],
    /// The word that the heading of any other member begins with.
    pub family: Option<&'static str>,
}

impl Derived {
    const fn new(how: How, by: &'static [&'static str], shown: &'static [Shown]) -> Self {
        Self {
            how,
            by,
            shown,
            family: None,
        }
    }

    const fn family(self, family: &'static str) -> Self {
        Self {
            family: Some(family),
            ..self
        }
    }

    /// Returns what the record's name is continued with.
    pub const fn suffix(how: How) -> &'static str {
        match how {
            How::ImageMean => "_per_rank",
            How::Mean | How::Sum | How::Max | How::RankMean | How::SincePrevious => "",
        }
    }
}

/// A row of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Name of its records; of a computed quantity, its own.
    pub name: &'static str,
    /// Unit of its records.
    pub unit: Unit,
    /// Labels of its records, described.
    pub labels: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// What the index derives; `None`: it has no records and is computed from other quantities.
    pub derived: Option<&'static [Derived]>,
    /// How it is shown if it is computed.
    pub computed: &'static [Shown],
}

impl Measured {
    /// Returns all members with headings, with their names, in the order of tables.
    pub fn shown(&self) -> impl Iterator<Item = (String, &'static Shown)> {
        let (name, computed) = (self.name, self.computed);
        let derived = self.derived.unwrap_or_default().iter();
        let named = move |of: &'static Derived, shown: &'static Shown| match shown.member {
            "" => (format!("{name}{}", Derived::suffix(of.how)), shown),
            member => (format!("{name}_{member}"), shown),
        };
        let derived =
            derived.flat_map(move |of| of.shown.iter().map(move |shown| named(of, shown)));
        derived.chain(computed.iter().map(|shown| (self.name.to_owned(), shown)))
    }
}

macro_rules! quantities {
    ($($(#[doc = $meaning:literal])+ $NAME:ident = $name:literal, $unit:ident, $labels:literal, $derived:expr $(, $computed:expr)?;)+) => {
        /// Names of the records that cvc itself makes, and of what is computed from them; an application's figures of merit add their own.
        pub mod names {
            $($(#[doc = $meaning])+ pub const $NAME: &str = $name;)+
        }

        /// Every quantity, in the order of tables.
        pub const MEASURED: &[Measured] = &[$(Measured {
            name: $name,
            unit: Unit::$unit,
            labels: $labels,
            meaning: concat!($($meaning),+),
            derived: $derived,
            computed: quantities!(@computed $($computed)?),
        },)+];
    };
    (@computed) => { &[] };
    (@computed $computed:expr) => { &[$computed] };
}

use Comparison::{Equality, Ratio};
use How::{ImageMean, Max, Mean, RankMean, SincePrevious, Sum};

const LOWER: Option<Better> = Some(Better::Lower);
/// Only in `records`.
const RECORDS_ONLY: Option<&[Derived]> = Some(&[]);
/// Computed from other quantities.
const COMPUTED: Option<&[Derived]> = None;

/// The mean over checkpoints, under a heading.
macro_rules! mean {
    ($heading:literal $(. $method:ident($($with:expr),*))*) => {
        Some(&[Derived::new(Mean, &[], &[Shown::new("", $heading)$(.$method($($with),*))*])])
    };
}

/// The largest value, under a heading.
macro_rules! max {
    ($heading:literal) => {
        Some(&[Derived::new(Max, &[], &[Shown::new("", $heading)])])
    };
}

/// The mean over the images of the ranks.
macro_rules! per_rank {
    ($heading:literal $(. $method:ident($($with:expr),*))*) => {
        Some(&[Derived::new(ImageMean, &[], &[Shown::new("", $heading)$(.$method($($with),*))*])])
    };
}

quantities! {
    /// Time from the start of the launcher to its end.
    WALL_S = "wall_s", Seconds, "", mean!("wall time".main(LOWER));
    /// Coordination and storage together, by cvc's own clock where the checkpointer does not separate them; of an application's own
    /// checkpoint, as the application prints it.
    CKPT_LATENCY_S = "ckpt_latency_s", Seconds, "ckpt", mean!("checkpoint time".main(LOWER));
    /// Time from the coordinator's start of the checkpoint to the last barrier before the images are written.
    CKPT_COORDINATION_S = "ckpt_coordination_s", Seconds, "ckpt", mean!("coordination".main(LOWER));
    /// Time from there until every process has written its image (with gzip: until the last image is complete).
    CKPT_STORAGE_S = "ckpt_storage_s", Seconds, "ckpt", mean!("storage".main(LOWER));
    /// Everything that one checkpoint stores.
    CKPT_STORED_BYTES = "ckpt_stored_bytes", Bytes, "ckpt", mean!("stored".main(LOWER));
    /// Price of the nodes of a run while they take a checkpoint.
    CKPT_COST_USD = "ckpt_cost_usd", Usd, "", COMPUTED, Shown::new("", "cost of a checkpoint").compared(Ratio);
    /// Wall time with checkpoints over that without, at points with checkpoints; only in comparisons.
    WALL_WITH_OVER_WITHOUT = "wall_with_over_without", One, "", COMPUTED, Shown::new("", "time with checkpoints, over without");
    /// Bytes that a checkpoint stores over the time of storing them; only in comparisons.
    CKPT_BANDWIDTH = "ckpt_bandwidth_mib_per_s", MibPerSecond, "", COMPUTED, Shown::new("", "bandwidth of checkpoints");
    /// Number of zones and parts that images have; only in comparisons.
    ZONE_STRUCTURE = "zone_structure", Count, "", COMPUTED, Shown::new("", "zones and parts");
    /// Price of the nodes of a run from its start to the end of its restart check; `price` is the source of the price, with its date. Only
    /// where there is a price.
    COST_USD = "cost_usd", Usd, "nodes, seconds, usd_per_node_hour, price", mean!("cost".compared(Ratio));
    /// Time from the start of the restart to the application's end: the restart itself and the remaining computation.
    RESTART_TO_END_S = "restart_to_end_s", Seconds, "", mean!("restart to the end".main(LOWER));
    /// Whether the restarted application passed its own verification.
    RESTART_VERIFIED = "restart_verified", Bool, "", mean!("restart verified".compared(Equality));
    /// Aggregators that the MPI library said it used.
    AGGREGATORS_EFFECTIVE = "aggregators_effective", Count, "", mean!("aggregators in effect".compared(Equality));
    /// Collective buffer that the MPI library said it used.
    CB_BUFFER_EFFECTIVE = "cb_buffer_effective", Bytes, "", mean!("collective buffer in effect");
    /// Size on disk of the files of a checkpoint.
    CKPT_BYTES = "ckpt_bytes", Bytes, "ckpt, kind = rank / launcher / aux / application", Some(&[
        Derived::new(Sum, &[], &[Shown::new("", "checkpoint files")]),
        Derived::new(Sum, &["kind"], &[
            Shown::new("rank", "rank images").compared(Ratio),
            Shown::new("launcher", "launcher images").compared(Ratio),
            Shown::new("aux", "auxiliary files").compared(Ratio),
            Shown::new("application", "application's checkpoint"),
        ]),
    ]);
    /// Number of files of a checkpoint.
    CKPT_FILES = "ckpt_files", Count, "ckpt, kind = rank / launcher / aux / application", Some(&[
        // more files are neither good nor bad
        Derived::new(Sum, &[], &[Shown::new("", "files").main(None).compared(Equality)]),
        Derived::new(Sum, &["kind"], &[
            Shown::new("rank", "rank images, files").compared(Equality),
            Shown::new("launcher", "launcher images, files").compared(Equality),
            Shown::new("aux", "auxiliary files, number").compared(Equality),
            Shown::new("application", "application's checkpoint, files").compared(Equality),
        ]),
    ]);
    /// Uncompressed size of one image. `rank` numbers the images of the ranks in the order of their virtual process ids; it is not the
    /// rank in `MPI_COMM_WORLD`, which an image does not contain.
    IMAGE_BYTES = "image_bytes", Bytes, "ckpt, rank or role, image", per_rank!("image of a rank".compared(Ratio));
    /// Size on disk of one image.
    FILE_BYTES = "file_bytes", Bytes, "ckpt, rank or role, image", per_rank!("image file of a rank");
    /// Memory areas that an image describes: each has a header of a page.
    AREA_HEADERS = "area_headers", Count, "ckpt, rank or role, image", per_rank!("memory areas of a rank");
    /// Processor time, user and system together.
    CPU_S = "cpu_s", Seconds, "", COMPUTED, Shown::new("", "processor time").compared(Ratio);
    /// Processor time of the launcher and of everything that it waited for (the ranks on its node), in programs.
    CPU_USER_S = "cpu_user_s", Seconds, "", mean!("processor time, user");
    /// The same in the kernel.
    CPU_SYSTEM_S = "cpu_system_s", Seconds, "", mean!("processor time, system");
    /// The largest resident set of one of these processes.
    MAX_RSS_BYTES = "max_rss_bytes", Bytes, "", mean!("largest resident memory".compared(Ratio));
    /// `SHMEM` and `REST` by owner, which predictions take as shared memory; mean over the ranks.
    SHARED_WITH_STACKS_BYTES = "shared_with_stacks_bytes", Bytes, "", COMPUTED, Shown::new("", "shared memory and stacks");
    /// Size of what the run's tracer recorded, on all its nodes.
    TRACE_BYTES = "trace_bytes", Bytes, "", mean!("trace".compared(Ratio));
    /// Number of its files.
    TRACE_FILES = "trace_files", Count, "", mean!("trace, files".compared(Equality));
    /// Successful writes to the run's own files, as its tracer saw them below MPI-IO.
    TRACE_WRITE_OPS = "trace_write_ops", Count, "", mean!("writes");
    /// Bytes that they moved.
    TRACE_WRITTEN_BYTES = "trace_written_bytes", Bytes, "", mean!("written");
    /// Bytes of all writes over the time in which at least one process was writing.
    TRACE_WRITE_MIB_S = "trace_write_mib_s", MibPerSecond, "", mean!("bandwidth of writes");
    /// Number of times that writing began after a pause of a hundredth of the trace, at least 1 ms.
    TRACE_WRITE_BURSTS = "trace_write_bursts", Count, "", mean!("bursts of writes");
    /// Processes that wrote to the file with the most bytes written.
    TRACE_WRITERS = "trace_writers", Count, "", mean!("writers");
    /// Bytes of the one of them that wrote the least, over those of the one that wrote the most: 1 is even.
    TRACE_WRITER_SPREAD = "trace_writer_spread", One, "", mean!("evenness of writers");
    /// Successful reads of the run's own files.
    TRACE_READ_OPS = "trace_read_ops", Count, "", mean!("reads");
    /// Bytes that they moved.
    TRACE_READ_BYTES = "trace_read_bytes", Bytes, "", mean!("read");
    /// Duration of writes, added up over all processes.
    TRACE_WRITE_S = "trace_write_s", Seconds, "", mean!("time of writes");
    /// Duration of reads, added up over all processes.
    TRACE_READ_S = "trace_read_s", Seconds, "", mean!("time of reads");
    /// Duration of all other operations on these files, added up over all processes: open, close, seek, stat, sync, …; by Darshan its own
    /// count (`POSIX_F_META_TIME`), without sync.
    TRACE_METADATA_S = "trace_metadata_s", Seconds, "", mean!("time of other file operations");
    /// Checkpoints of a series; fewer than planned where the program ended before, or where one that it writes itself could not be read in
    /// time: the labels `ckpt`, `since` and `base` are numbers of its checkpoints, of which some are then missing.
    SERIES_CHECKPOINTS = "series_checkpoints", Count, "planned", mean!("checkpoints of a series");
    /// Time at which a checkpoint of a series was requested, since the program began to compute; of one that the program writes itself: at
    /// which its reading began, since the program's start.
    SERIES_AT_S = "series_at_s", Seconds, "ckpt", RECORDS_ONLY;
    /// Bytes of it that can change: the blocks (pages) of all its images, uncompressed, without headers; of one that the program writes
    /// itself: the bytes of its files.
    SERIES_BYTES = "series_bytes", Bytes, "ckpt", mean!("checkpoint of a series, blocks");
    /// Of these, blocks that an earlier one does not have at the same address of the same process; of those that the program writes itself,
    /// at the same offset in the same file. The first checkpoint has none, nor one after a checkpoint that was not measured.
    SERIES_CHANGED_BYTES = "series_changed_bytes", Bytes, "ckpt, since = number of an earlier checkpoint",
        Some(&[Derived::new(SincePrevious, &[], &[Shown::new("", "changed since the one before")])]);
    /// The same of a zone.
    SERIES_ZONE_CHANGED_BYTES = "series_zone_changed_bytes", Bytes,
        "ckpt, since = number of the previous checkpoint and of the first, zone, rule = owner", RECORDS_ONLY;
    /// The same of a part by the owner rules; parts without any are left out.
    SERIES_PART_CHANGED_BYTES = "series_part_changed_bytes", Bytes, "ckpt, since, part", RECORDS_ONLY;
    /// Time to read and hash its images or files, on their node, while the program continues.
    SERIES_HASH_S = "series_hash_s", Seconds, "ckpt", mean!("time to hash a checkpoint");
    /// Blocks that a method stores of it, uncompressed; `base` is the number of the checkpoint that it is stored against, 0 where it is
    /// stored in full.
    SERIES_STORED_BYTES = "series_stored_bytes", Bytes,
        "ckpt, method = full / incremental / differential / adca / bounded, base", RECORDS_ONLY;
    /// The same of all checkpoints of the run together.
    SERIES_TOTAL_BYTES = "series_total_bytes", Bytes, "method", Some(&[Derived::new(Mean, &["method"], &[
        Shown::new("full", "series stored in full"),
        Shown::new("incremental", "series stored, incremental"),
        Shown::new("differential", "series stored, differential"),
        Shown::new("adca", "series stored, ADCA"),
        Shown::new("bounded", "series stored, bounded chain"),
    ])]);
    /// Files that restore the checkpoint that needs the most.
    SERIES_RESTORE_FILES = "series_restore_files", Count, "method", Some(&[Derived::new(Mean, &["method"], &[])]);
    /// Length of the file that stores it.
    SERIES_FILE_BYTES = "series_file_bytes", Bytes, "ckpt, method, codec, block = bytes of a block", RECORDS_ONLY;
    /// Time to compress and write that file, once the checkpoint is hashed.
    SERIES_STORE_S = "series_store_s", Seconds, "ckpt, method, codec, block", RECORDS_ONLY;
    /// Time to restore the checkpoint as files, written through to the disk.
    SERIES_RESTORE_S = "series_restore_s", Seconds, "ckpt, method, codec, block", RECORDS_ONLY;
    /// Peak memory of the process that stored and restored these, including everything else that it holds.
    SERIES_MEMORY_BYTES = "series_memory_bytes", Bytes, "method, codec, block", RECORDS_ONLY;
    /// Content of the checkpoint that the restart check began from: restored from base and deltas into the place of its images, and found
    /// to be the same bytes.
    SERIES_RESTARTED_BYTES = "series_restarted_bytes", Bytes, "ckpt, method, codec, block", RECORDS_ONLY;
    /// Memory pages of all ranks that a program watches itself; the labels of these records number the checkpoints, or the times at which
    /// it counts.
    PAGES_TRACKED = "pages_tracked", Count, "ckpt", mean!("pages watched");
    /// Of these, pages that were written since the previous checkpoint, or since the start.
    PAGES_WRITTEN = "pages_written", Count, "ckpt", mean!("pages written");
    /// Of these, pages whose content differs: never more.
    PAGES_CHANGED = "pages_changed", Count, "ckpt", mean!("pages changed");
    /// Bytes of these that differ.
    PAGES_CHANGED_BYTES = "pages_changed_bytes", Bytes, "ckpt", mean!("bytes changed in pages");
    /// Time to find out which were written, of the slowest rank.
    PAGES_SCAN_S = "pages_scan_s", Seconds, "ckpt", mean!("time to tell pages written");
    /// Time to compare all pages with a copy of them, of the slowest rank.
    PAGES_COMPARE_S = "pages_compare_s", Seconds, "ckpt", mean!("time to compare pages");
    /// Processor time that the hypervisor gave to others while the program ran, share of all processors'.
    STEAL_SHARE = "steal_share", One, "node, during = restart", max!("stolen processor time");
    /// Processor time of anything but the run, share of all processors'; only of runs on one node.
    OTHER_CPU_SHARE = "other_cpu_share", One, "node, during = restart", max!("processor time of others");
    /// Share of the time in which a task of the node, one of the run's or another, waited for a processor.
    CPU_PRESSURE_SHARE = "cpu_pressure_share", One, "node, during = restart", max!("waiting for a processor");
    /// Share of the time in which a task of the node waited for a disk.
    IO_PRESSURE_SHARE = "io_pressure_share", One, "node, during = restart", max!("waiting for a disk");
    /// Share of the time in which a task of the node waited for memory.
    MEMORY_PRESSURE_SHARE = "memory_pressure_share", One, "node, during = restart", max!("waiting for memory");
    /// Bytes read from and written to swap.
    SWAPPED_BYTES = "swapped_bytes", Bytes, "node, during = restart", max!("swapped");
    /// Tasks that ran or waited for a processor right before.
    RUNNABLE_BEFORE = "runnable_before", Count, "node, during = restart", max!("other tasks before");
    /// Data bytes stored in a zone, without headers; by owner there is a zone `REST`, of stacks and reserves.
    ZONE_BYTES = "zone_bytes", Bytes, "ckpt, rank or role, image, zone = DTAPP / LB / SHMEM, rule = owner / structural / literal",
        Some(&[Derived::new(RankMean, &["zone", "rule"], &[]).family("zone")]);
    /// Address ranges of a zone, without inaccessible regions. DMTCP 4 leaves out of an image what was never written, DMTCP 2 stored it, so
    /// sizes of that time compare with ranges.
    ZONE_RANGE_BYTES = "zone_range_bytes", Bytes, "as `zone_bytes`", Some(&[Derived::new(RankMean, &["zone", "rule"], &[])]);
    /// Share of a zone in the file of a gzip'd image; together they are `file_bytes`.
    ZONE_FILE_BYTES = "zone_file_bytes", Bytes,
        "ckpt, rank or role, image, zone = DTAPP / LB / SHMEM / REST / HEADERS, rule = owner",
        Some(&[Derived::new(RankMean, &["zone", "rule"], &[])]);
    /// Data bytes stored in a part of a zone, by the owner rules.
    PART_BYTES = "part_bytes", Bytes,
        "ckpt, rank or role, image, zone, kind = static / heap / allocated / files / library-memory / shared / stacks / reserves, rule = owner",
        Some(&[Derived::new(RankMean, &["kind"], &[]).family("part")]);
    /// Data bytes stored in a part of a zone, by the structural rules.
    SUB_ZONE_BYTES = "sub_zone_bytes", Bytes, "ckpt, rank or role, image, zone, sub = exe / bss / heap / …",
        Some(&[Derived::new(RankMean, &["zone", "sub"], &[])]);
    /// Address ranges of such a part.
    SUB_ZONE_RANGE_BYTES = "sub_zone_range_bytes", Bytes, "as `sub_zone_bytes`",
        Some(&[Derived::new(RankMean, &["zone", "sub"], &[])]);
}

/// Whether a quantity is what else the nodes of a run did, from right before the program's start to right after its end, and again (`during`)
/// for its restart: no result of the run, but a reason to look at it again. The kernel counts processor time in hundredths of a second, so
/// there are no shares of it for runs below half a second.
pub fn is_disturbance(quantity: &str) -> bool {
    let is_largest = |row: &Measured| {
        row.derived
            .is_some_and(|of| of.iter().any(|of| of.how == Max))
    };
    MEASURED
        .iter()
        .any(|row| row.name == quantity && is_largest(row))
}

/// Returns how a quantity with a heading of its own is shown, with its place in the order of tables.
pub fn shown(quantity: &str) -> Option<(usize, &'static Shown)> {
    static BY_NAME: LazyLock<HashMap<String, (usize, &'static Shown)>> = LazyLock::new(|| {
        let all = MEASURED.iter().flat_map(Measured::shown).enumerate();
        all.map(|(place, (name, shown))| (name, (place, shown)))
            .collect()
    });
    BY_NAME.get(quantity).copied()
}

/// Returns the family that a quantity without a heading of its own belongs to, with its word for headings and the values of its labels.
pub fn family(quantity: &str) -> Option<(&'static Measured, Option<&'static str>, &str)> {
    MEASURED.iter().find_map(|row| {
        let of = row.derived?.iter().find(|of| !of.by.is_empty())?;
        let labels = quantity.strip_prefix(row.name)?.strip_prefix('_')?;
        of.shown.is_empty().then_some((row, of.family, labels))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_records_and_of_quantities_are_unique() {
        let names: BTreeSet<&str> = MEASURED.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), MEASURED.len());
        let shown: Vec<String> = MEASURED
            .iter()
            .flat_map(Measured::shown)
            .map(|(name, _)| name)
            .collect();
        let unique: BTreeSet<&String> = shown.iter().collect();
        assert_eq!(unique.len(), shown.len());
    }

    #[test]
    fn members_of_families_are_found_by_their_names() {
        let heading = |name: &str| shown(name).map(|(_, of)| of.heading);
        assert_eq!(heading("ckpt_bytes"), Some("checkpoint files"));
        assert_eq!(heading("ckpt_bytes_aux"), Some("auxiliary files"));
        assert_eq!(heading("image_bytes_per_rank"), Some("image of a rank"));
        assert_eq!(heading("image_bytes"), None);
        let (row, word, labels) = family("zone_bytes_DTAPP_owner").expect("a family");
        assert_eq!(
            (row.name, word, labels),
            ("zone_bytes", Some("zone"), "DTAPP_owner")
        );
        assert!(family("ckpt_bytes_aux").is_none() && family("wall_s").is_none());
    }
}
