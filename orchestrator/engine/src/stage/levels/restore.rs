//! Finds the newest checkpoint available at any level, and puts its files where the restart reads them.

use super::{
    figures::RestoreFigures,
    node_work::{NodeWork, Trouble, whole},
};
use crate::{run::RunFailure, stage::KeptOnNode};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{campaign::parity_groups, outcome::Cause, strategy::LevelScheme};
use cvc_probe::sentinel::{FileTable, KeptPart, LevelManifest, LevelWork, Movement};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::PathBuf,
    time::Instant,
};

/// Name in records for a checkpoint's source on shared storage.
const SHARED: &str = "shared";

/// Returns the path of a node's part of a flushed checkpoint.
pub(super) fn flushed_part(dir: &Utf8Path, id: u64, node: &str) -> Utf8PathBuf {
    dir.join(id.to_string()).join(node)
}

/// Which nodes keep copies or parity of other nodes' files. Nodes are identified by number.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    scheme: LevelScheme,
    nodes: usize,
    parity: Vec<Range<usize>>,
}

impl Groups {
    pub fn new(scheme: LevelScheme, nodes: usize, size: usize) -> Self {
        let parity = match scheme {
            LevelScheme::Local | LevelScheme::Partner => Vec::new(),
            LevelScheme::Xor => parity_groups(nodes, size).unwrap_or_default(),
        };
        Self {
            scheme,
            nodes,
            parity,
        }
    }

    /// Returns the groups of nodes that share parity.
    pub fn all(&self) -> impl Iterator<Item = Range<usize>> {
        self.parity.iter().cloned()
    }

    /// Returns the node that keeps a copy of this node's files.
    fn partner(&self, node: usize) -> usize {
        (node + 1) % self.nodes.max(1)
    }

    fn group(&self, node: usize) -> Option<Range<usize>> {
        self.all().find(|group| group.contains(&node))
    }

    /// Returns the nodes whose files this node can help to rebuild, including itself.
    pub fn known_to(&self, node: usize) -> Vec<usize> {
        match self.scheme {
            LevelScheme::Local => vec![node],
            LevelScheme::Partner => {
                let before = (node + self.nodes - 1) % self.nodes.max(1);
                let mut known = vec![before, node];
                known.dedup();
                known
            }
            LevelScheme::Xor => self.group(node).map_or(vec![node], Iterator::collect),
        }
    }

    /// Returns why the files of these lost nodes cannot be recovered; `None` if they can.
    fn unrecoverable(&self, lost: &BTreeSet<usize>, names: &[String]) -> Option<String> {
        let name = |node: usize| names.get(node).map_or("?", String::as_str);
        match self.scheme {
            LevelScheme::Local => {
                let first = *lost.first()?;
                Some(format!(
                    "{} has lost its files, and with `local` no other node has them",
                    name(first)
                ))
            }
            LevelScheme::Partner => {
                let both = lost
                    .iter()
                    .find(|node| lost.contains(&self.partner(**node)))?;
                Some(format!(
                    "{} has lost its files and {}, its partner, the copy of them",
                    name(*both),
                    name(self.partner(*both))
                ))
            }
            LevelScheme::Xor => {
                let of = |group: Range<usize>| -> Vec<&str> {
                    group.filter(|n| lost.contains(n)).map(name).collect()
                };
                let mut all = self.all().map(of);
                let several = all.find(|lost| lost.len() > 1)?;
                Some(format!(
                    "{} of one parity group have lost their files, and a group survives the loss of only one node",
                    several.join(" and ")
                ))
            }
        }
    }

    /// Returns the data moves that rebuild the files of lost nodes.
    fn rebuild(&self, lost: &BTreeSet<usize>, names: &[String], tables: &[FileTable]) -> Movement {
        let mut movement = Movement::default();
        for node in lost {
            let table = tables[*node].clone();
            match (self.scheme, self.group(*node)) {
                (LevelScheme::Partner, _) => {
                    let part = KeptPart::Of(names[*node].clone());
                    movement.copy(self.partner(*node), part, *node, KeptPart::Own, table);
                }
                (LevelScheme::Xor, Some(group)) => {
                    let bytes: Vec<u64> =
                        tables[group.clone()].iter().map(FileTable::bytes).collect();
                    let place = node - group.start;
                    movement.rebuild(&group.collect::<Vec<_>>(), &bytes, place, table);
                }
                (LevelScheme::Local | LevelScheme::Xor, _) => {}
            }
        }
        movement
    }
}

