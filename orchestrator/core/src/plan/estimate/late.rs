//! Checkpoints that are planned too late.

use crate::point::Moment;
use serde::Serialize;

/// Checkpoints that are planned for a time at which the program is expected to have ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LateCheckpoints {
    /// The planned moment of the checkpoints.
    pub moment: Moment,
    /// Number of a run's checkpoints that are due before the program's end.
    pub in_time: usize,
    /// Number of a run's planned checkpoints.
    pub planned: usize,
    /// Time at which the first late checkpoint is due, seconds after the program began to compute.
    pub due_s: f64,
    /// Time at which the program is expected to end, seconds after it began to compute, including earlier checkpoints.
    pub ends_s: f64,
    /// An earlier moment at which the checkpoints would be in time, in the syntax of campaign files.
    pub write: String,
}

impl LateCheckpoints {
    /// Returns the late checkpoints of a program that computes for `compute_s` and stops for `one_s` during each checkpoint; `None` if all are in
    /// time.
    pub(super) fn of(moment: &Moment, compute_s: f64, one_s: f64) -> Option<Self> {
        // leaves room for the uncertainty of the estimate
        let last_s = compute_s / 2.0;
        let (due, write): (Vec<f64>, String) = match moment {
            Moment::AtS(list) => {
                let step_s = rounded_down(last_s / list.len() as f64).max(0.001);
                let times: Vec<String> = (1..=list.len())
                    .map(|n| written(step_s * n as f64))
                    .collect();
                let write = match times.as_slice() {
                    [one] => format!("{{ at_s = {one} }}"),
                    several => format!("{{ at_s = [{}] }}", several.join(", ")),
                };
                (list.clone(), write)
            }
            Moment::Series { every_s, count, .. } => {
                let step_s = written(rounded_down(last_s / f64::from(*count)));
                let due = (1..=*count).map(|n| every_s * f64::from(n)).collect();
                (due, format!("{{ every_s = {step_s}, count = {count} }}"))
            }
            Moment::AfterStep(_) | Moment::SizeOnly | Moment::SizeOnlyAfterStep(_) => return None,
        };
        let (mut ends_s, mut free_s) = (compute_s, 0.0_f64);
        for (in_time, due_s) in due.iter().enumerate() {
            let begins_s = due_s.max(free_s);
            if begins_s >= ends_s {
                return Some(Self {
                    moment: moment.clone(),
                    in_time,
                    planned: due.len(),
                    due_s: *due_s,
                    ends_s,
                    write,
                });
            }
            ends_s += one_s;
            free_s = begins_s + one_s;
        }
        None
    }
}

/// Returns a number of seconds rounded down to two significant digits.
fn rounded_down(seconds: f64) -> f64 {
    let unit = 10_f64.powf(seconds.log10().floor() - 1.0);
    (seconds / unit).floor() * unit
}

/// Formats seconds for a campaign file; never 0, which is not a valid moment.
fn written(seconds: f64) -> String {
    let text = format!("{:.3}", seconds.max(0.001));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
