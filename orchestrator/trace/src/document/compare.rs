//! Compares two traces: files of the same role and their operations, by offsets in the same order.

use crate::document::model::{ShownFile, TraceDocument};
use crate::{
    ProcessId,
    profile::{FileUse, Profile, role_of},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A difference between files of one role. A role comprises files whose names differ only in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceDifference {
    /// The name of the files, without numbers.
    pub role: String,
    /// The property that differs: `files`, `reads`, `writes`, `read bytes`, `written bytes`, `writers`, `sizes of writes`, `order of writes`.
    pub what: &'static str,
    /// The value in the first trace.
    pub a: String,
    /// The value in the second trace.
    pub b: String,
}

/// The result of comparing two traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceComparison {
    /// Version of this document's format.
    pub schema: u32,
    /// Roles whose operations are equal in both traces: numbers, sizes, and order if known.
    pub same: Vec<String>,
    /// Whether the order of operations is known in both traces; counters do not record it.
    pub order_known: bool,
    /// Differences, sorted by role.
    pub differences: Vec<TraceDifference>,
    /// Time of all reads and writes in each trace, seconds.
    pub times_s: [f64; 2],
    /// Write bandwidth in each trace, MiB/s: bytes written over the time of writes.
    pub write_mib_s: [Option<f64>; 2],
    /// Number of write bursts in each trace.
    pub write_bursts: [usize; 2],
}

/// Compares two traces.
pub fn compare(a: (&Profile, &TraceDocument), b: (&Profile, &TraceDocument)) -> TraceComparison {
    let roles_of = |document: &TraceDocument| -> BTreeSet<String> {
        document
            .files
            .iter()
            .filter(|f| f.of_run && f.reads.operations.max(f.writes.operations) > 0)
            .map(|f| f.role.clone())
            .collect()
    };
    let (mut same, mut differences) = (Vec::new(), Vec::new());
    let all: BTreeSet<String> = roles_of(a.1).union(&roles_of(b.1)).cloned().collect();
    for role in all {
        let found = of_role(&role, a, b);
        if found.is_empty() {
            same.push(role);
        } else {
            differences.extend(found);
        }
    }
    let time = |d: &TraceDocument| -> f64 {
        d.files
            .iter()
            .map(|f| f.reads.time_s + f.writes.time_s)
            .sum()
    };
    let rate = |d: &TraceDocument| {
        let (bytes, time_s) = d.files.iter().fold((0, 0.0), |(bytes, time), f| {
            (
                u64::saturating_add(bytes, f.writes.bytes),
                time + f.writes.time_s,
            )
        });
        (bytes > 0 && time_s > 0.0).then(|| bytes as f64 / 1_048_576.0 / time_s)
    };
    let bursts = |d: &TraceDocument| {
        d.bursts
            .iter()
            .filter(|b| b.kind == crate::document::model::BurstKind::Write)
            .count()
    };
    TraceComparison {
        schema: crate::document::model::SCHEMA,
        same,
        order_known: a.1.events > 0 && b.1.events > 0,
        differences,
        times_s: [time(a.1), time(b.1)],
        write_mib_s: [rate(a.1), rate(b.1)],
        write_bursts: [bursts(a.1), bursts(b.1)],
    }
}

