//! The shared segment of ch3:nemesis for an unknown program. Its runs show with how many partners each process has a copy buffer.

use super::{copies::COPY_MIB, growth_mib};
use crate::{
    check::at_least_one,
    curve::{Answer, Fitted, Model, ModelInfo, MpiKind, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
};
use std::collections::BTreeMap;

/// Model of the segment by the number of partners.
#[derive(Debug)]
pub(super) struct Partners;

/// Size of an image without the segment, MiB: stack and small areas of BT, SP, LU, CG, IS and MiniGhost, with DMTCP 4.2 and MPICH 4.0.2. For another
/// program, the run on the most processes shows the difference from this size.
const REST_MIB: f64 = 9.69;

/// Additional size for each process on the node, MiB.
const PROCESS_MIB: f64 = 0.01;

/// Minimum fraction of the processes that must be partners to assume that all are.
const ALL: f64 = 0.85;

/// Minimum number of processes on a node with which a run shows whether all processes are partners or only neighbours. In a three-dimensional grid, a
/// process has up to six neighbours.
const TELLING: u32 = 8;

/// Half-width of the interval, MiB.
const BAND_MIB: f64 = 0.35;

/// Excess of a run's memory over the segment without copy buffers.
#[derive(Clone, Debug)]
struct Excess {
    class: String,
    per_node: u32,
    mib: f64,
}

#[derive(Debug)]
struct Curve {
    app: String,
    runs: Vec<Excess>,
}

/// Returns the MiB of the segment without copy buffers and of the rest of an image.
fn without_copies_mib(per_node: u32) -> Result<f64, FitError> {
    let p = at_least_one("the number of processes on the node", per_node)?;
    Ok(growth_mib(p) + REST_MIB + PROCESS_MIB * p)
}

fn admits(at: &Setting) -> Result<(), FitError> {
    if at.mpi != MpiKind::Nemesis || at.per_node < 2 {
        return Err(FitError::OutOfDomain(
            "only several processes with ch3:nemesis have this segment in every image".into(),
        ));
    }
    match at.nas {
        Some(_) => Err(FitError::OutOfDomain(format!(
            "the partners of {}.{} are known: another model uses them",
            at.app, at.class
        ))),
        None => Ok(()),
    }
}

impl Model for Partners {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: "shmem-buffers-partners",
            title: "buffers of the processes and of as many partners as runs show",
            formula: "MiB = 4·p + p·(p − 1)/16 + n/4 + 0.01·p + c, n = partners with copy buffers in the largest run; p − 1 if all were",
            source: "layout of ch3:nemesis; c = 9.69 MiB, and the memory of the largest run that its partners do not explain",
            tier: Tier::SmallRuns,
            parameters: 1,
        }
    }

    fn form_error(&self, _value: f64) -> f64 {
        BAND_MIB
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let samples: Vec<&&Sample> = samples.iter().filter(|s| admits(&s.at).is_ok()).collect();
        let first = samples.first().ok_or(FitError::TooFewPoints {
            found: 0,
            needed: 1,
        })?;
        if let Some(other) = samples.iter().find(|s| s.at.app != first.at.app) {
            return Err(FitError::OutOfDomain(format!(
                "the partners of {} are not those of {}",
                first.at.app, other.at.app
            )));
        }
        let excess = |s: &&&Sample| {
            let mib = s.value - without_copies_mib(s.at.per_node)?;
            Ok(Excess {
                class: s.at.class.clone(),
                per_node: s.at.per_node,
                mib,
            })
        };
        Ok(Box::new(Curve {
            app: first.at.app.clone(),
            runs: samples
                .iter()
                .map(excess)
                .collect::<Result<_, FitError>>()?,
        }))
    }
}

/// Results from the runs of one class on the largest number of processes.
#[derive(Clone, Copy, Debug)]
struct Largest {
    per_node: u32,
    /// Number of partners of a process.
    partners: f64,
    /// Memory of these runs in addition to the partners' buffers, MiB.
    rest_mib: f64,
    /// Whether all processes seem to be partners.
    all: bool,
    is_certain: bool,
}

