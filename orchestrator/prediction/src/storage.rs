//! The storage that a job needs for its checkpoints: the files on each node by kind, and the checkpoints kept during the job.

use crate::predict::{Forecasts, Predictor, Question};
use crate::subject::LAUNCHERS_OF_FURTHER_NODE;
use cvc_core::{
    mapping::Mapping,
    quantity::Quantity,
    retention::{KeptVolume, Retention, left_mib},
    units::MIB,
};
use cvc_index::{Index, LauncherImages, error::AnalysisError};
use cvc_model::{
    Estimate, FitError, Tier,
    node_files::{
        AUXILIARY, LauncherKind, LauncherPlace, NodeFiles, NodeGroup, aux_cluster, by_node,
    },
    stored::{Aggregators, FileGroup},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The storage that the checkpoints of a job need.
#[derive(Clone, Debug, Serialize)]
pub struct StorageNeed {
    /// The job, such as `npb-bt.D 2Nx32P mpich-ch3`.
    pub label: String,
    /// Number of checkpoints in the whole job; null for a job without an end.
    pub checkpoints: Option<u64>,
    /// The retention policy.
    pub retention: Retention,
    /// Space of the retained checkpoints in multiples of one checkpoint.
    pub volume: KeptVolume,
    /// Groups of nodes with the same files, in the order of the mapping.
    pub nodes: Vec<NodeNeed>,
    /// Storage for all nodes together, if they share it.
    pub all: Space,
    /// Total MiB of all checkpoints that are written; null for a job without an end.
    pub written_mib: Option<Estimate>,
    /// Facts that are unknown.
    pub warnings: Vec<String>,
}

/// Storage for each node of a group, if each node has its own storage.
#[derive(Clone, Debug, Serialize)]
pub struct NodeNeed {
    /// The nodes, and the files of one checkpoint on each node.
    #[serde(flatten)]
    pub group: NodeGroup,
    /// Storage for each node.
    #[serde(flatten)]
    pub space: Space,
}

/// Space for checkpoints, MiB.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Space {
    /// Space of one checkpoint.
    pub checkpoint_mib: Estimate,
    /// Maximum space while no checkpoint is taken.
    pub kept_mib: Estimate,
    /// Maximum space while a checkpoint is taken: the new checkpoint in addition to the retained ones.
    pub peak_mib: Estimate,
}

/// Returns the launchers observed on the nodes of a campaign's runs with a library, by kind. If all runs were on the same number of nodes, a
/// program named ssh is assumed to run once for each further node.
///
/// # Errors
/// The index cannot be read.
pub fn observed_launchers(
    index: &Index,
    question: &Question,
) -> Result<Vec<LauncherKind>, AnalysisError> {
    let setting = &question.setting;
    let nodes: BTreeMap<String, u32> = index
        .points()?
        .into_iter()
        .filter(|p| p.point.mpi == setting.mpi_name && p.point.compression == setting.compression)
        .map(|p| (p.id.as_str().to_owned(), p.point.mapping.nodes()))
        .collect();
    let mut images = index.launcher_images()?;
    images.retain(|of| nodes.contains_key(&of.point));
    let points: BTreeSet<&str> = images.iter().map(|of| of.point.as_str()).collect();
    let kinds: BTreeSet<(&str, bool)> = images
        .iter()
        .map(|of| (of.kind.as_str(), of.is_first))
        .collect();
    let mut launchers = Vec::new();
    for (kind, is_first) in kinds.into_iter().rev() {
        let own: Vec<&LauncherImages> = images
            .iter()
            .filter(|of| of.kind == kind && of.is_first == is_first)
            .collect();
        // a point without files of this kind counts as 0
        let counts: Vec<(f64, f64)> = points
            .iter()
            .map(|point| {
                let files = own.iter().find(|of| of.point == **point);
                (f64::from(nodes[*point]), files.map_or(0.0, |of| of.files))
            })
            .collect();
        let (place, files) = law(kind, is_first, &counts);
        let mib = own.iter().map(|of| of.bytes / MIB).sum::<f64>() / own.len() as f64;
        launchers.push(LauncherKind {
            kind: kind.to_owned(),
            place,
            files,
            mib,
        });
    }
    Ok(launchers)
}

