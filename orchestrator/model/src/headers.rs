//! The headers of the memory areas in an image.
//!
//! DMTCP 4 writes a header of 4 KiB before each run of pages that it stores, and splits an area wherever it leaves pages out: 8 to 13 MiB in
//! an image, compared with some hundred KiB in older versions. Most headers belong to libraries and small areas and are the same everywhere;
//! the others lie between the pieces of the program's arrays, and grow with the number of gaps in them.

use super::{
    curve::{Model, ModelInfo, Setting, Tier},
    dtapp,
    fit::FitError,
    linear::Linear,
    scope::Common,
};
use cvc_core::units::MIB;

/// Least half-width of an interval, MiB: 25 areas more or less.
const BAND_MIB: f64 = 0.1;

/// Returns the models of the headers, MiB.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![gaps(), faces(), volume(), constant()]
}

/// May be fitted on runs of several programs with the same library.
fn gaps() -> Box<dyn Model> {
    let info = ModelInfo {
        id: "headers-gaps",
        title: "constant and gaps between written pages",
        formula: "MiB = a + b·runs of written pages·4096/2^20",
        source: "DMTCP 4 writes a header for each run of pages; the runs follow from the declarations and loops of NPB 3.3",
        tier: Tier::SmallRuns,
        parameters: 2,
    };
    let terms = |at: &Setting| {
        let unknown = || FitError::OutOfDomain(format!("which pages {}.{} writes is not known", at.app, at.class));
        let runs = dtapp::written_runs(at.nas.ok_or_else(unknown)?, at.processes())?;
        Ok(vec![1.0, runs * 4096.0 / MIB])
    };
    line(Linear { names: &["a", "b"], terms, common: &[Common::Mpi], ..of(info) })
}

fn faces() -> Box<dyn Model> {
    let info = ModelInfo {
        id: "headers-faces",
        title: "constant and faces",
        formula: "MiB = a + b/√P",
        source: "gaps lie between the planes of arrays, which are as many as the edge of the cells",
        tier: Tier::SmallRuns,
        parameters: 2,
    };
    line(Linear { names: &["a", "b"], terms: |at| Ok(vec![1.0, 1.0 / at.root()]), ..of(info) })
}

fn volume() -> Box<dyn Model> {
    let info = ModelInfo {
        id: "headers-volume",
        title: "constant and volume",
        formula: "MiB = a + b/P",
        source: "gaps in proportion to the data",
        tier: Tier::SmallRuns,
        parameters: 2,
    };
    line(Linear { names: &["a", "b"], terms: |at| Ok(vec![1.0, 1.0 / f64::from(at.processes())]), ..of(info) })
}

fn constant() -> Box<dyn Model> {
    let info = ModelInfo {
        id: "headers-constant",
        title: "constant",
        formula: "MiB = a",
        source: "headers of libraries and small areas",
        tier: Tier::SmallRuns,
        parameters: 1,
    };
    line(of(info))
}

fn line(model: Linear) -> Box<dyn Model> {
    Box::new(model)
}

fn of(info: ModelInfo) -> Linear {
    Linear { names: &["a"], least_band: BAND_MIB, ..Linear::of(info) }
}
