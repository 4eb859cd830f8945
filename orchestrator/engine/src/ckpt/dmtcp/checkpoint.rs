//! A checkpoint that was taken.

use super::install::Events;
use crate::stage::NodePart;
use camino::Utf8Path;
use cvc_image::CheckpointDir;
use cvc_probe::sentinel::CheckpointFiles;

/// A complete checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Number, from 1.
    pub number: u32,
    /// Times from the coordinator's log; `None` before DMTCP 4.
    pub events: Option<Events>,
    /// By cvc's clock: request to the last change of an image.
    pub request_to_stored_s: f64,
    /// Time of the last change of any image: with gzip, files grow for a moment after every process has reported.
    pub last_write: jiff::Timestamp,
    /// The stored images by node; read only after the program's end if reading would disturb the measurement.
    pub dirs: Vec<(String, CheckpointDir)>,
    /// Peers that the coordinator saw.
    pub peers: u32,
    /// What the program had printed when every process had reported its image.
    pub printed_bytes: u64,
}

impl Checkpoint {
    /// Returns its part on each node, in this directory.
    pub fn parts(&self, dir: &Utf8Path) -> Vec<NodePart> {
        let of = |(node, found): &(String, CheckpointDir)| {
            let images = found.images.iter().map(|i| i.image.uncompressed_bytes);
            NodePart {
                node: node.clone(),
                files: CheckpointFiles::Dir(dir.into()),
                content_bytes: images.sum::<u64>() + found.totals.files_dirs.bytes,
            }
        };
        let has_images = |(_, found): &&(String, CheckpointDir)| !found.images.is_empty();
        self.dirs.iter().filter(has_images).map(of).collect()
    }
}
