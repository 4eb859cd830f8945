//! The files of one checkpoint on each node: equation 3.2 of the thesis for each node, with the files of launchers by kind (Table 3.1 of the
//! thesis).

use crate::{
    check::at_least_one,
    estimate::Estimate,
    fit::FitError,
    stored::{Aggregators, FileGroup, aggregators_on_nodes},
};
use cvc_core::mapping::Mapping;
use serde::Serialize;
use std::collections::BTreeMap;

/// The nodes on which launchers leave files of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LauncherPlace {
    /// On the first node, where the launcher runs.
    First,
    /// On the first node, for the connection to each further node.
    FirstForEachFurther,
    /// On each further node.
    EachFurther,
}

/// Checkpoint files of launchers of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LauncherKind {
    /// Name of the program: `mpiexec.hydra`, `hydra_pmi_proxy`, `ssh`.
    pub kind: String,
    /// The nodes with these files.
    pub place: LauncherPlace,
    /// Number of files on the node; for [`LauncherPlace::FirstForEachFurther`], for each further node.
    pub files: f64,
    /// MiB of each file.
    pub mib: f64,
}

impl LauncherKind {
    /// Returns the number of files of this kind on a node.
    fn on_node(&self, is_first: bool, nodes: u32) -> f64 {
        match (self.place, is_first) {
            (LauncherPlace::First, true) | (LauncherPlace::EachFurther, false) => self.files,
            (LauncherPlace::FirstForEachFurther, true) => self.files * f64::from(nodes - 1),
            (LauncherPlace::First | LauncherPlace::FirstForEachFurther, false)
            | (LauncherPlace::EachFurther, true) => 0.0,
        }
    }
}

/// Returns the launcher files of one checkpoint on a cluster, by kind. Source: thesis, Table 3.1 (DMTCP 2, MPICH 3). The proxy of the first node
/// has 19.18 MiB on one node and 18.89 MiB on several.
pub fn aux_cluster() -> Vec<LauncherKind> {
    use LauncherPlace::{EachFurther, First, FirstForEachFurther};
    [
        ("mpiexec", First, 18.69),
        ("proxy", First, 19.0),
        ("restart script", First, 0.01),
        ("ssh", FirstForEachFurther, 17.24),
        ("sshd", EachFurther, 2.5),
        ("proxy", EachFurther, 2.7),
    ]
    .map(|(kind, place, mib)| LauncherKind {
        kind: kind.to_owned(),
        place,
        files: 1.0,
        mib,
    })
    .into()
}

/// Returns the total MiB of the files of [`aux_cluster`] on n nodes: 37.70 + (n − 1)·22.44.
///
/// # Errors
/// There are no nodes.
pub fn aux_cluster_mib(nodes: u32) -> Result<f64, FitError> {
    let further = at_least_one("the number of nodes", nodes)? - 1.0;
    let of = |kind: LauncherKind| match kind.place {
        LauncherPlace::First => kind.mib,
        LauncherPlace::FirstForEachFurther | LauncherPlace::EachFurther => kind.mib * further,
    };
    Ok(aux_cluster().into_iter().map(of).sum())
}

/// The kind of files that DMTCP saves next to images.
pub const AUXILIARY: &str = "auxiliary";

/// Files of one kind on one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeFiles {
    /// `rank`, `aggregator`, the name of a launcher's program, or `auxiliary`.
    pub kind: String,
    /// Number of files; `None` if only their total size is known.
    pub files: Option<f64>,
    /// Total MiB of the files.
    pub mib: Estimate,
}

/// Nodes with the same files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeGroup {
    /// Node numbers, starting at 1, in the order of the mapping.
    pub nodes: Vec<u32>,
    /// Processes of the program on each node.
    pub processes: u32,
    /// The files of one checkpoint on each node.
    pub files: Vec<NodeFiles>,
}

