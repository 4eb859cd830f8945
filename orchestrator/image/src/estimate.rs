//! Estimates the compressed size of an image, by zone of the owner rules. The compression programs compress its data, or a deterministic sample of
//! them if the image is large. Memory use does not depend on the size of the image.

use super::{
    PAGE,
    area::{self, RawArea},
    compressor::{Compressed, Compressor, Method},
    error::{ImageError, ImageErrorKind},
    gzip::GzipSource,
    model::{Image, Region},
    owner_sums::Part,
    plain::PlainSource,
    reader::{self, ImageFile, read_image},
    source::ImageSource,
};
use std::{io, path::Path};

/// Size of a block of a sample, bytes: longer than the windows in which gzip and lz4 search for repetitions, and about as long as that of zstd.
const BLOCK: u64 = 1 << 20;
/// Minimum number of bytes of a part that are compressed; smaller parts are compressed completely.
const MIN_BYTES: u64 = 8 << 20;
/// Number of streams among which the blocks of a sample are distributed. The differences between their compression ratios give the sampling error.
const STREAMS: usize = 4;
/// Number of bytes between progress reports.
const PIECE: u64 = 16 << 20;
/// Number of parts: those of the owner rules, and the headers.
const PARTS: usize = Part::ALL.len() + 1;
const HEADERS: usize = Part::ALL.len();

/// Options of an estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimateOptions {
    /// The compression methods.
    pub methods: Vec<Method>,
    /// Approximate number of bytes of an image that are compressed; `None`: all.
    pub sample_bytes: Option<u64>,
}

/// Compressed size of a part of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartEstimate {
    /// Length of the data or headers, bytes.
    pub bytes: f64,
    /// Compressed length, bytes.
    pub compressed_bytes: f64,
    /// Standard error of the compressed length due to sampling, bytes; 0 if everything was compressed.
    pub standard_error_bytes: f64,
    /// Processor time of compressing it on this machine, user and system, seconds.
    pub cpu_s: f64,
}

impl PartEstimate {
    /// Adds another part, whose sampling error is independent.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.compressed_bytes += other.compressed_bytes;
        self.standard_error_bytes = self.standard_error_bytes.hypot(other.standard_error_bytes);
        self.cpu_s += other.cpu_s;
    }

    fn share(&self, share: f64) -> Self {
        Self {
            bytes: self.bytes * share,
            compressed_bytes: self.compressed_bytes * share,
            standard_error_bytes: self.standard_error_bytes * share,
            cpu_s: self.cpu_s * share,
        }
    }
}

/// Compressed size of an image with one method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MethodEstimate {
    /// The compression method.
    pub method: Method,
    parts: [PartEstimate; PARTS],
}

impl MethodEstimate {
    /// Returns the estimate for a part of the owner rules, without headers.
    #[must_use]
    pub fn part(&self, part: Part) -> PartEstimate {
        self.parts[part as usize]
    }

    /// Returns the estimate for the file header and all area headers.
    #[must_use]
    pub fn headers(&self) -> PartEstimate {
        self.parts[HEADERS]
    }

    /// Returns the estimate for the whole image.
    #[must_use]
    pub fn total(&self) -> PartEstimate {
        let mut total = PartEstimate::default();
        self.parts.iter().for_each(|part| total.add(part));
        total
    }

    /// Adds the estimate of another image with the same method.
    pub fn add(&mut self, other: &Self) {
        self.parts
            .iter_mut()
            .zip(&other.parts)
            .for_each(|(mine, other)| mine.add(other));
    }
}

/// Compressed size of an image.
#[derive(Clone, Debug)]
pub struct ImageEstimate {
    /// The image, as it was read.
    pub image: Image,
    /// Number of bytes that were compressed, at most `uncompressed_bytes` of the image.
    pub sampled_bytes: u64,
    /// The estimates, in the order of [`EstimateOptions::methods`].
    pub methods: Vec<MethodEstimate>,
}

