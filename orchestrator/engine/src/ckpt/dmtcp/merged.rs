//! Merges the checkpoint directories of several nodes into one checkpoint.

use cvc_core::mapping::Mapping;
use cvc_image::{CheckpointDir, DirImage, FilesTotals, Role, Zones};
use std::collections::{BTreeMap, BTreeSet};

/// An image, with the node and rank of its process.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Node on which the image was written; `None` if unknown.
    pub node: Option<&'a str>,
    /// Rank in the whole run; `None` for launchers, and for all ranks that follow a rank whose node is unknown.
    pub rank: Option<u32>,
    /// The image.
    pub image: &'a DirImage,
}

/// Totals of the images that one node stored. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSums {
    /// Ranks with an image.
    pub ranks: u64,
    /// Length of the image files, of ranks and launchers.
    pub file_bytes: u64,
    /// Zones in the images of the node's ranks.
    pub zones: Zones,
}

/// One checkpoint.
#[derive(Debug)]
pub struct Merged<'a> {
    /// Ranks in rank order, then launchers.
    pub images: Vec<Placed<'a>>,
    /// Totals by node. Files whose node is unknown are in `all` only.
    pub nodes: BTreeMap<&'a str, NodeSums>,
    /// Totals over all nodes.
    pub all: NodeSums,
    /// Totals of the directories with saved files.
    pub files_dirs: FilesTotals,
    /// Size of the checkpoint on disk, bytes: images (including broken ones) and saved files.
    pub stored_bytes: u64,
    /// Whether several nodes saw the same file: the directory is then shared, even if the campaign file says otherwise.
    pub is_shared: bool,
}

/// Two nodes see different sizes of the same file: one of them sees an old version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} has {bytes} bytes as {node} sees it, and {other_bytes} as {other} does")]
pub struct Disagreement {
    /// Name of the file.
    pub file: String,
    /// One of the nodes.
    pub node: String,
    /// Size that this node sees, bytes.
    pub bytes: u64,
    /// The other node.
    pub other: String,
    /// Size that the other node sees, bytes.
    pub other_bytes: u64,
}

/// A node has images of more or fewer ranks than the mapping puts there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node} has the images of {ranks} ranks, {mapping} puts {expected} there")]
pub struct WrongLoad {
    /// The node.
    pub node: String,
    /// Number of ranks with an image there.
    pub ranks: u64,
    /// The mapping.
    pub mapping: Mapping,
    /// Number of ranks by the mapping.
    pub expected: u64,
}

/// Merges directories that were read on several nodes. `views` are pairs of a node and the directory as this node sees it.
///
/// The name of an image contains the process's number in the whole computation. A file of the same name on two nodes is therefore one file, seen
/// twice, and is counted once. `order` lists the nodes in the order of the mapping. `written_on` returns the node on which an image was written,
/// given the nodes that see it. DMTCP numbers processes in the order in which they connect. Within a node this is the order of ranks, but not between
/// nodes; ranks are therefore sorted by node first.
///
/// # Errors
/// Nodes see different lengths of the same file.
///
/// Sums saturate, because a node may report any number.
pub fn merge<'a>(
    views: &'a [(String, CheckpointDir)],
    order: &[&'a str],
    written_on: impl Fn(&DirImage, &[&'a str]) -> Option<&'a str>,
) -> Result<Merged<'a>, Disagreement> {
    let files = Files::join_views(views)?;
    let mut merged = Merged {
        images: Vec::new(),
        nodes: BTreeMap::new(),
        all: NodeSums::default(),
        files_dirs: files.dirs,
        stored_bytes: files.bytes,
        is_shared: files.is_shared,
    };
    for (seen_by, image) in files.images.into_values() {
        merged.add(image, written_on(image, &seen_by));
    }
    merged.number_ranks(order);
    Ok(merged)
}

/// The files of a checkpoint, each listed once.
#[derive(Default)]
struct Files<'a> {
    /// Images by name, with the nodes that see them.
    images: BTreeMap<&'a str, (Vec<&'a str>, &'a DirImage)>,
    /// All other files by name, with the node that saw them first and their bytes.
    others: BTreeMap<&'a str, (&'a str, u64)>,
    /// Directories of saved files.
    dirs: FilesTotals,
    /// Bytes of the other files.
    bytes: u64,
    /// Whether several nodes saw the same file.
    is_shared: bool,
}

