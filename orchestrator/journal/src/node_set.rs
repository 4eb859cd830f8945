//! Nodes of attempts in a journal. A campaign uses few sets of nodes repeatedly, so each set is written once, with a number; later events refer to
//! the number.

use super::problem::EventProblem;
use cvc_core::ids::NodeName;
use cvc_core::nodelist;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc};

/// The nodes of an attempt, in the form in which an event has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WrittenNodes {
    /// The set with this number. The first event with the number also has the names.
    Set {
        /// Number of the set, from 1, without gaps.
        set: u32,
        /// Names of the nodes of the set.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        names: Option<SetNames>,
    },
    /// All names, as in journals of formats 1 and 2.
    Names(Vec<NodeName>),
}

/// The names of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SetNames {
    /// A list in Slurm's notation, as in `n[1-1000]`.
    Short(String),
    /// All names, if Slurm's notation cannot express them.
    All(Vec<NodeName>),
}

impl Default for WrittenNodes {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

impl WrittenNodes {
    /// Returns whether there are no nodes.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Names(names) if names.is_empty())
    }
}

impl SetNames {
    fn of(nodes: &[NodeName]) -> Self {
        let short = nodelist::compress(nodes);
        match nodelist::expand(&short) {
            Ok(read) if nodes == read.as_slice() => Self::Short(short),
            Ok(_) | Err(_) => Self::All(nodes.to_vec()),
        }
    }

    /// Returns the names of the nodes one by one.
    ///
    /// # Errors
    /// The list is invalid.
    pub fn expand(&self) -> Result<Arc<[NodeName]>, EventProblem> {
        match self {
            Self::Short(list) => Ok(nodelist::expand(list)?
                .into_iter()
                .map(NodeName::read)
                .collect::<Result<_, _>>()?),
            Self::All(names) => Ok(names.as_slice().into()),
        }
    }
}

/// The sets of nodes that the events of a journal have used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSets {
    /// Numbered sets, in order.
    numbered: Vec<Arc<[NodeName]>>,
    /// All sets. A set has a number only if an event has defined it with one; in formats 1 and 2 none has.
    known: HashMap<Arc<[NodeName]>, Option<u32>>,
}

impl NodeSets {
    /// Returns the form in which the next event has to write these nodes.
    pub fn write(&self, nodes: &[NodeName]) -> WrittenNodes {
        match self.known.get(nodes) {
            _ if nodes.is_empty() => WrittenNodes::default(),
            Some(Some(set)) => WrittenNodes::Set {
                set: *set,
                names: None,
            },
            Some(None) | None => WrittenNodes::Set {
                set: self.next(),
                names: Some(SetNames::of(nodes)),
            },
        }
    }

    fn next(&self) -> u32 {
        u32::try_from(self.numbered.len() + 1).unwrap_or(u32::MAX)
    }

    fn numbered(&self, set: u32) -> Option<&Arc<[NodeName]>> {
        self.numbered.get(set.checked_sub(1)? as usize)
    }

    /// Checks whether the next event may have nodes in this form.
    ///
    /// # Errors
    /// The set has not been defined yet, its number is out of order, or its list is invalid.
    pub(super) fn check(&self, written: &WrittenNodes) -> Result<(), EventProblem> {
        match written {
            WrittenNodes::Names(_) => Ok(()),
            WrittenNodes::Set { set, names: None } => match self.numbered(*set) {
                Some(_) => Ok(()),
                None => Err(EventProblem::UnknownNodes(*set)),
            },
            WrittenNodes::Set {
                set,
                names: Some(_),
            } if *set != self.next() => Err(EventProblem::NodeSetOutOfOrder {
                expected: self.next(),
                found: *set,
            }),
            WrittenNodes::Set {
                names: Some(names), ..
            } => names.expand().map(drop),
        }
    }

