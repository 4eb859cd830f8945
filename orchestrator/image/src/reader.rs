//! Reads a file into an [`Image`].

use super::{
    PAGE,
    area::{self, Area, PROT_ACCESS, RawArea},
    error::{ImageError, ImageErrorKind, printable},
    gzip::{self, GzipSource},
    header::{self, Header, SIGNATURE_MTCP, SIGNATURE_V2, SIGNATURE_V4, V2Header, V4Header},
    in_file::InFile,
    layout::Layout,
    model::{Family, Format, Image, Region},
    name::Name,
    owner,
    owner_sums::Part,
    plain::PlainSource,
    source::ImageSource,
    structural, zone_rules,
    zones::{Sub, Zone, Zones},
};
use std::{
    fs::File,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// Number of pages searched for the second signature of a v2 or v3 image. Names and paths precede it, usually some kilobytes.
const MAX_DMTCP_PAGES: u64 = 4096;
/// Maximum number of regions. Linux allows a process 65,530 mappings by default; few sites raise this limit above a million.
const MAX_REGIONS: usize = 4 << 20;
/// Maximum total length of names, bytes, so that a damaged image cannot exhaust memory.
const MAX_NAME_BYTES: usize = 256 << 20;

/// Options for reading an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether to keep every area header in [`Image::areas`] (about 100 bytes each).
    pub areas: bool,
}

/// Reads an image.
///
/// # Errors
/// Any problem with the file, as an [`ImageErrorKind`].
pub fn read_image(path: &Path) -> Result<Image, ImageError> {
    read_image_with(path, ReadOptions::default())
}

/// Reads an image with options.
///
/// # Errors
/// Any problem with the file, as an [`ImageErrorKind`].
pub fn read_image_with(path: &Path, options: ReadOptions) -> Result<Image, ImageError> {
    let ImageFile { file, len, gzip } = open(path)?;
    let mut parser = Parser {
        options,
        gzip,
        file_bytes: len,
        problem_at: None,
    };
    if parser.gzip {
        parser.read(path, &mut GzipSource::new(file))
    } else {
        parser.read(path, &mut PlainSource::new(file, len))
    }
}

/// An opened file of an image.
pub(super) struct ImageFile {
    pub file: File,
    /// Length of the file when it was opened, bytes.
    pub len: u64,
    /// Whether the file is gzip-compressed.
    pub gzip: bool,
}

/// Opens a file and detects whether it is gzip-compressed.
pub(super) fn open(path: &Path) -> Result<ImageFile, ImageError> {
    let whole = |kind| ImageError {
        path: path.to_owned(),
        offset: None,
        gzip: false,
        kind,
    };
    // Without O_NONBLOCK, opening a FIFO that is named like an image would block forever.
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| ImageError::io(path, error))?;
    let metadata = file
        .metadata()
        .map_err(|error| ImageError::io(path, error))?;
    if !metadata.is_file() {
        return Err(whole(ImageErrorKind::NotAFile(if metadata.is_dir() {
            "a directory"
        } else {
            "a device, pipe or socket"
        })));
    }
    let len = metadata.len();
    if len == 0 {
        return Err(whole(ImageErrorKind::Empty));
    }
    let gzip = is_gzip(&file).map_err(|error| ImageError::io(path, error))?;
    Ok(ImageFile { file, len, gzip })
}

