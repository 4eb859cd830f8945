//! Rotating parity over the checkpoints of a group of nodes, as in RAID 5 and SCR: each node stores 1/(k - 1) of the size of the largest
//! checkpoint, and the group survives the loss of one node.
//!
//! The data of each of the k nodes are padded with zeros to k - 1 segments of equal length. Segment s of node j enters the parity of node (j + 1 +
//! s) mod k. The parity of a node thus combines one segment of each other node and none of its own.

/// A group of nodes that share their parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityGroup {
    nodes: usize,
    segment_bytes: u64,
}

impl ParityGroup {
    /// Creates a group; `bytes` has the length of each node's data. Returns `None` for fewer than two nodes.
    #[must_use]
    pub fn new(bytes: &[u64]) -> Option<Self> {
        let segments = bytes.len().checked_sub(1).filter(|n| *n > 0)?;
        let largest = bytes.iter().copied().max().unwrap_or(0);
        Some(Self {
            nodes: bytes.len(),
            segment_bytes: largest.div_ceil(segments as u64),
        })
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the length of a segment, which is also the length of the parity on a node, bytes.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Returns the padded length of a node's data, bytes.
    #[must_use]
    pub fn padded_bytes(&self) -> u64 {
        self.segment_bytes * (self.nodes as u64 - 1)
    }

    /// Returns the node whose parity contains this segment of `owner`.
    #[must_use]
    pub fn holder(&self, owner: usize, segment: usize) -> usize {
        (owner + 1 + segment) % self.nodes
    }

    /// Returns the offset of the segment of `owner` that the parity of `holder` contains, bytes; `None` if the two nodes are the same.
    #[must_use]
    pub fn offset(&self, owner: usize, holder: usize) -> Option<u64> {
        let segment = (holder + self.nodes - owner - 1) % self.nodes;
        (owner != holder).then(|| segment as u64 * self.segment_bytes)
    }

    /// Returns the contributions of the surviving node `of` to the segments of a lost node, in the segments' order. The XOR of all nodes'
    /// contributions to a segment is that segment.
    #[must_use]
    pub fn contributions(&self, of: usize, lost: usize) -> Vec<Contribution> {
        let of_segment = |segment| {
            let holder = self.holder(lost, segment);
            self.offset(of, holder)
                .map_or(Contribution::Parity, Contribution::Data)
        };
        (0..self.nodes - 1).map(of_segment).collect()
    }
}

/// Contribution of a node to a segment of a lost node; it has the length of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contribution {
    /// The node's parity.
    Parity,
    /// The node's own data from this offset, bytes.
    Data(u64),
}

/// Adds data by XOR to a sum of the same length.
pub fn xor_into(sum: &mut [u8], data: &[u8]) {
    const WORD: usize = size_of::<u64>();
    let (words, rest) = sum.as_chunks_mut::<WORD>();
    let (data_words, data_rest) = data.as_chunks::<WORD>();
    for (word, other) in words.iter_mut().zip(data_words) {
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*other)).to_ne_bytes();
    }
    for (byte, other) in rest.iter_mut().zip(data_rest) {
        *byte ^= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn padded(data: &[u8], group: &ParityGroup) -> Vec<u8> {
        let mut padded = data.to_vec();
        padded.resize(group.padded_bytes() as usize, 0);
        padded
    }

    fn part(data: &[u8], offset: u64, group: &ParityGroup) -> Vec<u8> {
        padded(data, group)[offset as usize..][..group.segment_bytes() as usize].to_vec()
    }

    fn parity(nodes: &[Vec<u8>], holder: usize, group: &ParityGroup) -> Vec<u8> {
        let mut sum = vec![0; group.segment_bytes() as usize];
        for (owner, data) in nodes.iter().enumerate() {
            if let Some(offset) = group.offset(owner, holder) {
                xor_into(&mut sum, &part(data, offset, group));
            }
        }
        sum
    }

    proptest! {
        #[test]
        fn any_one_node_is_what_the_others_have_left(
            nodes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 2..7),
            lost in any::<prop::sample::Index>(),
        ) {
            let lost = lost.index(nodes.len());
            let bytes: Vec<u64> = nodes.iter().map(|data| data.len() as u64).collect();
            let group = ParityGroup::new(&bytes).expect("a group");
            let mut rebuilt = vec![0; group.padded_bytes() as usize];
            for (of, data) in nodes.iter().enumerate().filter(|(of, _)| *of != lost) {
                let all: Vec<u8> = group.contributions(of, lost).into_iter().flat_map(|one| match one {
                    Contribution::Parity => parity(&nodes, of, &group),
                    Contribution::Data(offset) => part(data, offset, &group),
                }).collect();
                xor_into(&mut rebuilt, &all);
            }
            prop_assert_eq!(rebuilt, padded(&nodes[lost], &group));
        }
    }

    #[test]
    fn parity_is_spread_and_as_long_as_one_segment_of_the_largest() {
        let group = ParityGroup::new(&[10, 31, 0, 7]).expect("a group");
        assert_eq!((group.segment_bytes(), group.padded_bytes()), (11, 33));
        // each segment of a node is in the parity of a different node
        let holders: Vec<usize> = (0..3).map(|segment| group.holder(2, segment)).collect();
        assert_eq!(holders, [3, 0, 1]);
        assert_eq!(group.offset(2, 0), Some(11));
        assert_eq!(group.offset(2, 2), None);
        assert_eq!(ParityGroup::new(&[5]), None);
        assert_eq!(ParityGroup::new(&[]), None);
    }

    #[test]
    fn each_contribution_is_the_parity_once() {
        let group = ParityGroup::new(&[4; 5]).expect("a group");
        for lost in 0..5 {
            for of in (0..5).filter(|of| *of != lost) {
                let all = group.contributions(of, lost);
                let parities = all.iter().filter(|one| **one == Contribution::Parity);
                assert_eq!((all.len(), parities.count()), (4, 1));
            }
        }
    }
}
