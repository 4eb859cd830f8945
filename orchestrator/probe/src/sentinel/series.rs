//! Differences between the checkpoints of a run on this node, measured before the next one overwrites them.

use super::{error::SentinelError, files::FileFound};
use cvc_delta::{
    Addressing, BlockSize, DeltaError, Signature, Source, SourceFile, changed_by_part,
    changed_bytes, sign, sign_with_parts,
};
use cvc_image::Part;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

/// Measurements of a checkpoint of a series: the images of one node, compared in blocks of one page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesState {
    /// Bytes of all blocks of the checkpoint, uncompressed, without the headers of images.
    pub bytes: u64,
    /// For each earlier checkpoint, in order: bytes of this checkpoint's blocks that changed since then. A block has changed unless the earlier
    /// checkpoint has the same block at the same place.
    pub changed: Vec<u64>,
    /// Bytes that changed since the first checkpoint, by part of the images; empty for the first checkpoint.
    pub since_first: BTreeMap<Part, u64>,
    /// Bytes that changed since the previous checkpoint, by part of the images.
    pub since_previous: BTreeMap<Part, u64>,
    /// Whether the bytes are known by part. Only images have parts, not files that a program writes itself.
    #[serde(default)]
    pub has_parts: bool,
    /// Time to read and hash the checkpoint, seconds.
    pub hash_s: f64,
}

/// Location of the files of a checkpoint on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointFiles {
    /// A directory that may also contain files that the checkpointer left of earlier checkpoints.
    Dir(PathBuf),
    /// All files of a checkpoint that a program writes itself.
    Own {
        /// The directory in which the program runs.
        work: PathBuf,
        /// The files.
        files: Vec<FileFound>,
    },
}

impl CheckpointFiles {
    /// Lists the files of the checkpoint. `saved`: files of earlier checkpoints, which are skipped.
    pub(super) fn list(&self, saved: &mut SavedFiles) -> Result<Source, DeltaError> {
        match self {
            Self::Dir(dir) => saved.list(dir),
            Self::Own { work, files } => Ok(own_state(work, files)),
        }
    }
}

/// Returns the name under which a file written by the program is stored in a series.
pub(super) fn own_name(work: &Path, file: &Path) -> String {
    let below = file.strip_prefix(work).or_else(|_| file.strip_prefix("/"));
    below.unwrap_or(file).display().to_string()
}

/// Returns files written by a program as the content of one checkpoint.
pub(super) fn own_state(work: &Path, files: &[FileFound]) -> Source {
    let file = |file: &FileFound| SourceFile {
        name: own_name(work, &file.path),
        path: file.path.clone(),
        bytes: file.bytes,
        mode: fs::metadata(&file.path).map_or(0o600, |m| m.permissions().mode()) & 0o777,
        version: None,
    };
    Source {
        path: files.first().map_or(work, |f| &f.path).to_owned(),
        files: files.iter().map(file).collect(),
        links: Vec::new(),
        taken_s: files.iter().map(|f| f.modified_ns).max().unwrap_or(0) as f64 * 1e-9,
    }
}

/// Files that DMTCP saved for checkpoints next to their images and does not remove, with the time of their last change.
#[derive(Clone, Debug, Default)]
pub struct SavedFiles(HashMap<String, SystemTime>);

impl SavedFiles {
    /// Lists the files of the last checkpoint written into a directory: its images, and the files that DMTCP saved for it in `_files` directories.
    /// Omits files that an earlier call listed, and the restart script.
    ///
    /// # Errors
    /// As [`Source::list`].
    pub fn list(&mut self, dir: &Path) -> Result<Source, DeltaError> {
        let mut state = Source::list(dir)?;
        state.files = of_this_checkpoint(state.files, &mut self.0);
        // the other name of the restart script
        state.links.retain(|(name, _)| !is_script(name));
        Ok(state)
    }
}

/// The checkpoints of a run that were read until now.
#[derive(Debug, Default)]
pub(super) struct NodeSeries {
    /// Hashes of all checkpoints, 16 bytes for each page.
    signatures: Vec<Signature>,
    /// Files that DMTCP saved for earlier checkpoints and left next to the images.
    saved: SavedFiles,
}

impl NodeSeries {
    /// Reads a checkpoint, and compares it with the previous ones. If a checkpoint of this number was read before, the series continues from there.
    pub fn add(
        &mut self,
        files: &CheckpointFiles,
        number: u32,
    ) -> Result<SeriesState, SentinelError> {
        if number == 1 {
            *self = Self::default();
        }
        self.signatures
            .truncate((number as usize).saturating_sub(1));
        if self.signatures.len() + 1 != number as usize {
            return Err(SentinelError::SeriesLost {
                number,
                known: self.signatures.len(),
            });
        }
        self.measure(files).map_err(SentinelError::Series)
    }