/// A checkpoint that nodes or shared storage may still have.
struct Candidate {
    id: u64,
    ckpt: u64,
    /// Tables of the files, by node.
    tables: BTreeMap<String, FileTable>,
    /// Nodes that still have their part; `None` for a checkpoint on shared storage.
    holders: Option<BTreeSet<String>>,
}

/// Where the checkpoints of a run are searched.
pub(super) struct Sources<'a> {
    pub nodes: &'a NodeWork,
    /// Names of the nodes that kept the checkpoints, in the order of `nodes`. Where the names at the same position differ, the node in `nodes` has
    /// replaced the owner.
    pub owners: &'a [String],
    pub scheme: LevelScheme,
    pub groups: Groups,
    /// Directories of images, which are emptied before restored images are put there.
    pub image_dirs: &'a [PathBuf],
    /// Directory to which checkpoints are flushed; `None` if they are not flushed.
    pub flush_dir: Option<&'a Utf8Path>,
    /// Whether a checkpoint was flushed.
    pub is_flushed: bool,
    /// Whether files are copied instead of linked, because the program may change them.
    pub as_copies: bool,
    /// Checkpoints to consider; `None` for all.
    pub among: Option<&'a [KeptOnNode]>,
}

impl Sources<'_> {
    fn has(&self, id: u64) -> bool {
        self.among
            .is_none_or(|all| all.iter().any(|kept| kept.id == id))
    }
}

/// A restored checkpoint.
pub(super) struct Restoration {
    pub figures: RestoreFigures,
    pub id: u64,
    /// Files of each node after the restoration, each with the directory that contains the copies, in the order of the nodes.
    pub parts: Vec<(FileTable, PathBuf)>,
}

fn fail(why: &str) -> RunFailure {
    RunFailure::new(
        Cause::Restart,
        format!("no checkpoint can be restarted: {why}"),
    )
}

/// Returns the checkpoints that can be restored, according to their manifests, newest first. Each is a tuple of its number among the kept
/// checkpoints, its number in its attempt, and its bytes.
///
/// # Errors
/// No checkpoint can be restored; the error has the reasons.
pub(super) async fn available(sources: &Sources<'_>) -> Result<Vec<(u64, u64, u64)>, RunFailure> {
    let (mut all, mut why) = (Vec::new(), Vec::new());
    for candidate in find(sources).await? {
        let of = Restore::new(sources, &candidate);
        let unrecoverable = match &candidate.holders {
            Some(holders) => of.groups.unrecoverable(&of.lost(holders), sources.owners),
            None => None,
        };
        match (unrecoverable, of.tables()) {
            (None, Some(tables)) => {
                let bytes = tables.iter().map(FileTable::bytes).sum();
                all.push((candidate.id, candidate.ckpt, bytes));
            }
            (Some(reason), _) => why.push(format!("checkpoint {}: {reason}", candidate.ckpt)),
            (None, None) => why.push(format!(
                "checkpoint {}: the tables of its files are lost",
                candidate.ckpt
            )),
        }
    }
    if all.is_empty() {
        return Err(none(sources, why));
    }
    Ok(all)
}

/// Returns the failure that no checkpoint can be restored, with the reasons.
fn none(sources: &Sources<'_>, mut why: Vec<String>) -> RunFailure {
    if why.is_empty() {
        why.push("no node has a complete one".to_owned());
    }
    if sources.flush_dir.is_none() {
        why.push("none is flushed to shared storage (flush_every)".to_owned());
    } else if !sources.is_flushed {
        why.push("none had been flushed to shared storage".to_owned());
    }
    fail(&why.join("; "))
}

