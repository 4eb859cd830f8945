//! Instructions to repeat the campaign.

use crate::results::data::Data;
use cvc_show::{Block, Section};

pub(super) fn section(data: &Data) -> Section {
    let meta = |key: &str| data.meta.get(key).map(String::as_str).unwrap_or_default();
    let campaign = meta("campaign");
    let run = data
        .runs
        .iter()
        .find(|r| r.counts())
        .map_or("ID", |r| &r.id);
    let mut blocks = vec![
        Block::Text { text: "To repeat the whole campaign from the copy of its file in the results:".to_owned() },
        Block::Command { text: format!("cvc plan campaigns/{campaign}/campaign.toml\ncvc run campaigns/{campaign}/campaign.toml") },
        Block::Text {
            text: format!(
                "The same file and seed ({}) give the same runs in the same order{}. Each run keeps its scripts, environment, versions and logs in \
                 campaigns/{campaign}/runs/, and this command repeats a run without cvc:",
                meta("seed"),
                if meta("plan").is_empty() { String::new() } else { format!(" (plan {})", meta("plan")) },
            ),
        },
        Block::Command { text: format!("bash campaigns/{campaign}/runs/{run}/launch.sh") },
        Block::Text { text: "To rebuild this report, its tables as CSV, and index.sqlite from the results of the runs:".to_owned() },
        Block::Command { text: format!("cvc report campaigns/{campaign}") },
    ];
    blocks.push(Block::Text {
        text: "How the numbers are computed: every table entry is a mean over the counted runs that succeeded; a run with several checkpoints enters \
               with their mean. Intervals are 95 % intervals of the mean: with ten repeats or more by Hall's correction for skewness; with fewer, by \
               Student's t, of the logarithms where values differ by more than a factor of two; with fewer than five, from the scatter that all points \
               have in common. They assume independent repeats, and hold for the \
               hours and machines of the runs; docs/calibration.md has their simulated coverage. Outliers lie beyond Tukey's fences (1.5 and 3 interquartile ranges); they are flagged and kept. MiB = 2^20 bytes."
            .to_owned(),
    });
    Section {
        id: "repeat",
        title: "Repeating the campaign".to_owned(),
        blocks,
    }
}
