//! What a model is: something that is fitted on samples and answers for settings that it has not seen.

use super::{estimate::Estimate, fit::FitError, nas};
use cvc_core::mapping::Mapping;
use serde::Serialize;
use std::fmt;

/// What has to be known before a model can answer. Outputs always name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The program's source or the library's layout is known: no run is needed.
    NoRun,
    /// Fitted on small runs.
    SmallRuns,
    /// As published, with the published constants.
    Published,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRun => "no run needed",
            Self::SmallRuns => "fitted on small runs",
            Self::Published => "published",
        })
    }
}

/// What is said of a model wherever it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// Short name: `dtapp-halo`.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// As text, with units.
    pub formula: &'static str,
    /// Where the formula comes from.
    pub source: &'static str,
    /// What has to be known.
    pub tier: Tier,
    /// Parameters that are fitted.
    pub parameters: usize,
}

/// An MPI library, as far as shared memory depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MpiKind {
    /// MPICH with ch3:nemesis: every image holds the shared segment of its node.
    Nemesis,
    /// Another MPICH (ch4): the shared segment is stored once for each node, beside the images.
    Mpich,
    /// Open MPI: likewise.
    OpenMpi,
}

/// What is asked for: a program on processes on nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Name of the application's descriptor.
    pub app: String,
    /// Its workload.
    pub class: String,
    /// The NAS benchmark that it is, with its problem size, if its arrays are known.
    pub nas: Option<nas::Problem>,
    /// Processes on nodes.
    pub mapping: Mapping,
    /// Processes on the node of the rank in question.
    pub per_node: u32,
    /// The MPI library.
    pub mpi: MpiKind,
    /// What is written and how, as far as models look at it.
    pub output: Output,
}

/// What is written and how, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Output {
    /// MiB of all files of the node in question.
    pub node_mib: Option<f64>,
    /// Aggregators of collective I/O, if they are set: else there is one on each node.
    pub aggregators: Option<u32>,
    /// MiB of the collective buffer, if it is set.
    pub buffer_mib: Option<f64>,
}

impl Setting {
    /// Processes in all.
    pub fn processes(&self) -> u32 {
        self.mapping.processes()
    }

    /// The square root of the number of processes.
    pub fn root(&self) -> f64 {
        f64::from(self.processes()).sqrt()
    }
}

/// One observed value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// What tells it from every other: a point's or a run's identifier, or a row of a table.
    pub id: String,
    /// At what.
    pub at: Setting,
    /// The value, in the unit of the quantity.
    pub value: f64,
}

/// A prediction for one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The number with its interval.
    pub estimate: Estimate,
    /// What a reader has to know: that the setting lies beyond the data, that a branch was clamped.
    pub warnings: Vec<String>,
}

impl From<Estimate> for Answer {
    fn from(estimate: Estimate) -> Self {
        Self { estimate, warnings: Vec::new() }
    }
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name in the formula.
    pub name: &'static str,
    /// Its value, in the unit that the formula implies.
    pub value: f64,
    /// Its standard error; `None` without a degree of freedom or for a constant.
    pub standard_error: Option<f64>,
}

/// A family of curves with parameters.
pub trait Model: fmt::Debug + Send + Sync {
    /// Name, formula, source.
    fn info(&self) -> ModelInfo;

    /// Determines the parameters.
    ///
    /// # Errors
    /// Too few points, points that do not tell the parameters apart, or a program that the model knows nothing of.
    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError>;
}

/// A curve whose parameters are known.
pub trait Fitted: fmt::Debug + Send + Sync {
    /// The prediction at a setting.
    ///
    /// # Errors
    /// [`FitError::OutOfDomain`] for a setting that the model has no answer for.
    fn predict(&self, at: &Setting) -> Result<Answer, FitError>;

    /// The parameters with their errors.
    fn parameters(&self) -> Vec<Parameter>;
}