/// Restores the newest restorable checkpoint to where the restart reads it.
pub(super) async fn restore(sources: &Sources<'_>) -> Result<Restoration, RunFailure> {
    let begin = Instant::now();
    if sources.nodes.names.is_empty() {
        return Err(fail("nodes keep none"));
    }
    let mut why = Vec::new();
    let mut lost_of_last = None;
    for candidate in find(sources).await? {
        let of = Restore::new(sources, &candidate);
        let restored = match &candidate.holders {
            Some(holders) => of.from_nodes(holders).await?,
            None => of.from_shared(sources.flush_dir).await?,
        };
        match restored {
            Ok(restored) => {
                let from = match candidate.holders {
                    Some(_) => sources.scheme.word(),
                    None => SHARED,
                };
                let figures = RestoreFigures {
                    ckpt: candidate.ckpt,
                    from,
                    lost: restored.lost.max(lost_of_last.unwrap_or(0)),
                    restore_s: begin.elapsed().as_secs_f64(),
                    rebuild_s: restored.rebuild_s,
                    rebuilt_bytes: restored.bytes,
                };
                return Ok(Restoration {
                    figures,
                    id: candidate.id,
                    parts: of.parts(sources.flush_dir),
                });
            }
            Err(unrecoverable) => {
                lost_of_last = lost_of_last.or(Some(unrecoverable.lost));
                let ckpt = candidate.ckpt;
                why.push(format!("checkpoint {ckpt}: {}", unrecoverable.why));
            }
        }
    }
    Err(none(sources, why))
}

/// Returns all checkpoints that nodes or shared storage still have, newest first. If both have the same checkpoint, the nodes' copy comes first.
async fn find(sources: &Sources<'_>) -> Result<Vec<Candidate>, RunFailure> {
    let nodes = sources.nodes;
    let mut by_id: BTreeMap<u64, Candidate> = BTreeMap::new();
    for (node, found) in nodes.ask(nodes.everywhere(&LevelWork::Scan)).await {
        // a node that does not answer has no manifests
        for manifest in found.map(|done| done.manifests).unwrap_or_default() {
            let candidate = by_id.entry(manifest.id).or_insert_with(|| Candidate {
                id: manifest.id,
                ckpt: manifest.ckpt,
                tables: BTreeMap::new(),
                holders: Some(BTreeSet::new()),
            });
            candidate.tables.extend(manifest.tables);
            candidate
                .holders
                .get_or_insert_default()
                .insert(node.clone());
        }
    }
    let mut all: Vec<Candidate> = by_id.into_values().collect();
    if let Some(dir) = sources.flush_dir {
        let what = "flushed checkpoints cannot be searched";
        let found = nodes
            .first(dir, LevelWork::Scan, Cause::Restart, what)
            .await?;
        let flushed = |LevelManifest {
                           id, ckpt, tables, ..
                       }| Candidate {
            id,
            ckpt,
            tables,
            holders: None,
        };
        all.extend(found.manifests.into_iter().map(flushed));
    }
    all.retain(|candidate| sources.has(candidate.id));
    all.sort_by_key(|candidate| (std::cmp::Reverse(candidate.id), candidate.holders.is_none()));
    Ok(all)
}

/// Figures of the work done to restore a checkpoint.
struct Restored {
    lost: usize,
    rebuild_s: f64,
    bytes: u64,
}

/// Why a checkpoint cannot be restored.
struct UnrecoverableLoss {
    lost: usize,
    why: String,
}

/// The restoration of one checkpoint.
struct Restore<'a> {
    nodes: &'a NodeWork,
    owners: &'a [String],
    groups: Groups,
    candidate: &'a Candidate,
    image_dirs: &'a [PathBuf],
    as_copies: bool,
}

impl<'a> Restore<'a> {
    fn new(sources: &Sources<'a>, candidate: &'a Candidate) -> Self {
        Self {
            nodes: sources.nodes,
            owners: sources.owners,
            groups: sources.groups.clone(),
            candidate,
            image_dirs: sources.image_dirs,
            as_copies: sources.as_copies,
        }
    }

    /// Returns the numbers of the nodes that lack their part, or that were replaced by another node.
    fn lost(&self, holders: &BTreeSet<String>) -> BTreeSet<usize> {
        let pairs = self.nodes.names.iter().zip(self.owners).enumerate();
        let lost = pairs.filter(|(_, (name, owner))| name != owner || !holders.contains(*name));
        lost.map(|(number, _)| number).collect()
    }