impl<'a> Files<'a> {
    /// Collects the files that the nodes see.
    fn join_views(views: &'a [(String, CheckpointDir)]) -> Result<Self, Disagreement> {
        let mut files = Self::default();
        for (node, dir) in views {
            for image in &dir.images {
                files.add_image(node, image)?;
            }
            for broken in &dir.broken {
                files.bytes = files.bytes.saturating_add(
                    files
                        .once(&broken.file, node, broken.file_bytes)?
                        .unwrap_or(0),
                );
            }
            for saved in &dir.files_dirs {
                // the saved-files directory has the image's name with another suffix
                let Some(name) = saved.path.file_name().and_then(|n| n.to_str()) else {
                    continue;
                };
                if let Some(bytes) = files.once(name, node, saved.bytes)? {
                    files.dirs.dirs += 1;
                    files.dirs.files = files.dirs.files.saturating_add(saved.files);
                    files.dirs.bytes = files.dirs.bytes.saturating_add(bytes);
                    files.bytes = files.bytes.saturating_add(bytes);
                }
            }
        }
        Ok(files)
    }

    fn add_image(&mut self, node: &'a str, image: &'a DirImage) -> Result<(), Disagreement> {
        let (seen_by, first) = self
            .images
            .entry(&image.file)
            .or_insert_with(|| (Vec::new(), image));
        if let Some(other) = seen_by.first() {
            agree(
                &image.file,
                (node, image.image.file_bytes),
                (other, first.image.file_bytes),
            )?;
            self.is_shared = true;
        }
        seen_by.push(node);
        Ok(())
    }

    /// Returns the bytes of a file or directory seen for the first time; `None` if another node saw it before.
    fn once(
        &mut self,
        name: &'a str,
        node: &'a str,
        bytes: u64,
    ) -> Result<Option<u64>, Disagreement> {
        match self.others.get(name) {
            Some((other, other_bytes)) => {
                self.is_shared = true;
                agree(name, (node, bytes), (other, *other_bytes)).map(|()| None)
            }
            None => {
                self.others.insert(name, (node, bytes));
                Ok(Some(bytes))
            }
        }
    }
}

fn agree(
    file: &str,
    (node, bytes): (&str, u64),
    (other, other_bytes): (&str, u64),
) -> Result<(), Disagreement> {
    if bytes == other_bytes {
        return Ok(());
    }
    Err(Disagreement {
        file: file.to_owned(),
        node: node.to_owned(),
        bytes,
        other: other.to_owned(),
        other_bytes,
    })
}

impl<'a> Merged<'a> {
    /// Adds an image that was written on this node.
    fn add(&mut self, image: &'a DirImage, node: Option<&'a str>) {
        self.images.push(Placed {
            node,
            rank: None,
            image,
        });
        for sums in [
            Some(&mut self.all),
            node.map(|n| self.nodes.entry(n).or_default()),
        ]
        .into_iter()
        .flatten()
        {
            sums.file_bytes = sums.file_bytes.saturating_add(image.image.file_bytes);
            if image.role == Role::Rank {
                sums.ranks += 1;
                sums.zones.add_all(&image.image.zones);
            }
        }
        self.stored_bytes = self.stored_bytes.saturating_add(image.image.file_bytes);
    }

    /// Sorts the images and numbers the ranks. Ranks that follow a rank whose node is unknown get no number.
    fn number_ranks(&mut self, order: &[&str]) {
        let position = |node: Option<&str>| {
            node.and_then(|n| order.iter().position(|o| *o == n))
                .unwrap_or(usize::MAX)
        };
        self.images.sort_by(|a, b| {
            let key = |p: &Placed<'_>| (p.image.role, position(p.node), p.image.vpid);
            key(a)
                .cmp(&key(b))
                .then_with(|| a.image.file.cmp(&b.image.file))
        });
        let one_node = order.len() <= 1;
        for (rank, placed) in (0..).zip(
            self.images
                .iter_mut()
                .take_while(|p| p.image.role == Role::Rank),
        ) {
            if !one_node && position(placed.node) == usize::MAX {
                break;
            }
            placed.rank = Some(rank);
        }
    }
}

