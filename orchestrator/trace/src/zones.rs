//! Time per zone of memory: maps the writes of a checkpoint's images to the areas in the images.

use crate::{Api, Event, FileId, Missing, Op, Overlay, PartTime, Process, ProcessId, Sink};
use cvc_image::{ImageError, Part, ReadOptions, read_image_with};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    ops::Range,
    path::Path,
};

/// Length of the header before the data of each area, bytes.
const HEADER_BYTES: u64 = 4096;

/// Index of the part for bytes outside areas: the file header and the end marker. The next constant is the index for area headers.
const FIXED: usize = 0;
const HEADERS: usize = 1;

/// Number of parts: the parts of the owner rules, `FIXED` and `HEADERS`.
const PARTS: usize = 2 + Part::ALL.len();

/// Operations and time of a zone, or a part of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneTime {
    /// Zone by the owner rules (DTAPP, LB, SHMEM, REST), or HEADERS for area headers, or FILE for the file header and the end marker.
    pub zone: String,
    /// Part of the zone.
    pub part: &'static str,
    /// Number of writes that contain bytes of the part.
    pub writes: u64,
    /// Bytes of the part.
    pub bytes: u64,
    /// Time within writes, summed over images, seconds.
    pub time_s: f64,
    /// Time within writes and between them, summed over images, seconds.
    pub elapsed_s: f64,
    /// Bytes divided by the time within writes, MiB/s.
    pub bandwidth_mib_s: Option<f64>,
    /// Fit of write time against size, for writes that contain only bytes of this part.
    pub line: Option<ZoneLine>,
}

/// A linear fit of time against size by least squares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneLine {
    /// Time of a write of 0 bytes, seconds.
    pub per_write_s: f64,
    /// Time per MiB, seconds.
    pub per_mib_s: f64,
    /// Pearson's correlation coefficient of size and time.
    pub correlation: f64,
}

/// The zones of the images of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneTimes {
    /// Number of images whose writes were found.
    pub images: usize,
    /// Names of images without a write in the trace.
    pub without_writes: Vec<String>,
    /// Times by zone and part.
    pub zones: Vec<ZoneTime>,
    /// Maximum over images of the time from the start of the first write to the end of the last, seconds.
    pub longest_s: f64,
    /// Time from the first write of any image to the end of the last write of all images, seconds.
    pub storage_s: f64,
}

/// A sink that attributes the writes of images to the parts of the images.
#[derive(Debug)]
pub struct ZoneSink {
    /// The parts of each image, by file name without directory.
    images: BTreeMap<String, Overlay>,
    files: HashMap<FileId, String>,
    /// For each image, the start of its first write and the end of its last one.
    times: HashMap<String, (u64, u64)>,
}

impl ZoneSink {
    /// Reads the images whose writes are to be found in the trace. Also returns the names of gzip-compressed images, which are left out, because
    /// their writes do not show zones.
    ///
    /// # Errors
    /// An image cannot be read.
    pub fn of(images: &[&Path]) -> Result<(Self, Vec<String>), ImageError> {
        let (mut known, mut refused) = (BTreeMap::new(), Vec::new());
        for path in images {
            let image = read_image_with(path, ReadOptions { areas: true })?;
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if image.gzip {
                refused.push(name);
                continue;
            }
            let mut places: Vec<(Range<u64>, usize)> = Vec::new();
            for area in &image.areas {
                let data = area.file_offset + HEADER_BYTES;
                places.push((area.file_offset..data, HEADERS));
                let at = image.regions.partition_point(|r| r.end <= area.start);
                let part = image
                    .regions
                    .get(at)
                    .filter(|region| region.start <= area.start)
                    .map_or(FIXED, |region| 2 + region.part as usize);
                places.push((data..data + area.data_bytes, part));
            }
            // the rest is the file header and the end marker
            let mut end = 0;
            let mut rest = Vec::new();
            for (range, _) in &places {
                rest.push((end..range.start.max(end), FIXED));
                end = end.max(range.end);
            }
            rest.push((end..image.file_bytes.max(end), FIXED));
            places.extend(rest);
            known.insert(name, Overlay::new(places, PARTS));
        }
        let sink = Self {
            images: known,
            files: HashMap::new(),
            times: HashMap::new(),
        };
        Ok((sink, refused))
    }

    /// Returns the time of each zone.
    pub fn finish(self) -> ZoneTimes {
        let mut sums = vec![PartTime::default(); PARTS];
        let mut without_writes = Vec::new();
        for (name, overlay) in &self.images {
            if !self.times.contains_key(name) {
                without_writes.push(name.clone());
            }
            for (sum, part) in sums.iter_mut().zip(overlay.taken()) {
                sum.add(part);
            }
            sums[FIXED].add(overlay.outside());
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        let starts = self.times.values().map(|t| t.0).min();
        let ends = self.times.values().map(|t| t.1).max();
        ZoneTimes {
            images: self.times.len(),
            without_writes,
            zones: sums
                .iter()
                .enumerate()
                .filter(|(_, sum)| sum.bytes > 0)
                .map(|(part, sum)| shown(part, sum))
                .collect(),
            longest_s: self
                .times
                .values()
                .map(|(start, end)| seconds(end - start))
                .fold(0.0, f64::max),
            storage_s: starts.zip(ends).map_or(0.0, |(s, e)| seconds(e - s)),
        }
    }
}

fn shown(part: usize, of: &PartTime) -> ZoneTime {
    let (zone, part) = match part {
        FIXED => ("FILE".to_owned(), "head and end"),
        HEADERS => ("HEADERS".to_owned(), "area headers"),
        other => {
            let part = Part::ALL[other - 2];
            (part.zone().as_str().to_owned(), part.as_str())
        }
    };
    ZoneTime {
        zone,
        part,
        writes: of.operations,
        bytes: of.bytes,
        time_s: of.time_s,
        elapsed_s: of.elapsed_s,
        bandwidth_mib_s: (of.time_s > 0.0).then(|| of.bytes as f64 / 1_048_576.0 / of.time_s),
        line: of
            .whole
            .line()
            .map(|(per_write_s, per_mib_s, correlation)| ZoneLine {
                per_write_s,
                per_mib_s,
                correlation,
            }),
    }
}

impl Sink for ZoneSink {
    fn process(&mut self, _: ProcessId, _: &Process) -> io::Result<()> {
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let path = String::from_utf8_lossy(path);
        let name = path.rsplit('/').next().unwrap_or(&path);
        // DMTCP writes to a temporary name and renames the images when all are complete
        let name = name.strip_suffix(".temp").unwrap_or(name);
        if self.images.contains_key(name) {
            self.files.insert(id, name.to_owned());
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.op != Op::Write || event.api != Api::Posix {
            return Ok(());
        }
        let Some(name) = self.files.get(&event.file) else {
            return Ok(());
        };
        if let Some(overlay) = self.images.get_mut(name) {
            overlay.add(event);
            let of = (event.start_ns, event.end_ns());
            let known = self.times.entry(name.clone()).or_insert(of);
            *known = (known.0.min(of.0), known.1.max(of.1));
        }
        Ok(())
    }

    fn missing(&mut self, _: &Missing) -> io::Result<()> {
        Ok(())
    }
}
