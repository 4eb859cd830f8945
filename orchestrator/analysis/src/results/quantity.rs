//! Headings and order of quantities and factors.

use cvc_core::app::descriptor::Better;

use cvc_core::point::Point;

use cvc_core::record::names;

/// Importance of a quantity in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// A subject of every campaign: wall time, checkpoint time and size.
    Main,
    /// A figure of merit for which the application's descriptor says which way is better.
    Merit,
    /// Any other quantity: only in data files, in the index and in the folded table of all quantities.
    Secondary,
}

/// The main quantities, in the order of tables, with headings.
const MAIN: [(&str, &str); 7] = [
    (names::WALL_S, "wall time"),
    (names::CKPT_LATENCY_S, "checkpoint time"),
    (names::CKPT_COORDINATION_S, "coordination"),
    (names::CKPT_STORAGE_S, "storage"),
    (names::CKPT_STORED_BYTES, "stored"),
    (names::CKPT_FILES, "files"),
    (names::RESTART_TO_END_S, "restart to the end"),
];

/// Processor time of a run, user and system together, as `quantities.sql` adds it up.
pub(crate) const PROCESSOR_S: &str = "cpu_s";

/// Wall time with checkpoints over that without, at points with checkpoints: comparisons make it.
pub(crate) const WITH_OVER_WITHOUT: &str = "wall_with_over_without";

/// What a checkpoint stores over the time in which it is stored: comparisons make it.
pub(crate) const CKPT_BANDWIDTH: &str = "ckpt_bandwidth_mib_per_s";

/// What the nodes of a run cost while they take a checkpoint, as `quantities.sql` computes it.
pub(crate) const CKPT_COST_USD: &str = "ckpt_cost_usd";

/// Number of zones and parts that images have: comparisons make it.
pub(crate) const ZONE_STRUCTURE: &str = "zone_structure";

/// Other quantities of cvc's own, in order. The names are those of the view `v_quantities`.
const KNOWN: [(&str, &str); 60] = [
    (CKPT_COST_USD, "cost of a checkpoint"),
    (WITH_OVER_WITHOUT, "time with checkpoints, over without"),
    (CKPT_BANDWIDTH, "bandwidth of checkpoints"),
    (ZONE_STRUCTURE, "zones and parts"),
    (names::COST_USD, "cost"),
    (names::RESTART_VERIFIED, "restart verified"),
    (names::AGGREGATORS_EFFECTIVE, "aggregators in effect"),
    (names::CB_BUFFER_EFFECTIVE, "collective buffer in effect"),
    (names::CKPT_BYTES, "checkpoint files"),
    ("ckpt_bytes_rank", "rank images"),
    ("ckpt_bytes_launcher", "launcher images"),
    ("ckpt_bytes_aux", "auxiliary files"),
    ("ckpt_bytes_application", "application's checkpoint"),
    ("ckpt_files_rank", "rank images, files"),
    ("ckpt_files_launcher", "launcher images, files"),
    ("ckpt_files_aux", "auxiliary files, number"),
    ("ckpt_files_application", "application's checkpoint, files"),
    ("image_bytes_per_rank", "image of a rank"),
    ("file_bytes_per_rank", "image file of a rank"),
    ("area_headers_per_rank", "memory areas of a rank"),
    (PROCESSOR_S, "processor time"),
    ("cpu_user_s", "processor time, user"),
    ("shared_with_stacks_bytes", "shared memory and stacks"),
    ("cpu_system_s", "processor time, system"),
    ("max_rss_bytes", "largest resident memory"),
    (names::TRACE_BYTES, "trace"),
    (names::TRACE_FILES, "trace, files"),
    (names::TRACE_WRITE_OPS, "writes"),
    (names::TRACE_WRITTEN_BYTES, "written"),
    (names::TRACE_WRITE_MIB_S, "bandwidth of writes"),
    (names::TRACE_WRITE_BURSTS, "bursts of writes"),
    (names::TRACE_WRITERS, "writers"),
    (names::TRACE_WRITER_SPREAD, "evenness of writers"),
    (names::TRACE_READ_OPS, "reads"),
    (names::TRACE_READ_BYTES, "read"),
    (names::TRACE_WRITE_S, "time of writes"),
    (names::TRACE_READ_S, "time of reads"),
    (names::TRACE_METADATA_S, "time of other file operations"),
    (names::SERIES_CHECKPOINTS, "checkpoints of a series"),
    (names::SERIES_BYTES, "checkpoint of a series, blocks"),
    (names::SERIES_CHANGED_BYTES, "changed since the one before"),
    (names::SERIES_HASH_S, "time to hash a checkpoint"),
    ("series_total_bytes_full", "series stored in full"),
    (
        "series_total_bytes_incremental",
        "series stored, incremental",
    ),
    (
        "series_total_bytes_differential",
        "series stored, differential",
    ),
    ("series_total_bytes_adca", "series stored, ADCA"),
    ("series_total_bytes_bounded", "series stored, bounded chain"),
    (names::PAGES_TRACKED, "pages watched"),
    (names::PAGES_WRITTEN, "pages written"),
    (names::PAGES_CHANGED, "pages changed"),
    (names::PAGES_CHANGED_BYTES, "bytes changed in pages"),
    (names::PAGES_SCAN_S, "time to tell pages written"),
    (names::PAGES_COMPARE_S, "time to compare pages"),
    (names::STEAL_SHARE, "stolen processor time"),
    (names::OTHER_CPU_SHARE, "processor time of others"),
    (names::CPU_PRESSURE_SHARE, "waiting for a processor"),
    (names::IO_PRESSURE_SHARE, "waiting for a disk"),
    (names::MEMORY_PRESSURE_SHARE, "waiting for memory"),
    (names::SWAPPED_BYTES, "swapped"),
    (names::RUNNABLE_BEFORE, "other tasks before"),
];