/// Returns the number of files of a kind and their place, from (nodes, files) pairs.
fn law(kind: &str, is_first: bool, counts: &[(f64, f64)]) -> (LauncherPlace, f64) {
    let several: Vec<(f64, f64)> = counts.iter().copied().filter(|(n, _)| *n > 1.0).collect();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let for_each = mean(
        &several
            .iter()
            .map(|(n, files)| files / (n - 1.0))
            .collect::<Vec<_>>(),
    );
    if !is_first {
        return (LauncherPlace::EachFurther, for_each);
    }
    let once = mean(&counts.iter().map(|(_, files)| *files).collect::<Vec<_>>());
    let miss = |of: &dyn Fn(f64) -> f64| -> f64 {
        counts.iter().map(|(n, files)| (files - of(*n)).abs()).sum()
    };
    let is_for_each = if counts.iter().all(|(n, _)| *n == counts[0].0) {
        counts[0].0 > 1.0 && kind.contains("ssh")
    } else {
        miss(&|n| for_each * (n - 1.0)) < miss(&|_| once)
    };
    if is_for_each {
        (LauncherPlace::FirstForEachFurther, for_each)
    } else {
        (LauncherPlace::First, once)
    }
}

/// Returns the storage that a job needs. `launchers` are the observed launchers by kind; empty if unknown.
///
/// # Errors
/// The reason why the size of a checkpoint is unknown.
pub fn storage_need(
    predictor: &Predictor<'_>,
    forecasts: &Forecasts,
    launchers: &[LauncherKind],
    retention: Retention,
    checkpoints: Option<u64>,
) -> Result<StorageNeed, String> {
    let question = &forecasts.question;
    let mapping = &question.setting.mapping;
    let mut warnings = forecasts.warnings.clone();
    let ranks = ranks(forecasts, &mut warnings)?;
    let aggregators = if ranks.iter().any(|g| g.aggregator) {
        question
            .setting
            .aggregators
            .map_or(Aggregators::OnePerNode, Aggregators::Number)
    } else {
        Aggregators::None
    };
    let is_whole = !forecasts.files.is_empty();
    let launchers = match is_whole {
        true => all_launchers(forecasts, mapping, launchers, &mut warnings),
        false => Vec::new(),
    };
    let auxiliary = |load: u32| match is_whole {
        true => Ok(auxiliary(predictor, question, load)),
        false => Ok(Estimate::exact(0.0)),
    };
    let mut groups = by_node(mapping, aggregators, &ranks, &launchers, auxiliary)
        .map_err(|error: FitError| error.to_string())?;
    widen_launchers(forecasts, &mut groups);
    let volume = retention.volume(checkpoints);
    let own = Retention {
        copies: 1,
        ..retention
    }
    .volume(checkpoints);
    let sum = |of: &dyn Fn(&NodeGroup) -> Estimate| {
        groups
            .iter()
            .map(|group| of(group).times(group.nodes.len() as f64))
            .fold(Estimate::exact(0.0), Estimate::plus_together)
    };
    let of_all = sum(&NodeGroup::checkpoint_mib);
    let left_mib =
        left_mib(sum(&|group| sum_of(&group.files, |file| file.kind == AUXILIARY)).value);
    let mut occupied = Occupied {
        volume,
        own,
        accumulates: left_mib > 0.0,
        left: retention.left(checkpoints),
        largest: Estimate::exact(0.0),
    };
    occupied.largest = groups
        .iter()
        .map(|group| occupied.replaced(group))
        .max_by(|a, b| a.value.total_cmp(&b.value))
        .unwrap_or(Estimate::exact(0.0));
    if occupied.accumulates && checkpoints != Some(1) {
        warnings.push(format!(
            "DMTCP removes images that it replaces, but not the files with shared memory next to them: {left_mib:.1} MiB more with each checkpoint"
        ));
    }
    Ok(StorageNeed {
        label: forecasts.label.clone(),
        checkpoints,
        retention,
        volume,
        nodes: groups
            .iter()
            .map(|group| NodeNeed {
                group: group.clone(),
                space: occupied.on_node(group),
            })
            .collect(),
        all: Space {
            checkpoint_mib: of_all,
            kept_mib: occupied.of_all(&sum, volume.at_rest),
            peak_mib: occupied.of_all(&sum, volume.peak),
        },
        written_mib: checkpoints.map(|_| of_all.times(volume.written)),
        warnings,
    })
}

