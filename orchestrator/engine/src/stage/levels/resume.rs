//! Continues the next attempt of a run that lost a node from the checkpoints that nodes keep, perhaps on other nodes.

use super::{
    Levels, StoredCheckpoint,
    restore::{self, Sources},
};
use crate::{
    run::RunFailure,
    stage::checkpoint_stage::{KeptNode, KeptOnNode, KeptOnNodes},
};
use cvc_core::outcome::Cause;
use cvc_probe::sentinel::{FileTable, LevelWork};
use std::path::PathBuf;

impl Levels<'_> {
    /// Returns the checkpoints from which the next attempt can continue.
    pub(super) async fn available(&self) -> Result<KeptOnNodes, RunFailure> {
        let earlier = self.earlier.as_ref();
        let is_flushed = self.flushed.is_some() || earlier.is_some_and(|kept| kept.is_flushed);
        let sources = self.sources(&self.nodes.names, is_flushed);
        let details = |id: u64| {
            let mut all = earlier.iter().flat_map(|kept| &kept.checkpoints);
            all.find(|kept| kept.id == id)?.details.clone()
        };
        let mut checkpoints: Vec<KeptOnNode> = Vec::new();
        for (id, ckpt, bytes) in restore::available(&sources).await? {
            if checkpoints.last().is_none_or(|last| last.id != id) {
                let details = details(id);
                checkpoints.push(KeptOnNode {
                    id,
                    ckpt,
                    bytes,
                    details,
                });
            }
        }
        let node = |name: &String| {
            let place = self.ranks.iter().position(|rank| rank == name)?;
            let name = name.clone();
            Some(KeptNode { place, name })
        };
        let nodes: Option<Vec<KeptNode>> = match (self.kept.is_empty(), earlier) {
            (true, Some(earlier)) => Some(earlier.nodes.clone()),
            (true, None) | (false, _) => self.nodes.names.iter().map(node).collect(),
        };
        Ok(KeptOnNodes {
            nodes: nodes.unwrap_or_default(),
            checkpoints,
            image_dirs: self.image_dirs.clone(),
            is_flushed,
        })
    }

    /// Restores a checkpoint of an earlier attempt, and stores it again with all of its redundancy, because the nodes may have changed.
    pub(super) async fn restore_and_keep(
        &mut self,
        earlier: &KeptOnNodes,
    ) -> Result<KeptOnNode, RunFailure> {
        let name = |node: &KeptNode| self.ranks.get(node.place).cloned();
        let names: Option<Vec<String>> = earlier.nodes.iter().map(name).collect();
        let Some(names) = names else {
            let why = "its checkpoints are on more nodes than it has now";
            return Err(RunFailure::new(Cause::Restart, why));
        };
        self.nodes.names = names;
        self.image_dirs.clone_from(&earlier.image_dirs);
        self.earlier = Some(earlier.clone());
        let owners: Vec<String> = earlier.nodes.iter().map(|node| node.name.clone()).collect();
        let sources = Sources {
            // images are only replaced, but a program may write into its own files
            as_copies: earlier.image_dirs.is_empty(),
            among: Some(&earlier.checkpoints),
            ..self.sources(&owners, earlier.is_flushed)
        };
        let restore::Restoration { figures, id, parts } = restore::restore(&sources).await?;
        let found = earlier.checkpoints.iter().find(|kept| kept.id == id);
        let found = found.cloned().ok_or_else(|| {
            let why = format!("internal error (please report): checkpoint {id} was not looked for");
            RunFailure::new(Cause::Restart, why)
        })?;
        self.restored = Some(figures);
        self.renew(&found, parts).await?;
        Ok(found)
    }

    /// Stores a restored checkpoint as a checkpoint of the current nodes, and removes all earlier checkpoints.
    async fn renew(
        &mut self,
        of: &KeptOnNode,
        parts: Vec<(FileTable, PathBuf)>,
    ) -> Result<(), RunFailure> {
        let earlier = self.earlier.iter().flat_map(|kept| &kept.checkpoints);
        let last = earlier.map(|kept| kept.id).max().unwrap_or(of.id);
        let (id, ckpt) = (last + 1, of.ckpt);
        let what = format!("checkpoint {ckpt} cannot be stored again");
        let pairs = self.nodes.names.iter().zip(&parts);
        let adopt = |(name, (table, from)): (&String, &(FileTable, PathBuf))| {
            let (table, from) = (table.clone(), from.clone());
            (name.clone(), LevelWork::Adopt { id, from, table })
        };
        let works = pairs.map(adopt).collect();
        self.nodes.all(works, Cause::Restart, &what).await?;
        let tables: Vec<FileTable> = parts.into_iter().map(|(table, _)| table).collect();
        let movement = self.redundancy(&tables);
        self.nodes
            .carry_out(id, &movement, Cause::Restart, &what)
            .await?;
        let manifests = self.manifests(id, ckpt, &tables);
        self.nodes.all(manifests, Cause::Restart, &what).await?;
        self.kept = vec![StoredCheckpoint { id, ckpt }];
        if let Some(earlier) = &mut self.earlier {
            earlier.checkpoints.push(KeptOnNode { id, ..of.clone() });
        }
        self.release(&what).await
    }
}
