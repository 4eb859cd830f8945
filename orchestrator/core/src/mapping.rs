//! How processes are put on nodes: `2Nx8P` (2 nodes of 8 processes), `6Nx4P+1Nx1P` (an uneven one).

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Maximum number of processes of a mapping; more are a typing error.
const MAX_PROCESSES: u32 = 1 << 20;

/// A number of nodes that carry the same number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Nodes in the group, at least 1.
    pub nodes: u32,
    /// Processes on each of them, at least 1.
    pub processes_per_node: u32,
}

/// Groups of nodes in the order of ranks: rank 0 is on the first node of the first group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mapping(Vec<Group>);

/// One process.
impl Default for Mapping {
    fn default() -> Self {
        Self::one_node(1)
    }
}

impl Mapping {
    /// All processes on one node.
    pub fn one_node(processes: u32) -> Self {
        Self::even(1, processes)
    }

    /// As many processes on each node.
    pub fn even(nodes: u32, processes_per_node: u32) -> Self {
        Self(vec![Group {
            nodes: nodes.max(1),
            processes_per_node: processes_per_node.max(1),
        }])
    }

    /// The groups, first ranks first.
    pub fn groups(&self) -> &[Group] {
        &self.0
    }

    /// Total number of nodes.
    pub fn nodes(&self) -> u32 {
        self.0.iter().map(|g| g.nodes).sum()
    }

    /// Total number of processes.
    pub fn processes(&self) -> u32 {
        self.0.iter().map(|g| g.nodes * g.processes_per_node).sum()
    }

    /// Processes on each node, in order of nodes.
    pub fn node_loads(&self) -> impl Iterator<Item = u32> + '_ {
        self.0
            .iter()
            .flat_map(|g| std::iter::repeat_n(g.processes_per_node, g.nodes as usize))
    }
}

impl FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{text}` is not a valid mapping: write nodes and processes per node as in 2Nx8P, uneven ones as in 6Nx4P+1Nx1P"
            )
        };
        let mut groups = Vec::new();
        let mut processes: u32 = 0;
        for part in text.split('+') {
            let (nodes, rest) = part.trim().split_once("Nx").ok_or_else(bad)?;
            let per_node = rest.strip_suffix('P').ok_or_else(bad)?;
            let number = |digits: &str| -> Result<u32, String> {
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(bad());
                }
                digits
                    .parse()
                    .map_err(|_| format!("`{text}` asks for more than {MAX_PROCESSES} processes"))
            };
            let group = Group {
                nodes: number(nodes)?,
                processes_per_node: number(per_node)?,
            };
            if group.nodes == 0 || group.processes_per_node == 0 {
                return Err(format!(
                    "`{text}` is not a valid mapping: a group needs at least one node and one process per node"
                ));
            }
            processes = group
                .nodes
                .checked_mul(group.processes_per_node)
                .and_then(|p| p.checked_add(processes))
                .filter(|p| *p <= MAX_PROCESSES)
                .ok_or_else(|| format!("`{text}` asks for more than {MAX_PROCESSES} processes"))?;
            groups.push(group);
        }
        Ok(Self(groups))
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, g) in self.0.iter().enumerate() {
            write!(
                f,
                "{}{}Nx{}P",
                if i == 0 { "" } else { "+" },
                g.nodes,
                g.processes_per_node
            )?;
        }
        Ok(())
    }
}

impl Serialize for Mapping {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mapping {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Mapping {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mapping".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Processes on nodes: `2Nx8P`; uneven ones as `6Nx4P+1Nx1P`.",
            "type": "string", "pattern": "^[0-9]+Nx[0-9]+P(\\+[0-9]+Nx[0-9]+P)*$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    #[test]
    fn uneven_mapping_counts_nodes_and_processes() {
        let m: Mapping = "6Nx4P+1Nx1P".parse().expect("a mapping");
        assert_eq!((m.nodes(), m.processes()), (7, 25));
        assert_eq!(m.node_loads().collect::<Vec<_>>(), [4, 4, 4, 4, 4, 4, 1]);
        assert_eq!(m.to_string(), "6Nx4P+1Nx1P");
    }

    #[test]
    fn what_is_no_mapping_is_refused() {
        for bad in [
            "",
            "4",
            "0Nx4P",
            "1Nx0P",
            "1nx4p",
            "1Nx4P+",
            "-1Nx4P",
            "1Nx4Q",
            "99999999999Nx1P",
            "65536Nx65536P",
            "+1Nx+4P",
        ] {
            assert!(bad.parse::<Mapping>().is_err(), "{bad}");
        }
    }
}
