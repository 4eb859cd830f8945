//! The expected space of checkpoints, as `cvc plan` shows it and `cvc run` checks it.

use crate::text::paragraph;
use cvc_core::units::counted;
use cvc_prediction::space::{CheckpointSpace, SpaceBasis};
use std::{collections::BTreeMap, io::Write};

/// Shows what the space of checkpoints is based on.
pub fn show_basis<'a>(
    out: &mut impl Write,
    spaces: impl Iterator<Item = &'a CheckpointSpace>,
) -> std::io::Result<()> {
    let mut counts: BTreeMap<SpaceBasis, usize> = BTreeMap::new();
    let mut without_data = 0;
    for space in spaces {
        *counts.entry(space.basis).or_default() += 1;
        without_data += usize::from(!space.is_whole);
    }
    if counts.is_empty() {
        return Ok(());
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
    writeln!(
        out,
        "{}",
        paragraph(
            "",
            &format!("space of checkpoints, at most: {}", parts.join(", "))
        )
    )?;
    if without_data > 0 {
        let line = format!(
            "(the descriptors of {}, marked ≥, do not say how many data they hold: a first run tells)",
            counted(without_data, "point")
        );
        writeln!(out, "{}", paragraph("", &line))?;
    }
    Ok(())
}
