//! Waits until the images of a checkpoint are whole, and reads them. What is asked meanwhile is work for the nodes that are measured: their
//! sentinels are asked for names and sizes, the more rarely the more they are and the longer it takes, and images are read when these have
//! changed since the last time.

use super::dmtcp_run::DmtcpRun;
use crate::{
    ckpt::moments::no_checkpoint,
    crew::{self, CrewError},
    run::{LATER, RunFailure, SOON},
    stage::lost,
};
use cvc_core::point::Compression;
use cvc_image::{CheckpointDir, Role};
use std::time::{Duration, Instant, SystemTime};

/// Shortest and longest delay between questions.
const TICK: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_secs(1);
/// The delay for each node that is asked.
const FOR_EACH_NODE: Duration = Duration::from_millis(1);
/// The delay is this part of the time that was waited.
const PART: u32 = 20;
/// Time without a change after which a file that gzip or pigz writes is complete.
const STABLE: Duration = Duration::from_millis(300);

/// The delay before so many nodes are asked again, after this time.
fn delay(nodes: usize, waited: Duration) -> Duration {
    let for_nodes = FOR_EACH_NODE * u32::try_from(nodes).unwrap_or(u32::MAX);
    TICK.max(for_nodes).max(waited / PART).min(LONGEST)
}

/// The failure of a program that ended, and its writers with it, before its images were whole.
pub(super) fn ended_before(number: u32, missing: &str) -> RunFailure {
    no_checkpoint(format!(
        "the program ended before checkpoint {number} was whole ({missing}): choose an earlier moment, or a larger workload or more steps"
    ))
}

/// The contents of the checkpoint directories of all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stored {
    /// Images that have their final name.
    images: usize,
    /// Number of those that have a temporary name.
    writing: usize,
    /// When the last image was changed last, by the clock of its node.
    pub last_change: Option<SystemTime>,
    /// Bytes in all.
    bytes: u64,
}

/// Asks all nodes for the names, sizes and times of images.
pub(super) async fn stored(of: &DmtcpRun<'_>) -> Result<Stored, RunFailure> {
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
    let mut stored = Stored::default();
    for (_, listing) in crew::whole(found).map_err(|error| lost(&error))? {
        for entry in listing.entries {
            if entry.name.ends_with(".temp") {
                stored.writing += 1;
            } else {
                stored.images += 1;
            }
            stored.bytes += entry.bytes;
            let changed = SystemTime::UNIX_EPOCH
                + Duration::from_nanos(u64::try_from(entry.modified_ns).unwrap_or(0));
            stored.last_change = stored.last_change.max(Some(changed));
        }
    }
    Ok(stored)
}

/// What successive looks at the images show, by this machine's clock, since those of nodes may differ.
#[derive(Debug, Default)]
struct Looks {
    last: Option<(Stored, Instant)>,
    /// Whether the last two looks show the same.
    rests: bool,
    /// What was there when the images were read, and when that was.
    read: Option<(Stored, Instant)>,
}

impl Looks {
    /// Adds a look. Returns the time for which nothing has changed.
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

    /// Whether all images of `processes` ranks have their name, after this look.
    fn has_all(&self, processes: u32) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(stored, _)| stored.writing == 0 && stored.images >= processes as usize)
    }

    /// What of the images of `processes` ranks has its name.
    fn names(&self, processes: u32) -> String {
        let (images, writing) = self
            .last
            .as_ref()
            .map_or((0, 0), |(stored, _)| (stored.images, stored.writing));
        format!(
            "{images} images, of {processes} ranks and their launchers, {writing} still being written"
        )
    }

    /// Whether the images are to be read now: those of gzip and pigz grow on for a moment under their final name. What was read in vain is read
    /// again when it has changed, or if that cannot be seen, after a second.
    fn is_to_read(&self, processes: u32, compression: Compression, now: Instant) -> bool {
        let Some((stored, _)) = &self.last else {
            return false;
        };
        let rests = match compression {
            Compression::None => true,
            Compression::Gzip | Compression::Pigz => self.rests,
        };
        let is_new = self.read.as_ref().is_none_or(|(read, at)| {
            read != stored || now.saturating_duration_since(*at) >= LONGEST
        });
        rests && is_new && self.has_all(processes)
    }

    fn note_read(&mut self, now: Instant) {
        self.read = self.last.clone().map(|(stored, _)| (stored, now));
    }
}

/// Waits until the images stop changing and none has a temporary name. `has_ended` says whether the program has ended, and whatever still wrote
/// its images with it.
pub(super) async fn stable(
    of: &DmtcpRun<'_>,
    number: u32,
    begin: Instant,
    limit: Duration,
    mut has_ended: impl FnMut() -> bool,
) -> Result<(), RunFailure> {
    let (mut looks, waiting) = (Looks::default(), Instant::now());
    let processes = of.run.point.processes();
    loop {
        // before the look, which then shows all that there will be
        let ended = has_ended();
        let unchanged = looks.add(stored(of).await?, Instant::now());
        if unchanged > STABLE && looks.has_all(processes) {
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

/// Reads the images in place, when they are whole. `has_ended` as in [`stable`].
pub(super) async fn images(
    of: &DmtcpRun<'_>,
    number: u32,
    begin: Instant,
    limit: Duration,
    mut has_ended: impl FnMut() -> bool,
) -> Result<Vec<(String, CheckpointDir)>, RunFailure> {
    let processes = of.run.point.processes();
    let (mut looks, waiting) = (Looks::default(), Instant::now());
    loop {
        // before the look, which then shows all that there will be
        let ended = has_ended();
        let unchanged = looks.add(stored(of).await?, Instant::now());
        // when nothing will come any more, and at the latest when the time is over, to say what is missing
        let is_final = ended && unchanged > LONGEST;
        let is_over = is_final || begin.elapsed() > limit;
        if is_over || looks.is_to_read(processes, of.run.point.compression, Instant::now()) {
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
            // a node without ranks, a login node for example, has none
            Err(CrewError::Refused { .. }) if !used.ranks.iter().any(|n| n.name == node) => {}
            Err(error) => return Err(lost(&error)),
        }
    }
    Ok(dirs)
}

/// What is missing of the images of so many ranks; `None` if they are whole.
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
    fn more_nodes_are_asked_more_rarely_and_so_are_those_that_take_long() {
        let delay = |nodes, ms| delay(nodes, Duration::from_millis(ms)).as_millis();
        assert_eq!(
            [delay(1, 0), delay(16, 400), delay(100, 0), delay(1000, 0)],
            [25, 25, 100, 1000]
        );
        assert_eq!([delay(1, 2000), delay(1, 600_000)], [100, 1000]);
    }

    #[test]
    fn growing_images_of_gzip_are_not_read_and_whole_ones_once() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut looks = Looks::default();
        let mut reads = Vec::new();
        // of four ranks: one has a temporary name, then all grow, then they rest
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
        let mut looks = Looks::default();
        looks.add(stored(4, 0, 20), at(0));
        assert!(
            looks.is_to_read(4, Compression::None, at(0)),
            "without gzip they are whole when they have their names"
        );
    }
}