    /// Applies the nodes of a checked event, and returns their names.
    pub(super) fn apply(&mut self, written: &WrittenNodes) -> Arc<[NodeName]> {
        match written {
            WrittenNodes::Names(names) if names.is_empty() => Arc::default(),
            WrittenNodes::Names(names) => match self.known.get_key_value(names.as_slice()) {
                Some((known, _)) => Arc::clone(known),
                None => {
                    let nodes: Arc<[NodeName]> = names.as_slice().into();
                    self.known.insert(Arc::clone(&nodes), None);
                    nodes
                }
            },
            WrittenNodes::Set { set, names: None } => {
                self.numbered(*set).cloned().unwrap_or_default()
            }
            WrittenNodes::Set {
                set,
                names: Some(names),
            } => {
                let nodes = names.expand().unwrap_or_default();
                self.numbered.push(Arc::clone(&nodes));
                self.known.insert(Arc::clone(&nodes), Some(*set));
                nodes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &str) -> Vec<NodeName> {
        nodelist::expand(list)
            .expect("a list")
            .into_iter()
            .map(NodeName::from)
            .collect()
    }

    fn json(written: &WrittenNodes) -> String {
        serde_json::to_string(written).expect("JSON")
    }

    #[test]
    fn a_set_is_written_once_and_kept_once() {
        let mut sets = NodeSets::default();
        let all = names("n[1-1000]");
        let first = sets.write(&all);
        assert_eq!(json(&first), r#"{"set":1,"names":"n[1-1000]"}"#);
        let nodes = sets.apply(&first);
        let other = sets.write(&names("n[2,1]"));
        assert_eq!(json(&other), r#"{"set":2,"names":"n[2,1]"}"#);
        sets.apply(&other);
        let again = sets.write(&all);
        assert_eq!(json(&again), r#"{"set":1}"#);
        assert!(Arc::ptr_eq(&sets.apply(&again), &nodes));
        assert!(sets.write(&[]).is_none());
    }

    #[test]
    fn names_of_older_journals_are_read_and_kept_once() {
        let mut sets = NodeSets::default();
        let old: WrittenNodes = serde_json::from_str(r#"["n1","n2"]"#).expect("read");
        assert_eq!(sets.check(&old), Ok(()));
        let nodes = sets.apply(&old);
        assert_eq!(*nodes, *names("n[1-2]"));
        assert!(Arc::ptr_eq(&sets.apply(&old), &nodes));
        // a journal that is continued gives the old set a number
        assert_eq!(json(&sets.write(&nodes)), r#"{"set":1,"names":"n[1-2]"}"#);
    }

    #[test]
    fn names_that_no_list_can_say_are_written_whole() {
        let mut sets = NodeSets::default();
        let odd: Vec<NodeName> = ["a,b", "c[1]", "d]"].map(NodeName::from).into();
        let written = sets.write(&odd);
        assert_eq!(json(&written), r#"{"set":1,"names":["a,b","c[1]","d]"]}"#);
        assert_eq!(*sets.apply(&written), *odd);
    }

    #[test]
    fn a_set_that_is_not_known_or_has_another_number_is_refused() {
        let sets = NodeSets::default();
        let problem = |text: &str| {
            sets.check(&serde_json::from_str(text).expect("read"))
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(problem(r#"{"set":1}"#), "the nodes of set 1 are unknown");
        assert_eq!(problem(r#"{"set":0}"#), "the nodes of set 0 are unknown");
        assert_eq!(
            problem(r#"{"set":2,"names":"n1"}"#),
            "expected the set of nodes 1, found 2"
        );
        assert!(problem(r#"{"set":1,"names":"n["}"#).contains("a bracket is not closed"));
        let climbs = problem(r#"{"set":1,"names":"n1,../n2"}"#);
        assert!(
            climbs.starts_with("`../n2` is not a valid name of a node"),
            "{climbs}"
        );
    }

    proptest! {
        #[test]
        fn written_sets_are_read_again(lists in prop::collection::vec(prop::collection::vec("[a-c]-?[0-9]{0,2}[,\\[\\]é]?", 0..4), 0..20)) {
            let (mut writer, mut reader) = (NodeSets::default(), NodeSets::default());
            for list in lists {
                let nodes: Vec<NodeName> = list.into_iter().map(NodeName::from).collect();
                let written = writer.write(&nodes);
                writer.apply(&written);
                let read: WrittenNodes = serde_json::from_str(&json(&written)).expect("JSON");
                prop_assert_eq!(reader.check(&read), Ok(()));
                prop_assert_eq!(&*reader.apply(&read), &nodes[..]);
            }
            prop_assert_eq!(writer, reader);
        }
    }
}
