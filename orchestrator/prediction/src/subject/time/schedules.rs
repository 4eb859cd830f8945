//! Intervals between checkpoints, for an overhead budget and for a mean time between failures.

use crate::predict::forecast::{ExpectedRun, ScheduleBudget, Scheduled};
use cvc_core::units::duration;
use cvc_model::{Estimate, FitError, schedule, stats::Interval};

/// Maximum ratio of a run's expected time to its time without failures. Beyond it, the run is assumed never to end.
const NEVER: f64 = 100.0;
/// Computing time of a program whose time is unknown, in intervals: large enough that the end of the run does not matter.
const LONG: f64 = 1e4;

/// The rules are valid if a checkpoint and its interval together take at most this fraction of the mean time between failures.
const TOO_LONG: f64 = 0.25;

/// The lower end of the interval of a checkpoint's time is raised to at least this fraction of the predicted time.
const SHORTEST: f64 = 0.01;

/// Computes the interval between checkpoints from the time of a checkpoint and the mean time between failures, seconds.
type IntervalOf = fn(f64, f64) -> Result<f64, FitError>;

/// The time of a checkpoint, seconds.
#[derive(Clone, Copy)]
struct Checkpoint {
    s: f64,
    /// The ends of the 95 % interval of this time.
    ends: Option<(f64, f64)>,
}

/// Returns schedules for an overhead budget and for a mean time between failures, with warnings. The latter does not need the program's time.
///
/// # Errors
/// The reason why there is no schedule.
pub(crate) fn schedules(
    app_s: Option<f64>,
    ckpt: Estimate,
    budget: &ScheduleBudget,
) -> Result<(Vec<Scheduled>, Vec<String>), FitError> {
    let s = ckpt.value;
    let ckpt = Checkpoint {
        s,
        // a checkpoint takes some time, even if the lower end of its interval is near 0
        ends: ckpt.interval.map(|i| (i.low.max(s * SHORTEST), i.high)),
    };
    let (all, mut warnings) = spread(app_s, ckpt, budget)?;
    if ckpt.ends.is_none() && (budget.overhead.is_some() || budget.mtbf_s.is_some()) {
        warnings.insert(
            0,
            "the time of a checkpoint has no interval, so the schedule has none either".to_owned(),
        );
    }
    Ok((all, warnings))
}

/// Returns schedules for an overhead budget and for a mean time between failures, with warnings if the rules are not valid.
fn spread(
    app_s: Option<f64>,
    ckpt: Checkpoint,
    budget: &ScheduleBudget,
) -> Result<(Vec<Scheduled>, Vec<String>), FitError> {
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    if let (Some(overhead), Some(app_s)) = (budget.overhead, app_s) {
        all.extend(within_budget(app_s, ckpt, overhead)?);
    }
    if let Some(mtbf_s) = budget.mtbf_s {
        let restart_s = |ckpt_s: f64| budget.restart_s.unwrap_or(ckpt_s);
        let (rules, warning) = against_failures(app_s, ckpt, mtbf_s, restart_s)?;
        all.extend(rules);
        warnings.extend(warning);
    }
    Ok((all, warnings))
}

/// Returns schedules for a given checkpoint time, without observations, with warnings.
///
/// # Errors
/// The reason why there is no schedule.
pub fn schedules_for(
    ckpt_s: f64,
    budget: &ScheduleBudget,
) -> Result<(Vec<Scheduled>, Vec<String>), FitError> {
    let ckpt = Checkpoint {
        s: ckpt_s,
        ends: None,
    };
    spread(budget.app_s, ckpt, budget)
}

/// Returns schedules whose checkpoints take at most the fraction `overhead` of the program's time.
fn within_budget(app_s: f64, ckpt: Checkpoint, overhead: f64) -> Result<[Scheduled; 2], FitError> {
    let rules = |ckpt_s: f64| -> Result<_, FitError> {
        let (published, whole) = (
            schedule::published(app_s, ckpt_s, overhead)?,
            schedule::whole_budget(app_s, ckpt_s, overhead)?,
        );
        // the published interval is a part of the whole run including checkpoints; the other rule's interval is a part of the program's own time
        let spread = whole.interval_s.map(|own| own + ckpt_s);
        Ok([(published, published.interval_s), (whole, spread)])
    };
    let ends = ckpt.ends;
    let at_ends = ends.and_then(|(low, high)| Some((rules(low).ok()?, rules(high).ok()?)));
    // if the budget pays for no checkpoint, the interval is the whole run
    let or_all = |interval_s: Option<f64>| Some(interval_s.unwrap_or(app_s));
    let found = rules(ckpt.s)?;
    let rule = |which: usize, rule: &'static str, source: &'static str| {
        let (s, interval_s) = found[which];
        let ranges = at_ends
            .as_ref()
            .filter(|(low, high)| low[which].1.or(high[which].1).is_some());
        let interval_range_s =
            ranges.and_then(|(low, high)| range(or_all(low[which].1), or_all(high[which].1)));
        let cost = |ckpt_s: f64| Some(s.count as f64 * ckpt_s / app_s);
        Scheduled {
            rule,
            source,
            checkpoints: Some(s.count),
            interval_s,
            interval_range_s,
            total_s: Some(s.total_s),
            overhead_without_failures: cost(ckpt.s),
            includes_failures: false,
            overhead: cost(ckpt.s),
            overhead_range: ends.and_then(|(low, high)| range(cost(low), cost(high))),
            with_failures: None,
        }
    };
    Ok([
        rule(
            0,
            "published rule",
            "thesis, section 5.3: leaves part of the budget unused",
        ),
        rule(
            1,
            "whole budget",
            "as many as the budget allows, evenly spread",
        ),
    ])
}