impl Merged<'_> {
    /// Compares the number of rank images on each node with the mapping over these nodes.
    ///
    /// # Errors
    /// The first node with a different number. An image of an unknown node makes the comparison inconclusive, which is not an error.
    pub fn is_mapped(&self, mapping: &Mapping, order: &[&str]) -> Result<(), WrongLoad> {
        if self
            .images
            .iter()
            .any(|p| p.image.role == Role::Rank && p.node.is_none())
        {
            return Ok(());
        }
        let expected: BTreeMap<&str, u64> = order
            .iter()
            .copied()
            .zip(mapping.node_loads().map(u64::from))
            .collect();
        let names: BTreeSet<&str> = self.nodes.keys().chain(expected.keys()).copied().collect();
        for node in names {
            let ranks = self.nodes.get(node).map_or(0, |n| n.ranks);
            let should = expected.get(node).copied().unwrap_or(0);
            if ranks != should {
                return Err(WrongLoad {
                    node: node.to_owned(),
                    ranks,
                    mapping: mapping.clone(),
                    expected: should,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn fixture(name: &str) -> cvc_image::Image {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../image/tests/fixtures/dmtcp")
            .join(format!("{name}.dmtcp.gz"));
        cvc_image::read_image(&file).unwrap_or_else(|e| panic!("{e}"))
    }

    fn image(program: &str, vpid: i32, host: u64) -> DirImage {
        let name = if program == "bt" {
            "mpich-btW-np4-mpiexec"
        } else {
            "mpich-btA-np4-hydra_pmi_proxy"
        };
        DirImage {
            file: format!("ckpt_{program}_{host:x}-{vpid}-2f1307.dmtcp"),
            program: program.to_owned(),
            vpid: Some(vpid),
            hostid: Some(host),
            role: Role::of_program(program),
            image: fixture(name),
        }
    }

    fn dir(images: Vec<DirImage>) -> CheckpointDir {
        CheckpointDir {
            path: PathBuf::from("/scratch/ckpt"),
            images,
            broken: Vec::new(),
            temporary: Vec::new(),
            named_like_images: Vec::new(),
            files_dirs: vec![cvc_image::FilesDir {
                path: PathBuf::from("/scratch/ckpt/ckpt_bt_1_files"),
                image: "ckpt_bt_1.dmtcp".into(),
                has_image: true,
                files: 2,
                bytes: 1000,
                saved: Vec::new(),
            }],
            totals: Default::default(),
        }
    }

    /// Returns two directories: node a with two ranks, which connected second and fourth; node b with one rank; each with a launcher's proxy.
    fn on_two_nodes() -> (CheckpointDir, CheckpointDir) {
        let a = vec![
            image("hydra_pmi_proxy", 41000, 1),
            image("bt", 43000, 1),
            image("bt", 45000, 1),
        ];
        let b = vec![image("bt", 42000, 2), image("hydra_pmi_proxy", 40000, 2)];
        (dir(a), dir(b))
    }

    fn by_host<'a>(image: &DirImage, _: &[&'a str]) -> Option<&'a str> {
        match image.hostid {
            Some(1) => Some("a"),
            Some(2) => Some("b"),
            _ => None,
        }
    }

    fn ranks<'a>(merged: &Merged<'a>) -> Vec<(Option<&'a str>, Option<u32>, Option<i32>)> {
        merged
            .images
            .iter()
            .map(|p| (p.node, p.rank, p.image.vpid))
            .collect()
    }

    const RANKS: [(Option<&str>, Option<u32>, Option<i32>); 5] = [
        (Some("a"), Some(0), Some(43000)),
        (Some("a"), Some(1), Some(45000)),
        (Some("b"), Some(2), Some(42000)),
        (Some("a"), None, Some(41000)),
        (Some("b"), None, Some(40000)),
    ];

    #[test]
    fn local_directories_are_put_together_in_rank_order() {
        let (a, b) = on_two_nodes();
        let (size, proxy) = (a.images[1].image.file_bytes, a.images[0].image.file_bytes);
        let zones = a.images[1].image.zones.structural.stored;
        // the head node queries itself first, whatever its position in the mapping
        let mut second = b;
        second.files_dirs[0].path = PathBuf::from("/scratch/ckpt/ckpt_bt_2_files");
        let views = [("b".to_owned(), second), ("a".to_owned(), a)];
        let merged = merge(&views, &["a", "b"], |_, seen| seen.first().copied()).expect("whole");
        assert_eq!(ranks(&merged), RANKS);
        assert!(!merged.is_shared);
        assert_eq!(
            (
                merged.nodes["a"].ranks,
                merged.nodes["b"].ranks,
                merged.all.ranks
            ),
            (2, 1, 3)
        );
        assert_eq!(
            merged.nodes["a"].zones.structural.stored.sum(),
            2 * zones.sum()
        );
        assert_eq!(merged.all.zones.structural.stored.sum(), 3 * zones.sum());
        assert_eq!(
            (merged.all.file_bytes, merged.stored_bytes),
            (3 * size + 2 * proxy, 3 * size + 2 * proxy + 2000)
        );
        let mapping: Mapping = "1Nx2P+1Nx1P".parse().expect("a mapping");
        assert_eq!(merged.is_mapped(&mapping, &["a", "b"]), Ok(()));
        let wrong = merged
            .is_mapped(&mapping, &["b", "a"])
            .expect_err("the other way round");
        assert_eq!(
            wrong.to_string(),
            "a has the images of 2 ranks, 1Nx2P+1Nx1P puts 1 there"
        );
        assert!(merged.is_mapped(&mapping, &["a", "c"]).is_err());
    }

    #[test]
    fn a_shared_directory_is_counted_once_however_many_nodes_see_it() {
        let (a, b) = on_two_nodes();
        let both = || dir(a.images.iter().chain(&b.images).cloned().collect());
        let once = [("a".to_owned(), both())];
        let twice = [
            ("a".to_owned(), both()),
            ("b".to_owned(), both()),
            ("c".to_owned(), both()),
        ];
        let once = merge(&once, &["a", "b"], by_host).expect("whole");
        let twice = merge(&twice, &["a", "b"], by_host).expect("whole");
        assert_eq!(ranks(&once), RANKS);
        assert_eq!(ranks(&twice), RANKS);
        assert_eq!(
            (once.all, once.stored_bytes, once.files_dirs),
            (twice.all, twice.stored_bytes, twice.files_dirs)
        );
        assert_eq!(once.nodes, twice.nodes);
        assert!(!once.is_shared && twice.is_shared);
    }

    #[test]
    fn nodes_that_see_a_file_differently_are_named() {
        let (a, _) = on_two_nodes();
        let mut stale = dir(a.images.clone());
        stale.images[1].image.file_bytes -= 1;
        let (size, file) = (a.images[1].image.file_bytes, a.images[1].file.clone());
        let views = [("a".to_owned(), a), ("b".to_owned(), stale)];
        let error = merge(&views, &["a", "b"], by_host).expect_err("they differ");
        assert_eq!(
            error,
            Disagreement {
                file,
                node: "b".into(),
                bytes: size - 1,
                other: "a".into(),
                other_bytes: size
            }
        );
    }

    #[test]
    fn all_sizes_that_a_node_reports_are_summed_up() {
        let (mut a, _) = on_two_nodes();
        for image in &mut a.images {
            image.image.file_bytes = u64::MAX;
        }
        let views = [("a".to_owned(), a)];
        let merged = merge(&views, &["a"], |_, seen| seen.first().copied()).expect("whole");
        assert_eq!(
            (merged.all.file_bytes, merged.stored_bytes),
            (u64::MAX, u64::MAX)
        );
    }

    #[test]
    fn ranks_without_a_known_node_have_no_number_unless_there_is_but_one_node() {
        let (a, _) = on_two_nodes();
        let views = [("a".to_owned(), a)];
        let unknown = merge(&views, &["a", "b"], |_, _| None).expect("whole");
        assert!(unknown.images.iter().all(|p| p.rank.is_none()) && unknown.nodes.is_empty());
        assert_eq!(
            unknown.is_mapped(&Mapping::one_node(7), &["a"]),
            Ok(()),
            "nothing is proved"
        );
        let one = merge(&views, &["a"], |_, _| None).expect("whole");
        assert_eq!(
            one.images.iter().filter_map(|p| p.rank).collect::<Vec<_>>(),
            [0, 1]
        );
    }
}
