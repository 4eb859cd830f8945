//! Decides when a point needs no further run: when the confidence intervals of its main quantities are narrow.

use cvc_core::campaign::Until;

use cvc_core::ids::RunId;

use cvc_journal::PointDecision;

use cvc_core::record::{Record, Unit, names};

use cvc_core::store::{CampaignDir, regular};
use cvc_model::stats::{Narrowness, narrowness};
use std::collections::BTreeMap;

/// Quantities whose intervals are examined if the campaign names none. Quantities that were not measured are ignored.
const MAIN: [&str; 2] = [names::CKPT_LATENCY_S, names::WALL_S];

/// Decides whether a point needs no further run, from the records of `runs`, its counted runs that succeeded. `open` is the number of runs that may
/// still be tried. Returns `None` if the point needs further runs and has open ones.
pub(super) fn decide(
    until: &Until,
    dir: &CampaignDir,
    runs: &[&RunId],
    open: u64,
) -> Option<PointDecision> {
    let repeats = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    if repeats < until.min && open > 0 {
        return None;
    }
    let of_runs: Vec<BTreeMap<String, f64>> = runs.iter().map(|run| means_of(dir, run)).collect();
    let measured = |name: &str| of_runs.iter().any(|of_run| of_run.contains_key(name));
    let names: Vec<&str> = match &until.of {
        Some(name) => vec![name],
        None => {
            let main: Vec<&str> = MAIN.into_iter().filter(|name| measured(name)).collect();
            if main.is_empty() {
                vec![names::CKPT_STORED_BYTES]
            } else {
                main
            }
        }
    };
    let widths = names.iter().map(|name| {
        let values: Vec<f64> = of_runs
            .iter()
            .filter_map(|of_run| of_run.get(*name).copied())
            .collect();
        // a run without the quantity leaves its scatter unknown
        let complete = values.len() == of_runs.len();
        (
            *name,
            narrowness(&values, until.half_width_pct)
                .filter(|_| complete)
                .map(|width| of_clock(name, width)),
        )
    });
    decision(until, repeats, open, &widths.collect::<Vec<_>>())
}

/// Rejects an interval with width zero if the quantity is a time: equal times come from a coarse clock that hides the scatter. Equal sizes are exact.
fn of_clock(name: &str, width: Narrowness) -> Narrowness {
    let is_coarse = name.ends_with("_s") && width.half_width_pct == 0.0;
    Narrowness {
        is_narrow: width.is_narrow && !is_coarse,
        ..width
    }
}

fn decision(
    until: &Until,
    repeats: u32,
    open: u64,
    widths: &[(&str, Option<Narrowness>)],
) -> Option<PointDecision> {
    let is_narrow = repeats >= until.min
        && widths
            .iter()
            .all(|(_, width)| width.is_some_and(|w| w.is_narrow));
    if !is_narrow && open > 0 {
        return None;
    }
    let intervals = widths.iter().map(|(name, width)| match width {
        Some(width) => format!("{name} ±{:.1} %", width.half_width_pct),
        None => format!("{name} has no interval"),
    });
    let intervals = intervals.collect::<Vec<_>>().join(", ");
    let asked = until.half_width_pct;
    let after = if repeats == 1 {
        "1 repeat".to_owned()
    } else {
        format!("{repeats} repeats")
    };
    let reason = match is_narrow {
        true => format!("{intervals} after {after}, {asked} % requested"),
        false => {
            format!("{intervals} after {after}, not the requested {asked} %: no runs are left")
        }
    };
    Some(PointDecision {
        repeats,
        is_narrow,
        reason,
    })
}

