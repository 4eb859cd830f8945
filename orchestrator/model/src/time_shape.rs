//! Time of a checkpoint from few runs. The parts of the time are assumed to have the same proportions as in other programs, unless the runs show
//! otherwise.
//!
//! ```text
//! s = a + c·max(1, p/cores) + (D/b₁ + R/b₂)/min(p, cores)
//! ```
//!
//! D is the GiB of a node's files that hold the program's own data. R is the rest: pages of libraries and of the shared segment, which many
//! processes write and which are already in the page cache. Ranks write in parallel on all cores.
//!
//! The logarithms of the four parameters are fitted to the logarithms of the times by ridge regression (A. E. Hoerl and R. W. Kennard 1970), which
//! draws them to a known shape. The shape is a set of proportions; its scale is free, because storage and processors differ between machines. Each
//! part is positive, so the time grows with processes and sizes.

use super::{
    check::{at_least_one, not_negative, positive},
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
};
use nalgebra::{DMatrix, DVector};

/// A shape: the logarithms of the seconds for the start, for each process on a core, for each GiB of the program's data, and for each other GiB.
pub type TimeShape = [f64; 4];

/// Which terms a time includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// All terms.
    Whole,
    /// The start, and the processes on each core.
    Coordination,
    /// The start, and the writing.
    Storage,
}

impl TimePart {
    fn terms(self) -> &'static [usize] {
        match self {
            Self::Whole => &[0, 1, 2, 3],
            Self::Coordination => &[0, 1],
            Self::Storage => &[0, 2, 3],
        }
    }
}

/// Names of the parameters.
const NAMES: [&str; 4] = ["a, s", "c, s", "1/b1, s/GiB", "1/b2, s/GiB"];

/// Standard deviation of the logarithm of one checkpoint's time; repeats differ by 0.1 to 0.4.
const NOISE: f64 = 0.25;

/// Standard deviation of the logarithm of each part of a program's time, about the value that the shape's proportions give.
const ABOUT_SHAPE: f64 = 0.7;

/// Standard deviation of the logarithm of each part of a shape about `NOTHING`, the logarithm of 0.2 s. It only affects parts that no run determines.
const ABOUT_NOTHING: f64 = 3.0;
const NOTHING: f64 = -1.5;

/// Maximum number of steps of the fit, and the maximum length of one step.
const STEPS: usize = 60;
const LONGEST_STEP: f64 = 2.0;

/// A curve gives a warning for a setting that exceeds the largest fitted run by more than this factor.
const FAR: f64 = 2.0;

/// Returns the four terms of the time at a setting.
fn terms(at: &Setting) -> Result<[f64; 4], FitError> {
    let unknown =
        || FitError::OutOfDomain("the program's own part of the node's files is not known".into());
    let p = at_least_one("the number of processes on the node", at.per_node)?;
    let all = not_negative(
        "the size of a node's files",
        at.output.node_mib.ok_or_else(unknown)?,
    )? / 1024.0;
    let own = not_negative(
        "the program's part of them",
        at.output.own_mib.ok_or_else(unknown)?,
    )?
    .min(1024.0 * all)
        / 1024.0;
    let cores = at.output.cores.map(|cores| f64::from(cores.max(1)));
    // if the number of cores is unknown, each process is assumed to add the same time
    let (turns, side_by_side) = (
        cores.map_or(p, |cores| (p / cores).max(1.0)),
        cores.map_or(1.0, |cores| p.min(cores)),
    );
    Ok([1.0, turns, own / side_by_side, (all - own) / side_by_side])
}

/// Returns the model of a part of a checkpoint's time, drawn to a shape.
pub fn shaped(part: TimePart, shape: TimeShape) -> Box<dyn Model> {
    Box::new(Shaped { part, shape })
}

/// Returns the shape fitted to times of many programs, with the same weight for each program. Returns `None` if there are no times.
pub fn shape_of(part: TimePart, samples: &[Sample]) -> Option<TimeShape> {
    let usable: Vec<(&Sample, [f64; 4])> = samples
        .iter()
        .filter(|s| s.value > 0.0)
        .filter_map(|s| Some((s, terms(&s.at).ok()?)))
        .collect();
    let of_program = |sample: &Sample| {
        usable
            .iter()
            .filter(|(other, _)| other.at.app == sample.at.app)
            .count() as f64
    };
    let programs: f64 = usable.iter().map(|(s, _)| 1.0 / of_program(s)).sum();
    let weights: Vec<f64> = usable
        .iter()
        .map(|(s, _)| usable.len() as f64 / programs / of_program(s))
        .collect();
    let rows: Vec<Vec<f64>> = usable
        .iter()
        .map(|(_, row)| part.terms().iter().map(|i| row[*i]).collect())
        .collect();
    let logs: Vec<f64> = usable.iter().map(|(s, _)| s.value.ln()).collect();
    let about = vec![NOTHING; part.terms().len()];
    let fitted =
        (!rows.is_empty()).then(|| fit(&rows, &logs, &weights, &about, ABOUT_NOTHING, false))?;
    let mut shape = [NOTHING; 4];
    for (i, value) in part.terms().iter().zip(fitted) {
        shape[*i] = value;
    }
    Some(shape)
}

