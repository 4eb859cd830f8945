//! Records: the typed facts of a run. A measured value is never of the same type as a predicted or printed one.

use crate::ids::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// How a value was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Printed by the application.
    ApplicationOutput,
    /// cvc's own clock.
    Clock,
    /// The checkpointer's event log.
    CheckpointerLog,
    /// Read from a checkpoint image.
    Image,
    /// Size of a file on disk.
    FileSize,
    /// A tracer.
    Trace,
    /// The kernel's accounting of the processes (getrusage, /proc).
    Kernel,
    /// cvc's own clock, times a price.
    Price,
    /// Measured by somebody else, in a table that was imported.
    Imported,
}

/// Names of the records that cvc itself makes; an application's figures of merit add their own names.
///
/// | name | unit | labels | meaning |
/// |---|---|---|---|
/// | `wall_s` | s | | launcher start to launcher end |
/// | `ckpt_latency_s` | s | ckpt | coordination and storage together; by cvc's own clock where the checkpointer does not tell them apart;
/// of an application's own checkpoint, as the application prints it |
/// | `ckpt_coordination_s` | s | ckpt | the coordinator's start of the checkpoint to the last barrier before the images are written |
/// | `ckpt_storage_s` | s | ckpt | from there until every process has written its image (with gzip: until the last image is whole) |
/// | `ckpt_stored_bytes` | bytes | ckpt | total stored by one checkpoint: everything below |
/// | `ckpt_files` | count | ckpt, kind = rank / launcher / aux / application | number of files |
/// | `ckpt_bytes` | bytes | ckpt, kind = rank / launcher / aux / application | their size on disk |
/// | `image_bytes` | bytes | ckpt, rank or role, image | uncompressed size of one image |
/// | `file_bytes` | bytes | ckpt, rank or role, image | size on disk of one image |
/// | `zone_bytes` | bytes | ckpt, rank or role, image, zone = DTAPP / LB / SHMEM, rule = owner / structural /
/// literal | data bytes stored in a zone, without headers; by owner there is a zone REST, of stacks and reserves |
/// | `zone_range_bytes` | bytes | as `zone_bytes` | address ranges of a zone, without regions of no access: what of a region is not stored,
/// because it was never written, counts too |
/// | `zone_file_bytes` | bytes | ckpt, rank or role, image, zone = DTAPP / LB / SHMEM / REST / HEADERS, rule = owner | what a zone takes of the
/// file of a gzip'd image; together they are `file_bytes` |
/// | `part_bytes` | bytes | ckpt, rank or role, image, zone, kind = static / heap / allocated / …, rule = owner | the same of a part of a zone,
/// by the owner rules |
/// | `sub_zone_bytes`, `sub_zone_range_bytes` | bytes | ckpt, rank or role, image, zone, sub = exe / bss / heap / … | the same of a part of
/// a zone, by the structural rules |
/// | `area_headers` | count | ckpt, rank or role, image | memory areas that an image describes: each has a header of a page |
/// | `cpu_user_s`, `cpu_system_s` | s | | processor time of the launcher and of all that it waited for: the ranks on its node |
/// | `max_rss_bytes` | bytes | | the largest resident set of one of these processes |
/// | `restart_to_end_s` | s | | start of the restart to the application's end: the restart itself and the computation that was left |
/// | `restart_verified` | bool | | the restarted application passed its own verification |
/// | `aggregators_effective`, `cb_buffer_effective` | count, bytes | | what the MPI library said it used |
/// | `steal_share` | 1 | node, during = restart | while the program ran: processor time that the hypervisor gave to others, share of all processors' |
/// | `other_cpu_share` | 1 | node, during = restart | processor time of anything but the run, share of all processors'; only of runs on one node |
/// | `cpu_pressure_share`, `io_pressure_share`, `memory_pressure_share` | 1 | node, during = restart | share of the time in which a task of the node, one of
/// the run's or another, waited for a processor, a disk, memory |
/// | `swapped_bytes` | bytes | node, during = restart | read from and written to swap |
/// | `runnable_before` | count | node, during = restart | tasks that ran or waited for a processor right before |
/// | `trace_bytes`, `trace_files` | bytes, count | | what the tracer of the run recorded takes, on all its nodes |
/// | `trace_read_ops`, `trace_write_ops` | count | | reads and writes of the run's own files that did not fail, as its tracer saw them below MPI-IO |
/// | `trace_read_bytes`, `trace_written_bytes` | bytes | | what they moved |
/// | `trace_read_s`, `trace_write_s` | s | | how long they took, added up over all processes |
/// | `trace_metadata_s` | s | | how long all other operations on these files took, added up over all processes: open, close, seek, stat, sync, …;
/// by Darshan its own count (`POSIX_F_META_TIME`), without sync |
/// | `trace_write_bursts` | count | | how often writing began after a pause of a hundredth of the trace, at least 1 ms |
/// | `trace_writers` | count | | processes that wrote, of the file that most bytes were written of |
/// | `trace_writer_spread` | 1 | | what the one of them wrote that wrote least, over what the one wrote that wrote most: 1 is even |
/// | `trace_write_mib_s` | MiB/s | | bytes of all writes over the time in which at least one process was writing |
/// | `series_checkpoints` | count | planned | checkpoints that a series has; fewer than planned where the program ended before, or where one
/// that it writes itself could not be read in time: the labels `ckpt`, `since` and `base` are numbers of its checkpoints, of which some are then missing |
/// | `series_at_s` | s | ckpt | when a checkpoint of a series was asked for, since the program began to compute; of one that it writes
/// itself: when its reading began, since the program's start |
/// | `series_bytes` | bytes | ckpt | what can change of it: the blocks (pages) of all its images, uncompressed, without headers; of one that the
/// program writes itself: the bytes of its files |
/// | `series_changed_bytes` | bytes | ckpt, since = number of an earlier checkpoint | of these, blocks that the earlier one does not have at the
/// same address of the same process; of those that the program writes itself, at the same place in the same file |
/// | `series_zone_changed_bytes` | bytes | ckpt, since = number of the checkpoint before and of the first, zone, rule = owner | the same of a zone |
/// | `series_part_changed_bytes` | bytes | ckpt, since = as above, part | the same of a part by the owner rules; parts without any are left out |
/// | `series_hash_s` | s | ckpt | time to read and hash its images or files, on the node where they lie, while the program goes on |
/// | `series_stored_bytes` | bytes | ckpt, method = full / incremental / differential / adca / bounded, base | blocks that a method stores of it,
/// uncompressed; `base` is the number of the checkpoint that it is stored against, 0 where it is stored in full |
/// | `series_total_bytes` | bytes | method | the same of all checkpoints of the run together |
/// | `series_restore_files` | count | method | files that restore the checkpoint that needs most |
/// | `series_file_bytes` | bytes | ckpt, method, codec, block = bytes of a block | length of the file that stores it |
/// | `series_store_s` | s | as above | time to compress and write that file, once the checkpoint is hashed |
/// | `series_restore_s` | s | as above | time to restore the checkpoint as files, written through to the disk |
/// | `series_memory_bytes` | bytes | method, codec, block | most memory of the process that stored and restored these, with all else that it holds |
/// | `series_restarted_bytes` | bytes | ckpt, method, codec, block | content of the checkpoint that the restart check began from: restored from
/// base and deltas into the place of its images, and found to be the same bytes |
/// | `pages_tracked` | count | ckpt | memory pages of all ranks that a program watches itself; the labels of these records number the checkpoints, or
/// the times at which it counts |
/// | `pages_written` | count | ckpt | of these, pages that were written since the checkpoint before, or since the start |
/// | `pages_changed` | count | ckpt | of these, pages whose content is another one: never more |
/// | `pages_changed_bytes` | bytes | ckpt | bytes of these that differ |
/// | `pages_scan_s` | s | ckpt | time to tell which were written, of the slowest rank |
/// | `pages_compare_s` | s | ckpt | time to compare all pages with a copy of them, of the slowest rank |
/// | `cost_usd` | USD | nodes, seconds, usd_per_node_hour, price | what its nodes cost while the run had them, from its start to the end of
/// its restart check; `price` is the source of the price, with its date. Only where there is a price |
///
/// [`DISTURBANCES`] tell what else the nodes did, from right before the program's start to right after its end, and
/// again (`during`) for its restart. The
/// kernel counts processor time in hundredths of a second, so there are no shares of it for runs below half a second.
///
/// The label `rank` numbers the images of the ranks by the virtual process ids in them; it is not the rank in MPI_COMM_WORLD, which an
/// image does not tell.
pub mod names {
    #![expect(missing_docs, reason = "the table above says what each is")]
    pub const WALL_S: &str = "wall_s";
    pub const CKPT_LATENCY_S: &str = "ckpt_latency_s";
    pub const CKPT_COORDINATION_S: &str = "ckpt_coordination_s";
    pub const CKPT_STORAGE_S: &str = "ckpt_storage_s";
    pub const CKPT_STORED_BYTES: &str = "ckpt_stored_bytes";
    pub const CKPT_FILES: &str = "ckpt_files";
    pub const CKPT_BYTES: &str = "ckpt_bytes";
    pub const IMAGE_BYTES: &str = "image_bytes";
    pub const FILE_BYTES: &str = "file_bytes";
    pub const ZONE_BYTES: &str = "zone_bytes";
    pub const ZONE_RANGE_BYTES: &str = "zone_range_bytes";
    pub const ZONE_FILE_BYTES: &str = "zone_file_bytes";
    pub const PART_BYTES: &str = "part_bytes";
    pub const SUB_ZONE_BYTES: &str = "sub_zone_bytes";
    pub const SUB_ZONE_RANGE_BYTES: &str = "sub_zone_range_bytes";
    pub const AREA_HEADERS: &str = "area_headers";
    pub const CPU_USER_S: &str = "cpu_user_s";
    pub const CPU_SYSTEM_S: &str = "cpu_system_s";
    pub const MAX_RSS_BYTES: &str = "max_rss_bytes";
    pub const RESTART_TO_END_S: &str = "restart_to_end_s";
    pub const RESTART_VERIFIED: &str = "restart_verified";
    pub const AGGREGATORS_EFFECTIVE: &str = "aggregators_effective";
    pub const CB_BUFFER_EFFECTIVE: &str = "cb_buffer_effective";
    pub const STEAL_SHARE: &str = "steal_share";
    pub const OTHER_CPU_SHARE: &str = "other_cpu_share";
    pub const CPU_PRESSURE_SHARE: &str = "cpu_pressure_share";
    pub const IO_PRESSURE_SHARE: &str = "io_pressure_share";
    pub const MEMORY_PRESSURE_SHARE: &str = "memory_pressure_share";
    pub const SWAPPED_BYTES: &str = "swapped_bytes";
    pub const RUNNABLE_BEFORE: &str = "runnable_before";
    pub const TRACE_BYTES: &str = "trace_bytes";
    pub const TRACE_FILES: &str = "trace_files";
    pub const TRACE_READ_OPS: &str = "trace_read_ops";
    pub const TRACE_WRITE_OPS: &str = "trace_write_ops";
    pub const TRACE_READ_BYTES: &str = "trace_read_bytes";
    pub const TRACE_WRITTEN_BYTES: &str = "trace_written_bytes";
    pub const TRACE_READ_S: &str = "trace_read_s";
    pub const TRACE_WRITE_S: &str = "trace_write_s";
    pub const TRACE_METADATA_S: &str = "trace_metadata_s";
    pub const TRACE_WRITE_BURSTS: &str = "trace_write_bursts";
    pub const TRACE_WRITERS: &str = "trace_writers";
    pub const TRACE_WRITER_SPREAD: &str = "trace_writer_spread";
    pub const TRACE_WRITE_MIB_S: &str = "trace_write_mib_s";
    pub const SERIES_CHECKPOINTS: &str = "series_checkpoints";
    pub const SERIES_AT_S: &str = "series_at_s";
    pub const SERIES_BYTES: &str = "series_bytes";
    pub const SERIES_CHANGED_BYTES: &str = "series_changed_bytes";
    pub const SERIES_ZONE_CHANGED_BYTES: &str = "series_zone_changed_bytes";
    pub const SERIES_PART_CHANGED_BYTES: &str = "series_part_changed_bytes";
    pub const SERIES_HASH_S: &str = "series_hash_s";
    pub const SERIES_STORED_BYTES: &str = "series_stored_bytes";
    pub const SERIES_TOTAL_BYTES: &str = "series_total_bytes";
    pub const SERIES_RESTORE_FILES: &str = "series_restore_files";
    pub const SERIES_FILE_BYTES: &str = "series_file_bytes";
    pub const SERIES_STORE_S: &str = "series_store_s";
    pub const SERIES_RESTORE_S: &str = "series_restore_s";
    pub const SERIES_MEMORY_BYTES: &str = "series_memory_bytes";
    pub const SERIES_RESTARTED_BYTES: &str = "series_restarted_bytes";
    pub const PAGES_TRACKED: &str = "pages_tracked";
    pub const PAGES_WRITTEN: &str = "pages_written";
    pub const PAGES_CHANGED: &str = "pages_changed";
    pub const PAGES_CHANGED_BYTES: &str = "pages_changed_bytes";
    pub const PAGES_SCAN_S: &str = "pages_scan_s";
    pub const PAGES_COMPARE_S: &str = "pages_compare_s";
    pub const COST_USD: &str = "cost_usd";

