//! Files and bytes of a whole checkpoint for any mapping: the thesis's Algorithm 1 and the auxiliary files.

use super::{
    check::at_least_one,
    curve::{Model, ModelInfo, MpiKind, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
    growth::Growth,
    linear::Linear,
    scope::{Along, Common},
};
use cvc_core::mapping::Mapping;
use serde::Serialize;
use std::collections::BTreeMap;

/// Identifier of the model of the files that DMTCP saves for a node under Open MPI.
pub const OPEN_MPI_AUX: &str = "aux-open-mpi";

/// Systematic error of this model, MiB: programs differ by some pages.
pub const OPEN_MPI_AUX_BAND_MIB: f64 = 0.1;

/// Returns the models of the files that DMTCP saves for a node next to its images. The first is Open MPI's shared memory plus a constant of the
/// program; the second adds a part that grows with the number of processes.
pub fn aux_models() -> [Box<dyn Model>; 2] {
    let open_mpi = Linear {
        offset: |at| Ok(open_mpi_aux_mib(at)),
        least_band: OPEN_MPI_AUX_BAND_MIB,
        common: &[Common::Mpi],
        along: Along::PerNode,
        admits: |at| match open_mpi_aux_mib(at) {
            0.0 => Err(FitError::OutOfDomain(
                "only Open MPI has these files".into(),
            )),
            _ => Ok(()),
        },
        ..Linear::of(ModelInfo {
            id: OPEN_MPI_AUX,
            title: "shared memory of Open MPI",
            formula: "MiB of a node = 8 + 4·p + c; 8 + c with one process",
            source: "cvc: a segment of 4 MiB for each process and 8 MiB for the node, the same in runs of 13 programs",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    };
    let growth = Growth::on_node(
        "aux-growth",
        "MiB of a node = library(p) + two of c + s·p + r·p², none negative; library(p) = 8 + 4·p with Open MPI, 8 with one process, 0 with others",
        |at| Ok(open_mpi_aux_mib(at)),
        |_| Ok(()),
    );
    [Box::new(open_mpi), Box::new(growth)]
}

/// Returns the MiB of Open MPI's shared memory that DMTCP saves for a node. It is 0 for one process, which has no segment, and for other libraries.
fn open_mpi_aux_mib(at: &Setting) -> f64 {
    match (at.mpi, at.per_node) {
        (MpiKind::OpenMpi, 1) => 8.0,
        (MpiKind::OpenMpi, p) => 8.0 + 4.0 * f64::from(p),
        (MpiKind::Nemesis | MpiKind::Mpich, _) => 0.0,
    }
}

/// A group of files of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FileGroup {
    /// Number of files in the group.
    pub count: u32,
    /// MiB of each file.
    pub size: Estimate,
    /// Processes on the node that writes them.
    pub node_load: u32,
    /// Whether the processes of these files aggregate collective I/O.
    pub aggregator: bool,
}

/// The number of processes that aggregate collective I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregators {
    /// The program does no collective I/O.
    None,
    /// One aggregator on each node, the default of ROMIO and OMPIO.
    OnePerNode,
    /// This number of aggregators in total: one on each node in the order of the nodes, then a second one on each, and so on.
    Number(u32),
}

/// Returns the files of a checkpoint on `mapping` (thesis, Algorithm 1). For each number of processes on a node there are plain files, and files of
/// aggregators, which have `surplus` MiB in addition. `plain` returns the MiB of an image on a node with that many processes.
///
/// Groups are sorted: nodes with the most processes first, and plain files before those of aggregators.
///
/// # Errors
/// There are more aggregators than processes, or zero aggregators, or `plain` fails.
pub fn files(
    mapping: &Mapping,
    aggregators: Aggregators,
    surplus: Estimate,
    mut plain: impl FnMut(u32) -> Result<Estimate, FitError>,
) -> Result<Vec<FileGroup>, FitError> {
    // (plain files, aggregators) by number of processes on the node
    let mut counts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for (load, on_node) in mapping
        .node_loads()
        .zip(aggregators_on_nodes(mapping, aggregators)?)
    {
        let (of_plain, of_aggregators) = counts.entry(load).or_default();
        *of_plain += load - on_node;
        *of_aggregators += on_node;
    }
    let mut groups = Vec::new();
    for (node_load, (of_plain, of_aggregators)) in counts.into_iter().rev() {
        let size = plain(node_load)?;
        groups.push(FileGroup {
            count: of_plain,
            size,
            node_load,
            aggregator: false,
        });
        groups.push(FileGroup {
            count: of_aggregators,
            size: size.plus(surplus),
            node_load,
            aggregator: true,
        });
    }
    groups.retain(|g| g.count > 0);
    Ok(groups)
}

/// Returns the number of aggregators on each node, in the order of the nodes.
pub(crate) fn aggregators_on_nodes(
    mapping: &Mapping,
    aggregators: Aggregators,
) -> Result<Vec<u32>, FitError> {
    let loads: Vec<u32> = mapping.node_loads().collect();
    let mut left = match aggregators {
        Aggregators::None => 0,
        Aggregators::OnePerNode => mapping.nodes(),
        Aggregators::Number(number) => {
            at_least_one("the number of aggregators", number).map(|_| number)?
        }
    };
    if left > mapping.processes() {
        return Err(FitError::OutOfDomain(format!(
            "{left} aggregators are more than the {} processes of {mapping}",
            mapping.processes()
        )));
    }
    let mut on_nodes = vec![0; loads.len()];
    while left > 0 {
        for (on_node, load) in on_nodes.iter_mut().zip(&loads) {
            if left > 0 && *on_node < *load {
                *on_node += 1;
                left -= 1;
            }
        }
    }
    Ok(on_nodes)
}

/// Returns the total MiB of all files. Their sizes come from the same curves, so their errors are assumed to be fully correlated.
pub fn total(files: &[FileGroup]) -> Estimate {
    files
        .iter()
        .map(|g| g.size.times(f64::from(g.count)))
        .fold(Estimate::exact(0.0), Estimate::plus_together)
}

/// Returns the MiB of the files next to the images in the cloud: 48 + (n − 1)·28.6. Source: thesis, Tables 5.18 and 5.19.
///
/// # Errors
/// There are no instances.
pub fn aux_cloud_mib(instances: u32) -> Result<f64, FitError> {
    Ok(48.0 + (at_least_one("the number of instances", instances)? - 1.0) * 28.6)
}

#[cfg(test)]
mod tests {
    use super::{Aggregators, Estimate, FileGroup, aux_cloud_mib, files, total};
    use cvc_core::mapping::Mapping;

    fn of(mapping: &str, aggregators: Aggregators) -> Vec<FileGroup> {
        let mapping: Mapping = mapping.parse().expect("a mapping");
        let plain = |load| Ok(Estimate::plus_minus(100.0 + f64::from(load), 1.0));
        files(&mapping, aggregators, Estimate::exact(16.0), plain).expect("files")
    }

    /// Returns count, processes on the node, aggregator and MiB of each group.
    fn short(groups: &[FileGroup]) -> Vec<(u32, u32, bool, f64)> {
        groups
            .iter()
            .map(|g| (g.count, g.node_load, g.aggregator, g.size.value))
            .collect()
    }

    #[test]
    fn nodes_with_the_same_load_form_one_group_wherever_they_are() {
        assert_eq!(
            short(&of("1Nx4P+1Nx2P+2Nx4P", Aggregators::None)),
            [(12, 4, false, 104.0), (2, 2, false, 102.0)]
        );
        let default = short(&of("6Nx4P+1Nx1P", Aggregators::OnePerNode));
        assert_eq!(
            default,
            [
                (18, 4, false, 104.0),
                (6, 4, true, 120.0),
                (1, 1, true, 117.0)
            ]
        );
    }

    #[test]
    fn aggregators_go_round_the_nodes() {
        assert_eq!(
            short(&of("4Nx4P", Aggregators::Number(2))),
            [(14, 4, false, 104.0), (2, 4, true, 120.0)]
        );
        assert_eq!(
            short(&of("1Nx1P+1Nx4P", Aggregators::Number(4))),
            [
                (1, 4, false, 104.0),
                (3, 4, true, 120.0),
                (1, 1, true, 117.0)
            ]
        );
        let mapping: Mapping = "2Nx2P".parse().expect("a mapping");
        for wrong in [0, 5] {
            assert!(
                files(
                    &mapping,
                    Aggregators::Number(wrong),
                    Estimate::exact(0.0),
                    |_| Ok(Estimate::exact(1.0))
                )
                .is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn files_err_together() {
        assert_eq!(
            total(&of("1Nx4P+1Nx2P", Aggregators::None)),
            Estimate::plus_minus(620.0, 6.0)
        );
        assert_eq!(total(&[]), Estimate::exact(0.0));
        assert!(aux_cloud_mib(0).is_err());
    }
}
