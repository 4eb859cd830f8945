//! The headers of memory areas in an image.
//!
//! DMTCP 4 writes a header of 4 KiB before each sequence of pages that it stores, and splits an area wherever it omits pages. These headers take 8
//! to 13 MiB of an image, compared with some hundred KiB in older versions. Most headers belong to libraries and small areas and are the same for
//! all programs. The other headers are between the pieces of the program's arrays, and grow with the number of gaps in these arrays.

use super::{
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    dtapp,
    estimate::Estimate,
    fit::FitError,
    linear::Linear,
    scope::{Along, Common, Scope},
};
use cvc_core::units::MIB;

/// Minimum half-width of an interval, MiB: the headers of 25 areas.
const BAND_MIB: f64 = 0.1;

/// A model is not contradicted by a run that is up to this distance from it, MiB. The gaps change by this much between cells that divide evenly and
/// cells that do not.
const FORM_ERROR_MIB: f64 = 1.2;

/// Returns the models of the headers, MiB.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![gaps(), Box::new(Shrunk), faces(), volume(), constant()]
}

/// Returns the model by the number of gaps. It can be fitted to runs of several programs with the same library.
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
        let unknown = || {
            FitError::OutOfDomain(format!(
                "which pages {}.{} writes is not known",
                at.app, at.class
            ))
        };
        let runs = dtapp::written_runs(at.nas.ok_or_else(unknown)?, at.processes())?;
        Ok(vec![1.0, runs * 4096.0 / MIB])
    };
    line(Linear {
        names: &["a", "b"],
        terms,
        common: &[Common::Mpi],
        ..of(info)
    })
}

fn faces() -> Box<dyn Model> {
    let info = ModelInfo {
        id: "headers-faces",
        title: "constant and faces",
        formula: "MiB = a + b/√P",
        source: "gaps are between the planes of arrays, which are as many as the edge of the cells",
        tier: Tier::SmallRuns,
        parameters: 2,
    };
    line(Linear {
        names: &["a", "b"],
        terms: |at| Ok(vec![1.0, 1.0 / at.root()]),
        ..of(info)
    })
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
    line(Linear {
        names: &["a", "b"],
        terms: |at| Ok(vec![1.0, 1.0 / f64::from(at.processes())]),
        ..of(info)
    })
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
    Linear {
        names: &["a"],
        least_band: BAND_MIB,
        form_error: FORM_ERROR_MIB,
        ..Linear::of(info)
    }
}

/// The model for programs whose written pages are unknown. A few runs determine its slope only if their numbers of processes differ much.
#[derive(Debug)]
struct Shrunk;

/// Added to Σ(1/√P − mean)², which draws the slope of few runs towards 0: the slope from 2 and 4 processes is halved.
const SHRINKING: f64 = 0.02;

#[derive(Debug)]
struct ShrunkLine {
    /// MiB of the runs on one process; `None` if there are none.
    alone_mib: Option<f64>,
    /// For the runs on several processes: MiB at their mean of 1/√P, this mean, and the slope in MiB over 1/√P; `None` if there are none.
    several: Option<[f64; 3]>,
    scope: Scope,
}

impl Model for Shrunk {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: "headers-faces-shrunk",
            title: "constant and faces, near the constant",
            formula: "MiB = a + b/√P for P > 1, b shrunk; another constant for one process",
            source: "gaps are between the planes of arrays; a process alone has fewer areas of libraries, and arrays that it does not exchange",
            tier: Tier::SmallRuns,
            parameters: 2,
        }
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if let Some(known) = samples.iter().find(|s| s.at.nas.is_some()) {
            return Err(FitError::OutOfDomain(format!(
                "the arrays of {}.{} are known: other models use them",
                known.at.app, known.at.class
            )));
        }
        let scope = Scope::of(samples, &[Common::Mpi], Along::Processes)?;
        let (alone, several): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().copied().partition(|s| s.at.processes() == 1);
        let mean = |of: &[&Sample], value: &dyn Fn(&Sample) -> f64| {
            (!of.is_empty()).then(|| of.iter().map(|s| value(s)).sum::<f64>() / of.len() as f64)
        };
        let (value, root) = (|s: &Sample| s.value, |s: &Sample| 1.0 / s.at.root());
        let line = |(mib, x): (f64, f64)| {
            let about: Vec<(f64, f64)> = several
                .iter()
                .map(|s| (root(s) - x, s.value - mib))
                .collect();
            let squares: f64 = about.iter().map(|(x, _)| x * x).sum();
            [
                mib,
                x,
                about.iter().map(|(x, y)| x * y).sum::<f64>() / (squares + SHRINKING),
            ]
        };
        let several_line = mean(&several, &value).zip(mean(&several, &root)).map(line);
        Ok(Box::new(ShrunkLine {
            alone_mib: mean(&alone, &value),
            several: several_line,
            scope,
        }))
    }
}

impl Fitted for ShrunkLine {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        self.scope.admits(at)?;
        let line = || {
            self.several
                .map(|[mib, mean, slope]| mib + slope * (1.0 / at.root() - mean))
        };
        let value = if at.processes() == 1 {
            self.alone_mib.or_else(line)
        } else {
            line().or(self.alone_mib)
        };
        let value = value.ok_or(FitError::TooFewPoints {
            found: 0,
            needed: 1,
        })?;
        Ok(Answer {
            estimate: Estimate::plus_minus(value, BAND_MIB).not_negative(),
            warnings: self.scope.warnings(at),
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let of = |name, value: f64| Parameter {
            name,
            value,
            standard_error: None,
        };
        let alone = self.alone_mib.map(|mib| of("one process", mib));
        let several = self
            .several
            .map(|[mib, mean, slope]| [of("a", mib - slope * mean), of("b", slope)]);
        alone
            .into_iter()
            .chain(several.into_iter().flatten())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Shrunk;
    use crate::{Model, MpiKind, Sample};

    fn sample(p: u32, value: f64) -> Sample {
        Sample::of_unknown(MpiKind::Nemesis, p, value)
    }

    /// MiniGhost B, MPICH 4.0.2, DMTCP 4.2.0, MiB: the line in 1/√P through 1, 2 and 4 processes gives 8.67 on 16 processes.
    #[test]
    fn one_process_does_not_bend_the_line_of_several() {
        let runs = [(1, 9.492), (2, 8.994), (4, 9.004)].map(|(p, mib)| sample(p, mib));
        let curve = Shrunk.fit(&runs.iter().collect::<Vec<_>>()).expect("a fit");
        let at = |p| {
            curve
                .predict(&sample(p, 0.0).at)
                .expect("an answer")
                .estimate
                .value
        };
        assert!(
            (at(16) - 8.998).abs() < 0.02 && (at(1) - 9.492).abs() < 1e-9,
            "{} {}",
            at(16),
            at(1)
        );
        // without runs on several processes, those on one determine the value, and vice versa
        let curve = Shrunk.fit(&[&runs[0]]).expect("a fit");
        assert!(
            (curve
                .predict(&sample(8, 0.0).at)
                .expect("an answer")
                .estimate
                .value
                - 9.492)
                .abs()
                < 1e-9
        );
        assert!(Shrunk.fit(&[]).is_err());
    }
}
