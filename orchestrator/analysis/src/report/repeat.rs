//! How to repeat the campaign.

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
        Block::Text { text: "The whole campaign, from the copy of its file that is kept with the results:".to_owned() },
        Block::Command { text: format!("cvc plan campaigns/{campaign}/campaign.toml\ncvc run campaigns/{campaign}/campaign.toml") },
        Block::Text {
            text: format!(
                "The same file and seed ({}) give the same runs in the same order{}. Each run keeps its scripts, environment, versions and logs in \
                 campaigns/{campaign}/runs/, and the one command that repeats it by hand, without cvc:",
                meta("seed"),
                if meta("plan").is_empty() { String::new() } else { format!(" (plan {})", meta("plan")) },
            ),
        },
        Block::Command { text: format!("bash campaigns/{campaign}/runs/{run}/launch.sh") },
        Block::Text { text: "To rebuild this report, its tables as CSV, and index.sqlite from the results of the runs:".to_owned() },
        Block::Command { text: format!("cvc report campaigns/{campaign}") },
    ];
    blocks.push(Block::Text {
        text: "How the numbers are made: every table entry is a mean over the counted runs that succeeded; a run with several checkpoints enters \
               with their mean. Intervals are 95 % intervals of the mean: from ten repeats on by Hall's correction for skewness; of fewer, by \
               Student's t, of the logarithms where values differ by more than a factor of two; of fewer than five, with the scatter that all points \
               have in common. They are for repeats that are independent, and for the \
               hours and machines of these; docs/calibration.md has how often they hold, by simulation. Outliers lie beyond Tukey's fences (1.5 and 3 interquartile ranges); they are flagged and stay in. MiB = 2^20 bytes."
            .to_owned(),
    });
    Section {
        id: "repeat",
        title: "How to repeat it".to_owned(),
        blocks,
    }
}