    /// Returns the file table of a node, with the paths for the node that now has this number. Paths of session files contain the node's name, so
    /// they change if another node has replaced the owner.
    fn with_new_paths(&self, node: usize, table: &FileTable) -> FileTable {
        let mut table = table.clone();
        let (Some(name), Some(owner)) = (self.nodes.names.get(node), self.owners.get(node)) else {
            return table;
        };
        let (from, to) = (self.nodes.session_dir(owner), self.nodes.session_dir(name));
        for kept in &mut table.0 {
            let below = kept.path.strip_prefix(&from).map(PathBuf::from);
            match below {
                Ok(below) if below.as_os_str().is_empty() => kept.path.clone_from(&to),
                Ok(below) => kept.path = to.join(below),
                Err(_) => {}
            }
        }
        table
    }

    /// Returns the files of each node after the restoration, with the directory that contains the copies.
    fn parts(&self, flush_dir: Option<&Utf8Path>) -> Vec<(FileTable, PathBuf)> {
        let id = self.candidate.id;
        let place = |owner: &String| match (&self.candidate.holders, flush_dir) {
            (None, Some(dir)) => flushed_part(dir, id, owner).into(),
            (None, None) | (Some(_), _) => self.nodes.own_dir(id),
        };
        let tables = self.tables().unwrap_or_default();
        let tables = tables.iter().enumerate();
        let tables = tables.map(|(node, table)| self.with_new_paths(node, table));
        tables.zip(self.owners.iter().map(place)).collect()
    }
}

