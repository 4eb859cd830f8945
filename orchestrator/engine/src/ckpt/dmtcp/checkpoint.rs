//! A checkpoint that was taken.

use super::{images::NamedImage, install::Events};
use crate::{
    run::{OutputSizes, text},
    stage::NodePart,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_image::CheckpointDir;
use cvc_probe::sentinel::CheckpointFiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A complete checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Number, from 1.
    pub number: u32,
    /// Times from the coordinator's log; `None` before DMTCP 4.
    pub events: Option<Events>,
    /// Time from the request to the last change of an image, by cvc's clock, seconds.
    pub request_to_stored_s: f64,
    /// Time of the request.
    pub requested: jiff::Timestamp,
    /// Time when each image was last written to, by cvc's clock.
    pub written: BTreeMap<String, jiff::Timestamp>,
    /// Time of the last change of any image. With gzip, files grow for a moment after every process has reported.
    pub last_write: jiff::Timestamp,
    /// The stored images by node. Read only after the program's end if reading would disturb the measurement.
    pub dirs: Vec<(String, CheckpointDir)>,
    /// Number of processes connected to the coordinator.
    pub peers: u32,
    /// Length of the program's output when the checkpoint was requested.
    pub asked: OutputSizes,
    /// Length of the program's output when every process had reported its image.
    pub whole: OutputSizes,
    /// The restart script that DMTCP wrote with the checkpoint, which names its images.
    pub script: Utf8PathBuf,
    /// Images when the checkpoint was complete. A different size or time later means that another checkpoint has begun to replace them.
    pub named: Vec<NamedImage>,
    /// Time of the checkpoint, seconds since the program began to compute.
    pub at_s: f64,
}

/// Data that the next attempt needs to continue from a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptImages {
    pub number: u32,
    pub events: Option<Events>,
    pub request_to_stored_s: f64,
    pub requested: jiff::Timestamp,
    pub written: BTreeMap<String, jiff::Timestamp>,
    pub last_write: jiff::Timestamp,
    pub peers: u32,
    pub at_s: f64,
    /// Private directory of the attempt, whose path is contained in the images.
    pub tmp: Utf8PathBuf,
    /// Nodes of the ranks, in the order of the mapping, followed by the head node: names and host names.
    pub nodes: Vec<(String, String)>,
}

impl Checkpoint {
    /// Returns the text of the restart script that DMTCP wrote with the checkpoint. If forked copies of the processes write the images, the text
    /// contains the images' temporary names.
    pub fn script_text(&self) -> String {
        text(&self.script).replace(".dmtcp.temp", ".dmtcp")
    }

    /// Returns the beginning of the checkpoint: from the coordinator's log or, without one, the time of the request.
    pub fn begin(&self) -> jiff::Timestamp {
        self.events
            .as_ref()
            .map_or(self.requested, |events| events.start)
    }

    /// Returns the checkpoint's part on each node. `dir` contains the images; `session` returns where a node's session files are kept.
    pub fn parts(&self, dir: &Utf8Path, session: impl Fn(&str) -> Utf8PathBuf) -> Vec<NodePart> {
        let of = |(node, found): &(String, CheckpointDir)| {
            let images = found.images.iter().map(|i| i.image.uncompressed_bytes);
            NodePart {
                node: node.clone(),
                files: CheckpointFiles::Dir(dir.into()),
                content_bytes: images.sum::<u64>() + found.totals.files_dirs.bytes,
                also: vec![session(node).into()],
            }
        };
        let has_images = |(_, found): &&(String, CheckpointDir)| !found.images.is_empty();
        self.dirs.iter().filter(has_images).map(of).collect()
    }
}