/// Why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum EstimateError {
    /// The image cannot be read.
    #[error("{0}")]
    Image(#[from] ImageError),
    /// A compression program is missing or failed.
    #[error("cannot compress with {}: {error}", .method.program())]
    Program {
        /// The method.
        method: Method,
        /// The problem.
        error: io::Error,
    },
}

/// Estimates the compressed size of an image. `progress` receives the number of bytes processed and the total.
///
/// # Errors
/// The image cannot be read, or a program is missing or fails.
pub fn estimate_image(
    path: &Path,
    options: &EstimateOptions,
    progress: &dyn Fn(u64, u64),
) -> Result<ImageEstimate, EstimateError> {
    let image = read_image(path)?;
    let ImageFile { file, len, gzip } = reader::open(path)?;
    let mut samples = Samples::of(&image, options, progress);
    let walked = if gzip {
        walk(&mut GzipSource::new(file), &image, &mut samples)
    } else {
        walk(&mut PlainSource::new(file, len), &image, &mut samples)
    };
    if let Some((method, error)) = samples.failed.take() {
        return Err(EstimateError::Program { method, error });
    }
    walked.map_err(|kind| ImageError {
        path: path.to_owned(),
        offset: None,
        gzip,
        kind,
    })?;
    samples.finish(image)
}

/// Reads an image whose headers are known, and passes its data to the samples.
fn walk<S: ImageSource>(
    source: &mut S,
    image: &Image,
    samples: &mut Samples<'_>,
) -> Result<(), ImageErrorKind> {
    // the file header, up to the first area header
    samples.take(source, HEADERS, image.fixed_overhead_bytes - PAGE as u64)?;
    for region in &image.regions {
        for _ in 0..region.headers {
            let page = *source.page()?.full("an area header")?;
            samples.feed_page(HEADERS, &page);
            if area::is_end_marker(&page) {
                return Err(changed());
            }
            let data = RawArea::decode(&page, image.format.area_layout)?.data_bytes;
            samples.take(source, part_of(region), data)?;
        }
    }
    samples.take(source, HEADERS, PAGE as u64)
}

fn part_of(region: &Region) -> usize {
    region.part as usize
}

/// Returns the error that the file has changed since its headers were read.
fn changed() -> ImageErrorKind {
    ImageErrorKind::Io(io::Error::other("the image was changed while it was read"))
}

/// The samples of all parts.
struct Samples<'a> {
    parts: Vec<Sample>,
    /// Length of the image, bytes.
    bytes: u64,
    progress: &'a dyn Fn(u64, u64),
    methods: Vec<Method>,
    /// The first program that failed.
    failed: Option<(Method, io::Error)>,
}

/// The sample of a part. The data of the part are concatenated and divided into blocks; one block out of every `stride` blocks is compressed.
struct Sample {
    /// Length of the part, bytes.
    bytes: u64,
    /// Number of its bytes already processed.
    at: u64,
    /// One block out of this many is compressed.
    stride: u64,
    /// The streams of each method; a program is started when its stream receives the first data.
    streams: Vec<[Option<Compressor>; STREAMS]>,
}

impl Sample {
    fn new(bytes: u64, stride: u64, methods: usize) -> Self {
        Self {
            bytes,
            at: 0,
            stride,
            streams: (0..methods).map(|_| Default::default()).collect(),
        }
    }

    /// Returns the stream that the current block belongs to (`None` if the block is not in the sample), and the number of bytes left in the block.
    fn block(&self) -> (Option<usize>, u64) {
        if self.stride == 1 {
            return (Some(0), u64::MAX);
        }
        let (block, left) = (self.at / BLOCK, BLOCK - self.at % BLOCK);
        let group = block / self.stride;
        let stream = (block % self.stride == scattered(group) % self.stride)
            .then_some((group % STREAMS as u64) as usize);
        (stream, left)
    }
}

