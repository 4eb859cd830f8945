//! What a fitted curve may be asked: the program of its training runs, and how far beyond them.

use super::{
    curve::{MpiKind, Sample, Setting},
    fit::FitError,
    nas::Benchmark,
};

/// Largest multiple of the largest training run up to which a curve is trusted without a warning.
const FAR: u32 = 2;

/// What all training runs must have in common, and whatever is asked with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Common {
    /// Application and class: the curve knows no problem size.
    Program,
    /// The NAS benchmark; classes may differ.
    Benchmark,
    /// The MPI library.
    Mpi,
}

/// What a curve extrapolates over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// All processes.
    Processes,
    /// Those on the node.
    PerNode,
    /// Nothing: the same everywhere.
    Nothing,
}

/// The training runs of a curve, as far as its answers depend on them.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    program: Option<(String, String)>,
    benchmark: Option<Benchmark>,
    mpi: Option<MpiKind>,
    along: Along,
    most: u32,
}

impl Along {
    fn of(self, at: &Setting) -> u32 {
        match self {
            Self::Processes => at.processes(),
            Self::PerNode => at.per_node,
            Self::Nothing => 0,
        }
    }
}

impl Scope {
    /// Of the training runs.
    ///
    /// # Errors
    /// No run, or runs that do not have in common what they must.
    pub(super) fn of(samples: &[&Sample], common: &[Common], along: Along) -> Result<Self, FitError> {
        let first = samples.first().ok_or(FitError::TooFewPoints { found: 0, needed: 1 })?;
        let at = &first.at;
        let scope = Self {
            program: common.contains(&Common::Program).then(|| (at.app.clone(), at.class.clone())),
            benchmark: match common.contains(&Common::Benchmark) {
                true => Some(at.nas.ok_or_else(|| unknown(at))?.benchmark),
                false => None,
            },
            mpi: common.contains(&Common::Mpi).then_some(at.mpi),
            along,
            most: samples.iter().map(|s| along.of(&s.at)).max().unwrap_or(0),
        };
        for sample in samples {
            scope.admits(&sample.at).map_err(|e| FitError::OutOfDomain(format!("the training runs differ: {e}")))?;
        }
        Ok(scope)
    }

    /// Whether the curve knows anything of the program and library that it is asked for.
    ///
    /// # Errors
    /// What it does not know.
    pub(super) fn admits(&self, at: &Setting) -> Result<(), FitError> {
        if let Some((app, class)) = &self.program
            && (*app != at.app || *class != at.class)
        {
            return Err(FitError::OutOfDomain(format!("fitted on {app}.{class}, it knows nothing of {}.{}", at.app, at.class)));
        }
        if let Some(benchmark) = self.benchmark {
            let asked = at.nas.ok_or_else(|| unknown(at))?.benchmark;
            if asked != benchmark {
                let (ours, theirs) = (benchmark.name(), asked.name());
                return Err(FitError::OutOfDomain(format!("fitted on {ours}, it knows nothing of {theirs}")));
            }
        }
        if let Some(mpi) = self.mpi.filter(|mpi| *mpi != at.mpi) {
            return Err(FitError::OutOfDomain(format!("fitted with {mpi:?}, it knows nothing of {:?}", at.mpi)));
        }
        Ok(())
    }

    /// What has to be said of an answer for `at`.
    pub(super) fn warnings(&self, at: &Setting) -> Vec<String> {
        let asked = self.along.of(at);
        let what = match self.along {
            Along::Processes | Along::Nothing => "processes",
            Along::PerNode => "processes on a node",
        };
        let far = asked > self.most.saturating_mul(FAR);
        let text = || format!("{asked} {what} are more than {FAR} times the {} of the largest training run", self.most);
        far.then(text).into_iter().collect()
    }
}

fn unknown(at: &Setting) -> FitError {
    FitError::OutOfDomain(format!("the arrays of {}.{} are not known", at.app, at.class))
}