/// Returns the means of a run's records, by name, without records of single ranks or zones.
pub fn means_of(dir: &CampaignDir, run: &RunId) -> BTreeMap<String, f64> {
    let text =
        regular::read_text(dir.run(run).join("records.jsonl").as_std_path()).unwrap_or_default();
    let mut all: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let records: Vec<Record> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    // times over several attempts are not the times of one repeat
    let is_resumed = records.iter().any(|r| r.name == names::RESUMED_FROM);
    let counts = |r: &Record| !is_resumed || !matches!(r.unit, Unit::Seconds | Unit::Usd);
    for record in records.into_iter().filter(counts) {
        if record.labels.keys().all(|label| label == "ckpt") {
            let (sum, count) = all.entry(record.name).or_default();
            *sum += record.value;
            *count += 1.0;
        }
    }
    all.into_iter()
        .map(|(name, (sum, count))| (name, sum / count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(min: u32) -> Until {
        Until {
            min,
            half_width_pct: 5.0,
            of: None,
        }
    }

    fn width(half_width_pct: f64) -> Option<Narrowness> {
        Some(Narrowness {
            half_width_pct,
            is_narrow: half_width_pct <= 5.0,
        })
    }

    #[test]
    fn equal_times_do_not_end_a_point_and_equal_sizes_do() {
        let none = Narrowness {
            half_width_pct: 0.0,
            is_narrow: true,
        };
        assert!(
            !of_clock(names::CKPT_LATENCY_S, none).is_narrow
                && of_clock(names::CKPT_STORED_BYTES, none).is_narrow
        );
        assert!(
            of_clock(
                names::WALL_S,
                Narrowness {
                    half_width_pct: 0.1,
                    is_narrow: true
                }
            )
            .is_narrow
        );
    }

    #[test]
    fn a_run_that_did_not_record_a_quantity_keeps_its_point_open() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = CampaignDir::at(scratch.path().try_into().expect("UTF-8"));
        let runs = ["a", "b", "c", "d"].map(RunId::from_written);
        let write = |run: &RunId, values: &[f64]| {
            let record = |value: &f64| {
                format!(
                    "{{\"run\":\"{run}\",\"name\":\"wall_s\",\"value\":{value},\"unit\":\"s\",\"source\":\"clock\"}}\n"
                )
            };
            let text: String = values.iter().map(record).collect();
            std::fs::create_dir_all(dir.run(run)).expect("makes");
            std::fs::write(dir.run(run).join("records.jsonl"), text).expect("writes");
        };
        for (run, value) in runs.iter().zip([10.0, 10.01, 9.99]) {
            write(run, &[value]);
        }
        write(&runs[3], &[]);
        let decide = |count: usize, open: u64| {
            let runs: Vec<&RunId> = runs.iter().take(count).collect();
            decide(&until(3), &dir, &runs, open)
        };
        assert!(decide(3, 6).is_some_and(|decision| decision.is_narrow));
        assert_eq!(decide(4, 6), None);
        let all = decide(4, 0).expect("none is left");
        assert!(!all.is_narrow && all.reason.starts_with("wall_s has no interval"));
        assert_eq!(decide(2, 6), None, "as many as must be");
        // several checkpoints of a run count as one value, their mean
        write(&runs[3], &[9.0, 11.0]);
        assert!(decide(4, 6).is_some_and(|decision| decision.is_narrow));
    }

    #[test]
    fn all_quantities_must_be_narrow_unless_no_run_is_left() {
        let of = |repeats: u32, open: u64, widths: &[(&str, Option<Narrowness>)]| {
            decision(&until(3), repeats, open, widths)
        };
        let both = of(4, 6, &[("a", width(3.0)), ("b", width(4.96))]).expect("both are narrow");
        assert_eq!(
            (both.is_narrow, both.reason.as_str()),
            (true, "a ±3.0 %, b ±5.0 % after 4 repeats, 5 % requested")
        );
        assert_eq!(of(4, 6, &[("a", width(3.0)), ("b", width(5.1))]), None);
        assert_eq!(of(4, 6, &[("a", width(3.0)), ("b", None)]), None);
        let all = of(10, 0, &[("a", width(8.2))]).expect("none is left");
        assert_eq!(
            (all.is_narrow, all.reason.as_str()),
            (
                false,
                "a ±8.2 % after 10 repeats, not the requested 5 %: no runs are left"
            )
        );
        assert_eq!(
            of(1, 0, &[("a", None)]).expect("none is left").reason,
            "a has no interval after 1 repeat, not the requested 5 %: no runs are left"
        );
        // the minimum number of repeats holds whatever the first results are
        assert_eq!(decision(&until(5), 4, 6, &[("a", width(0.1))]), None);
    }
}
