//! Writes every record of counters as a line of CSV while a log is read: memory use does not depend on the size of the log.

use super::csv_events::field;
use crate::{DarshanSums, RankTime, RecordSums, profile::SizeBins};
use std::{
    fmt::Display,
    io::{self, Write},
};

/// The first columns. Times are in seconds: sums over all operations of the record, or (`first_s`, `last_s`) times since the start of the job. Values
/// that a module does not count are empty.
const HEADER: &str = "module,rank,partial,opens,reads,writes,read_bytes,written_bytes,read_s,write_s,meta_s,first_s,last_s,\
    sequential_reads,sequential_writes,consecutive_reads,consecutive_writes,memory_not_aligned,file_not_aligned,file_alignment,\
    slowest_rank,slowest_bytes,slowest_s,fastest_rank,fastest_bytes,fastest_s";
/// Counters that are copied unchanged, in the order of their columns.
const COUNTERS: [&str; 7] = [
    "SEQ_READS",
    "SEQ_WRITES",
    "CONSEC_READS",
    "CONSEC_WRITES",
    "MEM_NOT_ALIGNED",
    "FILE_NOT_ALIGNED",
    "FILE_ALIGNMENT",
];
/// Number of common sizes, and of common strides, in a line.
const COMMON: usize = 4;

/// Writes records as CSV.
#[derive(Debug)]
pub struct CsvRecords<W> {
    to: W,
}

impl<W: Write> CsvRecords<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Writing fails.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(HEADER.as_bytes())?;
        for kind in ["reads", "writes"] {
            for (bin, _) in SizeBins::default().iter() {
                write!(to, ",{kind}_{bin}")?;
            }
        }
        for what in ["size", "stride"] {
            for n in 1..=COMMON {
                write!(to, ",common_{what}_{n},common_{what}_{n}_count")?;
            }
        }
        to.write_all(b",file\n")?;
        Ok(Self { to })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Writing fails.
    pub fn add(&mut self, of: &RecordSums<'_>) -> io::Result<()> {
        let (to, sums) = (&mut self.to, of.sums);
        let rank = of
            .rank
            .map_or_else(|| "all".to_owned(), |rank| rank.to_string());
        write!(to, "{},{rank},{}", sums.module.name(), of.partial)?;
        let moved = [
            sums.opens(),
            sums.reads(),
            sums.writes(),
            sums.read_bytes(),
            sums.written_bytes(),
        ];
        each(to, moved)?;
        let span = sums.span_s();
        let times = [
            sums.read_s(),
            sums.write_s(),
            sums.meta_s(),
            span.map(|s| s.0),
            span.map(|s| s.1),
        ];
        each(to, times)?;
        each(to, COUNTERS.map(|name| sums.int(name)))?;
        // in a record of a single rank, the slowest and the fastest rank would be that rank
        for rank in [sums.slowest, sums.fastest].map(|of| of.filter(|_| sums.is_shared)) {
            self::rank(to, rank)?;
        }
        for bins in [sums.read_sizes(), sums.write_sizes()] {
            let mut counts = [None; 10];
            if let Some(bins) = &bins {
                counts
                    .iter_mut()
                    .zip(bins.iter())
                    .for_each(|(to, (_, n))| *to = Some(n));
            }
            each(to, counts)?;
        }
        common(to, sums)?;
        writeln!(to, ",{}", field(&of.title()))
    }

    /// Flushes the buffer and returns the writer.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

fn each<T: Display>(
    to: &mut impl Write,
    values: impl IntoIterator<Item = Option<T>>,
) -> io::Result<()> {
    values.into_iter().try_for_each(|value| match value {
        Some(value) => write!(to, ",{value}"),
        None => to.write_all(b","),
    })
}

fn rank(to: &mut impl Write, of: Option<RankTime>) -> io::Result<()> {
    each(to, [of.map(|of| of.rank)])?;
    each(to, [of.map(|of| of.bytes)])?;
    each(to, [of.map(|of| of.time_s)])
}

fn common(to: &mut impl Write, sums: &DarshanSums) -> io::Result<()> {
    for of in [&sums.sizes, &sums.strides] {
        let top = of.top(COMMON);
        for n in 0..COMMON {
            each(to, [top.get(n).map(|of| of.0)])?;
            each(to, [top.get(n).map(|of| of.1)])?;
        }
    }
    Ok(())
}