/// Returns the heading of a quantity; figures of merit keep their own names.
pub(crate) fn heading(quantity: &str) -> String {
    if let Some((_, heading)) = MAIN
        .iter()
        .chain(&KNOWN)
        .find(|(name, _)| *name == quantity)
    {
        return (*heading).to_owned();
    }
    if let Some(zone) = quantity.strip_prefix("zone_bytes_") {
        return format!("zone {}", zone.replace('_', ", "));
    }
    if let Some(part) = quantity.strip_prefix("part_bytes_") {
        return format!("part {part}");
    }
    quantity.to_owned()
}

/// Returns the tier of a quantity and its better direction; `declared` has the directions in the descriptors of the applications that print it.
pub(crate) fn standing(quantity: &str, declared: &[Option<Better>]) -> (Tier, Option<Better>) {
    if MAIN.iter().any(|(name, _)| *name == quantity) {
        // More files are neither good nor bad.
        return (
            Tier::Main,
            (quantity != names::CKPT_FILES).then_some(Better::Lower),
        );
    }
    match declared.iter().flatten().next() {
        None => (Tier::Secondary, None),
        // If applications disagree, there is no direction.
        first => (
            Tier::Merit,
            first
                .copied()
                .filter(|b| declared.iter().flatten().all(|d| d == b)),
        ),
    }
}

/// Returns the sort key of a quantity: main quantities as listed, then figures of merit, then the rest, zones last.
pub(crate) fn order(quantity: &str, tier: Tier) -> (Tier, usize, String) {
    let known = MAIN
        .iter()
        .chain(&KNOWN)
        .position(|(name, _)| *name == quantity);
    let zone = quantity.trim_start_matches("sub_").starts_with("zone_")
        || quantity.starts_with("part_bytes");
    let last = MAIN.len() + KNOWN.len();
    (
        tier,
        known.unwrap_or(if zone { last + 1 } else { last }),
        quantity.to_owned(),
    )
}

/// Returns the better direction in words.
pub(crate) fn direction(better: Option<Better>) -> Option<&'static str> {
    match better? {
        Better::Lower => Some("lower is better"),
        Better::Higher => Some("higher is better"),
        Better::Neither => None,
    }
}

/// Returns the heading of a factor.
pub(crate) fn factor_heading(factor: &str) -> String {
    let built_in = Point::FACTOR_INFO.iter().find(|info| info.name == factor);
    built_in.map_or(factor, |info| info.heading).to_owned()
}

/// Returns the name of a factor's column in data files, as in the index: free factors have a prefix of their own.
pub(crate) fn factor_column(factor: &str) -> String {
    if Point::FACTORS.contains(&factor) {
        factor.to_owned()
    } else {
        format!("user_{factor}")
    }
}

/// Describes a level of a factor where the factor's name is not beside it.
pub(crate) fn level(factor: &str, level: &str) -> String {
    match factor {
        "aggregators" => format!("{level} aggregator{}", if level == "1" { "" } else { "s" }),
        "cb_buffer" => format!("{level} buffer"),
        "processes" => format!("{level} process{}", if level == "1" { "" } else { "es" }),
        "compression" if level == "none" => "uncompressed".to_owned(),
        "checkpointer" if level == "none" => "no checkpoint".to_owned(),
        "restart_check" => if level == "true" {
            "restarted"
        } else {
            "not restarted"
        }
        .to_owned(),
        "tracer" if level == "none" => "untraced".to_owned(),
        "moment" if level == "-" => "no moment".to_owned(),
        "site" | "app" | "class" | "mapping" | "mpi" | "checkpointer" | "compression"
        | "storage" | "moment" | "tracer" => level.to_owned(),
        other => format!("{other} {level}"),
    }
}
