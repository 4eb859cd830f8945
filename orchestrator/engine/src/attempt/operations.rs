//! Metadata operations of a run, counted by its file system: the counters are read just before the program's start and just after its end.

use crate::run::{AllocatedNodes, CounterReading, RunFailure};
use cvc_core::outcome::Cause;
use cvc_trace::metadata_operations::{MetadataCounts, SourceCounts, difference};

/// Counter readings from before a program's start.
#[derive(Debug)]
pub(super) struct CountedBefore {
    /// A reading immediately before the reading `before`. Their difference shows the operations that a reading itself causes.
    idle: CounterReading,
    before: CounterReading,
}

/// The operations counted during a program.
#[derive(Debug)]
pub(super) struct OperationsCounted {
    pub(super) counts: MetadataCounts,
    /// Why counts are unknown, one reason each.
    pub(super) unknown: Vec<String>,
}

/// Reads the counters before a program; `None` if operations are not counted.
///
/// # Errors
/// The file system has no counters.
pub(super) async fn before(used: &AllocatedNodes) -> Result<Option<CountedBefore>, RunFailure> {
    let Some(idle) = read(used).await? else {
        return Ok(None);
    };
    let before = read(used).await?.unwrap_or_default();
    Ok(Some(CountedBefore { idle, before }))
}

async fn read(used: &AllocatedNodes) -> Result<Option<CounterReading>, RunFailure> {
    let Some(file_system) = used.file_system.as_ref().filter(|of| of.counts()) else {
        return Ok(None);
    };
    let mut nodes: Vec<&str> = used.ranks.iter().map(|node| node.name.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let read = file_system.read_counters(&used.crew, &nodes).await;
    read.map(Some)
        .map_err(|why| RunFailure::new(Cause::Launch, why))
}

/// Reads the counters after the program, and returns the difference; `None` if they were not read before.
pub(super) async fn counted(
    before: Option<CountedBefore>,
    used: &AllocatedNodes,
) -> Option<OperationsCounted> {
    let before = before?;
    let after = read(used).await.ok().flatten().unwrap_or_default();
    Some(count(&before, &after))
}

/// Returns the operations between two readings, without those that reading itself causes.
fn count(from: &CountedBefore, after: &CounterReading) -> OperationsCounted {
    let idle = Some((&from.idle.at, &from.before.at));
    let counts = difference(&from.before.at, &after.at, idle);
    let unread = from.before.unread.iter().chain(&after.unread);
    let mut unknown: Vec<String> = unread.map(|(node, why)| format!("{node}: {why}")).collect();
    let of_source =
        |source: &SourceCounts| Some(format!("{}: {}", source.source, source.unknown.as_ref()?));
    unknown.extend(counts.sources.iter().filter_map(of_source));
    if counts.sources.is_empty() && unknown.is_empty() {
        unknown.push("no node has counters".to_owned());
    }
    unknown.dedup();
    OperationsCounted { counts, unknown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_trace::metadata_operations::{CounterOptions, read_counter_text};
    use std::path::Path;

    /// Returns readings of MooseFS mounts: number of opens, and of connections to the master.
    fn reading(nodes: &[(&str, u64, u64)]) -> CounterReading {
        let mut reading = CounterReading::default();
        for (node, opens, reconnects) in nodes {
            let text = format!(
                "fuse_ops.open: {opens}\nmaster.packets_sent: {opens}\nmaster.reconnects: {reconnects}\n"
            );
            let options = CounterOptions::default();
            let found = read_counter_text(text.as_bytes(), Path::new("x"), node, &options);
            let found = found.expect("a counter");
            reading.at.counter = found.counter;
            reading.at.sources.extend(found.sources);
        }
        reading
    }

    #[test]
    fn what_reading_costs_is_taken_off() {
        let from = CountedBefore {
            idle: reading(&[("n1", 10, 0), ("n2", 20, 0)]),
            before: reading(&[("n1", 11, 0), ("n2", 21, 0)]),
        };
        let counted = count(&from, &reading(&[("n1", 17, 0), ("n2", 22, 0)]));
        assert_eq!((counted.counts.total, counted.unknown), (Some(5), vec![]));
    }

    #[test]
    fn a_lost_node_or_a_server_that_began_anew_makes_counts_unknown() {
        let from = || CountedBefore {
            idle: reading(&[("n1", 10, 0), ("n2", 20, 0)]),
            before: reading(&[("n1", 11, 0), ("n2", 21, 0)]),
        };
        let mut after = reading(&[("n1", 17, 0)]);
        after.unread.insert("n2".into(), "no answer".into());
        let counted = count(&from(), &after);
        assert_eq!(counted.counts.total, None);
        assert_eq!(counted.unknown[0], "n2: no answer");
        let counted = count(&from(), &reading(&[("n1", 17, 0), ("n2", 30, 1)]));
        assert_eq!(counted.counts.total, None);
        assert_eq!(
            counted.unknown,
            ["n2: its counter or server restarted in between"]
        );
        // a node that never answered must not count as one without operations
        let mut never = from();
        for reading in [&mut never.idle, &mut never.before] {
            reading.at.sources.remove("n2");
            reading.unread.insert("n2".into(), "no answer".into());
        }
        let mut after = reading(&[("n1", 17, 0)]);
        after.unread.insert("n2".into(), "no answer".into());
        assert_eq!(count(&never, &after).unknown, ["n2: no answer"]);
    }
}
