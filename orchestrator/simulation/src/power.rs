//! Effect of a power loss: lines that were appended to a file but not synced are lost. Any number of unsynced lines, and a part of the next one, may
//! have reached the disk nevertheless.

use crate::world::World;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::disk::surviving_bytes;
use std::fs::{self, File};

/// Removes unsynced events from all spools of a head node, whose files are below `home`.
pub(crate) fn lose_events(world: &World, home: &Utf8Path) {
    let below = |dir: &Utf8Path| -> Vec<Utf8PathBuf> {
        let mut paths: Vec<_> = dir
            .read_dir_utf8()
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().to_owned())
            .collect();
        paths.sort();
        paths
    };
    for spools in below(home).into_iter().map(|base| base.join("spool")) {
        for spool in below(&spools).iter().flat_map(|campaign| below(campaign)) {
            lose_lines(world, &spool.join("events.jsonl"));
        }
    }
}

/// Removes a random number of unsynced lines from the end of a file.
pub(crate) fn lose_lines(world: &World, path: &Utf8Path) {
    let Ok(text) = fs::read(path) else { return };
    let synced = surviving_bytes(path.as_std_path())
        .ok()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(0);
    let unsynced: Vec<&[u8]> = text[synced..]
        .split_inclusive(|byte| *byte == b'\n')
        .collect();
    if unsynced.is_empty() {
        return;
    }
    let (kept, is_torn) = {
        let mut state = world.lock();
        (state.chance.usize(0..=unsynced.len()), state.chance.bool())
    };
    let torn = unsynced
        .get(kept)
        .filter(|_| is_torn)
        .map_or(0, |line| line.len() / 2);
    let length = synced
        + unsynced[..kept]
            .iter()
            .map(|line| line.len())
            .sum::<usize>()
        + torn;
    let cut = File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_len(length as u64));
    cut.expect("a file in memory can be cut");
    world.tell(format!(
        "{} loses {} of {} unsynced lines",
        path.file_name().unwrap_or_default(),
        unsynced.len() - kept,
        unsynced.len()
    ));
}
