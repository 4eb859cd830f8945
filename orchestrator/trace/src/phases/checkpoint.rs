//! Models the writes of a DMTCP checkpoint from its images, or from the areas that they will have: two headers, then the header and data of each area,
//! and an end marker, as DMTCP 4.2.0 writes.

use super::{
    accesses::{AccessKey, ProcessAccesses, ProcessPhase, SeenFile},
    log::{INDIVIDUAL, POSIX, PhaseError, WRITE},
    merge::model_of,
    model::{IoModel, Marks},
};
use cvc_image::{Family, Image, PlannedImage, ReadOptions, read_image_with};
use std::path::Path;

/// Length of each header in an image, bytes: there are two for the file, one for each area, and one at the end.
const PAGE: u64 = 4096;
/// Number of bytes that gzip 1.12 writes at a time.
const GZIP_BLOCK: u64 = 256 << 10;
const FILE: &str = "image.dmtcp";

/// Returns the model of a checkpoint with these images. Each image is written by a separate process, all at the same time.
///
/// # Errors
/// There is no image, an image cannot be read, or the writes of its format are unknown.
pub fn checkpoint_model(images: &[impl AsRef<Path>]) -> Result<IoModel, PhaseError> {
    let mut logs = Vec::new();
    for (rank, path) in images.iter().enumerate() {
        let path = path.as_ref();
        let unreadable = |problem: String| PhaseError::Unreadable {
            path: path.to_owned(),
            problem,
        };
        let options = ReadOptions { areas: true };
        let image = read_image_with(path, options).map_err(|e| unreadable(e.to_string()))?;
        let sizes = writes_of(&image).ok_or_else(|| {
            unreadable("the writes of images before DMTCP 4 are not known".into())
        })?;
        let path = path.display().to_string();
        logs.push(process_of(rank as u32, images.len() as u32, path, &sizes));
    }
    model_from(
        logs,
        "made from images of DMTCP, not from a trace: there are no times; each image, also of a launcher, has a separate process",
    )
}

/// Returns the model of a checkpoint that writes these images, one for each process.
///
/// # Errors
/// There is no image.
pub fn planned_checkpoint(images: &[PlannedImage]) -> Result<IoModel, PhaseError> {
    let processes = images.len() as u32;
    let logs = images.iter().zip(0..).map(|(image, rank)| {
        let sizes = match image {
            PlannedImage::Plain(areas) => plain_writes(areas.iter().copied()),
            PlannedImage::Gzip(bytes) => gzip_writes(*bytes),
        };
        // each process has a file of its own
        process_of(rank, processes, format!("{rank}.dmtcp"), &sizes)
    });
    model_from(
        logs.collect(),
        "made from predicted images of the processes, without those of launchers, not from a trace: there are no times",
    )
}

fn model_from(logs: Vec<ProcessAccesses>, remark: &str) -> Result<IoModel, PhaseError> {
    if logs.is_empty() {
        return Err(PhaseError::Unusable("no image is given".to_owned()));
    }
    let mut model = model_of(logs, 0);
    model.marks = Marks::Image;
    model.remarks.push(remark.to_owned());
    Ok(model)
}

/// Returns the bytes of each write of an image, in order.
fn writes_of(image: &Image) -> Option<Vec<u64>> {
    if image.format.family != Family::V4 {
        return None;
    }
    if image.gzip {
        return Some(gzip_writes(image.file_bytes));
    }
    let sizes = plain_writes(image.areas.iter().map(|area| area.data_bytes));
    (sizes.iter().sum::<u64>() == image.file_bytes).then_some(sizes)
}

/// Returns the bytes of each write of an uncompressed image, given the data of its areas.
fn plain_writes(areas: impl Iterator<Item = u64>) -> Vec<u64> {
    let of_areas = areas.flat_map(|bytes| [PAGE, bytes]);
    let all = [PAGE, PAGE].into_iter().chain(of_areas).chain([PAGE]);
    all.filter(|bytes| *bytes > 0).collect()
}

/// Returns the bytes of each write of a compressed image with this length.
fn gzip_writes(file_bytes: u64) -> Vec<u64> {
    let whole = usize::try_from(file_bytes / GZIP_BLOCK).unwrap_or(usize::MAX);
    let rest = Some(file_bytes % GZIP_BLOCK).filter(|rest| *rest > 0);
    let all = std::iter::repeat_n(GZIP_BLOCK, whole).chain(rest);
    all.collect()
}

fn process_of(rank: u32, processes: u32, path: String, sizes: &[u64]) -> ProcessAccesses {
    let mut phase = ProcessPhase::default();
    let mut position = 0;
    for bytes in sizes {
        let key = AccessKey {
            file: FILE.to_owned(),
            kind: WRITE | INDIVIDUAL | POSIX,
            bytes: *bytes,
            view: 0,
            within: 0,
        };
        phase.add(key, position);
        position += *bytes as i64;
    }
    phase.close_access();
    let file = SeenFile {
        paths: vec![path],
        processes: 1,
        is_posix: true,
        kinds: WRITE | INDIVIDUAL | POSIX,
        bytes_written: position as u64,
        ..SeenFile::default()
    };
    let mut log = ProcessAccesses::new(rank, processes, String::new());
    log.files.insert(FILE.to_owned(), file);
    log.phases.push(phase);
    log
}
