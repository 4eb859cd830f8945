//! Curves for what no published model is about: headers, launchers, files beside the images. Straight lines in one known number, fitted by
//! least squares.

use crate::model::{
    Answer, Estimate, Fit, FitError, Fitted, Interval, Model, ModelInfo, Parameter, Sample, Setting, Tier, dtapp, least_squares,
};

/// Two pages, in MiB: equal runs differ by that much, so no interval is narrower.
const FINEST_MIB: f64 = 2.0 * 4096.0 / crate::units::MIB;

/// A curve that is asked for more than so many times its largest training run says so.
const FAR: u32 = 2;

/// A constant, or a constant and a straight line in one number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    info: ModelInfo,
    /// What the line goes over; `None` for a constant.
    over: Option<fn(&Setting) -> f64>,
    along: Along,
}

/// What a line is extrapolated along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Along {
    /// All processes.
    Processes,
    /// Those on the node.
    PerNode,
    /// Nothing that is warned of.
    Nothing,
}

const fn info(id: &'static str, title: &'static str, formula: &'static str, parameters: usize) -> ModelInfo {
    ModelInfo { id, title, formula, source: "cvc: least squares through the observations", tier: Tier::SmallRuns, parameters }
}

/// The mean of what was observed.
pub(super) const MEAN: Line = Line { info: info("mean", "mean of the observations", "a", 1), over: None, along: Along::Nothing };

/// In the processes on the node.
pub(super) const PER_NODE: Line = Line {
    info: info("line-per-node", "line in the processes on the node", "a + b·p", 2),
    over: Some(|at| f64::from(at.per_node)),
    along: Along::PerNode,
};

/// In the number of nodes.
pub(super) const NODES: Line = Line {
    info: info("line-nodes", "line in the number of nodes", "a + b·n", 2),
    over: Some(|at| f64::from(at.mapping.nodes())),
    along: Along::Nothing,
};

/// In the logarithm of the processes.
pub(super) const LOG_PROCESSES: Line = Line {
    info: info("line-log-processes", "line in the logarithm of the processes", "a + b·ln P", 2),
    over: Some(|at| f64::from(at.processes()).ln()),
    along: Along::Processes,
};

/// In the inverse square root of the processes.
pub(super) const INVERSE_ROOT: Line =
    Line { info: info("line-inverse-root", "line in 1/√P", "a + b/√P", 2), over: Some(|at| 1.0 / at.root()), along: Along::Processes };

/// In the logarithm of the arrays that the program declares. DMTCP leaves out pages that were never touched; the more arrays, the more pieces are left.
pub(super) const LOG_ARRAYS: Line = Line {
    info: info("line-log-arrays", "line in the logarithm of the declared arrays", "a + b·ln(arrays/MiB)", 2),
    over: Some(|at| match at.nas.map(|nas| dtapp::static_arrays_mib(nas, at.processes())) {
        Some(Ok(mib)) => mib.ln(),
        Some(Err(_)) | None => f64::NAN,
    }),
    along: Along::Processes,
};

impl Line {
    /// What the line is extrapolated along, at a setting.
    fn asked(&self, at: &Setting) -> u32 {
        match self.along {
            Along::Processes => at.processes(),
            Along::PerNode => at.per_node,
            Along::Nothing => 0,
        }
    }

    fn row(&self, at: &Setting) -> Result<Vec<f64>, FitError> {
        let row: Vec<f64> = std::iter::once(1.0).chain(self.over.map(|over| over(at))).collect();
        if row.iter().all(|x| x.is_finite()) {
            Ok(row)
        } else {
            Err(FitError::OutOfDomain(format!("nothing is known of the arrays of {}.{} on {} processes", at.app, at.class, at.processes())))
        }
    }
}

impl Model for Line {
    fn info(&self) -> ModelInfo {
        self.info
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if samples.is_empty() {
            return Err(FitError::TooFewPoints { found: 0, needed: self.info.parameters });
        }
        let rows: Vec<Vec<f64>> = samples.iter().map(|s| self.row(&s.at)).collect::<Result<_, _>>()?;
        let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
        let most = samples.iter().map(|s| self.asked(&s.at)).max().unwrap_or(0);
        Ok(Box::new(FittedLine { line: *self, fit: least_squares(&rows, &values, None)?, most }))
    }
}

#[derive(Debug)]
struct FittedLine {
    line: Line,
    fit: Fit,
    /// The largest of the runs that it was fitted on, by what the line goes along.
    most: u32,
}

impl Fitted for FittedLine {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        let estimate = at_least(self.fit.predict(&self.line.row(at)?, 1.0), FINEST_MIB);
        let (asked, most) = (self.line.asked(at), self.most);
        let what = if self.line.along == Along::PerNode { "processes on a node" } else { "processes" };
        let far = asked > most.saturating_mul(FAR);
        let warning = || format!("{asked} {what} are more than {FAR} times the {most} of the largest training run");
        Ok(Answer { estimate, warnings: far.then(warning).into_iter().collect() })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.fit.standard_errors.as_ref();
        let named = ["a", "b"].into_iter().zip(&self.fit.coefficients).enumerate();
        named.map(|(i, (name, value))| Parameter { name, value: *value, standard_error: errors.map(|e| e[i]) }).collect()
    }
}

/// The same estimate with an interval of at least this half width, if it has one.
pub(super) fn at_least(estimate: Estimate, half: f64) -> Estimate {
    let widen = |i: Interval| Interval { low: i.low.min(estimate.value - half), high: i.high.max(estimate.value + half) };
    Estimate { value: estimate.value, interval: estimate.interval.map(widen) }
}
