//! Mappings of processes to nodes: `2Nx8P` (2 nodes with 8 processes each), `6Nx4P+1Nx1P` (uneven), `2Nx2Px6T` (6 threads in each process).

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Maximum number of processes of a mapping; a larger number is probably a typing error.
const MAX_PROCESSES: u32 = 1 << 20;
/// Maximum number of threads of a process; a larger number is probably a typing error.
pub const MAX_THREADS: u32 = 4096;

/// Nodes with the same number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Number of nodes in the group, at least 1.
    pub nodes: u32,
    /// Number of processes on each node, at least 1.
    pub processes_per_node: u32,
}

/// Groups of nodes, in the order of ranks: rank 0 is on the first node of the first group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mapping {
    groups: Vec<Group>,
    threads: Option<u32>,
}

/// A mapping of one process.
impl Default for Mapping {
    fn default() -> Self {
        Self::one_node(1)
    }
}

impl Mapping {
    /// Returns a mapping of all processes to one node.
    pub fn one_node(processes: u32) -> Self {
        Self::even(1, processes)
    }

    /// Returns a mapping with the same number of processes on each node.
    pub fn even(nodes: u32, processes_per_node: u32) -> Self {
        Self {
            groups: vec![Group {
                nodes: nodes.max(1),
                processes_per_node: processes_per_node.max(1),
            }],
            threads: None,
        }
    }

    /// Returns the same mapping, with this number of threads in each process.
    pub fn with_threads(self, threads: u32) -> Self {
        Self {
            threads: Some(threads.max(1)),
            ..self
        }
    }

    /// Returns the number of threads of each process; `None` if the program chooses it.
    pub fn threads(&self) -> Option<u32> {
        self.threads
    }

    /// Returns the number of cores that each node needs, in the order of nodes: one for each thread, or for each process without threads.
    pub fn node_cores(&self) -> impl Iterator<Item = u32> + '_ {
        let threads = self.threads.unwrap_or(1);
        self.node_loads()
            .map(move |load| load.saturating_mul(threads))
    }

    /// Returns whether a node with `cores` cores would get more processes, or threads of processes, than cores.
    pub fn oversubscribes(&self, cores: u32) -> bool {
        self.node_cores().any(|needed| needed > cores)
    }

    /// Returns the name of the workers that occupy cores: `processes` or `threads`.
    pub fn workers(&self) -> &'static str {
        self.threads.map_or("processes", |_| "threads")
    }

    /// Returns the groups, in the order of ranks.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the total number of nodes.
    pub fn nodes(&self) -> u32 {
        self.groups.iter().map(|g| g.nodes).sum()
    }

    /// Returns the total number of processes.
    pub fn processes(&self) -> u32 {
        self.groups
            .iter()
            .map(|g| g.nodes * g.processes_per_node)
            .sum()
    }

    /// Returns the number of processes on each node, in the order of nodes.
    pub fn node_loads(&self) -> impl Iterator<Item = u32> + '_ {
        self.groups
            .iter()
            .flat_map(|g| std::iter::repeat_n(g.processes_per_node, g.nodes as usize))
    }
}

/// Why a mapping is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The text does not have the form of a mapping.
    #[error(
        "`{0}` is not a valid mapping: write nodes and processes per node as in 2Nx8P, uneven ones as in 6Nx4P+1Nx1P, threads of each process as in 2Nx2Px6T"
    )]
    Form(String),
    /// A group has no nodes, processes or threads.
    #[error(
        "`{0}` is not a valid mapping: a group needs at least one node, one process per node and one thread per process"
    )]
    EmptyGroup(String),
    /// The mapping has too many processes.
    #[error("`{0}` has more than {MAX_PROCESSES} processes")]
    TooManyProcesses(String),
    /// The processes have too many threads.
    #[error("`{0}` has more than {MAX_THREADS} threads per process")]
    TooManyThreads(String),
    /// Groups have different numbers of threads.
    #[error(
        "`{0}` is not a valid mapping: all of its processes have the same number of threads, as in 6Nx4Px2T+1Nx1Px2T"
    )]
    UnequalThreads(String),
}

