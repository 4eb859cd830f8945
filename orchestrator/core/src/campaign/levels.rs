//! Checkpoints that the nodes keep on their own storage, with redundancy: `[checkpoint.levels]`.

use crate::strategy::LevelScheme;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Directory for the checkpoints that a node keeps, in the working directory of a run on each node; it is not kept after the run.
pub const LEVELS: &str = ".cvc-levels";

/// How checkpoints that nodes keep are copied to shared storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushSettings {
    /// Name of the storage area to which checkpoints are copied.
    pub to: String,
    /// Every `every`-th checkpoint is copied; at least 1.
    pub every: u32,
    /// Whether checkpoints are copied in the background; otherwise the next checkpoint waits for the copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
}

/// How nodes keep checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelSettings {
    /// Number of complete checkpoints to keep, at least 1, in addition to the one being written.
    pub keep: u32,
    /// Number of nodes of a parity group, at least 2.
    pub group: u32,
    /// How checkpoints are copied to shared storage; `None` if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<FlushSettings>,
    /// Nodes of the run, from 1 in the order of its mapping, that lose their storage before the restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lose: Vec<u32>,
}

impl Default for LevelSettings {
    fn default() -> Self {
        Self {
            keep: 1,
            group: 4,
            flush: None,
            lose: Vec::new(),
        }
    }
}

/// Returns the size of the data that a node keeps for other nodes, as a multiple of the node's own data.
fn redundancy(scheme: LevelScheme, group: u32) -> f64 {
    match scheme {
        LevelScheme::Local => 0.0,
        LevelScheme::Partner => 1.0,
        LevelScheme::Xor => 1.0 / f64::from(group.max(2) - 1),
    }
}

impl LevelSettings {
    /// Returns the maximum space for the checkpoints that nodes keep, as a multiple of one checkpoint.
    pub fn peak(&self, scheme: LevelScheme) -> f64 {
        f64::from(self.keep + 1) * (1.0 + redundancy(scheme, self.group))
    }
}

/// Why nodes cannot be divided into groups of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGroups {
    /// There are fewer nodes than a group needs.
    TooFew,
    /// One node would be alone in a group.
    OneAlone,
}

/// Divides nodes into parity groups of this size, each of neighbouring nodes; the last group has the rest.
///
/// # Errors
/// The nodes cannot be divided.
pub fn parity_groups(nodes: usize, size: usize) -> Result<Vec<Range<usize>>, NoGroups> {
    if size < 2 || size > nodes {
        return Err(NoGroups::TooFew);
    }
    if nodes % size == 1 {
        return Err(NoGroups::OneAlone);
    }
    let of = |begin: usize| begin..nodes.min(begin + size);
    Ok((0..nodes).step_by(size).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_all_nodes_once_and_none_has_a_node_alone() {
        assert_eq!(
            parity_groups(4, 4),
            Ok(vec![std::ops::Range { start: 0, end: 4 }])
        );
        assert_eq!(parity_groups(6, 4), Ok(vec![0..4, 4..6]));
        assert_eq!(parity_groups(5, 4), Err(NoGroups::OneAlone));
        assert_eq!(parity_groups(3, 4), Err(NoGroups::TooFew));
        assert_eq!(parity_groups(1, 2), Err(NoGroups::TooFew));
        assert_eq!(parity_groups(4, 1), Err(NoGroups::TooFew));
    }

    #[test]
    fn another_slot_is_there_while_a_checkpoint_is_made() {
        let settings = LevelSettings::default();
        let peaks = [LevelScheme::Local, LevelScheme::Partner, LevelScheme::Xor]
            .map(|scheme| settings.peak(scheme));
        assert_eq!(peaks, [2.0, 4.0, 2.0 * (4.0 / 3.0)]);
    }
}
