//! Records of the metadata operations of a run.

use super::judge::Judge;
use cvc_core::record::{Source, Unit, names};

impl Judge<'_> {
    /// Records the metadata operations of the run and of its restart. Unknown counts are not recorded.
    pub(super) fn operations(&mut self) {
        let evidence = self.evidence;
        let restart = evidence.restarted().map(|of| &of.noise);
        for (noise, name, messages) in [
            (
                Some(evidence.noise),
                names::METADATA_OPERATIONS,
                names::METADATA_MESSAGES,
            ),
            (
                restart,
                names::RESTART_METADATA_OPERATIONS,
                names::RESTART_METADATA_MESSAGES,
            ),
        ] {
            let Some(counted) = noise.and_then(|of| of.operations.as_ref()) else {
                continue;
            };
            if !counted.unknown.is_empty() {
                continue;
            }
            for source in &counted.counts.sources {
                let node = ("node", source.source.clone());
                for (kind, count) in &source.kinds {
                    let labels = [("kind", kind.word().to_owned()), node.clone()];
                    let value = *count as f64;
                    self.record(name, value, Unit::Count, Source::FileSystem, None, &labels);
                }
                if let Some(count) = source.messages {
                    let (value, unit) = (count as f64, Unit::Count);
                    self.record(messages, value, unit, Source::FileSystem, None, &[node]);
                }
            }
        }
    }

    /// Returns why operations of the run or of its restart are unknown although they should have been counted.
    pub(super) fn unknown_operations(&self) -> Option<String> {
        let restart = self.evidence.restarted().map(|of| &of.noise);
        let all = [Some(self.evidence.noise), restart].into_iter().flatten();
        let counted = all.filter_map(|noise| noise.operations.as_ref());
        let unknown: Vec<&str> = counted
            .flat_map(|of| of.unknown.iter().map(String::as_str))
            .collect();
        (!unknown.is_empty()).then(|| unknown.join("; "))
    }
}
