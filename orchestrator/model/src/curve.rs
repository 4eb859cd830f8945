//! Models: they are fitted to samples and predict values at other settings.

use super::{estimate::Estimate, fit::FitError, nas};
use cvc_core::{app::size::ProblemSize, mapping::Mapping};
use serde::Serialize;
use std::fmt;

/// The data that a model needs before it can predict. Outputs always name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The program's source or the library's layout; no run is needed.
    NoRun,
    /// Small runs, to which the model is fitted.
    SmallRuns,
    /// No data: the model has published constants.
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

/// The description of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// Short name: `dtapp-halo`.
    pub id: &'static str,
    /// Title for display.
    pub title: &'static str,
    /// Formula as text, with units.
    pub formula: &'static str,
    /// Source of the formula.
    pub source: &'static str,
    /// The data that it needs.
    pub tier: Tier,
    /// Number of fitted parameters.
    pub parameters: usize,
}

/// An MPI library, distinguished by its use of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MpiKind {
    /// MPICH with ch3:nemesis: every image holds the shared segment of its node.
    Nemesis,
    /// Other versions of MPICH (ch4): the shared segment is stored once for each node, next to the images.
    Mpich,
    /// Open MPI: the shared segment is stored as with [`Self::Mpich`].
    OpenMpi,
}

/// Input of a prediction: a program, and the mapping of its processes to nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Name of the application's descriptor.
    pub app: String,
    /// Workload class.
    pub class: String,
    /// The NAS benchmark and its problem size, if the application is a benchmark with known arrays.
    pub nas: Option<nas::Problem>,
    /// The size of the problem, if the descriptor declares it.
    pub size: Option<ProblemSize>,
    /// Mapping of processes to nodes.
    pub mapping: Mapping,
    /// Number of processes on the node of the predicted rank.
    pub per_node: u32,
    /// The MPI library.
    pub mpi: MpiKind,
    /// The program's outputs.
    pub output: Output,
}

/// Size and form of a program's outputs, as far as models use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Output {
    /// MiB of all files of the predicted node.
    pub node_mib: Option<f64>,
    /// MiB of the program's own data in these files.
    pub own_mib: Option<f64>,
    /// Number of aggregators of collective I/O; `None` for one on each node.
    pub aggregators: Option<u32>,
    /// MiB of the collective buffer; `None` for the default.
    pub buffer_mib: Option<f64>,
    /// Number of cores of the node, if known. With more processes than cores, processes take turns.
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
    /// The observed setting.
    pub at: Setting,
    /// The value, in the unit of the quantity.
    pub value: f64,
}

#[cfg(test)]
impl Sample {
    /// Returns a run of an unknown program with this number of processes on one node.
    pub(crate) fn of_unknown(mpi: crate::MpiKind, processes: u32, value: f64) -> Self {
        let (app, class) = ("program".to_owned(), "B".to_owned());
        let mapping = Mapping::one_node(processes);
        let at = Setting {
            app,
            class,
            nas: None,
            size: None,
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
    /// Warnings: the setting is beyond the data, or a value was clamped.
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
    /// Name of the parameter in the formula.
    pub name: &'static str,
    /// Value of the parameter, in the unit that the formula implies.
    pub value: f64,
    /// Standard error of the parameter; `None` without degrees of freedom, or for a constant.
    pub standard_error: Option<f64>,
}

/// A family of curves with parameters.
pub trait Model: fmt::Debug + Send + Sync {
    /// Returns the description of the model.
    fn info(&self) -> ModelInfo;

    /// Returns the systematic error of the model at a value, in the unit of the quantity: the maximum distance of the mean of equal runs from the
    /// curve if the model is valid. Infinite for a model that no run can contradict.
    fn form_error(&self, _value: f64) -> f64 {
        f64::INFINITY
    }

    /// Fits the parameters.
    ///
    /// # Errors
    /// There are too few points, the points do not determine the parameters, or the model does not apply to the program.
    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError>;
}

/// A fitted curve.
pub trait Fitted: fmt::Debug + Send + Sync {
    /// Predicts the value at a setting.
    ///
    /// # Errors
    /// [`FitError::OutOfDomain`] if the model does not apply to the setting.
    fn predict(&self, at: &Setting) -> Result<Answer, FitError>;

    /// Returns the parameters with their standard errors.
    fn parameters(&self) -> Vec<Parameter>;

    /// Returns whether the interval is valid even for few runs.
    fn has_stated_error(&self) -> bool {
        self.spans_laws()
    }

    /// Returns whether the runs fit several laws, so that the interval covers all of them.
    fn spans_laws(&self) -> bool {
        false
    }
}
