//! The expected space of checkpoints, as `cvc plan` shows it and `cvc run` checks it.

use cvc_core::units::counted;
use cvc_prediction::space::{CheckpointSpace, SpaceBasis};
use cvc_show::Blocks;
use std::collections::BTreeMap;

/// Shows what the space of checkpoints is based on.
pub fn show_basis<'a>(out: &mut Blocks, spaces: impl Iterator<Item = &'a CheckpointSpace>) {
    let mut counts: BTreeMap<SpaceBasis, usize> = BTreeMap::new();
    let mut without_data = 0;
    for space in spaces {
        *counts.entry(space.basis).or_default() += 1;
        without_data += usize::from(!space.is_whole);
    }
    if counts.is_empty() {
        return;
    }
    let parts: Vec<String> = counts
        .into_iter()
        .map(|(basis, count)| {
            let from = match basis {
                SpaceBasis::OwnRuns if count == 1 => "from its own runs",
                SpaceBasis::OwnRuns => "from their own runs",
                SpaceBasis::Campaign => "predicted from this campaign's other points",
                SpaceBasis::Table => "predicted from runs of the NAS benchmarks under DMTCP 4.2",
            };
            format!("{} {from}", counted(count, "point"))
        })
        .collect();
    out.say(format!(
        "space of checkpoints, at most: {}",
        parts.join(", ")
    ));
    if without_data > 0 {
        let line = format!(
            "(the descriptors of {}, marked ≥, do not say how many data they hold: a first run tells)",
            counted(without_data, "point")
        );
        out.say(line);
    }
}
