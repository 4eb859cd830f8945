//! Waits until the images of a checkpoint are complete, and reads them. Queries meanwhile disturb the nodes that are measured. The nodes' sentinels
//! are therefore queried only for names and sizes, at intervals that grow with the number of nodes and the waiting time; images are read only if
//! their names or sizes have changed since the last reading.

use super::dmtcp_run::DmtcpRun;
use crate::{
    ckpt::moments::no_checkpoint,
    crew::{self, CrewError},
    run::{LATER, RunFailure, SOON},
    stage::lost,
};
use cvc_core::campaign::StorageKind;
use cvc_core::point::Compression;
use cvc_image::{CheckpointDir, Role};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

/// Minimum and maximum interval between queries.
const TICK: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_secs(1);
/// Interval per queried node.
const FOR_EACH_NODE: Duration = Duration::from_millis(1);
/// The interval is the waiting time divided by this number.
const PART: u32 = 20;
/// Time without a change after which a file written by gzip or pigz counts as complete.
const STABLE: Duration = Duration::from_millis(300);

/// Returns the interval until this number of nodes is queried again, after a waiting time of `waited`.
fn delay(nodes: usize, waited: Duration) -> Duration {
    let for_nodes = FOR_EACH_NODE * u32::try_from(nodes).unwrap_or(u32::MAX);
    TICK.max(for_nodes).max(waited / PART).min(LONGEST)
}

/// Returns the failure of a program that ended, together with the writers of its images, before the images were complete.
pub(super) fn ended_before(number: u32, missing: &str) -> RunFailure {
    no_checkpoint(format!(
        "the program ended before checkpoint {number} was complete ({missing}): choose an earlier moment, or a larger workload or more steps"
    ))
}

/// The contents of the checkpoint directories of all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stored {
    /// Number of images with their final name.
    images: usize,
    /// Number of images with a temporary name.
    writing: usize,
    /// Time of the last change of any image, by the clock of its node.
    pub last_change: Option<SystemTime>,
    /// Total size, bytes.
    bytes: u64,
}

/// An image that has its final name, as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedImage {
    /// Node of the image.
    pub node: String,
    /// File name.
    pub file: String,
    /// Size, bytes.
    pub bytes: u64,
    /// Time of the image's last change, by the clock of its node.
    pub changed: SystemTime,
}

/// The images that a checkpoint must have.
#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedImages {
    /// Number of the checkpoint.
    pub number: u32,
    /// Minimum number of images.
    pub count: usize,
    /// Images of the previous checkpoint. An image counts only once it differs from these: forked copies of processes begin to write after DMTCP has
    /// reported that all images are written.
    pub before: Vec<NamedImage>,
}

impl AwaitedImages {
    /// Returns the images to wait for if DMTCP reports a checkpoint only after writing all images: one for each rank.
    pub fn of_ranks(of: &DmtcpRun<'_>, number: u32) -> Self {
        Self {
            number,
            count: of.run.point.processes() as usize,
            before: Vec::new(),
        }
    }
}

/// Queries all nodes for images. Unchanged images of the previous checkpoint count as still being written.
async fn stored(of: &DmtcpRun<'_>, awaited: &AwaitedImages) -> Result<Stored, RunFailure> {
    let (mut stored, named) = named(of).await?;
    let old = named.iter().filter(|image| awaited.before.contains(image));
    let old = old.count();
    stored.images -= old;
    stored.writing += old;
    Ok(stored)
}

/// Queries all nodes for the names, sizes and times of images. Also returns the images that have their final names.
pub(super) async fn named(of: &DmtcpRun<'_>) -> Result<(Stored, Vec<NamedImage>), RunFailure> {
    let used = &of.run.used;
    let suffixes = [".dmtcp".to_owned(), ".dmtcp.temp".to_owned()];
    let found = used
        .crew
        .listing(
            &used.places(),
            of.layout.ckptdir.as_std_path(),
            &suffixes,
            SOON,
        )
        .await;
    let (mut stored, mut named) = (Stored::default(), Vec::new());
    for (node, listing) in crew::whole(found).map_err(|error| lost(&error))? {
        for entry in listing.entries {
            let changed = SystemTime::UNIX_EPOCH
                + Duration::from_nanos(u64::try_from(entry.modified_ns).unwrap_or(0));
            stored.bytes += entry.bytes;
            stored.last_change = stored.last_change.max(Some(changed));
            if entry.name.ends_with(".temp") {
                stored.writing += 1;
                continue;
            }
            stored.images += 1;
            named.push(NamedImage {
                node: node.clone(),
                file: entry.name,
                bytes: entry.bytes,
                changed,
            });
        }
    }
    Ok((stored, named))
}

