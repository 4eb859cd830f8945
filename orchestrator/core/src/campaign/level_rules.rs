//! Decides for which points nodes can keep checkpoints.

use super::{
    levels::{NoGroups, parity_groups},
    model::StorageKind,
    spec::Spec,
};
use crate::{
    app::descriptor::Descriptor,
    io_settings::IO_SETTINGS,
    point::{FactorId, Moment, Point},
    strategy::LevelScheme,
    units::counted,
};

/// Returns why nodes cannot keep the checkpoints of a point as its strategy requires; `None` if they can.
pub fn senseless(spec: &Spec, point: &Point, app: &Descriptor) -> Option<String> {
    let scheme = point.strategy.level_scheme()?;
    if !point.checkpointer.takes_checkpoints() {
        return None;
    }
    let (strategy, mapping) = (point.strategy, &point.mapping);
    let (nodes, settings) = (
        mapping.nodes(),
        spec.checkpoint.levels.clone().unwrap_or_default(),
    );
    let area = spec.sites.get(&point.site)?.storage.get(&point.storage)?;
    if area.kind == StorageKind::Shared {
        return Some(format!(
            "strategy = \"{strategy}\" keeps checkpoints on each node, and the storage area `{}` is shared: use one with kind = \"node-local\"",
            point.storage
        ));
    }
    let moments = point.moment.as_ref().unwrap_or(&spec.checkpoint.moment);
    let is_compared = point.checkpointer.is_driven() && Moment::is_compared(moments)
        || point.checkpointer.has_own_files() && spec.checkpoint.own_series;
    if spec.checkpoint.deltas.is_some() && is_compared {
        return Some(format!(
            "strategy = \"{strategy}\" and `deltas` both keep the checkpoints of a series: remove one of them"
        ));
    }
    if let Some(node) = settings.lose.iter().find(|node| **node > nodes) {
        return Some(format!(
            "`lose` contains node {node}, but {mapping} has {}",
            counted(nodes, "node")
        ));
    }
    without_effect(point, app).or_else(|| no_redundancy(scheme, point, settings.group))
}

/// Returns why a mapping does not allow the copies or the parity of a scheme; `None` if it does.
fn no_redundancy(scheme: LevelScheme, point: &Point, group: u32) -> Option<String> {
    let (mapping, nodes) = (&point.mapping, point.mapping.nodes());
    match scheme {
        LevelScheme::Local => None,
        LevelScheme::Partner => (nodes < 2).then(|| {
            format!(
                "{mapping} is on one node: a partner (strategy = \"partner\") needs another one"
            )
        }),
        LevelScheme::Xor => match parity_groups(nodes as usize, group as usize) {
            Ok(_) => None,
            Err(NoGroups::TooFew) => Some(format!(
                "{mapping} has {}: a parity group needs {group} (checkpoint.levels.group)",
                counted(nodes, "node")
            )),
            Err(NoGroups::OneAlone) => Some(format!(
                "groups of {group} leave one of the {nodes} nodes of {mapping} alone, without parity: choose another checkpoint.levels.group"
            )),
        },
    }
}

/// Returns why an MPI-IO setting of a point does not affect the checkpoints of a program that writes a file for each process; `None` if every setting
/// affects them.
fn without_effect(point: &Point, app: &Descriptor) -> Option<String> {
    if !point.checkpointer.has_own_files() || !app.writes_per_process(point.strategy) {
        return None;
    }
    let factors = [FactorId::Aggregators, FactorId::CbBuffer].into_iter();
    let all = factors.chain(IO_SETTINGS.iter().map(|setting| setting.factor));
    let set = all
        .map(FactorId::name)
        .find(|name| !point.is_neutral(name))?;
    Some(format!(
        "with strategy = \"{}\" {} writes a file for each process, without MPI-IO: {set} has no effect on it",
        point.strategy, point.app
    ))
}