    fn measure(&mut self, files: &CheckpointFiles) -> Result<SeriesState, DeltaError> {
        let begin = Instant::now();
        let mut state = files.list(&mut self.saved)?;
        state.links.clear();
        let (signature, parts) = match files {
            CheckpointFiles::Dir(_) => {
                let (signature, parts) = sign_with_parts(&state, BlockSize::PAGE, &|_| {})?;
                (signature, Some(parts))
            }
            // only images have parts
            CheckpointFiles::Own { .. } => {
                let signature = sign(&state, Addressing::Index, BlockSize::PAGE, &|_| {})?;
                (signature, None)
            }
        };
        let hash_s = begin.elapsed().as_secs_f64();
        let by_part = |old: &Signature| {
            let mut sums = BTreeMap::new();
            let parts = parts
                .iter()
                .flat_map(|p| changed_by_part(&signature, p, old));
            for (part, bytes) in parts {
                *sums.entry(part).or_default() += bytes;
            }
            sums
        };
        let old = &self.signatures;
        let measured = SeriesState {
            bytes: signature.bytes(),
            changed: old.iter().map(|o| changed_bytes(&signature, o)).collect(),
            since_first: old.first().map(by_part).unwrap_or_default(),
            since_previous: old.last().map(by_part).unwrap_or_default(),
            has_parts: parts.is_some(),
            hash_s,
        };
        self.signatures.push(signature);
        Ok(measured)
    }
}

/// Returns the files of the last checkpoint: its images, and the files that DMTCP saved for it. The `_files` directories also contain files of
/// earlier checkpoints, and the restart script belongs to no checkpoint: both are omitted.
fn of_this_checkpoint(
    files: Vec<SourceFile>,
    left: &mut HashMap<String, SystemTime>,
) -> Vec<SourceFile> {
    let own = files.into_iter().filter(|file| !is_script(&file.name));
    let own = own.filter(|file| {
        let changed = std::fs::metadata(&file.path).and_then(|m| m.modified());
        let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
        !file.name.contains('/') || left.insert(file.name.clone(), changed) != Some(changed)
    });
    own.collect()
}

/// Returns whether a name is that of the restart script, or of the link to the script.
fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "sh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_for_an_earlier_checkpoint_is_none_of_a_later_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
            std::fs::write(path, name).expect("writes");
        };
        let names = |left: &mut HashMap<String, SystemTime>| -> Vec<String> {
            let files = Source::list(dir.path()).expect("a state").files;
            let own = of_this_checkpoint(files, left).into_iter();
            own.map(|file| file.name).collect()
        };
        let mut left = HashMap::new();
        for name in [
            "ckpt_a_1.dmtcp",
            "ckpt_b_2.dmtcp",
            "dmtcp_restart_script_1.sh",
            "ckpt_a_1_files/segment-7_99606",
            "ckpt_a_1_files/twice_99607",
            "ckpt_b_2_files/twice_99606",
        ] {
            put(name);
        }
        assert_eq!(
            names(&mut left),
            [
                "ckpt_a_1.dmtcp",
                "ckpt_a_1_files/segment-7_99606",
                "ckpt_a_1_files/twice_99607",
                "ckpt_b_2.dmtcp",
                "ckpt_b_2_files/twice_99606"
            ]
        );
        // another process saves the same segment
        put("ckpt_b_2_files/segment-7_99611");
        assert_eq!(
            names(&mut left),
            [
                "ckpt_a_1.dmtcp",
                "ckpt_b_2.dmtcp",
                "ckpt_b_2_files/segment-7_99611"
            ]
        );
    }

    #[test]
    fn each_checkpoint_is_compared_with_all_before_it_and_none_is_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let page = 4096;
        let mut bytes = vec![1_u8; 8 * page];
        let mut series = NodeSeries::default();
        let take = |series: &mut NodeSeries, number: u32, bytes: &[u8]| {
            std::fs::write(dir.path().join("state"), bytes).expect("writes");
            series.add(&CheckpointFiles::Dir(dir.path().into()), number)
        };
        let first = take(&mut series, 1, &bytes).expect("the first");
        assert_eq!((first.bytes, first.changed.len()), (8 * 4096, 0));
        assert!(first.since_first.is_empty());
        bytes[0] = 2;
        let second = take(&mut series, 2, &bytes).expect("the second");
        assert_eq!(second.changed, [4096]);
        bytes[0] = 1;
        bytes[page..3 * page].fill(3);
        let third = take(&mut series, 3, &bytes).expect("the third");
        // the first page has its first content again
        assert_eq!(third.changed, [2 * 4096, 3 * 4096]);
        let sum = |parts: &BTreeMap<Part, u64>| parts.values().sum::<u64>();
        // changed bytes are listed by part of the images
        assert_eq!(
            (sum(&third.since_first), sum(&third.since_previous)),
            (0, 0)
        );
        let lost = take(&mut series, 5, &bytes).expect_err("the fourth is missing");
        assert!(
            lost.to_string().contains("has read only 3 of them"),
            "{lost}"
        );
        let again = take(&mut series, 1, &bytes).expect("a new series");
        assert!(again.changed.is_empty());
    }
}