/// Returns the time when each image was written, by this machine's clock: the time by the node's clock, corrected by that clock's measured offset.
pub(super) async fn written(
    of: &DmtcpRun<'_>,
    images: &[NamedImage],
) -> BTreeMap<String, Timestamp> {
    let used = &of.run.used;
    let mut ahead: BTreeMap<String, SignedDuration> = BTreeMap::new();
    if used.storage == StorageKind::NodeLocal {
        for node in used.places().into_iter().filter(|n| *n != used.head.name) {
            if let Ok(skew) = used.crew.skew(node, SOON).await {
                let by = SignedDuration::try_from_secs_f64(skew.offset_s).unwrap_or_default();
                ahead.insert(node.to_owned(), by);
            }
        }
    }
    let at = |image: &NamedImage| {
        let by = ahead.get(&image.node).copied().unwrap_or_default();
        let changed = Timestamp::try_from(image.changed).ok()?;
        Some((image.file.clone(), changed.checked_sub(by).ok()?))
    };
    images.iter().filter_map(at).collect()
}

/// Successive observations of the images. Durations are measured with this machine's clock, because the nodes' clocks may differ.
#[derive(Debug, Default)]
struct StabilityWatch {
    last: Option<(Stored, Instant)>,
    /// Whether the last two observations are equal.
    rests: bool,
    /// The observation before the last reading of the images, and the time of that reading.
    read: Option<(Stored, Instant)>,
}

impl StabilityWatch {
    /// Adds an observation. Returns the time for which nothing has changed.
    fn add(&mut self, stored: Stored, now: Instant) -> Duration {
        match &self.last {
            Some((last, since)) if *last == stored => {
                self.rests = true;
                now.saturating_duration_since(*since)
            }
            _ => {
                (self.last, self.rests) = (Some((stored, now)), false);
                Duration::ZERO
            }
        }
    }

    /// Returns whether, by the last observation, at least this many images have their final name and none is being written.
    fn has_all(&self, count: usize) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(stored, _)| stored.writing == 0 && stored.images >= count)
    }

    /// Describes how many images have their final names, for a run with this many ranks.
    fn names(&self, processes: u32) -> String {
        let (images, writing) = self
            .last
            .as_ref()
            .map_or((0, 0), |(stored, _)| (stored.images, stored.writing));
        format!(
            "{images} images, of {processes} ranks and their launchers, {writing} still being written"
        )
    }

    /// Returns whether to read the images now. Compressed images still grow for a moment under their final name, so they must first stop changing.
    /// After a failed reading, images are read again when they have changed, at the latest after [`LONGEST`], because not every change is visible.
    fn is_to_read(&self, count: usize, compression: Compression, now: Instant) -> bool {
        let Some((stored, _)) = &self.last else {
            return false;
        };
        let rests = compression.compressor().is_none() || self.rests;
        let is_new = self.read.as_ref().is_none_or(|(read, at)| {
            read != stored || now.saturating_duration_since(*at) >= LONGEST
        });
        rests && is_new && self.has_all(count)
    }

    fn note_read(&mut self, now: Instant) {
        self.read = self.last.clone().map(|(stored, _)| (stored, now));
    }
}

/// Waits until the images stop changing and none has a temporary name. `has_ended` returns whether the program, including all writers of its images,
/// has ended.
pub(super) async fn stable(
    of: &DmtcpRun<'_>,
    awaited: &AwaitedImages,
    begin: Instant,
    limit: Duration,
    mut has_ended: impl FnMut() -> bool,
) -> Result<(), RunFailure> {
    let (mut looks, waiting) = (StabilityWatch::default(), Instant::now());
    let (processes, number) = (of.run.point.processes(), awaited.number);
    loop {
        // determined before the files are listed, so that the list has all files if the program has ended
        let ended = has_ended();
        let unchanged = looks.add(stored(of, awaited).await?, Instant::now());
        if unchanged > STABLE && looks.has_all(awaited.count) {
            return Ok(());
        }
        if ended && unchanged > LONGEST {
            return Err(ended_before(number, &looks.names(processes)));
        }
        if begin.elapsed() > limit {
            return Err(no_checkpoint(format!(
                "checkpoint {number} is not complete: its images still change after {} s",
                limit.as_secs_f64()
            )));
        }
        tokio::time::sleep(delay(of.run.used.places().len(), waiting.elapsed())).await;
    }
}