impl Restore<'_> {
    /// Restores the checkpoint from the nodes' copies, and rebuilds the files of lost nodes. A node whose files turn out to be damaged counts as
    /// lost.
    async fn from_nodes(
        &self,
        holders: &BTreeSet<String>,
    ) -> Result<Result<Restored, UnrecoverableLoss>, RunFailure> {
        let (names, id) = (&self.nodes.names, self.candidate.id);
        let mut lost = self.lost(holders);
        loop {
            let unrecoverable = |why| UnrecoverableLoss {
                lost: lost.len(),
                why,
            };
            if let Some(why) = self.groups.unrecoverable(&lost, self.owners) {
                return Ok(Err(unrecoverable(why)));
            }
            let Some(tables) = self.tables() else {
                let why = "the tables of its files are lost".to_owned();
                return Ok(Err(unrecoverable(why)));
            };
            let (begin, movement) = (
                Instant::now(),
                self.groups.rebuild(&lost, self.owners, &tables),
            );
            let tried = match self.nodes.try_to_carry_out(id, &movement).await {
                Ok(_) => {
                    let rebuild_s = begin.elapsed().as_secs_f64();
                    let place = |(node, table): (usize, &FileTable)| {
                        let work = self.place(self.nodes.own_dir(id), node, table);
                        (names[node].clone(), work)
                    };
                    let works = tables.iter().enumerate().map(place).collect();
                    whole(self.nodes.ask(works).await).map(|_| rebuild_s)
                }
                Err(trouble) => Err(trouble),
            };
            match tried {
                Ok(rebuild_s) => {
                    let bytes = lost.iter().map(|node| tables[*node].bytes()).sum();
                    return Ok(Ok(Restored {
                        lost: lost.len(),
                        rebuild_s,
                        bytes,
                    }));
                }
                Err((node, trouble)) => {
                    let number = names.iter().position(|name| *name == node);
                    let number = number.filter(|_| trouble.is_damage());
                    let Some(number) = number.filter(|number| !lost.contains(number)) else {
                        return self.give_up(&node, trouble, lost.len());
                    };
                    lost.insert(number);
                }
            }
        }
    }

    /// Converts a node's error while this checkpoint was restored. Damage beyond repair becomes [`UnrecoverableLoss`], so that an older checkpoint
    /// can be tried; any other error is a failure of the run.
    fn give_up(
        &self,
        node: &str,
        trouble: Trouble,
        lost: usize,
    ) -> Result<Result<Restored, UnrecoverableLoss>, RunFailure> {
        let is_damage = trouble.is_damage();
        let what = format!("checkpoint {} cannot be restored", self.candidate.ckpt);
        let failure = trouble.failure(node, Cause::Restart, &what);
        if !is_damage {
            return Err(failure);
        }
        Ok(Err(UnrecoverableLoss {
            lost,
            why: failure.detail,
        }))
    }

    /// Restores the checkpoint from its copy on shared storage.
    async fn from_shared(
        &self,
        flush_dir: Option<&Utf8Path>,
    ) -> Result<Result<Restored, UnrecoverableLoss>, RunFailure> {
        let (Some(tables), Some(dir)) = (self.tables(), flush_dir) else {
            let why = "its manifest on shared storage lacks nodes".to_owned();
            return Ok(Err(UnrecoverableLoss { lost: 0, why }));
        };
        let place = |(node, table): (usize, &FileTable)| {
            let from = flushed_part(dir, self.candidate.id, &self.owners[node]);
            let work = self.place(from.into(), node, table);
            (self.nodes.names[node].clone(), work)
        };
        let works = tables.iter().enumerate().map(place).collect();
        match whole(self.nodes.ask(works).await) {
            Ok(_) => Ok(Ok(Restored {
                lost: 0,
                rebuild_s: 0.0,
                bytes: 0,
            })),
            Err((node, trouble)) => self.give_up(&node, trouble, 0),
        }
    }

    /// Returns the file tables of all nodes, in the order of the nodes; `None` if one is missing.
    fn tables(&self) -> Option<Vec<FileTable>> {
        let owners = self.owners.iter();
        owners
            .map(|name| self.candidate.tables.get(name).cloned())
            .collect()
    }

    fn place(&self, from: PathBuf, node: usize, table: &FileTable) -> LevelWork {
        LevelWork::Place {
            from,
            table: self.with_new_paths(node, table),
            clear: self.image_dirs.to_vec(),
            as_copies: self.as_copies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (1..=count).map(|n| format!("n{n}")).collect()
    }

    fn unrecoverable(
        scheme: LevelScheme,
        nodes: usize,
        size: usize,
        lost: &[usize],
    ) -> Option<String> {
        let lost = lost.iter().copied().collect();
        Groups::new(scheme, nodes, size).unrecoverable(&lost, &names(nodes))
    }

    #[test]
    fn each_scheme_recovers_from_the_losses_it_can_and_names_the_others() {
        use LevelScheme::{Local, Partner, Xor};
        assert_eq!(unrecoverable(Local, 3, 4, &[]), None);
        let why = unrecoverable(Local, 3, 4, &[1]).expect("one is too many");
        assert!(why.contains("n2"), "{why}");
        // neighbours are partners; the last node's partner is the first
        assert_eq!(unrecoverable(Partner, 4, 4, &[0, 2]), None);
        for (lost, expected) in [
            ([1, 2], "n2 has lost its files and n3,"),
            ([3, 0], "n4 has lost its files and n1,"),
        ] {
            let why = unrecoverable(Partner, 4, 4, &lost).expect("partners");
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(unrecoverable(Xor, 6, 3, &[0, 5]), None, "of two groups");
        let why = unrecoverable(Xor, 6, 3, &[3, 5]).expect("of one group");
        assert!(why.starts_with("n4 and n6 of one parity group"), "{why}");
    }

    #[test]
    fn manifests_have_the_tables_that_a_loss_needs() {
        let partner = Groups::new(LevelScheme::Partner, 3, 4);
        assert_eq!(partner.known_to(0), [2, 0]);
        let pair = Groups::new(LevelScheme::Partner, 2, 4);
        assert_eq!(
            (pair.known_to(0), pair.known_to(1)),
            (vec![1, 0], vec![0, 1])
        );
        let xor = Groups::new(LevelScheme::Xor, 6, 4);
        assert_eq!(xor.known_to(1), [0, 1, 2, 3]);
        assert_eq!(xor.known_to(4), [4, 5]);
        assert_eq!(Groups::new(LevelScheme::Local, 6, 4).known_to(4), [4]);
    }
}
