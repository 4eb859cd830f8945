//! Prints the result of `cvc try` on one screen.

use super::{
    compare::{Compared, ComparedRow, TryCompareOutput},
    results::{Basis, FILE, ForecastRow, TryResult, Value},
};
use cvc_core::measured::names;
use cvc_core::units::{MIB, counted, duration, size};
use cvc_model::Estimate;
use cvc_show::{Blocks, Table, or_dash, significant};

/// Prints the results of all commands, and how they compare.
pub fn show(out: &mut Blocks, printed: &TryCompareOutput) {
    match printed.commands.as_slice() {
        [one] => show_one(out, one),
        several => show_several(out, several, &printed.comparisons),
    }
}

/// Formats a size with the half-width of its interval, in KiB, MiB or GiB.
fn with_size(value: &Value) -> String {
    match value.mean / MIB {
        mib if mib < 1.0 => with_half(value, "KiB", MIB / 1024.0),
        mib if mib < 10_240.0 => with_half(value, "MiB", MIB),
        _ => with_half(value, "GiB", MIB * 1024.0),
    }
}

/// Formats a mean with the half-width of its interval; the half-width determines the number of decimals.
fn with_half(value: &Value, unit: &str, divisor: f64) -> String {
    let mean = value.mean / divisor;
    match value.interval {
        Some(i) => {
            let half = (i.high - i.low) / 2.0 / divisor;
            let decimals = decimals(half);
            format!("{mean:.decimals$} ± {half:.decimals$} {unit}")
        }
        None if value.n > 1 => {
            format!("{} {unit}, too variable for an interval", significant(mean))
        }
        None => format!("{} {unit}", significant(mean)),
    }
}

/// Returns the number of decimals for a value with this half-width.
fn decimals(half: f64) -> usize {
    match half {
        half if half >= 10.0 => 0,
        half if half >= 1.0 => 1,
        half if half >= 0.1 => 2,
        _ => 3,
    }
}

fn about(tried: &TryResult) -> String {
    let with = counted(tried.runs.with_checkpoint, "run");
    let runs = match tried.runs.without_checkpoint {
        0 => format!("{with} with a checkpoint"),
        without => format!("{with} with a checkpoint, {without} without"),
    };
    let by = match (&tried.checkpointer_version, tried.checkpointer) {
        (Some(version), _) if version.to_lowercase().starts_with("dmtcp") => version.clone(),
        (Some(version), _) => format!("DMTCP {version}"),
        (None, "dmtcp") => "DMTCP".to_owned(),
        (None, _) => "its own checkpoints".to_owned(),
    };
    let cores = counted(tried.cores, "core");
    format!(
        "{}, {by}; {} on {cores}; {runs}",
        tried.mpi,
        counted(tried.processes, "process")
    )
}

fn show_one(out: &mut Blocks, tried: &TryResult) {
    out.line(tried.command.clone());
    out.say(about(tried));
    out.gap();
    let mut rows = Table::plain(["a checkpoint", "mean ± half of the 95 % interval"])
        .wrap(&["mean ± half of the 95 % interval"]);
    let seconds = |value: Option<&Value>| or_dash(value, |v| with_half(v, "s", 1.0));
    rows.row(["stored".to_owned(), stored(tried)]);
    rows.row(["its time".to_owned(), time(tried)]);
    rows.row([
        "command without".to_owned(),
        seconds(tried.without_s.as_ref()),
    ]);
    rows.row(["command with one".to_owned(), with_one(tried)]);
    rows.row(["restart".to_owned(), restart(tried)]);
    if let Some((file, zones)) = rank(tried) {
        rows.row(["file of a rank".to_owned(), format!("{file}: {zones}")]);
    }
    let others = mib_of(tried, &["launcher", "other files"]);
    if !others.is_empty() && tried.checkpointer == "dmtcp" {
        rows.row(["besides the ranks".to_owned(), others.join(", ")]);
    }
    out.table(rows);
    out.gap();
    show_forecasts(out, &tried.forecasts);
    if let Some(schedule) = &tried.schedule {
        out.gap();
        let assumed = if schedule.mtbf_is_assumed {
            ", an assumption: --mtbf"
        } else {
            ""
        };
        out.say(format!(
            "Take a checkpoint every {} of the program (Daly) if a failure comes every {} on average{assumed}. Checkpoints and failures then cost {} % of its time.",
            duration(schedule.interval_s),
            duration(schedule.mtbf_s),
            significant(schedule.loss_pct)
        ));
    }
    if tried.schedule.is_none() {
        out.gap();
        out.say("No checkpoint interval: the checkpoint time is unknown.");
    }
    if let Some(own) = &tried.own_checkpoint {
        out.say(format!(
            "Its own checkpoint: {} in {} {}, {}{}.",
            size(own.bytes as f64),
            counted(own.files.len(), "file"),
            own.evidence,
            own.files.first().map(String::as_str).unwrap_or_default(),
            if own.files.len() > 1 { ", …" } else { "" },
        ));
    }
    for note in &tried.notes {
        out.say(format!("note: {note}"));
    }
}