/// Returns a pseudorandom number that depends only on `number` (the finaliser of splitmix64; Steele, Lea, Flood 2014). It selects the blocks of a
/// sample: blocks at equal distances could all have the same position in the rows of an array, and would not be a fair sample.
fn scattered(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl<'a> Samples<'a> {
    fn of(image: &Image, options: &EstimateOptions, progress: &'a dyn Fn(u64, u64)) -> Self {
        let mut bytes = [0; PARTS];
        for region in &image.regions {
            bytes[part_of(region)] += region.stored;
        }
        bytes[HEADERS] = image.fixed_overhead_bytes + image.area_headers * PAGE as u64;
        let all: u64 = bytes.iter().sum();
        let stride = |bytes: u64| match options.sample_bytes {
            Some(sample) if all > sample => {
                let wanted = (bytes as f64 * sample as f64 / all as f64) as u64;
                (bytes / wanted.max(MIN_BYTES)).max(1)
            }
            Some(_) | None => 1,
        };
        let parts = bytes
            .iter()
            .map(|bytes| Sample::new(*bytes, stride(*bytes), options.methods.len()))
            .collect();
        Self {
            parts,
            bytes: all,
            progress,
            methods: options.methods.clone(),
            failed: None,
        }
    }

    /// Passes a page that was already read to the sample of a part.
    fn feed_page(&mut self, part: usize, page: &[u8; PAGE]) {
        if let (Some(stream), _) = self.parts[part].block() {
            self.feed(part, stream, page);
        }
        self.parts[part].at += PAGE as u64;
    }

    /// Reads or skips data of a part, and passes the blocks in its sample to their streams.
    fn take<S: ImageSource>(
        &mut self,
        source: &mut S,
        part: usize,
        bytes: u64,
    ) -> Result<(), ImageErrorKind> {
        let mut left = bytes;
        while left > 0 {
            let (stream, of_block) = self.parts[part].block();
            let piece = left.min(of_block).min(PIECE);
            let passed = match stream {
                Some(stream) => source.pass(piece, &mut |data| self.feed(part, stream, data))?,
                None => source.skip(piece)?,
            };
            if self.failed.is_some() || passed < piece {
                return Err(changed());
            }
            self.parts[part].at += piece;
            left -= piece;
            (self.progress)(source.offset(), self.bytes);
        }
        Ok(())
    }

    fn feed(&mut self, part: usize, stream: usize, data: &[u8]) {
        for (method, streams) in self.methods.iter().zip(&mut self.parts[part].streams) {
            if self.failed.is_some() {
                return;
            }
            let fed = match &mut streams[stream] {
                Some(compressor) => compressor.feed(data),
                empty => Compressor::start(*method)
                    .and_then(|compressor| empty.insert(compressor).feed(data)),
            };
            if let Err(error) = fed {
                self.failed = Some((*method, error));
            }
        }
    }

    fn finish(self, image: Image) -> Result<ImageEstimate, EstimateError> {
        let Self { parts, methods, .. } = self;
        let mut estimates = Vec::with_capacity(methods.len());
        for method in &methods {
            let start_s = start_s(*method).map_err(|error| EstimateError::Program {
                method: *method,
                error,
            })?;
            estimates.push((
                MethodEstimate {
                    method: *method,
                    parts: Default::default(),
                },
                start_s,
            ));
        }
        let mut sampled_bytes = 0;
        for (number, sample) in parts.into_iter().enumerate() {
            for (which, ((estimate, start_s), streams)) in
                estimates.iter_mut().zip(sample.streams).enumerate()
            {
                let mut made = Vec::new();
                for compressor in streams.into_iter().flatten() {
                    made.push(
                        compressor
                            .finish()
                            .map_err(|error| EstimateError::Program {
                                method: estimate.method,
                                error,
                            })?,
                    );
                }
                if which == 0 {
                    sampled_bytes += made.iter().map(|one| one.input_bytes).sum::<u64>();
                }
                estimate.parts[number] = of_sample(sample.bytes, &made, *start_s);
            }
        }
        let mut methods: Vec<MethodEstimate> = estimates
            .into_iter()
            .map(|(estimate, _)| estimate)
            .collect();
        methods
            .iter_mut()
            .for_each(|estimate| give_to_libraries(estimate, &image));
        Ok(ImageEstimate {
            image,
            sampled_bytes,
            methods,
        })
    }
}

/// Returns the processor time of compressing nothing, seconds: the cost of starting the program.
fn start_s(method: Method) -> io::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        least = least.min(Compressor::start(method)?.finish()?.cpu_s);
    }
    Ok(least)
}

