//! Rules for the I/O phases of BT-IO (PAS2P-I/O paper).

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;
use cvc_core::units::MIB;
use cvc_model::{io_phase::error_on_time_pct, surplus::bt_io_write_bytes};

/// The request size of one process.
#[derive(Debug)]
pub struct RequestSize;

impl Rule for RequestSize {
    fn name(&self) -> &'static str {
        "request-size"
    }
    fn about(&self) -> &'static str {
        "40·408³ bytes, one step of class D, divided among the processes, in MiB"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let processes = at.count("processes")?;
        if processes == 0 {
            return Err(NotRecomputable::Other("no process".to_owned()));
        }
        Ok(Recomputed::new(
            bt_io_write_bytes(408) as f64 / MIB / f64::from(processes),
        ))
    }
}

/// The estimated time of a phase.
#[derive(Debug)]
pub struct PhaseTime;

impl Rule for PhaseTime {
    fn name(&self) -> &'static str {
        "phase-time"
    }
    fn about(&self) -> &'static str {
        "weight divided by the bandwidth of the phase, which is not printed; the estimates of Table 4 are those of Table 3"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        if at.table_id() != "4" {
            return Err(NotRecomputable::Other(
                "the bandwidths that were measured for the phases are not printed".to_owned(),
            ));
        }
        let row = at.find("3", &[("phase", at.text("phase"))])?;
        Ok(Recomputed::new(row.number("time_conf_a_s")?))
    }
}

/// The error of an estimated time.
#[derive(Debug)]
pub struct PhaseErrorRule;

impl Rule for PhaseErrorRule {
    fn name(&self) -> &'static str {
        "phase-error"
    }
    fn about(&self) -> &'static str {
        "100·|measured/estimated − 1| of the times as rounded in print; by the paper's definition, on bandwidths, it rounds to the same"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        Ok(Recomputed::new(error_on_time_pct(
            at.number("time_estimated_s")?,
            at.number("time_measured_s")?,
        )?))
    }
}
