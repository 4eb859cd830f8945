//! What a log is made of, and what takes it.

use super::{header::DarshanHeader, job::DarshanJob, module::DarshanModule};
use crate::{event::Op, sink::Missing};
use std::io;

/// The number of a record: a hash of its name, which the table of names tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DarshanRecordId(pub u64);

/// The counters of a file (or data set, or variable) and a rank.
#[derive(Clone, Copy, Debug)]
pub struct DarshanCounters<'a> {
    /// Which module counted.
    pub module: DarshanModule,
    /// For which file.
    pub id: DarshanRecordId,
    /// For which rank; -1 for all together.
    pub rank: i64,
    /// The file of a data set of HDF5 or a variable of PnetCDF; 0 where the log does not tell.
    pub file: Option<DarshanRecordId>,
    pub(super) int_names: &'static [&'static str],
    pub(super) ints: &'a [i64],
    pub(super) float_names: &'static [&'static str],
    pub(super) floats: &'a [f64],
}

impl DarshanCounters<'_> {
    /// The counters that are whole numbers, with their names, in the order of the newest version of the record. What the version of the log does not
    /// have is -1 (`POSIX_RENAMED_FROM`: 0).
    pub fn ints(&self) -> impl ExactSizeIterator<Item = (&'static str, i64)> {
        self.int_names
            .iter()
            .copied()
            .zip(self.ints.iter().copied())
    }

    /// The counters that are seconds or variances, with their names. What the version of the log does not have is -1.
    pub fn floats(&self) -> impl ExactSizeIterator<Item = (&'static str, f64)> {
        self.float_names
            .iter()
            .copied()
            .zip(self.floats.iter().copied())
    }

    /// The whole number of this name.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        let place = self.int_names.iter().position(|&known| known == name)?;
        self.ints.get(place).copied()
    }

    /// The seconds or the variance of this name.
    #[must_use]
    pub fn float(&self, name: &str) -> Option<f64> {
        let place = self.float_names.iter().position(|&known| known == name)?;
        self.floats.get(place).copied()
    }
}

/// The reads and writes of a rank on a file: what stands before its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DxtRecord {
    /// [`DxtPosix`](DarshanModule::DxtPosix) or [`DxtMpiIo`](DarshanModule::DxtMpiIo).
    pub module: DarshanModule,
    /// On which file.
    pub id: DarshanRecordId,
    /// Of which rank.
    pub rank: i64,
    /// On which node.
    pub host: Vec<u8>,
    /// How many writes the record claims, which come first.
    pub writes: u64,
    /// How many reads the record claims.
    pub reads: u64,
}

/// A read or write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DxtSegment {
    /// [`Op::Write`] or [`Op::Read`].
    pub op: Op,
    /// Its place among the writes or the reads of the record.
    pub index: u64,
    /// Where in the file, in bytes; -1 where the log does not tell.
    pub offset: i64,
    /// How many bytes.
    pub length: i64,
    /// When it began, in seconds since the job's start.
    pub start_s: f64,
    /// When it ended, in seconds since the job's start.
    pub end_s: f64,
    /// The number of its thread (`pthread_self`), where the log tells.
    pub thread: Option<u64>,
}

/// The bytes of a rank over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DarshanHeatmap {
    /// Through which interface: its name is `heatmap:` and that of a module.
    pub id: DarshanRecordId,
    /// Of which rank.
    pub rank: i64,
    /// How much time a bin stands for, in seconds.
    pub bin_width_s: f64,
    /// How many bins there are for writes, and as many for reads. One off from the first record is taken for it, as Darshan does, since its
    /// versions 3.4.0 to 3.4.3 can be off by one.
    pub bins: u64,
}

/// The layout of a file on Lustre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DarshanLustre {
    /// Of which file.
    pub id: DarshanRecordId,
    /// Which rank asked.
    pub rank: i64,
}

/// A component of such a layout: a part of the file with stripes of its own. What the version of the log does not have is -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DarshanLustreComponent {
    /// Bytes of a stripe.
    pub stripe_size: i64,
    /// How many stripes.
    pub stripe_count: i64,
    /// `LOV_PATTERN_*` of Lustre.
    pub stripe_pattern: i64,
    /// `LCME_FL_*` of Lustre.
    pub flags: i64,
    /// Where in the file it begins, in bytes.
    pub extent_start: i64,
    /// Where it ends; -1 for the end of the file.
    pub extent_end: i64,
    /// Its mirror.
    pub mirror_id: i64,
    /// Its pool of storage targets; empty for none.
    pub pool: Vec<u8>,
}

/// Takes what a log has, in its order: header, job, names, and the records of one module after the other. A method that is not there leaves its part out.
///
/// Errors end the reading and come back as [`TraceError::Sink`](crate::TraceError::Sink).
#[expect(
    unused_variables,
    clippy::missing_errors_doc,
    reason = "what is left out needs nothing; the errors of all are told above"
)]
pub trait DarshanVisitor {
    /// Whether it wants the records of a module. Others are not even inflated.
    fn wants(&mut self, module: DarshanModule) -> bool {
        true
    }

    /// The header.
    fn header(&mut self, header: &DarshanHeader) -> io::Result<()> {
        Ok(())
    }

    /// The job.
    fn job(&mut self, job: &DarshanJob) -> io::Result<()> {
        Ok(())
    }

    /// The name of a record: mostly a path. Of two with one number the first holds, unless it is empty.
    fn name(&mut self, id: DarshanRecordId, name: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// A record of counters.
    fn counters(&mut self, counters: &DarshanCounters<'_>) -> io::Result<()> {
        Ok(())
    }

    /// A record of DXT. Its segments follow.
    fn dxt_record(&mut self, record: &DxtRecord) -> io::Result<()> {
        Ok(())
    }

    /// A segment of the last record of DXT.
    fn dxt_segment(&mut self, record: &DxtRecord, segment: &DxtSegment) -> io::Result<()> {
        Ok(())
    }

    /// A record of bytes over time. Its bins follow.
    fn heatmap_record(&mut self, heatmap: &DarshanHeatmap) -> io::Result<()> {
        Ok(())
    }

    /// A bin of the last record: so many bytes written ([`Op::Write`]) or read ([`Op::Read`]).
    fn heatmap_bin(
        &mut self,
        heatmap: &DarshanHeatmap,
        op: Op,
        index: u64,
        bytes: i64,
    ) -> io::Result<()> {
        Ok(())
    }

    /// A file on Lustre. Its components follow.
    fn lustre_record(&mut self, file: &DarshanLustre) -> io::Result<()> {
        Ok(())
    }

    /// A component of the last file on Lustre.
    fn lustre_component(
        &mut self,
        file: &DarshanLustre,
        component: &DarshanLustreComponent,
    ) -> io::Result<()> {
        Ok(())
    }

    /// The number of the storage target of the next stripe, through all components.
    fn lustre_target(&mut self, file: &DarshanLustre, target: i64) -> io::Result<()> {
        Ok(())
    }

    /// Something that the log should have and has not, or that this reader cannot show.
    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        Ok(())
    }
}
