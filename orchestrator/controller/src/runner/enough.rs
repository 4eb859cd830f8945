//! When a point needs no further run: the intervals of its main quantities are narrow.

use cvc_core::campaign::Until;

use cvc_core::ids::RunId;

use cvc_journal::Decision;

use cvc_core::record::{Record, names};

use cvc_core::store::{CampaignDir, regular};
use cvc_model::stats::{Narrowness, narrowness};
use std::collections::BTreeMap;

/// What is looked at, as far as it was measured, if the campaign names no quantity.
const MAIN: [&str; 2] = [names::CKPT_LATENCY_S, names::WALL_S];

/// Decides by the records of the counted runs that succeeded; `None`: further runs are needed, and there are some.
pub(super) fn decide(
    until: &Until,
    dir: &CampaignDir,
    runs: &[&RunId],
    open: u64,
) -> Option<Decision> {
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
        // a run that did not record it tells nothing of how it scatters
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

/// Equal times are those of a coarse clock, which says nothing of what they scatter by below its tick; equal sizes are equal.
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
) -> Option<Decision> {
    let is_narrow = repeats >= until.min
        && widths
            .iter()
            .all(|(_, width)| width.is_some_and(|w| w.is_narrow));
    if !is_narrow && open > 0 {
        return None;
    }
    let told = widths.iter().map(|(name, width)| match width {
        Some(width) => format!("{name} ±{:.1} %", width.half_width_pct),
        None => format!("{name} has no interval"),
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let asked = until.half_width_pct;
    let after = if repeats == 1 {
        "1 repeat".to_owned()
    } else {
        format!("{repeats} repeats")
    };
    let reason = match is_narrow {
        true => format!("{told} after {after}, {asked} % asked"),
        false => format!("{told} after {after}, not the {asked} % asked: no further run is left"),
    };
    Some(Decision {
        repeats,
        is_narrow,
        reason,
    })
}

/// The means of what a run recorded, by name, without what belongs to a rank or a zone.
pub fn means_of(dir: &CampaignDir, run: &RunId) -> BTreeMap<String, f64> {
    let text =
        regular::read_text(dir.run(run).join("records.jsonl").as_std_path()).unwrap_or_default();
    let mut all: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for record in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Record>(line).ok())
    {
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
    fn all_quantities_must_be_narrow_unless_no_run_is_left() {
        let of = |repeats: u32, open: u64, widths: &[(&str, Option<Narrowness>)]| {
            decision(&until(3), repeats, open, widths)
        };
        let both = of(4, 6, &[("a", width(3.0)), ("b", width(4.96))]).expect("both are narrow");
        assert_eq!(
            (both.is_narrow, both.reason.as_str()),
            (true, "a ±3.0 %, b ±5.0 % after 4 repeats, 5 % asked")
        );
        assert_eq!(of(4, 6, &[("a", width(3.0)), ("b", width(5.1))]), None);
        assert_eq!(of(4, 6, &[("a", width(3.0)), ("b", None)]), None);
        let all = of(10, 0, &[("a", width(8.2))]).expect("none is left");
        assert_eq!(
            (all.is_narrow, all.reason.as_str()),
            (
                false,
                "a ±8.2 % after 10 repeats, not the 5 % asked: no further run is left"
            )
        );
        assert_eq!(
            of(1, 0, &[("a", None)]).expect("none is left").reason,
            "a has no interval after 1 repeat, not the 5 % asked: no further run is left"
        );
        // as many as must be, whatever the first ones say
        assert_eq!(decision(&until(5), 4, 6, &[("a", width(0.1))]), None);
    }
}
