//! Which checkpoints of a job are kept, and the space that they need while the job runs, as multiples of one checkpoint.

use serde::Serialize;

/// How checkpoints are stored as changes: after one full checkpoint, each further file has only the changes since the previous one, until the next
/// full one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeltaChain {
    /// Number of files of a chain, including the full one; at least 1.
    pub files: u32,
    /// Size of the changes from one checkpoint to the next, as a fraction of a checkpoint.
    pub changed: f64,
}

/// Which checkpoints are kept. A new checkpoint is completed before the oldest is removed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Retention {
    /// Number of the latest checkpoints from which the job can be restarted. With 1, each new checkpoint replaces the old one.
    pub keep: u32,
    /// Number of copies of each checkpoint. On nodes with their own storage, a further copy is on the next node.
    pub copies: u32,
    /// How checkpoints are stored as changes; `None` if they are stored in full.
    pub deltas: Option<DeltaChain>,
}

/// Space of a job's checkpoints, as multiples of one checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KeptVolume {
    /// Maximum space between checkpoints.
    pub at_rest: f64,
    /// Maximum space while a checkpoint is taken.
    pub peak: f64,
    /// Data written by all checkpoints together.
    pub written: f64,
    /// Number of checkpoints on disk at the end, each a set of files. Includes those that kept ones are stored against.
    pub sets: u32,
}

impl Retention {
    /// The default of DMTCP: each checkpoint replaces the previous one.
    pub const OVERWRITTEN: Self = Self {
        keep: 1,
        copies: 1,
        deltas: None,
    };

    /// Returns how many times the files that no later checkpoint replaces are stored after this number of checkpoints; `None` counts one.
    pub fn left(&self, checkpoints: Option<u64>) -> f64 {
        checkpoints.unwrap_or(1) as f64 * f64::from(self.copies.max(1))
    }

    /// Returns the space of a job that takes this number of checkpoints. With `None` the number is unlimited, and [`KeptVolume::written`] is not
    /// computed.
    ///
    /// The image of a checkpoint that is stored as changes is on disk in full until its changes are stored.
    pub fn volume(&self, checkpoints: Option<u64>) -> KeptVolume {
        let keep = u64::from(self.keep.max(1));
        let chain = u64::from(self.deltas.map_or(1, |of| of.files.max(1)));
        let changed = self.deltas.map_or(1.0, |of| of.changed.clamp(0.0, 1.0));
        // size of the file of the checkpoint with this number, from 0
        let file = |number: u64| {
            if number.is_multiple_of(chain) {
                1.0
            } else {
                changed
            }
        };
        let copies = f64::from(self.copies.max(1));
        // further chains repeat the same values
        let count = checkpoints.unwrap_or(u64::MAX).min(keep + 2 * chain);
        let mut volume = KeptVolume::default();
        let (mut kept, mut oldest) = (0.0, 0);
        for number in 0..count {
            let image = if self.deltas.is_some() { 1.0 } else { 0.0 };
            volume.peak = volume.peak.max(copies * (kept + file(number)) + image);
            kept += file(number);
            // the oldest kept checkpoint depends on all files since the full one of its chain
            let needed = (number + 1).saturating_sub(keep) / chain * chain;
            while oldest < needed {
                kept -= file(oldest);
                oldest += 1;
            }
            volume.at_rest = volume.at_rest.max(copies * kept);
            volume.sets = u32::try_from(number + 1 - oldest).unwrap_or(u32::MAX);
        }
        let full = checkpoints.unwrap_or(0).div_ceil(chain) as f64;
        let all = checkpoints.unwrap_or(0) as f64;
        volume.written = copies * (full + (all - full) * changed);
        volume
    }
}

/// Minimum MiB of a checkpoint's auxiliary files that are assumed to be shared memory. Smaller ones are scripts, which the next checkpoint replaces.
const SHARED_MEMORY_MIB: f64 = 1.0;

/// Returns the MiB of a checkpoint's auxiliary files that no later checkpoint replaces: DMTCP removes images that it replaces, but not the files of
/// shared memory next to them. `auxiliary_mib` is for all nodes together.
pub fn left_mib(auxiliary_mib: f64) -> f64 {
    if auxiliary_mib >= SHARED_MEMORY_MIB {
        auxiliary_mib
    } else {
        0.0
    }
}

/// Returns the number of checkpoints that a job of `job_s` seconds takes if they are `interval_s` seconds apart; none is taken at the very end of the
/// job.
pub fn checkpoints_within(job_s: f64, interval_s: f64) -> u64 {
    // the conversion saturates
    ((job_s / interval_s).ceil() as u64).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::{DeltaChain, KeptVolume, Retention, checkpoints_within, left_mib};

    fn volume(keep: u32, deltas: Option<(u32, f64)>, checkpoints: Option<u64>) -> KeptVolume {
        let deltas = deltas.map(|(files, changed)| DeltaChain { files, changed });
        Retention {
            keep,
            copies: 1,
            deltas,
        }
        .volume(checkpoints)
    }

    #[test]
    fn a_new_checkpoint_lies_beside_those_that_are_kept() {
        let short = |of: KeptVolume| (of.at_rest, of.peak, of.written);
        assert_eq!(short(volume(1, None, Some(0))), (0.0, 0.0, 0.0));
        assert_eq!(short(volume(1, None, Some(1))), (1.0, 1.0, 1.0));
        assert_eq!(short(volume(1, None, Some(23))), (1.0, 2.0, 23.0));
        assert_eq!(short(volume(3, None, Some(2))), (2.0, 2.0, 2.0));
        assert_eq!(short(volume(3, None, None)), (3.0, 4.0, 0.0));
        let two = Retention {
            copies: 2,
            ..Retention::OVERWRITTEN
        };
        assert_eq!(short(two.volume(Some(5))), (2.0, 4.0, 10.0));
    }

    #[test]
    fn a_chain_is_kept_until_the_next_full_checkpoint_replaces_it() {
        // sizes 1, 1/8, 1/8, 1/8, then again 1: a whole chain at rest; at the peak also the image and the next full file
        let of = volume(1, Some((4, 0.125)), Some(9));
        assert_eq!((of.at_rest, of.peak), (1.375, 3.375));
        // three of the nine checkpoints are full
        assert_eq!(of.written, 3.0 + 6.0 * 0.125);
        // two checkpoints can be restarted from, so the previous chain is still needed after the next full one
        let two = volume(2, Some((4, 0.125)), None);
        assert_eq!(two.at_rest, 2.375);
        assert_eq!(volume(1, Some((1, 0.5)), Some(3)).at_rest, 1.0);
    }

    #[test]
    fn files_of_shared_memory_accumulate_and_scripts_do_not() {
        assert_eq!((left_mib(24.5), left_mib(0.02)), (24.5, 0.0));
        let two = Retention {
            copies: 2,
            ..Retention::OVERWRITTEN
        };
        assert_eq!((two.left(Some(5)), two.left(None)), (10.0, 2.0));
    }

    #[test]
    fn no_checkpoint_is_taken_at_the_end_of_the_job() {
        assert_eq!(checkpoints_within(86_400.0, 3_600.0), 23);
        assert_eq!(checkpoints_within(3_601.0, 3_600.0), 1);
        assert_eq!(checkpoints_within(10.0, 3_600.0), 0);
    }
}