/// Minimises Σ wᵢ ((ln xᵢ·e^θ − yᵢ)/noise)² + Σ ((θⱼ − aboutⱼ − scale)/sd)² over θ by the Levenberg-Marquardt method. The scale is fitted if `free`
/// is true, and 0 otherwise.
fn fit(
    rows: &[Vec<f64>],
    logs: &[f64],
    weights: &[f64],
    about: &[f64],
    sd: f64,
    free: bool,
) -> Vec<f64> {
    let (points, n) = (rows.len(), about.len());
    let design = DMatrix::from_fn(points, n, |i, j| rows[i][j]);
    let about = DVector::from_column_slice(about);
    let mean = if free { 1.0 / n as f64 } else { 0.0 };
    let prior = (DMatrix::identity(n, n) - DMatrix::from_element(n, n, mean)) / (sd * sd);
    let error = |theta: &DVector<f64>| {
        let times = &design * theta.map(f64::exp);
        let misses: f64 = (0..points)
            .map(|i| weights[i] * ((times[i].ln() - logs[i]) / NOISE).powi(2))
            .sum();
        let off = theta - &about;
        misses + off.dot(&(&prior * &off))
    };
    let mut theta = about.clone();
    // a free scale starts at the mean of the times
    if free {
        let times = &design * theta.map(f64::exp);
        let scale =
            (0..points).map(|i| logs[i] - times[i].ln()).sum::<f64>() / points.max(1) as f64;
        theta.add_scalar_mut(scale);
    }
    let (mut least, mut damping) = (error(&theta), 1e-3);
    for _ in 0..STEPS {
        let parts = theta.map(f64::exp);
        let times = &design * &parts;
        let jacobian = DMatrix::from_fn(points, n, |i, j| design[(i, j)] * parts[j] / times[i]);
        let weighted = DMatrix::from_fn(points, n, |i, j| {
            jacobian[(i, j)] * weights[i] / (NOISE * NOISE)
        });
        let residuals = DVector::from_fn(points, |i, _| times[i].ln() - logs[i]);
        let gradient = weighted.transpose() * residuals + &prior * (&theta - &about);
        let curvature = weighted.transpose() * &jacobian + &prior;
        let mut gain = 0.0;
        while damping < 1e8 {
            let damped = &curvature + DMatrix::identity(n, n) * damping;
            let Some(step) = damped.lu().solve(&(-&gradient)) else {
                break;
            };
            let next = &theta + step.map(|s| s.clamp(-LONGEST_STEP, LONGEST_STEP));
            let reached = error(&next);
            if reached <= least {
                (gain, least, theta, damping) =
                    (least - reached, reached, next, (damping / 4.0).max(1e-9));
                break;
            }
            damping *= 4.0;
        }
        if gain < 1e-10 {
            break;
        }
    }
    theta.iter().copied().collect()
}

#[derive(Clone, Copy, Debug)]
struct Shaped {
    part: TimePart,
    shape: TimeShape,
}

#[derive(Debug)]
struct FittedShape {
    part: TimePart,
    theta: Vec<f64>,
    most_writers: u32,
    most_mib: f64,
}

impl Model for Shaped {
    fn info(&self) -> ModelInfo {
        let source = "cvc: least squares through the logarithms of the observed times, drawn to the proportion of the parts that other programs show";
        let (id, title, formula) = match self.part {
            TimePart::Whole => (
                "latency-shape",
                "coordination, own and other memory",
                "s = a + c·max(1, p/cores) + (D/b1 + R/b2)/min(p, cores)",
            ),
            TimePart::Coordination => (
                "coordination-shape",
                "a start, and a turn for each process on a core",
                "s = a + c·max(1, p/cores)",
            ),
            TimePart::Storage => (
                "storage-shape",
                "a start, own and other memory",
                "s = a + (D/b1 + R/b2)/min(p, cores)",
            ),
        };
        ModelInfo {
            id,
            title,
            formula,
            source,
            tier: Tier::SmallRuns,
            parameters: self.part.terms().len(),
        }
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if samples.is_empty() {
            return Err(FitError::TooFewPoints {
                found: 0,
                needed: 1,
            });
        }
        let row = |s: &&Sample| {
            terms(&s.at).map(|all| self.part.terms().iter().map(|i| all[*i]).collect())
        };
        let rows = samples
            .iter()
            .map(row)
            .collect::<Result<Vec<Vec<f64>>, _>>()?;
        let logs = samples
            .iter()
            .map(|s| positive("the time", s.value).map(f64::ln))
            .collect::<Result<Vec<_>, _>>()?;
        let about: Vec<f64> = self.part.terms().iter().map(|i| self.shape[*i]).collect();
        let theta = fit(
            &rows,
            &logs,
            &vec![1.0; rows.len()],
            &about,
            ABOUT_SHAPE,
            true,
        );
        if theta.iter().any(|t| !t.is_finite()) {
            return Err(FitError::NoConvergence("the parts of the times".into()));
        }
        let most_writers = samples.iter().map(|s| s.at.per_node).max().unwrap_or(0);
        let most_mib = samples
            .iter()
            .filter_map(|s| s.at.output.node_mib)
            .fold(0.0, f64::max);
        Ok(Box::new(FittedShape {
            part: self.part,
            theta,
            most_writers,
            most_mib,
        }))
    }
}