impl Curve {
    /// Returns the results from the runs of a class on the largest number of processes. If the class has no runs, the runs of all classes are used.
    fn largest(&self, class: &str) -> Largest {
        let has_class = self.runs.iter().any(|r| r.class == class);
        let mut excess: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for run in self.runs.iter().filter(|r| !has_class || r.class == class) {
            excess
                .entry(run.per_node)
                .or_default()
                .push(run.mib / COPY_MIB);
        }
        let mean = |of: &Vec<f64>| of.iter().sum::<f64>() / of.len().max(1) as f64;
        let mut from_the_largest = excess
            .iter()
            .rev()
            .map(|(per_node, of)| (*per_node, mean(of)));
        let (per_node, buffers) = from_the_largest.next().unwrap_or((2, 0.0));
        let others = f64::from(per_node - 1);
        let partners = buffers.clamp(0.0, others);
        let (all, is_certain) = match from_the_largest.next() {
            // each additional process is an additional partner
            Some((fewer, before)) => (buffers - before >= ALL * f64::from(per_node - fewer), true),
            // if there are more buffers than possible, the assumed rest is wrong, and the result is uncertain
            None => (partners >= ALL * others, buffers <= others + 1.0),
        };
        let is_certain = is_certain && per_node >= TELLING;
        Largest {
            per_node,
            partners,
            rest_mib: COPY_MIB * (buffers - partners),
            all,
            is_certain,
        }
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        admits(at)?;
        if at.app != self.app {
            return Err(FitError::OutOfDomain(format!(
                "fitted on {}, not applicable to {}",
                self.app, at.app
            )));
        }
        let Largest {
            per_node: most,
            partners,
            rest_mib,
            all,
            is_certain,
        } = self.largest(&at.class);
        let others = f64::from(at.per_node - 1);
        let as_many = partners.min(others);
        let (fewest, largest) = match (all, is_certain) {
            (true, true) => (others, others),
            (true, false) => (as_many, others),
            (false, _) => (as_many, as_many),
        };
        let mib = without_copies_mib(at.per_node)? + rest_mib;
        let value = mib + COPY_MIB * (fewest + largest) / 2.0;
        let (low, high) = (
            mib + COPY_MIB * fewest - BAND_MIB,
            mib + COPY_MIB * largest + BAND_MIB,
        );
        let unclear = || {
            format!(
                "{most} processes do not show whether a process of {} exchanges large messages with all others or with neighbours: the middle is \
                 used; a run with {TELLING} or more on a node decides",
                self.app
            )
        };
        let warnings = (fewest < largest).then(unclear).into_iter().collect();
        Ok(Answer {
            estimate: Estimate::between(value, low, high).not_negative(),
            warnings,
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let class = self.runs.first().map_or("", |r| r.class.as_str());
        vec![Parameter {
            name: "n",
            value: self.largest(class).partners,
            standard_error: None,
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::Partners;
    use crate::{Model, MpiKind, Sample, Setting};

    fn sample(p: u32, value: f64) -> Sample {
        Sample::of_unknown(MpiKind::Nemesis, p, value)
    }

    /// Measured with DMTCP 4.2.0 and MPICH 4.0.2 (ch3:nemesis), MiB.
    #[test]
    fn all_to_all_programs_are_distinguished_from_those_with_neighbours() {
        let is =
            [(2, 18.039), (4, 27.189), (8, 47.999), (16, 93.583)].map(|(p, mib)| sample(p, mib));
        let bt = [(4, 28.431), (9, 52.859), (16, 91.342)].map(|(p, mib)| sample(p, mib));
        let predict = |runs: &[Sample], p| {
            let curve = Partners
                .fit(&runs.iter().collect::<Vec<_>>())
                .expect("a fit");
            curve.predict(&sample(p, 0.0).at).expect("an answer")
        };
        // all are partners on 8 processes, so on 16 as well
        let predicted = predict(&is[..3], 16);
        assert!(
            (predicted.estimate.value - 93.583).abs() < 0.5 && predicted.warnings.is_empty(),
            "{predicted:?}"
        );
        // six neighbours on 9 processes, so on 16 as well
        let predicted = predict(&bt[..2], 16);
        assert!(
            (predicted.estimate.value - 91.342).abs() < 0.2 && predicted.warnings.is_empty(),
            "{predicted:?}"
        );
        // up to 4 processes, both cases are possible: the value is in the middle, and the interval covers both
        let predicted = predict(&bt[..1], 16);
        assert_eq!(
            (predicted.estimate.covers(91.342), predicted.warnings.len()),
            (Some(true), 1),
            "{predicted:?}"
        );
        // more buffers than partners: the rest is unknown
        assert_eq!(predict(&bt[1..2], 16).warnings.len(), 1);
        // the prediction for a measured run is exact
        assert!((predict(&bt[..2], 9).estimate.value - 52.859).abs() < 1e-9);
        let other = Sample {
            at: Setting {
                app: "other".into(),
                ..bt[0].at.clone()
            },
            ..bt[0].clone()
        };
        assert!(Partners.fit(&[&bt[0], &other]).is_err());
    }
}