/// Returns whether the image is complete, that is, it parses up to its end marker and ends there. `false` means that it may still be being written.
///
/// # Errors
/// An error that waiting does not resolve: the file is missing, not an image, or damaged.
pub fn is_complete(path: &Path) -> Result<bool, ImageError> {
    match read_image(path) {
        Ok(_) => Ok(true),
        Err(error) if error.is_unfinished() => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_gzip(file: &File) -> std::io::Result<bool> {
    let mut start = [0; 2];
    Ok(file.read_at(&mut start, 0)? == start.len() && start == gzip::MAGIC)
}

struct Parser {
    options: ReadOptions,
    gzip: bool,
    file_bytes: u64,
    /// Offset of the last item read, for error messages.
    problem_at: Option<u64>,
}

/// The file header; the words of the second part of a v2 or v3 header are interpreted once the layout of the areas is known.
enum FileHeader {
    V4(Box<V4Header>),
    V2 { dmtcp_pages: u64, words: [u64; 12] },
}

/// The areas of an image: their layout, number and size.
struct AllAreas {
    layout: Layout,
    area_headers: u64,
    data_bytes: u64,
    end_marker_offset: u64,
    table: Table,
}

impl Parser {
    fn read<S: ImageSource>(&mut self, path: &Path, source: &mut S) -> Result<Image, ImageError> {
        match self.parse(source) {
            Ok(mut image) => {
                image.path = path.to_owned();
                Ok(image)
            }
            Err(kind) => {
                let offset = match kind {
                    // The end of the readable part of the stream, not the last header read.
                    ImageErrorKind::GzipEndsEarly | ImageErrorKind::GzipCorrupt(_) => {
                        Some(source.offset())
                    }
                    _ => self.problem_at,
                };
                Err(ImageError {
                    path: path.to_owned(),
                    offset,
                    gzip: self.gzip,
                    kind,
                })
            }
        }
    }

    fn parse<S: ImageSource>(&mut self, source: &mut S) -> Result<Image, ImageErrorKind> {
        let file_header = self.file_header(source)?;
        let areas_at = source.offset();
        let known = match file_header {
            FileHeader::V4(_) => Some(Layout::C),
            FileHeader::V2 { .. } => None,
        };
        let AllAreas {
            layout: area_layout,
            area_headers,
            data_bytes,
            end_marker_offset,
            table,
        } = self.all_areas(source, known)?;
        self.problem_at = Some(source.offset());
        let uncompressed_bytes = source.finish()?;
        self.problem_at = None;

        let page = PAGE as u64;
        let fixed_overhead_bytes = areas_at + page;
        let accounted = fixed_overhead_bytes + area_headers * page + data_bytes;
        if accounted != uncompressed_bytes {
            return Err(ImageErrorKind::SizeIdentity {
                accounted,
                length: uncompressed_bytes,
            });
        }
        let (family, header) = match file_header {
            FileHeader::V4(header) => (Family::V4, Header::V4(header)),
            FileHeader::V2 { dmtcp_pages, words } => (
                Family::V2,
                Header::V2(Box::new(V2Header::interpret(
                    dmtcp_pages,
                    words,
                    area_layout,
                ))),
            ),
        };
        let Table {
            areas,
            mut regions,
            in_file,
            ..
        } = table;
        structural::classify(&mut regions, &header);
        zone_rules::classify_literal(&mut regions);
        owner::classify(&mut regions);
        let baseline = owner::baseline(&regions, &header);
        let owner = owner::sum(&regions, baseline.as_ref());
        let in_file = self.gzip.then(|| {
            InFile::of(
                regions.iter().map(|region| (region.part, region.stored)),
                &in_file,
                &owner.stored,
                self.file_bytes,
            )
        });
        Ok(Image {
            path: std::path::PathBuf::new(),
            format: Format {
                family,
                area_layout,
            },
            gzip: self.gzip,
            file_bytes: self.file_bytes,
            uncompressed_bytes,
            header,
            area_headers,
            data_bytes,
            end_marker_offset,
            fixed_overhead_bytes,
            zones: Zones {
                owner,
                ..zone_rules::sum(&regions)
            },
            in_file,
            baseline,
            sub_zones: zone_rules::sub_zones(&regions),
            regions,
            areas,
        })
    }

    /// Reads all areas up to the end marker.
    fn all_areas<S: ImageSource>(
        &mut self,
        source: &mut S,
        mut layout: Option<Layout>,
    ) -> Result<AllAreas, ImageErrorKind> {
        let mut table = Table {
            areas: Vec::new(),
            regions: Vec::new(),
            parent_open: false,
            name_bytes: 0,
            in_file: Vec::new(),
            keep_areas: self.options.areas,
        };
        // The layout guessed from the first header, until a header with a name is read.
        let mut guess = None;
        let (mut area_headers, mut data_bytes) = (0_u64, 0_u64);
        let end_marker_offset = loop {
            let at = source.offset();
            self.problem_at = Some(at);
            let page = source.page()?.full("an area header or the end marker")?;
            if area::is_end_marker(page) {
                break at;
            }
            let applied = match layout {
                Some(layout) => layout,
                None => {
                    layout = Layout::from_named(page);
                    layout.unwrap_or_else(|| {
                        *guess.get_or_insert_with(|| Layout::from_nameless(page))
                    })
                }
            };
            let raw = RawArea::decode(page, applied)?;
            table.add(at, &raw, area::name_of(page, applied), applied)?;
            area_headers += 1;
            // Each is at most 2^57 and within the file, so their sum is at most its length.
            let data_at = source.file_offset();
            let present = source.skip(raw.data_bytes)?;
            table.add_in_file(source.file_offset() - data_at);
            if present < raw.data_bytes {
                return Err(ImageErrorKind::Truncated {
                    expected: "the data of the area whose header starts here",
                    needed: raw.data_bytes,
                    present,
                });
            }
            data_bytes += raw.data_bytes;
        };
        Ok(AllAreas {
            layout: layout.or(guess).unwrap_or(Layout::C),
            area_headers,
            data_bytes,
            end_marker_offset,
            table,
        })
    }

    /// Reads everything up to the first area header.
    fn file_header<S: ImageSource>(
        &mut self,
        source: &mut S,
    ) -> Result<FileHeader, ImageErrorKind> {
        self.problem_at = Some(source.offset());
        let page = match source.page()? {
            super::source::Page::Full(page) => page,
            super::source::Page::Cut(part) => return Err(cut_first_page(part)),
        };
        if !page.starts_with(header::MAGIC) {
            return Err(ImageErrorKind::NotAnImage {
                found: printable(page),
            });
        }
        if page.starts_with(SIGNATURE_V4.as_bytes()) {
            let first = V4Header::decode(page);
            self.problem_at = Some(source.offset());
            let page = source.page()?.full("the second copy of the file header")?;
            if !page.starts_with(SIGNATURE_V4.as_bytes()) {
                return Err(ImageErrorKind::SecondSignature {
                    expected: "DMTCP_CHECKPOINT_IMAGE_v4.0",
                    found: printable(page),
                });
            }
            // Compares the decoded fields: bytes after the end of a string may differ.
            if V4Header::decode(page) != first {
                return Err(ImageErrorKind::HeaderCopiesDiffer);
            }
            return Ok(FileHeader::V4(Box::new(first)));
        }
        if page.starts_with(SIGNATURE_V2.as_bytes()) {
            let mut second = None;
            for dmtcp_pages in 1..=MAX_DMTCP_PAGES {
                self.problem_at = Some(source.offset());
                let page = source
                    .page()?
                    .full("the page with the signature `MTCP_HEADER_v2.2`")?;
                if page.starts_with(SIGNATURE_MTCP.as_bytes()) {
                    return Ok(FileHeader::V2 {
                        dmtcp_pages,
                        words: header::mtcp_words(page),
                    });
                }
                second.get_or_insert_with(|| (source_offset_of(dmtcp_pages), printable(page)));
            }
            let (at, found) = second.unwrap_or_default();
            self.problem_at = Some(at);
            return Err(ImageErrorKind::SecondSignature {
                expected: "MTCP_HEADER_v2.2",
                found,
            });
        }
        let line = page.iter().position(|&byte| byte == b'\n').unwrap_or(32);
        Err(ImageErrorKind::UnknownVersion {
            found: printable(&page[..line.min(32)]),
        })
    }
}

/// Returns the offset of a page, given its number.
fn source_offset_of(pages: u64) -> u64 {
    pages * PAGE as u64
}

/// Returns the error for a file shorter than a page: a truncated image, or another file.
fn cut_first_page(part: &[u8]) -> ImageErrorKind {
    let known = part.len().min(header::MAGIC.len());
    if part[..known] == header::MAGIC[..known] {
        ImageErrorKind::Truncated {
            expected: "the file header",
            needed: PAGE as u64,
            present: part.len() as u64,
        }
    } else {
        ImageErrorKind::NotAnImage {
            found: printable(part),
        }
    }
}

/// The regions read so far.
struct Table {
    areas: Vec<Area>,
    regions: Vec<Region>,
    /// Whether the last region is a parent that may have further children.
    parent_open: bool,
    name_bytes: usize,
    /// For each region, the number of bytes of its data in the compressed file.
    in_file: Vec<f64>,
    keep_areas: bool,
}

impl Table {
    fn add(
        &mut self,
        at: u64,
        raw: &RawArea,
        name: &[u8],
        layout: Layout,
    ) -> Result<(), ImageErrorKind> {
        if self.keep_areas {
            let mut area = raw.to_area(at, &[]);
            area.name = self.share(name);
            self.areas.push(area);
        }
        if raw.is_child(layout) {
            let Some(region) = self.regions.last_mut().filter(|_| self.parent_open) else {
                return Err(ImageErrorKind::ChildWithoutParent);
            };
            if raw.start < region.start || raw.end > region.end {
                let (parent_start, parent_end) = (region.start, region.end);
                return Err(ImageErrorKind::ChildOutsideParent {
                    start: raw.start,
                    end: raw.end,
                    parent_start,
                    parent_end,
                });
            }
            region.stored += raw.data_bytes;
            region.headers += 1;
            return Ok(());
        }
        self.parent_open = raw.is_parent(layout);
        if self.regions.len() >= MAX_REGIONS || self.name_bytes > MAX_NAME_BYTES {
            return Err(ImageErrorKind::TooManyRegions { limit: MAX_REGIONS });
        }
        let name = self.share(name);
        self.regions.push(Region {
            start: raw.start,
            end: raw.start + raw.size,
            prot: raw.prot & PROT_ACCESS,
            flags: raw.flags,
            name,
            stored: raw.data_bytes,
            headers: 1,
            zone: Zone::Shmem,
            sub: Sub::Anon,
            literal: Zone::Shmem,
            part: Part::Allocated,
            had_file: raw.had_file,
            region_end: raw.end,
        });
        Ok(())
    }

    /// Adds bytes to the compressed size of the last region's data.
    fn add_in_file(&mut self, bytes: f64) {
        self.in_file.resize(self.regions.len(), 0.0);
        if let Some(last) = self.in_file.last_mut() {
            *last += bytes;
        }
    }

    /// Returns a name; shares its memory with the previous region's name if both are equal, as with the segments of a library or the runs of a
    /// heap.
    fn share(&mut self, name: &[u8]) -> Name {
        if name.is_empty() {
            return Name::default();
        }
        match self.regions.last() {
            Some(last) if last.name.as_bytes() == name => last.name.clone(),
            _ => {
                self.name_bytes += name.len();
                Name::from_field(name)
            }
        }
    }
}
