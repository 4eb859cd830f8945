//! Multi-level checkpoints, which nodes keep themselves: on the node, with a copy on a partner node or with parity over a group of nodes; some are
//! also flushed to shared storage.
//!
//! A checkpoint is complete once its manifest is on all of its nodes. The manifest is written after all other files of the checkpoint exist; until
//! then the previous complete checkpoint is kept.

mod figures;
mod node_work;
mod restore;
mod resume;

use super::checkpoint_stage::{Hold, KeptOnNode, KeptOnNodes, NodePart, Stage, Taken};
use crate::run::{AllocatedNodes, Findings, RunFailure};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    campaign::{FlushSettings, LevelPlan, LevelSettings, parity_groups},
    outcome::Cause,
    strategy::LevelScheme,
};
use cvc_probe::sentinel::{
    CheckpointFiles, FileTable, KeptPart, LevelManifest, LevelWork, Movement,
};
use figures::{FlushFigures, KeptFigures, RestoreFigures};
use node_work::NodeWork;
use restore::{Groups, Sources};
use std::{collections::BTreeMap, path::PathBuf, time::Instant};
use tokio::task::JoinHandle;

/// The checkpoints of a run that its nodes keep.
pub(super) struct Levels<'r> {
    /// Nodes of the run's ranks, in the order of the mapping.
    ranks: Vec<String>,
    /// The run's directory on shared storage.
    flush_dir: Option<&'r Utf8Path>,
    scheme: LevelScheme,
    settings: &'r LevelSettings,
    nodes: NodeWork,
    /// Directories of images, which are emptied before restored images are put there.
    image_dirs: Vec<PathBuf>,
    /// The checkpoint that each node has copied, but that is not complete yet.
    held: Option<Held>,
    /// The complete checkpoints that are kept, oldest first.
    kept: Vec<StoredCheckpoint>,
    /// Number of this attempt's last complete checkpoint.
    counted: Option<u64>,
    /// The kept checkpoints of an earlier attempt.
    earlier: Option<KeptOnNodes>,
    /// Number (`id`) of the last checkpoint on shared storage.
    flushed: Option<u64>,
    flushing: Option<Flushing>,
    /// Why a background flush did not finish.
    unflushed: Option<String>,
    figures: Vec<KeptFigures>,
    flushes: Vec<FlushFigures>,
    restored: Option<RestoreFigures>,
}

/// A checkpoint that each node has copied, but that is not complete yet.
#[derive(Clone, Debug)]
struct Held {
    local_s: f64,
    /// Tables of the nodes' files, in the order of the nodes.
    tables: Vec<FileTable>,
}

/// A complete checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredCheckpoint {
    id: u64,
    ckpt: u64,
}

/// A flush that runs in the background.
struct Flushing {
    id: u64,
    task: JoinHandle<Result<FlushFigures, RunFailure>>,
}

impl<'r> Levels<'r> {
    /// Creates the stage for a run, without checkpoints.
    pub fn new(
        used: &AllocatedNodes,
        work: &Utf8Path,
        flush_dir: Option<&'r Utf8Path>,
        plan: &'r LevelPlan,
    ) -> Self {
        let at = plan.place.directory.of(work);
        Self {
            ranks: used.ranks.iter().map(|node| node.name.clone()).collect(),
            flush_dir,
            scheme: plan.scheme,
            settings: &plan.settings,
            nodes: NodeWork::new(used.clone(), at),
            image_dirs: Vec::new(),
            held: None,
            kept: Vec::new(),
            counted: None,
            earlier: None,
            flushed: None,
            flushing: None,
            unflushed: None,
            figures: Vec::new(),
            flushes: Vec::new(),
            restored: None,
        }
    }

    /// Returns the number (`id`) of the next kept checkpoint.
    fn next(&self) -> u64 {
        self.kept.last().map_or(1, |last| last.id + 1)
    }