/// Waits until the images are complete, and reads them in place. `has_ended` is as for [`stable`].
pub(super) async fn images(
    of: &DmtcpRun<'_>,
    awaited: &AwaitedImages,
    begin: Instant,
    limit: Duration,
    mut has_ended: impl FnMut() -> bool,
) -> Result<Vec<(String, CheckpointDir)>, RunFailure> {
    let (processes, number) = (of.run.point.processes(), awaited.number);
    let (mut looks, waiting) = (StabilityWatch::default(), Instant::now());
    loop {
        // determined before the files are listed, so that the list has all files if the program has ended
        let ended = has_ended();
        let unchanged = looks.add(stored(of, awaited).await?, Instant::now());
        // true when no more files will appear; after the time limit images are read anyway, to report the missing ones
        let is_final = ended && unchanged > LONGEST;
        let is_over = is_final || begin.elapsed() > limit;
        if is_over || looks.is_to_read(awaited.count, of.run.plan.compression(), Instant::now()) {
            let dirs = read(of).await?;
            match missing(&dirs, processes) {
                None => return Ok(dirs),
                Some(missing) if is_final => return Err(ended_before(number, &missing)),
                Some(missing) if is_over => {
                    return Err(no_checkpoint(format!(
                        "checkpoint {number} is not complete: {missing}"
                    )));
                }
                Some(_) => looks.note_read(Instant::now()),
            }
        }
        tokio::time::sleep(delay(of.run.used.places().len(), waiting.elapsed())).await;
    }
}

async fn read(of: &DmtcpRun<'_>) -> Result<Vec<(String, CheckpointDir)>, RunFailure> {
    let used = &of.run.used;
    let found = used
        .crew
        .images(&used.places(), of.layout.ckptdir.as_std_path(), LATER)
        .await;
    let mut dirs = Vec::new();
    for (node, dir) in found {
        match dir {
            Ok(dir) => dirs.push((node, dir)),
            // a node without ranks, for example a login node, has no images
            Err(CrewError::Refused { .. }) if !used.ranks.iter().any(|n| n.name == node) => {}
            Err(error) => return Err(lost(&error)),
        }
    }
    Ok(dirs)
}

/// Describes the images that are missing for this many ranks; `None` if the images are complete.
fn missing(dirs: &[(String, CheckpointDir)], processes: u32) -> Option<String> {
    let count =
        |of: &dyn Fn(&CheckpointDir) -> usize| dirs.iter().map(|(_, dir)| of(dir)).sum::<usize>();
    let ranks = count(&|d| d.images.iter().filter(|i| i.role == Role::Rank).count());
    let broken: Vec<String> = dirs
        .iter()
        .flat_map(|(node, d)| d.broken.iter().map(move |b| format!("{node}: {}", b.error)))
        .collect();
    let temporary = count(&|d| d.temporary.len());
    if broken.is_empty() && temporary == 0 && ranks == processes as usize {
        return None;
    }
    let between = if broken.is_empty() { "" } else { "; " };
    Some(format!(
        "{ranks} images of {processes} ranks, {temporary} still being written{between}{}",
        broken.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(images: usize, writing: usize, bytes: u64) -> Stored {
        Stored {
            images,
            writing,
            bytes,
            last_change: None,
        }
    }

    #[test]
    fn more_or_slower_nodes_are_queried_more_rarely() {
        let delay = |nodes, ms| delay(nodes, Duration::from_millis(ms)).as_millis();
        assert_eq!(
            [delay(1, 0), delay(16, 400), delay(100, 0), delay(1000, 0)],
            [25, 25, 100, 1000]
        );
        assert_eq!([delay(1, 2000), delay(1, 600_000)], [100, 1000]);
    }

    #[test]
    fn growing_images_of_gzip_are_not_read_and_complete_ones_once() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut looks = StabilityWatch::default();
        let mut reads = Vec::new();
        // four ranks: first an image has a temporary name, then all images grow, then they are stable
        let sizes = [
            stored(3, 1, 10),
            stored(4, 0, 20),
            stored(4, 0, 30),
            stored(4, 0, 30),
            stored(4, 0, 30),
            stored(4, 0, 40),
            stored(4, 0, 40),
        ];
        for (ms, stored) in (0..).step_by(25).zip(sizes) {
            looks.add(stored, at(ms));
            if looks.is_to_read(4, Compression::Gzip, at(ms)) {
                looks.note_read(at(ms));
                reads.push(ms);
            }
        }
        assert_eq!(reads, [75, 150], "and again only after they had changed");
        assert!(
            !looks.is_to_read(4, Compression::Gzip, at(1149))
                && looks.is_to_read(4, Compression::Gzip, at(1150))
        );
        let mut looks = StabilityWatch::default();
        looks.add(stored(4, 0, 20), at(0));
        assert!(
            looks.is_to_read(4, Compression::None, at(0)),
            "without gzip they are whole when they have their names"
        );
    }
}