/// Formats the sizes of the zones with these names.
fn mib_of(tried: &TryResult, names: &[&str]) -> Vec<String> {
    let zones = tried.zones.iter().filter(|zone| names.contains(&zone.name));
    zones
        .map(|zone| format!("{} {:.1} MiB", zone.name, zone.mib))
        .collect()
}

/// Formats the mean size of a rank's file, and the mean of each of its zones; `None` if no file size is known.
fn rank(tried: &TryResult) -> Option<(String, String)> {
    let file = tried.zones.iter().find(|zone| zone.name == FILE)?;
    let zones = tried
        .zones
        .iter()
        .filter(|zone| zone.is_of_rank && zone.name != FILE);
    let zones: Vec<String> = zones
        .map(|zone| format!("{} {:.1}", zone.name, zone.mib))
        .collect();
    Some((format!("{:.1} MiB", file.mib), zones.join(", ")))
}

fn stored(tried: &TryResult) -> String {
    let size = or_dash(tried.stored_bytes.as_ref(), with_size);
    let files = tried.files.map(|files| format!(" in {files:.0} files"));
    size + &files.unwrap_or_default()
}

fn time(tried: &TryResult) -> String {
    let parts = tried
        .coordination_s
        .zip(tried.storage_s)
        .map(|(coordination, storage)| {
            format!(
                " ({} s coordination, {} s storage)",
                significant(coordination),
                significant(storage)
            )
        });
    match (&tried.checkpoint_s, &tried.own_checkpoint) {
        (Some(value), _) => with_half(value, "s", 1.0) + &parts.unwrap_or_default(),
        (None, Some(own)) => match own.write_s {
            Some(seconds) => {
                format!("about {seconds:.1} s, from the first to the last change of its files")
            }
            None => "below 0.1 s, by the times of its files".to_owned(),
        },
        (None, None) => "-".to_owned(),
    }
}

fn with_one(tried: &TryResult) -> String {
    let time = or_dash(tried.with_s.as_ref(), |v| with_half(v, "s", 1.0));
    match &tried.overhead {
        Some(of) => {
            let interval = of
                .interval
                .map(|i| format!(" (95 %: {:+.0} to {:+.0} %)", i.low, i.high));
            format!(
                "{time}: {:+.0} %{}",
                of.percent,
                interval.unwrap_or_default()
            )
        }
        None if tried.checkpointer == "application" => {
            format!("{time}: the program always writes its checkpoints")
        }
        None => time,
    }
}

fn restart(tried: &TryResult) -> String {
    let of = &tried.restart;
    let to_end = of.to_end_s.map(|s| format!(", {} to its end", duration(s)));
    match of.result {
        "verified" => format!("verified{}; {}", to_end.unwrap_or_default(), of.reason),
        "works" => format!("works{}; {}", to_end.unwrap_or_default(), of.reason),
        "failed" => format!("failed: {}", of.reason),
        _ => of.reason.clone(),
    }
}

fn show_forecasts(out: &mut Blocks, rows: &[ForecastRow]) {
    let number = |estimate: Option<Estimate>| or_dash(estimate, |e| significant(e.value));
    let interval = |estimate: Option<Estimate>| {
        or_dash(estimate.and_then(|e| e.interval), |i| {
            format!("{} … {}", significant(i.low), significant(i.high))
        })
    };
    let predicted: Vec<&ForecastRow> = rows.iter().filter(|row| row.stored_mib.is_some()).collect();
    let table = Table::of(
        predicted,
        &[
            ("processes", &|row| row.processes.to_string()),
            ("stored, MiB", &|row| number(row.stored_mib)),
            ("95 % interval", &|row| interval(row.stored_mib)),
            ("time, s", &|row| number(row.checkpoint_s)),
            ("interval", &|row| interval(row.checkpoint_s)),
            ("from", &|row| basis(row.basis).to_owned()),
        ],
    );
    out.table(table);
    let with_reason: Vec<&ForecastRow> = rows.iter().filter(|row| row.reason.is_some()).collect();
    if let Some(first) = with_reason.first() {
        let counts = with_reason.iter().map(|row| row.processes.to_string());
        out.say(format!(
            "with {} processes: {}",
            counts.collect::<Vec<_>>().join(" and "),
            first.reason.clone().unwrap_or_default()
        ));
    }
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Runs => "runs",
        Basis::Forecast => "forecast",
        Basis::Assumption => "assumption",
        Basis::None => "-",
    }
}

/// Returns the letter that names a command among several: A, B, ...
pub fn letter(place: usize) -> String {
    char::from_digit(place as u32 + 10, 36)
        .map_or_else(|| place.to_string(), |c| c.to_ascii_uppercase().to_string())
}

