//! Models the writes of a DMTCP checkpoint from its images: two headers, then the header and data of each area, and an end marker, as DMTCP 4.2.0
//! writes.

use super::{
    accesses::{AccessKey, ProcessAccesses, ProcessPhase, SeenFile},
    log::{INDIVIDUAL, POSIX, PhaseError, WRITE},
    merge::model_of,
    model::{IoModel, Marks},
};
use cvc_image::{Family, Image, ReadOptions, read_image_with};
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
        logs.push(process_of(rank as u32, images.len() as u32, path, &sizes));
    }
    if logs.is_empty() {
        return Err(PhaseError::Unusable("no image is given".to_owned()));
    }
    let mut model = model_of(logs, 0);
    model.marks = Marks::Image;
    model.remarks.push(
        "made from images of DMTCP, not from a trace: there are no times; each image, also of a launcher, has a separate process".to_owned(),
    );
    Ok(model)
}

/// Returns the bytes of each write of an image, in order.
fn writes_of(image: &Image) -> Option<Vec<u64>> {
    if image.format.family != Family::V4 {
        return None;
    }
    if image.gzip {
        let whole = image.file_bytes / GZIP_BLOCK;
        let mut sizes = vec![GZIP_BLOCK; usize::try_from(whole).ok()?];
        sizes.extend(Some(image.file_bytes % GZIP_BLOCK).filter(|rest| *rest > 0));
        return Some(sizes);
    }
    let mut sizes = vec![PAGE, PAGE];
    for area in &image.areas {
        sizes.push(PAGE);
        sizes.extend(Some(area.data_bytes).filter(|bytes| *bytes > 0));
    }
    sizes.push(PAGE);
    (sizes.iter().sum::<u64>() == image.file_bytes).then_some(sizes)
}

fn process_of(rank: u32, processes: u32, path: &Path, sizes: &[u64]) -> ProcessAccesses {
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
        paths: vec![path.display().to_string()],
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