impl FromStr for Mapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        let bad = || MappingError::Form(text.to_owned());
        let too_many = || MappingError::TooManyProcesses(text.to_owned());
        let mut groups = Vec::new();
        let (mut processes, mut threads): (u32, Option<u32>) = (0, None);
        for part in text.split('+') {
            let (nodes, rest) = part.trim().split_once("Nx").ok_or_else(bad)?;
            let (per_node, of_process) = match rest.split_once("Px") {
                Some((per_node, threads)) => {
                    (per_node, Some(threads.strip_suffix('T').ok_or_else(bad)?))
                }
                None => (rest.strip_suffix('P').ok_or_else(bad)?, None),
            };
            let number = |digits: &str| {
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(bad());
                }
                digits.parse().map_err(|_| too_many())
            };
            let group = Group {
                nodes: number(nodes)?,
                processes_per_node: number(per_node)?,
            };
            let of_process = of_process.map(&number).transpose()?;
            if group.nodes == 0 || group.processes_per_node == 0 || of_process == Some(0) {
                return Err(MappingError::EmptyGroup(text.to_owned()));
            }
            if of_process.is_some_and(|threads| threads > MAX_THREADS) {
                return Err(MappingError::TooManyThreads(text.to_owned()));
            }
            if !groups.is_empty() && of_process != threads {
                return Err(MappingError::UnequalThreads(text.to_owned()));
            }
            threads = of_process;
            processes = group
                .nodes
                .checked_mul(group.processes_per_node)
                .and_then(|p| p.checked_add(processes))
                .filter(|p| *p <= MAX_PROCESSES)
                .ok_or_else(too_many)?;
            groups.push(group);
        }
        Ok(Self { groups, threads })
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, g) in self.groups.iter().enumerate() {
            write!(
                f,
                "{}{}Nx{}P",
                if i == 0 { "" } else { "+" },
                g.nodes,
                g.processes_per_node
            )?;
            if let Some(threads) = self.threads {
                write!(f, "x{threads}T")?;
            }
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
            "description": "Processes on nodes: `2Nx8P`; uneven ones as `6Nx4P+1Nx1P`, with 6 threads in each process as `2Nx2Px6T`.",
            "type": "string", "pattern": "^[0-9]+Nx[0-9]+P(x[0-9]+T)?(\\+[0-9]+Nx[0-9]+P(x[0-9]+T)?)*$"
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
    fn threads_are_part_of_a_mapping_and_need_cores() {
        let m: Mapping = "6Nx4Px2T+1Nx1Px2T".parse().expect("a mapping");
        assert_eq!((m.processes(), m.threads()), (25, Some(2)));
        assert_eq!(m.node_cores().collect::<Vec<_>>(), [8, 8, 8, 8, 8, 8, 2]);
        assert_eq!(m.to_string(), "6Nx4Px2T+1Nx1Px2T");
        assert!(m.oversubscribes(7) && !m.oversubscribes(8));
        assert_eq!(
            Mapping::even(2, 2).with_threads(6).to_string(),
            "2Nx2Px6T",
            "as it is written"
        );
        // a number of threads is requested; without one the program chooses it
        assert_ne!("1Nx4Px1T".parse(), Ok(Mapping::one_node(4)));
    }

    #[test]
    fn invalid_mappings_are_refused() {
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
            "2Nx2Px0T",
            "2Nx2Px6",
            "2Nx2P6T",
            "2Nx2Px5000T",
            "2Nx2Px6T+1Nx1P",
            "2Nx2Px6T+1Nx1Px2T",
        ] {
            assert!(bad.parse::<Mapping>().is_err(), "{bad}");
        }
    }
}
