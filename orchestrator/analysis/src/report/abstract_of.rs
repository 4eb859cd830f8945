//! The campaign in a few sentences: its question, its measurements, and how certain the results are. The report's answers follow these sentences.

use super::effects::percent;
use crate::results::{data::Data, quantity};
use cvc_core::{
    record::names,
    units::{counted, duration, size},
};
use cvc_index::RunOutcome;

/// Returns the sentences; `None` if no run has succeeded.
pub(super) fn of(data: &Data) -> Option<String> {
    let measured: Vec<usize> = (0..data.points.len())
        .filter(|p| data.points[*p].counted(&data.runs) > 0)
        .collect();
    if measured.is_empty() {
        return None;
    }
    let sentences = [
        varied(data, measured.len()),
        Some(precision(data, &measured)),
    ];
    let extents = extents(data)
        .into_iter()
        .map(|(what, found)| format!("A {what} {found}."));
    let mut sentences: Vec<String> = sentences.into_iter().flatten().collect();
    sentences.splice(1.min(sentences.len())..1.min(sentences.len()), extents);
    Some(sentences.join(" "))
}

/// Returns the range of checkpoint sizes and of checkpoint times over all points.
pub(super) fn extents(data: &Data) -> Vec<(String, String)> {
    [
        extent(data, names::CKPT_STORED_BYTES, "checkpoint stores", size),
        extent(data, names::CKPT_LATENCY_S, "checkpoint takes", short),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Formats a number of seconds; values below one second have three decimals.
fn short(seconds: f64) -> String {
    match seconds {
        0.001..0.9995 => format!("{:.3} s", seconds),
        ..0.001 => "less than 1 ms".to_owned(),
        _ => duration(seconds),
    }
}

/// Describes the varied factors and the number of measured points.
fn varied(data: &Data, measured: usize) -> Option<String> {
    let varying: Vec<String> = data
        .varying()
        .into_iter()
        .map(|factor| {
            let levels = data.levels(factor).len();
            let heading = quantity::factor_heading(factor);
            format!("{heading} ({levels})")
        })
        .collect();
    let over = match varying.split_last() {
        None => "one setting was run".to_owned(),
        Some((last, [])) => format!("{last} was varied"),
        Some((last, rest)) => format!("{} and {last} were varied", rest.join(", ")),
    };
    let points = data.points.len();
    let of = if measured == points {
        counted(points as u32, "point")
    } else {
        format!("{measured} of {points} points")
    };
    let succeeded = data.runs.iter().filter(|run| run.counts()).count();
    let failed = match data.count(RunOutcome::Failed) + data.count(RunOutcome::Quarantined) {
        0 => String::new(),
        n => format!("; {} failed", counted(n as u32, "run")),
    };
    let mut letters = over.chars();
    let first = letters.next()?.to_uppercase();
    Some(format!(
        "{first}{}: {} measured with {}{failed}.",
        letters.as_str(),
        of,
        counted(succeeded as u32, "run")
    ))
}

/// Returns the smallest and the largest mean of a quantity over the points.
fn extent(
    data: &Data,
    quantity: &str,
    what: &str,
    shown: impl Fn(f64) -> String,
) -> Option<(String, String)> {
    let means = || {
        data.points
            .iter()
            .filter_map(|p| p.summaries.get(quantity))
            .map(|s| s.mean)
    };
    let least = means().min_by(f64::total_cmp)?;
    let greatest = means().max_by(f64::total_cmp)?;
    let (least, greatest) = (shown(least), shown(greatest));
    let found = if least == greatest {
        least
    } else {
        format!("{least} to {greatest}, by point")
    };
    Some((what.to_owned(), found))
}

/// Describes the width of the intervals of wall time and stored bytes.
fn precision(data: &Data, measured: &[usize]) -> String {
    let single = measured
        .iter()
        .filter(|p| data.points[**p].counted(&data.runs) < 2)
        .count();
    if single == measured.len() {
        return "Precision: every point was measured once, so the scatter of the results is unknown."
            .to_owned();
    }
    let intervals: Vec<String> = [
        (names::WALL_S, "wall time"),
        (names::CKPT_STORED_BYTES, "stored size"),
    ]
    .into_iter()
    .filter_map(|(quantity, what)| half_width(data, measured, quantity, what))
    .collect();
    let single = match single {
        0 => String::new(),
        n => format!(
            "; {} measured only once, without an interval",
            counted(n as u32, "point")
        ),
    };
    if intervals.is_empty() {
        return format!("Precision: no mean has an interval{single}.");
    }
    format!(
        "Precision: the 95 % interval of the mean is {}{single}.",
        intervals.join(", ")
    )
}

/// Describes the half widths of a quantity's intervals, and the points whose scatter is too large for an interval; `None` if the scatter is unknown.
fn half_width(data: &Data, measured: &[usize], quantity: &str, what: &str) -> Option<String> {
    let summaries = || {
        measured
            .iter()
            .filter_map(|p| data.points[*p].summaries.get(quantity))
    };
    let mut halves: Vec<f64> = summaries()
        .filter_map(|s| Some((s.interval?, s.mean)))
        .filter(|(_, mean)| *mean > 0.0)
        .map(|(interval, mean)| (interval.high - interval.low) / 2.0 / mean * 100.0)
        .collect();
    halves.sort_by(f64::total_cmp);
    let narrow = halves.last().map(|most| {
        let middle = percent(halves[halves.len() / 2]);
        match percent(*most) {
            most if most == "0.00" => format!("± 0 for the {what}"),
            most if most == middle => format!("± {middle} % for the {what}"),
            most => {
                format!("± {middle} % for the {what} (median of the points; ± {most} % at worst)")
            }
        }
    });
    let wide = summaries().filter(|s| s.interval.is_none() && s.n > 1);
    let wide = wide.max_by_key(|s| s.values_needed).and_then(|widest| {
        let count = summaries()
            .filter(|s| s.interval.is_none() && s.n > 1)
            .count();
        Some(format!(
            "none for the {what} of {} ({})",
            counted(count as u32, "point"),
            widest.why_no_interval()?
        ))
    });
    match (narrow, wide) {
        (Some(narrow), Some(wide)) => Some(format!("{narrow} and {wide}")),
        (narrow, wide) => narrow.or(wide),
    }
}
