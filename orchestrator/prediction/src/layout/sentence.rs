//! The recommendation, in a sentence.

use super::{answer::LayoutForecast, question::LayoutQuestion};
use cvc_core::units::{counted, duration};

/// Relative difference between times below which layouts count as equal.
const ALIKE: f64 = 0.01;

/// Returns the sentence that recommends a layout. `layouts` must be sorted, the fastest first.
pub(super) fn sentence(question: &LayoutQuestion, layouts: &[LayoutForecast]) -> String {
    let (Some(best), Some(worst)) = (layouts.first(), layouts.last()) else {
        return String::new();
    };
    let operations =
        |of: &LayoutForecast| counted(format!("{:.0}", of.operations.value), "operation");
    let seconds = |of: &LayoutForecast| of.time.total_s.value;
    let mut text = if layouts.len() == 1 {
        format!(
            "{} is the only layout whose operations are known here: {}, {}",
            best.layout.word(),
            operations(best),
            duration(seconds(best))
        )
    } else {
        let saved = 1.0 - seconds(best) / seconds(worst).max(f64::MIN_POSITIVE);
        let share = best.operations.value / worst.operations.value.max(f64::MIN_POSITIVE);
        let head = format!(
            "{} needs {}, {} of those of {}",
            best.layout.word(),
            operations(best),
            percent(share),
            worst.layout.word()
        );
        match saved < ALIKE {
            true => format!("{head}; the bytes decide the time, which differs by less than 1 %"),
            false if overlaps(best, &layouts[1..]) => format!(
                "{head}, and takes {} less time; the intervals of the fastest overlap, so measure before choosing",
                percent(saved)
            ),
            false => format!("{head}, and takes {} less time", percent(saved)),
        }
    };
    let overloads: Vec<&str> = layouts
        .iter()
        .filter(|of| of.load.is_some_and(|load| load.jobs < 1.0))
        .map(|of| of.layout.word())
        .collect();
    if !overloads.is_empty() {
        text += &format!(
            "; at this interval {} would overload the metadata server",
            overloads.join(", ")
        );
    }
    let beyond: Vec<&str> = layouts
        .iter()
        .filter(|of| {
            question
                .file_limit
                .is_some_and(|limit| of.files.peak > limit)
        })
        .map(|of| of.layout.word())
        .collect();
    match beyond[..] {
        [] => {}
        [one] => text += &format!("; {one} exceeds the limit of files"),
        _ => text += &format!("; {} exceed the limit of files", beyond.join(", ")),
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn overlaps(best: &LayoutForecast, others: &[LayoutForecast]) -> bool {
    let Some(own) = best.time.total_s.interval else {
        return true;
    };
    others.first().is_some_and(|next| {
        next.time
            .total_s
            .interval
            .is_none_or(|interval| interval.low <= own.high)
    })
}