/// Returns the schedules for a mean time between failures, with a warning if the rules are not valid.
fn against_failures(
    app_s: Option<f64>,
    ckpt: Checkpoint,
    mtbf_s: f64,
    restart_s: impl Fn(f64) -> f64,
) -> Result<(Vec<Scheduled>, Option<String>), FitError> {
    let rules: [(_, _, IntervalOf); 2] = [
        (
            "Young",
            "J. W. Young 1974: least expected loss, first order",
            schedule::young_s,
        ),
        (
            "Daly",
            "J. T. Daly 2006: least expected loss, higher order",
            schedule::daly_s,
        ),
    ];
    let run = |app_s: f64, ckpt_s: f64, interval_s: f64| {
        schedule::with_failures(app_s, ckpt_s, interval_s, mtbf_s, restart_s(ckpt_s))
    };
    let (mut all, mut longest) = (Vec::new(), 0.0_f64);
    let ends = ckpt.ends;
    for (rule, source, interval_of) in rules {
        let interval = interval_of(ckpt.s, mtbf_s)?;
        let start_to_start = |ckpt_s: f64| {
            interval_of(ckpt_s, mtbf_s)
                .ok()
                .map(|interval| interval + ckpt_s)
        };
        // a checkpoint at the end of the run would be useless
        let checkpoints = app_s.map(|app_s| schedule::checkpoints_in(app_s, interval));
        let is_any = checkpoints.is_none_or(|count| count > 0.0);
        // with the chosen interval, for any actual time of a checkpoint
        let chosen = |app_s: f64, ckpt_s: f64| {
            let run = run(app_s, ckpt_s, if is_any { interval } else { app_s }).ok();
            run.filter(|run| run.total_s.is_finite())
        };
        // if the program's time is unknown, a long program is assumed
        let cost = |ckpt_s: f64| {
            let app_s = app_s.unwrap_or(LONG * interval);
            Some(chosen(app_s, ckpt_s)?.total_s / app_s - 1.0)
        };
        let with_failures = app_s.and_then(|app_s| chosen(app_s, ckpt.s));
        all.push(Scheduled {
            rule,
            source,
            checkpoints: checkpoints.map(|count| count as u64),
            interval_s: is_any.then_some(interval + ckpt.s),
            interval_range_s: ends
                .filter(|_| is_any)
                .and_then(|(low, high)| range(start_to_start(low), start_to_start(high))),
            total_s: app_s
                .zip(checkpoints)
                .map(|(app_s, count)| app_s + count * ckpt.s),
            overhead_without_failures: Some(match app_s.zip(checkpoints) {
                Some((app_s, count)) => count * ckpt.s / app_s,
                None => ckpt.s / interval,
            }),
            includes_failures: true,
            overhead: cost(ckpt.s),
            overhead_range: ends.and_then(|(low, high)| range(cost(low), cost(high))),
            with_failures: with_failures.map(|run| ExpectedRun {
                total_s: run.total_s,
                failures: run.failures,
                checkpoints_s: run.checkpoints_s,
                rework_s: run.rework_s,
                restarts_s: run.restarts_s,
            }),
        });
        longest = longest.max(app_s.map_or(interval, |app_s| interval.min(app_s)));
    }
    if ckpt.s + longest <= TOO_LONG * mtbf_s {
        return Ok((all, None));
    }
    let cost = match app_s {
        None => String::new(),
        Some(app_s) => {
            let daly = schedule::daly_s(ckpt.s, mtbf_s)?;
            let times = run(app_s, ckpt.s, daly.min(app_s))?.total_s / app_s;
            if times > NEVER {
                ": the run would hardly ever end".to_owned()
            } else {
                format!(
                    ": with Daly's interval the run takes {times:.1} times as long as without any, on average"
                )
            }
        }
    };
    let warning = format!(
        "failures every {} are frequent for a checkpoint of {} every {}{cost}",
        short_duration(mtbf_s),
        short_duration(ckpt.s),
        short_duration(longest + ckpt.s)
    );
    Ok((all, Some(warning)))
}

