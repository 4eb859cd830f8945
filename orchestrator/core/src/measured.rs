//! The registry of measured quantities: the records that cvc makes, and how they are used. One row declares everything about a quantity; the names,
//! the index, headings, comparisons and the page on data are generated from the rows.

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
    /// A quantity that every campaign is about: wall time, checkpoint time and size.
    Main,
    /// A figure of merit; the descriptor declares which direction is better.
    Merit,
    /// Any other quantity: only in data files, in the index, and in the folded table of all quantities.
    Secondary,
}

/// How a quantity is compared between two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The quantity is not compared.
    Never,
    /// By the ratio of the means.
    Ratio,
    /// The value must be equal everywhere that a program runs with the same number of processes.
    Equality,
}

/// How the records of one checkpoint are combined into one value. The values of a run's checkpoints are then averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The mean.
    Mean,
    /// The sum.
    Sum,
    /// The maximum over nodes, and over the program and its restart.
    Max,
    /// The mean over the images of the ranks.
    ImageMean,
    /// The sum over the images of the ranks, divided by the number of ranks.
    RankMean,
    /// The mean of the records whose label `since` names the previous checkpoint.
    SincePrevious,
}

/// How a quantity is displayed.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Values of the labels that form the end of the quantity's name; empty for a quantity without labels.
    pub member: &'static str,
    /// Heading of the quantity.
    pub heading: &'static str,
    /// Importance of the quantity.
    pub tier: Tier,
    /// Which direction is better; `None` if neither is.
    pub better: Option<Better>,
    /// How the quantity is compared between two sites.
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

/// A quantity of a run, or a family of such quantities, that the index derives from the records of one name.
#[derive(Clone, Copy, Debug)]
pub struct Derived {
    /// How the records are combined.
    pub how: How,
    /// Labels whose values form the end of the quantity's name. Records may lack the label `rule`.
    pub by: &'static [&'static str],
    /// Members of the family with their own headings, in the order of tables.
    pub shown: &'static [Shown],
    /// First word in the headings of the family's other members; `None` if there is no family.
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

    /// Returns the suffix that this way of combining records adds to a quantity's name; empty for most ways.
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
    /// Name of the records. If the quantity is computed from others, its own name.
    pub name: &'static str,
    /// Unit of the records.
    pub unit: Unit,
    /// Labels of the records, as text.
    pub labels: &'static str,
    /// Meaning of the quantity, as text.
    pub meaning: &'static str,
    /// Quantities that the index derives; `None` for a quantity without records, which is computed from others.
    pub derived: Option<&'static [Derived]>,
    /// How the quantity is displayed if it is computed from others; otherwise empty.
    pub computed: &'static [Shown],
}

