//! The settings that a fitted curve may be asked about: the program of its training runs, and how far beyond them.

use super::{
    curve::{MpiKind, Sample, Setting},
    fit::FitError,
    nas::Benchmark,
};

/// Largest multiple of the largest training run up to which a curve is trusted without a warning.
const FAR: u32 = 2;

/// A property that all training runs and every setting asked about must share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Common {
    /// Application and class: the curve does not know about problem sizes.
    Program,
    /// The NAS benchmark; classes may differ.
    Benchmark,
    /// The MPI library.
    Mpi,
}

/// The number over which a curve extrapolates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Total number of processes.
    Processes,
    /// Processes on the node.
    PerNode,
    /// None: the curve is the same everywhere.
    Nothing,
}

/// The properties of a curve's training runs that limit its answers.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    program: Option<(String, String)>,
    benchmark: Option<Benchmark>,
    mpi: Option<MpiKind>,
    along: Along,
    most: u32,
}

impl Along {
    pub(super) fn of(self, at: &Setting) -> u32 {
        match self {
            Self::Processes => at.processes(),
            Self::PerNode => at.per_node,
            Self::Nothing => 0,
        }
    }
}

impl Scope {
    /// Returns the scope of the training runs.
    ///
    /// # Errors
    /// No run, or runs that do not share a property in `common`.
    pub(super) fn of(
        samples: &[&Sample],
        common: &[Common],
        along: Along,
    ) -> Result<Self, FitError> {
        let first = samples.first().ok_or(FitError::TooFewPoints {
            found: 0,
            needed: 1,
        })?;
        let at = &first.at;
        let scope = Self {
            program: common
                .contains(&Common::Program)
                .then(|| (at.app.clone(), at.class.clone())),
            benchmark: match common.contains(&Common::Benchmark) {
                true => Some(at.nas.ok_or_else(|| unknown(at))?.benchmark),
                false => None,
            },
            mpi: common.contains(&Common::Mpi).then_some(at.mpi),
            along,
            most: samples.iter().map(|s| along.of(&s.at)).max().unwrap_or(0),
        };
        for sample in samples {
            scope
                .admits(&sample.at)
                .map_err(|e| FitError::OutOfDomain(format!("the training runs differ: {e}")))?;
        }
        Ok(scope)
    }

    /// Checks that the curve knows the program and the library of a setting.
    ///
    /// # Errors
    /// The program or the library that it does not know.
    pub(super) fn admits(&self, at: &Setting) -> Result<(), FitError> {
        if let Some((app, class)) = &self.program
            && (*app != at.app || *class != at.class)
        {
            return Err(FitError::OutOfDomain(format!(
                "fitted on {app}.{class}, it knows nothing about {}.{}",
                at.app, at.class
            )));
        }
        if let Some(benchmark) = self.benchmark {
            let asked = at.nas.ok_or_else(|| unknown(at))?.benchmark;
            if asked != benchmark {
                let (ours, theirs) = (benchmark.name(), asked.name());
                return Err(FitError::OutOfDomain(format!(
                    "fitted on {ours}, it knows nothing about {theirs}"
                )));
            }
        }
        if let Some(mpi) = self.mpi.filter(|mpi| *mpi != at.mpi) {
            return Err(FitError::OutOfDomain(format!(
                "fitted with {mpi:?}, it knows nothing about {:?}",
                at.mpi
            )));
        }
        Ok(())
    }

    /// Returns the warnings for an answer at `at`.
    pub(super) fn warnings(&self, at: &Setting) -> Vec<String> {
        let asked = self.along.of(at);
        let what = match self.along {
            Along::Processes | Along::Nothing => "processes",
            Along::PerNode => "processes on a node",
        };
        let far = asked > self.most.saturating_mul(FAR);
        let text = || {
            format!(
                "{asked} {what} are more than {FAR} times the {} of the largest training run",
                self.most
            )
        };
        far.then(text).into_iter().collect()
    }
}

fn unknown(at: &Setting) -> FitError {
    FitError::OutOfDomain(format!(
        "the arrays of {}.{} are not known",
        at.app, at.class
    ))
}
