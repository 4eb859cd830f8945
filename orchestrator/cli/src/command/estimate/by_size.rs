//! Times of phases without a run, from the time of a call by its size and the number of processes that call at the same time.

use cvc_core::units::MIB;
use cvc_model::io_phase::CallLaw;
use cvc_trace::phases::{AccessKind, IoModel, PhaseFamily, PhaseOp};
use serde::Serialize;

/// The time of a call of one kind as a line in its size.
#[derive(Clone, Debug, Serialize)]
pub struct SizeLaw {
    pub kind: AccessKind,
    pub op: String,
    /// Number of processes that call at the same time.
    pub processes: u32,
    /// Seconds of each call, whatever its size.
    pub per_call_s: f64,
    /// Seconds of each MiB of a process in addition.
    pub per_mib_s: f64,
    /// Pearson's correlation of size and time (thesis, equation 3.7).
    pub correlation: Option<f64>,
}

impl SizeLaw {
    fn seconds(&self, mib: f64) -> f64 {
        self.per_call_s + self.per_mib_s * mib
    }
}

/// The laws of a place (site, library, storage area).
#[derive(Default)]
pub struct SizeLaws(Vec<SizeLaw>);

impl SizeLaws {
    /// Fits a law to pairs of size, MiB, and seconds; with fewer than two sizes there is none.
    pub fn add(&mut self, kind: AccessKind, op: &str, processes: u32, points: &[(f64, f64)]) {
        let law = CallLaw::fit(points).ok().map(|law| SizeLaw {
            kind,
            op: op.to_owned(),
            processes,
            per_call_s: law.per_call_s,
            per_mib_s: law.per_unit_s,
            correlation: law.correlation,
        });
        self.0.extend(law);
    }

    /// Returns whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the seconds of a call of `mib` by each of `processes`: between measured numbers interpolated, beyond them that of the nearest number.
    fn call_s(&self, kind: AccessKind, op: &str, mib: f64, processes: usize) -> Option<f64> {
        let laws = self.0.iter().filter(|law| law.kind == kind && law.op == op);
        let points: Vec<(f64, f64)> = laws
            .map(|law| (f64::from(law.processes), law.seconds(mib)))
            .collect();
        match points.as_slice() {
            [(_, only)] => Some(*only),
            _ => on_line(points, processes as f64),
        }
    }

    /// Returns the time of a phase, seconds: that of the process whose calls take longest. `None` if a kind of call was not measured.
    pub fn phase_s(&self, model: &IoModel, family: &PhaseFamily) -> Option<f64> {
        let mut of_ranks = vec![0.0; model.processes as usize];
        let loops = family.loops.iter();
        let calls = loops.flat_map(|l| l.ops.iter().map(|op| (l.rounds, op)));
        for (rounds, op) in calls.filter(|(_, op)| op.op != "sync") {
            let kind = AccessKind::of(model.files.get(op.file)?, op);
            let ranks = op.ranks.list(model.processes);
            for (i, rank) in ranks.iter().enumerate() {
                let mib = op.request_bytes.get(i).max(0) as f64 / MIB;
                let each = self.call_s(kind, &op.op, mib, ranks.len())?;
                *of_ranks.get_mut(*rank as usize)? += each * (op.calls() * rounds) as f64;
            }
        }
        Some(of_ranks.into_iter().fold(0.0, f64::max))
    }

    /// Returns the laws that a model needs.
    pub fn used(&self, model: &IoModel) -> Vec<SizeLaw> {
        let ops: Vec<&PhaseOp> = model
            .phases
            .iter()
            .flat_map(|f| f.loops.iter().flat_map(|l| &l.ops))
            .collect();
        let is_used = |law: &&SizeLaw| {
            ops.iter().any(|op| {
                let file = model.files.get(op.file);
                op.op == law.op && file.is_some_and(|file| AccessKind::of(file, op) == law.kind)
            })
        };
        self.0.iter().filter(is_used).cloned().collect()
    }
}

/// Interpolates the value at `x` linearly in logarithms; beyond the given points returns the value of the nearest one.
pub fn on_line(mut points: Vec<(f64, f64)>, x: f64) -> Option<f64> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (points.first()?, points.last()?);
    let x = x.clamp(first.0, last.0);
    let (low, high) = points.windows(2).find_map(|pair| match pair {
        [a, b] if x <= b.0 => Some((*a, *b)),
        _ => None,
    })?;
    let part = (x / low.0).ln() / (high.0 / low.0).ln();
    Some(low.1 * (high.1 / low.1).powf(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_trace::phases::storage_model;

    #[test]
    fn a_phase_takes_the_calls_of_its_slowest_process() {
        let law = |processes, per_call_s| SizeLaw {
            kind: AccessKind::PosixOwn,
            op: "write".to_owned(),
            processes,
            per_call_s,
            per_mib_s: 0.5,
            correlation: None,
        };
        let (model, _) = storage_model(4);
        // 256 calls of 4 KiB by each process, which are 1 MiB
        let at = |laws: Vec<SizeLaw>| SizeLaws(laws).phase_s(&model, &model.phases[0]);
        assert_eq!(at(vec![law(4, 0.01)]), Some(256.0 * 0.01 + 0.5));
        let between = at(vec![law(2, 0.01), law(8, 0.04)]).expect("a time");
        assert!(
            between > 256.0 * 0.015 && between < 256.0 * 0.03,
            "{between}"
        );
        // its reads were not measured
        let reads = SizeLaws(vec![law(4, 0.01)]).phase_s(&model, &model.phases[1]);
        assert_eq!(reads, None);
        assert_eq!(SizeLaws(vec![law(4, 0.01)]).used(&model).len(), 1);
    }

    #[test]
    fn values_between_points_are_on_a_line_of_logarithms_and_beyond_them_those_of_the_ends() {
        let points = vec![(1000.0, 100.0), (10.0, 10.0)];
        let at = |x| on_line(points.clone(), x).map(|y| (y * 1e6).round() / 1e6);
        assert_eq!(at(100.0), Some(31.622_777));
        assert_eq!((at(1.0), at(1e6)), (Some(10.0), Some(100.0)));
        assert_eq!(on_line(Vec::new(), 1.0), None);
    }
}
