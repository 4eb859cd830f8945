//! Transfers between the nodes that keep a checkpoint: for copies, for parity, and to rebuild the files that a node has lost. Nodes are identified by
//! numbers.

use super::{
    flow::{Flow, FlowSource, FlowTarget, KeptPart, Piece},
    stream::StreamTarget,
    table::FileTable,
};
use cvc_delta::parity::{Contribution, ParityGroup};

/// A stream from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLink {
    /// Unique name of the stream.
    pub name: String,
    /// Number of the sending node.
    pub from: usize,
    /// Number of the receiving node.
    pub to: usize,
}

/// A flow of a node. If the target is a stream, the receiver's address is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Planned {
    node: usize,
    from: Vec<FlowSource>,
    to: To,
    bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    Stream(String),
    Files(KeptPart, FileTable),
    Parity,
}

/// Flows of several nodes that form one transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Movement {
    links: Vec<StreamLink>,
    flows: Vec<Planned>,
}

impl Movement {
    /// Adds a copy: node `from` sends the files of `table` from its part `part` to node `to`, which stores them as its part `kept`.
    pub fn copy(
        &mut self,
        from: usize,
        part: KeptPart,
        to: usize,
        kept: KeptPart,
        table: FileTable,
    ) {
        let bytes = table.bytes();
        let all = Piece {
            of: part,
            offset: 0,
            bytes,
        };
        let name = self.link("copy", from, to);
        self.flow(
            from,
            vec![FlowSource::Here(vec![all])],
            To::Stream(name.clone()),
            bytes,
        );
        self.flow(
            to,
            vec![FlowSource::Stream(name)],
            To::Files(kept, table),
            bytes,
        );
    }

    /// Adds the parity of a group: each node sends segments of its files to the other nodes, which combine them into their parity. `bytes`: the size
    /// of each node's files.
    pub fn parity(&mut self, nodes: &[usize], bytes: &[u64]) {
        let Some(group) = ParityGroup::new(bytes) else {
            return;
        };
        let length = group.segment_bytes();
        for (holder, to) in nodes.iter().enumerate() {
            let mut sources = Vec::new();
            for (owner, from) in nodes.iter().enumerate() {
                let Some(offset) = group.offset(owner, holder) else {
                    continue;
                };
                let name = self.link("parity", *from, *to);
                let segment = Piece {
                    of: KeptPart::Own,
                    offset,
                    bytes: length,
                };
                let source = FlowSource::Here(vec![segment]);
                self.flow(*from, vec![source], To::Stream(name.clone()), length);
                sources.push(FlowSource::Stream(name));
            }
            self.flow(*to, sources, To::Parity, length);
        }
    }

    /// Adds the rebuilding of a lost node's files, listed in `table`, by the other nodes of its group. The nodes form a chain: each combines its own
    /// data with the data it receives and sends the result to the next one. The last one sends to the lost node. `bytes`: the size of each node's
    /// files before the loss.
    pub fn rebuild(&mut self, nodes: &[usize], bytes: &[u64], lost: usize, table: FileTable) {
        let Some(group) = ParityGroup::new(bytes) else {
            return;
        };
        let (segment, all) = (group.segment_bytes(), group.padded_bytes());
        let mut before: Option<String> = None;
        let left: Vec<usize> = (0..nodes.len()).filter(|n| *n != lost).collect();
        for (place, of) in left.iter().enumerate() {
            let piece = |one| {
                let (of, offset) = match one {
                    Contribution::Parity => (KeptPart::Parity, 0),
                    Contribution::Data(offset) => (KeptPart::Own, offset),
                };
                Piece {
                    of,
                    offset,
                    bytes: segment,
                }
            };
            let pieces = group.contributions(*of, lost).into_iter().map(piece);
            let own = FlowSource::Here(pieces.collect());
            let sources = before.take().map(FlowSource::Stream).into_iter();
            let next = left.get(place + 1).copied().unwrap_or(lost);
            let name = self.link("rebuild", nodes[*of], nodes[next]);
            let sources = [own].into_iter().chain(sources).collect();
            self.flow(nodes[*of], sources, To::Stream(name.clone()), all);
            before = Some(name);
        }
        let source = before.map(FlowSource::Stream).into_iter().collect();
        self.flow(nodes[lost], source, To::Files(KeptPart::Own, table), all);
    }

    fn link(&mut self, what: &str, from: usize, to: usize) -> String {
        let name = format!("{what}-{from}-{to}");
        self.links.push(StreamLink {
            name: name.clone(),
            from,
            to,
        });
        name
    }

    fn flow(&mut self, node: usize, from: Vec<FlowSource>, to: To, bytes: u64) {
        self.flows.push(Planned {
            node,
            from,
            to,
            bytes,
        });
    }

    /// Returns the streams between nodes; each needs an open port on its receiver.
    #[must_use]
    pub fn links(&self) -> &[StreamLink] {
        &self.links
    }

    /// Returns the flows of a node. `target` returns the open port of a stream; flows to a stream without a port are omitted.
    pub fn flows(&self, node: usize, target: impl Fn(&str) -> Option<StreamTarget>) -> Vec<Flow> {
        let of_node = self.flows.iter().filter(|flow| flow.node == node);
        let flow = |planned: &Planned| {
            let to = match &planned.to {
                To::Stream(name) => FlowTarget::Stream(target(name)?),
                To::Files(part, table) => FlowTarget::Files {
                    part: part.clone(),
                    table: table.clone(),
                },
                To::Parity => FlowTarget::Parity,
            };
            Some(Flow {
                from: planned.from.clone(),
                to,
                bytes: planned.bytes,
            })
        };
        of_node.filter_map(flow).collect()
    }
}
