//! The segment of ch3:nemesis under a program of which nothing is known: its runs tell how many partners have a copy buffer.

use super::{copies::COPY_MIB, growth_mib};
use crate::{
    check::at_least_one,
    curve::{Answer, Fitted, Model, ModelInfo, MpiKind, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
};

/// The model.
#[derive(Debug)]
pub(super) struct Partners;

/// What an image holds beside the segment, MiB: stack and small areas of BT, SP, LU, CG, IS and MiniGhost, with DMTCP 4.2 and MPICH 4.0.2. Where
/// it is another number, the largest run shows by how much.
const REST_MIB: f64 = 9.69;

/// The same for each process on the node, MiB.
const PROCESS_MIB: f64 = 0.01;

/// The part of all processes from which on all are taken to be partners.
const ALL: f64 = 0.85;

/// Fewest processes on a node that tell whether all are partners or only neighbours: in a grid of three dimensions a process has up to six.
const TELLING: u32 = 8;

/// Half-width of the interval, MiB.
const BAND_MIB: f64 = 0.35;

/// What a run has beyond the segment without copy buffers.
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

/// The segment without copy buffers, and what an image has beside it, MiB.
fn without_copies_mib(per_node: u32) -> Result<f64, FitError> {
    let p = at_least_one("the number of processes on the node", per_node)?;
    Ok(growth_mib(p) + REST_MIB + PROCESS_MIB * p)
}

fn admits(at: &Setting) -> Result<(), FitError> {
    if at.mpi != MpiKind::Nemesis || at.per_node < 2 {
        return Err(FitError::OutOfDomain("only several processes with ch3:nemesis have this segment in every image".into()));
    }
    match at.nas {
        Some(_) => Err(FitError::OutOfDomain(format!("the partners of {}.{} are known: another model uses them", at.app, at.class))),
        None => Ok(()),
    }
}

impl Model for Partners {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: "shmem-buffers-partners",
            title: "buffers of the processes and of as many partners as runs show",
            formula: "MiB = 4·p + p·(p − 1)/16 + n/4 + 0.01·p + c, n = partners with copy buffers in the largest run; p − 1 if all were",
            source: "layout of ch3:nemesis; c = 9.69 MiB, and what the largest run has that its partners do not explain",
            tier: Tier::SmallRuns,
            parameters: 1,
        }
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let samples: Vec<&&Sample> = samples.iter().filter(|s| admits(&s.at).is_ok()).collect();
        let first = samples.first().ok_or(FitError::TooFewPoints { found: 0, needed: 1 })?;
        if let Some(other) = samples.iter().find(|s| s.at.app != first.at.app) {
            return Err(FitError::OutOfDomain(format!("the partners of {} are not those of {}", first.at.app, other.at.app)));
        }
        let excess = |s: &&&Sample| {
            let mib = s.value - without_copies_mib(s.at.per_node)?;
            Ok(Excess { class: s.at.class.clone(), per_node: s.at.per_node, mib })
        };
        Ok(Box::new(Curve { app: first.at.app.clone(), runs: samples.iter().map(excess).collect::<Result<_, FitError>>()? }))
    }
}

impl Curve {
    /// The partners of the largest runs of a class, or of all classes if there is none of it; their processes; and what these runs have beyond
    /// their partners' buffers, MiB.
    fn largest(&self, class: &str) -> (f64, u32, f64) {
        let has_class = self.runs.iter().any(|r| r.class == class);
        let of_class = || self.runs.iter().filter(|r| !has_class || r.class == class);
        let most = of_class().map(|r| r.per_node).max().unwrap_or(2);
        let excess: Vec<f64> = of_class().filter(|r| r.per_node == most).map(|r| r.mib).collect();
        let mib = excess.iter().sum::<f64>() / excess.len().max(1) as f64;
        let partners = (mib / COPY_MIB).clamp(0.0, f64::from(most - 1));
        (partners, most, mib - COPY_MIB * partners)
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        admits(at)?;
        if at.app != self.app {
            return Err(FitError::OutOfDomain(format!("fitted on {}, it knows nothing about {}", self.app, at.app)));
        }
        let (partners, most, rest) = self.largest(&at.class);
        let others = f64::from(at.per_node - 1);
        let are_all = partners >= ALL * f64::from(most - 1);
        let (fewest, largest) = match () {
            () if are_all && (most >= TELLING || at.per_node <= most) => (others, others),
            () if are_all => (partners.min(others), others),
            () => (partners.min(others), partners.min(others)),
        };
        let mib = without_copies_mib(at.per_node)? + rest;
        let value = mib + COPY_MIB * (fewest + largest) / 2.0;
        let (low, high) = (mib + COPY_MIB * fewest - BAND_MIB, mib + COPY_MIB * largest + BAND_MIB);
        let unclear = || {
            format!(
                "{most} processes do not tell whether a process of {} exchanges large messages with all others or with neighbours: half way; a run \
                 with {TELLING} or more on a node tells",
                self.app
            )
        };
        let warnings = (fewest < largest).then(unclear).into_iter().collect();
        Ok(Answer { estimate: Estimate::between(value, low, high).not_negative(), warnings })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let class = self.runs.first().map_or("", |r| r.class.as_str());
        vec![Parameter { name: "n", value: self.largest(class).0, standard_error: None }]
    }
}

#[cfg(test)]
mod tests {
    use super::Partners;
    use crate::{Model, MpiKind, Output, Sample, Setting};
    use cvc_core::mapping::Mapping;

    fn sample(p: u32, value: f64) -> Sample {
        let (app, class, mapping) = ("program".to_owned(), "B".to_owned(), Mapping::one_node(p));
        let at = Setting { app, class, nas: None, mapping, per_node: p, mpi: MpiKind::Nemesis, output: Output::default() };
        Sample { id: p.to_string(), at, value }
    }

    /// Measured with DMTCP 4.2.0 and MPICH 4.0.2 (ch3:nemesis), MiB.
    #[test]
    fn programs_whose_processes_all_exchange_are_told_from_those_with_neighbours() {
        let is = [(2, 18.039), (4, 27.189), (8, 47.999), (16, 93.583)].map(|(p, mib)| sample(p, mib));
        let bt = [(4, 28.431), (9, 52.859), (16, 91.342)].map(|(p, mib)| sample(p, mib));
        let predict = |runs: &[Sample], p| {
            let curve = Partners.fit(&runs.iter().collect::<Vec<_>>()).expect("a fit");
            curve.predict(&sample(p, 0.0).at).expect("an answer")
        };
        // all partners on 8 processes: so on 16
        let told = predict(&is[..3], 16);
        assert!((told.estimate.value - 93.583).abs() < 0.3 && told.warnings.is_empty(), "{told:?}");
        // six neighbours on 9: so on 16
        let told = predict(&bt[..2], 16);
        assert!((told.estimate.value - 91.342).abs() < 0.1 && told.warnings.is_empty(), "{told:?}");
        // up to 4 nothing tells: half way, and both within
        let told = predict(&bt[..1], 16);
        assert_eq!((told.estimate.covers(91.342), told.warnings.len()), (Some(true), 1), "{told:?}");
        // one run is hit
        assert!((predict(&bt[..2], 9).estimate.value - 52.859).abs() < 1e-9);
        let other = Sample { at: Setting { app: "other".into(), ..bt[0].at.clone() }, ..bt[0].clone() };
        assert!(Partners.fit(&[&bt[0], &other]).is_err());
    }
}
