//! A log: opened, and read from its beginning to its end.

use super::{
    counters, dxt,
    header::{DarshanCompression, DarshanHeader, DarshanModuleInfo, Extent, MAX_HEADER_BYTES},
    heatmap,
    job::{DarshanJob, JOB_BYTES},
    layout::Layout,
    lustre,
    module::DarshanModule,
    name_table,
    records::{Failure, Outcome, Records, tell},
    region::{Buffers, End, Region},
    visitor::DarshanVisitor,
};
use crate::sink::TraceError;
use flate2::read::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// A log of Darshan 3.
///
/// However long it is, and whatever it claims, reading takes less than 8 MiB of memory.
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
    /// The system cannot read it, or it is no log of Darshan 3 with a header.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let source = File::open(path).map_err(|error| TraceError::Read {
            path: path.to_owned(),
            error,
        })?;
        Self::from_source(source, path)
    }
}

impl<R: Read + Seek> DarshanLog<R> {
    /// Takes a log from anywhere and reads its header. `path` is for messages.
    ///
    /// # Errors
    /// As of [`open`](DarshanLog::open).
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
                problem,
            })?;
        Ok(Self {
            source,
            path: path.to_owned(),
            header,
        })
    }

    /// What its header tells.
    #[must_use]
    pub fn header(&self) -> &DarshanHeader {
        &self.header
    }

    /// Hands everything that can be read to `visitor`, and tells it what is missing.
    ///
    /// # Errors
    /// The system cannot read the file any further, or the visitor cannot go on. Damage is none: it is told as missing.
    pub fn read(mut self, visitor: &mut impl DarshanVisitor) -> Result<(), TraceError> {
        self.read_regions(visitor).map_err(|failure| match failure {
            Failure::Read(error) => TraceError::Read {
                path: self.path,
                error,
            },
            Failure::Visitor(error) => TraceError::Sink(error),
        })
    }

    fn read_regions(&mut self, visitor: &mut impl DarshanVisitor) -> Outcome {
        let header = self.header.clone();
        visitor.header(&header).map_err(Failure::Visitor)?;
        if header.minor == 20 {
            let problem = "Darshan 3.2.0 wrote it, some of whose counters can be wrong";
            tell(visitor, "log", problem.to_owned())?;
        }
        if header.compression == DarshanCompression::None {
            let problem = "one process kept it up while it ran, and did not come to its end; \
                           of the other ranks it tells nothing";
            tell(visitor, "log", problem.to_owned())?;
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
        extent: Extent,
    ) -> Outcome<Region<'a, R>> {
        let compression = self.header.compression;
        Region::open(&mut self.source, buffers, compression, extent).map_err(Failure::Read)
    }

    fn records<'a>(
        &'a mut self,
        buffers: &'a mut Buffers,
        extent: Extent,
        part: String,
    ) -> Outcome<Records<'a, R>> {
        let order = self.header.order;
        Ok(Records::new(self.region(buffers, extent)?, order, part))
    }

    fn read_job(&mut self, buffers: &mut Buffers, visitor: &mut impl DarshanVisitor) -> Outcome {
        let (minor, order, extent) = (self.header.minor, self.header.order, self.header.job);
        let mut region = self.region(buffers, extent)?;
        let bytes = region.peek(JOB_BYTES).map_err(Failure::Read)?;
        let there = bytes.len();
        let job = DarshanJob::parse(&bytes[..there.min(JOB_BYTES)], minor, order);
        let problem = match region.end() {
            None | Some(End::Whole) => None,
            Some(End::CutOff(_)) => Some("the file ends within it; was it copied completely?"),
            Some(End::Unfinished | End::Damaged(_)) => Some("it cannot be inflated to its end"),
        };
        if let Some(job) = &job {
            visitor.job(job).map_err(Failure::Visitor)?;
        }
        match (problem, job) {
            (Some(problem), _) => tell(visitor, "job", problem.to_owned()),
            (None, None) => tell(visitor, "job", format!("it has only {there} bytes")),
            (None, Some(_)) => Ok(()),
        }
    }

    fn read_module(
        &mut self,
        buffers: &mut Buffers,
        info: &DarshanModuleInfo,
        visitor: &mut impl DarshanVisitor,
    ) -> Outcome {
        let (module, version, part) = (info.module, info.version, info.module.part());
        if info.partial {
            let problem = "Darshan ran out of memory for records during the run; hint: MODMEM of Darshan gives more";
            tell(visitor, &part, problem.to_owned())?;
        }
        if info.bytes == 0 {
            return Ok(());
        }
        let extent = Extent {
            offset: info.offset,
            bytes: info.bytes,
        };
        let records = self.records(buffers, extent, part.clone())?;
        if let Some(layout) = Layout::of(module) {
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
                tell(visitor, &part, problem)
            }
        }
    }
}

fn unknown_version(visitor: &mut impl DarshanVisitor, part: &str, version: u32) -> Outcome {
    let problem = format!("version {version} of its records is unknown");
    tell(visitor, part, problem)
}

/// The first bytes of a file, enough for a header, and its length.
fn first_bytes(source: &mut (impl Read + Seek)) -> io::Result<(Vec<u8>, u64)> {
    let file_bytes = source.seek(SeekFrom::End(0))?;
    source.rewind()?;
    let mut bytes = Vec::new();
    source
        .take(MAX_HEADER_BYTES as u64)
        .read_to_end(&mut bytes)?;
    Ok((bytes, file_bytes))
}

/// The version in a log of Darshan 1 or 2, which is one gzip or bzip2 stream that begins with it. `None`: it is no such log.
pub(crate) fn version_2(bytes: &[u8]) -> Option<String> {
    let mut first = Vec::new();
    // the first bytes are enough, so that a stream that is cut off within them is no error
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