    /// Returns the settings and the target directory of flushes; `None` if checkpoints are not flushed.
    fn flush_plan(&self) -> Option<(&'r FlushSettings, &'r Utf8Path)> {
        let flush = self.settings.flush.as_ref()?;
        Some((flush, self.flush_dir?))
    }

    /// Records the nodes that have parts of a checkpoint, in the order of the mapping. They must be the same for every checkpoint.
    fn note_nodes(&mut self, taken: &Taken, what: &str) -> Result<(), RunFailure> {
        let has_part = |name: &str| taken.parts.iter().any(|part| part.node == name);
        let ranks = self.ranks.iter().filter(|name| has_part(name));
        let nodes: Vec<String> = ranks.cloned().collect();
        let problem =
            |why: String| Err(RunFailure::new(Cause::Checkpoint, format!("{what}: {why}")));
        if nodes.len() < taken.parts.len() {
            let ranks: Vec<&str> = nodes.iter().map(String::as_str).collect();
            return problem(format!(
                "it has files on other nodes than those of its ranks ({})",
                ranks.join(", ")
            ));
        }
        if !self.nodes.names.is_empty() && self.nodes.names != nodes {
            let (now, before) = (nodes.join(", "), self.nodes.names.join(", "));
            return problem(format!(
                "its files are on {now}, the previous ones on {before}"
            ));
        }
        if self.scheme == LevelScheme::Partner && nodes.len() < 2 {
            return problem(format!(
                "its files are on {} alone, which has no partner",
                nodes.join("")
            ));
        }
        if self.scheme == LevelScheme::Xor
            && parity_groups(nodes.len(), self.settings.group as usize).is_err()
        {
            let (count, group) = (nodes.len(), self.settings.group);
            return problem(format!(
                "its files are on {count} nodes, which cannot be divided into groups of {group}"
            ));
        }
        self.nodes.names = nodes;
        Ok(())
    }

    fn groups(&self) -> Groups {
        Groups::new(
            self.scheme,
            self.nodes.names.len(),
            self.settings.group as usize,
        )
    }

    /// Makes each node copy its own files of a checkpoint.
    async fn hold_all(&self, taken: &Taken, what: &str) -> Result<Held, RunFailure> {
        let begin = Instant::now();
        let id = self.next();
        let hold = |name: &String| {
            let part = taken.parts.iter().find(|part| part.node == *name)?;
            let work = LevelWork::Hold {
                id,
                from: part.files.clone(),
                also: part.also.clone(),
            };
            Some((name.clone(), work))
        };
        let works = self.nodes.names.iter().filter_map(hold).collect();
        let done = self.nodes.all(works, Cause::Checkpoint, what).await?;
        Ok(Held {
            local_s: begin.elapsed().as_secs_f64(),
            tables: done.into_iter().map(|done| done.table).collect(),
        })
    }

    /// Returns the data moves between nodes that create redundant copies or parity.
    fn redundancy(&self, tables: &[FileTable]) -> Movement {
        let (mut movement, count) = (Movement::default(), tables.len());
        match self.scheme {
            LevelScheme::Local => {}
            LevelScheme::Partner => {
                for (from, table) in tables.iter().enumerate() {
                    let kept = KeptPart::Of(self.nodes.names[from].clone());
                    let to = (from + 1) % count;
                    movement.copy(from, KeptPart::Own, to, kept, table.clone());
                }
            }
            LevelScheme::Xor => {
                for group in self.groups().all() {
                    let bytes: Vec<u64> =
                        tables[group.clone()].iter().map(FileTable::bytes).collect();
                    movement.parity(&group.collect::<Vec<_>>(), &bytes);
                }
            }
        }
        movement
    }

