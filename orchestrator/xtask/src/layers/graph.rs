//! Small directed graphs: cycles, levels, and the cheapest edges to remove to break a cycle.

use std::collections::{BTreeMap, BTreeSet};

/// A directed graph with weighted edges.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The nodes.
    pub nodes: BTreeSet<usize>,
    /// Weight of each edge from the first node to the second.
    pub edges: BTreeMap<(usize, usize), usize>,
}

impl Graph {
    fn successors(&self, node: usize) -> impl Iterator<Item = usize> {
        self.edges
            .range((node, 0)..=(node, usize::MAX))
            .map(|((_, to), _)| *to)
    }

    /// Returns the nodes reachable from `from`.
    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<usize> = self.successors(from).collect();
        while let Some(node) = open.pop() {
            if reached.insert(node) {
                open.extend(self.successors(node));
            }
        }
        reached
    }

    /// Returns the strongly connected components of more than one node, largest first.
    pub fn cycles(&self) -> Vec<BTreeSet<usize>> {
        let reached: BTreeMap<usize, BTreeSet<usize>> = self
            .nodes
            .iter()
            .map(|n| (*n, self.reachable(*n)))
            .collect();
        let mut cycles: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
        for (node, after) in reached.iter().filter(|(node, after)| after.contains(node)) {
            cycles.insert(
                after
                    .iter()
                    .copied()
                    .filter(|n| reached[n].contains(node))
                    .collect(),
            );
        }
        let mut cycles: Vec<_> = cycles.into_iter().collect();
        cycles.sort_by_key(|c| std::cmp::Reverse(c.len()));
        cycles
    }

    /// Returns the length of the longest path down from each node; the nodes of a cycle share a level.
    pub fn levels(&self) -> BTreeMap<usize, usize> {
        let cycles = self.cycles();
        let home = |node: usize| {
            cycles
                .iter()
                .find(|c| c.contains(&node))
                .and_then(BTreeSet::first)
                .copied()
                .unwrap_or(node)
        };
        let mut levels: BTreeMap<usize, usize> = self.nodes.iter().map(|n| (home(*n), 0)).collect();
        // with cycles collapsed, no path is longer than the number of nodes
        for _ in 0..self.nodes.len() {
            for (from, to) in self
                .edges
                .keys()
                .map(|(from, to)| (home(*from), home(*to)))
                .filter(|(from, to)| from != to)
            {
                let below = levels[&to] + 1;
                levels.entry(from).and_modify(|l| *l = (*l).max(below));
            }
        }
        self.nodes.iter().map(|n| (*n, levels[&home(*n)])).collect()
    }

    /// Returns edges whose removal breaks the cycle, with the smallest total weight that a local search finds: those that point backwards in the
    /// best order of its nodes.
    pub fn feedback_edges(&self, cycle: &BTreeSet<usize>) -> Vec<(usize, usize)> {
        let within: Vec<(usize, usize, usize)> = self
            .edges
            .iter()
            .filter(|((from, to), _)| cycle.contains(from) && cycle.contains(to))
            .map(|((from, to), weight)| (*from, *to, *weight))
            .collect();
        let back = |order: &[usize]| -> usize {
            let place: BTreeMap<usize, usize> = order
                .iter()
                .enumerate()
                .map(|(place, node)| (*node, place))
                .collect();
            within
                .iter()
                .filter(|(from, to, _)| place[from] > place[to])
                .map(|(_, _, weight)| weight)
                .sum()
        };
        let mut order: Vec<usize> = cycle.iter().copied().collect();
        let mut best = back(&order);
        // try every node in every place until no move improves the order
        loop {
            let before = best;
            for node in cycle {
                let Some(at) = order.iter().position(|n| n == node) else {
                    continue;
                };
                order.remove(at);
                let (mut place, mut least) = (at, best);
                for to in 0..=order.len() {
                    order.insert(to, *node);
                    let weight = back(&order);
                    order.remove(to);
                    if weight < least {
                        (place, least) = (to, weight);
                    }
                }
                order.insert(place, *node);
                best = least;
            }
            if best == before {
                break;
            }
        }
        let place: BTreeMap<usize, usize> = order
            .iter()
            .enumerate()
            .map(|(place, node)| (*node, place))
            .collect();
        within
            .iter()
            .filter(|(from, to, _)| place[from] > place[to])
            .map(|(from, to, _)| (*from, *to))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize, usize)]) -> Graph {
        let nodes = edges
            .iter()
            .flat_map(|(from, to, _)| [*from, *to])
            .collect();
        Graph {
            nodes,
            edges: edges
                .iter()
                .map(|(from, to, weight)| ((*from, *to), *weight))
                .collect(),
        }
    }

    #[test]
    fn an_acyclic_graph_has_levels_and_no_cycle() {
        let graph = graph(&[(3, 1, 1), (3, 2, 1), (2, 1, 1), (4, 1, 1)]);
        assert!(graph.cycles().is_empty());
        assert_eq!(
            graph.levels(),
            BTreeMap::from([(1, 0), (2, 1), (3, 2), (4, 1)])
        );
    }

    #[test]
    fn separate_cycles_are_found_and_each_shares_a_level() {
        let graph = graph(&[
            (1, 2, 1),
            (2, 1, 1),
            (3, 4, 1),
            (4, 5, 1),
            (5, 3, 1),
            (3, 1, 1),
        ]);
        assert_eq!(
            graph.cycles(),
            [BTreeSet::from([3, 4, 5]), BTreeSet::from([1, 2])]
        );
        assert_eq!(
            graph.levels(),
            BTreeMap::from([(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)])
        );
    }

    #[test]
    fn the_lightest_edges_break_a_cycle() {
        let graph = graph(&[(1, 2, 5), (2, 3, 4), (3, 1, 2), (3, 2, 1)]);
        let cut = graph.feedback_edges(&BTreeSet::from([1, 2, 3]));
        assert_eq!(cut, [(3, 1), (3, 2)]);
        let mut rest = graph.clone();
        cut.iter().for_each(|edge| _ = rest.edges.remove(edge));
        assert!(rest.cycles().is_empty());
    }
}
