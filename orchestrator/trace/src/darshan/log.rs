//! Opens a log and reads it from beginning to end.

use super::{
    counters, dxt,
    header::{
        DarshanCompression, DarshanHeader, DarshanModuleInfo, MAX_HEADER_BYTES, RegionExtent,
    },
    heatmap,
    job::{DarshanJob, JOB_BYTES},
    layout::RecordLayout,
    lustre,
    module::DarshanModule,
    name_table,
    records::{ReadResult, RecordFailure, RecordReader, report},
    region::{Buffers, LogRegion, RegionEnd},
    visitor::DarshanVisitor,
};
use crate::sink::TraceError;
use flate2::read::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// A log of Darshan 3. Reading takes less than 8 MiB of memory, independent of the length of the log and of the sizes that it claims.
#[derive(Debug)]
pub struct DarshanLog<R = File> {
    source: R,
    path: PathBuf,
    header: DarshanHeader,
}

impl DarshanLog {
    /// Opens a log and reads its header.
    ///
    /// # Errors
    /// The system cannot read the file, or it is not a log of Darshan 3 with a header.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let source = File::open(path).map_err(|error| TraceError::Read {
            path: path.to_owned(),
            error,
        })?;
        Self::from_source(source, path)
    }
}

impl<R: Read + Seek> DarshanLog<R> {
    /// Reads the header of a log from any source. `path` is used in messages.
    ///
    /// # Errors
    /// The same as for [`open`](DarshanLog::open).
    pub fn from_source(mut source: R, path: &Path) -> Result<Self, TraceError> {
        let (bytes, file_bytes) = first_bytes(&mut source).map_err(|error| TraceError::Read {
            path: path.to_owned(),
            error,
        })?;
        if let Some(version) = version_2(&bytes) {
            return Err(TraceError::NotATrace {
                path: path.to_owned(),
                kind: "Darshan log that cvc can read",
                problem: format!(
                    "Darshan {version} wrote it; logs of versions before 3.0 have another form. \
                     The tools of Darshan 2.3 read them: `darshan-parser FILE`"
                ),
            });
        }
        let header =
            DarshanHeader::parse(&bytes, file_bytes).map_err(|problem| TraceError::NotATrace {
                path: path.to_owned(),
                kind: "Darshan log that cvc can read",
                problem: problem.to_string(),
            })?;
        Ok(Self {
            source,
            path: path.to_owned(),
            header,
        })
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> &DarshanHeader {
        &self.header
    }

    /// Passes everything that can be read to `visitor`, and reports missing parts to it.
    ///
    /// # Errors
    /// The system cannot read the rest of the file, or the visitor fails. Damage is not an error: it is reported as missing parts.
    pub fn read(mut self, visitor: &mut impl DarshanVisitor) -> Result<(), TraceError> {
        self.read_regions(visitor).map_err(|failure| match failure {
            RecordFailure::Read(error) => TraceError::Read {
                path: self.path,
                error,
            },
            RecordFailure::Visitor(error) => TraceError::Sink(error),
        })
    }

    fn read_regions(&mut self, visitor: &mut impl DarshanVisitor) -> ReadResult {
        let header = self.header.clone();
        visitor.header(&header).map_err(RecordFailure::Visitor)?;
        if header.minor == 20 {
            let problem = "Darshan 3.2.0 wrote it; some counters of that version can be wrong";
            report(visitor, "log", problem.to_owned())?;
        }
        if header.compression == DarshanCompression::None {
            let problem = "one process kept it up to date while it ran, and did not end normally; it has nothing about the other ranks";
            report(visitor, "log", problem.to_owned())?;
        }
        let mut buffers = Buffers::default();
        self.read_job(&mut buffers, visitor)?;
        if header.names.bytes > 0 {
            let names = self.records(&mut buffers, header.names, "table of names".to_owned())?;
            if header.minor == 0 {
                name_table::read_with_lengths(names, visitor)?;
            } else {
                name_table::read(names, visitor)?;
            }
        }
        for info in &header.modules {
            if visitor.wants(info.module) {
                self.read_module(&mut buffers, info, visitor)?;
            }
        }
        Ok(())
    }

    fn region<'a>(
        &'a mut self,
        buffers: &'a mut Buffers,
        extent: RegionExtent,
    ) -> ReadResult<LogRegion<'a, R>> {
        let compression = self.header.compression;
        LogRegion::open(&mut self.source, buffers, compression, extent).map_err(RecordFailure::Read)
    }

    fn records<'a>(
        &'a mut self,
        buffers: &'a mut Buffers,
        extent: RegionExtent,
        part: String,
    ) -> ReadResult<RecordReader<'a, R>> {
        let order = self.header.order;
        Ok(RecordReader::new(
            self.region(buffers, extent)?,
            order,
            part,
        ))
    }

    fn read_job(&mut self, buffers: &mut Buffers, visitor: &mut impl DarshanVisitor) -> ReadResult {
        let (minor, order, extent) = (self.header.minor, self.header.order, self.header.job);
        let mut region = self.region(buffers, extent)?;
        let bytes = region.peek(JOB_BYTES).map_err(RecordFailure::Read)?;
        let there = bytes.len();
        let job = DarshanJob::parse(&bytes[..there.min(JOB_BYTES)], minor, order);
        let problem = match region.end() {
            None | Some(RegionEnd::Whole) => None,
            Some(RegionEnd::CutOff(_)) => {
                Some("the file ends within it; was it copied completely?")
            }
            Some(RegionEnd::Unfinished | RegionEnd::Damaged(_)) => {
                Some("it cannot be inflated to its end")
            }
        };
        if let Some(job) = &job {
            visitor.job(job).map_err(RecordFailure::Visitor)?;
        }
        match (problem, job) {
            (Some(problem), _) => report(visitor, "job", problem.to_owned()),
            (None, None) => report(visitor, "job", format!("it has only {there} bytes")),
            (None, Some(_)) => Ok(()),
        }
    }

    fn read_module(
        &mut self,
        buffers: &mut Buffers,
        info: &DarshanModuleInfo,
        visitor: &mut impl DarshanVisitor,
    ) -> ReadResult {
        let (module, version, part) = (info.module, info.version, info.module.part());
        if info.partial {
            let problem = "Darshan ran out of memory for records during the run; hint: MODMEM of Darshan gives more";
            report(visitor, &part, problem.to_owned())?;
        }
        if info.bytes == 0 {
            return Ok(());
        }
        let extent = RegionExtent {
            offset: info.offset,
            bytes: info.bytes,
        };
        let records = self.records(buffers, extent, part.clone())?;
        if let Some(layout) = RecordLayout::of(module) {
            let Some(words) = layout.words_of(version) else {
                return unknown_version(visitor, &part, version);
            };
            return counters::read(records, layout, version as usize, words, visitor);
        }
        match (module, version) {
            (DarshanModule::DxtPosix | DarshanModule::DxtMpiIo, _) => {
                match dxt::Segments::of(module, version) {
                    Some(segments) => dxt::read(records, module, segments, visitor),
                    None => unknown_version(visitor, &part, version),
                }
            }
            (DarshanModule::Heatmap, 1) => heatmap::read(records, visitor),
            (DarshanModule::Lustre, 1) => lustre::read_v1(records, visitor),
            (DarshanModule::Lustre, 2) => lustre::read(records, visitor),
            (DarshanModule::Heatmap | DarshanModule::Lustre, _) => {
                unknown_version(visitor, &part, version)
            }
            _ => {
                let bytes = info.bytes;
                let problem =
                    format!("cvc does not read it; it has {bytes} bytes (compressed) in the log");
                report(visitor, &part, problem)
            }
        }
    }
}

