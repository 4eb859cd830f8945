//! Models: they are fitted on samples and answer for settings that they have not seen.

use super::{estimate::Estimate, fit::FitError, nas};
use cvc_core::mapping::Mapping;
use serde::Serialize;
use std::fmt;

/// The knowledge that a model needs before it can answer. Outputs always name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The program's source or the library's layout; no run is needed.
    NoRun,
    /// Small runs, on which the model is fitted.
    SmallRuns,
    /// None: the model has published constants.
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

/// The description of a model wherever it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// Short name: `dtapp-halo`.
    pub id: &'static str,
    /// Title, for people.
    pub title: &'static str,
    /// Formula as text, with units.
    pub formula: &'static str,
    /// Where the formula comes from.
    pub source: &'static str,
    /// The knowledge that it needs.
    pub tier: Tier,
    /// Number of fitted parameters.
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
    /// Open MPI: the same.
    OpenMpi,
}

/// What a model is asked about: a program on processes on nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Name of the application's descriptor.
    pub app: String,
    /// Workload class.
    pub class: String,
    /// The NAS benchmark and its problem size, if the application is one whose arrays are known.
    pub nas: Option<nas::Problem>,
    /// Processes on nodes.
    pub mapping: Mapping,
    /// Processes on the node of the rank in question.
    pub per_node: u32,
    /// The MPI library.
    pub mpi: MpiKind,
    /// What is written and how.
    pub output: Output,
}

/// What a program writes and how, as far as models use it and it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Output {
    /// MiB of all files of the node in question.
    pub node_mib: Option<f64>,
    /// MiB of them that are data of the program.
    pub own_mib: Option<f64>,
    /// Number of aggregators of collective I/O, if set; otherwise there is one on each node.
    pub aggregators: Option<u32>,
    /// MiB of the collective buffer, if set.
    pub buffer_mib: Option<f64>,
    /// Cores of the node, if known: more processes take turns.
    pub cores: Option<u32>,
}

impl Setting {
    /// Returns the total number of processes.
    pub fn processes(&self) -> u32 {
        self.mapping.processes()
    }

    /// Returns the square root of the number of processes.
    pub fn root(&self) -> f64 {
        f64::from(self.processes()).sqrt()
    }
}

/// One observed value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Unique name: the identifier of a point or a run, or the name of a table's row.
    pub id: String,
    /// Where it was observed.
    pub at: Setting,
    /// The value, in the unit of the quantity.
    pub value: f64,
}

#[cfg(test)]
impl Sample {
    /// A run of so many processes on one node, of a program about which nothing is known.
    pub(crate) fn of_unknown(mpi: crate::MpiKind, processes: u32, value: f64) -> Self {
        let (app, class) = ("program".to_owned(), "B".to_owned());
        let mapping = Mapping::one_node(processes);
        let at = Setting {
            app,
            class,
            nas: None,
            mapping,
            per_node: processes,
            mpi,
            output: Output::default(),
        };
        Self {
            id: processes.to_string(),
            at,
            value,
        }
    }
}

/// A prediction for one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The number with its interval.
    pub estimate: Estimate,
    /// Caveats for readers: the setting lies beyond the data, or a branch was clamped.
    pub warnings: Vec<String>,
}

impl From<Estimate> for Answer {
    fn from(estimate: Estimate) -> Self {
        Self {
            estimate,
            warnings: Vec::new(),
        }
    }
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name in the formula.
    pub name: &'static str,
    /// Its value, in the unit that the formula implies.
    pub value: f64,
    /// Its standard error; `None` without degrees of freedom, or for a constant.
    pub standard_error: Option<f64>,
}

/// A family of curves with parameters.
pub trait Model: fmt::Debug + Send + Sync {
    /// Returns the description of the model.
    fn info(&self) -> ModelInfo;

    /// Returns how far the mean of equal runs may lie from the curve if the model holds, at a value: the error of its form, in the unit of the
    /// quantity. Infinite for a model that no run contradicts.
    fn form_error(&self, _value: f64) -> f64 {
        f64::INFINITY
    }

    /// Fits the parameters.
    ///
    /// # Errors
    /// Too few points, points that do not determine the parameters, or a program that the model does not know.
    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError>;
}

/// A curve whose parameters are known.
pub trait Fitted: fmt::Debug + Send + Sync {
    /// Predicts the value at a setting.
    ///
    /// # Errors
    /// [`FitError::OutOfDomain`] for a setting that the model has no answer for.
    fn predict(&self, at: &Setting) -> Result<Answer, FitError>;

    /// Returns the parameters with their errors.
    fn parameters(&self) -> Vec<Parameter>;

    /// Returns whether its interval counts however few the runs are.
    fn has_stated_error(&self) -> bool {
        self.spans_laws()
    }

    /// Returns whether the runs leave open which of several laws holds, so that the interval reaches over all of them.
    fn spans_laws(&self) -> bool {
        false
    }
}