fn show_several(out: &mut Blocks, commands: &[TryResult], comparisons: &[Compared]) {
    for (place, tried) in commands.iter().enumerate() {
        out.say(format!("{}: {}", letter(place), tried.command));
        out.item(1, about(tried));
    }
    out.gap();
    let letters: Vec<String> = (0..commands.len()).map(letter).collect();
    let headings = std::iter::once("").chain(letters.iter().map(String::as_str));
    let mut rows = Table::plain(headings);
    let mut row = |name: &str, cell: &dyn Fn(&TryResult) -> String| {
        let cells = std::iter::once(name.to_owned()).chain(commands.iter().map(cell));
        rows.row(cells.collect::<Vec<_>>());
    };
    row("command", &|t| {
        or_dash(t.without_s.as_ref().or(t.with_s.as_ref()), |v| {
            with_half(v, "s", 1.0)
        })
    });
    row("stored", &|t| or_dash(t.stored_bytes.as_ref(), with_size));
    row("checkpoint", &|t| {
        or_dash(t.checkpoint_s.as_ref(), |v| with_half(v, "s", 1.0))
    });
    row("overhead", &|t| {
        or_dash(t.overhead, |o| format!("{:+.0} %", o.percent))
    });
    row("restart", &|t| t.restart.result.to_owned());
    out.table(rows);
    out.gap();
    for compared in comparisons {
        for row in &compared.rows {
            out.say(sentence(
                row,
                &letter(compared.first),
                &letter(compared.second),
            ));
        }
    }
    for (place, tried) in commands.iter().enumerate() {
        for note in &tried.notes {
            out.say(format!("note on {}: {note}", letter(place)));
        }
    }
}

/// Describes a comparison in the style of hyperfine: how many times faster or smaller.
fn sentence(row: &ComparedRow, first: &str, second: &str) -> String {
    let is_larger = row.ratio >= 1.0;
    let (better, worse, ratio) = match is_larger {
        true => (first, second, row.ratio),
        false => (second, first, 1.0 / row.ratio),
    };
    let half = row
        .interval
        .filter(|i| i.low > 0.0)
        .map(|i| match is_larger {
            true => (i.high - i.low) / 2.0,
            false => (1.0 / i.low - 1.0 / i.high) / 2.0,
        });
    let times = match half {
        Some(half) => {
            let decimals = decimals(half).max(1);
            format!("{ratio:.decimals$} ± {half:.decimals$} times")
        }
        None => format!("{ratio:.2} times"),
    };
    let (what, of, word) = match row.quantity {
        names::WALL_S => ("time of the command", "", "faster"),
        names::CKPT_STORED_BYTES => ("size of a checkpoint", "a checkpoint of ", "smaller"),
        _ => ("time of a checkpoint", "a checkpoint of ", "faster"),
    };
    match row.verdict {
        "larger" | "smaller" => format!("{of}{better} is {times} {word} than {worse}"),
        "same" => format!("{what}: {first} and {second} are the same within 2 %"),
        _ => format!(
            "{what}: no difference shown between {first} and {second} ({times}); more --repeats narrow it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{decimals, sentence, with_half, with_size};
    use crate::command::tryout::{compare::ComparedRow, results::Value};
    use cvc_core::measured::names;
    use cvc_model::stats::Interval;

    /// Returns a mean of one run, or of two runs if it has an interval.
    fn value(mean: f64, half: Option<f64>) -> Value {
        Value {
            n: if half.is_some() { 2 } else { 1 },
            mean,
            sd: None,
            interval: half.map(|half| Interval {
                low: mean - half,
                high: mean + half,
            }),
        }
    }

    #[test]
    fn a_number_has_as_many_digits_as_its_interval() {
        assert_eq!(with_half(&value(9.191, Some(27.2)), "s", 1.0), "9 ± 27 s");
        assert_eq!(
            with_half(&value(2.3432, Some(0.251)), "s", 1.0),
            "2.34 ± 0.25 s"
        );
        assert_eq!(with_half(&value(2.3432, None), "s", 1.0), "2.343 s");
        let scattering = Value {
            n: 2,
            ..value(2.3432, None)
        };
        assert_eq!(
            with_half(&scattering, "s", 1.0),
            "2.343 s, too variable for an interval"
        );
        assert_eq!(with_size(&value(200_000.0, None)), "195.3 KiB");
        assert_eq!(with_size(&value(3e10, Some(1e9))), "27.94 ± 0.93 GiB");
        assert_eq!([10.0, 1.0, 0.1, 0.0].map(decimals), [0, 1, 2, 3]);
    }

    #[test]
    fn commands_are_compared_as_hyperfine_does() {
        let row = |quantity, ratio: f64, verdict| ComparedRow {
            quantity,
            ratio,
            interval: Some(Interval {
                low: ratio - 0.1,
                high: ratio + 0.1,
            }),
            verdict,
        };
        let said = |row: &ComparedRow| sentence(row, "A", "B");
        assert_eq!(
            said(&row(names::WALL_S, 1.9, "larger")),
            "A is 1.90 ± 0.10 times faster than B"
        );
        assert_eq!(
            said(&row(names::CKPT_STORED_BYTES, 0.5, "smaller")),
            "a checkpoint of B is 2.00 ± 0.42 times smaller than A"
        );
        assert_eq!(
            said(&row(names::CKPT_LATENCY_S, 1.0, "same")),
            "time of a checkpoint: A and B are the same within 2 %"
        );
        assert!(said(&row(names::WALL_S, 1.1, "cannot-tell")).contains("no difference shown"));
    }
}
