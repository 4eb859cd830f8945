//! Output for checkpoints spread over a run: schedules, and the duration of the run with failures. Overheads are fractions of the program's time.

use crate::display::duration;
use cvc_prediction::predict::{ExpectedRun, ScheduleBudget, Scheduled};
use cvc_show::{Blocks, Table, or_dash};

/// Prints the schedules, and the durations of the run with failures.
pub(super) fn show_spread(
    out: &mut Blocks,
    schedules: &[Scheduled],
    nodes: u32,
    budget: &ScheduleBudget,
    restart_s: Option<f64>,
) {
    show_schedules(out, schedules);
    show_failures(out, schedules, nodes, budget, restart_s);
}

fn percent(part: f64) -> String {
    if part < 10.0 {
        format!("{} %", number(100.0 * part))
    } else {
        format!("{:.0} times", part + 1.0)
    }
}

fn with_range(value: Option<String>, range: Option<[String; 2]>) -> String {
    match range {
        Some([low, high]) => format!("{}\n{low} …\n{high}", or_dash(value, |text| text)),
        None => or_dash(value, |text| text),
    }
}

fn show_schedules(out: &mut Blocks, schedules: &[Scheduled]) {
    if schedules.is_empty() {
        return;
    }
    // related values share a line of the table and sources are notes, so that the table fits a terminal of 80 columns
    let header = [
        "rule",
        "every\n(start to start)",
        "check-\npoints",
        "time without\nfailures",
        "overhead without\nfailures",
    ];
    let mut rows = Table::plain(header);
    for (note, s) in (1..).zip(schedules) {
        let every = s
            .interval_range_s
            .map(|range| [duration(range.low), duration(range.high)]);
        let overhead = s
            .overhead_range
            .filter(|_| !s.includes_failures)
            .map(|range| [percent(range.low), percent(range.high)]);
        rows.row([
            format!("{} [{note}]", s.rule),
            with_range(s.interval_s.map(duration), every),
            or_dash(s.checkpoints, |count| count.to_string()),
            or_dash(s.total_s, duration),
            with_range(s.overhead_without_failures.map(percent), overhead),
        ]);
    }
    out.gap();
    out.table(rows);
    for (note, s) in (1..).zip(schedules) {
        out.say(format!("[{note}] {}", s.source));
    }
}

/// Prints the mean duration of the run with failures and the lost time by cause. The schedules printed above have times without failures.
fn show_failures(
    out: &mut Blocks,
    schedules: &[Scheduled],
    nodes: u32,
    budget: &ScheduleBudget,
    restart_s: Option<f64>,
) {
    let expected: Vec<&Scheduled> = schedules.iter().filter(|s| s.includes_failures).collect();
    let whose = match (budget.mtbf_s, budget.mtbf_node_s) {
        (Some(job_s), _) => format!(
            "{} between failures of the whole job (--mtbf)",
            long_duration(job_s)
        ),
        (None, Some(node_s)) if nodes > 1 => format!(
            "{} between failures of a node (--mtbf-node), or {} between failures of the job on {nodes} nodes",
            long_duration(node_s),
            long_duration(node_s / f64::from(nodes))
        ),
        (None, Some(node_s)) => format!(
            "{} between failures of a node (--mtbf-node) and of the job on 1 node",
            long_duration(node_s)
        ),
        (None, None) => return,
    };
    if schedules.is_empty() {
        return;
    }
    let mut text = format!("on average {whose}");
    if let Some(run) = expected.last().and_then(|s| s.with_failures.as_ref()) {
        text += &format!(": {} during the run", failures(run.failures));
    }
    out.gap();
    out.say(text);
    if expected.is_empty() {
        return;
    }
    let part = |s: &Scheduled, of: fn(&ExpectedRun) -> f64| {
        or_dash(s.with_failures.as_ref(), |run| duration(of(run)))
    };
    let rows = Table::of(
        expected,
        &[
            ("with failures", &|s| s.rule.to_owned()),
            ("expected\ntotal time", &|s| part(s, |run| run.total_s)),
            ("overhead, failures\nincluded", &|s| {
                let range = s.overhead_range;
                let range = range.map(|range| [percent(range.low), percent(range.high)]);
                with_range(s.overhead.map(percent), range)
            }),
            ("of it\ncheckpoints", &|s| part(s, |run| run.checkpoints_s)),
            ("rework", &|s| part(s, |run| run.rework_s)),
            ("restarts", &|s| part(s, |run| run.restarts_s)),
        ],
    );
    out.gap();
    out.table(rows);
    let restart = match (budget.restart_s, restart_s) {
        (Some(given_s), _) => format!("a restart takes {} (--restart-time)", duration(given_s)),
        (None, Some(predicted_s)) => format!(
            "a restart takes {}, predicted from measurements",
            duration(predicted_s)
        ),
        (None, None) => {
            "a restart is assumed to take as long as a checkpoint (--restart-time)".to_owned()
        }
    };
    out.say(format!(
                "overhead: relative to the program's time; expected time: J. T. Daly 2006, failures at random, also during checkpoints and restarts; {restart}"
            ));
}

/// Formats a mean number of failures.
fn failures(count: f64) -> String {
    if (count - 1.0).abs() < 0.005 {
        "1 failure".to_owned()
    } else if count < 0.01 {
        format!("{count:.1e} failures")
    } else {
        format!("{} failures", number(count))
    }
}

/// Formats a duration, which may be years.
fn long_duration(seconds: f64) -> String {
    const YEAR_S: f64 = 365.25 * 86_400.0;
    match seconds {
        s if s >= 2.0 * YEAR_S => format!("{:.1} years", s / YEAR_S),
        s => duration(s),
    }
}

/// Rounds to four significant digits, and at most two decimals.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}