    /// Returns the requests that write each node's manifest. A manifest has the file tables of all nodes that this node can help to rebuild.
    fn manifests(&self, id: u64, ckpt: u64, tables: &[FileTable]) -> Vec<(String, LevelWork)> {
        let (names, groups) = (&self.nodes.names, self.groups());
        let manifest = |node: usize| {
            let known = groups.known_to(node);
            let tables = known
                .into_iter()
                .map(|n| (names[n].clone(), tables[n].clone()));
            let manifest = LevelManifest {
                id,
                ckpt,
                nodes: names.clone(),
                tables: tables.collect(),
            };
            (names[node].clone(), LevelWork::Commit(manifest))
        };
        (0..names.len()).map(manifest).collect()
    }

    /// Removes the oldest checkpoints if more are kept than configured. If one of them is being flushed, first waits for that flush.
    async fn release(&mut self, what: &str) -> Result<(), RunFailure> {
        let excess = self.kept.len().saturating_sub(self.settings.keep as usize);
        let flushing = self.flushing.as_ref().map(|flushing| flushing.id);
        if self.kept[..excess]
            .iter()
            .any(|kept| Some(kept.id) == flushing)
        {
            // wait, so that there are never more checkpoints than planned
            self.end_flush().await?;
        }
        self.kept.drain(..excess);
        let keep: Vec<u64> = self.kept.iter().map(|kept| kept.id).collect();
        let works = self.nodes.everywhere(&LevelWork::Release(keep));
        self.nodes
            .all(works, Cause::Checkpoint, what)
            .await
            .map(drop)
    }

    /// Copies the last checkpoint to shared storage, if its number is due for that.
    async fn flush(&mut self, tables: &[FileTable]) -> Result<(), RunFailure> {
        let (Some(last), Some((settings, to))) = (self.kept.last().copied(), self.flush_plan())
        else {
            return Ok(());
        };
        let is_done = self.flushed == Some(last.id)
            || self.flushing.as_ref().is_some_and(|f| f.id == last.id);
        if is_done || last.id % u64::from(settings.every) != 0 {
            return Ok(());
        }
        self.end_flush().await?;
        let flush = Flush {
            nodes: self.nodes.clone(),
            kept: last,
            tables: tables.to_vec(),
            to: to.to_owned(),
            behind: settings.behind,
        };
        if settings.behind {
            let task = tokio::spawn(flush.carry_out());
            self.flushing = Some(Flushing { id: last.id, task });
        } else {
            let figures = flush.carry_out().await?;
            self.note_flush(figures, last.id);
        }
        Ok(())
    }

    fn note_flush(&mut self, figures: FlushFigures, id: u64) {
        self.flushes.push(figures);
        self.flushed = Some(id);
    }

    /// Waits for the background flush, if there is one.
    async fn end_flush(&mut self) -> Result<(), RunFailure> {
        // if this future is dropped while it waits, the next call waits again
        let Some(flushing) = &mut self.flushing else {
            return Ok(());
        };
        let ended = (&mut flushing.task).await;
        let id = flushing.id;
        self.flushing = None;
        let failed = |error: tokio::task::JoinError| {
            RunFailure::new(
                Cause::Checkpoint,
                format!("internal error (please report): {error}"),
            )
        };
        let figures = ended.map_err(failed)??;
        self.note_flush(figures, id);
        Ok(())
    }
}

impl Levels<'_> {
    /// Waits for the background flush after the program's end. A failed flush, for example after the loss of a node, is only recorded.
    async fn settle_flush(&mut self) {
        if let Err(failure) = self.end_flush().await {
            self.unflushed = Some(failure.detail);
        }
    }
}

impl Levels<'_> {
    /// Returns where the checkpoints that the nodes `owners` kept are searched.
    fn sources<'a>(&'a self, owners: &'a [String], is_flushed: bool) -> Sources<'a> {
        Sources {
            nodes: &self.nodes,
            owners,
            scheme: self.scheme,
            groups: self.groups(),
            image_dirs: &self.image_dirs,
            flush_dir: self.flush_plan().map(|(_, dir)| dir),
            is_flushed,
            as_copies: false,
            among: None,
        }
    }
}

