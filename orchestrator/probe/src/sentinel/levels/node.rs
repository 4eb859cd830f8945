//! The checkpoints that a node keeps.

use super::{
    dirs::remove,
    error::LevelError,
    flow, hold, place,
    stream::{self, StreamPort},
    table::FileTable,
    work::{LevelDone, LevelManifest, LevelProblem, LevelWork},
};
use crate::sentinel::series::{CheckpointFiles, SavedFiles};
use cvc_os::atomic_file::{self, Durability};
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// File name of a checkpoint's manifest.
const MANIFEST: &str = "manifest.json";

/// The kept checkpoints of a run on this node.
#[derive(Debug, Default)]
pub(in crate::sentinel) struct NodeLevels {
    /// Files that DMTCP saved for the checkpoints kept already.
    saved: SavedFiles,
    /// Result of the last [`LevelWork::Hold`], so that a repeated request does not copy the files again.
    held: Option<(u64, CheckpointFiles, FileTable)>,
    ports: HashMap<String, StreamPort>,
}

impl NodeLevels {
    /// Carries out an operation that changes the kept checkpoints.
    pub fn work(&mut self, dir: &Path, work: &LevelWork) -> Result<LevelDone, LevelProblem> {
        let begin = Instant::now();
        let done = self.carry_out(dir, work)?;
        Ok(LevelDone {
            seconds: begin.elapsed().as_secs_f64(),
            ..done
        })
    }

    fn carry_out(&mut self, dir: &Path, work: &LevelWork) -> Result<LevelDone, LevelError> {
        let mut done = LevelDone::default();
        match work {
            LevelWork::Hold { id, from, also } => done.table = self.hold(dir, *id, from, also)?,
            LevelWork::Resolve(hosts) => {
                let addresses = hosts.iter().map(|host| stream::resolve(host));
                done.addresses = addresses.collect::<Result<_, _>>()?;
            }
            LevelWork::Listen(requests) => {
                for request in requests {
                    let (port, at) = StreamPort::open(request.address, request.token.clone())?;
                    self.ports.insert(request.name.clone(), port);
                    done.ports.push(at);
                }
            }
            LevelWork::Move { id, flows, limit_s } => {
                let limit = Duration::from_secs_f64(limit_s.clamp(0.0, 1e6));
                let moved = flow::carry_out(&checkpoint(dir, *id), flows, &mut self.ports, limit);
                // close ports that were opened for a transfer that was never requested
                self.ports.clear();
                done.bytes = moved?;
            }
            LevelWork::Commit(manifest) => commit(dir, manifest)?,
            LevelWork::Scan => done.manifests = scan(dir)?,
            LevelWork::Release(keep) => release(dir, keep)?,
            LevelWork::Flush { id, to } => done.bytes = place::flush(&checkpoint(dir, *id), to)?,
            LevelWork::Place {
                from,
                table,
                clear,
                as_copies,
            } => done.bytes = place::place(from, table, clear, *as_copies)?,
            LevelWork::Adopt { id, from, table } => {
                self.held = None;
                place::adopt(&checkpoint(dir, *id), from, table)?;
            }
            LevelWork::Finish => {
                *self = Self::default();
                remove(dir)?;
            }
        }
        Ok(done)
    }

    fn hold(
        &mut self,
        dir: &Path,
        id: u64,
        from: &CheckpointFiles,
        also: &[PathBuf],
    ) -> Result<FileTable, LevelError> {
        let to = checkpoint(dir, id);
        if let Some((held, of, table)) = &self.held
            && (*held, of) == (id, from)
            && to.exists()
        {
            return Ok(table.clone());
        }
        if id == 1 {
            // another attempt at the run starts from scratch
            self.saved = SavedFiles::default();
            remove(dir)?;
        }
        self.held = None;
        remove(&to)?;
        let table = hold::hold(&to, from, also, &mut self.saved)?;
        self.held = Some((id, from.clone(), table.clone()));
        Ok(table)
    }
}

/// Returns whether an operation leaves [`NodeLevels`] unchanged, so that it can run concurrently with others.
pub(in crate::sentinel) fn can_run_concurrently(work: &LevelWork) -> bool {
    match work {
        LevelWork::Flush { .. } | LevelWork::Resolve(_) | LevelWork::Scan => true,
        LevelWork::Hold { .. }
        | LevelWork::Listen(_)
        | LevelWork::Move { .. }
        | LevelWork::Commit(_)
        | LevelWork::Release(_)
        | LevelWork::Place { .. }
        | LevelWork::Adopt { .. }
        | LevelWork::Finish => false,
    }
}

/// Returns the directory of a checkpoint.
fn checkpoint(dir: &Path, id: u64) -> PathBuf {
    dir.join(id.to_string())
}

/// Syncs all files of a checkpoint on this node, then writes its manifest.
fn commit(dir: &Path, manifest: &LevelManifest) -> Result<(), LevelError> {
    let of = checkpoint(dir, manifest.id);
    let entries = fs::read_dir(&of).map_err(LevelError::io(&of, "list"))?;
    let sync = |path: &Path| {
        let synced = fs::File::open(path).and_then(|dir| dir.sync_all());
        synced.map_err(LevelError::io(path, "sync"))
    };
    for entry in entries {
        let path = entry.map_err(LevelError::io(&of, "list"))?.path();
        if path.is_dir() {
            sync(&path)?;
        }
    }
    sync(dir)?;
    let path = of.join(MANIFEST);
    let text = serde_json::to_vec(manifest).map_err(|e| LevelError::encode(&path, e))?;
    atomic_file::write(&path, &text, Durability::Synced).map_err(LevelError::io(&path, "write"))
}

/// Reads the existing manifests, newest first. Checkpoints whose manifest cannot be read are omitted.
fn scan(dir: &Path) -> Result<Vec<LevelManifest>, LevelError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(LevelError::io(dir, "list"))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let of = entry.map_err(LevelError::io(dir, "list"))?.path();
        let manifest: Option<LevelManifest> = fs::read(of.join(MANIFEST))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        found.extend(manifest.filter(|manifest| of == checkpoint(dir, manifest.id)));
    }
    found.sort_by_key(|manifest| std::cmp::Reverse(manifest.id));
    Ok(found)
}

/// Removes all checkpoints except these. The manifest of each checkpoint is removed first, so that after an interrupted removal no incomplete
/// checkpoint counts as kept.
fn release(dir: &Path, keep: &[u64]) -> Result<(), LevelError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(LevelError::io(dir, "list"))?,
    };
    for entry in entries {
        let path = entry.map_err(LevelError::io(dir, "list"))?.path();
        if !keep.iter().any(|id| path == checkpoint(dir, *id)) {
            let manifest = path.join(MANIFEST);
            match fs::remove_file(&manifest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(LevelError::io(&manifest, "remove")(error));
                }
                Ok(()) | Err(_) => remove(&path)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
