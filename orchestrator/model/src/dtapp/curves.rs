//! Curves over the number of processes, for otherwise unknown programs.

use crate::{
    curve::{Model, ModelInfo, Setting, Tier},
    fit::FitError,
    linear::{Linear, Weights},
    scope::Common,
};

/// Returns the model a/P + b/√P: the data divided among the processes, and the faces of the cuts.
pub(super) fn volume_and_faces() -> Box<dyn Model> {
    let info = ModelInfo {
        id: "dtapp-volume-faces",
        title: "volume and faces",
        formula: "MiB = a/P + b/√P",
        source: "the volume of a grid is cut by P, the ghost layers of its cuts by √P",
        tier: Tier::SmallRuns,
        parameters: 2,
    };
    in_processes(info, &["a", "b"], |at| {
        Ok(vec![1.0 / f64::from(at.processes()), 1.0 / at.root()])
    })
}

/// Identifier of a/P + b.
pub const VOLUME_AND_CONSTANT: &str = "dtapp-volume-constant";

/// Returns the model a/P + b.
pub(super) fn volume_and_constant() -> Box<dyn Model> {
    let info = ModelInfo {
        id: VOLUME_AND_CONSTANT,
        title: "volume and a constant",
        formula: "MiB = a/P + b",
        source: "the data cut among the processes, and those that each has whole",
        tier: Tier::SmallRuns,
        parameters: 2,
    };
    in_processes(info, &["a", "b"], |at| {
        Ok(vec![1.0 / f64::from(at.processes()), 1.0])
    })
}

/// Returns the model a/P + b/√P + c.
pub(super) fn volume_faces_and_constant() -> Box<dyn Model> {
    let info = ModelInfo {
        id: "dtapp-volume-faces-constant",
        title: "volume, faces and a constant",
        formula: "MiB = a/P + b/√P + c",
        source: "the sum of dtapp-volume-faces and the data that each process has whole",
        tier: Tier::SmallRuns,
        parameters: 3,
    };
    in_processes(info, &["a", "b", "c"], |at| {
        Ok(vec![1.0 / f64::from(at.processes()), 1.0 / at.root(), 1.0])
    })
}

fn in_processes(
    info: ModelInfo,
    names: &'static [&'static str],
    terms: fn(&Setting) -> Result<Vec<f64>, FitError>,
) -> Box<dyn Model> {
    Box::new(Linear {
        names,
        terms,
        weights: Weights::Relative,
        common: &[Common::Program],
        ..Linear::of(info)
    })
}