/// A flush of one checkpoint.
struct Flush {
    nodes: NodeWork,
    kept: StoredCheckpoint,
    tables: Vec<FileTable>,
    to: Utf8PathBuf,
    behind: bool,
}

impl Flush {
    /// Makes all nodes copy their files, then marks the copy as complete, then removes earlier flushed checkpoints.
    async fn carry_out(self) -> Result<FlushFigures, RunFailure> {
        let begin = Instant::now();
        let StoredCheckpoint { id, ckpt } = self.kept;
        let what = format!("checkpoint {ckpt} cannot be flushed to {}", self.to);
        let names = &self.nodes.names;
        let copy = |name: &String| {
            let to = restore::flushed_part(&self.to, id, name).into();
            (name.clone(), LevelWork::Flush { id, to })
        };
        let works = names.iter().map(copy).collect();
        let done = self.nodes.all(works, Cause::Checkpoint, &what).await?;
        let tables = names.iter().cloned().zip(self.tables);
        let manifest = LevelManifest {
            id,
            ckpt,
            nodes: names.clone(),
            tables: tables.collect::<BTreeMap<_, _>>(),
        };
        for work in [LevelWork::Commit(manifest), LevelWork::Release(vec![id])] {
            self.nodes
                .first(&self.to, work, Cause::Checkpoint, &what)
                .await?;
        }
        Ok(FlushFigures {
            ckpt,
            behind: self.behind,
            seconds: begin.elapsed().as_secs_f64(),
            bytes: done.iter().map(|done| done.bytes).sum(),
        })
    }
}