impl Measured {
    /// Returns all members that have a heading, with their names, in the order of tables.
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
        /// Names of cvc's own records and of quantities derived from them. Applications add their figures of merit.
        pub mod names {
            $($(#[doc = $meaning])+ pub const $NAME: &str = $name;)+
        }

        /// All quantities, in the order of tables.
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
/// Value of [`Measured::derived`] for records from which the index derives no quantity.
const RECORDS_ONLY: Option<&[Derived]> = Some(&[]);
/// Value of [`Measured::derived`] for a quantity that is computed from others.
const COMPUTED: Option<&[Derived]> = None;

/// Derives the mean over checkpoints, with a heading.
macro_rules! mean {
    ($heading:literal $(. $method:ident($($with:expr),*))*) => {
        Some(&[Derived::new(Mean, &[], &[Shown::new("", $heading)$(.$method($($with),*))*])])
    };
}

/// Derives the sum over nodes, with a heading.
macro_rules! sum {
    ($heading:literal) => {
        Some(&[Derived::new(Sum, &[], &[Shown::new("", $heading)])])
    };
}

/// Derives the largest value, with a heading.
macro_rules! max {
    ($heading:literal) => {
        Some(&[Derived::new(Max, &[], &[Shown::new("", $heading)])])
    };
}

/// Derives the mean over the images of the ranks, with a heading.
macro_rules! per_rank {
    ($heading:literal $(. $method:ident($($with:expr),*))*) => {
        Some(&[Derived::new(ImageMean, &[], &[Shown::new("", $heading)$(.$method($($with),*))*])])
    };
}

quantities! {
    /// Time from the start of the launcher to its end.
    WALL_S = "wall_s", Seconds, "", mean!("wall time".main(LOWER));
    /// Coordination and storage; by cvc's clock where the checkpointer does not separate them, as printed for the application's own checkpoints.
    CKPT_LATENCY_S = "ckpt_latency_s", Seconds, "ckpt", mean!("checkpoint time".main(LOWER));
    /// Time that the application's own checkpoint stopped it, as printed, including the wait for the previous one.
    CKPT_STOP_S = "ckpt_stop_s", Seconds, "ckpt", mean!("program stopped".compared(Ratio));
    /// Checkpoints that the application skipped because the previous one was not safe yet.
    CKPT_SKIPPED = "ckpt_skipped", Count, "", mean!("checkpoints skipped".compared(Ratio));
    /// Time from the coordinator's start to the last barrier before images are written.
    CKPT_COORDINATION_S = "ckpt_coordination_s", Seconds, "ckpt", mean!("coordination".main(LOWER));
    /// Time from this barrier until all images are written (with gzip: compressed and complete).
    CKPT_STORAGE_S = "ckpt_storage_s", Seconds, "ckpt", mean!("storage".main(LOWER));
    /// Everything that a checkpoint stores.
    CKPT_STORED_BYTES = "ckpt_stored_bytes", Bytes, "ckpt", mean!("stored".main(LOWER));
    /// Time from the start of a DMTCP checkpoint to the last write to an image, by its node's clock; images get their final names later.
    CKPT_IMAGE_DONE_S = "ckpt_image_done_s", Seconds, "ckpt, rank or role, image, node", RECORDS_ONLY;
    /// Time until this share of the images was written.
    CKPT_IMAGES_DONE_S = "ckpt_images_done_s", Seconds, "ckpt, at = p50/p90/p95/last", Some(&[Derived::new(Mean, &["at"], &[
        Shown::new("p50", "half of the images written"),
        Shown::new("p90", "nine tenths of the images written"),
        Shown::new("p95", "95 of 100 images written"),
        Shown::new("last", "all images written"),
    ])]);
    /// Price of the run's nodes during a checkpoint.
    CKPT_COST_USD = "ckpt_cost_usd", Usd, "", COMPUTED, Shown::new("", "cost of a checkpoint").compared(Ratio);
    /// Wall time with checkpoints over that without; only in comparisons.
    WALL_WITH_OVER_WITHOUT = "wall_with_over_without", One, "", COMPUTED, Shown::new("", "time with checkpoints, over without");
    /// Bytes stored over storage time; only in comparisons.
    CKPT_BANDWIDTH = "ckpt_bandwidth_mib_per_s", MibPerSecond, "", COMPUTED, Shown::new("", "bandwidth of checkpoints");
    /// Zones and parts of images; only in comparisons.
    ZONE_STRUCTURE = "zone_structure", Count, "", COMPUTED, Shown::new("", "zones and parts");
    /// Price of the nodes until the restart check ends, if known; `price`: its source and date.
    COST_USD = "cost_usd", Usd, "nodes, seconds, usd_per_node_hour, price", mean!("cost".compared(Ratio));
    /// Attempt whose checkpoint an interrupted run continued from; its times and cost cover all parts, including repeated work.
    RESUMED_FROM = "resumed_from", Count, "earlier_s, kept_bytes", mean!("resumed from attempt");
    /// Time from the notice of a reclaim until the checkpoint was safe; `left_s`: time that the notice gave.
    NOTICE_CKPT_S = "notice_ckpt_s", Seconds, "left_s", mean!("checkpoint after the notice");
    /// Time from the start of the restart to the application's end.
    RESTART_TO_END_S = "restart_to_end_s", Seconds, "", mean!("restart to the end".main(LOWER));
    /// Time from the start of a restart to the end of the first new step, or, without steps, to the first new output.
    RESTART_LATENCY_S = "restart_latency_s", Seconds, "restart, until = step/output", mean!("restart".main(LOWER));
    /// Time from the end of the first new step to the program's end.
    RESTART_REST_S = "restart_rest_s", Seconds, "", mean!("rest of the computation");
    /// Images that a restart reads; own checkpoints: bytes that the tracer saw read, else file sizes.
    RESTART_BYTES = "restart_bytes", Bytes, "restart", mean!("size of what is restarted");
    /// `restart_bytes` over `restart_latency_s`.
    RESTART_BANDWIDTH = "restart_bandwidth_mib_per_s", MibPerSecond, "", COMPUTED, Shown::new("", "bandwidth of a restart").compared(Ratio);
    /// Successive restarts, each from a checkpoint of the previous one.
    RESTARTS = "restarts", Count, "", mean!("restarts of a run");
    /// Last step printed when the checkpoint was taken.
    RESTART_FROM_STEP = "restart_from_step", Count, "restart", RECORDS_ONLY;
    /// First step that the restarted program printed.
    RESTART_FIRST_STEP = "restart_first_step", Count, "restart", RECORDS_ONLY;
    /// Difference of these steps: 1 if each step is printed.
    RESTART_STEP_GAP = "restart_step_gap", Count, "restart", mean!("steps to the first after a restart");
    /// Checkpoint time of a restarted program.
    RESTART_CKPT_LATENCY_S = "restart_ckpt_latency_s", Seconds, "ckpt, restart", mean!("checkpoint after a restart");
    /// Everything that a checkpoint of a restarted program stores.
    RESTART_CKPT_STORED_BYTES = "restart_ckpt_stored_bytes", Bytes, "ckpt, restart", mean!("stored after a restart");
    /// Trace of a restart.
    RESTART_TRACE_BYTES = "restart_trace_bytes", Bytes, "", mean!("trace of the restart");
    /// Traced reads of the run's own files by a restart.
    RESTART_READ_OPS = "restart_read_ops", Count, "", mean!("reads of the restart");
    /// Bytes of these reads.
    RESTART_READ_BYTES = "restart_read_bytes", Bytes, "", mean!("read by the restart");
    /// Time of these reads, summed over processes.
    RESTART_READ_S = "restart_read_s", Seconds, "", mean!("time of the restart's reads");
    /// Checkpoint files: written by the run and read by its restart, by both traces.
    CKPT_IO_FILES = "ckpt_io_files", Count, "", mean!("checkpoint files traced");
    /// Writes to checkpoint files per checkpoint.
    CKPT_IO_WRITE_OPS = "ckpt_io_write_ops", Count, "", mean!("writes of a checkpoint");
    /// Bytes of these writes.
    CKPT_IO_WRITTEN_BYTES = "ckpt_io_written_bytes", Bytes, "", mean!("written for a checkpoint");
    /// Reads of checkpoint files by the restart.
    CKPT_IO_READ_OPS = "ckpt_io_read_ops", Count, "", mean!("reads of a checkpoint");
    /// Bytes of these reads.
    CKPT_IO_READ_BYTES = "ckpt_io_read_bytes", Bytes, "", mean!("read of a checkpoint");
    /// Whether the restarted application passed its verification.
    RESTART_VERIFIED = "restart_verified", Bool, "", mean!("restart verified".compared(Equality));
    /// Aggregators that the MPI library reported.
    AGGREGATORS_EFFECTIVE = "aggregators_effective", Count, "", mean!("aggregators in effect".compared(Equality));
    /// Threads per process that the program reported.
    THREADS_EFFECTIVE = "threads_effective", Count, "", mean!("threads in effect".compared(Equality));
    /// Cores that a process may use, minimum over processes.
    CORES_ALLOWED = "cores_allowed", Count, "", mean!("cores allowed".compared(Equality));
    /// Collective buffer that the MPI library reported.
    CB_BUFFER_EFFECTIVE = "cb_buffer_effective", Bytes, "", mean!("collective buffer in effect");
    /// Checkpoint files on disk.
    CKPT_BYTES = "ckpt_bytes", Bytes, "ckpt, kind = rank/launcher/aux/application", Some(&[
        Derived::new(Sum, &[], &[Shown::new("", "checkpoint files")]),
        Derived::new(Sum, &["kind"], &[
            Shown::new("rank", "rank images").compared(Ratio),
            Shown::new("launcher", "launcher images").compared(Ratio),
            Shown::new("aux", "auxiliary files").compared(Ratio),
            Shown::new("application", "application's checkpoint"),
        ]),
    ]);
    /// Checkpoint files.
    CKPT_FILES = "ckpt_files", Count, "ckpt, kind = rank/launcher/aux/application", Some(&[
        // neither more nor fewer files are better
        Derived::new(Sum, &[], &[Shown::new("", "files").main(None).compared(Equality)]),
        Derived::new(Sum, &["kind"], &[
            Shown::new("rank", "rank images, files").compared(Equality),
            Shown::new("launcher", "launcher images, files").compared(Equality),
            Shown::new("aux", "auxiliary files, number").compared(Equality),
            Shown::new("application", "application's checkpoint, files").compared(Equality),
        ]),
    ]);
    /// Image, uncompressed. `rank`: order of virtual process ids, not the rank in `MPI_COMM_WORLD`.
    IMAGE_BYTES = "image_bytes", Bytes, "ckpt, rank or role, image", per_rank!("image of a rank".compared(Ratio));
    /// Image on disk.
    FILE_BYTES = "file_bytes", Bytes, "ckpt, rank or role, image", per_rank!("image file of a rank");
    /// Memory areas of an image; each has a header of one page.
    AREA_HEADERS = "area_headers", Count, "ckpt, rank or role, image", per_rank!("memory areas of a rank");
    /// Processor time, user and system.
    CPU_S = "cpu_s", Seconds, "", COMPUTED, Shown::new("", "processor time").compared(Ratio);
    /// User time of the launcher and the processes it waited for (ranks on its node).
    CPU_USER_S = "cpu_user_s", Seconds, "", mean!("processor time, user");
    /// System time of these processes.
    CPU_SYSTEM_S = "cpu_system_s", Seconds, "", mean!("processor time, system");
    /// Largest resident set of these processes.
    MAX_RSS_BYTES = "max_rss_bytes", Bytes, "", mean!("largest resident memory".compared(Ratio));
    /// `SHMEM` and `REST` by owner: the shared memory of predictions; mean over ranks.
    SHARED_WITH_STACKS_BYTES = "shared_with_stacks_bytes", Bytes, "", COMPUTED, Shown::new("", "shared memory and stacks");
    /// Trace, all nodes.
    TRACE_BYTES = "trace_bytes", Bytes, "", mean!("trace".compared(Ratio));
    /// Files of the trace.
    TRACE_FILES = "trace_files", Count, "", mean!("trace, files".compared(Equality));
    /// Successful writes to the run's own files, traced below MPI-IO.
    TRACE_WRITE_OPS = "trace_write_ops", Count, "", mean!("writes".compared(Ratio));
    /// Bytes of these writes.
    TRACE_WRITTEN_BYTES = "trace_written_bytes", Bytes, "", mean!("written".compared(Ratio));
    /// Written bytes over the time with at least one process writing.
    TRACE_WRITE_MIB_S = "trace_write_mib_s", MibPerSecond, "", mean!("bandwidth of writes");
    /// Bursts of writes, separated by 1/100 of the trace, at least 1 ms.
    TRACE_WRITE_BURSTS = "trace_write_bursts", Count, "", mean!("bursts of writes".compared(Ratio));
    /// Processes writing to the file with the most bytes.
    TRACE_WRITERS = "trace_writers", Count, "", mean!("writers");
    /// Minimum over maximum bytes of these writers: 1 is even.
    TRACE_WRITER_SPREAD = "trace_writer_spread", One, "", mean!("evenness of writers");
    /// Successful reads of the run's own files.
    TRACE_READ_OPS = "trace_read_ops", Count, "", mean!("reads");
    /// Bytes of these reads.
    TRACE_READ_BYTES = "trace_read_bytes", Bytes, "", mean!("read");
    /// Duration of writes, summed over processes.
    TRACE_WRITE_S = "trace_write_s", Seconds, "", mean!("time of writes");
    /// Duration of reads, summed over processes.
    TRACE_READ_S = "trace_read_s", Seconds, "", mean!("time of reads");
    /// Other operations on these files (open, seek, sync, …), summed over processes; Darshan: `POSIX_F_META_TIME`, without sync.
    TRACE_METADATA_S = "trace_metadata_s", Seconds, "", mean!("time of other file operations");
    /// Phases of I/O, by the tracer of MPI-IO.
    TRACE_PHASES = "trace_phases", Count, "", mean!("phases of I/O".compared(Equality));
    /// Time of I/O in these phases, of the slowest process in each.
    TRACE_PHASES_S = "trace_phases_s", Seconds, "", mean!("time of I/O phases");
    /// Checkpoints of a series; fewer than planned if the program ended earlier or one was not read in time (numbers in `ckpt`, `since`, `base` are
    /// then missing).
    SERIES_CHECKPOINTS = "series_checkpoints", Count, "planned", mean!("checkpoints of a series");
    /// Time at which a checkpoint was requested, since computing began; own checkpoints: start of reading it, since the program's start.
    SERIES_AT_S = "series_at_s", Seconds, "ckpt", RECORDS_ONLY;
    /// Blocks of a checkpoint's images, uncompressed, without headers; own checkpoints: bytes of the files.
    SERIES_BYTES = "series_bytes", Bytes, "ckpt", mean!("checkpoint of a series, blocks");
    /// Blocks absent from an earlier checkpoint at the same address of the process (own checkpoints: file offset). Missing for the first one and
    /// after one not measured.
    SERIES_CHANGED_BYTES = "series_changed_bytes", Bytes, "ckpt, since = earlier checkpoint",
        Some(&[Derived::new(SincePrevious, &[], &[Shown::new("", "changed since the previous one")])]);
    /// `series_changed_bytes` by zone.
    SERIES_ZONE_CHANGED_BYTES = "series_zone_changed_bytes", Bytes,
        "ckpt, since = previous and first checkpoint, zone, rule = owner", RECORDS_ONLY;
    /// `series_changed_bytes` by part (owner rules); parts without changes are omitted.
    SERIES_PART_CHANGED_BYTES = "series_part_changed_bytes", Bytes, "ckpt, since, part", RECORDS_ONLY;
    /// Time to read and hash a checkpoint on its node while the program runs.
    SERIES_HASH_S = "series_hash_s", Seconds, "ckpt", mean!("time to hash a checkpoint");
    /// Blocks of a checkpoint that a method stores, uncompressed; `base`: reference checkpoint, 0 for full.
    SERIES_STORED_BYTES = "series_stored_bytes", Bytes,
        "ckpt, method = full/incremental/differential/adca/bounded, base", RECORDS_ONLY;
    /// Blocks that a method stores of all checkpoints, uncompressed.
    SERIES_TOTAL_BYTES = "series_total_bytes", Bytes, "method", Some(&[Derived::new(Mean, &["method"], &[
        Shown::new("full", "series stored in full"),
        Shown::new("incremental", "series stored, incremental"),
        Shown::new("differential", "series stored, differential"),
        Shown::new("adca", "series stored, ADCA"),
        Shown::new("bounded", "series stored, bounded chain"),
    ])]);
    /// Number of files needed to restore one checkpoint, maximum.
    SERIES_RESTORE_FILES = "series_restore_files", Count, "method", Some(&[Derived::new(Mean, &["method"], &[])]);
    /// Size of the file that stores a checkpoint.
    SERIES_FILE_BYTES = "series_file_bytes", Bytes, "ckpt, method, codec, block = its bytes", RECORDS_ONLY;
    /// Time to compress and write this file after hashing.
    SERIES_STORE_S = "series_store_s", Seconds, "ckpt, method, codec, block", RECORDS_ONLY;
    /// Time to restore a checkpoint to disk as files.
    SERIES_RESTORE_S = "series_restore_s", Seconds, "ckpt, method, codec, block", RECORDS_ONLY;
    /// Peak memory of the storing and restoring process.
    SERIES_MEMORY_BYTES = "series_memory_bytes", Bytes, "method, codec, block", RECORDS_ONLY;
    /// Checkpoint that the restart check began from, restored from base and deltas and identical.
    SERIES_RESTARTED_BYTES = "series_restarted_bytes", Bytes, "ckpt, method, codec, block", RECORDS_ONLY;
    /// Time from the end of writing until all nodes keep a checkpoint with redundancy and manifest.
    LEVEL_SAFE_S = "level_safe_s", Seconds, "ckpt, way = local/partner/xor", mean!("time until safe on nodes".main(LOWER));
    /// Part of `level_safe_s`: keeping the files, slowest node.
    LEVEL_LOCAL_S = "level_local_s", Seconds, "ckpt, way", mean!("kept on the node".compared(Ratio));
    /// Part of `level_safe_s`: copies to partners, or parity.
    LEVEL_REDUNDANCY_S = "level_redundancy_s", Seconds, "ckpt, way", mean!("redundancy".compared(Ratio));
    /// Own files kept by nodes.
    LEVEL_KEPT_BYTES = "level_kept_bytes", Bytes, "ckpt, way", mean!("kept on nodes");
    /// Bytes sent between nodes for redundancy.
    LEVEL_SENT_BYTES = "level_sent_bytes", Bytes, "ckpt, way", mean!("sent between nodes".compared(Ratio));
    /// `level_sent_bytes` over `level_redundancy_s`, all nodes.
    LEVEL_SENT_MIB_S = "level_sent_mib_s", MibPerSecond, "ckpt, way", mean!("bandwidth between nodes".compared(Ratio));
    /// Time to copy a checkpoint to shared storage, if copied.
    LEVEL_FLUSH_S = "level_flush_s", Seconds, "ckpt, flush = waits/behind", mean!("time of a flush".compared(Ratio));
    /// Bytes of these copies.
    LEVEL_FLUSHED_BYTES = "level_flushed_bytes", Bytes, "ckpt, flush", mean!("flushed");
    /// Time from checking which files nodes still have until all nodes have the files for the restart.
    LEVEL_RESTORE_S = "level_restore_s", Seconds, "ckpt, from = local/partner/xor/shared, lost = nodes",
        mean!("files ready for the restart".main(LOWER));
    /// Part of `level_restore_s`: rebuilding lost nodes' files from copies or parity.
    LEVEL_REBUILD_S = "level_rebuild_s", Seconds, "ckpt, from, lost", mean!("rebuilding lost nodes".main(LOWER));
    /// Bytes rebuilt.
    LEVEL_REBUILT_BYTES = "level_rebuilt_bytes", Bytes, "ckpt, from, lost", mean!("rebuilt".compared(Ratio));
    /// Checkpoint that the restart began from.
    LEVEL_RESTARTED_CKPT = "level_restarted_ckpt", Count, "from, lost", mean!("restarted from checkpoint".compared(Equality));
    /// Memory pages of all ranks that the program watches; `ckpt` numbers checkpoints or counts.
    PAGES_TRACKED = "pages_tracked", Count, "ckpt", mean!("pages watched");
    /// Watched pages that were written since the previous checkpoint or the start.
    PAGES_WRITTEN = "pages_written", Count, "ckpt", mean!("pages written");
    /// Written pages whose content changed.
    PAGES_CHANGED = "pages_changed", Count, "ckpt", mean!("pages changed");
    /// Bytes that differ in these pages.
    PAGES_CHANGED_BYTES = "pages_changed_bytes", Bytes, "ckpt", mean!("bytes changed in pages");
    /// Time to find written pages, slowest rank.
    PAGES_SCAN_S = "pages_scan_s", Seconds, "ckpt", mean!("time to detect written pages");
    /// Time to compare all pages with a copy, slowest rank.
    PAGES_COMPARE_S = "pages_compare_s", Seconds, "ckpt", mean!("time to compare pages");
    /// Metadata operations of the program, as its file system counted them before and after.
    METADATA_OPERATIONS = "metadata_operations", Count, "kind = create/open/lookup/…, node = mount or brick", Some(&[
        Derived::new(Sum, &[], &[Shown::new("", "metadata operations").compared(Ratio)]),
        Derived::new(Sum, &["kind"], &[]).family("operations"),
    ]);
    /// Messages of the program's nodes to metadata servers, with those of idle mounts.
    METADATA_MESSAGES = "metadata_messages", Count, "node", sum!("messages to metadata servers");
    /// Metadata operations of the restart, as its file system counted them.
    RESTART_METADATA_OPERATIONS = "restart_metadata_operations", Count, "as `metadata_operations`", sum!("metadata operations of the restart");
    /// Messages of the restart to metadata servers.
    RESTART_METADATA_MESSAGES = "restart_metadata_messages", Count, "node", sum!("messages of the restart to metadata servers");
    /// Processor time taken by the hypervisor, share of all processors.
    STEAL_SHARE = "steal_share", One, "node, during = restart", max!("stolen processor time");
    /// Processor time outside the run, share of all processors; single-node runs only.
    OTHER_CPU_SHARE = "other_cpu_share", One, "node, during = restart", max!("processor time of others");
    /// Share of time with a task of the node waiting for a processor.
    CPU_PRESSURE_SHARE = "cpu_pressure_share", One, "node, during = restart", max!("waiting for a processor");
    /// Share of time with a task of the node waiting for a disk.
    IO_PRESSURE_SHARE = "io_pressure_share", One, "node, during = restart", max!("waiting for a disk");
    /// Share of time with a task of the node waiting for memory.
    MEMORY_PRESSURE_SHARE = "memory_pressure_share", One, "node, during = restart", max!("waiting for memory");
    /// Bytes read from and written to swap.
    SWAPPED_BYTES = "swapped_bytes", Bytes, "node, during = restart", max!("swapped");
    /// Tasks running or waiting for a processor right before the start.
    RUNNABLE_BEFORE = "runnable_before", Count, "node, during = restart", max!("other tasks before");
    /// Data bytes of a zone, without headers; by owner also `REST` (stacks, reserves).
    ZONE_BYTES = "zone_bytes", Bytes, "ckpt, rank or role, image, zone = DTAPP/LB/SHMEM, rule = owner/structural/literal",
        Some(&[Derived::new(RankMean, &["zone", "rule"], &[]).family("zone")]);
    /// Address ranges of a zone, without inaccessible regions. Comparable with sizes of DMTCP 2, which also stored unwritten memory.
    ZONE_RANGE_BYTES = "zone_range_bytes", Bytes, "as `zone_bytes`", Some(&[Derived::new(RankMean, &["zone", "rule"], &[])]);
    /// Share of a zone in a gzip'd image file; the shares of all zones add up to `file_bytes`.
    ZONE_FILE_BYTES = "zone_file_bytes", Bytes,
        "ckpt, rank or role, image, zone = DTAPP/LB/SHMEM/REST/HEADERS, rule = owner",
        Some(&[Derived::new(RankMean, &["zone", "rule"], &[])]);
    /// Data bytes of a part of a zone, owner rules.
    PART_BYTES = "part_bytes", Bytes,
        "ckpt, rank or role, image, zone, kind = static/heap/allocated/files/library-memory/shared/stacks/reserves, rule = owner",
        Some(&[Derived::new(RankMean, &["kind"], &[]).family("part")]);
    /// Data bytes of a part of a zone, structural rules.
    SUB_ZONE_BYTES = "sub_zone_bytes", Bytes, "ckpt, rank or role, image, zone, sub = exe/bss/heap/…",
        Some(&[Derived::new(RankMean, &["zone", "sub"], &[])]);
    /// Address ranges of a part of a zone, structural rules.
    SUB_ZONE_RANGE_BYTES = "sub_zone_range_bytes", Bytes, "as `sub_zone_bytes`",
        Some(&[Derived::new(RankMean, &["zone", "sub"], &[])]);
}

/// Returns whether a quantity describes other activity on a run's nodes, from just before the program's start to just after its end, and again (label
/// `during`) for its restart. Such a quantity is not a result of the run, but a reason to check the run. The kernel counts processor time in
/// hundredths of a second, so runs below half a second have no share of processor time.
pub fn is_disturbance(quantity: &str) -> bool {
    let is_largest = |row: &Measured| {
        row.derived
            .is_some_and(|of| of.iter().any(|of| of.how == Max))
    };
    MEASURED
        .iter()
        .any(|row| row.name == quantity && is_largest(row))
}

/// Returns how a quantity is displayed, and its position in tables; `None` if the quantity has no heading of its own.
pub fn shown(quantity: &str) -> Option<(usize, &'static Shown)> {
    static BY_NAME: LazyLock<HashMap<String, (usize, &'static Shown)>> = LazyLock::new(|| {
        let all = MEASURED.iter().flat_map(Measured::shown).enumerate();
        all.map(|(place, (name, shown))| (name, (place, shown)))
            .collect()
    });
    BY_NAME.get(quantity).copied()
}

/// Returns the family of a quantity that has no heading of its own, the first word of its heading, and its label values.
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