/// Space occupied by checkpoints. Images are replaced; files of shared memory, which DMTCP saves next to them, accumulate.
struct Occupied {
    volume: KeptVolume,
    /// The node's own checkpoints, without copies of other nodes' checkpoints.
    own: KeptVolume,
    /// Whether files of shared memory accumulate.
    accumulates: bool,
    /// Number of times that files of shared memory remain.
    left: f64,
    /// The largest amount that the next checkpoint replaces on any node. Copies of other nodes' files are assumed to have this size.
    largest: Estimate,
}

impl Occupied {
    /// Returns the MiB of those files of a node that the next checkpoint replaces.
    fn replaced(&self, group: &NodeGroup) -> Estimate {
        sum_of(&group.files, |file| {
            !self.accumulates || file.kind != AUXILIARY
        })
    }

    /// Returns the MiB of those files of a node that the next checkpoint does not replace, for all checkpoints.
    fn left(&self, group: &NodeGroup) -> Estimate {
        let one = sum_of(&group.files, |file| {
            self.accumulates && file.kind == AUXILIARY
        });
        one.times(self.left)
    }

    fn on_node(&self, group: &NodeGroup) -> Space {
        let (replaced, left) = (self.replaced(group), self.left(group));
        let of = |own: f64, all: f64| {
            replaced
                .times(own)
                .plus_together(self.largest.times(all - own))
                .plus_together(left)
        };
        Space {
            checkpoint_mib: group.checkpoint_mib(),
            kept_mib: of(self.own.at_rest, self.volume.at_rest),
            peak_mib: of(self.own.peak, self.volume.peak),
        }
    }

    /// Returns the space on all nodes. `sum` adds up a value over all nodes; `multiple` is the number of times that the replaced files are stored at
    /// the same time.
    fn of_all(
        &self,
        sum: &dyn Fn(&dyn Fn(&NodeGroup) -> Estimate) -> Estimate,
        multiple: f64,
    ) -> Estimate {
        let replaced = sum(&|group| self.replaced(group));
        let left = sum(&|group| self.left(group));
        replaced.times(multiple).plus_together(left)
    }
}

fn sum_of(files: &[NodeFiles], wanted: impl Fn(&NodeFiles) -> bool) -> Estimate {
    let sizes = files
        .iter()
        .filter(|file| wanted(file))
        .map(|file| file.mib);
    sizes.fold(Estimate::exact(0.0), Estimate::plus_together)
}

/// Returns the files of the ranks by number of processes on the node; if only a total is known, it is divided by the number of processes.
fn ranks(forecasts: &Forecasts, warnings: &mut Vec<String>) -> Result<Vec<FileGroup>, String> {
    if !forecasts.files.is_empty() {
        return Ok(forecasts.files.clone());
    }
    let total = [Quantity::Stored, Quantity::Application, Quantity::Ranks];
    let Some(total) = total.into_iter().find_map(|q| forecasts.first(q)) else {
        let reasons = forecasts.of(Quantity::Stored).chain(&forecasts.lines);
        let reason = reasons
            .filter_map(|line| line.forecast.estimate().err())
            .next();
        return Err(reason.unwrap_or("no size was predicted").to_owned());
    };
    let mapping = &forecasts.question.setting.mapping;
    if mapping.nodes() > 1 {
        warnings.push(
            "only the sum of all files is known: each node is assumed to store its processes' share"
                .into(),
        );
    }
    let size = total.estimate.times(1.0 / f64::from(mapping.processes()));
    let loads: BTreeSet<u32> = mapping.node_loads().collect();
    Ok(loads
        .into_iter()
        .map(|node_load| FileGroup {
            count: node_load,
            size,
            node_load,
            aggregator: false,
        })
        .collect())
}

