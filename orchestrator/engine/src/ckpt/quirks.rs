//! The quirk table: known hazards of MPI and DMTCP with their remedies, from `quirks.toml`.

use crate::{mpi::Launcher, transport::Transport};
use cvc_core::point::CheckpointerKind;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A known hazard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirk {
    /// Short name; each run records the names of its applied quirks.
    pub id: String,
    /// Conditions under which the quirk applies: all given ones must hold.
    #[serde(default)]
    pub when: QuirkCondition,
    /// Environment variables to set.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// Arguments to add to the launcher.
    #[serde(default)]
    pub args: Vec<String>,
    /// A note for readers of the results.
    #[serde(default)]
    pub note: Option<String>,
    /// Reason for the quirk.
    pub reason: String,
}

/// Conditions of a quirk. A condition without a value always holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QuirkCondition {
    /// The checkpointer is this one.
    pub checkpointer: Option<CheckpointerKind>,
    /// The MPI family has this name.
    pub family: Option<String>,
    /// MPICH's device contains this text.
    pub device: Option<String>,
    /// Some node has (or has not) more ranks than cores.
    pub more_ranks_than_cores: Option<bool>,
    /// All ranks are (or are not) on one node.
    pub one_node: Option<bool>,
    /// The MPI library's version begins with this text.
    pub version: Option<String>,
    /// Ranks on other nodes are reached by the transport of this name.
    #[serde(rename = "reach")]
    pub transport: Option<String>,
    /// DMTCP has at least this version (major, minor).
    pub dmtcp_at_least: Option<(u32, u32)>,
}

/// Properties of a run that the conditions of quirks test.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    /// Checkpointer of the run.
    pub checkpointer: CheckpointerKind,
    /// Family of the MPI library.
    pub family: &'static dyn Launcher,
    /// Device of MPICH.
    pub device: Option<String>,
    /// Version of the MPI library.
    pub version: String,
    /// How ranks on other nodes are reached.
    pub transport: Transport,
    /// Whether some node has more ranks than cores.
    pub more_ranks_than_cores: bool,
    /// Number of nodes.
    pub nodes: u32,
    /// Version of the checkpointer (major, minor); `None` without one.
    pub checkpointer_version: Option<(u32, u32)>,
}

impl QuirkCondition {
    fn holds(&self, s: &Situation) -> bool {
        self.checkpointer.is_none_or(|c| c == s.checkpointer)
            && self.family.as_ref().is_none_or(|f| f == s.family.name())
            && self.device.as_ref().is_none_or(|d| {
                s.device
                    .as_ref()
                    .is_some_and(|have| have.contains(d.as_str()))
            })
            && self
                .more_ranks_than_cores
                .is_none_or(|m| m == s.more_ranks_than_cores)
            && self.one_node.is_none_or(|o| o == (s.nodes == 1))
            && self
                .version
                .as_ref()
                .is_none_or(|v| s.version.starts_with(v.as_str()))
            && self
                .transport
                .as_ref()
                .is_none_or(|t| t == s.transport.name())
            && self
                .dmtcp_at_least
                .is_none_or(|least| s.checkpointer_version.is_some_and(|have| have >= least))
    }
}

/// Returns the whole table.
pub fn table() -> Vec<Quirk> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        quirk: Vec<Quirk>,
    }
    // the file is compiled into the program, and a test parses it: this cannot fail
    toml::from_str::<File>(include_str!("quirks.toml"))
        .map(|f| f.quirk)
        .unwrap_or_default()
}

/// Returns the quirks that apply to a run.
pub fn apply(situation: &Situation) -> Vec<Quirk> {
    table()
        .into_iter()
        .filter(|q| q.when.holds(situation))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::launcher;
    use cvc_core::campaign::MpiFamily;

    #[test]
    fn the_table_is_read_and_conditions_select() {
        assert!(table().len() >= 7);
        for quirk in table() {
            let (family, transport) = (quirk.when.family, quirk.when.transport);
            let known: Vec<&str> = MpiFamily::ALL.iter().map(|f| launcher(*f).name()).collect();
            assert!(
                family.is_none_or(|f| known.contains(&f.as_str())),
                "{}: unknown family",
                quirk.id
            );
            assert!(
                transport.is_none_or(|t| Transport::NAMES.contains(&t.as_str())),
                "{}: unknown transport",
                quirk.id
            );
        }
        let mut s = Situation {
            checkpointer: CheckpointerKind::Dmtcp,
            family: launcher(MpiFamily::Mpich),
            device: Some("ch4:ucx".into()),
            version: "4.0.2".into(),
            transport: Transport::Local,
            more_ranks_than_cores: true,
            nodes: 1,
            checkpointer_version: Some((4, 2)),
        };
        let ids = |s: &Situation| apply(s).into_iter().map(|q| q.id).collect::<Vec<_>>();
        assert_eq!(
            ids(&s),
            [
                "hwloc-linuxio",
                "ucx-memory-hooks",
                "ucx-one-node",
                "mpich-yield",
                "dmtcp-break"
            ]
        );
        s.device = Some("ch3:nemesis".into());
        s.checkpointer_version = Some((3, 0));
        assert_eq!(
            ids(&s),
            ["hwloc-linuxio", "mpich-yield", "nemesis-shared-segment"]
        );
        s.checkpointer = CheckpointerKind::None;
        assert_eq!(ids(&s), ["mpich-yield"]);
        (s.nodes, s.transport, s.more_ranks_than_cores, s.device) =
            (2, Transport::Ssh, false, Some("ch4:ucx".into()));
        assert_eq!(ids(&s), ["mpich-ucx-between-nodes", "mpich-silent-node"]);
        (s.family, s.device) = (launcher(MpiFamily::OpenMpi), None);
        assert_eq!(ids(&s), ["openmpi-silent-node", "ompio-full-disk"]);
    }
}