impl NodeGroup {
    /// Returns the MiB of one checkpoint on each of the nodes. The errors of its files are assumed to be fully correlated.
    pub fn checkpoint_mib(&self) -> Estimate {
        let sizes = self.files.iter().map(|f| f.mib);
        sizes.fold(Estimate::exact(0.0), Estimate::plus_together)
    }
}

/// Returns the files of each node, with nodes that have the same files in one group. `ranks` are the files of ranks by number of processes on the
/// node ([`crate::stored::files`]). `auxiliary` returns the MiB of a node's other files for its number of processes.
///
/// # Errors
/// There are more aggregators than processes, or none; `ranks` has no size for a number of processes on a node; or `auxiliary` fails.
pub fn by_node(
    mapping: &Mapping,
    aggregators: Aggregators,
    ranks: &[FileGroup],
    launchers: &[LauncherKind],
    mut auxiliary: impl FnMut(u32) -> Result<Estimate, FitError>,
) -> Result<Vec<NodeGroup>, FitError> {
    let mut groups: Vec<NodeGroup> = Vec::new();
    // nodes with equal keys have equal files
    let mut known: BTreeMap<(bool, u32, u32), usize> = BTreeMap::new();
    let nodes = mapping.nodes();
    let on_nodes = aggregators_on_nodes(mapping, aggregators)?;
    for (number, (load, aggregators)) in (1..).zip(mapping.node_loads().zip(on_nodes)) {
        let is_first = number == 1;
        if let Some(place) = known.get(&(is_first, load, aggregators)) {
            groups[*place].nodes.push(number);
            continue;
        }
        let of_ranks = [
            ("rank", false, load - aggregators),
            ("aggregator", true, aggregators),
        ];
        let mut files = Vec::new();
        for (kind, aggregator, count) in of_ranks.into_iter().filter(|(.., count)| *count > 0) {
            let size = ranks
                .iter()
                .find(|g| g.node_load == load && g.aggregator == aggregator)
                .ok_or_else(|| {
                    FitError::OutOfDomain(format!("no file size on nodes with {load} processes"))
                })?
                .size;
            files.push(NodeFiles {
                kind: kind.to_owned(),
                files: Some(f64::from(count)),
                mib: size.times(f64::from(count)),
            });
        }
        for of in launchers {
            let count = of.on_node(is_first, nodes);
            if count > 0.0 {
                files.push(NodeFiles {
                    kind: of.kind.clone(),
                    files: Some(count),
                    mib: Estimate::exact(of.mib * count),
                });
            }
        }
        let auxiliary = auxiliary(load)?;
        if auxiliary.value > 0.0 {
            files.push(NodeFiles {
                kind: AUXILIARY.to_owned(),
                files: None,
                mib: auxiliary,
            });
        }
        known.insert((is_first, load, aggregators), groups.len());
        groups.push(NodeGroup {
            nodes: vec![number],
            processes: load,
            files,
        });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::{
        Aggregators, Estimate, FileGroup, FitError, LauncherKind,
        LauncherPlace::{self, EachFurther, First, FirstForEachFurther},
        NodeGroup, by_node,
    };
    use crate::stored;
    use cvc_core::mapping::Mapping;

    fn groups(
        mapping: &str,
        aggregators: Aggregators,
        launchers: &[LauncherKind],
        file_mib: impl Fn(u32) -> f64,
    ) -> Vec<NodeGroup> {
        let mapping: Mapping = mapping.parse().expect("a mapping");
        let size = |load| Ok::<_, FitError>(Estimate::exact(file_mib(load)));
        let ranks: Vec<FileGroup> =
            stored::files(&mapping, aggregators, Estimate::exact(16.0), size).expect("files");
        let none = |_| Ok(Estimate::exact(0.0));
        by_node(&mapping, aggregators, &ranks, launchers, none).expect("nodes")
    }

    /// Returns nodes, files and MiB of each group, rounded to 0.01.
    fn short(groups: &[NodeGroup]) -> Vec<(usize, f64, f64)> {
        let of = |g: &NodeGroup| {
            let files = g.files.iter().filter_map(|f| f.files).sum();
            let mib = (g.checkpoint_mib().value * 100.0).round() / 100.0;
            (g.nodes.len(), files, mib)
        };
        groups.iter().map(of).collect()
    }

    /// Thesis, Table 3.1: BT.D with 64 processes on 1, 2 and 4 nodes. Sums are computed by hand.
    #[test]
    fn table_3_1_by_node() {
        let kind = |kind: &str, place: LauncherPlace, mib: f64| LauncherKind {
            kind: kind.to_owned(),
            place,
            files: 1.0,
            mib,
        };
        for (mapping, file_mib, proxy_mib, script_mib, expected) in [
            ("1Nx64P", 982.72, 19.18, 0.009717, vec![(1, 67.0, 62931.96)]),
            (
                "2Nx32P",
                664.32,
                18.89,
                0.012852,
                vec![(1, 36.0, 21313.07), (1, 34.0, 21263.44)],
            ),
            (
                "4Nx16P",
                553.28,
                18.89,
                0.015029,
                vec![(1, 22.0, 8941.8), (3, 18.0, 8857.68)],
            ),
        ] {
            let launchers = [
                kind("mpiexec", First, 18.69),
                kind("proxy", First, proxy_mib),
                kind("restart script", First, script_mib),
                kind("ssh", FirstForEachFurther, 17.24),
                kind("sshd", EachFurther, 2.5),
                kind("proxy", EachFurther, 2.7),
            ];
            let found = groups(mapping, Aggregators::None, &launchers, |_| file_mib);
            assert_eq!(short(&found), expected, "{mapping}");
            // the formula takes 19.0 MiB for both proxies, and 0.01 MiB for the script
            let of_all: f64 = found
                .iter()
                .map(|g| g.nodes.len() as f64 * g.checkpoint_mib().value)
                .sum();
            let nodes = mapping[..1].parse::<u32>().expect("a number");
            let launchers = super::aux_cluster_mib(nodes).expect("a size");
            assert!(
                (64.0 * file_mib + launchers - of_all).abs() < 0.2,
                "{mapping}"
            );
        }
    }

    /// Thesis, Table 4.3, measured columns: the rank files of each node of uneven mappings.
    #[test]
    fn table_4_3_by_node() {
        for (mapping, sizes, gstored) in [
            ("1Nx13P+1Nx12P", [1133.16, 1127.82], [14731.08, 13533.82]),
            ("1Nx25P+1Nx24P", [726.43, 719.38], [18160.84, 17265.00]),
            ("1Nx41P+1Nx40P", [648.19, 639.19], [26575.88, 25567.77]),
            ("1Nx61P+1Nx60P", [750.94, 739.93], [45807.19, 44395.65]),
        ] {
            let mapping_of: Mapping = mapping.parse().expect("a mapping");
            let first = mapping_of.node_loads().next();
            let file_mib = |load| sizes[usize::from(Some(load) != first)];
            let found = groups(mapping, Aggregators::None, &[], file_mib);
            for (group, printed) in found.iter().zip(gstored) {
                let mib = group.checkpoint_mib().value;
                // the table rounds the size of a file to 0.01 MiB
                let rounding = 0.005 * f64::from(group.processes) + 0.005;
                assert!(
                    (mib - printed).abs() <= rounding,
                    "{mapping}: {mib} {printed}"
                );
            }
        }
    }

    #[test]
    fn nodes_that_differ_in_aggregators_are_groups_of_their_own() {
        let found = groups("4Nx4P", Aggregators::Number(3), &[], |_| 100.0);
        assert_eq!(
            short(&found),
            [(1, 4.0, 416.0), (2, 4.0, 416.0), (1, 4.0, 400.0)]
        );
        assert_eq!(found[1].nodes, [2, 3]);
    }
}
