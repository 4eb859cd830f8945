//! Decides for which points a layout of the program's own checkpoints makes sense.

use super::spec::Spec;
use crate::{
    app::descriptor::Descriptor,
    io_settings::unreached_setting,
    point::Point,
    strategy::{CheckpointLayout, Strategy},
};

/// Returns why the layout of a point makes no sense for the program of this descriptor; `None` if it does make sense.
pub fn senseless(spec: &Spec, point: &Point, app: &Descriptor) -> Option<String> {
    let (name, layout, strategy) = (&point.app, point.layout, point.strategy);
    if layout.is_neutral() || !point.checkpointer.takes_checkpoints() {
        return None;
    }
    if let Some(driven) = point.checkpointer.driven() {
        return Some(format!(
            "{} writes its images itself: layout = \"{layout}\" is for checkpoints that the program writes (checkpointer = \"application\")",
            driven.title
        ));
    }
    let layouts = app.checkpoint.as_ref().map(|own| own.layouts.as_slice());
    let layouts = layouts.unwrap_or_default();
    if !layouts.contains(&layout) {
        let known: Vec<&str> = [CheckpointLayout::Strided]
            .iter()
            .chain(layouts)
            .map(|of| of.word())
            .collect();
        return Some(format!(
            "{name} does not write its checkpoints with layout = \"{layout}\"; it has {}",
            known.join(", ")
        ));
    }
    if app.writes_per_process(strategy) {
        return Some(format!(
            "strategy = \"{strategy}\" keeps a file per process: layout has no effect on it"
        ));
    }
    if strategy.way_of_program() != Strategy::Sync.word() {
        return Some(format!(
            "strategy = \"{strategy}\" writes the strided file: layout = \"{layout}\" needs strategy = \"sync\""
        ));
    }
    if layout == CheckpointLayout::Delegated && spec.checkpoint.own_series {
        return Some(
            "layout = \"delegated\" overwrites its file, which `own_series = true` cannot copy: remove one of them".to_owned(),
        );
    }
    let how = if layout.is_mpi_io() {
        "collective MPI-IO"
    } else {
        "MPI-IO"
    };
    unreached_setting(point, layout.is_mpi_io(), layout.is_collective()).map(|factor| {
        let factor = factor.name();
        format!("layout = \"{layout}\" does not write by {how}: {factor} has no effect on it")
    })
}