#[async_trait]
impl Stage for Levels<'_> {
    /// Copies a checkpoint's files if the program writes its checkpoints itself, because such a program does not wait until the nodes keep the
    /// checkpoint.
    async fn hold(&mut self, taken: &mut Taken) -> Result<Hold, RunFailure> {
        let of_program = |part: &NodePart| matches!(part.files, CheckpointFiles::Own { .. });
        if !taken.parts.iter().all(of_program) {
            return Ok(Hold::Open);
        }
        let what = format!("checkpoint {} cannot be kept", taken.number);
        self.held = None;
        self.note_nodes(taken, &what)?;
        let held = self.hold_all(taken, &what).await?;
        let own = self.nodes.own_dir(self.next());
        for part in &mut taken.parts {
            let node = self.nodes.names.iter().position(|name| *name == part.node);
            let table = node.and_then(|n| held.tables.get(n));
            if let (CheckpointFiles::Own { work, files }, Some(_)) = (&mut part.files, table) {
                *work = own.clone();
                // the node's table lists the files in this order
                for (number, file) in files.iter_mut().enumerate() {
                    file.path = own.join(number.to_string());
                }
            }
        }
        self.held = Some(held);
        Ok(Hold::Held)
    }

    async fn after(&mut self, taken: &Taken) -> Result<(), RunFailure> {
        let (id, ckpt) = (self.next(), taken.number);
        let what = format!("checkpoint {ckpt} cannot be kept on nodes");
        if self.counted != Some(ckpt) {
            let begin = Instant::now();
            let held = match &self.held {
                Some(held) => held.clone(),
                None => {
                    self.note_nodes(taken, &what)?;
                    let held = self.hold_all(taken, &what).await?;
                    self.held = Some(held.clone());
                    held
                }
            };
            for part in &taken.parts {
                if let CheckpointFiles::Dir(dir) = &part.files {
                    self.image_dirs = vec![dir.clone()];
                }
            }
            let moved = Instant::now();
            let movement = self.redundancy(&held.tables);
            let sent_bytes = self
                .nodes
                .carry_out(id, &movement, Cause::Checkpoint, &what)
                .await?;
            let redundancy_s = moved.elapsed().as_secs_f64();
            let manifests = self.manifests(id, ckpt, &held.tables);
            self.nodes.all(manifests, Cause::Checkpoint, &what).await?;
            // for files that a program writes itself, this excludes the time for copying them
            let waited_s = (begin.elapsed().as_secs_f64()
                - moved.duration_since(begin).as_secs_f64())
            .max(0.0);
            self.figures.push(KeptFigures {
                ckpt,
                local_s: held.local_s,
                redundancy_s,
                safe_s: held.local_s + waited_s,
                kept_bytes: held.tables.iter().map(FileTable::bytes).sum(),
                sent_bytes,
            });
            self.kept.push(StoredCheckpoint { id, ckpt });
            self.counted = Some(ckpt);
        }
        // if this future is dropped after this point, the next call continues here
        let tables = self.held.as_ref().map(|held| held.tables.clone());
        if let Some(tables) = tables {
            self.flush(&tables).await?;
        }
        self.release(&what).await?;
        self.held = None;
        Ok(())
    }

    async fn before_restart(&mut self) -> Result<Option<u64>, RunFailure> {
        self.settle_flush().await;
        let last = self.kept.last().map(|last| last.ckpt);
        let sources = self.sources(&self.nodes.names, self.flushed.is_some());
        let restored = restore::restore(&sources).await?.figures;
        let ckpt = restored.ckpt;
        self.restored = Some(restored);
        Ok((Some(ckpt) != last).then_some(ckpt))
    }

    async fn keep(&mut self) -> Option<Result<KeptOnNodes, RunFailure>> {
        self.settle_flush().await;
        if let Some(earlier) = self.earlier.as_ref().filter(|_| self.kept.is_empty()) {
            // this run ended before it had restored the earlier checkpoint
            self.nodes.names = earlier.nodes.iter().map(|node| node.name.clone()).collect();
        }
        if self.nodes.names.is_empty() {
            let why = "its nodes had not kept a checkpoint yet";
            return Some(Err(RunFailure::new(Cause::Restart, why)));
        }
        Some(self.available().await)
    }

    async fn resume(&mut self, kept: &KeptOnNodes) -> Option<Result<KeptOnNode, RunFailure>> {
        Some(self.restore_and_keep(kept).await)
    }

    /// Waits for work that nodes have begun.
    async fn settle(&mut self) {
        self.settle_flush().await;
        let mut keep: Vec<u64> = self.kept.iter().map(|kept| kept.id).collect();
        if let Some(earlier) = self.earlier.as_ref().filter(|_| self.kept.is_empty()) {
            keep.extend(earlier.checkpoints.iter().map(|kept| kept.id));
        }
        keep.push(self.next());
        let works = self.nodes.everywhere(&LevelWork::Release(keep));
        let _ = self.nodes.all(works, Cause::Checkpoint, "").await;
    }

    async fn finish(&mut self) -> Result<(), RunFailure> {
        let flushed = self.end_flush().await;
        self.settle().await;
        let what = "the checkpoints that nodes keep";
        let works = self.nodes.everywhere(&LevelWork::Finish);
        let finished = self.nodes.all(works, Cause::Store, what).await.map(drop);
        let cleared = match self.flush_plan() {
            Some((_, to)) if !self.nodes.names.is_empty() => {
                let removed = self
                    .nodes
                    .first(to, LevelWork::Finish, Cause::Store, what)
                    .await;
                removed.map(drop)
            }
            _ => Ok(()),
        };
        flushed.and(finished).and(cleared)
    }

    fn measure(&self, _: u64, to: &mut Findings) {
        let way = self.scheme.word();
        self.figures
            .iter()
            .for_each(|figures| figures.record(way, to));
        self.flushes.iter().for_each(|figures| figures.record(to));
        if let Some(why) = &self.unflushed {
            to.notes.push(format!("a flush did not finish: {why}"));
        }
        if let Some(restored) = &self.restored {
            restored.record(to);
        }
    }
}

#[cfg(test)]
mod tests;
