//! The settings to which a fitted curve applies: the program of its training runs, and the distance beyond these runs.

use super::{
    curve::{MpiKind, Sample, Setting},
    fit::FitError,
    nas::Benchmark,
};

/// A curve gives a warning for a setting that exceeds the largest training run by more than this factor.
const FAR: u32 = 2;

/// A property that all training runs and every predicted setting must share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Common {
    /// Application and class, for curves that do not depend on the problem size.
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
    /// No number: the curve is constant.
    Nothing,
}

/// The properties of a curve's training runs that limit its predictions.
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
    /// There are no runs, or they do not share a property in `common`.
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

    /// Checks that the curve applies to the program and the library of a setting.
    ///
    /// # Errors
    /// The curve does not apply to the program or the library.
    pub(super) fn admits(&self, at: &Setting) -> Result<(), FitError> {
        if let Some((app, class)) = &self.program
            && (*app != at.app || *class != at.class)
        {
            return Err(FitError::OutOfDomain(format!(
                "fitted on {app}.{class}, not applicable to {}.{}",
                at.app, at.class
            )));
        }
        if let Some(benchmark) = self.benchmark {
            let asked = at.nas.ok_or_else(|| unknown(at))?.benchmark;
            if asked != benchmark {
                let (ours, theirs) = (benchmark.name(), asked.name());
                return Err(FitError::OutOfDomain(format!(
                    "fitted on {ours}, not applicable to {theirs}"
                )));
            }
        }
        if let Some(mpi) = self.mpi.filter(|mpi| *mpi != at.mpi) {
            return Err(FitError::OutOfDomain(format!(
                "fitted with {mpi:?}, not applicable to {:?}",
                at.mpi
            )));
        }
        Ok(())
    }

    /// Returns the warnings for a prediction at `at`.
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