fn of_role(
    role: &str,
    a: (&Profile, &TraceDocument),
    b: (&Profile, &TraceDocument),
) -> Vec<TraceDifference> {
    let of = |d: &TraceDocument| -> Vec<ShownFile> {
        d.files
            .iter()
            .filter(|f| f.of_run && f.role == role)
            .cloned()
            .collect()
    };
    let (of_a, of_b) = (of(a.1), of(b.1));
    let mut found = Vec::new();
    let mut compare = |what: &'static str, of: &dyn Fn(&[ShownFile]) -> String| {
        let (in_a, in_b) = (of(&of_a), of(&of_b));
        if in_a != in_b {
            found.push(TraceDifference {
                role: role.to_owned(),
                what,
                a: in_a,
                b: in_b,
            });
        }
    };
    let sum = |files: &[ShownFile], of: fn(&ShownFile) -> u64| -> String {
        files
            .iter()
            .map(of)
            .fold(0, u64::saturating_add)
            .to_string()
    };
    compare("files", &|f| f.len().to_string());
    compare("reads", &|f| sum(f, |f| f.reads.operations));
    compare("read bytes", &|f| sum(f, |f| f.reads.bytes));
    compare("writes", &|f| sum(f, |f| f.writes.operations));
    compare("written bytes", &|f| sum(f, |f| f.writes.bytes));
    // the counters of a file shared by all ranks do not show which ranks wrote
    let is_known = |files: &[ShownFile]| files.iter().all(|f| f.writers.is_some());
    if is_known(&of_a) && is_known(&of_b) {
        compare("writers", &|f| sum(f, |f| f.writers.unwrap_or(0) as u64));
    }
    compare("sizes of writes", &|f| {
        let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
        for (bin, n) in f.iter().flat_map(|f| &f.writes.sizes) {
            let sum = sizes.entry(bin).or_default();
            *sum = sum.saturating_add(*n);
        }
        sizes
            .iter()
            .map(|(bin, n)| format!("{bin}: {n}"))
            .collect::<Vec<_>>()
            .join(", ")
    });
    if found.is_empty() && a.1.events > 0 && b.1.events > 0 {
        let (order_a, order_b) = (orders(role, a.0), orders(role, b.0));
        if order_a != order_b {
            let alike = order_a.intersection(&order_b).count();
            found.push(TraceDifference {
                role: role.to_owned(),
                what: "order of writes",
                a: format!("{} sequences", order_a.len()),
                b: format!("{} sequences, {alike} of them the same", order_b.len()),
            });
        }
    }
    found
}

/// Returns digests of the sequences of offsets and lengths in which processes wrote the files of a role.
fn orders(role: &str, profile: &Profile) -> BTreeSet<u64> {
    let of_role = |file: &&FileUse| file.is_of_run && role_of(&file.name()) == role;
    profile
        .files
        .iter()
        .filter(of_role)
        .filter_map(|file| Some((file, file.lowest()?)))
        .flat_map(|(file, api)| {
            file.by(api)
                .filter(|(_, u): &(ProcessId, _)| u.writes.operations > 0)
                .map(|(_, u)| u.writes.digest())
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::model::{TraceHead, document};
    use crate::{Api, Event, FileId, Op, Sink, profile::Profiler};

    fn trace(name: &str, places: &[(u64, u64)]) -> (Profile, TraceDocument) {
        let mut profiler = Profiler::default();
        profiler.file(FileId(0), name.as_bytes()).expect("kept");
        for (i, (offset, bytes)) in places.iter().enumerate() {
            profiler
                .event(&Event {
                    process: ProcessId(0),
                    thread: 0,
                    file: FileId(0),
                    op: Op::Write,
                    api: Api::Posix,
                    offset: Some(*offset),
                    bytes: *bytes,
                    start_ns: i as u64 * 1000,
                    duration_ns: 1000,
                    failed: false,
                })
                .expect("kept");
        }
        let profile = profiler.finish();
        let shown = document(TraceHead::default(), &profile, &[], None);
        (profile, shown)
    }

    fn compared(a: &(Profile, TraceDocument), b: &(Profile, TraceDocument)) -> TraceComparison {
        compare((&a.0, &a.1), (&b.0, &b.1))
    }

    #[test]
    fn equal_operations_are_the_same_with_other_numbers_in_names() {
        let places = [(0, 10), (10, 20), (30, 5)];
        let found = compared(
            &trace("/a/out-1.dat", &places),
            &trace("/b/out-22.dat", &places),
        );
        assert_eq!(found.same, ["out-#.dat"]);
        assert!(found.differences.is_empty());
    }

    #[test]
    fn another_order_and_another_number_are_reported() {
        let a = trace("x", &[(0, 10), (10, 10), (20, 10)]);
        let order = compared(&a, &trace("x", &[(10, 10), (0, 10), (20, 10)]));
        assert_eq!(order.differences.len(), 1);
        assert_eq!(order.differences[0].what, "order of writes");
        let fewer = compared(&a, &trace("x", &[(0, 10), (10, 20)]));
        let what: Vec<&str> = fewer.differences.iter().map(|d| d.what).collect();
        assert_eq!(what, ["writes", "sizes of writes"]);
        let none = compared(&a, &trace("y", &[(0, 10)]));
        assert_eq!(none.differences[0].a, "1");
        assert_eq!(none.differences[0].b, "0");
    }
}
