//! Measured times and sizes of programs, by site and number of processes, to estimate the cost of jobs that ran elsewhere.

use super::candidate::of_side;
use crate::comparison::Side;
use cvc_core::point::FactorId;

/// The times of a program on one site.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredTimes {
    /// Application and class, as in `npb-bt.C`.
    pub program: String,
    /// Name of the site.
    pub site: String,
    /// Number of processes.
    pub processes: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// Wall time of a run without checkpoints, seconds.
    pub work_s: f64,
    /// Time of a checkpoint, seconds, if it was measured or is predicted.
    pub ckpt_s: Option<f64>,
}

/// Returns the times of all points of a side.
pub fn measured_times(side: &Side) -> Vec<MeasuredTimes> {
    of_side(side, false)
        .iter()
        .filter_map(|known| {
            Some(MeasuredTimes {
                program: known.program(),
                site: known.row().level(FactorId::Site).to_owned(),
                processes: known.row().processes,
                nodes: known.row().nodes,
                work_s: known.work_s()?,
                ckpt_s: known.ckpt_s(),
            })
        })
        .collect()
}