impl Fitted for FittedShape {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        let all = terms(at)?;
        let value = self
            .part
            .terms()
            .iter()
            .zip(&self.theta)
            .map(|(i, t)| all[*i] * t.exp())
            .sum();
        let mut warnings = Vec::new();
        let mib = at.output.node_mib.unwrap_or(0.0);
        if self.part != TimePart::Coordination && mib > FAR * self.most_mib {
            warnings.push(format!(
                "{mib:.0} MiB on a node are more than {FAR} times the {:.0} MiB of the largest observed checkpoint: beyond what memory caches, \
                 storage may be far slower",
                self.most_mib
            ));
        }
        if f64::from(at.per_node) > FAR * f64::from(self.most_writers) {
            warnings.push(format!(
                "{} processes that write on a node are more than {FAR} times the {} of the largest observed checkpoint",
                at.per_node, self.most_writers
            ));
        }
        Ok(Answer {
            estimate: Estimate::bare(value),
            warnings,
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let of = |(i, theta): (&usize, &f64)| Parameter {
            name: NAMES[*i],
            value: theta.exp(),
            standard_error: None,
        };
        self.part.terms().iter().zip(&self.theta).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{TimePart, shape_of, shaped};
    use crate::{MpiKind, Output, Sample, Setting};
    use cvc_core::mapping::Mapping;

    fn sample(app: &str, p: u32, own_mib: f64, other_mib: f64, s: f64) -> Sample {
        let output = Output {
            node_mib: Some(own_mib + other_mib),
            own_mib: Some(own_mib),
            cores: Some(2),
            ..Output::default()
        };
        let mapping = Mapping::one_node(p);
        let at = Setting {
            app: app.into(),
            class: "B".into(),
            nas: None,
            size: None,
            mapping,
            per_node: p,
            mpi: MpiKind::OpenMpi,
            output,
        };
        Sample {
            id: format!("{app} {p}"),
            at,
            value: s,
        }
    }

    /// Returns a sample of 0.3 s, 0.1 s for each process on a core, 4 s for a GiB of the program's data and 1 s for another GiB, on a machine
    /// `slower` times as slow.
    fn made_up(app: &str, p: u32, own_mib: f64, slower: f64) -> Sample {
        let (other_mib, cores) = (60.0 * f64::from(p), f64::from(p.min(2)));
        let s = 0.3
            + 0.1 * (f64::from(p) / 2.0).max(1.0)
            + (4.0 * own_mib + other_mib) / 1024.0 / cores;
        sample(app, p, own_mib, other_mib, s * slower)
    }

    #[test]
    fn one_run_on_another_machine_predicts_all_times_with_equal_proportions() {
        let counts = [1, 2, 4, 8, 16];
        let known: Vec<Sample> = counts
            .iter()
            .flat_map(|p| {
                [
                    made_up("small", *p, 100.0, 1.0),
                    made_up("large", *p, 3000.0, 1.0),
                ]
            })
            .collect();
        let shape = shape_of(TimePart::Whole, &known).expect("a shape");
        let run = made_up("other", 2, 800.0, 3.0);
        let curve = shaped(TimePart::Whole, shape).fit(&[&run]).expect("a fit");
        for p in counts {
            let asked = made_up("other", p, 800.0, 3.0);
            let value = curve.predict(&asked.at).expect("a time").estimate.value;
            assert!(
                (value / asked.value - 1.0).abs() < 0.1,
                "{p}: {value} for {}",
                asked.value
            );
        }
        assert!(shape_of(TimePart::Whole, &[]).is_none());
    }

    #[test]
    fn time_always_grows_with_processes_and_sizes() {
        // times that fall with the number of processes
        let runs = [
            sample("a", 1, 900.0, 60.0, 9.0),
            sample("a", 2, 900.0, 120.0, 3.0),
            sample("a", 4, 900.0, 240.0, 1.0),
        ];
        let curve = shaped(TimePart::Whole, [-1.0; 4])
            .fit(&runs.iter().collect::<Vec<_>>())
            .expect("a fit");
        let at = |p: u32, own: f64| {
            curve
                .predict(&sample("a", p, own, 60.0 * f64::from(p), 0.0).at)
                .expect("a time")
                .estimate
                .value
        };
        assert!(
            at(4, 900.0) < at(8, 900.0)
                && at(8, 900.0) < at(64, 900.0)
                && at(8, 900.0) < at(8, 1800.0)
        );
        let unknown = Sample {
            at: Setting {
                output: Output::default(),
                ..runs[0].at.clone()
            },
            ..runs[0].clone()
        };
        assert!(shaped(TimePart::Whole, [-1.0; 4]).fit(&[&unknown]).is_err());
    }
}