    /// What else the nodes of a run did: no result of the run, but a reason to look at it again. Of several nodes, the largest counts.
    pub const DISTURBANCES: [&str; 7] = [
        STEAL_SHARE,
        OTHER_CPU_SHARE,
        CPU_PRESSURE_SHARE,
        IO_PRESSURE_SHARE,
        MEMORY_PRESSURE_SHARE,
        SWAPPED_BYTES,
        RUNNABLE_BEFORE,
    ];
}

/// One measured fact of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run it belongs to.
    pub run: RunId,
    /// What was measured: one of [`names`], or a figure of merit of the application.
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// How it was obtained.
    pub source: Source,
    /// From which file of the run's directory, relative to it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub artefact: Option<String>,
    /// What distinguishes it from others of the same name: ckpt, rank, zone, kind, image, role, rule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub labels: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_figure_is_read_to_its_last_digit(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            let record = Record {
                run: RunId::from_written("r"),
                name: names::COST_USD.to_owned(),
                value,
                unit: Unit::Usd,
                source: Source::Price,
                artefact: None,
                labels: Default::default(),
            };
            let text = serde_json::to_string(&record).expect("JSON");
            let read: Record = serde_json::from_str(&text).expect("a record");
            prop_assert_eq!(read.value.to_bits(), value.to_bits(), "{}", text);
        }
    }
}
