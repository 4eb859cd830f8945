//! The parts of a log, and the visitor that receives them.

use super::{header::DarshanHeader, job::DarshanJob, module::DarshanModule};
use crate::{event::Op, sink::Missing};
use std::io;

/// ID of a record: a hash of its name. The table of names maps it to the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DarshanRecordId(pub u64);

/// The counters of one file (or data set, or variable) and rank.
#[derive(Clone, Copy, Debug)]
pub struct DarshanCounters<'a> {
    /// The module.
    pub module: DarshanModule,
    /// Record ID of the file.
    pub id: DarshanRecordId,
    /// The rank; -1 for all ranks together.
    pub rank: i64,
    /// The file that contains an HDF5 data set or PnetCDF variable; 0 if the log does not record it.
    pub file: Option<DarshanRecordId>,
    pub(super) int_names: &'static [&'static str],
    pub(super) ints: &'a [i64],
    pub(super) float_names: &'static [&'static str],
    pub(super) floats: &'a [f64],
}

impl DarshanCounters<'_> {
    /// Returns the integer counters with their names, in the order of the newest record version. Counters that the log's version lacks are -1
    /// (`POSIX_RENAMED_FROM`: 0).
    pub fn ints(&self) -> impl ExactSizeIterator<Item = (&'static str, i64)> {
        self.int_names
            .iter()
            .copied()
            .zip(self.ints.iter().copied())
    }

    /// Returns the floating-point counters (seconds or variances) with their names. Counters that the log's version lacks are -1.
    pub fn floats(&self) -> impl ExactSizeIterator<Item = (&'static str, f64)> {
        self.float_names
            .iter()
            .copied()
            .zip(self.floats.iter().copied())
    }

    /// Returns the integer counter with this name.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        let place = self.int_names.iter().position(|&known| known == name)?;
        self.ints.get(place).copied()
    }

    /// Returns the floating-point counter with this name.
    #[must_use]
    pub fn float(&self, name: &str) -> Option<f64> {
        let place = self.float_names.iter().position(|&known| known == name)?;
        self.floats.get(place).copied()
    }
}

/// The head of a DXT record, which has the reads and writes of a rank on a file as segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DxtRecord {
    /// [`DxtPosix`](DarshanModule::DxtPosix) or [`DxtMpiIo`](DarshanModule::DxtMpiIo).
    pub module: DarshanModule,
    /// Record ID of the file.
    pub id: DarshanRecordId,
    /// The rank.
    pub rank: i64,
    /// Name of the node.
    pub host: Vec<u8>,
    /// Number of writes according to the record; their segments come first.
    pub writes: u64,
    /// Number of reads according to the record.
    pub reads: u64,
}

/// A read or write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DxtSegment {
    /// [`Op::Write`] or [`Op::Read`].
    pub op: Op,
    /// Index among the writes or the reads of the record.
    pub index: u64,
    /// Offset in the file, bytes; -1 if the log does not record it.
    pub offset: i64,
    /// Number of bytes.
    pub length: i64,
    /// Start, seconds since the start of the job.
    pub start_s: f64,
    /// End, seconds since the start of the job.
    pub end_s: f64,
    /// The thread (`pthread_self`), if the log records it.
    pub thread: Option<u64>,
}

/// The head of a heat map: bytes moved by a rank over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DarshanHeatmap {
    /// Record ID of the interface; its name is `heatmap:` followed by the module.
    pub id: DarshanRecordId,
    /// The rank.
    pub rank: i64,
    /// Width of a bin, seconds.
    pub bin_width_s: f64,
    /// Number of bins for writes; there are as many for reads. Darshan 3.4.0 to 3.4.3 may write a number that is off by one. The number in the first
    /// record is then used, as by Darshan's own tools.
    pub bins: u64,
}

/// The striping of a file on Lustre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DarshanLustre {
    /// Record ID of the file.
    pub id: DarshanRecordId,
    /// The rank that queried the striping.
    pub rank: i64,
}

/// A component of a file's layout: a part of the file with its own striping. Values that the log's version lacks are -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanLustreComponent {
    /// Stripe size, bytes.
    pub stripe_size: i64,
    /// Stripe count.
    pub stripe_count: i64,
    /// `LOV_PATTERN_*` value of Lustre.
    pub stripe_pattern: i64,
    /// `LCME_FL_*` flags of Lustre.
    pub flags: i64,
    /// Start of the component in the file, bytes.
    pub extent_start: i64,
    /// End of the component in the file, bytes; -1 for the end of the file.
    pub extent_end: i64,
    /// ID of its mirror.
    pub mirror_id: i64,
    /// Pool of storage targets; empty if none.
    pub pool: Vec<u8>,
}

/// Receives the parts of a log in order: header, job, names, and then the records of one module after another. Methods have default implementations
/// that ignore their part. An error ends the reading and is returned as [`TraceError::Sink`](crate::TraceError::Sink).
#[expect(
    unused_variables,
    clippy::missing_errors_doc,
    reason = "unused parts need nothing; the errors of all methods are documented above"
)]
pub trait DarshanVisitor {
    /// Returns whether the visitor needs the records of a module. Other modules are not even decompressed.
    fn wants(&mut self, module: DarshanModule) -> bool {
        true
    }

    /// Receives the header.
    fn header(&mut self, header: &DarshanHeader) -> io::Result<()> {
        Ok(())
    }

    /// Receives the job.
    fn job(&mut self, job: &DarshanJob) -> io::Result<()> {
        Ok(())
    }

    /// Receives the name of a record, usually a path. If an ID has several names, the first one applies, unless it is empty.
    fn name(&mut self, id: DarshanRecordId, name: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Receives a record of counters.
    fn counters(&mut self, counters: &DarshanCounters<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Receives the head of a DXT record. Its segments follow.
    fn dxt_record(&mut self, record: &DxtRecord) -> io::Result<()> {
        Ok(())
    }

    /// Receives a segment of the last DXT record.
    fn dxt_segment(&mut self, record: &DxtRecord, segment: &DxtSegment) -> io::Result<()> {
        Ok(())
    }

    /// Receives the head of a heat map. Its bins follow.
    fn heatmap_record(&mut self, heatmap: &DarshanHeatmap) -> io::Result<()> {
        Ok(())
    }

    /// Receives a bin of the last heat map: bytes written ([`Op::Write`]) or read ([`Op::Read`]).
    fn heatmap_bin(
        &mut self,
        heatmap: &DarshanHeatmap,
        op: Op,
        index: u64,
        bytes: i64,
    ) -> io::Result<()> {
        Ok(())
    }

    /// Receives a file on Lustre. Its components follow.
    fn lustre_record(&mut self, file: &DarshanLustre) -> io::Result<()> {
        Ok(())
    }

    /// Receives a component of the last file on Lustre.
    fn lustre_component(
        &mut self,
        file: &DarshanLustre,
        component: &DarshanLustreComponent,
    ) -> io::Result<()> {
        Ok(())
    }

    /// Receives the number of the storage target that has the next stripe of a file. Stripes are in order through all components of the file.
    fn lustre_target(&mut self, file: &DarshanLustre, target: i64) -> io::Result<()> {
        Ok(())
    }

    /// Receives a part that the log should have but lacks, or that this reader does not support.
    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        Ok(())
    }
}