/// Estimates the compressed size of a part of `bytes` bytes from its streams. The differences between the streams' compression ratios give the
/// standard error. The finite population correction reduces it if much of the part was compressed (Cochran, Sampling Techniques, 1977, sections 2.6
/// and 2.11).
fn of_sample(bytes: u64, streams: &[Compressed], start_s: f64) -> PartEstimate {
    let (all, input) = (
        bytes as f64,
        streams.iter().map(|one| one.input_bytes).sum::<u64>() as f64,
    );
    if input == 0.0 {
        return PartEstimate {
            bytes: all,
            ..PartEstimate::default()
        };
    }
    let ratio = streams.iter().map(|one| one.bytes).sum::<u64>() as f64 / input;
    let cpu_s: f64 = streams
        .iter()
        .map(|one| (one.cpu_s - start_s).max(0.0))
        .sum();
    let number = streams.len() as f64;
    let standard_error = if streams.len() > 1 {
        let squares: f64 = streams
            .iter()
            .map(|one| (one.bytes as f64 / one.input_bytes as f64 - ratio).powi(2))
            .sum();
        (squares / (number - 1.0) / number).sqrt() * (1.0 - input / all).max(0.0).sqrt()
    } else {
        0.0
    };
    PartEstimate {
        bytes: all,
        compressed_bytes: all * ratio,
        standard_error_bytes: all * standard_error,
        cpu_s: cpu_s * all / input,
    }
}

/// Moves a share of the program's private anonymous memory to the libraries: the share that the sums by zone give to libraries. Which bytes belong to
/// whom is unknown, so both shares have the mean compression ratio.
fn give_to_libraries(estimate: &mut MethodEstimate, image: &Image) {
    for part in [Part::Allocated, Part::Heap] {
        let whole = estimate.part(part);
        let kept = image.zones.owner.stored.get(part) as f64;
        if whole.bytes > kept {
            let share = kept / whole.bytes;
            estimate.parts[Part::LibraryMemory as usize].add(&whole.share(1.0 - share));
            estimate.parts[part as usize] = whole.share(share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_takes_a_block_of_each_group_and_deals_them_to_all_streams() {
        let mut sample = Sample::new(400 * BLOCK, 10, 1);
        let mut taken = Vec::new();
        for block in 0..400 {
            sample.at = block * BLOCK;
            if let (Some(stream), left) = sample.block() {
                assert_eq!(left, BLOCK);
                taken.push((block / 10, stream));
            }
        }
        assert_eq!(
            taken.iter().map(|(group, _)| *group).collect::<Vec<_>>(),
            (0..40).collect::<Vec<_>>()
        );
        assert!(
            (0..STREAMS).all(|stream| taken.iter().filter(|(_, of)| *of == stream).count() == 10)
        );
    }

    #[test]
    fn the_standard_error_is_that_of_the_streams() {
        let stream = |bytes| Compressed {
            input_bytes: 1000,
            bytes,
            cpu_s: 0.5,
        };
        let part = of_sample(
            16_000,
            &[stream(400), stream(500), stream(500), stream(600)],
            0.1,
        );
        assert_eq!((part.compressed_bytes, part.bytes), (8000.0, 16_000.0));
        // s = 0.0816, s/2 = 0.0408, of 3/4 of the part
        assert!(
            (part.standard_error_bytes - 16_000.0 * 0.040_82 * 0.75_f64.sqrt()).abs() < 1.0,
            "{part:?}"
        );
        assert!((part.cpu_s - 6.4).abs() < 1e-12, "{part:?}");
        assert_eq!(
            of_sample(1000, &[stream(400)], 0.1).standard_error_bytes,
            0.0
        );
    }
}