fn unknown_version(visitor: &mut impl DarshanVisitor, part: &str, version: u32) -> ReadResult {
    let problem = format!("version {version} of its records is unknown");
    report(visitor, part, problem)
}

/// Returns the first bytes of a file, enough for a header, and the length of the file.
fn first_bytes(source: &mut (impl Read + Seek)) -> io::Result<(Vec<u8>, u64)> {
    let file_bytes = source.seek(SeekFrom::End(0))?;
    source.rewind()?;
    let mut bytes = Vec::new();
    source
        .take(MAX_HEADER_BYTES as u64)
        .read_to_end(&mut bytes)?;
    Ok((bytes, file_bytes))
}

/// Returns the version of a log of Darshan 1 or 2, which is one gzip or bzip2 stream that begins with the version. `None`: it is not such a log.
pub(crate) fn version_2(bytes: &[u8]) -> Option<String> {
    let mut first = Vec::new();
    // the first bytes are sufficient, so a truncated stream is not an error
    let _ = if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(bytes).take(8).read_to_end(&mut first)
    } else if bytes.starts_with(b"BZh") {
        bzip2::read::BzDecoder::new(bytes)
            .take(8)
            .read_to_end(&mut first)
    } else {
        first.extend(bytes.iter().take(8));
        Ok(0)
    };
    let text = first.split(|&byte| byte == 0).next()?;
    let text = std::str::from_utf8(text).ok()?;
    let (major, minor) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (matches!(major, "1" | "2") && digits(minor)).then(|| text.to_owned())
}
