//! The nodes of a question, with the files on them.

use crate::predict::{Forecasts, Question};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, Output, Setting, shmem};
use std::collections::BTreeSet;

/// The files of a node.
pub(super) struct OfNode {
    /// Number of processes on the node.
    pub load: u32,
    /// MiB of all files of the node.
    pub mib: Estimate,
    /// MiB of the program's data in these files, if known.
    pub own_mib: Option<f64>,
}

/// Returns the files of the node with the most data for each number of processes on a node, including the surplus of aggregators; empty if unknown.
pub(super) fn of_nodes(question: &Question, forecasts: &Forecasts) -> Vec<OfNode> {
    let loads: BTreeSet<u32> = question.setting.mapping.node_loads().collect();
    let of = |load: u32| {
        let nodes = question
            .setting
            .mapping
            .node_loads()
            .filter(|l| *l == load)
            .count() as u32;
        let group = |aggregator: bool| {
            forecasts
                .files
                .iter()
                .find(move |g| g.node_load == load && g.aggregator == aggregator)
        };
        // aggregators are assigned to nodes in turn
        let aggregators = group(true).map_or(0, |g| g.count.div_ceil(nodes.max(1)));
        let plain = load.saturating_sub(aggregators);
        let sum = |count: u32, aggregator: bool| match (count, group(aggregator)) {
            (0, _) => Some(Estimate::exact(0.0)),
            (count, group) => Some(group?.size.times(f64::from(count))),
        };
        let zone = |zone: Quantity| {
            let line = forecasts
                .of(zone)
                .find(|l| l.node_load.is_none_or(|of| of == load))?;
            line.forecast.prediction().map(|p| p.estimate.value)
        };
        let of_rank = zone(Quantity::Dtapp).zip(zone(Quantity::Shmem));
        let of_rank = of_rank
            .map(|(data, shared)| data + shmem::data_mib(&question.setting.on_node(load), shared));
        let mib = sum(plain, false)?.plus_together(sum(aggregators, true)?);
        Some(OfNode {
            load,
            mib,
            own_mib: of_rank.map(|own| own * f64::from(load)),
        })
    };
    loads
        .into_iter()
        .map(of)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// Returns the setting of a node, as models use it.
pub(super) fn at(
    question: &Question,
    load: u32,
    node_mib: f64,
    own_mib: Option<f64>,
    cores: Option<u32>,
) -> Setting {
    let output = Output {
        node_mib: Some(node_mib),
        own_mib,
        cores,
        ..Output::default()
    };
    Setting {
        output,
        ..question.setting.on_node(load)
    }
}
