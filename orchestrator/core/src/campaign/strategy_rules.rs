//! Decides which strategies make sense for which points, and which factors have no effect with a strategy.

use crate::{
    app::descriptor::Descriptor,
    io_settings::unreached_setting,
    point::Point,
    strategy::{CheckpointWriters, Strategy, WhenLate},
};

/// Returns why the strategy of a point makes no sense; `None` if it does make sense. The point's checkpointer takes checkpoints, and `app` describes
/// the point's program. `is_restarted` means that the run is restarted from its checkpoint, and must pass its verification again.
pub fn senseless(point: &Point, app: &Descriptor, is_restarted: bool) -> Option<String> {
    let (name, strategy) = (&point.app, point.strategy);
    // strategies that store on nodes have further rules (`level_rules`)
    let is_of_nodes = strategy.level_scheme().is_some();
    if strategy.is_neutral() || is_of_nodes || !point.checkpointer.takes_checkpoints() {
        return None;
    }
    if strategy.is_of_checkpointer() {
        return senseless_for_checkpointer(point, is_restarted);
    }
    if let Some(driven) = point.checkpointer.driven() {
        return Some(format!(
            "{} writes its images itself: strategy = \"{strategy}\" is for checkpoints that the program writes (checkpointer = \"application\")",
            driven.title
        ));
    }
    let ways = app.checkpoint.as_ref().map(|own| own.ways.as_slice());
    let ways = ways.unwrap_or_default();
    if !ways.contains(&strategy) {
        let known: Vec<&str> = [Strategy::Sync]
            .iter()
            .chain(ways)
            .map(|way| way.word())
            .collect();
        return Some(format!(
            "{name} does not write its checkpoints with strategy = \"{strategy}\"; it has {}",
            known.join(", ")
        ));
    }
    let how = if strategy.is_mpi_io() {
        "collective MPI-IO"
    } else {
        "MPI-IO"
    };
    unreached_setting(point, strategy.is_mpi_io(), strategy.is_collective()).map(|factor| {
        let factor = factor.name();
        format!("strategy = \"{strategy}\" does not write by {how}: {factor} has no effect on it")
    })
}

/// Returns why a strategy that the checkpointer implements makes no sense for a point; `None` if it does make sense. A forked copy of a process
/// shares memory segments with the original, which continues to write to them. Therefore only a restart shows whether the image is usable.
fn senseless_for_checkpointer(point: &Point, is_restarted: bool) -> Option<String> {
    let strategy = point.strategy;
    if !point.checkpointer.is_driven() {
        return Some(format!(
            "strategy = \"{strategy}\" is a way of DMTCP: use checkpointer = \"dmtcp\""
        ));
    }
    (!is_restarted).then(|| {
        format!(
            "strategy = \"{strategy}\" needs a restart that verifies the result: add restart_check = true"
        )
    })
}

/// Resets the settings that have no effect with a point's strategy, so that points that differ only in these become equal.
pub fn silence(point: &mut Point) {
    if !point.strategy.has_writers() {
        point.writers = CheckpointWriters::default();
    }
    if !point.strategy.can_skip() {
        point.when_late = WhenLate::default();
    }
}
