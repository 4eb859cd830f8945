//! The expected space for checkpoints, which `cvc plan` prints and `cvc run` checks.

use cvc_core::units::counted;
use cvc_prediction::space::{CheckpointSpace, SpaceBasis};
use cvc_show::Blocks;
use std::collections::BTreeMap;

/// Prints what the expected space for checkpoints is based on.
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
                SpaceBasis::Declared if count == 1 => "declared by its descriptor",
                SpaceBasis::Declared => "declared by their descriptors",
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
            "(the descriptors of {}, marked ≥, do not give their data size: a first run shows it)",
            counted(without_data, "point")
        );
        out.say(line);
    }
}
