//! Rules for run times on cloud instances (thesis, Table 5.24), computed from the runs of Table 5.23.

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;

/// Number of runs in each row of Table 5.23.
const RUNS: u32 = 10;

/// The rule that recomputes both columns of Table 5.24.
#[derive(Debug)]
pub struct CloudTime;

/// Returns the mean over all runs of Table 5.23, and over its two clocks, the internal and the Linux clock.
fn mean(at: &CellContext<'_>, with_checkpoint: bool) -> Result<f64, NotRecomputable> {
    let metrics = if with_checkpoint {
        ["app_ft_time_internal", "app_ft_time_linux"]
    } else {
        ["app_time_internal", "app_time_linux"]
    };
    let mut sum = 0.0;
    for metric in metrics {
        let keys =
            ["instance_type", "instances", "processes_per_instance"].map(|c| (c, at.text(c)));
        let with: Vec<(&str, &str)> = keys.into_iter().chain([("metric", metric)]).collect();
        let row = at.find("5.23", &with)?;
        for run in 1..=RUNS {
            sum += row.number(&format!("run{run}_s"))?;
        }
    }
    Ok(sum / f64::from(RUNS) / metrics.len() as f64)
}

impl Rule for CloudTime {
    fn name(&self) -> &'static str {
        "cloud-time"
    }
    fn about(&self) -> &'static str {
        "the mean of the runs of Table 5.23 without a checkpoint, over both clocks; 100·(with − without)/without"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let without = mean(at, false)?;
        match at.column_id() {
            "app_time_s" => Ok(Recomputed::new(without)),
            _ if without == 0.0 => Err(NotRecomputable::Other("the run time is 0".to_owned())),
            _ => Ok(Recomputed::new(
                100.0 * (mean(at, true)? - without) / without,
            )),
        }
    }
}