/// Returns the launchers by kind: observed ones, published ones, or only a total. If no observed kind is on further nodes, the part of the total that
/// no kind explains is assumed to be there.
fn all_launchers(
    forecasts: &Forecasts,
    mapping: &Mapping,
    observed: &[LauncherKind],
    warnings: &mut Vec<String>,
) -> Vec<LauncherKind> {
    let Some(total) = forecasts.first(Quantity::Launchers) else {
        return observed.to_vec();
    };
    if total.model.tier == Tier::Published {
        return aux_cluster();
    }
    let further = f64::from(mapping.nodes() - 1);
    let of = |place, mib| LauncherKind {
        kind: "launchers".to_owned(),
        place,
        files: 1.0,
        mib,
    };
    let has_further = observed
        .iter()
        .any(|kind| kind.place == LauncherPlace::EachFurther);
    if observed.is_empty() {
        let first = total.estimate.value / (1.0 + LAUNCHERS_OF_FURTHER_NODE * further);
        if further > 0.0 {
            warnings.push(
                "launchers by node are unknown: a further node is assumed to have 0.6 of those of the first, as published".into(),
            );
        }
        return vec![
            of(LauncherPlace::First, first),
            of(
                LauncherPlace::EachFurther,
                LAUNCHERS_OF_FURTHER_NODE * first,
            ),
        ];
    }
    let mut launchers = observed.to_vec();
    let known: f64 = observed.iter().map(|kind| kind.files * kind.mib).sum();
    if further > 0.0 && !has_further && total.estimate.value > known {
        launchers.push(of(
            LauncherPlace::EachFurther,
            (total.estimate.value - known) / further,
        ));
    }
    launchers
}

/// Returns the files next to the images of a node with `load` processes.
fn auxiliary(predictor: &Predictor<'_>, question: &Question, load: u32) -> Estimate {
    let mut of_node = question.clone();
    of_node.setting.mapping = Mapping::one_node(load);
    let forecasts = predictor.forecast(&of_node);
    let auxiliary = forecasts.first(Quantity::Aux).map(|p| p.estimate);
    auxiliary.unwrap_or(Estimate::exact(0.0))
}

/// Gives the files of launchers the relative interval of their total.
fn widen_launchers(forecasts: &Forecasts, groups: &mut [NodeGroup]) {
    let Some(total) = forecasts.first(Quantity::Launchers) else {
        return;
    };
    let of_ranks = ["rank", "aggregator", AUXILIARY];
    let is_launcher = |file: &&mut NodeFiles| !of_ranks.contains(&file.kind.as_str());
    let files = groups.iter_mut().flat_map(|group| &mut group.files);
    for file in files.filter(is_launcher) {
        file.mib = match total.estimate.interval {
            Some(ends) if total.estimate.value > 0.0 => {
                let one = file.mib.value / total.estimate.value;
                Estimate::between(file.mib.value, one * ends.low, one * ends.high)
            }
            // the published total has no interval
            Some(_) | None => Estimate::exact(file.mib.value),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{LauncherPlace, law};

    #[test]
    fn what_grows_with_the_nodes_runs_for_each_further_one() {
        use LauncherPlace::{EachFurther, First, FirstForEachFurther};
        let grows = [(1.0, 0.0), (2.0, 1.0), (4.0, 3.0)];
        assert_eq!(law("helper", true, &grows), (FirstForEachFurther, 1.0));
        let same = [(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)];
        assert_eq!(law("ssh-like", true, &same), (First, 1.0));
        assert_eq!(law("proxy", false, &grows), (EachFurther, 1.0));
        // with counts on one number of nodes only, the name of the program decides
        assert_eq!(law("ssh", true, &[(2.0, 1.0)]), (FirstForEachFurther, 1.0));
        assert_eq!(law("mpiexec", true, &[(2.0, 1.0)]), (First, 1.0));
    }
}