/// Formats a duration that may be far shorter than a second.
fn short_duration(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{} s", (s * 1e6).round() / 1e6),
        s => duration(s),
    }
}

/// Returns the range between two values in either order; `None` if one is missing.
fn range(a: Option<f64>, b: Option<f64>) -> Option<Interval> {
    a.zip(b).map(|(a, b)| Interval {
        low: a.min(b),
        high: a.max(b),
    })
}

#[cfg(test)]
mod tests {
    use super::schedules;
    use crate::predict::ScheduleBudget;
    use cvc_model::Estimate;

    fn of(overhead: Option<f64>, mtbf_s: Option<f64>) -> (Vec<f64>, Vec<String>) {
        let budget = ScheduleBudget {
            overhead,
            mtbf_s,
            ..ScheduleBudget::default()
        };
        let (all, warnings) =
            schedules(Some(600.0), Estimate::between(2.0, 1.5, 3.0), &budget).expect("schedules");
        (all.iter().filter_map(|s| s.interval_s).collect(), warnings)
    }

    #[test]
    fn intervals_are_from_start_to_start() {
        // k = 6: (1 + 0.02)·600/6 as published; and 600 s of the program in 7 parts, each with a checkpoint
        assert_eq!(of(Some(0.02), None).0, [102.0, 600.0 / 7.0 + 2.0]);
        assert_eq!(of(None, Some(2500.0)).0[0], 102.0);
    }

    #[test]
    fn an_interval_between_failures_needs_no_time_of_the_program_and_has_a_range() {
        let budget = ScheduleBudget {
            overhead: Some(0.3),
            mtbf_s: Some(5000.0),
            ..ScheduleBudget::default()
        };
        let (all, warnings) =
            schedules(None, Estimate::between(4.0, 1.0, 9.0), &budget).expect("schedules");
        let young = &all[0];
        // √(2·4·5000) = 200, √(2·1·5000) = 100, √(2·9·5000) = 300, plus the checkpoint itself
        assert_eq!(
            (young.rule, young.checkpoints, young.total_s),
            ("Young", None, None)
        );
        assert_eq!(
            (
                young.interval_s,
                young.interval_range_s.map(|r| (r.low, r.high))
            ),
            (Some(204.0), Some((101.0, 309.0)))
        );
        assert_eq!((all.len(), warnings.len()), (2, 0));
        let (bare, warnings) = schedules(None, Estimate::bare(4.0), &budget).expect("schedules");
        assert!(
            bare[0].interval_range_s.is_none() && warnings[0].contains("no interval"),
            "{warnings:?}"
        );
    }

    #[test]
    fn frequent_failures_give_a_warning() {
        assert_eq!(of(None, Some(2500.0)).1, [""; 0]);
        let some = of(None, Some(60.0)).1.join("");
        // 1.3 times without restarts; a restart takes as long as a checkpoint
        assert!(some.contains("1.4 times"), "{some}");
        let (_, never) = of(None, Some(0.3));
        assert!(
            never[0].contains("hardly ever end") && never[0].contains("failures every 0.3 s"),
            "{never:?}"
        );
    }

    #[test]
    fn a_rule_keeps_its_range_if_one_end_affords_no_checkpoint() {
        // 12 s for checkpoints: 6 checkpoints of 2 s, one of 12 s, none of 20 s
        let budget = ScheduleBudget {
            overhead: Some(0.02),
            mtbf_s: Some(5000.0),
            ..ScheduleBudget::default()
        };
        let (all, _) =
            schedules(Some(600.0), Estimate::between(2.0, 2.0, 20.0), &budget).expect("schedules");
        assert_eq!(all[1].interval_range_s.map(|r| r.high), Some(600.0));
        let part = |of: Option<f64>| (of.expect("a cost") * 1e6).round() / 1e6;
        assert_eq!(
            (
                part(all[1].overhead),
                part(all[1].overhead_range.map(|r| r.high))
            ),
            (0.02, 0.2)
        );
        // Daly: τ = √20000·(1 + √0.0002/3 + 0.0002/9) − 2 = 140.09. This gives four segments with a checkpoint and one of 39.635 s without:
        // 5000·e^(R/5000)·(4·(e^((140.09 + t)/5000) − 1) + e^(39.635/5000) − 1)/600 − 1 for R = t, which is 2 s and 20 s
        assert_eq!(
            (
                part(all[3].overhead),
                part(all[3].overhead_range.map(|r| r.high))
            ),
            (0.027595, 0.155478)
        );
        let run = all[3].with_failures.expect("an end");
        let lost = run.checkpoints_s + run.rework_s + run.restarts_s;
        assert!((run.total_s - 600.0 - lost).abs() < 1e-9, "{run:?}");
        assert_eq!(
            (run.checkpoints_s, part(Some(run.total_s / 600.0 - 1.0))),
            (8.0, 0.027595)
        );
        assert!(all[1].with_failures.is_none(), "a budget has no failures");
    }
}
